//! A flood hides no attack in a connection that was established before it or during it, as long as the completed handshakes fit the
//! bounds; beyond them it is counted what was given up. Nothing is allocated meanwhile.

mod counting_support;
mod flood_support;
mod support;

use counting_support::allocations;
use flood_support::Flood;
use ringtap_detect::{Alert, Detector, FlowEnd, FlowView, HttpSettings, Limits, LinkType, Sink};
use ringtap_samples::apps::client_hello;
use ringtap_samples::evasions::{Conversation, Packet};

/// Server of the attacks, which is in the rules.
const SERVER: &str = "203.0.113.9";
const RULES: &str = r#"
alert tcp any any -> 203.0.113.9 8080 (flow:established,to_server; content:"evil-attack"; sid:1;)
alert http any any -> 203.0.113.9 any (http.uri; content:"/evil"; http.header; content:"X-Evil: attack"; sid:2;)
alert smtp any any -> 203.0.113.9 any (smtp.mail_from; content:"evil-attack"; sid:3;)
alert tls any any -> 203.0.113.9 any (tls.sni; content:"evil.example"; sid:4;)
alert dns any any -> any any (dns.query; content:"evil1.example"; sid:5;)
alert ip any any -> 203.0.113.8 any (content:"evil"; sid:6;)
"#;

/// Alerts as rule and client's port, and flows' ends.
#[derive(Default)]
struct Finds {
    alerts: Vec<(u32, u16)>,
    ended: [u64; 3],
}

impl Sink for Finds {
    fn alert(&mut self, alert: &Alert<'_>) {
        // Of the attacks alone: the flood has names that one rule looks for, too.
        if alert.rule.meta.sid < 5 && self.alerts.len() < self.alerts.capacity() {
            self.alerts.push((alert.rule.meta.sid, alert.packet.ports.0));
        }
    }

    fn flow(&mut self, _flow: &FlowView<'_>, end: FlowEnd) {
        self.ended[end as usize] += 1;
    }
}

/// A detector under a flood.
struct Sensor {
    detector: Detector,
    finds: Finds,
    now_ns: u64,
    fed: u64,
    allocations: u64,
}

impl Sensor {
    fn new(limits: Limits) -> Self {
        let finds = Finds { alerts: Vec::with_capacity(4096), ..Finds::default() };
        let detector = Detector::new(support::program(RULES), limits);
        Self { detector, finds, now_ns: 1_700_000_000_000_000_000, fed: 0, allocations: 0 }
    }

    fn feed(&mut self, frame: &[u8]) {
        self.now_ns += 1000;
        self.fed += 1;
        let Self { detector, finds, now_ns, .. } = self;
        self.allocations +=
            allocations(|| detector.packet(frame, LinkType::Ethernet, frame.len() as u32, *now_ns, finds));
    }

    fn endure(&mut self, flood: &mut Flood, packets: usize) {
        (0..packets).for_each(|_| self.feed(&flood.frame()));
    }

    /// What is counted is consistent, and no memory was taken.
    fn check(&mut self) {
        while self.detector.is_behind() {
            self.detector.expire(self.now_ns, &mut self.finds);
        }
        let counters = self.detector.counters();
        let [timed_out, evicted, _] = self.finds.ended;
        assert_eq!((counters.packets, self.allocations), (self.fed, 0));
        assert_eq!(counters.flows.begun, counters.flows_now + timed_out + evicted);
        assert_eq!(counters.flows.evicted, evicted);
        // Sessions that begin anew in the place of their own end as if timed out.
        assert!(counters.flows.timed_out <= timed_out);
        self.detector.finish(self.now_ns, &mut self.finds);
        assert_eq!(self.finds.ended.iter().sum::<u64>(), counters.flows.begun);
    }
}

/// An attack in two halves, each a list of positions and bytes.
struct Planted {
    talk: Conversation,
    sid: u32,
    halves: [(i64, Vec<u8>); 2],
}

impl Planted {
    /// Of each kind in turn.
    fn new(number: u16) -> Self {
        let hello = client_hello("evil.example");
        let (sid, port, first, second): (u32, u16, &[u8], &[u8]) = match number % 5 {
            0 | 1 => (1, 8080, b"evil-", b"attack"),
            2 => (2, 80, b"GET /evil HTTP/1.1\r\nHost: a\r\nX-Ev", b"il: attack\r\n\r\n"),
            3 => (3, 25, b"EHLO a\r\nMAIL FROM:<evil-", b"attack@example.org>\r\n"),
            _ => (4, 443, &hello[..40], &hello[40..]),
        };
        let client = format!("192.0.2.{}", 1 + number % 200);
        let talk = Conversation::open(&client, SERVER, [2000 + number, port], &[]);
        let mut halves = [(0, first.to_vec()), (first.len() as i64, second.to_vec())];
        if number % 5 == 1 {
            // The end comes first.
            halves.reverse();
        }
        Self { talk, sid, halves }
    }

    /// Its handshake and its first half; its second half.
    fn frames(&mut self, half: usize) -> Vec<Vec<u8>> {
        let (at, bytes) = &self.halves[half];
        self.talk.send(&Packet::data(*at, bytes));
        std::mem::take(&mut self.talk.frames)
    }

    fn alert(&self) -> (u32, u16) {
        (self.sid, self.talk.ports[0])
    }
}

/// Half of the attacks begin before the flood and half within; all end behind it. Those that were found, and those that were not.
fn withstand(sensor: &mut Sensor, flood: &mut Flood, attacks: u16, packets: usize) -> (usize, Vec<(u32, u16)>) {
    let mut planted: Vec<Planted> = (0..attacks).map(Planted::new).collect();
    let (before, during) = planted.split_at_mut(usize::from(attacks) / 2);
    before.iter_mut().flat_map(|attack| attack.frames(0)).for_each(|frame| sensor.feed(&frame));
    sensor.endure(flood, packets / 2);
    for attack in during {
        attack.frames(0).iter().for_each(|frame| sensor.feed(frame));
        sensor.endure(flood, packets / 4 / usize::from(attacks));
    }
    sensor.endure(flood, packets / 4);
    assert!(sensor.finds.alerts.is_empty(), "{:?}", sensor.finds.alerts);
    for attack in &mut planted {
        attack.frames(1).iter().for_each(|frame| sensor.feed(frame));
        sensor.endure(flood, packets / 8 / usize::from(attacks));
    }
    let mut found = sensor.finds.alerts.clone();
    found.sort_unstable();
    assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "told twice: {found:?}");
    let missed = planted.iter().map(Planted::alert).filter(|alert| !found.contains(alert)).collect();
    (found.len(), missed)
}

/// Flows at one time.
const FLOWS: usize = 4096;

/// Room for what each of the flows says but for bytes out of order, of which there is too little for all that want some.
fn wide() -> Limits {
    let http = HttpSettings { connections: FLOWS, ..HttpSettings::default() };
    Limits { flows: FLOWS, windows: 2 * FLOWS, early_bytes: 4 << 20, http, ..Limits::default() }
}

/// Pools that are much smaller than the table of flows.
fn narrow() -> Limits {
    let http = HttpSettings { connections: FLOWS / 8, ..HttpSettings::default() };
    Limits { flows: FLOWS, windows: FLOWS / 16, http, ..wide() }
}

/// So many connections of the flood are real.
fn nothing_is_hidden(limits: Limits, seed: u64, connections: usize, packets: usize) {
    let mut sensor = Sensor::new(limits);
    let (found, missed) = withstand(&mut sensor, &mut Flood::new(seed, connections), 100, packets);
    let counters = sensor.detector.counters();
    assert!(missed.is_empty(), "{found} found, not {missed:?}: {counters:#?}");
    assert!(counters.flows.evicted as usize > packets / 20 && counters.defrag.evicted > 0, "{counters:#?}");
    // The memory for early segments was used up.
    assert!(connections == 0 || counters.segments_refused as usize > packets / 20, "{counters:#?}");
    sensor.check();
}

#[test]
fn a_flood_of_what_is_forged_hides_nothing() {
    nothing_is_hidden(narrow(), 11, 0, 300_000);
}

#[test]
fn a_flood_of_real_connections_within_the_bounds_hides_nothing() {
    nothing_is_hidden(wide(), 13, 3000, 300_000);
}

/// Connections of HTTP within the usual bound of flows, many more than there once were places for, some of which say so much that the
/// memory for heads is used up: these take it from each other.
#[test]
fn many_established_connections_hide_no_other() {
    const CONNECTIONS: u16 = 12_000;
    let http = HttpSettings { bytes: 32 << 20, ..Limits::default().http };
    let mut sensor = Sensor::new(Limits { http, ..Limits::default() });
    // The third of each five is one of HTTP.
    let mut planted: Vec<Planted> = (0..20).map(|number| Planted::new(2 + 5 * number)).collect();
    planted.iter_mut().flat_map(|attack| attack.frames(0)).for_each(|frame| sensor.feed(&frame));
    for number in 0..CONNECTIONS {
        let [high, low] = number.to_be_bytes();
        let mut talk = Conversation::open(&format!("172.16.{high}.{low}"), "198.51.100.9", [1024, 80], &[]);
        talk.send(&Packet::data(0, b"GET /evil HTTP/1.1\r\n"));
        talk.send(&Packet { by_client: false, acknowledges: 20, window: 65_535, ..Packet::client() });
        let field = [b"X-Evil: ", &[b'a'; 1380][..], b"\r\n"].concat();
        let fields = if number % 8 == 0 { 20 } else { 0 };
        (0..fields).for_each(|at| talk.send(&Packet::data(20 + at * 1390, &field)));
        talk.frames.iter().for_each(|frame| sensor.feed(frame));
    }
    let counters = sensor.detector.counters();
    assert_eq!((counters.flows.evicted, counters.windows_evicted), (0, 0));
    assert!(counters.http.evicted > 100 && sensor.finds.alerts.is_empty(), "{counters:#?}");
    planted.iter_mut().flat_map(|attack| attack.frames(1)).for_each(|frame| sensor.feed(&frame));
    let expected: Vec<(u32, u16)> = planted.iter().map(Planted::alert).collect();
    assert_eq!(sensor.finds.alerts, expected);
    sensor.check();
}

#[test]
fn beyond_the_bounds_it_is_told() {
    let mut sensor = Sensor::new(wide());
    let (found, missed) = withstand(&mut sensor, &mut Flood::new(17, 20_000), 100, 300_000);
    let counters = sensor.detector.counters();
    assert!(!missed.is_empty(), "{found} found");
    assert!(counters.flows.evicted > 10_000, "{counters:#?}");
    sensor.check();
}

/// Ten million packets.
#[test]
#[ignore = "takes minutes: make test-long"]
fn a_long_flood_hides_nothing() {
    nothing_is_hidden(narrow(), 19, 0, 5_000_000);
    nothing_is_hidden(wide(), 23, 3000, 5_000_000);
}

//! Connections that are silent for long: what they say later is read as what it is, and their records are told in time.

mod support;
mod waiting_support;

use ringtap_detect::{FlowEnd, Limits};
use ringtap_samples::evasions::{Conversation, Packet};
use ringtap_samples::frames::{Ends, flag};
use ringtap_wire::LinkType;
use waiting_support::{Sensor, data, open, open_to};

const RULES: &str = r#"alert tcp any any -> any any (flow:established,to_server; content:"evil-attack"; sid:1;)
    alert http any any -> any any (flow:established,to_server; http.request_body; content:"evil-body"; sid:2;)"#;
const MINUTE_NS: u64 = 60_000_000_000;

/// Minutes pass, in each of which something else happens.
fn wait(sensor: &mut Sensor, minutes: u64) {
    for _ in 0..minutes {
        sensor.now_ns += MINUTE_NS;
        (0..200).for_each(|_| {
            sensor.now_ns += 20_000;
            sensor.detector.expire(sensor.now_ns, &mut sensor.finds);
        });
    }
}

fn by_server(at: usize, acknowledges: usize, bytes: &[u8]) -> Packet {
    Packet { by_client: false, acknowledges: acknowledges as i64, ..data(at, bytes) }
}

fn ends(sensor: &Sensor) -> Vec<FlowEnd> {
    sensor.finds.ends.iter().map(|(end, _)| *end).collect()
}

#[test]
fn what_is_said_after_a_long_silence_is_inspected() {
    for minutes in [5, 11, 100, 2000] {
        let mut sensor = Sensor::new(RULES, support::limits());
        let mut talk = open(2000);
        talk.send(&data(0, b"evil-"));
        talk.send(&by_server(0, 5, b"yes"));
        sensor.feed(&mut talk);
        wait(&mut sensor, minutes);
        let is_long = minutes > 10;
        // Once, however long it is.
        assert_eq!(ends(&sensor), vec![FlowEnd::Timeout; usize::from(is_long)], "{minutes}");
        talk.send(&data(5, b"attack"));
        sensor.feed(&mut talk);
        assert_eq!(sensor.finds.alerts, [1], "{minutes}");
        sensor.detector.finish(sensor.now_ns, &mut sensor.finds);
        let counters = sensor.detector.counters();
        // The alert is in the second record; both have the handshake.
        assert_eq!(sensor.finds.ends.last(), Some(&(FlowEnd::Shutdown, 1)), "{minutes}");
        assert_eq!((counters.flows_without_handshake, counters.flows_one_sided), (0, 0), "{minutes}");
        assert_eq!(counters.flows.begun, sensor.finds.ends.len() as u64, "{minutes}");
        assert_eq!(counters.flows.timed_out, u64::from(is_long), "{minutes}");
    }
}

/// The sweep need not have come by.
#[test]
fn a_packet_ends_the_silence_before_the_sweep() {
    let mut sensor = Sensor::new(RULES, support::limits());
    let mut talk = open(2000);
    talk.send(&data(0, b"evil-"));
    sensor.feed(&mut talk);
    sensor.now_ns += 30 * MINUTE_NS;
    talk.send(&data(5, b"attack"));
    sensor.feed(&mut talk);
    assert_eq!((&sensor.finds.alerts[..], &sensor.finds.ends[..]), (&[1][..], &[(FlowEnd::Timeout, 0)][..]));
    // Silent for ever: no second record.
    wait(&mut sensor, 30);
    sensor.detector.finish(sensor.now_ns, &mut sensor.finds);
    assert_eq!(ends(&sensor), [FlowEnd::Timeout, FlowEnd::Timeout]);
}

/// A silent connection holds no memory for what is missing, and what is there of a message is looked at.
#[test]
fn who_is_silent_keeps_nothing_waiting() {
    let mut sensor = Sensor::new(RULES, support::limits());
    let mut gap = open(2000);
    gap.send(&data(5, b"an evil-attack behind a gap"));
    let mut web = open_to(2001, 80);
    web.send(&data(0, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nevil-body..."));
    sensor.feed(&mut gap);
    sensor.feed(&mut web);
    assert!(sensor.finds.alerts.is_empty() && sensor.detector.counters().early_bytes_now > 0);
    wait(&mut sensor, 12);
    sensor.finds.alerts.sort_unstable();
    assert_eq!((&sensor.finds.alerts[..], sensor.detector.counters().early_bytes_now), (&[1, 2][..], 0));
    assert_eq!(ends(&sensor), [FlowEnd::Timeout; 2]);
}

/// From half of the table on the time-out is as it was; what was begun in one's own name alone has it always.
#[test]
fn a_table_that_fills_is_swept() {
    let limits = Limits { flows: 100, ..support::limits() };
    for (count, left) in [(45, 45), (75, 49)] {
        let mut sensor = Sensor::new(RULES, limits.clone());
        for port in 0..count {
            let mut talk = open(2000 + port);
            talk.send(&data(0, b"evil-"));
            sensor.feed(&mut talk);
        }
        // They do not answer, or have ended.
        for port in 0..5 {
            let mut talk = Conversation::new("192.0.2.7", "198.51.100.9", [4000 + port, 8080]);
            talk.send(&Packet { at: -1, flags: flag::SYN, ..data(0, b"") });
            sensor.feed(&mut talk);
        }
        wait(&mut sensor, 20);
        assert_eq!(sensor.detector.counters().flows_now, left, "{count}");
        assert_eq!(sensor.finds.ends.len() as u16, count + 5, "{count}");
    }
}

/// Those that rest keep no emergency up: who is silent for less than its usual time is no matter of the sweep once the flood is over.
#[test]
fn an_emergency_ends_whoever_rests() {
    let mut sensor = Sensor::new(RULES, Limits { flows: 100, ..support::limits() });
    let begin = |sensor: &mut Sensor, ports: std::ops::Range<u16>| {
        for port in ports {
            let mut talk = open(port);
            talk.send(&data(0, b"evil-"));
            sensor.feed(&mut talk);
        }
    };
    begin(&mut sensor, 2000..2069);
    wait(&mut sensor, 11);
    for port in 0..60 {
        let mut talk = Conversation::new("192.0.2.7", "198.51.100.9", [4000 + port, 8080]);
        talk.send(&Packet { at: -1, flags: flag::SYN, ..data(0, b"") });
        sensor.feed(&mut talk);
    }
    assert_eq!(sensor.detector.counters().flows.emergencies, 1);
    begin(&mut sensor, 3000..3003);
    // Some others are there, and talk.
    let ends = [Ends::new("192.0.2.8", "198.51.100.9"), Ends::new("198.51.100.9", "192.0.2.8")];
    let mut told = 0;
    for minute in 0..6 {
        for port in 0..10 + minute {
            for frame in [ends[0].udp_frame([3000 + port, 9], b"a"), ends[1].udp_frame([9, 3000 + port], b"b")] {
                sensor.now_ns += 1000;
                sensor.detector.packet(&frame, LinkType::Ethernet, 60, sensor.now_ns, &mut sensor.finds);
            }
        }
        if minute == 1 {
            told = sensor.finds.ends.len();
        }
        wait(&mut sensor, 1);
    }
    assert_eq!(sensor.finds.ends.len(), told, "since the flood was over");
    for port in 3000..3003 {
        let mut talk = Conversation::new("192.0.2.7", "198.51.100.9", [port, 8080]);
        talk.send(&data(5, b"attack"));
        sensor.feed(&mut talk);
    }
    assert_eq!(sensor.finds.alerts, [1; 3]);
}

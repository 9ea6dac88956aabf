//! What is planted: pairs of stages, one to each sensor, and the rules that see them.
//!
//! Owns their frames and times. A pair has a source address of its own, by which it is known in every alarm.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use ringtap::record::pcap;
use ringtap_testbed::Testbed;
use ringtap_wire::UdpFrame;

/// From the first frame of the capture to the first pair: the flood has begun by then.
pub(crate) const LEAD: Duration = Duration::from_millis(500);
/// The flood goes on so long after the last pair.
const TRAIL: Duration = Duration::from_millis(200);
/// Where the flood goes: port of the generator.
const FLOOD_PORT: u16 = ringtap_testbed::generate::DEFAULT_PORT;
/// Nobody has a rule for it.
const NOBODY: u16 = 9;

/// One of the two stages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage {
    /// The sensor that sees it.
    pub sensor: &'static str,
    /// Its UDP port.
    pub port: u16,
    /// Its rule.
    pub sid: u32,
    name: &'static str,
}

/// Both: the first sensor is the flooded one.
pub(crate) const STAGES: [Stage; 2] = [
    Stage { sensor: "north", port: 7001, sid: 9_000_001, name: "staged scan" },
    Stage { sensor: "south", port: 7002, sid: 9_000_002, name: "staged exploit" },
];

/// Pairs to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// From the first to the second packet of a pair, in turn.
    pub gaps: Vec<Duration>,
    /// How many of each.
    pub each: u32,
    /// Pairs begin evenly over this time.
    pub over: Duration,
}

impl Plan {
    /// How many pairs.
    pub(crate) fn pairs(&self) -> u32 {
        self.gaps.len() as u32 * self.each
    }

    /// Between the packets of a pair.
    pub(crate) fn gap(&self, pair: u32) -> Duration {
        self.gaps[pair as usize % self.gaps.len()]
    }

    /// From the first frame to the end of the flood.
    pub(crate) fn lasts(&self) -> Duration {
        LEAD + self.over + self.gaps.iter().copied().max().unwrap_or_default() + TRAIL
    }

    /// When each packet of a pair is due after the first frame: (when, pair, stage), in this order.
    fn packets(&self) -> Vec<(Duration, u32, usize)> {
        let pairs = self.pairs();
        let begins = |pair: u32| LEAD + self.over * pair / pairs.max(1);
        let both = |pair: u32| [(begins(pair), pair, 0), (begins(pair) + self.gap(pair), pair, 1)];
        let mut packets: Vec<_> = (0..pairs).flat_map(both).collect();
        packets.sort_unstable();
        packets
    }

    /// A capture of 64-byte frames with these times, from the testbed's sender to its receiver.
    pub(crate) fn capture(&self, testbed: &Testbed) -> Vec<u8> {
        const START_NS: u64 = 1_000_000_000;
        let mut capture = Vec::new();
        pcap::file_header(&mut capture, 1, 65_535);
        let mut add = |at: Duration, source: Ipv4Addr, port: u16, payload: &[u8]| {
            let frame = frame(testbed, SocketAddr::new(source.into(), 30_000), port, payload);
            pcap::record(&mut capture, START_NS + at.as_nanos() as u64, frame.len() as u32, (&frame, &[]));
        };
        add(Duration::ZERO, testbed.sender().link().ipv4, NOBODY, &[0; 22]);
        for (at, pair, stage) in self.packets() {
            let Stage { port, name, .. } = STAGES[stage];
            add(at, source(pair), port, format!("{name:.<22}").as_bytes());
        }
        capture
    }
}

fn frame(testbed: &Testbed, source: SocketAddr, port: u16, payload: &[u8]) -> Vec<u8> {
    let (from, to) = (testbed.sender().link(), testbed.receiver().link());
    let frame = UdpFrame {
        source_mac: from.mac,
        destination_mac: to.mac,
        vlan: None,
        source,
        destination: SocketAddr::new(to.ipv4.into(), port),
        hop_limit: 64,
        traffic_class: 0,
        identification: 0,
    };
    let mut bytes = vec![0; frame.header_len() + payload.len()];
    let written = frame.write(&mut bytes, payload).unwrap_or(0);
    bytes.truncate(written);
    bytes
}

/// Source address of a pair.
fn source(pair: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) | pair & 0x00ff_ffff)
}

/// The pair that has this source address.
pub(crate) fn pair_of(address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(address) if address.octets()[0] == 10 => Some(u32::from(address) & 0x00ff_ffff),
        _ => None,
    }
}

/// The stage that a rule is for.
pub(crate) fn stage_of(sid: u64) -> Option<usize> {
    STAGES.iter().position(|stage| u64::from(stage.sid) == sid)
}

/// Rules of both sensors. The last one looks into the flood and finds nothing.
pub(crate) fn sensor_rules() -> String {
    let mut text = String::new();
    let mut rule = |port: u16, name: &str, sid: u32| {
        let _ =
            writeln!(text, "alert udp any any -> any {port} (msg:\"{name}\"; content:\"{name}\"; sid:{sid}; rev:1;)");
    };
    STAGES.iter().for_each(|stage| rule(stage.port, stage.name, stage.sid));
    rule(FLOOD_PORT, "staged never", 9_000_003);
    text
}

/// Classes of the splitter: each stage to its sensor, and both into `tap`, which so has their times; the flood to the first
/// sensor, or to one of both.
pub(crate) fn classes(outputs: [&str; 2], tap: &str, both_flooded: bool) -> String {
    let mut text = String::new();
    for (stage, output) in STAGES.iter().zip(outputs) {
        let Stage { sensor, port, .. } = stage;
        let _ = writeln!(
            text,
            "[[class]]\nname = \"{sensor}\"\nfilter = \"udp dst port {port}\"\noutputs = [\"{output}\", \"{tap}\"]\ncopy = true"
        );
    }
    let flooded = &outputs[..if both_flooded { 2 } else { 1 }];
    let _ = writeln!(text, "[rest]\noutputs = {flooded:?}");
    text
}

/// Rules of the correlator: both stages of one source within each of the windows.
pub(crate) fn correlation_rules(windows: &[Duration]) -> String {
    let mut text = String::new();
    for Stage { sensor, sid, name, .. } in STAGES {
        let _ = writeln!(
            text,
            "title: {name}\nname: {sensor}\nlogsource: {{category: ids}}\ndetection: {{s: {{alert.signature_id: {sid}}}, condition: s}}\n---"
        );
    }
    let [first, second] = STAGES.map(|stage| stage.sensor);
    for (number, window) in windows.iter().enumerate() {
        let end = if number + 1 < windows.len() { "---\n" } else { "" };
        let _ = write!(
            text,
            "title: Both stages within {window:?}\nname: {}\nlevel: high\ncorrelation: {{type: temporal, rules: [{first}, {second}], \
             group-by: src_ip, timespan: {}us}}\n{end}",
            rule_of(number),
            window.as_micros()
        );
    }
    text
}

/// Name of the correlator's rule for a window.
fn rule_of(window: usize) -> String {
    format!("window_{window}")
}

/// The window that a rule of the correlator is for.
pub(crate) fn window_of(rule: &str) -> Option<usize> {
    rule.strip_prefix("window_")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_sent_in_the_order_of_time() {
        let gaps = [0, 100].map(Duration::from_millis).to_vec();
        let plan = Plan { gaps, each: 2, over: Duration::from_millis(40) };
        let ms = |(at, pair, stage): (Duration, u32, usize)| ((at - LEAD).as_millis(), pair, stage);
        let sent: Vec<_> = plan.packets().into_iter().map(ms).collect();
        assert_eq!(
            sent,
            [(0, 0, 0), (0, 0, 1), (10, 1, 0), (20, 2, 0), (20, 2, 1), (30, 3, 0), (110, 1, 1), (130, 3, 1)]
        );
    }

    #[test]
    fn what_is_written_is_known_again() {
        assert_eq!([0, 77, 70_000].map(|pair| pair_of(source(pair).into())), [Some(0), Some(77), Some(70_000)]);
        assert_eq!(pair_of("198.18.0.1".parse().unwrap()), None);
        assert_eq!([9_000_002, 9_000_003].map(stage_of), [Some(1), None]);
        assert_eq!(["window_3", "window", "north"].map(window_of), [Some(3), None, None]);
        let classes: toml::Table = classes(["a", "b"], "./c.pcapng", false).parse().unwrap();
        assert_eq!(classes["rest"]["outputs"].as_array().unwrap().len(), 1);
    }
}

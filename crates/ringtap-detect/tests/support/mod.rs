//! What the detector's tests share: detectors from rules, frames, finds.
#![allow(dead_code)]

use std::sync::Arc;

use ringtap_detect::rules::{Classes, RuleSet, Variables};
use ringtap_detect::{Alert, Decoded, Detector, FlowView, Limits, Program, Sink, Tagger};
use ringtap_wire::LinkType;

/// Sids of alerts, in order.
#[derive(Default)]
pub struct Sids(pub Vec<u32>);

impl Sink for Sids {
    fn alert(&mut self, alert: &Alert<'_>) {
        self.0.push(alert.rule.meta.sid);
    }
}

/// Of each tagged packet the time, and by which sid it was tagged.
#[derive(Default)]
pub struct Tagged(pub Vec<(u64, u32)>);

impl Sink for Tagged {
    fn alert(&mut self, _alert: &Alert<'_>) {}

    fn tagged(&mut self, _packet: &Decoded<'_>, _flow: Option<&FlowView<'_>>, by: Tagger, now_ns: u64) {
        self.0.push((now_ns, by.sid));
    }
}

/// A sink that only counts.
#[derive(Default)]
pub struct Count(pub u64);

impl Sink for Count {
    fn alert(&mut self, _alert: &Alert<'_>) {
        self.0 += 1;
    }
}

pub fn program(rules: &str) -> Arc<Program> {
    let mut set = RuleSet::default();
    set.add("test.rules", rules.as_bytes(), &Variables::default(), &Classes::default());
    let mut rejected = Vec::new();
    let (program, _) = Program::new(set, &mut rejected).unwrap();
    assert!(rejected.is_empty(), "{}", rejected[0]);
    Arc::new(program)
}

/// Small bounds, no checksums: frames here have none.
pub fn limits() -> Limits {
    Limits { flows: 64, windows: 16, early_bytes: 1 << 20, thresholds: 64, checksums: false, ..Limits::default() }
}

pub fn detector(rules: &str) -> Detector {
    Detector::new(program(rules), limits())
}

/// Sids of alerts for these frames, a millisecond apart, the end included.
pub fn sids(detector: &mut Detector, frames: &[Vec<u8>]) -> Vec<u32> {
    let mut found = Sids::default();
    for (index, frame) in frames.iter().enumerate() {
        detector.packet(frame, LinkType::Ethernet, frame.len() as u32, index as u64 * 1_000_000, &mut found);
    }
    detector.finish(frames.len() as u64 * 1_000_000, &mut found);
    found.0
}

const ENDS: [[u8; 4]; 2] = [[198, 51, 100, 1], [203, 0, 113, 2]];

pub fn ipv4(protocol: u8, from_client: bool, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let (source, destination) = if from_client { (ENDS[0], ENDS[1]) } else { (ENDS[1], ENDS[0]) };
    [
        &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0][..],
        &length.to_be_bytes(),
        &[0, 7, 0, 0, 64, protocol, 0, 0],
        &source,
        &destination,
        payload,
    ]
    .concat()
}

pub fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    ipv4(
        17,
        true,
        &[&source.to_be_bytes()[..], &destination.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat(),
    )
}

/// A segment of the session between ports 40000 and 80; sequence numbers count from each side's first byte.
pub fn tcp(from_client: bool, sequence: u32, acknowledgment: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let (ports, own, other) =
        if from_client { ([40000u16, 80], u32::MAX - 7, 5000) } else { ([80, 40000], 5000u32, u32::MAX - 7) };
    let head = [
        &ports[0].to_be_bytes()[..],
        &ports[1].to_be_bytes(),
        &own.wrapping_add(1).wrapping_add(sequence).to_be_bytes(),
        &other.wrapping_add(1).wrapping_add(acknowledgment).to_be_bytes(),
        &[0x50, flags, 0xff, 0xff, 0, 0, 0, 0],
        payload,
    ];
    ipv4(6, from_client, &head.concat())
}

pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// SYN, SYN with ACK, ACK.
pub fn handshake() -> Vec<Vec<u8>> {
    vec![tcp(true, u32::MAX, 0, SYN, b""), tcp(false, u32::MAX, 0, SYN | ACK, b""), tcp(true, 0, 0, ACK, b"")]
}

/// A session of alternate sides, each text in segments of so many bytes.
pub fn session(texts: &[(bool, &[u8])], size: usize) -> Vec<Vec<u8>> {
    let (mut frames, mut at) = (handshake(), [0u32; 2]);
    for (from_client, text) in texts {
        for part in text.chunks(size) {
            let (own, other) = if *from_client { (at[0], at[1]) } else { (at[1], at[0]) };
            frames.push(tcp(*from_client, own, other, ACK, part));
            at[usize::from(!from_client)] += part.len() as u32;
        }
    }
    frames
}

/// A session with another server port, and perhaps another client port.
pub fn on_ports(client: u16, server: u16, mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    for frame in &mut frames {
        for at in [34, 36] {
            let port = if frame[at..at + 2] == 80u16.to_be_bytes() { server } else { client };
            frame[at..at + 2].copy_from_slice(&port.to_be_bytes());
        }
    }
    frames
}

//! What tests of bytes that wait share: a detector with its finds and a clock, a connection of which one side is behind.
#![allow(dead_code)]

use ringtap_detect::{Alert, Detector, Event, FlowEnd, FlowView, Limits, Sink};
use ringtap_samples::evasions::{Conversation, Packet};
use ringtap_samples::frames::{Ends, flag};
use ringtap_wire::LinkType;

use crate::support;

/// Bytes of a segment, and segments that wait for the first one.
pub const SIZE: usize = 1400;
pub const WAITING: usize = 250;

/// Alerts, ends of flows and what was odd, in order.
#[derive(Default)]
pub struct Finds {
    pub alerts: Vec<u32>,
    pub ends: Vec<(FlowEnd, u64)>,
    pub events: Vec<Event>,
}

impl Sink for Finds {
    fn alert(&mut self, alert: &Alert<'_>) {
        self.alerts.push(alert.rule.meta.sid);
    }

    fn flow(&mut self, flow: &FlowView<'_>, end: FlowEnd) {
        self.ends.push((end, flow.alerts()));
    }

    fn anomaly(&mut self, event: Event, _packet: &ringtap_detect::Decoded<'_>, _now_ns: u64) {
        self.events.push(event);
    }
}

pub struct Sensor {
    pub detector: Detector,
    pub finds: Finds,
    pub now_ns: u64,
}

impl Sensor {
    pub fn new(rules: &str, limits: Limits) -> Self {
        Self { detector: Detector::new(support::program(rules), limits), finds: Finds::default(), now_ns: 1 << 60 }
    }

    pub fn feed(&mut self, talk: &mut Conversation) {
        for frame in talk.frames.drain(..) {
            self.now_ns += 1000;
            self.detector.packet(&frame, LinkType::Ethernet, frame.len() as u32, self.now_ns, &mut self.finds);
        }
    }

    /// A datagram of another flow each time.
    pub fn pass_time(&mut self, port: u16) {
        let ends = Ends::new("192.0.2.77", "192.0.2.78");
        let frame = ends.udp_frame([port, 9], b"quiet");
        self.now_ns += 1000;
        self.detector.packet(&frame, LinkType::Ethernet, frame.len() as u32, self.now_ns, &mut self.finds);
    }

    /// Turns until nothing waits.
    pub fn rest(&mut self) -> usize {
        let turns = std::iter::from_fn(|| {
            let is_behind = self.detector.is_behind();
            is_behind.then(|| self.detector.expire(self.now_ns, &mut self.finds))
        });
        turns.count()
    }
}

/// A connection with a wide window.
pub fn open(port: u16) -> Conversation {
    open_to(port, 8080)
}

/// The same to another port of the server.
pub fn open_to(port: u16, server: u16) -> Conversation {
    let mut talk = Conversation::open("192.0.2.7", "198.51.100.9", [port, server], &[2, 4, 5, 180, 1, 3, 3, 14]);
    talk.send(&Packet { by_client: false, flags: flag::ACK, ..data(0, b"") });
    talk
}

pub fn data(at: usize, bytes: &[u8]) -> Packet {
    Packet { window: 65_535, ..Packet::data(at as i64, bytes) }
}

/// All of the text's segments but the first, which is returned.
pub fn send_early(talk: &mut Conversation, text: &[u8]) -> Packet {
    for (number, part) in text.chunks(SIZE).enumerate().skip(1) {
        talk.send(&data(number * SIZE, part));
    }
    data(0, &text[..SIZE])
}

/// Text that has each word at its place.
pub fn text(words: &[(usize, &str)]) -> Vec<u8> {
    let mut text = vec![b'.'; SIZE * (WAITING + 1)];
    words.iter().for_each(|(at, word)| text[*at..at + word.len()].copy_from_slice(word.as_bytes()));
    text
}

pub const END: usize = SIZE * (WAITING + 1);

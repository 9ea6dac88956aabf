//! What tests over a memory source share: an engine with nothing around it, and a handler that keeps what it is told.
#![allow(dead_code, reason = "each test program uses a part")]

use ringtap::{Engine, Handler, Outbox, Pacer, Packet, Policy, Source, testing};

/// An engine without limit or transmit ring.
pub(crate) fn engine<S: Source, H: Handler>(source: S, handler: H, policy: &Policy) -> Engine<S, H> {
    Engine { pacer: Pacer::new(policy).unwrap(), ..testing::engine(source, handler).unwrap() }
}

pub(crate) fn interrupts() -> Policy {
    Policy::Interrupt
}

pub(crate) fn timer(period_ns: u64) -> Policy {
    Policy::Timer { period_ns }
}

/// A packet as it was handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) data: Vec<u8>,
    pub(crate) wire_len: u32,
}

/// Keeps every packet, and counts the ends of cycles.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) packets: Vec<Kept>,
    pub(crate) cycle_ends: u64,
}

impl Seen {
    pub(crate) fn first_bytes(&self) -> Vec<u8> {
        self.packets.iter().map(|packet| packet.data[0]).collect()
    }
}

impl Handler for Seen {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        self.packets.push(Kept { data: packet.data.to_vec(), wire_len: packet.wire_len });
    }

    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {
        self.cycle_ends += 1;
    }
}

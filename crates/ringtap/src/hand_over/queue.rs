//! One bounded queue of packets from one engine to one engine: bytes in memory that was set aside before.
//!
//! Owns the layout of a queued packet. No allocation, lock or system call.

use rtrb::{Consumer, Producer, RingBuffer};

use crate::burst::Packet;

/// Length of what stands before each packet's bytes.
const HEAD_LEN: usize = 17;

/// What precedes a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) arrival_ns: u64,
    len: u32,
    wire_len: u32,
    checksum_pending: bool,
}

impl Head {
    fn encode(self) -> [u8; HEAD_LEN] {
        let mut bytes = [0; HEAD_LEN];
        bytes[..8].copy_from_slice(&self.arrival_ns.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.wire_len.to_ne_bytes());
        bytes[16] = self.checksum_pending.into();
        bytes
    }

    fn decode([a, b, c, d, e, f, g, h, l0, l1, l2, l3, w0, w1, w2, w3, pending]: [u8; HEAD_LEN]) -> Self {
        Self {
            arrival_ns: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            len: u32::from_ne_bytes([l0, l1, l2, l3]),
            wire_len: u32::from_ne_bytes([w0, w1, w2, w3]),
            checksum_pending: pending != 0,
        }
    }
}

/// The end of the engine that receives packets from its device.
pub(super) struct Outgoing {
    bytes: Producer<u8>,
    pushed: bool,
}

/// The end of the engine that handles them.
pub(super) struct Incoming {
    bytes: Consumer<u8>,
    /// Taken off; its packet's bytes come next.
    head: Option<Head>,
}

/// A queue with room for so many bytes.
pub(super) fn queue(bytes: usize) -> (Outgoing, Incoming) {
    let (producer, consumer) = RingBuffer::new(bytes);
    (Outgoing { bytes: producer, pushed: false }, Incoming { bytes: consumer, head: None })
}

impl Outgoing {
    /// Copies the packet; `false`: there is no room for it.
    pub(super) fn push(&mut self, packet: &Packet<'_>) -> bool {
        let needed = HEAD_LEN + packet.data.len();
        if self.bytes.cached_slots() < needed && self.bytes.slots() < needed {
            return false;
        }
        let Ok(len) = u32::try_from(packet.data.len()) else { return false };
        // One engine's devices take packets of a flow from each other by no queue.
        let Packet { data, wire_len, arrival_ns, checksum_pending, port: _ } = *packet;
        let head = Head { arrival_ns, len, wire_len, checksum_pending };
        self.pushed = true;
        // Room for both was seen, and only we take it; the reader waits for the second part.
        self.bytes.push_entire_slice(&head.encode()).is_ok() && self.bytes.push_entire_slice(data).is_ok()
    }

    /// Whether something was pushed since this was asked last.
    pub(super) fn take_pushed(&mut self) -> bool {
        std::mem::take(&mut self.pushed)
    }
}

impl Incoming {
    /// The next packet's head, once the whole packet is there.
    pub(super) fn peek(&mut self) -> Option<Head> {
        if self.head.is_none() {
            let mut bytes = [0; HEAD_LEN];
            self.bytes.pop_entire_slice(&mut bytes).ok()?;
            self.head = Some(Head::decode(bytes));
        }
        let len = self.head?.len as usize;
        if self.bytes.cached_slots() >= len || self.bytes.slots() >= len { self.head } else { None }
    }

    /// Lends the packet whose head is there to `handle`, then takes it off. One that lies at the end of the memory and at its beginning
    /// is put together in `whole`.
    pub(super) fn take(&mut self, whole: &mut Vec<u8>, handle: impl FnOnce(&Packet<'_>)) {
        let Some(Head { arrival_ns, len, wire_len, checksum_pending }) = self.head.take() else { return };
        let Ok(chunk) = self.bytes.read_chunk(len as usize) else { return };
        let (first, second) = chunk.as_slices();
        let data = if second.is_empty() {
            first
        } else {
            whole.clear();
            whole.extend_from_slice(first);
            whole.extend_from_slice(second);
            whole
        };
        handle(&Packet { data, wire_len, arrival_ns, checksum_pending, port: 0 });
        chunk.commit_all();
    }
}

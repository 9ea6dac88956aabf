//! The bounded way from an engine thread to the writer: bytes in memory that was set aside and touched at the start.
//!
//! Owns the layout of a spooled packet, the counting of what does not fit, and the waking of a sleeping writer. It writes
//! nothing anywhere; `writer.rs` does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::thread::Thread;
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};

use super::recent::RecentPacket;

/// Length of what stands before each packet's bytes.
pub(super) const HEADER_LEN: usize = 18;

/// The writer is at work and will look again by itself.
const AWAKE: u8 = 0;
/// The writer takes a nap of fixed length; only a spool that fills up is worth ending it.
const NAPPING: u8 = 1;
/// The writer sleeps until it is woken.
const ASLEEP: u8 = 2;

/// What precedes a packet in its spool, or in the memory of recent ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// Arrival stamp in the interface's clock, nanoseconds; 0 for none.
    pub(super) arrival_ns: u64,
    /// Captured bytes, which follow.
    pub(super) len: u32,
    /// Bytes on the wire.
    pub(super) wire_len: u32,
    /// Number of the interface.
    pub(super) interface: u16,
}

impl Head {
    pub(super) fn encode(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&self.arrival_ns.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.wire_len.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.interface.to_ne_bytes());
        bytes
    }

    pub(super) fn decode(bytes: [u8; HEADER_LEN]) -> Self {
        let [a, b, c, d, e, f, g, h, l0, l1, l2, l3, w0, w1, w2, w3, i0, i1] = bytes;
        Self {
            arrival_ns: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            len: u32::from_ne_bytes([l0, l1, l2, l3]),
            wire_len: u32::from_ne_bytes([w0, w1, w2, w3]),
            interface: u16::from_ne_bytes([i0, i1]),
        }
    }
}

/// How the writer sleeps, and when it is to end. Shared by all spools of a recording.
#[derive(Debug, Default)]
pub(super) struct Rest {
    state: AtomicU8,
    finish: AtomicBool,
}

impl Rest {
    /// Whether the recording is to end.
    pub(super) fn is_finishing(&self) -> bool {
        self.finish.load(Ordering::Acquire)
    }

    /// Ends the recording: the writer takes what is in the spools by then, and no more.
    pub(super) fn finish(&self, writer: &Thread) {
        self.finish.store(true, Ordering::Release);
        writer.unpark();
    }

    /// Has the writer look once, whatever there is to write.
    pub(super) fn stir(&self, writer: &Thread) {
        // Parked or about to: to park a thread that was unparked before returns at once.
        writer.unpark();
    }

    /// The writer sleeps: for `nap`, or without limit unless `is_idle` finds a packet on the last look.
    ///
    /// Announce, fence, look again: the producer stores, fences and then looks at the state, so one sees the other.
    pub(super) fn sleep(&self, nap: Option<Duration>, is_idle: impl FnOnce() -> bool) {
        self.state.store(if nap.is_some() { NAPPING } else { ASLEEP }, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !self.is_finishing() {
            match nap {
                Some(nap) => std::thread::park_timeout(nap),
                None if is_idle() => std::thread::park(),
                None => {}
            }
        }
        self.state.store(AWAKE, Ordering::Relaxed);
    }
}

/// What one spool could not take. Written by its producer alone, read by anyone.
#[derive(Debug, Default)]
pub(super) struct Refused {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Refused {
    /// Packets and captured bytes.
    pub(super) fn read(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Plain loads and stores will do: there is one writer.
    fn count(&self, bytes: usize) {
        let (packets, total) = self.read();
        self.packets.store(packets + 1, Ordering::Relaxed);
        self.bytes.store(total + bytes as u64, Ordering::Relaxed);
    }
}

/// The engine thread's end of a spool. Dropping it leaves what was pushed for the writer.
#[derive(Debug)]
pub struct SpoolProducer {
    producer: Producer<u8>,
    refused: Arc<Refused>,
    rest: Arc<Rest>,
    writer: Thread,
    interfaces: u16,
    /// Fewest free bytes at which a napping writer may nap on.
    comfort: usize,
    pushed: bool,
}

impl SpoolProducer {
    /// Copies one packet into the spool: `data` as it is to be recorded (cut to the snaplen), `wire_len` its length on the
    /// wire, `arrival_ns` its stamp in the interface's clock or 0, `interface` its number in the list given at start.
    ///
    /// No allocation, no lock, no system call. `false`: it did not fit (or names no interface) and was counted as lost.
    pub fn push(&mut self, interface: u16, arrival_ns: u64, wire_len: u32, data: &[u8]) -> bool {
        self.push_recent(RecentPacket { interface, arrival_ns, wire_len, tag: 0, data: (data, &[]) })
    }

    /// As [`SpoolProducer::push`], of a packet in the memory of recent ones.
    pub fn push_recent(&mut self, packet: RecentPacket<'_>) -> bool {
        let RecentPacket { interface, arrival_ns, wire_len, data: (first, second), .. } = packet;
        let captured = first.len() + second.len();
        let has_room = self.has_room(captured);
        let Some(len) = u32::try_from(captured).ok().filter(|_| has_room && interface < self.interfaces) else {
            self.refused.count(captured);
            return false;
        };
        let head = Head { arrival_ns, len, wire_len: wire_len.max(len), interface };
        // Room for all was seen above and only we take it, so none can fail; the reader waits for the later parts.
        let taken =
            [&head.encode()[..], first, second].into_iter().all(|part| self.producer.push_entire_slice(part).is_ok());
        self.pushed = true;
        taken
    }

    /// Whether a packet of so many captured bytes fits now.
    pub fn has_room(&self, captured: usize) -> bool {
        let needed = HEADER_LEN + captured;
        self.producer.cached_slots() >= needed || self.producer.slots() >= needed
    }

    /// Whether a packet of so many captured bytes fits now or will: an empty spool would hold it, and its writer is there.
    pub fn will_have_room(&self, captured: usize) -> bool {
        HEADER_LEN + captured <= self.producer.buffer().capacity() && !self.producer.is_abandoned()
    }

    /// As [`SpoolProducer::push`], but waits until the writer has made room. For replays, which may take their time; an
    /// engine that takes packets off a device must not wait for a disk.
    ///
    /// `false`, and counted as lost: it would not fit an empty spool either, or names no interface.
    pub fn push_blocking(&mut self, interface: u16, arrival_ns: u64, wire_len: u32, data: &[u8]) -> bool {
        self.wait_for_room(data.len());
        self.push(interface, arrival_ns, wire_len, data)
    }

    /// Waits until a packet of so many captured bytes fits, unless it never will. As for [`SpoolProducer::push_blocking`].
    pub fn wait_for_room(&mut self, captured: usize) {
        const PAUSE: Duration = Duration::from_micros(500);
        while self.will_have_room(captured) && !self.has_room(captured) {
            self.wake();
            std::thread::sleep(PAUSE);
        }
    }

    /// Wakes the writer if it sleeps and something was pushed since. To be called at the end of each of the engine's cycles.
    ///
    /// Costs a memory fence after a cycle with packets, nothing after one without, and one futex call when the writer has
    /// to be woken. A napping writer is left alone until its spool is half full.
    pub fn wake(&mut self) {
        if !self.pushed {
            return;
        }
        self.pushed = false;
        fence(Ordering::SeqCst);
        let due = match self.rest.state.load(Ordering::Relaxed) {
            ASLEEP => true,
            NAPPING => self.producer.slots() < self.comfort,
            _ => false,
        };
        // Of several producers one wakes.
        if due && self.rest.state.swap(AWAKE, Ordering::Relaxed) != AWAKE {
            self.writer.unpark();
        }
    }

    /// Packets and captured bytes this spool could not take so far.
    pub fn lost(&self) -> (u64, u64) {
        self.refused.read()
    }
}

impl Drop for SpoolProducer {
    fn drop(&mut self) {
        self.wake();
    }
}

/// The writer's end of a spool.
#[derive(Debug)]
pub(super) struct SpoolConsumer {
    consumer: Consumer<u8>,
    head: Option<Head>,
    /// Bytes this pass may still take: those that were there when it began.
    budget: usize,
}

impl SpoolConsumer {
    /// Begins a pass: what comes later is left for the next, so that each has an end.
    pub(super) fn begin_pass(&mut self) {
        self.budget = self.consumer.slots();
    }

    /// The next packet's head, if it and its bytes are part of this pass.
    pub(super) fn peek(&mut self) -> Option<Head> {
        if self.head.is_none() && self.budget >= HEADER_LEN {
            let mut bytes = [0; HEADER_LEN];
            self.consumer.pop_entire_slice(&mut bytes).ok()?;
            self.budget -= HEADER_LEN;
            self.head = Some(Head::decode(bytes));
        }
        self.head.filter(|head| head.len as usize <= self.budget)
    }

    /// Takes the packet that `peek` showed: gives its bytes, in two parts where they wrap, to `write`.
    pub(super) fn take(&mut self, head: Head, write: impl FnOnce(&[u8], &[u8])) {
        let len = head.len as usize;
        if let Ok(chunk) = self.consumer.read_chunk(len) {
            let (first, second) = chunk.as_slices();
            write(first, second);
            chunk.commit_all();
        }
        self.budget = self.budget.saturating_sub(len);
        self.head = None;
    }

    /// Whether nothing is waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_none() && self.consumer.is_empty()
    }

    /// Whether more than half of it is taken.
    pub(super) fn is_pressed(&self) -> bool {
        self.consumer.slots() > self.consumer.buffer().capacity() / 2
    }
}

/// A spool before its writer runs.
#[derive(Debug)]
pub(super) struct Spool {
    producer: Producer<u8>,
    refused: Arc<Refused>,
}

impl Spool {
    /// Memory of `bytes` bytes, every page touched.
    pub(super) fn new(bytes: usize) -> (Self, SpoolConsumer) {
        let (mut producer, mut consumer) = RingBuffer::new(bytes);
        // Writing all of it once brings the pages in now rather than in the engine's loop.
        if let Ok(chunk) = producer.write_chunk(bytes) {
            chunk.commit_all();
        }
        if let Ok(chunk) = consumer.read_chunk(bytes) {
            chunk.commit_all();
        }
        (Self { producer, refused: Arc::default() }, SpoolConsumer { consumer, head: None, budget: 0 })
    }

    /// The counts of what it could not take.
    pub(super) fn refused(&self) -> Arc<Refused> {
        Arc::clone(&self.refused)
    }

    /// The engine thread's end, once there is a thread to wake.
    pub(super) fn into_producer(self, rest: &Arc<Rest>, writer: &Thread, interfaces: u16) -> SpoolProducer {
        let comfort = self.producer.buffer().capacity() / 2;
        SpoolProducer {
            producer: self.producer,
            refused: self.refused,
            rest: Arc::clone(rest),
            writer: writer.clone(),
            interfaces,
            comfort,
            pushed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(bytes: usize) -> (SpoolProducer, SpoolConsumer) {
        let (spool, consumer) = Spool::new(bytes);
        (spool.into_producer(&Arc::default(), &std::thread::current(), 2), consumer)
    }

    fn drain(consumer: &mut SpoolConsumer) -> Vec<(Head, Vec<u8>)> {
        let mut packets = Vec::new();
        consumer.begin_pass();
        while let Some(head) = consumer.peek() {
            consumer.take(head, |first, second| packets.push((head, [first, second].concat())));
        }
        packets
    }

    #[test]
    fn what_goes_in_comes_out_also_across_the_wrap() {
        let (mut producer, mut consumer) = pair(100);
        for round in 0..50_u8 {
            let data = vec![round; usize::from(round % 60)];
            assert!(producer.push(1, u64::from(round), 1000, &data));
            let head = Head { arrival_ns: round.into(), len: data.len() as u32, wire_len: 1000, interface: 1 };
            assert_eq!(drain(&mut consumer), [(head, data)]);
        }
        assert!(consumer.is_empty());
    }

    #[test]
    fn what_does_not_fit_is_counted_and_the_rest_is_whole() {
        let (mut producer, mut consumer) = pair(100);
        assert!(producer.push(0, 1, 60, &[1; 60]));
        assert!(!producer.push(0, 2, 60, &[2; 60]));
        assert!(producer.push(0, 3, 4, &[3; 4]), "exactly full");
        assert!(!producer.push(0, 4, 0, &[]));
        assert!(!producer.push(2, 5, 0, &[]), "no such interface");
        assert_eq!(producer.lost(), (3, 60));
        let stamps: Vec<u64> = drain(&mut consumer).iter().map(|(head, _)| head.arrival_ns).collect();
        assert_eq!(stamps, [1, 3]);
    }

    #[test]
    fn a_blocking_push_waits_for_room_but_not_for_ever() {
        let (mut producer, mut consumer) = pair(100);
        assert!(producer.push(0, 1, 60, &[1; 60]));
        let reader = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            let stamps: Vec<u64> = drain(&mut consumer).iter().map(|(head, _)| head.arrival_ns).collect();
            (stamps, consumer)
        });
        assert!(producer.push_blocking(0, 2, 60, &[2; 60]));
        let (stamps, mut consumer) = reader.join().unwrap();
        assert_eq!(stamps, [1]);
        assert_eq!(drain(&mut consumer).len(), 1);
        assert!(!producer.push_blocking(0, 3, 200, &[3; 200]), "never fits");
        assert!(producer.push(0, 4, 60, &[4; 60]));
        drop(consumer);
        assert!(!producer.push_blocking(0, 5, 60, &[5; 60]), "the writer is gone");
        assert_eq!(producer.lost().0, 2);
    }

    #[test]
    fn a_pass_takes_only_what_was_there_when_it_began() {
        let (mut producer, mut consumer) = pair(200);
        assert!(producer.push(0, 1, 1, &[1]));
        consumer.begin_pass();
        assert!(producer.push(0, 2, 1, &[2]));
        let head = consumer.peek().unwrap();
        consumer.take(head, |_, _| {});
        assert_eq!(consumer.peek(), None);
        assert!(!consumer.is_empty());
        assert_eq!(drain(&mut consumer).len(), 1);
    }

    #[test]
    fn a_dropped_producer_leaves_its_packets() {
        let (mut producer, mut consumer) = pair(200);
        assert!(producer.push(0, 1, 1, &[1]));
        drop(producer);
        assert_eq!(drain(&mut consumer).len(), 1);
    }
}

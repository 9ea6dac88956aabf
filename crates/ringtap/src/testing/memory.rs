//! A source that gives what a script says: packets at instants of a clock, losses by cause, an end.
//!
//! Owns the script and how it becomes bursts and counts. It uses nothing that a source of another crate could not use.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::burst::{BURST_MAX, Burst, Packet, PacketBuffer};
use crate::clock::{Clock, SystemClock};
use crate::error::Result;
use crate::interface::Interface;
use crate::source::{Description, DeviceCounters, DeviceCounts, Source, StampClock, Wake};
use crate::sys::event::Stop;

/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;

/// One packet of a script.
#[derive(Debug, Clone, Default)]
pub struct Arrival {
    /// When it is there, in [`Clock::monotonic_ns`] of the source's clock; 0: from the beginning.
    pub at_ns: u64,
    /// The captured bytes. Borrowed ones cost the engine's thread no deallocation.
    pub data: Cow<'static, [u8]>,
    /// Length on the wire, bytes; less than `data` has counts as that.
    pub wire_len: u32,
    /// Arrival stamp, nanoseconds of [`Script::stamp_clock`]; `None`: `at_ns`.
    pub stamp_ns: Option<u64>,
}

impl Arrival {
    /// A whole packet that comes at `at_ns`.
    pub fn at(at_ns: u64, data: impl Into<Cow<'static, [u8]>>) -> Self {
        Self { at_ns, data: data.into(), ..Self::default() }
    }

    /// A whole packet that is there from the beginning, and bears no stamp.
    pub fn there(data: impl Into<Cow<'static, [u8]>>) -> Self {
        Self::at(0, data)
    }
}

/// What comes after the last packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ending {
    /// The end of the input, as of a file.
    #[default]
    End,
    /// The device is removed.
    Gone,
    /// Nothing: the source waits until it is stopped.
    Silence,
}

/// What a [`MemorySource`] gives.
#[derive(Debug, Clone)]
pub struct Script<I> {
    /// Packets in order: one that says it comes before its predecessor comes with it.
    pub arrivals: I,
    /// What the device counts beside the packets that it gives, and from when on (as [`Arrival::at_ns`]), in this order: packets it
    /// lost, by cause. `offered` has to contain them; what it has beyond them, nobody explains.
    pub counts: Vec<(u64, DeviceCounts)>,
    /// What comes after all that.
    pub ending: Ending,
    /// Which clock the stamps are of.
    pub stamp_clock: StampClock,
    /// LINKTYPE_ value of the packets.
    pub link_type: u16,
    /// Longer packets are cut to so many bytes.
    pub frame_bytes: usize,
}

impl<I> Script<I> {
    /// Ethernet packets of up to 2048 bytes, stamped when they come, and then the end of the input.
    pub fn of(arrivals: impl IntoIterator<Item = Arrival, IntoIter = I>) -> Self {
        Self {
            arrivals: arrivals.into_iter(),
            counts: Vec::new(),
            ending: Ending::default(),
            stamp_clock: StampClock::Monotonic,
            link_type: ETHERNET,
            frame_bytes: 2048,
        }
    }
}

/// Packets from memory.
#[derive(Debug)]
pub struct MemorySource<I, C = SystemClock> {
    clock: C,
    script: Script<I>,
    /// The packet that comes next.
    next: Option<Arrival>,
    /// How many of the script's counts are in.
    counts: usize,
    buffer: PacketBuffer,
    counted: Arc<Counted>,
    description: Description,
    /// Nothing comes after it.
    shut_at_ns: u64,
}

impl<I: Iterator<Item = Arrival>, C: Clock> MemorySource<I, C> {
    /// A source that is called `name`, in the time that `clock` tells: the engine's.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(name: &str, clock: C, mut script: Script<I>) -> Result<Self> {
        let buffer = PacketBuffer::new(script.frame_bytes)?;
        let description = Description {
            ring_slots: BURST_MAX,
            memory_bytes: buffer.memory_bytes(),
            ..Description::new("memory", name)
        };
        let next = script.arrivals.next();
        let counted = Arc::default();
        Ok(Self { clock, script, next, counts: 0, buffer, counted, description, shut_at_ns: u64::MAX })
    }

    /// Takes in what has come until now, as far as there is room.
    fn take_in(&mut self) {
        let now_ns = self.clock.monotonic_ns().min(self.shut_at_ns);
        while let Some((_, counts)) = self.script.counts.get(self.counts).filter(|(at_ns, _)| *at_ns <= now_ns) {
            self.counted.add(counts);
            self.counts += 1;
        }
        let mut taken = 0;
        while let Some(arrival) = self.next.as_ref().filter(|it| it.at_ns <= now_ns) {
            let packet = Packet {
                wire_len: arrival.wire_len,
                arrival_ns: arrival.stamp_ns.unwrap_or(arrival.at_ns),
                ..Packet::of(&arrival.data)
            };
            if !self.buffer.push(&packet) {
                break;
            }
            taken += 1;
            self.next = self.script.arrivals.next();
        }
        self.counted.offered.fetch_add(taken, Ordering::Relaxed);
    }

    /// When something comes next; `None` when all has come.
    fn next_ns(&self) -> Option<u64> {
        let arrival = self.next.as_ref().map(|arrival| arrival.at_ns);
        let counts = self.script.counts.get(self.counts).map(|&(at_ns, _)| at_ns);
        arrival.into_iter().chain(counts).min()
    }
}

impl<I: Iterator<Item = Arrival>, C: Clock> Source for MemorySource<I, C> {
    fn receive(&mut self) -> Burst<'_> {
        self.take_in();
        self.buffer.burst()
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        let until_next = match (self.next_ns(), self.script.ending) {
            _ if !self.buffer.is_empty() => Duration::ZERO,
            (Some(at_ns), _) => Duration::from_nanos(at_ns.saturating_sub(self.clock.monotonic_ns())),
            (None, Ending::End) => return Wake::End,
            (None, Ending::Gone) => return Wake::Gone,
            (None, Ending::Silence) => Duration::MAX,
        };
        if until_next.is_zero() {
            return if stop.is_pulled() { Wake::Stopped } else { Wake::Ready };
        }
        let sleep = limit.map_or(until_next, |limit| limit.min(until_next));
        match self.clock.wait(stop, sleep) {
            true => Wake::Stopped,
            false if sleep < until_next => Wake::TimedOut,
            false => Wake::Ready,
        }
    }

    fn quiesce(&mut self) -> bool {
        self.shut_at_ns = self.clock.monotonic_ns();
        true
    }

    fn stamp_clock(&self) -> StampClock {
        self.script.stamp_clock
    }

    fn description(&self) -> Description {
        self.description.clone()
    }

    fn counters(&self) -> Option<Box<dyn DeviceCounters>> {
        Some(Box::new(Arc::clone(&self.counted)))
    }

    fn link_type(&self, _interface: &Interface) -> Option<u16> {
        Some(self.script.link_type)
    }
}

/// The device's counters: the engine's thread adds, any other reads.
#[derive(Debug, Default)]
struct Counted {
    offered: AtomicU64,
    ring_full: AtomicU64,
    fill_ring_empty: AtomicU64,
    oversize: AtomicU64,
    nic: AtomicU64,
}

impl Counted {
    fn add(&self, counts: &DeviceCounts) {
        let DeviceCounts { offered, ring_full, fill_ring_empty, oversize, nic } = *counts;
        self.offered.fetch_add(offered.unwrap_or(0), Ordering::Relaxed);
        self.ring_full.fetch_add(ring_full, Ordering::Relaxed);
        self.fill_ring_empty.fetch_add(fill_ring_empty, Ordering::Relaxed);
        self.oversize.fetch_add(oversize, Ordering::Relaxed);
        self.nic.fetch_add(nic, Ordering::Relaxed);
    }
}

impl DeviceCounters for Arc<Counted> {
    fn read(&mut self) -> Option<DeviceCounts> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Some(DeviceCounts {
            offered: Some(read(&self.offered)),
            ring_full: read(&self.ring_full),
            fill_ring_empty: read(&self.fill_ring_empty),
            oversize: read(&self.oversize),
            nic: read(&self.nic),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SimulatedClock;

    #[test]
    fn a_wait_ends_with_the_next_packet_its_limit_the_handle_or_the_input() {
        let (clock, stop) = (SimulatedClock::at(1_000), Stop::new().unwrap());
        let script = Script::of([Arrival::at(2_000, b"one"), Arrival::at(2_000, b"two"), Arrival::at(9_000, b"last")]);
        let mut source = MemorySource::new("memory", clock.clone(), script).unwrap();
        assert!(source.receive().is_empty());
        let limit = |ns| Some(Duration::from_nanos(ns));
        assert_eq!((source.wait_for_interrupt(&stop, limit(400)), clock.monotonic_ns()), (Wake::TimedOut, 1_400));
        assert_eq!((source.wait_for_interrupt(&stop, limit(600)), clock.monotonic_ns()), (Wake::Ready, 2_000));
        source.receive().end_after(1);
        assert_eq!(
            (source.wait_for_interrupt(&stop, None), clock.monotonic_ns()),
            (Wake::Ready, 2_000),
            "one was left"
        );
        assert_eq!(source.receive().len(), 1);
        assert_eq!((source.wait_for_interrupt(&stop, None), clock.monotonic_ns()), (Wake::Ready, 9_000));
        assert_eq!(source.receive().len(), 1);
        assert_eq!(source.wait_for_interrupt(&stop, None), Wake::End);
        source.script.ending = Ending::Silence;
        stop.pull();
        assert_eq!(source.wait_for_interrupt(&stop, None), Wake::Stopped);
    }

    #[test]
    fn what_is_shut_gives_what_had_come() {
        let clock = SimulatedClock::at(0);
        let script = Script {
            counts: vec![(5, DeviceCounts { offered: Some(3), nic: 2, ..DeviceCounts::default() })],
            ..Script::of([0, 10, 20].map(|at_ns| Arrival::at(at_ns, b"packet")))
        };
        let mut source = MemorySource::new("memory", clock.clone(), script).unwrap();
        let mut counters = source.counters().unwrap();
        let mut offered = || counters.read().map(|counts| (counts.offered, counts.nic));
        assert_eq!((source.receive().len(), offered()), (1, Some((Some(1), 0))));
        clock.advance(10);
        assert!(source.quiesce());
        clock.advance(10);
        assert_eq!((source.receive().len(), offered()), (1, Some((Some(5), 2))));
        assert!(source.receive().is_empty());
    }
}

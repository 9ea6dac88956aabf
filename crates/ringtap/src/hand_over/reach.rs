//! How far an engine is: up to which arrival stamp it has handled all that it could see.
//!
//! Owns what one engine says of that for others to read, and the rules by which it may say so. Does not: know how long a frame
//! takes from its stamp until it can be seen; who reads subtracts that ([`Reach::until_ns`]).
//!
//! **What is said.** A ring was found empty by a look that began after time T: all that could be seen at T was handled. A ring that never
//! runs empty: the stamp of what was handled last, as a ring is in the order of arrival. Where engines hand packets over, each
//! says so of what it has received, and handles by stamp: it is as far as the least of all engines, or its own earliest packet.
//! T is read at the end of a cycle, before the wait and the look that follow: what comes later than T is not claimed.
//!
//! **When the clock is set**, times of before mean nothing any more: [`Reach::begin_anew`] voids what was said, and an engine
//! that has not looked since says nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::source::StampClock;
use crate::sys::clock;
use crate::sys::event::Event;

/// Low bits of a mark, which hold the number of the clock's life; what is above them is a time, cut to 1,024 ns.
const LIFE_BITS: u32 = 10;
const LIFE: u64 = (1 << LIFE_BITS) - 1;

/// A time with the life of the clock that it is of, so that both are read at once.
fn mark(time_ns: u64, life: u64) -> u64 {
    time_ns & !LIFE | life & LIFE
}

/// How far one engine is. Written by its thread, but for `begin_anew`; read by anyone.
#[derive(Debug)]
pub struct Reach {
    stamps: StampClock,
    life: AtomicU64,
    /// All up to here is in the queues of who handles it.
    received: AtomicU64,
    /// All up to here was handled.
    handled: AtomicU64,
    late_ns: AtomicU64,
    ended: AtomicBool,
    bell: Arc<Event>,
}

impl Reach {
    pub(super) fn new(stamps: StampClock, bell: Arc<Event>) -> Self {
        Self {
            stamps,
            life: AtomicU64::new(1),
            received: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            late_ns: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            bell,
        }
    }

    /// The clock of its times.
    pub fn stamps(&self) -> StampClock {
        self.stamps
    }

    /// All frames that could be seen by then were handled: nanoseconds of the clock of its stamps. `None`: nothing is known since
    /// the clock was set. A frame can be seen some time after its stamp.
    pub fn until_ns(&self) -> Option<u64> {
        self.read(&self.handled)
    }

    fn read(&self, mark: &AtomicU64) -> Option<u64> {
        let mark = mark.load(Ordering::Acquire);
        let (time_ns, life) = (mark & !LIFE, mark & LIFE);
        (time_ns > 0 && life == self.life() & LIFE).then_some(time_ns)
    }

    fn life(&self) -> u64 {
        self.life.load(Ordering::Acquire)
    }

    /// Voids what was said: the clock was set.
    pub fn begin_anew(&self) {
        self.life.fetch_add(1, Ordering::AcqRel);
    }

    /// Its engine has ended and says nothing more.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Wakes its engine where it waits for an interrupt, so that it looks. One that waits for a timer looks by itself.
    pub fn ring(&self) {
        self.bell.signal();
    }

    pub(super) fn bell(&self) -> &Arc<Event> {
        &self.bell
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// The most by which a frame's stamp lay before a time up to which everything had seemed to be there, nanoseconds; 0: none did.
    pub fn late_ns(&self) -> u64 {
        self.late_ns.load(Ordering::Relaxed)
    }
}

/// More than this is a clock that was set, and no frame that was late.
const SET_NS: u64 = 1_000_000_000;

/// The engine's side.
#[derive(Debug)]
pub(super) struct Reaching {
    pub(super) shared: Arc<Reach>,
    /// The clock's life that the times below are of.
    life: u64,
    /// When the next look at the ring had not begun yet; 0: unknown.
    before_ns: u64,
    /// Up to when everything seemed to be there.
    seen_ns: u64,
}

/// Nobody is held up by an engine whose handler is gone: one that panicked, and took it along.
impl Drop for Reaching {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Reaching {
    pub(super) fn new(shared: Arc<Reach>) -> Self {
        Self { shared, life: 0, before_ns: 0, seen_ns: 0 }
    }

    /// Forgets times of a clock that was set. To be called before a time is read.
    fn follow_clock(&mut self) {
        let life = self.shared.life();
        if life != self.life {
            (self.life, self.before_ns, self.seen_ns) = (life, 0, 0);
        }
    }

    /// A packet was handled, or (`is_received` alone) is in the queue of who handles it.
    #[inline]
    pub(super) fn packet(&mut self, arrival_ns: u64, is_received: bool) {
        // One without a stamp bears the time of its handling, which is later than anything said.
        if arrival_ns == 0 {
            return;
        }
        self.follow_clock();
        if arrival_ns < self.seen_ns {
            let late_ns = self.seen_ns - arrival_ns;
            if late_ns < SET_NS && late_ns > self.shared.late_ns() {
                self.shared.late_ns.store(late_ns, Ordering::Relaxed);
            }
        } else {
            self.seen_ns = arrival_ns;
            self.say(is_received);
        }
    }

    /// The ring was found empty, and what is to be done with what came from it is done.
    pub(super) fn is_empty(&mut self, is_received: bool) {
        self.follow_clock();
        if self.before_ns > self.seen_ns {
            self.seen_ns = self.before_ns;
            self.say(is_received);
        }
        self.before_ns = match self.shared.stamps {
            StampClock::Monotonic => clock::monotonic_ns(),
            // What is taken later is stamped later.
            StampClock::Realtime | StampClock::Taken => clock::realtime_ns(),
            StampClock::Recorded => 0,
        };
    }

    fn say(&self, is_received: bool) {
        let to = if is_received { &self.shared.received } else { &self.shared.handled };
        to.store(mark(self.seen_ns, self.life), Ordering::Release);
    }

    /// Among engines that hand packets over: the least that any of those that go on has received.
    pub(super) fn least_received<'a>(all: impl Iterator<Item = &'a Reach>) -> Option<u64> {
        let mut going_on = all.filter(|reach| !reach.has_ended()).map(|reach| reach.read(&reach.received));
        going_on.try_fold(u64::MAX, |least, received| Some(least.min(received?))).filter(|least| *least < u64::MAX)
    }

    /// Among engines that hand packets over: all up to here was handled.
    pub(super) fn handled(&mut self, until_ns: u64) {
        self.follow_clock();
        self.shared.handled.store(mark(until_ns, self.life), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reaching(stamps: StampClock) -> Reaching {
        Reaching::new(Arc::new(Reach::new(stamps, Arc::new(Event::new().unwrap()))))
    }

    #[test]
    fn an_empty_ring_says_what_was_before_the_look() {
        let mut engine = reaching(StampClock::Monotonic);
        let before_ns = clock::monotonic_ns();
        engine.is_empty(false);
        assert_eq!(engine.shared.until_ns(), None, "the look was before the first time");
        let between_ns = clock::monotonic_ns();
        engine.is_empty(false);
        let until_ns = engine.shared.until_ns().unwrap();
        assert!(until_ns > before_ns - 1024 && until_ns <= between_ns);
        engine.packet(between_ns + 4096, false);
        assert_eq!(engine.shared.until_ns(), Some((between_ns + 4096) & !LIFE));
        engine.packet(0, false);
        engine.packet(between_ns + 96, false);
        assert_eq!(engine.shared.until_ns(), Some((between_ns + 4096) & !LIFE), "one that is late takes nothing back");
        assert_eq!(engine.shared.late_ns(), 4000);
    }

    #[test]
    fn an_empty_ring_says_so_too_where_packets_are_stamped_as_they_are_taken() {
        let mut engine = reaching(StampClock::Taken);
        let before_ns = clock::realtime_ns();
        (0..2).for_each(|_| engine.is_empty(false));
        assert!(engine.shared.until_ns().unwrap() > before_ns - 1024);
        let mut engine = reaching(StampClock::Recorded);
        (0..2).for_each(|_| engine.is_empty(false));
        assert_eq!(engine.shared.until_ns(), None, "the times of a file are not of this clock");
    }

    #[test]
    fn an_engine_that_panicked_has_ended() {
        let mut engine = reaching(StampClock::Monotonic);
        let shared = Arc::clone(&engine.shared);
        let thread = std::thread::spawn(move || {
            engine.packet(1 << 20, false);
            panic!("of the test");
        });
        assert!(thread.join().is_err());
        assert_eq!((shared.until_ns(), shared.has_ended()), (Some(1 << 20), true));
    }

    #[test]
    fn a_clock_that_was_set_voids_what_was_said() {
        let mut engine = reaching(StampClock::Realtime);
        engine.packet(5 << 40, false);
        assert_eq!(engine.shared.until_ns(), Some(5 << 40));
        engine.shared.begin_anew();
        assert_eq!(engine.shared.until_ns(), None);
        engine.is_empty(false);
        assert_eq!(engine.shared.until_ns(), None, "its time before the look was of the old clock");
        // Set back.
        engine.packet(3 << 40, false);
        assert_eq!((engine.shared.until_ns(), engine.shared.late_ns()), (Some(3 << 40), 0));
    }
}

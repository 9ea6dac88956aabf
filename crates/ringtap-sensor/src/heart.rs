//! Owns: heartbeats: what the engines together have handled, epochs that begin when the clock is set, and the thread that tells.
//! Does not: watch rings; each engine says how far it is (`ringtap::hand_over::Reach`).
//!
//! *h: no alert with an event time up to h follows.* It is the least over all engines of what they say, less [`VISIBLE_AFTER`].
//! Engines that have ended are left out once nothing waits for them in the hand-over. An alert that was promised not to come is counted. In a file h is the time of the packet handled last, so a file whose packets are
//! further out of order than that has alerts behind; at the end of the last file nothing follows at all.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender as Stopper};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap::arrival::ArrivalClock;
use ringtap::clock::{self, Clock, SystemClock};
use ringtap::hand_over::Reach;
use ringtap::source::StampClock;
use ringtap::{Error, Result};
use ringtap_datagram::{Heartbeat, Message};
use ringtap_output::Producer;
use ringtap_run::notes;

use crate::alarms::Sender;
use crate::identity::{Epochs, Identity, Who};
use crate::numbers::{HostClock, Numbers};
use crate::record::Record;

/// From one heartbeat to the next.
const BEAT: Duration = Duration::from_millis(100);
/// The longest time taken for granted from a frame's stamp until its engine can see it: frames become visible when the device's poll ends,
/// and a stamp is taken before. A poll handles 64 frames in well below a millisecond; what is longer is a kernel that something held up.
const VISIBLE_AFTER: Duration = Duration::from_millis(5);
/// Engines that said less lately are woken before a beat, in rounds: the first look begins what the second one ends, and where packets
/// are handed over a third one learns of it.
const LATELY: Duration = Duration::from_millis(10);
const ROUNDS: usize = 4;
const ROUND: Duration = Duration::from_millis(1);
/// Stack of the thread: a sensor locks all its memory, what nobody uses too.
const STACK_BYTES: usize = 256 << 10;

/// What beats.
struct Pulse {
    who: Arc<Who>,
    epochs: Epochs,
    numbers: Arc<Numbers>,
    clock: Arc<HostClock>,
    reaches: Vec<Arc<Reach>>,
    /// Of live engines: whether the clock was set.
    wall: Option<ArrivalClock>,
    steps: u64,
    visible_after_ns: u64,
    horizon_ns: u64,
}

impl Pulse {
    fn new(
        identity: Identity,
        numbers: Arc<Numbers>,
        clock: Arc<HostClock>,
        reaches: Vec<Arc<Reach>>,
        by: &impl Clock,
    ) -> Self {
        let is_live = reaches.iter().all(|reach| reach.stamps() != StampClock::Recorded);
        let wall = is_live.then(|| ArrivalClock::new_by(by, StampClock::Realtime));
        let Identity { who, epochs } = identity;
        Self {
            who,
            epochs,
            numbers,
            clock,
            reaches,
            wall,
            steps: 0,
            visible_after_ns: VISIBLE_AFTER.as_nanos() as u64,
            horizon_ns: 0,
        }
    }

    /// A heartbeat, now.
    fn beat(&mut self, by: &impl Clock, error_ns: impl FnOnce() -> Option<u64>) -> Heartbeat {
        // For a second after it was set stamps of before may come, and nothing is promised or known.
        let is_sure = self.follow(by);
        let error_ns = if is_sure { error_ns() } else { None };
        self.clock.set_error(error_ns);
        let now_ns = by.realtime_ns();
        if is_sure && let Some(until_ns) = self.until_ns() {
            let horizon_ns = until_ns.saturating_sub(self.visible_after_ns);
            let most_ns = if self.wall.is_some() { now_ns } else { u64::MAX };
            self.horizon_ns = self.horizon_ns.max(horizon_ns.min(most_ns));
        }
        self.told(now_ns, error_ns)
    }

    /// The last one: all engines have ended and their flows were looked at.
    fn last(&mut self, by: &impl Clock) -> Heartbeat {
        let now_ns = by.realtime_ns();
        self.horizon_ns = if self.wall.is_some() { self.horizon_ns.max(now_ns) } else { u64::MAX };
        self.told(now_ns, self.clock.error_ns())
    }

    fn told(&self, sent_ns: u64, error_ns: Option<u64>) -> Heartbeat {
        let last_sequence = self.numbers.promise(self.horizon_ns);
        let origin = self.who.origin(self.numbers.epoch());
        Heartbeat { origin, last_sequence, horizon_ns: self.horizon_ns, sent_ns, error_ns }
    }

    /// Begins an epoch if the clock was set; whether it is long enough ago.
    fn follow(&mut self, by: &impl Clock) -> bool {
        let Some(wall) = &mut self.wall else { return true };
        let is_sure = wall.now_by(by).stamp_ns.is_some();
        wall.ring_is_empty();
        if wall.steps() != self.steps {
            self.steps = wall.steps();
            let epoch = self.epochs.next().unwrap_or_else(|error| {
                notes::warn(&error.to_string());
                self.epochs.last()
            });
            self.clock.set_error(None);
            self.clock.set_offset(offset_ns(by));
            self.horizon_ns = 0;
            self.numbers.begin(epoch);
            self.reaches.iter().for_each(|reach| reach.begin_anew());
        }
        is_sure
    }

    /// Up to when all engines that go on have handled what they could see, nanoseconds since 1970.
    fn until_ns(&self) -> Option<u64> {
        let going_on = self.reaches.iter().filter(|reach| !reach.has_ended());
        let until = going_on.map(|reach| {
            let until_ns = reach.until_ns()?;
            Some(if reach.stamps() == StampClock::Monotonic { self.clock.realtime_ns(until_ns) } else { until_ns })
        });
        until.reduce(|least, until| Some(least?.min(until?))).flatten()
    }

    /// Has engines look that have not lately; whether there were any.
    fn wake(&self) -> bool {
        let is_late = |reach: &&Arc<Reach>| {
            let now_ns = match reach.stamps() {
                StampClock::Monotonic => clock::monotonic_ns(),
                StampClock::Realtime | StampClock::Taken => clock::realtime_ns(),
                StampClock::Recorded => return false,
            };
            let lately_ns = now_ns.saturating_sub(LATELY.as_nanos() as u64);
            !reach.has_ended() && reach.until_ns().is_none_or(|until_ns| until_ns < lately_ns)
        };
        self.reaches.iter().filter(is_late).map(|reach| reach.ring()).count() > 0
    }
}

/// What CLOCK_REALTIME is ahead of CLOCK_MONOTONIC: by the closest of some readings, as a thread may be held up between two.
fn offset_ns(by: &impl Clock) -> i64 {
    let reading = || {
        let (before, wall, after) = (by.monotonic_ns(), by.realtime_ns(), by.monotonic_ns());
        (after - before, wall.wrapping_sub(before + (after - before) / 2) as i64)
    };
    (0..5).map(|_| reading()).min_by_key(|(took, _)| *took).map_or(0, |(_, offset)| offset)
}

/// The thread.
pub(crate) struct Heart {
    thread: JoinHandle<u64>,
    stop: Stopper<()>,
}

impl Heart {
    /// Begins to tell: by `ring`, where there is one, and into the queue of the outputs.
    ///
    /// # Errors
    /// The thread can't be started.
    pub(crate) fn start(
        identity: Identity,
        numbers: &Arc<Numbers>,
        host: &Arc<HostClock>,
        reaches: Vec<Arc<Reach>>,
        mut ring: Option<Box<Sender>>,
        mut queue: Producer<Record>,
    ) -> Result<Self> {
        let (numbers, host) = (Arc::clone(numbers), Arc::clone(host));
        host.set_offset(offset_ns(&SystemClock));
        let mut pulse = Pulse::new(identity, numbers, host, reaches, &SystemClock);
        let (stop, stopped) = mpsc::channel();
        let work = move || {
            let mut next = Instant::now();
            let mut beats = 0;
            loop {
                let is_last = match stopped.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => false,
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
                };
                let beat = if is_last {
                    pulse.last(&SystemClock)
                } else {
                    for _ in (0..ROUNDS).take_while(|_| pulse.wake()) {
                        std::thread::sleep(ROUND);
                    }
                    pulse.beat(&SystemClock, clock::realtime_error_ns)
                };
                beats += 1;
                if let Some(ring) = &mut ring {
                    ring.send(&Message::Heartbeat(beat));
                    ring.kick();
                }
                if is_last {
                    // What it promises is told by no later one.
                    queue.push_waiting(Record::Heartbeat(beat), &[]);
                    return beats;
                }
                queue.push(Record::Heartbeat(beat), &[]);
                queue.wake();
                // One that is late does not hurry the next ones.
                next = (next + BEAT).max(Instant::now());
            }
        };
        let thread = std::thread::Builder::new()
            .name("ringtap-heart".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(work)
            .map_err(|error| Error::os("start", "thread of heartbeats", &error))?;
        Ok(Self { thread, stop })
    }

    /// Tells for the last time; how often it told.
    ///
    /// # Errors
    /// It panicked.
    pub(crate) fn finish(self) -> Result<u64> {
        drop(self.stop);
        self.thread
            .join()
            .map_err(|_| Error::failed("end", "thread of heartbeats", "it panicked").way_out("report this as a bug"))
    }
}

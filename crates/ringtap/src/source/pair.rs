//! Two devices that one engine serves: it takes from both in turn, and one wait is for both.
//!
//! Owns whose turn it is. What each device is, and which packets it counts, stays its receiver's.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::{AnySource, Description, Source, StampClock, Wake};
use crate::burst::Burst;
use crate::error::{Error, Result};
use crate::meters::EngineMeters;
use crate::sys::event::{PollEnd, Stop};
use crate::sys::socket_error;

/// The two.
pub(crate) struct Pair {
    first: AnySource,
    second: AnySource,
    waits: [Arc<OwnedFd>; 2],
    /// Counts the packets of the second.
    meters: Arc<EngineMeters>,
    /// Whether the second one's turn comes first.
    turned: bool,
    /// Had nothing while the other one had something: it may wait to be polled, which the engine does when neither has.
    starved: [bool; 2],
    /// The last wait ended because a device failed.
    has_failed: bool,
}

impl Pair {
    /// Sources of one kind and with one clock.
    ///
    /// # Errors
    /// One of them can't be waited for by a descriptor.
    pub(crate) fn of(first: AnySource, second: AnySource, meters: Arc<EngineMeters>) -> Result<Self> {
        let wait = |source: &AnySource| {
            let none = || {
                let description = source.description();
                Error::failed(
                    "wait for two devices with",
                    description.object,
                    "its back end has no descriptor to wait on",
                )
                .way_out("use --backend xdp or packet")
            };
            source.wait_fd().ok_or_else(none)
        };
        let waits = [wait(&first)?, wait(&second)?];
        Ok(Self { first, second, waits, meters, turned: false, starved: [false; 2], has_failed: false })
    }
}

impl Source for Pair {
    fn receive(&mut self) -> Burst<'_> {
        let Self { first, second, meters, turned, starved: [of_first, of_second], .. } = self;
        *turned = !*turned;
        if *turned {
            if std::mem::take(of_first) {
                first.poll_device();
            }
            let burst = first.receive();
            if !burst.is_empty() {
                return burst;
            }
            drop(burst);
            let burst = second.receive().of_second_port(meters);
            *of_first = !burst.is_empty();
            burst
        } else {
            if std::mem::take(of_second) {
                second.poll_device();
            }
            let burst = second.receive();
            if !burst.is_empty() {
                return burst.of_second_port(meters);
            }
            drop(burst);
            let burst = first.receive();
            *of_second = !burst.is_empty();
            burst
        }
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        const PAUSE: Duration = Duration::from_millis(100);
        if self.arm() {
            self.disarm();
            return Wake::Ready;
        }
        let has_failed = std::mem::take(&mut self.has_failed);
        let limit = [limit, self.first.longest_wait(), self.second.longest_wait()].into_iter().flatten().min();
        let end = stop.wait_either([Some(self.waits[0].as_fd()), Some(self.waits[1].as_fd())], limit);
        self.disarm();
        match end {
            PollEnd::Readable => Wake::Ready,
            PollEnd::TimedOut => Wake::TimedOut,
            PollEnd::Stopped => Wake::Stopped,
            PollEnd::Failed => {
                // Reading the error clears it: the other device is waited for as before. Who watches over the devices hears of one
                // that is gone.
                self.has_failed = true;
                for fd in &self.waits {
                    let _ = socket_error(fd.as_fd());
                }
                if has_failed && stop.wait(PAUSE) { Wake::Stopped } else { Wake::TimedOut }
            }
        }
    }

    fn poll_device(&mut self) {
        self.first.poll_device();
        self.second.poll_device();
    }

    fn quiesce(&mut self) -> bool {
        let (first, second) = (self.first.quiesce(), self.second.quiesce());
        first && second
    }

    fn stamp_clock(&self) -> StampClock {
        self.first.stamp_clock()
    }

    fn description(&self) -> Description {
        self.first.description()
    }

    fn arm(&mut self) -> bool {
        let (first, second) = (self.first.arm(), self.second.arm());
        first || second
    }

    fn disarm(&mut self) {
        self.first.disarm();
        self.second.disarm();
    }

    fn share_stop(&mut self, stop: &Arc<Stop>) {
        self.first.share_stop(stop);
        self.second.share_stop(stop);
    }

    fn failure(&self) -> Option<&str> {
        self.first.failure().or_else(|| self.second.failure())
    }

    /// Of both; which is whose, the meters tell.
    fn invalid_descriptors(&self) -> u64 {
        self.first.invalid_descriptors() + self.second.invalid_descriptors()
    }

    fn invalid_completions(&self) -> u64 {
        self.first.invalid_completions() + self.second.invalid_completions()
    }

    fn count_invalid(&self, meters: &EngineMeters) {
        self.first.count_invalid(meters);
        self.second.count_invalid(&self.meters);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::burst::Packet;
    use crate::clock::SystemClock;
    use crate::sys::event::Event;
    use crate::testing::{self, Arrival, Ending, MemorySource, Script};
    use crate::transmit::Outbox;
    use crate::{End, Engine, Handler};

    /// Counts how often it is polled, and has seen so many descriptors that made no sense.
    struct Polled<S>(S, Arc<AtomicU64>, Arc<OwnedFd>, u64);

    impl<S: Source> Source for Polled<S> {
        fn receive(&mut self) -> Burst<'_> {
            self.0.receive()
        }

        fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
            self.0.wait_for_interrupt(stop, limit)
        }

        fn poll_device(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }

        fn quiesce(&mut self) -> bool {
            self.0.quiesce()
        }

        fn stamp_clock(&self) -> StampClock {
            self.0.stamp_clock()
        }

        fn description(&self) -> Description {
            self.0.description()
        }

        fn wait_fd(&self) -> Option<Arc<OwnedFd>> {
            Some(Arc::clone(&self.2))
        }

        fn invalid_descriptors(&self) -> u64 {
            self.3
        }

        fn invalid_completions(&self) -> u64 {
            10 * self.3
        }
    }

    fn source(packets: usize) -> (AnySource, Arc<AtomicU64>) {
        source_with(packets, 0)
    }

    fn source_with(packets: usize, invalid: u64) -> (AnySource, Arc<AtomicU64>) {
        let arrivals = (0..packets).map(|_| Arrival::there(&b"packet"[..]));
        let script = Script { ending: Ending::Silence, ..Script::of(arrivals) };
        let polls = Arc::<AtomicU64>::default();
        let fd = Arc::new(Event::new().unwrap().as_fd().try_clone_to_owned().unwrap());
        let inner = MemorySource::new("test", SystemClock, script).unwrap();
        (Box::new(Polled(inner, Arc::clone(&polls), fd, invalid)), polls)
    }

    #[test]
    fn what_made_no_sense_is_counted_where_the_devices_packets_are() {
        let of_second = Arc::<EngineMeters>::default();
        let pair = Pair::of(source_with(20, 3).0, source_with(30, 5).0, Arc::clone(&of_second)).unwrap();
        let stop = Arc::new(Stop::new().unwrap());
        stop.pull();
        let mut engine = Engine { stop, ..testing::engine(pair, Ignore).unwrap() };
        assert_eq!(engine.run(), End::Stopped);
        let told = [engine.meters.snapshot(), of_second.snapshot()];
        let told = told.map(|told| (told.packets, told.invalid_descriptors, told.invalid_completions));
        assert_eq!(told, [(20, 3, 30), (30, 5, 50)]);
    }

    struct Ignore;

    impl Handler for Ignore {
        fn packet(&mut self, _packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {}
    }

    #[test]
    fn a_flood_on_one_leaves_the_other_its_polls() {
        for flooded in 0..2 {
            let mut sources = [0, 1].map(|at| source(if at == flooded { 10_000 } else { 0 }));
            let polls = [0, 1].map(|at| Arc::clone(&sources[at].1));
            let [(first, _), (second, _)] = std::mem::replace(&mut sources, [source(0), source(0)]);
            let mut pair = Pair::of(first, second, Arc::default()).unwrap();
            for _ in 0..20 {
                let burst = pair.receive();
                assert!(!burst.is_empty(), "a flood");
            }
            let polls = polls.map(|count| count.load(Ordering::Relaxed));
            assert!(polls[1 - flooded] >= 8 && polls[flooded] == 0, "{flooded}: {polls:?}");
        }
    }
}

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
        Ok(Self { first, second, waits, meters, turned: false, has_failed: false })
    }
}

impl Source for Pair {
    fn receive(&mut self) -> Burst<'_> {
        let Self { first, second, meters, turned, .. } = self;
        *turned = !*turned;
        if *turned {
            let burst = first.receive();
            if !burst.is_empty() {
                return burst;
            }
            drop(burst);
            second.receive().of_second_port(meters)
        } else {
            let burst = second.receive();
            if !burst.is_empty() {
                return burst.of_second_port(meters);
            }
            drop(burst);
            first.receive()
        }
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        const PAUSE: Duration = Duration::from_millis(100);
        if self.arm() {
            return Wake::Ready;
        }
        let has_failed = std::mem::take(&mut self.has_failed);
        match stop.wait_either([Some(self.waits[0].as_fd()), Some(self.waits[1].as_fd())], limit) {
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

    fn share_stop(&mut self, stop: &Arc<Stop>) {
        self.first.share_stop(stop);
        self.second.share_stop(stop);
    }

    fn failure(&self) -> Option<&str> {
        self.first.failure().or_else(|| self.second.failure())
    }

    fn invalid_descriptors(&self) -> u64 {
        self.first.invalid_descriptors() + self.second.invalid_descriptors()
    }
}

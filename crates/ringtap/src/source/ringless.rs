//! An engine without a ring of its own: its packets come by queues from engines that have one ([`crate::hand_over`]), and it
//! sleeps until one of them rings.

use std::time::Duration;

use super::{Description, Source, StampClock, Wake};
use crate::burst::{Burst, PacketBuffer};
use crate::error::Result;
use crate::sys::event::{PollEnd, Stop};

pub(crate) struct Ringless {
    /// Holds nothing.
    buffer: PacketBuffer,
    stamps: StampClock,
}

impl Ringless {
    /// For packets whose stamps are of this clock.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn new(stamps: StampClock) -> Result<Self> {
        Ok(Self { buffer: PacketBuffer::new(1)?, stamps })
    }
}

impl Source for Ringless {
    fn receive(&mut self) -> Burst<'_> {
        self.buffer.burst()
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        match stop.wait_either([None, None], limit) {
            PollEnd::Stopped => Wake::Stopped,
            PollEnd::TimedOut => Wake::TimedOut,
            PollEnd::Readable | PollEnd::Failed => Wake::Ready,
        }
    }

    fn stamp_clock(&self) -> StampClock {
        self.stamps
    }

    fn description(&self) -> Description {
        Description::new("queues", "")
    }
}

//! Frames of refused packets, on their way back to the fill ring.
//!
//! Owns their place among the frames of the packets around them: packed frames make packets only as long as they are given
//! back in the order of their addresses. Does not know what a frame is but for its number.

use std::collections::VecDeque;

/// Runs of frames that can wait at once; what is beyond is lost to the ring, as after packets that no working kernel delivers.
const MOST: usize = 1024;

/// Frames that follow each other, and how many packets had been taken before they came.
#[derive(Debug, Clone, Copy)]
struct Run {
    after: u64,
    first: u32,
    count: u32,
}

/// Those that wait for the packets before them to be given back.
#[derive(Debug)]
pub(super) struct Refused {
    runs: VecDeque<Run>,
    /// Where those of the packet begin that is being looked at.
    mark: usize,
}

impl Refused {
    pub(super) fn new() -> Self {
        Self { runs: VecDeque::with_capacity(MOST), mark: 0 }
    }

    /// The frames noted from here on are those of another packet.
    pub(super) fn begin(&mut self) {
        self.mark = self.runs.len();
    }

    /// A frame of a packet that came behind `after` others; `mask` is the number of all frames less one.
    pub(super) fn note(&mut self, after: u64, frame: u32, mask: u32) {
        let in_packet = self.runs.len() > self.mark;
        if let Some(run) = self.runs.back_mut().filter(|run| in_packet && frame == (run.first + run.count) & mask) {
            run.count += 1;
        } else if self.runs.len() < MOST {
            self.runs.push_back(Run { after, first: frame, count: 1 });
        }
    }

    /// The packet is a good one after all.
    pub(super) fn accept(&mut self) {
        self.runs.truncate(self.mark);
    }

    /// The next run whose turn it is once `given` packets were given back: its first frame and how many.
    pub(super) fn next(&mut self, given: u64) -> Option<(u32, u32)> {
        let run = *self.runs.front().filter(|run| run.after <= given)?;
        self.runs.pop_front();
        Some((run.first, run.count))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

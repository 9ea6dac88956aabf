//! Replays capture files through a transmit ring: at recorded pace, a multiple of it, a constant rate, or without waiting.
//!
//! Owns when each frame is due and the repetition. What is in the files is `playlist`'s, waiting and counting `sender`'s.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ringtap::{Error, Result};

use super::Generator;
use super::check::check_interface;
use super::playlist::Playlist;
pub use super::playlist::Replayed;
use super::report::GeneratorReport;
use super::schedule::{RATE_PPS, gap_q16};
use super::sender::{Due, Manner, Sender, Shared};

/// How fast files are replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReplayPace {
    /// With the recorded distances between packets, divided by this: 2.0 takes half the time. Finite and above 0.
    Recorded(f64),
    /// At this many packets per second, in the range of [`RATE_PPS`].
    Constant(f64),
    /// Without waiting.
    AsFast,
}

/// What to replay, where and how.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Interface of the calling thread's network namespace.
    pub interface: String,
    /// pcap or pcapng files of Ethernet frames, sent one after another.
    pub files: Vec<PathBuf>,
    /// How fast.
    pub pace: ReplayPace,
    /// How many times, at least 1. At recorded pace each time begins one mean interval after the last packet before.
    pub passes: u64,
    /// CPU to run on; `None`: wherever the scheduler puts it.
    pub core: Option<usize>,
    /// SCHED_FIFO priority (1–99); `None`: an ordinary thread.
    pub priority: Option<u8>,
    /// A pause of the thread that is longer than this is not caught up.
    pub max_late: Duration,
    /// Sends also outside a namespace made by Ringtap. It may disturb real networks.
    pub anywhere: bool,
}

impl Replay {
    /// `files` once on `interface`, with the usual settings: FIFO 30, 100 ms caught up.
    pub fn new(interface: impl Into<String>, files: Vec<PathBuf>, pace: ReplayPace) -> Self {
        Self {
            interface: interface.into(),
            files,
            pace,
            passes: 1,
            core: None,
            priority: Some(30),
            max_late: Duration::from_millis(100),
            anywhere: false,
        }
    }

    /// Starts sending, in the calling thread's network namespace. The report's `replay` tells what was skipped.
    ///
    /// # Errors
    /// A request that makes no sense, a file that can't be read or holds nothing to send, an interface that isn't there, a
    /// namespace that Ringtap did not make (see [`Replay::anywhere`]), missing rights.
    pub fn start(self) -> Result<Generator> {
        let wrong =
            |what: String, way_out: &str| Err(Error::usage("replay on", &self.interface, what).way_out(way_out));
        match self.pace {
            ReplayPace::Recorded(factor) if !(factor.is_finite() && factor > 0.0) => {
                return wrong(format!("{factor} times the recorded pace"), "give a multiple above 0");
            }
            ReplayPace::Constant(pps) if !RATE_PPS.contains(&pps) => {
                return wrong(format!("{pps} packets per second"), "use 1 to 20M");
            }
            _ if self.passes == 0 => return wrong("0 times".to_owned(), "ask for at least one"),
            _ => {}
        }
        let interface = check_interface(&self.interface, self.priority, self.anywhere)?;
        let playlist = Playlist::open(&self.files, interface.mtu as usize, self.passes > 1)?;
        let manner = Manner {
            core: self.core,
            priority: self.priority,
            // What is due later may be long in coming.
            hold_ns: 10_000,
            max_late_ns: self.max_late.as_nanos() as u64,
        };
        let shared = Arc::new(Shared::default());
        let sender = Sender::open(&interface, manner, shared.clone())?;
        let (pace, passes) = (self.pace, self.passes);
        let thread = thread::Builder::new()
            .name("replay".into())
            .spawn(move || Ok(run(sender, playlist, pace, passes)))
            .map_err(|error| Error::os("start thread of", "the replay", &error))?;
        Ok(Generator::in_user_space((shared, thread)))
    }
}

fn run(mut sender: Sender, mut playlist: Playlist, pace: ReplayPace, passes: u64) -> GeneratorReport {
    let warnings = sender.place();
    let mut clock = ReplayClock::new(pace);
    let mut left = passes;
    let complete = loop {
        let sent = match playlist.next() {
            Some((frame, stamp_ns)) => {
                let build = |out: &mut [u8], _now: u64| match out.get_mut(..frame.len()) {
                    Some(room) => {
                        room.copy_from_slice(frame);
                        frame.len()
                    }
                    None => 0,
                };
                match clock.due(stamp_ns) {
                    Some(due) => sender.send(due, build),
                    None => sender.send_now(build),
                }
            }
            None => {
                left -= 1;
                if left == 0 {
                    playlist.end_pass();
                    break true;
                }
                clock.next_pass();
                playlist.rewind()
            }
        };
        if !sent {
            break false;
        }
    };
    let mut report = sender.finish(clock.asked_pps(), complete, warnings);
    report.replay = Some(playlist.found().clone());
    report
}

/// When the frames of a replay are due.
#[derive(Debug)]
struct ReplayClock {
    pace: ReplayPace,
    frames: u64,
    /// Of the last frame.
    due: Due,
    /// Recorded time of the first frame of this pass that has one, and what it is due at.
    start: Option<u64>,
    pass_q16: u64,
    pass_frames: u64,
}

impl ReplayClock {
    fn new(pace: ReplayPace) -> Self {
        let due = Due { at_q16: 0, gap_q16: 0 };
        Self { pace, frames: 0, due, start: None, pass_q16: 0, pass_frames: 0 }
    }

    /// When the next frame is due; `None`: at once. A frame without a recorded time, or with an earlier one than the frame
    /// before, is due together with that.
    fn due(&mut self, stamp_ns: u64) -> Option<Due> {
        let at_q16 = match self.pace {
            ReplayPace::AsFast => return None,
            ReplayPace::Constant(_) if self.frames == 0 => 0,
            ReplayPace::Constant(pps) => self.due.at_q16 + gap_q16(pps),
            ReplayPace::Recorded(_) if stamp_ns == 0 => self.due.at_q16.max(self.pass_q16),
            ReplayPace::Recorded(factor) => {
                let since = stamp_ns.saturating_sub(*self.start.get_or_insert(stamp_ns));
                // A cast saturates: what is recorded more than 78 hours later is due after 78 hours.
                let since_q16 = (since as f64 / factor * 65_536.0) as u64;
                self.pass_q16.saturating_add(since_q16).max(self.due.at_q16)
            }
        };
        // The distances are the recording's own: only a constant rate is caught up gently.
        let gap_q16 = if let ReplayPace::Constant(pps) = self.pace { gap_q16(pps) } else { 0 };
        self.due = Due { at_q16, gap_q16 };
        self.frames += 1;
        self.pass_frames += 1;
        Some(self.due)
    }

    /// The files begin again, one mean interval after their end.
    fn next_pass(&mut self) {
        let intervals = self.pass_frames.saturating_sub(1).max(1);
        let span = self.due.at_q16 - self.pass_q16;
        self.pass_q16 = self.due.at_q16.saturating_add(span / intervals);
        self.start = None;
        self.pass_frames = 0;
    }

    /// Mean rate asked for so far; 0 when there is none.
    fn asked_pps(&self) -> f64 {
        match self.pace {
            ReplayPace::Constant(pps) => pps,
            _ if self.due.at_q16 == 0 => 0.0,
            _ => self.frames.saturating_sub(1) as f64 * 65_536e9 / self.due.at_q16 as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_ns(clock: &mut ReplayClock, stamps: &[u64]) -> Vec<u64> {
        stamps.iter().map(|&stamp| clock.due(stamp).unwrap().at_q16 >> 16).collect()
    }

    #[test]
    fn recorded_distances_are_kept_and_divided() {
        let mut clock = ReplayClock::new(ReplayPace::Recorded(2.0));
        // Out of order, without a stamp, and a second pass one mean interval later.
        assert_eq!(due_ns(&mut clock, &[5_000, 6_000, 5_500, 0, 9_000]), [0, 500, 500, 500, 2_000]);
        clock.next_pass();
        assert_eq!(due_ns(&mut clock, &[5_000, 6_000]), [2_500, 3_000]);
        assert!((clock.asked_pps() - 6.0 * 1e9 / 3_000.0).abs() < 1.0);
    }

    #[test]
    fn a_constant_rate_goes_on_from_pass_to_pass() {
        let mut clock = ReplayClock::new(ReplayPace::Constant(1e6));
        assert_eq!(due_ns(&mut clock, &[9, 9, 3]), [0, 1_000, 2_000]);
        clock.next_pass();
        assert_eq!(due_ns(&mut clock, &[9]), [3_000]);
    }

    #[test]
    fn gaps_of_years_do_not_overflow() {
        let mut clock = ReplayClock::new(ReplayPace::Recorded(0.001));
        due_ns(&mut clock, &[1, u64::MAX, u64::MAX]);
        clock.next_pass();
        due_ns(&mut clock, &[1, u64::MAX]);
        assert!(ReplayClock::new(ReplayPace::AsFast).due(1).is_none());
    }
}

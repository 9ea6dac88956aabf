//! Sends frames that the caller makes one by one, at a constant rate or without waiting, through a transmit ring.
//!
//! Owns when each is due. Waiting and counting are `sender`'s, what a frame says the caller's.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ringtap::{Error, Result};

use super::Generator;
use super::check::check_interface;
use super::report::GeneratorReport;
use super::schedule::{RATE_PPS, gap_q16};
use super::sender::{Due, Manner, Sender, Shared};

/// Writes the frame of a number into the room given; its length, 0 when it does not fit.
pub type MakeFrame = Box<dyn FnMut(u64, &mut [u8]) -> usize + Send>;

/// What to send, where and how.
pub struct Prepared {
    /// Interface of the calling thread's network namespace.
    pub interface: String,
    /// Packets per second, in the range of [`RATE_PPS`]; `None`: without waiting.
    pub pps: Option<f64>,
    /// How many.
    pub count: u64,
    /// Makes them: called with 0, 1, … in order; a frame that the ring had no room for is asked for again.
    pub make: MakeFrame,
    /// CPU to run on; `None`: wherever the scheduler puts it.
    pub core: Option<usize>,
    /// SCHED_FIFO priority (1–99); `None`: an ordinary thread.
    pub priority: Option<u8>,
    /// Sends also outside a namespace made by Ringtap. It may disturb real networks.
    pub anywhere: bool,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prepared({} frames on {})", self.count, self.interface)
    }
}

impl Prepared {
    /// Starts sending, in the calling thread's network namespace.
    ///
    /// # Errors
    /// A rate out of range, an interface that isn't there, a namespace that Ringtap did not make (see
    /// [`Prepared::anywhere`]), missing rights.
    pub fn start(self) -> Result<Generator> {
        if let Some(pps) = self.pps.filter(|pps| !RATE_PPS.contains(pps)) {
            let wrong = Error::usage("generate on", &self.interface, format!("{pps} packets per second"));
            return Err(wrong.way_out("use 1 to 20M"));
        }
        let interface = check_interface(&self.interface, self.priority, self.anywhere)?;
        let manner = Manner {
            core: self.core,
            priority: self.priority,
            hold_ns: 10_000,
            max_late_ns: Duration::from_millis(100).as_nanos() as u64,
        };
        let shared = Arc::new(Shared::default());
        let sender = Sender::open(&interface, manner, shared.clone())?;
        let thread = thread::Builder::new()
            .name("generator".into())
            .spawn(move || Ok(run(sender, self.pps, self.count, self.make)))
            .map_err(|error| Error::os("start thread of", "the generator", &error))?;
        Ok(Generator::in_user_space((shared, thread)))
    }
}

fn run(mut sender: Sender, pps: Option<f64>, count: u64, mut make: MakeFrame) -> GeneratorReport {
    let warnings = sender.place();
    let mut complete = true;
    for number in 0..count {
        let build = |frame: &mut [u8], _now: u64| make(number, frame);
        let sent = match pps {
            None => sender.send_now(build),
            Some(pps) => {
                let gap_q16 = gap_q16(pps);
                sender.send(Due { at_q16: number.saturating_mul(gap_q16), gap_q16 }, build)
            }
        };
        if !sent {
            complete = false;
            break;
        }
    }
    sender.finish(pps.unwrap_or(0.0), complete, warnings)
}

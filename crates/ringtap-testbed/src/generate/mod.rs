//! The paced generator: numbered, time-stamped UDP packets at a set rate, made by the kernel on one core.
//!
//! Where the kernel can't, user space makes the same packets and sends them by a packet socket's transmit ring; the same ring
//! replays capture files.
//!
//! Owns what can be asked for and the running generator as others see it. In the kernel: `run` has the loop, `program` the
//! BPF side. In user space: `ring` has the loop, `pace` and `fill` mirror the BPF program, `sender` waits and sends,
//! `replay` and `playlist` are capture files, `prepared` are frames that the caller makes. For both: `schedule` the patterns,
//! `frame` the headers, `addresses` and `peers` what goes into them, `check` what is refused beforehand, `watch` the time until
//! the end, `report` the result, `outcome` its words.

mod addresses;
mod check;
mod fill;
mod frame;
#[cfg(test)]
mod oracle;
mod outcome;
mod pace;
mod peers;
mod playlist;
mod prepared;
mod program;
mod replay;
mod report;
mod ring;
mod run;
mod schedule;
mod sender;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap::error::ErrorKind;
use ringtap::{Error, Result};
use serde::{Deserialize, Serialize};

pub use addresses::Addresses;
pub use frame::{DEFAULT_PORT, FrameSpec, MAX_FRAME_BYTES, MAX_SIZES, MIN_FRAME_BYTES};
pub use outcome::Outcome;
pub use peers::{Neighbour, ask_for, neighbours_here, read_mac};
pub use prepared::{MakeFrame, Prepared};
pub use replay::{Replay, ReplayPace, Replayed};
pub use report::{GeneratorReport, Lateness, RATE_TOLERANCE};
pub use schedule::{MAX_SEGMENTS, Pattern, Profile, RATE_PPS, Segment};
pub use watch::Stopped;

use crate::drops::DeviceCounters;
use crate::testbed::Testbed;
use program::Controls;
use sender::Shared;

/// Which generator makes the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GeneratorBackend {
    /// The in-kernel one where it works and the device counts what it takes, else the ring, with a warning that says why.
    Auto,
    /// An XDP program run by the kernel: up to millions of packets per second. Needs Linux 5.18, CAP_BPF and CAP_NET_ADMIN.
    Kernel,
    /// A packet socket's transmit ring, filled by user space: some 100,000 packets per second. Needs CAP_NET_RAW.
    Ring,
}

/// What to send, where and how.
#[derive(Debug, Clone)]
pub struct GeneratorConfig {
    /// Which generator.
    pub backend: GeneratorBackend,
    /// Interface of the calling thread's network namespace.
    pub interface: String,
    /// Headers and sizes.
    pub frame: FrameSpec,
    /// When.
    pub profile: Profile,
    /// How many packets; `None`: until the profile ends or the generator is stopped.
    pub count: Option<u64>,
    /// Tells this generator's packets from others'.
    pub stream: u16,
    /// Number of the first packet.
    pub first_seq: u64,
    /// CPU to run on; `None`: wherever the scheduler puts it.
    pub core: Option<usize>,
    /// SCHED_FIFO priority (1–99); `None`: an ordinary thread. The core is busy all the time above some 500 packets/s. When
    /// others want it too, the kernel takes it from a real-time thread for up to 50 ms of each second
    /// (`sched_rt_runtime_us`, sched(7)), and from an ordinary thread for half of the time, whatever its nice value, as
    /// other sessions and control groups count as equals.
    pub priority: Option<u8>,
    /// Longest time a packet may wait for others before its batch is given to the device. In the kernel, from 900,000
    /// packets/s on, batches are full ones of 64 and a packet may wait for that: 71 µs at most.
    pub hold: Duration,
    /// After a pause of the core packets come up to a third faster until the schedule is caught up; a pause longer than
    /// this is not caught up: the schedule moves, and the report says so.
    pub max_late: Duration,
    /// Seed of the random intervals; the same seed gives the same intervals.
    pub seed: u64,
    /// Sends also outside a namespace made by Ringtap. It may disturb real networks.
    pub anywhere: bool,
}

impl GeneratorConfig {
    /// `profile` on `interface`, with the usual settings: in the kernel, FIFO 30, packets held up to 10 µs, 100 ms caught up.
    pub fn new(interface: impl Into<String>, frame: FrameSpec, profile: Profile) -> Self {
        Self {
            backend: GeneratorBackend::Kernel,
            interface: interface.into(),
            frame,
            profile,
            count: None,
            stream: 1,
            first_seq: 0,
            core: None,
            priority: Some(30),
            hold: Duration::from_micros(10),
            max_late: Duration::from_millis(100),
            seed: 0x9e37_79b9_7f4a_7c15,
            anywhere: false,
        }
    }

    /// As [`GeneratorConfig::new`], from the testbed's sender to its receiver, on its generator core.
    pub fn for_testbed(testbed: &Testbed, size: usize, profile: Profile) -> Self {
        let frame = FrameSpec::ipv4(testbed.sender().link(), testbed.receiver().link(), size);
        let core = Some(testbed.config().generator_core);
        Self { core, ..Self::new(testbed.sender().interface(), frame, profile) }
    }

    /// Sends `count` packets.
    #[must_use]
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }
}

/// How far a running generator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Packets stamped so far.
    pub stamped: u64,
    /// CLOCK_MONOTONIC of the latest, in nanoseconds; 0 before the first.
    pub last_ns: u64,
    /// Packets late by more than 100 µs.
    pub late: u64,
    /// All are sent.
    pub done: bool,
}

/// A generator or replay at work on its own thread. Dropping it stops it.
#[derive(Debug)]
pub struct Generator {
    link: Link,
    note: Option<String>,
    thread: Option<JoinHandle<Result<GeneratorReport>>>,
}

/// How the thread is watched and stopped.
#[derive(Debug)]
enum Link {
    Kernel(Controls),
    User(Arc<Shared>),
}

impl Generator {
    /// Starts sending, in the calling thread's network namespace.
    ///
    /// # Errors
    /// A request that makes no sense, an interface that isn't there or too small an MTU, a namespace that Ringtap did not
    /// make (see [`GeneratorConfig::anywhere`]), missing rights, or, when the in-kernel generator is insisted on, a kernel
    /// before 5.18.
    pub fn start(config: GeneratorConfig) -> Result<Self> {
        let interface = check::check(&config)?;
        let note = match config.backend {
            GeneratorBackend::Ring => None,
            GeneratorBackend::Kernel => return Ok(Self::in_kernel(run::start(config, &interface, false)?)),
            GeneratorBackend::Auto => match device_answers(&config.interface)
                .and_then(|before| Ok((before, run::start(config.clone(), &interface, true)?)))
            {
                Ok((before, started)) => {
                    let kernel = Self::in_kernel(started);
                    if !kernel.is_refused(&config.interface, before)? {
                        return Ok(kernel);
                    }
                    kernel.stop()?;
                    kernel.join()?;
                    Some(format!(
                        "the other end of {} takes nothing from the in-kernel generator (it has neither an XDP program nor GRO), so a \
                         transmit ring sends, more slowly",
                        interface.name
                    ))
                }
                Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
                Err(error) => Some(format!("no in-kernel generator, so a transmit ring does it, more slowly: {error}")),
            },
        };
        let mut this = Self::in_user_space(ring::start(&config, &interface, note.clone())?);
        this.note = note;
        Ok(this)
    }

    /// Whether the device took nothing since it had counted `before`, although packets were given to it. A veth whose other end
    /// has no NAPI drops them without counting.
    fn is_refused(&self, interface: &str, before: u64) -> Result<bool> {
        const PATIENCE: Duration = Duration::from_millis(200);
        const LOOK: Duration = Duration::from_millis(10);
        let since = Instant::now();
        while device_answers(interface)? == before {
            if since.elapsed() > PATIENCE {
                return Ok(self.progress()?.stamped > 0);
            }
            std::thread::sleep(LOOK);
        }
        Ok(false)
    }

    fn in_kernel((controls, thread): (Controls, JoinHandle<Result<GeneratorReport>>)) -> Self {
        Self { link: Link::Kernel(controls), note: None, thread: Some(thread) }
    }

    fn in_user_space((shared, thread): (Arc<Shared>, JoinHandle<Result<GeneratorReport>>)) -> Self {
        Self { link: Link::User(shared), note: None, thread: Some(thread) }
    }

    /// Why it is not the generator one would expect ([`GeneratorBackend::Auto`]); among the report's warnings too.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// How far it is; cheap, a system call at most.
    ///
    /// # Errors
    /// The kernel refuses to read the map.
    pub fn progress(&self) -> Result<Progress> {
        match &self.link {
            Link::Kernel(controls) => {
                let state = controls.state()?;
                Ok(Progress { stamped: state.sent, last_ns: state.last_ns, late: state.late, done: state.done })
            }
            Link::User(shared) => Ok(Progress {
                stamped: shared.sent.load(Ordering::Relaxed),
                last_ns: shared.last_ns.load(Ordering::Relaxed),
                late: shared.late.load(Ordering::Relaxed),
                done: shared.done.load(Ordering::Relaxed),
            }),
        }
    }

    /// Has it stop after the packet at hand; [`Generator::join`] then returns soon.
    ///
    /// # Errors
    /// The kernel refuses to write the map.
    pub fn stop(&self) -> Result<()> {
        match &self.link {
            Link::Kernel(controls) => controls.stop(),
            Link::User(shared) => {
                shared.stop.store(true, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end and reports.
    ///
    /// # Errors
    /// The kernel refused to go on.
    pub fn join(mut self) -> Result<GeneratorReport> {
        self.finish()
    }

    fn finish(&mut self) -> Result<GeneratorReport> {
        let thread = self.thread.take().ok_or_else(|| Error::failed("wait for", "generator", "it was waited for"))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Packets of the in-kernel generator that the device took, or refused because its queue was full.
fn device_answers(interface: &str) -> Result<u64> {
    let counters = DeviceCounters::read_here(interface)?;
    Ok(["tx_xdp_xmit", "tx_xdp_xmit_errors"].into_iter().filter_map(|name| counters.driver(name)).sum())
}

impl Drop for Generator {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // The thread ends by itself when the map can't be written any more.
            let _ = self.stop();
            let _ = self.finish();
        }
    }
}

impl Testbed {
    /// Starts a generator in the sender.
    ///
    /// # Errors
    /// As [`Generator::start`].
    pub fn generate(&self, config: GeneratorConfig) -> Result<Generator> {
        self.sender().run(|| Generator::start(config))?
    }
}

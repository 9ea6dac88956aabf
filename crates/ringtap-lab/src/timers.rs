//! Ways to sleep until the next tick, compared by how late they wake and what they cost (\[1] §5.5).
//!
//! Owns the comparison. Ringtap itself uses `ringtap::clock::sleep_until`, the first of them. `umwait` is not among them: a
//! hypervisor hides it, and it keeps the core from everybody else while it waits.

use std::io;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use nix::poll::ppoll;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use ringtap::core_use::CoreMeter;
use ringtap::histogram::{Histogram, Quantiles};
use ringtap::{Error, Result};
use ringtap::{clock, sched};
use serde::Serialize;

/// Above the engines, so that nothing of ours disturbs the comparison.
const PRIORITY: u8 = 80;

/// What one source of time did.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Timed {
    pub(crate) source: &'static str,
    /// Wake-up after the instant asked for, µs.
    pub(crate) late: Quantiles,
    /// CPU time of the thread per tick, µs: the system calls, not the interrupt.
    pub(crate) thread_us: f64,
    /// Use of the core per tick, µs, that of before taken off: all of it. `None` where others used the core more than we did.
    pub(crate) core_us: Option<f64>,
}

/// Sleeps until an instant of CLOCK_MONOTONIC in nanoseconds.
trait Sleep: Send {
    fn until(&mut self, instant_ns: u64) -> io::Result<()>;
}

struct Nanosleep;

impl Sleep for Nanosleep {
    fn until(&mut self, instant_ns: u64) -> io::Result<()> {
        clock::sleep_until(instant_ns);
        Ok(())
    }
}

/// timerfd_create(2), periodic: one read(2) per tick.
struct Timerfd {
    timer: TimerFd,
    period: Duration,
    started: bool,
}

impl Sleep for Timerfd {
    fn until(&mut self, instant_ns: u64) -> io::Result<()> {
        if !self.started {
            let first = TimeSpec::from(Duration::from_nanos(instant_ns));
            let ticks = Expiration::IntervalDelayed(first, self.period.into());
            self.timer.set(ticks, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
            self.started = true;
        }
        // Ticks that passed unread are in the count, so one that is over must not be waited for.
        if clock::monotonic_ns() < instant_ns { Ok(self.timer.wait()?) } else { Ok(()) }
    }
}

/// ppoll(2) without descriptors: relative, so the way to the call is added to each sleep.
struct Poll;

impl Sleep for Poll {
    fn until(&mut self, instant_ns: u64) -> io::Result<()> {
        let left = Duration::from_nanos(instant_ns.saturating_sub(clock::monotonic_ns()));
        ppoll(&mut [], Some(left.into()), None)?;
        Ok(())
    }
}

/// IORING_OP_TIMEOUT, absolute: one io_uring_enter(2) per tick.
struct Uring(IoUring);

impl Sleep for Uring {
    fn until(&mut self, instant_ns: u64) -> io::Result<()> {
        let until = types::Timespec::from(Duration::from_nanos(instant_ns));
        let entry = opcode::Timeout::new(&raw const until).flags(types::TimeoutFlags::ABS).build();
        // SAFETY: `until` is read when the entry is submitted, which is before this function returns.
        #[allow(unsafe_code)]
        unsafe { self.0.submission().push(&entry) }.map_err(io::Error::other)?;
        self.0.submit_and_wait(1)?;
        // Each is answered with ETIME, which is what was asked for.
        self.0.completion().for_each(drop);
        Ok(())
    }
}

/// Lets each source tick for `seconds` on `cpu`.
pub(crate) fn compare(cpu: usize, period: Duration, seconds: u64) -> Result<Vec<Timed>> {
    let failed = |name: &str, error: &io::Error| Error::os("time ticks by", name, error);
    let timerfd = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC);
    let mut timerfd = timerfd.map(|timer| Timerfd { timer, period, started: false }).map_err(io::Error::from);
    let mut uring = IoUring::new(8).map(Uring);
    let mut timed = Vec::new();
    let sources: [(&'static str, std::result::Result<&mut dyn Sleep, &io::Error>); 4] = [
        ("clock_nanosleep", Ok(&mut Nanosleep)),
        ("timerfd", timerfd.as_mut().map(|source| source as &mut dyn Sleep).map_err(|error| &*error)),
        ("ppoll", Ok(&mut Poll)),
        ("io_uring", uring.as_mut().map(|source| source as &mut dyn Sleep).map_err(|error| &*error)),
    ];
    for (name, source) in sources {
        let sleep = source.map_err(|error| failed(name, error))?;
        // A thread of its own: it takes its priority along when it ends.
        let thread = std::thread::scope(|scope| scope.spawn(|| one(name, sleep, cpu, period, seconds)).join());
        timed.push(thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
    }
    Ok(timed)
}

fn one(source: &'static str, sleep: &mut dyn Sleep, cpu: usize, period: Duration, seconds: u64) -> Result<Timed> {
    sched::set_affinity(0, cpu).map_err(|error| Error::os("bind to CPU", cpu.to_string(), &error))?;
    let mut meter = CoreMeter::open(cpu)?;
    // What the core does without us, before it is made a real-time thread's.
    let idle = share(&mut meter, || {
        clock::sleep_until(clock::monotonic_ns() + 500_000_000);
        Ok(())
    })?;
    sched::set_fifo(0, PRIORITY).map_err(|error| Error::os("run in real time by", source, &error))?;
    let period_ns = period.as_nanos() as u64;
    let ticks = seconds * 1_000_000_000 / period_ns;
    let late = Histogram::default();
    let thread_ns = clock::thread_cpu_ns();
    let used = share(&mut meter, || {
        let mut due = clock::monotonic_ns() + period_ns;
        for _ in 0..ticks {
            sleep.until(due)?;
            let now = clock::monotonic_ns();
            late.record(now.saturating_sub(due));
            // Missed ticks are skipped, as the pacer's grid does.
            due += period_ns * (1 + now.saturating_sub(due) / period_ns);
        }
        Ok(())
    });
    let thread_us = (clock::thread_cpu_ns() - thread_ns) as f64 / 1e3;
    let late = late.snapshot().quantiles_us();
    let ticks = late.count.max(1) as f64;
    let core_share = used? - idle;
    let core_us = (core_share > 0.0).then_some(core_share * seconds as f64 * 1e6 / ticks);
    Ok(Timed { source, late, thread_us: thread_us / ticks, core_us })
}

/// Share of the core that was in use while `work` ran.
fn share(meter: &mut CoreMeter, work: impl FnOnce() -> io::Result<()>) -> Result<f64> {
    let unreadable = || Error::failed("measure", "the use of the core", "its meter stopped answering");
    let before = meter.read().ok_or_else(unreadable)?;
    work().map_err(|error| Error::os("sleep", "by a source of time", &error))?;
    Ok(meter.read().ok_or_else(unreadable)?.share_since(&before))
}

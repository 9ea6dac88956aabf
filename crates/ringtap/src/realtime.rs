//! Making a thread a real-time one, step by step; each step the system refuses becomes one warning, not a failure.
//!
//! Owns the process-wide measures (locked memory, CPU latency request) and the per-thread ones (CPU, SCHED_FIFO, timer
//! slack), and knows the kernel's limit on real-time threads.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::sys::clock::{self, ThreadClock};
use crate::sys::sched;

/// The kernel's default share for real-time threads is less than everything: what sched(7) calls RT throttling.
const RUNTIME_FILE: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const PERIOD_FILE: &str = "/proc/sys/kernel/sched_rt_period_us";
const LATENCY_FILE: &str = "/dev/cpu_dma_latency";

/// What a real-time thread asks for.
#[derive(Debug, Clone)]
pub struct RealTime {
    /// SCHED_FIFO priority 1–99; 0 leaves the thread under the ordinary scheduler.
    pub priority: u8,
    /// Whether to lock the process's memory.
    pub lock_memory: bool,
    /// Whether to forbid deep idle states while running (they add wake-up latency and save power).
    pub shallow_idle: bool,
}

impl Default for RealTime {
    fn default() -> Self {
        Self { priority: 50, lock_memory: true, shallow_idle: true }
    }
}

/// Holds the process-wide measures; dropping it lifts the CPU latency request.
#[derive(Debug)]
pub struct ProcessGuard {
    _latency: Option<File>,
}

impl RealTime {
    /// Applies the process-wide measures; warnings go to `warnings`.
    pub fn apply_to_process(&self, warnings: &mut Vec<String>) -> ProcessGuard {
        if self.lock_memory
            && self.priority > 0
            && let Err(error) = sched::lock_memory()
        {
            warnings.push(format!(
                "memory is not locked ({error}): page faults may delay packets; run with CAP_IPC_LOCK or raise \
                 `ulimit -l`"
            ));
        }
        let latency = if self.shallow_idle && self.priority > 0 { request_shallow_idle(warnings) } else { None };
        ProcessGuard { _latency: latency }
    }

    /// Makes the calling thread a real-time one on `cpu`; warnings go to `warnings`.
    pub fn apply_to_thread(&self, cpu: Option<usize>, warnings: &mut Vec<String>) {
        if let Some(cpu) = cpu
            && let Err(error) = sched::set_affinity(0, cpu)
        {
            warnings.push(format!(
                "not bound to CPU {cpu} ({error}): choose among {} with --cpu",
                sched::listed(&sched::allowed_cpus())
            ));
        }
        // Inert under SCHED_FIFO, the next best thing without it.
        let _ = sched::set_timer_slack(1);
        if self.priority > 0
            && let Err(error) = sched::set_fifo(0, self.priority)
        {
            warnings.push(format!(
                "no real-time priority ({error}): wake-ups may be late under load; run with CAP_SYS_NICE or raise \
                 `ulimit -r`"
            ));
        }
    }

    /// Makes the calling thread an ordinary one again, before it gives its ring back. To unmap and unpin a ring takes
    /// milliseconds (13 to 17 in an emulated guest with PREEMPT_RT), and other engines on the CPU would wait for that.
    pub fn leave_thread(&self) {
        if self.priority > 0 {
            // It can only fail for a thread that was never a real-time one.
            let _ = sched::set_other(0);
        }
    }
}

/// Keeps CPUs out of deep idle states for as long as the file stays open (Documentation/power/pm_qos_interface.rst).
fn request_shallow_idle(warnings: &mut Vec<String>) -> Option<File> {
    let opened = OpenOptions::new().write(true).open(LATENCY_FILE).and_then(|mut file| {
        file.write_all(&0i32.to_ne_bytes())?;
        Ok(file)
    });
    match opened {
        Ok(file) => Some(file),
        Err(error) => {
            warnings.push(format!("deep idle states stay allowed ({LATENCY_FILE}: {error}): wake-ups may take longer"));
            None
        }
    }
}

/// The share of each period that real-time threads may run, or `None` where there is no limit or it can't be read.
pub fn throttling_share() -> Option<f64> {
    let read = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<i64>().ok();
    let (runtime, period) = (read(RUNTIME_FILE)?, read(PERIOD_FILE)?);
    (runtime >= 0 && period > 0 && runtime < period).then(|| runtime as f64 / period as f64)
}

/// The greatest share of its core that a thread used in any second or so between two looks.
#[derive(Debug)]
pub(crate) struct ThreadShare {
    clock: Option<ThreadClock>,
    at_ns: u64,
    cpu_ns: u64,
    greatest: f64,
}

impl ThreadShare {
    /// The kernel counts what real-time threads ran over a second, and so do we: a shorter span says little.
    const LEAST_NS: u64 = 900_000_000;

    pub(crate) fn of<T>(thread: &JoinHandle<T>) -> Self {
        let clock = ThreadClock::of(thread);
        let cpu_ns = clock.and_then(ThreadClock::nanoseconds).unwrap_or(0);
        Self { clock, at_ns: clock::monotonic_ns(), cpu_ns, greatest: 0.0 }
    }

    /// Takes what the thread used since the last look into account.
    pub(crate) fn look(&mut self) {
        if let Some(cpu_ns) = self.clock.and_then(ThreadClock::nanoseconds) {
            self.note(clock::monotonic_ns(), cpu_ns);
        }
    }

    fn note(&mut self, now_ns: u64, cpu_ns: u64) {
        let wall_ns = now_ns.saturating_sub(self.at_ns);
        if wall_ns < Self::LEAST_NS {
            return;
        }
        self.greatest = self.greatest.max(cpu_ns.saturating_sub(self.cpu_ns) as f64 / wall_ns as f64);
        (self.at_ns, self.cpu_ns) = (now_ns, cpu_ns);
    }

    /// CPU time that the thread has used; `None`: it has ended, or nobody says.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        self.clock.and_then(ThreadClock::nanoseconds).map(Duration::from_nanos)
    }

    /// The greatest share (0–1) seen.
    pub(crate) fn greatest(&self) -> f64 {
        self.greatest
    }
}

/// Whether this kernel has the fair server (Linux 6.12): real-time threads are no longer stopped at a share of the time, and
/// ordinary ones that wait for the same CPU get it for up to 50 ms of each second. The sysctl of RT throttling does not change
/// that.
pub fn has_fair_server() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    is_fair(&release)
}

fn is_fair(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|number| number.trim().parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 12)
}

/// What to do about the fair server.
pub const FAIR_SERVER_WAY_OUT: &str =
    "keep other programs off that CPU, or write 0 to runtime in /sys/kernel/debug/sched/fair_server/cpuN";

/// A sentence when an engine that used `busy_share` (0–1) of its core came up against the kernel's limit.
pub fn throttling_warning(busy_share: f64) -> Option<String> {
    /// What the fair server leaves by default.
    const FAIR_LIMIT: f64 = 0.95;
    if has_fair_server() {
        return (busy_share > FAIR_LIMIT * 0.98).then(|| {
            format!(
                "the engine used {:.0} % of its core for a second or longer: ordinary programs that wait for it get it for up to 50 ms \
                 of each second (the kernel's fair server), and packets wait meanwhile ({FAIR_SERVER_WAY_OUT})",
                busy_share * 100.0
            )
        });
    }
    let limit = throttling_share()?;
    (busy_share > limit * 0.98).then(|| {
        format!(
            "RT throttling: the engine used {:.0} % of its core for a second or longer and the kernel stops real-time threads at {:.0} %; packets wait \
             meanwhile (sysctl kernel.sched_rt_runtime_us=-1 lifts the limit, --priority 0 avoids it)",
            busy_share * 100.0,
            limit * 100.0
        )
    })
}

/// A sentence when a real-time thread that always has work was away for `longest` at once: about as long as the kernel takes its
/// CPU from it.
pub fn pause_warning(longest: Duration) -> Option<String> {
    /// Of the 50 ms that both mechanisms take of a second.
    const PAUSE: Duration = Duration::from_millis(20);
    let (cause, way_out) = if has_fair_server() {
        ("its fair server", FAIR_SERVER_WAY_OUT)
    } else {
        throttling_share()?;
        ("RT throttling", "sysctl kernel.sched_rt_runtime_us=-1 lifts that")
    };
    (longest >= PAUSE).then(|| {
        format!(
            "the sender was stopped for {:.1} ms: the kernel takes a CPU from a real-time thread that never sleeps for up to 50 ms of \
             each second ({cause}); --priority 0 avoids it, or {way_out}",
            longest.as_secs_f64() * 1e3
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_does_not_exist_is_a_warning() {
        let mut warnings = Vec::new();
        std::thread::spawn(move || {
            RealTime { priority: 0, ..RealTime::default() }.apply_to_thread(Some(100_000), &mut warnings);
            assert_eq!(warnings.len(), 1);
            assert!(warnings[0].contains("CPU 100000") && warnings[0].contains("--cpu"), "{}", warnings[0]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_leaves_is_an_ordinary_one() {
        std::thread::spawn(|| {
            let realtime = RealTime::default();
            let mut warnings = Vec::new();
            realtime.apply_to_thread(None, &mut warnings);
            assert_eq!(sched::is_fifo(), warnings.is_empty(), "{warnings:?}");
            realtime.leave_thread();
            assert!(!sched::is_fifo());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn one_busy_second_is_remembered() {
        let mut share = ThreadShare { clock: None, at_ns: 0, cpu_ns: 0, greatest: 0.0 };
        for (now_s, cpu_s) in [(10, 1), (11, 2), (30, 3)] {
            share.note(now_s * 1_000_000_000, cpu_s * 1_000_000_000);
        }
        assert_eq!(share.greatest(), 1.0);
        // A burst of a millisecond is no throttling, and not forgotten either.
        share = ThreadShare { clock: None, at_ns: 0, cpu_ns: 0, greatest: 0.0 };
        share.note(1_000_000, 1_000_000);
        assert_eq!(share.greatest(), 0.0);
        share.note(1_000_000_000, 2_000_000);
        assert_eq!(share.greatest(), 0.002);
    }

    #[test]
    fn an_idle_engine_is_not_throttled() {
        assert!(throttling_warning(0.1).is_none());
        if has_fair_server() {
            let warning = throttling_warning(1.0).unwrap();
            assert!(warning.contains("fair_server") && !warning.contains("sched_rt_runtime_us"), "{warning}");
        } else if throttling_share().is_some() {
            assert!(throttling_warning(1.0).unwrap().contains("sched_rt_runtime_us"));
        }
    }

    #[test]
    fn the_fair_server_is_of_6_12() {
        for (release, has) in
            [("6.12.0", true), ("6.18.44-fc", true), ("7.0-rc1", true), ("6.11.9", false), ("5.15.0", false)]
        {
            assert_eq!(is_fair(release), has, "{release}");
        }
        assert!(!is_fair(""));
    }
}

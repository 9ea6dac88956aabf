//! How busy a CPU is, in nanoseconds: unhalted cycles where the machine counts them, else time not spent idle.
//!
//! Owns the exact meters. They see everything on the CPU (interrupts, kernel, all programs), which is what a receiver costs as
//! long as it has the CPU for itself; what other programs had of it is `others`'s to tell.

mod others;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::sys::perf::{Event, HardwareCounter};
use crate::sys::{clock, sched};

pub use others::Others;

/// Where a busy time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreMeterKind {
    /// perf's unhalted cycles over the nominal clock.
    UnhaltedCycles,
    /// Wall time less the idle time of /proc/timer_list (tickless kernels account it to the nanosecond).
    IdleTime,
    /// Wall time less the idle time of /proc/stat, in ticks of 10 ms.
    IdleTicks,
}

/// What a meter showed, and when: the thread that reads it may be held up before or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Busy time since an arbitrary moment, nanoseconds; only differences mean something.
    pub busy_ns: u64,
    /// CLOCK_MONOTONIC of the reading, nanoseconds.
    pub at_ns: u64,
}

impl Reading {
    /// The share of the core (0–1) that was used since `earlier`.
    pub fn share_since(&self, earlier: &Self) -> f64 {
        self.busy_ns.saturating_sub(earlier.busy_ns) as f64 / self.at_ns.saturating_sub(earlier.at_ns).max(1) as f64
    }
}

/// A meter of one CPU.
#[derive(Debug)]
pub struct CoreMeter {
    cpu: usize,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Cycles { counter: HardwareCounter, per_second: f64 },
    IdleTime,
    IdleTicks,
}

impl CoreMeter {
    /// The best meter this machine has for `cpu`. Measuring the nominal clock takes 20 ms where cycles are counted.
    ///
    /// # Errors
    /// Neither counters nor /proc can be read, or there is no such CPU.
    pub fn open(cpu: usize) -> Result<Self> {
        if let Ok(mut counter) = HardwareCounter::open(cpu, Event::Cycles)
            && let Some(per_second) = nominal_clock(&mut counter, cpu)
        {
            return Ok(Self { cpu, source: Source::Cycles { counter, per_second } });
        }
        let source = if busy_by_timer_list(cpu).is_some() {
            Source::IdleTime
        } else if idle_ticks_ns(cpu).is_some() {
            Source::IdleTicks
        } else {
            return Err(Error::failed(
                "measure the use of",
                format!("CPU {cpu}"),
                "no cycle counter, and /proc has no idle time of it",
            ));
        };
        Ok(Self { cpu, source })
    }

    /// Which meter it is.
    pub fn kind(&self) -> CoreMeterKind {
        match self.source {
            Source::Cycles { .. } => CoreMeterKind::UnhaltedCycles,
            Source::IdleTime => CoreMeterKind::IdleTime,
            Source::IdleTicks => CoreMeterKind::IdleTicks,
        }
    }

    /// Busy time so far. `None` if unreadable.
    pub fn read(&mut self) -> Option<Reading> {
        match &mut self.source {
            Source::Cycles { counter, per_second } => {
                let busy_ns = (counter.read().ok()? as f64 / *per_second * 1e9) as u64;
                Some(Reading { busy_ns, at_ns: clock::monotonic_ns() })
            }
            Source::IdleTime => busy_by_timer_list(self.cpu),
            Source::IdleTicks => {
                let idle_ns = idle_ticks_ns(self.cpu)?;
                let at_ns = clock::monotonic_ns();
                Some(Reading { busy_ns: at_ns.wrapping_sub(idle_ns), at_ns })
            }
        }
    }
}

/// Cycles per second while busy: what one core of this machine does in a second, all of it used.
fn nominal_clock(counter: &mut HardwareCounter, cpu: usize) -> Option<f64> {
    const SPIN: Duration = Duration::from_millis(20);
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                sched::set_affinity(0, cpu).ok()?;
                let from = counter.read().ok()?;
                let start_ns = clock::thread_cpu_ns();
                while clock::thread_cpu_ns() - start_ns < SPIN.as_nanos() as u64 {}
                let spent_ns = clock::thread_cpu_ns() - start_ns;
                let cycles = counter.read().ok()? - from;
                (cycles > 0).then(|| cycles as f64 / (spent_ns as f64 / 1e9))
            })
            .join()
            .ok()
            .flatten()
    })
}

/// Busy nanoseconds of `cpu` from /proc/timer_list (root only).
///
/// The file has the idle time up to the last idle period that ended and does not say whether another is under way; read
/// on the CPU itself, which is then awake, it is complete. A real-time thread may spin there: the reader goes before it where
/// that is permitted.
pub(crate) fn busy_by_timer_list(cpu: usize) -> Option<Reading> {
    let read = || {
        let _ = sched::set_fifo(0, 99);
        sched::set_affinity(0, cpu).ok()?;
        parse_timer_list(&std::fs::read_to_string("/proc/timer_list").ok()?, cpu)
    };
    std::thread::scope(|scope| scope.spawn(read).join().ok().flatten())
}

/// The time that the list itself gives, and that time less the idle time of `cpu`.
fn parse_timer_list(text: &str, cpu: usize) -> Option<Reading> {
    let nanoseconds = |rest: &str| rest.trim_start_matches([' ', ':']).split_whitespace().next()?.parse::<u64>().ok();
    let now_ns = text.lines().find_map(|line| nanoseconds(line.strip_prefix("now at")?))?;
    let mut lines =
        text.lines().skip_while(|line| line.strip_prefix("cpu:").is_none_or(|number| number.trim().parse() != Ok(cpu)));
    lines.next()?;
    // Idle while a disk is at work counts as idle: nothing ran.
    let idle: Vec<u64> = lines
        .take_while(|line| !line.starts_with("cpu:"))
        .filter_map(|line| {
            let line = line.trim();
            nanoseconds(line.strip_prefix(".idle_sleeptime").or_else(|| line.strip_prefix(".iowait_sleeptime"))?)
        })
        .collect();
    (!idle.is_empty()).then(|| Reading { busy_ns: now_ns.saturating_sub(idle.iter().sum()), at_ns: now_ns })
}

/// Idle nanoseconds of `cpu` from /proc/stat (idle and iowait, in USER_HZ of 1/100 s).
fn idle_ticks_ns(cpu: usize) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let name = format!("cpu{cpu} ");
    let fields: Vec<u64> = text
        .lines()
        .find_map(|line| line.strip_prefix(&name))?
        .split_whitespace()
        .map_while(|f| f.parse().ok())
        .collect();
    Some((fields.get(3)? + fields.get(4)?) * 10_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "Timer List Version: v0.10\nnow at 5000 nsecs\n\ncpu: 0\n clock 0:\n  .idle_entrytime : 4000 nsecs\n  .idle_sleeptime : 100 nsecs\ncpu: 1\n  .idle_sleeptime : 200 nsecs\n  .iowait_sleeptime: 50 nsecs\ncpu: 11\n";

    #[test]
    fn each_cpu_has_its_own_idle_time() {
        assert_eq!(parse_timer_list(LIST, 0), Some(Reading { busy_ns: 4900, at_ns: 5000 }));
        assert_eq!(parse_timer_list(LIST, 1), Some(Reading { busy_ns: 4750, at_ns: 5000 }));
        assert_eq!(parse_timer_list(LIST, 11), None, "no idle time given");
        assert_eq!(parse_timer_list(LIST, 2), None);
        assert_eq!(parse_timer_list("", 0), None);
    }

    #[test]
    fn a_busy_cpu_is_busy() {
        let cpu = sched::allowed_cpus()[0];
        let mut meter = CoreMeter::open(cpu).unwrap();
        std::thread::spawn(move || {
            sched::set_affinity(0, cpu).unwrap();
            let from = meter.read().unwrap();
            while clock::monotonic_ns() - from.at_ns < 100_000_000 {}
            let share = meter.read().unwrap().share_since(&from);
            assert!((0.8..1.05).contains(&share), "{share} of the core busy");
        })
        .join()
        .unwrap();
    }
}

//! How much of a core was used over an interval, by several meters side by side.
//!
//! Owns the interval and the report. The exact meter is the capture core's ([`ringtap::core_use::CoreMeter`]); `soaker` and
//! `counters` own the others.

mod counters;
mod soaker;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Sub;

use ringtap::clock;
use ringtap::core_use::{CoreMeter, CoreMeterKind, Others, Reading};
use ringtap::{Error, Result};
use serde::Serialize;

use counters::{Ticks, growth, interrupts, softirqs, ticks};
use soaker::{Soaked, Soaker};

pub use soaker::SoakerCalibration;

/// Which meter a report's headline is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Headline {
    /// The exact meter: unhalted cycles or idle time.
    Core(CoreMeterKind),
    /// Work that the soaker could not do.
    Soaker,
}

/// A measurement of one CPU that is under way.
#[derive(Debug)]
pub struct CoreUse {
    cpu: usize,
    meter: CoreMeter,
    others: Option<Others>,
    soaker: Option<(Soaker, Soaked)>,
    before: Sample,
}

#[derive(Debug)]
struct Sample {
    time_ns: u64,
    busy: Option<Reading>,
    ticks: Option<Ticks>,
    interrupts: Option<BTreeMap<String, u64>>,
    softirqs: Option<BTreeMap<String, u64>>,
}

/// How much of a core was used by what is measured and by the kernel, and how much by other programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CoreUseReport {
    /// The CPU.
    pub cpu: usize,
    /// Length of the interval, in nanoseconds.
    pub interval_ns: u64,
    /// Which meter [`CoreUseReport::used_percent`] is from.
    pub headline: Headline,
    /// The share of the core that was used, less what other programs used (where that is known).
    pub used_percent: f64,
    /// What programs used that are not of this process, nor started by it. `None`: unknown, and then part of
    /// [`CoreUseReport::used_percent`].
    pub others_percent: Option<f64>,
    /// The exact meter, other programs included; `None` while a soaker runs, as the core then never idles.
    pub core_meter_percent: Option<f64>,
    /// Time neither idle nor waiting for a disk by /proc/stat, to 10 ms; `None` while a soaker runs.
    pub ticks_percent: Option<f64>,
    /// Work that the soaker could not do, against its calibration; contains steal and slower clocks.
    pub soaker_percent: Option<f64>,
    /// CPU time that the soaker did not get.
    pub soaker_time_percent: Option<f64>,
    /// Time the hypervisor gave to others while this CPU wanted to run, to 10 ms.
    pub steal_percent: Option<f64>,
    /// Context switches of all CPUs together: the kernel counts them per CPU only with CONFIG_SCHEDSTATS.
    pub context_switches_of_all_cpus: Option<u64>,
    /// Interrupts of this CPU by line: LOC is the timer, RES a rescheduling, CAL a function call from another CPU.
    pub interrupts: Option<BTreeMap<String, u64>>,
    /// Soft interrupts of this CPU by kind, such as NET_RX.
    pub softirqs: Option<BTreeMap<String, u64>>,
}

/// The meters of one CPU, opened: what takes tens of milliseconds is done.
#[derive(Debug)]
pub struct Meters {
    cpu: usize,
    meter: CoreMeter,
    others: Option<Others>,
}

impl Meters {
    /// Opens them.
    ///
    /// # Errors
    /// No such CPU, or no meter on this machine.
    pub fn open(cpu: usize) -> Result<Self> {
        Ok(Self { cpu, meter: CoreMeter::open(cpu)?, others: Others::start(cpu) })
    }

    /// Starts measuring, without disturbing the CPU.
    pub fn start(self) -> CoreUse {
        self.begin(None)
    }

    /// Starts measuring by a soaker on the CPU. It then never idles: a wake-up costs less than on a core at rest, and the
    /// exact meter has nothing to say.
    ///
    /// # Errors
    /// The soaker can't be started.
    pub fn start_with_soaker(self, calibration: SoakerCalibration) -> Result<CoreUse> {
        let soaker = Soaker::start(self.cpu, calibration)?;
        Ok(self.begin(Some(soaker)))
    }

    fn begin(self, soaker: Option<Soaker>) -> CoreUse {
        let Self { cpu, mut meter, mut others } = self;
        let mut before = Sample::take(cpu, &mut meter);
        if others.as_mut().is_some_and(|others| others.mark().is_none()) {
            others = None;
        }
        // The interval starts when all else is read.
        before.time_ns = clock::monotonic_ns();
        let soaker = soaker.map(|soaker| {
            let soaked = soaker.soaked();
            (soaker, soaked)
        });
        CoreUse { cpu, meter, others, soaker, before }
    }
}

impl CoreUse {
    /// Starts measuring `cpu`, without disturbing it.
    ///
    /// # Errors
    /// No such CPU, or no meter on this machine.
    pub fn start(cpu: usize) -> Result<Self> {
        Ok(Meters::open(cpu)?.start())
    }

    /// As [`Meters::start_with_soaker`].
    ///
    /// # Errors
    /// No such CPU, or the soaker can't be started.
    pub fn start_with_soaker(cpu: usize, calibration: SoakerCalibration) -> Result<Self> {
        Meters::open(cpu)?.start_with_soaker(calibration)
    }

    /// Ends the interval and reports.
    ///
    /// # Errors
    /// The headline's meter can't be read any more.
    pub fn finish(mut self) -> Result<CoreUseReport> {
        // The soaker first: it goes on while the files are read.
        let now_ns = clock::monotonic_ns();
        let soaked = self
            .soaker
            .take()
            .map(|(soaker, before)| soaker.others_percent(before, now_ns.saturating_sub(self.before.time_ns)));
        let mut after = Sample::take(self.cpu, &mut self.meter);
        let others_percent = self.others.as_ref().and_then(Others::share).map(|share| share * 100.0);
        if soaked.is_some() {
            after.time_ns = now_ns;
        }
        let before = &self.before;
        let interval_ns = after.time_ns.saturating_sub(before.time_ns).max(1);
        let percent = |nanoseconds: u64| nanoseconds as f64 * 100.0 / interval_ns as f64;
        // Over the time between the readings themselves, as this thread may have been held up before or after one.
        let exact = before.busy.zip(after.busy).map(|(from, to)| to.share_since(&from) * 100.0);
        let tick_ns = 10_000_000;
        let ticks = before.ticks.zip(after.ticks);
        let by_ticks = ticks.map(|(from, to)| 100.0 - percent(to.idle.saturating_sub(from.idle) * tick_ns));
        let alone = soaked.is_none();
        let (headline, used_percent) = match soaked {
            Some((by_work, _)) => (Headline::Soaker, Some(by_work)),
            None => (Headline::Core(self.meter.kind()), exact),
        };
        Ok(CoreUseReport {
            cpu: self.cpu,
            interval_ns,
            headline,
            used_percent: used_percent
                .ok_or_else(|| Error::failed("measure the use of", format!("CPU {}", self.cpu), "its meter is gone"))?
                .sub(others_percent.unwrap_or(0.0))
                .max(0.0),
            others_percent,
            core_meter_percent: exact.filter(|_| alone),
            ticks_percent: by_ticks.map(|value| value.max(0.0)).filter(|_| alone),
            soaker_percent: soaked.map(|(by_work, _)| by_work),
            soaker_time_percent: soaked.map(|(_, by_time)| by_time),
            steal_percent: ticks.map(|(from, to)| percent(to.steal.saturating_sub(from.steal) * tick_ns)),
            context_switches_of_all_cpus: ticks
                .and_then(|(from, to)| Some(to.context_switches?.saturating_sub(from.context_switches?))),
            interrupts: growth(before.interrupts.as_ref(), after.interrupts.as_ref()),
            softirqs: growth(before.softirqs.as_ref(), after.softirqs.as_ref()),
        })
    }
}

impl Sample {
    /// The exact meter is read last.
    fn take(cpu: usize, meter: &mut CoreMeter) -> Self {
        let (ticks, interrupts, softirqs) = (ticks(cpu), interrupts(cpu), softirqs(cpu));
        let busy = meter.read();
        Self { time_ns: clock::monotonic_ns(), busy, ticks, interrupts, softirqs }
    }
}

impl CoreUseReport {
    /// A sentence when other programs used the core, or may have without anybody knowing.
    pub fn warning(&self) -> Option<String> {
        /// Less than this is the kernel's housekeeping by user programs, and changes no figure.
        const QUIET_PERCENT: f64 = 1.0;
        let others = self.others_percent.filter(|others| *others >= QUIET_PERCENT)?;
        Some(format!(
            "other programs used {others:.1} % of CPU {}: core use leaves them out, but what shares a core with others wakes up \
             at another price and later",
            self.cpu
        ))
    }

    /// Interrupts of the CPU, all lines together; `None` when they can't be read.
    pub fn interrupts_total(&self) -> Option<u64> {
        self.interrupts.as_ref().map(|lines| lines.values().sum())
    }
}

impl fmt::Display for CoreUseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.headline {
            Headline::Core(CoreMeterKind::UnhaltedCycles) => "unhalted cycles",
            Headline::Core(CoreMeterKind::IdleTime) => "idle time",
            Headline::Core(CoreMeterKind::IdleTicks) => "idle ticks",
            Headline::Soaker => "soaker",
        };
        write!(f, "CPU {}: {:.1} % used by {name}", self.cpu, self.used_percent)?;
        for (value, name) in [
            (self.others_percent, "other programs"),
            (self.ticks_percent, "ticks"),
            (self.soaker_time_percent, "soaker's CPU time"),
            (self.steal_percent, "steal"),
        ] {
            match value {
                Some(value) => write!(f, ", {name} {value:.1} %")?,
                None => write!(f, ", {name} unknown")?,
            }
        }
        Ok(())
    }
}

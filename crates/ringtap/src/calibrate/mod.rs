//! What waiting and packets cost on this host: measured once, kept on disk, the ground of every plan.
//!
//! Owns the figures, their cache, and when they are out of date. How they are measured is in `measure`, what they depend on in
//! `conditions`, whether they can be in `sanity`, whether a run agrees in `run`, what follows from them in `plan`, what a receiver
//! is told of it in `receiving`.

mod conditions;
mod measure;
mod plan;
mod receiving;
pub(crate) mod run;
mod sanity;
mod words;

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::core_use::CoreMeterKind;
use crate::error::Result;
use crate::sys::clock;

pub use conditions::Conditions;
pub use plan::{Plan, Verdict, Wishes};
pub use sanity::Observed;

/// Changes when the meaning of a cached figure does.
const FORMAT: u32 = 3;
/// A host whose figures are always doubtful is not measured at each start of a program.
const AGAIN_SECONDS: u64 = 600;

/// One point of a curve: how much of a core waiting takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Wake-ups per second.
    pub rate_hz: f64,
    /// Share of the core (0–1) beyond what it uses anyway.
    pub core_share: f64,
}

/// What was measured on one CPU of this host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    format: u32,
    /// Processor, kernel and CPU the figures are of.
    pub host: String,
    /// What they depend on.
    conditions: Conditions,
    /// When, seconds since 1970.
    pub measured_at: u64,
    /// CPU measured.
    pub cpu: usize,
    /// What measured the use of the core.
    pub meter: CoreMeterKind,
    /// Periodic timer wake-ups of a real-time thread, by rate ascending.
    pub timer: Vec<Cost>,
    /// Wake-ups by another CPU through a descriptor, as a device's interrupt causes them, by rate ascending. Empty where
    /// only one CPU may be used.
    pub interrupt: Vec<Cost>,
    /// Nanoseconds to take one small packet from a ring, look at it and give its frame back (t_PP).
    pub per_packet_ns: f64,
    /// How late a timer wake-up comes in 99 of 100 cases, nanoseconds.
    pub jitter_p99_ns: u64,
    /// How late the worst one came while measuring, nanoseconds.
    pub jitter_max_ns: u64,
    /// Whether this is a virtual machine, where the host may pause a CPU for milliseconds.
    pub virtual_machine: bool,
    /// Share of the CPU (0–1) that was used while nothing was probed.
    pub idle_share: f64,
    /// Share of the CPU (0–1) that other programs used in the most disturbed probe that had to be kept; `None`: unknown.
    pub others_share: Option<f64>,
    /// What a run showed against these figures.
    contradicted_by: Option<String>,
}

impl Calibration {
    /// The cached figures of this host and CPU, or new ones (about four seconds): where there are none, where what they depend on
    /// has changed, where a run contradicted them, and where they were doubtful ten minutes ago or more. `notice` is told when
    /// it measures, and why.
    ///
    /// # Errors
    /// Nothing measures the use of a core here.
    pub fn load_or_measure(cpu: usize, notice: &mut dyn FnMut(&str)) -> Result<Self> {
        let (conditions, now) = (Conditions::of(cpu), now_seconds());
        let mut reason = None;
        for cached in Self::load(cpu, &cache_paths(cpu)) {
            match cached.out_of_date(&conditions, now) {
                None => return Ok(cached),
                why => reason = reason.or(why),
            }
        }
        if let Some(reason) = reason {
            notice(&format!("the calibration of CPU {cpu} is out of date: {reason}"));
        }
        Self::measure_and_store(cpu, notice)
    }

    /// Why these figures are not to be used any more; `None` when they hold.
    fn out_of_date(&self, conditions: &Conditions, now: u64) -> Option<String> {
        if let Some(change) = self.conditions.change_to(conditions) {
            return Some(change);
        }
        if let Some(why) = &self.contradicted_by {
            return Some(format!("a run contradicted it: {why}"));
        }
        let is_old = now.saturating_sub(self.measured_at) >= AGAIN_SECONDS;
        self.doubts().first().filter(|_| is_old).map(|doubt| format!("it was doubtful: {doubt}"))
    }

    /// The cached figures of this host and CPU, for callers that must not stop to measure; doubtful ones too.
    pub fn cached(cpu: usize) -> Option<Self> {
        let conditions = Conditions::of(cpu);
        let mut all = Self::load(cpu, &cache_paths(cpu)).into_iter();
        all.find(|cached| cached.conditions == conditions && cached.contradicted_by.is_none())
    }

    /// Measures anew and stores the result. Figures that can't be are measured twice; if they persist, that is said.
    ///
    /// # Errors
    /// Nothing measures the use of a core here.
    pub fn measure_and_store(cpu: usize, notice: &mut dyn FnMut(&str)) -> Result<Self> {
        notice(&format!("measuring the cost of waiting on CPU {cpu} (about 4 s, once per host)"));
        let mut measured = measure::measure(cpu)?;
        if let Some(doubt) = measured.doubts().first() {
            notice(&format!("these figures are doubtful ({doubt}): measuring once more"));
            let again = measure::measure(cpu)?;
            if again.doubts().len() <= measured.doubts().len() {
                measured = again;
            }
        }
        if let Some(doubt) = measured.doubts().first() {
            notice(&format!(
                "the calibration stays doubtful ({doubt}): the bound is planned for with care, the cost of keeping it may be \
                 greater than needed; a start in {} minutes or later measures again",
                AGAIN_SECONDS / 60
            ));
        }
        if let Err(error) = measured.store(&cache_paths(cpu)) {
            notice(&format!("the calibration is not kept ({error}): it will be measured again next time"));
        }
        Ok(measured)
    }

    /// Readable figures of this CPU, from the best place on.
    fn load(cpu: usize, paths: &[PathBuf]) -> Vec<Self> {
        let read = |path: &PathBuf| serde_json::from_slice::<Self>(&fs::read(path).ok()?).ok();
        paths.iter().filter_map(read).filter(|cached| cached.format == FORMAT && cached.cpu == cpu).collect()
    }

    /// The same, with a note that keeps them from being used.
    fn contradicted(&self, why: &str) -> Self {
        Self { contradicted_by: Some(why.to_owned()), ..self.clone() }
    }

    fn store_again(&self) -> std::io::Result<()> {
        self.store(&cache_paths(self.cpu))
    }

    /// Writes beside the file and renames, so that a reader never sees half a file.
    fn store(&self, paths: &[PathBuf]) -> std::io::Result<()> {
        let mut last = Err(std::io::Error::other("no cache folder: set XDG_CACHE_HOME or HOME"));
        for path in paths {
            last = (|| {
                let folder = path.parent().ok_or_else(|| std::io::Error::other("no folder"))?;
                fs::create_dir_all(folder)?;
                let beside = path.with_extension(format!("{}", std::process::id()));
                fs::write(&beside, serde_json::to_vec_pretty(self)?)?;
                fs::rename(&beside, path)
            })();
            if last.is_ok() {
                return last;
            }
        }
        last
    }

    /// Cost of one timer wake-up at this rate, nanoseconds (t_POH).
    pub fn timer_wake_ns(&self, rate_hz: f64) -> f64 {
        interpolate(&self.timer, rate_hz) / rate_hz * 1e9
    }

    /// Cost of one interrupt wake-up at this rate, nanoseconds; `None` where it could not be measured.
    pub fn interrupt_wake_ns(&self, rate_hz: f64) -> Option<f64> {
        (!self.interrupt.is_empty()).then(|| interpolate(&self.interrupt, rate_hz) / rate_hz * 1e9)
    }
}

/// Share of the core at `rate_hz`: linear between the points of the curve, proportional to the rate beyond its ends.
pub(crate) fn interpolate(curve: &[Cost], rate_hz: f64) -> f64 {
    let (Some(first), Some(last)) = (curve.first(), curve.last()) else { return 0.0 };
    if rate_hz <= first.rate_hz {
        return first.core_share * rate_hz / first.rate_hz;
    }
    if rate_hz >= last.rate_hz {
        return last.core_share * rate_hz / last.rate_hz;
    }
    curve.windows(2).find(|pair| rate_hz <= pair[1].rate_hz).map_or(last.core_share, |pair| {
        let along = (rate_hz - pair[0].rate_hz) / (pair[1].rate_hz - pair[0].rate_hz);
        pair[0].core_share + along * (pair[1].core_share - pair[0].core_share)
    })
}

/// The rate at which a rising curve reaches `share`; `None` when it never does up to its last point.
pub(crate) fn rate_at(curve: &[Cost], share: f64) -> Option<f64> {
    let mut below = Cost { rate_hz: 0.0, core_share: 0.0 };
    for &point in curve {
        if point.core_share >= share {
            let along = (share - below.core_share) / (point.core_share - below.core_share);
            return Some(below.rate_hz + along * (point.rate_hz - below.rate_hz));
        }
        // A point that dips below an earlier one is noise: the curve is taken as rising.
        if point.core_share > below.core_share {
            below = point;
        }
    }
    None
}

/// Where the figures of `cpu` may lie, best first.
fn cache_paths(cpu: usize) -> Vec<PathBuf> {
    let name = format!("calibration-cpu{cpu}.json");
    let mut paths = vec![PathBuf::from("/var/cache/ringtap").join(&name)];
    let own = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    paths.extend(own.map(|folder| folder.join("ringtap").join(&name)));
    paths
}

fn now_seconds() -> u64 {
    clock::realtime_ns() / 1_000_000_000
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const CURVE: [Cost; 3] = [
        Cost { rate_hz: 1000.0, core_share: 0.01 },
        Cost { rate_hz: 10_000.0, core_share: 0.05 },
        Cost { rate_hz: 20_000.0, core_share: 0.07 },
    ];

    #[test]
    fn curves_are_read_both_ways() {
        assert!((interpolate(&CURVE, 500.0) - 0.005).abs() < 1e-12);
        assert!((interpolate(&CURVE, 5500.0) - 0.03).abs() < 1e-12);
        assert!((interpolate(&CURVE, 40_000.0) - 0.14).abs() < 1e-12);
        assert!((rate_at(&CURVE, 0.03).unwrap() - 5500.0).abs() < 1e-6);
        assert!((rate_at(&CURVE, 0.005).unwrap() - 500.0).abs() < 1e-6);
        assert_eq!(rate_at(&CURVE, 0.08), None);
        assert_eq!(interpolate(&[], 1.0), 0.0);
    }

    #[test]
    fn a_dip_in_a_curve_is_noise() {
        let dip = [CURVE[0], Cost { rate_hz: 5000.0, core_share: 0.009 }, CURVE[1]];
        assert!((rate_at(&dip, 0.03).unwrap() - 5500.0).abs() < 1e-6);
    }

    /// A start that measured and one that reads what it kept must plan the same, to the last bit.
    #[test]
    fn what_was_kept_is_read_as_it_was_measured() {
        let shares = (1..2000).map(|n| f64::from(n).sqrt() / 91.7);
        let timer = shares.map(|core_share| Cost { rate_hz: core_share * 3046.6, core_share }).collect();
        let measured = Calibration { timer, ..calibration() };
        let read: Calibration = serde_json::from_slice(&serde_json::to_vec_pretty(&measured).unwrap()).unwrap();
        for (measured, read) in measured.timer.iter().zip(&read.timer) {
            assert_eq!((measured.rate_hz, measured.core_share), (read.rate_hz, read.core_share));
        }
        assert_eq!(measured.timer.len(), read.timer.len());
    }

    /// What a calm machine measured.
    pub(super) fn calibration() -> Calibration {
        let curve = |points: &[(f64, f64)]| {
            points.iter().map(|&(rate_hz, core_share)| Cost { rate_hz, core_share }).collect::<Vec<_>>()
        };
        Calibration {
            format: FORMAT,
            host: String::new(),
            conditions: Conditions::of(0),
            measured_at: 1_000_000,
            cpu: 0,
            meter: CoreMeterKind::IdleTime,
            timer: curve(&[(1000.0, 0.03), (2000.0, 0.05), (8000.0, 0.1)]),
            interrupt: curve(&[(1000.0, 0.005), (10_000.0, 0.04), (40_000.0, 0.12)]),
            per_packet_ns: 25.0,
            jitter_p99_ns: 30_000,
            jitter_max_ns: 500_000,
            virtual_machine: true,
            idle_share: 0.01,
            others_share: Some(0.0),
            contradicted_by: None,
        }
    }

    #[test]
    fn figures_are_kept_where_that_is_possible_and_only_for_this_cpu() {
        let folder = tempfile::tempdir().unwrap();
        // A file is no folder: the first place can't be written.
        fs::write(folder.path().join("file"), "").unwrap();
        let paths = ["file/calibration.json", "own/calibration.json"].map(|name| folder.path().join(name));
        assert_eq!(Calibration::load(0, &paths), []);
        let measured = calibration();
        measured.store(&paths).unwrap();
        assert_eq!(Calibration::load(0, &paths), std::slice::from_ref(&measured));
        assert_eq!(fs::read_dir(folder.path().join("own")).unwrap().count(), 1, "nothing is left beside it");
        assert_eq!(Calibration::load(1, &paths), [], "another CPU");
        Calibration { format: FORMAT - 1, ..measured.clone() }.store(&paths).unwrap();
        assert_eq!(Calibration::load(0, &paths), [], "figures of another meaning");
        fs::write(&paths[1], b"{\"format\": 3, half").unwrap();
        assert_eq!(Calibration::load(0, &paths), [], "a broken file is measured anew");
        assert!(measured.store(&paths[..1]).is_err());
    }

    #[test]
    fn figures_are_out_of_date_when_what_they_depend_on_is() {
        let (now, here) = (9_000_000, Conditions::of(0));
        let why = |figures: Calibration, now| figures.out_of_date(&here, now);
        assert_eq!(why(calibration(), now), None, "calm figures hold for good");
        let elsewhere = Conditions::from_iter([("kernel", "2.6.18".to_owned())]);
        assert!(why(Calibration { conditions: elsewhere, ..calibration() }, now).unwrap().contains("changed"));
        let contradicted = calibration().contradicted("it took less");
        assert_eq!(why(contradicted, now).unwrap(), "a run contradicted it: it took less");
        for doubtful in [
            Calibration { jitter_p99_ns: 1_200_000, ..calibration() },
            Calibration { others_share: Some(0.4), ..calibration() },
        ] {
            assert_eq!(why(doubtful.clone(), 1_000_300), None, "not at each start");
            assert!(why(doubtful.clone(), 1_000_600).unwrap().starts_with("it was doubtful: "));
            assert_eq!(why(doubtful, 999_000), None, "a clock that was set back");
        }
    }
}

//! What waiting and packets cost on this host: measured once, kept on disk, the ground of every plan.
//!
//! Owns the figures and their cache. How they are measured is in `measure`, what follows from them in `plan`.

mod measure;
mod plan;

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::core_use::CoreMeterKind;
use crate::error::Result;
use crate::sys::clock;

pub use plan::{Plan, Wishes};

/// Changes when the meaning of a cached figure does.
const FORMAT: u32 = 2;

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
    /// Tells this host and its boot options from others without naming them.
    fingerprint: u64,
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
}

impl Calibration {
    /// The cached figures of this host and CPU, or new ones (about three seconds): where there are none, and where the old ones
    /// are of a moment in which the host was too restless for a timer. `notice` is told when it measures.
    ///
    /// # Errors
    /// Nothing measures the use of a core here.
    pub fn load_or_measure(cpu: usize, notice: &mut dyn FnMut(&str)) -> Result<Self> {
        match Self::cached(cpu) {
            Some(cached) if cached.holds(now_seconds()) => Ok(cached),
            _ => Self::measure_and_store(cpu, notice),
        }
    }

    /// Whether these figures are to be used for good, or at least for now.
    fn holds(&self, now: u64) -> bool {
        /// Later than this no timer keeps a bound of 250 µs.
        const RESTLESS_NS: u64 = 200_000;
        /// A host that is always so is not measured at each start of a program.
        const AGAIN_SECONDS: u64 = 600;
        self.jitter_p99_ns < RESTLESS_NS || now.saturating_sub(self.measured_at) < AGAIN_SECONDS
    }

    /// The cached figures of this host and CPU, for callers that must not stop to measure.
    pub fn cached(cpu: usize) -> Option<Self> {
        Self::load(cpu, &cache_paths(cpu))
    }

    /// Measures anew and stores the result.
    ///
    /// # Errors
    /// Nothing measures the use of a core here.
    pub fn measure_and_store(cpu: usize, notice: &mut dyn FnMut(&str)) -> Result<Self> {
        notice(&format!("measuring the cost of waiting on CPU {cpu} (about 3 s, once per host)"));
        let measured = measure::measure(cpu)?;
        if let Err(error) = measured.store(&cache_paths(cpu)) {
            notice(&format!("the calibration is not kept ({error}): it will be measured again next time"));
        }
        Ok(measured)
    }

    fn load(cpu: usize, paths: &[PathBuf]) -> Option<Self> {
        let (host, fingerprint) = (host_name(cpu), fingerprint());
        paths.iter().find_map(|path| {
            let cached: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
            (cached.format == FORMAT && cached.host == host && cached.fingerprint == fingerprint).then_some(cached)
        })
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

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Processor, kernel and CPU, for people.
fn host_name(cpu: usize) -> String {
    let processor = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().to_owned()))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{processor}, Linux {}, CPU {cpu} of {cpus}", read("/proc/sys/kernel/osrelease"))
}

/// Machine and boot options as one number (FNV-1a): what else must be the same for cached figures to hold.
fn fingerprint() -> u64 {
    let text = format!("{}\n{}", read("/etc/machine-id"), read("/proc/cmdline"));
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Whether a hypervisor is underneath (the CPUID flag that /proc/cpuinfo shows).
fn virtual_machine() -> bool {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    cpuinfo.lines().any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn now_seconds() -> u64 {
    clock::realtime_ns() / 1_000_000_000
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn figures_are_kept_where_that_is_possible_and_only_for_this_host() {
        let folder = tempfile::tempdir().unwrap();
        // A file is no folder: the first place can't be written.
        fs::write(folder.path().join("file"), "").unwrap();
        let paths = ["file/calibration.json", "own/calibration.json"].map(|name| folder.path().join(name));
        assert_eq!(Calibration::load(0, &paths), None);
        let measured = Calibration {
            format: FORMAT,
            host: host_name(0),
            fingerprint: fingerprint(),
            measured_at: 1,
            cpu: 0,
            meter: CoreMeterKind::IdleTime,
            timer: CURVE.to_vec(),
            interrupt: Vec::new(),
            per_packet_ns: 10.5,
            jitter_p99_ns: 20_000,
            jitter_max_ns: 30_000,
            virtual_machine: true,
        };
        measured.store(&paths).unwrap();
        assert_eq!(Calibration::load(0, &paths).as_ref(), Some(&measured));
        assert_eq!(fs::read_dir(folder.path().join("own")).unwrap().count(), 1, "nothing is left beside it");
        assert_eq!(Calibration::load(1, &paths), None, "another CPU");
        for other in [
            Calibration { format: FORMAT + 1, ..measured.clone() },
            Calibration { host: "another kernel".to_owned(), ..measured.clone() },
            Calibration { fingerprint: !measured.fingerprint, ..measured.clone() },
        ] {
            other.store(&paths).unwrap();
            assert_eq!(Calibration::load(0, &paths), None, "{other:?}");
        }
        fs::write(&paths[1], b"{\"format\": 2, half").unwrap();
        assert_eq!(Calibration::load(0, &paths), None, "a broken file is measured anew");
        assert!(measured.store(&paths[..1]).is_err());
    }

    #[test]
    fn figures_of_a_restless_moment_do_not_hold_for_long() {
        let measured = |jitter_p99_ns| Calibration {
            format: FORMAT,
            host: host_name(0),
            fingerprint: fingerprint(),
            measured_at: 1_000_000,
            cpu: 0,
            meter: CoreMeterKind::IdleTime,
            timer: CURVE.to_vec(),
            interrupt: Vec::new(),
            per_packet_ns: 10.5,
            jitter_p99_ns,
            jitter_max_ns: 30_000_000,
            virtual_machine: true,
        };
        assert!(measured(50_000).holds(9_000_000));
        assert!(measured(1_200_000).holds(1_000_300));
        assert!(!measured(1_200_000).holds(1_000_600));
        assert!(measured(1_200_000).holds(999_000), "a clock that was set back");
    }

    #[test]
    fn figures_name_processor_kernel_and_cpu_and_nothing_private() {
        assert_ne!(host_name(0), host_name(1));
        assert!(host_name(0).contains("Linux "));
        let machine = read("/etc/machine-id");
        assert!(machine.is_empty() || !host_name(0).contains(&machine));
        assert_eq!(fingerprint(), fingerprint());
    }
}

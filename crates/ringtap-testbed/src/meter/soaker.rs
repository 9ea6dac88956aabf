//! The soaker: a lowest-priority thread that turns what is left of a core into counted work (\[1] §6).
//!
//! Owns the thread, its unit of work and its calibration. Its presence keeps the core from idling, so it excludes the
//! meters of idle time and of cycles over the same interval.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use ringtap::{Error, Result};
use ringtap::{clock, sched};

/// Multiplications of one unit of work, about 2 µs.
const UNIT: u64 = 1024;
/// Units between two looks at the clock.
const UNITS_PER_LOOK: u64 = 16;

/// Units of work per second of CPU time on a core of this machine when nothing else slows it down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoakerCalibration {
    units_per_second: f64,
}

impl SoakerCalibration {
    /// Measures for about 100 ms on `cpu`. The best of several slices counts: the others were disturbed.
    ///
    /// # Errors
    /// No such CPU.
    pub fn measure(cpu: usize) -> Result<Self> {
        const SLICES: usize = 20;
        const SLICE_NS: u64 = 5_000_000;
        let measure = move || -> Result<f64> {
            pin(cpu)?;
            let mut best: f64 = 0.0;
            for slice in 0..SLICES {
                let start = clock::thread_cpu_ns();
                let mut units = 0;
                while clock::thread_cpu_ns() - start < SLICE_NS {
                    for _ in 0..UNITS_PER_LOOK {
                        unit(slice as u64);
                    }
                    units += UNITS_PER_LOOK;
                }
                best = best.max(units as f64 * 1e9 / (clock::thread_cpu_ns() - start) as f64);
            }
            Ok(best)
        };
        let units_per_second =
            thread::spawn(measure).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(Self { units_per_second })
    }
}

/// A running soaker. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Soaker {
    shared: Arc<Shared>,
    calibration: SoakerCalibration,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    units: AtomicU64,
    cpu_ns: AtomicU64,
}

/// Work done and CPU time got so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Soaked {
    units: u64,
    cpu_ns: u64,
}

impl Soaker {
    pub(super) fn start(cpu: usize, calibration: SoakerCalibration) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let (tell, told) = mpsc::sync_channel(1);
        let thread = {
            let shared = shared.clone();
            thread::Builder::new()
                .name("soaker".into())
                .spawn(move || {
                    let placed = pin(cpu).and_then(|()| {
                        sched::set_idle(0).map_err(|error| Error::os("make SCHED_IDLE", "the soaker", &error))
                    });
                    let failed = placed.is_err();
                    let _ = tell.send(placed);
                    if !failed {
                        soak(&shared);
                    }
                })
                .map_err(|error| Error::os("start thread of", "the soaker", &error))?
        };
        let this = Self { shared, calibration, thread: Some(thread) };
        told.recv().map_err(|_| Error::failed("start", "the soaker", "its thread ended"))??;
        Ok(this)
    }

    pub(super) fn soaked(&self) -> Soaked {
        Soaked { units: self.shared.units.load(Ordering::Relaxed), cpu_ns: self.shared.cpu_ns.load(Ordering::Relaxed) }
    }

    /// What others took since `before`, in percent: by work that was not done, and by CPU time that was not got.
    pub(super) fn others_percent(&self, before: Soaked, interval_ns: u64) -> (f64, f64) {
        let now = self.soaked();
        let possible = self.calibration.units_per_second * interval_ns as f64 / 1e9;
        let by_work = 1.0 - (now.units - before.units) as f64 / possible;
        let by_time = 1.0 - (now.cpu_ns - before.cpu_ns) as f64 / interval_ns as f64;
        (by_work * 100.0, by_time * 100.0)
    }
}

impl Drop for Soaker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It ends as soon as the core has a moment for it.
            let _ = thread.join();
        }
    }
}

fn pin(cpu: usize) -> Result<()> {
    sched::set_affinity(0, cpu).map_err(|error| Error::os("bind soaker to", format!("CPU {cpu}"), &error))
}

fn soak(shared: &Shared) {
    while !shared.stop.load(Ordering::Relaxed) {
        for _ in 0..UNITS_PER_LOOK {
            unit(1);
        }
        shared.units.fetch_add(UNITS_PER_LOOK, Ordering::Relaxed);
        shared.cpu_ns.store(clock::thread_cpu_ns(), Ordering::Relaxed);
    }
}

/// A chain of dependent multiplications: no memory, so that other cores don't slow it down.
fn unit(seed: u64) {
    let mut value = seed | 1;
    for _ in 0..UNIT {
        value = black_box(value.wrapping_mul(0x5851_f42d_4c95_7f2d) | 1);
    }
    black_box(value);
}

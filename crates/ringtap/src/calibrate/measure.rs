//! Measuring what waiting costs: a real-time thread woken by the timer, then by another CPU, at several rates.
//!
//! Owns the probes. Each point is taken several times and the least is kept: what disturbs a probe only ever adds. Where it is
//! known that other programs used the CPU meanwhile, a probe does not count.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::conditions::in_virtual_machine;
use super::sanity::QUIET_SHARE;
use super::{Calibration, Conditions, Cost, FORMAT, now_seconds};
use crate::burst::{Burst, FrameOwner};
use crate::core_use::{CoreMeter, CoreMeterKind, Others};
use crate::error::{Error, Result};
use crate::histogram::Histogram;
use crate::realtime::RealTime;
use crate::sys::event::{Event, Stop};
use crate::sys::memory::{Arena, Slot};
use crate::sys::{clock, sched};

/// Timer wake-ups per second that are probed: periods of 2 ms down to 50 µs.
const TIMER_RATES_HZ: [u32; 6] = [500, 1000, 2000, 4000, 8000, 20_000];
/// Interrupt wake-ups per second that are probed.
const INTERRUPT_RATES_HZ: [u32; 6] = [1000, 2500, 5000, 10_000, 20_000, 40_000];
const REPEATS: usize = 5;
const PROBE_NS: u64 = 40_000_000;
/// A probe of a meter that counts in ticks of 10 ms must be long enough to see some.
const COARSE_PROBE_NS: u64 = 400_000_000;

/// All figures of `cpu`.
pub(super) fn measure(cpu: usize) -> Result<Calibration> {
    let mut watch = Watch { meter: CoreMeter::open(cpu)?, others: Others::start(cpu) };
    let waker_cpu = sched::allowed_cpus().into_iter().find(|&other| other != cpu);
    let probe_ns = if watch.meter.kind() == CoreMeterKind::IdleTicks { COARSE_PROBE_NS } else { PROBE_NS };
    let lateness = Histogram::default();
    let mut timer = [Point::default(); TIMER_RATES_HZ.len()];
    let mut interrupt = [Point::default(); INTERRUPT_RATES_HZ.len()];
    let mut idle = Point::default();
    // Interleaved, so that a disturbance of a second does not spoil one point alone.
    for _ in 0..REPEATS {
        watch.probe(&mut idle, || clock::sleep_until(clock::monotonic_ns() + probe_ns))?;
        for (point, &rate) in timer.iter_mut().zip(&TIMER_RATES_HZ) {
            watch.probe(point, || timer_probe(cpu, rate, probe_ns, &lateness))?;
        }
        if let Some(waker_cpu) = waker_cpu {
            for (point, &rate) in interrupt.iter_mut().zip(&INTERRUPT_RATES_HZ) {
                let mut outcome = Ok(());
                watch.probe(point, || outcome = interrupt_probe(cpu, waker_cpu, rate, probe_ns))?;
                outcome?;
            }
        }
    }
    let curve = |rates: &[u32], points: &[Point]| {
        let cost = |(&rate, point): (&u32, &Point)| Cost {
            rate_hz: f64::from(rate),
            core_share: (point.share - idle.share).max(0.0),
        };
        rates.iter().zip(points).map(cost).collect()
    };
    let others_share = [idle].iter().chain(&timer).chain(&interrupt).map(|point| point.others).reduce(f64::max);
    let lateness = lateness.snapshot();
    let conditions = Conditions::of(cpu);
    Ok(Calibration {
        format: FORMAT,
        host: conditions.host(cpu),
        conditions,
        measured_at: now_seconds(),
        cpu,
        meter: watch.meter.kind(),
        timer: curve(&TIMER_RATES_HZ, &timer),
        interrupt: if waker_cpu.is_some() { curve(&INTERRUPT_RATES_HZ, &interrupt) } else { Vec::new() },
        per_packet_ns: per_packet_ns(cpu, waker_cpu)?,
        jitter_p99_ns: lateness.quantile_ns(0.99),
        jitter_max_ns: lateness.max_ns(),
        virtual_machine: in_virtual_machine(),
        idle_share: idle.share,
        others_share: others_share.filter(|_| watch.others.is_some()),
        contradicted_by: None,
    })
}

/// The best probe of one point so far: shares of the core.
#[derive(Debug, Clone, Copy, Default)]
struct Point {
    /// Used, other programs left out.
    share: f64,
    /// Used by other programs; 0 where that is unknown.
    others: f64,
    probes: u32,
}

impl Point {
    /// An undisturbed probe before a disturbed one, then the least; among disturbed ones the least disturbed.
    fn take(&mut self, share: f64, others: f64) {
        let other = Self { share: (share - others).max(0.0), others, probes: self.probes + 1 };
        let is_better = match (self.is_disturbed(), other.is_disturbed()) {
            _ if self.probes == 0 => true,
            (false, false) => other.share < self.share,
            _ => other.others < self.others,
        };
        *self = if is_better { other } else { Self { probes: other.probes, ..*self } };
    }

    fn is_disturbed(self) -> bool {
        self.others > QUIET_SHARE
    }
}

/// What watches the CPU during a probe.
struct Watch {
    meter: CoreMeter,
    others: Option<Others>,
}

impl Watch {
    /// Runs `probe` and takes the share of the core that was used meanwhile.
    fn probe(&mut self, point: &mut Point, probe: impl FnOnce()) -> Result<()> {
        let unreadable = || Error::failed("calibrate", "the use of the core", "its meter stopped answering");
        let before = self.meter.read().ok_or_else(unreadable)?;
        if self.others.as_mut().is_some_and(|others| others.mark().is_none()) {
            self.others = None;
        }
        probe();
        let others = self.others.as_ref().and_then(Others::share).unwrap_or(0.0);
        point.take(self.meter.read().ok_or_else(unreadable)?.share_since(&before), others);
        Ok(())
    }
}

/// Runs `work` on a real-time thread bound to `cpu`, as an engine would be, as far as the system permits.
fn on_engine_thread(cpu: usize, work: impl FnOnce() + Send) {
    thread::scope(|scope| {
        scope.spawn(|| {
            RealTime::default().apply_to_thread(Some(cpu), &mut Vec::new());
            work();
        });
    });
}

/// Wakes by the timer for `probe_ns`, as the engine's timer mode does with an empty ring.
fn timer_probe(cpu: usize, rate_hz: u32, probe_ns: u64, lateness: &Histogram) {
    on_engine_thread(cpu, || {
        let period_ns = 1_000_000_000 / u64::from(rate_hz);
        let start_ns = clock::monotonic_ns();
        let mut instant_ns = start_ns;
        while instant_ns < start_ns + probe_ns {
            instant_ns = (instant_ns + period_ns).max(clock::monotonic_ns());
            clock::sleep_until(instant_ns);
            lateness.record(clock::monotonic_ns() - instant_ns);
        }
    });
}

/// Wakes by a descriptor that another CPU rings, as a device's interrupt wakes an engine.
fn interrupt_probe(cpu: usize, waker_cpu: usize, rate_hz: u32, probe_ns: u64) -> Result<()> {
    let event = Event::new()?;
    let stop = Stop::new()?;
    let ready = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Ordinary priority is enough: this CPU only keeps the pace.
            let _ = sched::set_affinity(0, waker_cpu);
            while !ready.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let period_ns = 1_000_000_000 / u64::from(rate_hz);
            let start_ns = clock::monotonic_ns();
            let mut next_ns = start_ns;
            while next_ns < start_ns + probe_ns {
                next_ns += period_ns;
                while clock::monotonic_ns() < next_ns {
                    std::hint::spin_loop();
                }
                event.signal();
            }
            stop.pull();
        });
        on_engine_thread(cpu, || {
            ready.store(true, Ordering::Release);
            while !stop.is_pulled() {
                stop.wait_readable(event.as_fd(), None);
                event.clear();
                std::hint::black_box(clock::monotonic_ns());
            }
        });
    });
    Ok(())
}

/// Gives nothing back: the probe's frames stay user space's.
struct Keep;

impl FrameOwner for Keep {
    fn give_back(&mut self, _slots: &[Slot]) {}
}

/// Cost of a packet in the engine: its slot, its first bytes, its place in the latency histogram. The frames are written
/// by another CPU first, as a device or the kernel writes them: their bytes are in nobody's near cache.
fn per_packet_ns(cpu: usize, writer_cpu: Option<usize>) -> Result<f64> {
    const FRAMES: usize = 4096;
    const FRAME_SIZE: usize = 2048;
    const BURST: usize = crate::burst::BURST_MAX;
    let mut arena = Arena::new(FRAMES, FRAME_SIZE, "calibration frames")?;
    let latency = Histogram::default();
    let mut slots = Vec::with_capacity(BURST);
    let mut least = f64::INFINITY;
    for round in 0..REPEATS {
        thread::scope(|scope| {
            scope.spawn(|| {
                if let Some(writer_cpu) = writer_cpu {
                    // Without the right to move there, the figure is a little too small.
                    let _ = sched::set_affinity(0, writer_cpu);
                }
                for index in 0..FRAMES {
                    arena.frame_mut(index)[..64].fill((index + round) as u8);
                }
            });
        });
        on_engine_thread(cpu, || {
            let start_ns = clock::monotonic_ns();
            for first in (0..FRAMES).step_by(BURST) {
                slots.extend((first..first + BURST).filter_map(|index| arena.slot(index, 64)));
                let mut owner = Keep;
                let burst = Burst::new(&mut slots, arena.region(), &mut owner);
                let now_ns = clock::monotonic_ns();
                for packet in burst.iter() {
                    std::hint::black_box(packet.data.iter().step_by(16).fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
                    latency.record(now_ns - start_ns);
                }
            }
            least = least.min((clock::monotonic_ns() - start_ns) as f64 / FRAMES as f64);
        });
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_probe_counts_before_a_disturbed_one() {
        let mut point = Point::default();
        point.take(0.40, 0.30);
        assert!(point.is_disturbed());
        point.take(0.25, 0.10);
        assert!((point.share - 0.15).abs() < 1e-9 && point.is_disturbed(), "the less disturbed one");
        point.take(0.20, 0.01);
        point.take(0.05, 0.04);
        point.take(0.22, 0.0);
        assert!((point.share - 0.19).abs() < 1e-9 && !point.is_disturbed(), "{point:?}");
    }
}

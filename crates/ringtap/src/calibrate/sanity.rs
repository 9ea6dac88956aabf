//! When figures can't be believed: curves that no machine has, and a run that shows another price.
//!
//! Pure. Owns the limits of what can be; `measure` has the figures measured again, `run` does so at the next start.

use super::{Calibration, Cost};

/// No wake-up takes longer than this of a CPU, not even in a virtual machine.
const DEAREST_WAKE_NS: f64 = 150_000.0;
/// Nor less.
const CHEAPEST_WAKE_NS: f64 = 200.0;
/// A part of the core that does not grow with the rate is used by something else.
const GREATEST_CONSTANT: f64 = 0.06;
/// More wake-ups never take less of the core than this part of what fewer did, beyond the noise.
const LEAST_GROWTH: f64 = 0.7;
const NOISE: f64 = 0.01;
/// Later than this no timer keeps a bound of 250 µs.
const RESTLESS_NS: u64 = 200_000;
/// What other programs may use of the CPU while it is measured.
pub(super) const QUIET_SHARE: f64 = 0.02;
/// The same where it is not known who uses it.
const QUIET_IDLE_SHARE: f64 = 0.1;

impl Calibration {
    /// Why the curves can't be believed, one sentence each; none when they can.
    pub fn curve_doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        match self.others_share {
            Some(others) if others > QUIET_SHARE => {
                doubts.push(format!("other programs used {:.0} % of the CPU meanwhile", others * 100.0));
            }
            None if self.idle_share > QUIET_IDLE_SHARE => {
                doubts.push(format!("the CPU was used to {:.0} % by others", self.idle_share * 100.0));
            }
            _ => {}
        }
        doubts.extend(doubt("timer", &self.timer));
        doubts.extend(doubt("interrupt", &self.interrupt));
        doubts
    }

    /// Why any of the figures can't be believed.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = self.curve_doubts();
        if self.jitter_p99_ns >= RESTLESS_NS {
            let late_us = self.jitter_p99_ns as f64 / 1e3;
            doubts.push(format!("1 of 100 timer wake-ups came {late_us:.0} µs late or more"));
        }
        if !(0.5..20_000.0).contains(&self.per_packet_ns) {
            doubts.push(format!("a packet was to take {:.1} ns", self.per_packet_ns));
        }
        doubts
    }

    /// What a run shows that these figures exclude.
    pub fn contradiction(&self, run: &Observed) -> Option<String> {
        /// A shorter run, or fewer wake-ups, say little.
        const LEAST_NS: u64 = 2_000_000_000;
        const LEAST_WAKES: u64 = 1000;
        /// Beyond these factors, and this share of the core, figures contradict each other.
        const TOO_HIGH: f64 = 2.0;
        const TOO_LOW: f64 = 3.0;
        const MARGIN: f64 = 0.02;
        /// What a packet may take the handler where few come.
        const HANDLER_NS: f64 = 20_000.0;
        let wakes = run.timer_wakes + run.interrupt_wakes;
        if run.wall_ns < LEAST_NS || wakes < LEAST_WAKES {
            return None;
        }
        let wall_ns = run.wall_ns as f64;
        let tick_ns = self.timer_wake_ns(1e9 / run.period_ns.max(1) as f64);
        let prices = || self.interrupt.iter().map(|cost| cost.core_share / cost.rate_hz * 1e9);
        let predicted = |interrupt_ns: f64| {
            let timer_ns = run.timer_wakes as f64 * if run.timer_wakes > 0 { tick_ns } else { 0.0 };
            timer_ns + run.interrupt_wakes as f64 * interrupt_ns
        };
        let least_ns = predicted(prices().reduce(f64::min).unwrap_or(0.0));
        let percent = |ns: f64| ns * 100.0 / wall_ns;
        if let Some(core_ns) = run.core_ns.map(|ns| ns as f64)
            && least_ns > TOO_HIGH * core_ns + MARGIN * wall_ns
        {
            return Some(format!(
                "wake-ups were to take {:.1} % of the core, and all that ran there took {:.1} %",
                percent(least_ns),
                percent(core_ns)
            ));
        }
        // A handler's work can't be foretold: only a quiet run shows what waiting takes.
        let most_ns = predicted(prices().reduce(f64::max)?) + run.packets as f64 * (self.per_packet_ns + HANDLER_NS);
        let thread_ns = run.thread_ns as f64;
        let is_quiet = run.packets < wakes / 10;
        (is_quiet && thread_ns > TOO_LOW * most_ns + MARGIN * wall_ns).then(|| {
            format!(
                "wake-ups were to take {:.1} % of the core, and the engine alone took {:.1} %",
                percent(most_ns),
                percent(thread_ns)
            )
        })
    }
}

/// What an engine did during a run, and what it took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observed {
    /// Length of the run, nanoseconds.
    pub wall_ns: u64,
    /// Wake-ups by the timer.
    pub timer_wakes: u64,
    /// Median time between two of them, nanoseconds.
    pub period_ns: u64,
    /// Wake-ups by the device.
    pub interrupt_wakes: u64,
    /// Packets handled.
    pub packets: u64,
    /// CPU time of the engine's thread, nanoseconds.
    pub thread_ns: u64,
    /// Time its CPU was not idle, whatever for, nanoseconds; `None` where that can't be read.
    pub core_ns: Option<u64>,
}

/// The first thing about a curve that can't be.
fn doubt(name: &str, curve: &[Cost]) -> Option<String> {
    let percent = |share: f64| share * 100.0;
    for cost in curve {
        let price_ns = cost.core_share / cost.rate_hz * 1e9;
        let plausible = cost.core_share.is_finite() && (0.0..=1.05).contains(&cost.core_share);
        if !plausible || price_ns > DEAREST_WAKE_NS {
            return Some(format!("a wake-up by {name} was to take {:.0} µs at {:.0}/s", price_ns / 1e3, cost.rate_hz));
        }
    }
    for pair in curve.windows(2) {
        if pair[1].core_share < pair[0].core_share * LEAST_GROWTH - NOISE {
            return Some(format!(
                "{:.0} wake-ups by {name} a second were to take {:.1} % of the core, and {:.0} only {:.1} %",
                pair[0].rate_hz,
                percent(pair[0].core_share),
                pair[1].rate_hz,
                percent(pair[1].core_share)
            ));
        }
    }
    let (first, last) = (curve.first()?, curve.last()?);
    let middle = curve.get(2).filter(|middle| middle.rate_hz > first.rate_hz)?;
    let slope = (middle.core_share - first.core_share) / (middle.rate_hz - first.rate_hz);
    let constant = first.core_share - slope * first.rate_hz;
    if constant > GREATEST_CONSTANT {
        return Some(format!(
            "{:.0} % of the core was used whatever the rate of wake-ups by {name}",
            percent(constant)
        ));
    }
    let price_ns = last.core_share / last.rate_hz * 1e9;
    (price_ns < CHEAPEST_WAKE_NS).then(|| format!("a wake-up by {name} was to take {price_ns:.0} ns"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::calibration;
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Vec<Cost> {
        points.iter().map(|&(rate_hz, price_us)| Cost { rate_hz, core_share: price_us * rate_hz / 1e6 }).collect()
    }

    #[test]
    fn curves_of_real_machines_are_believed() {
        assert_eq!(calibration().doubts(), [""; 0]);
        // Rate and µs a wake-up: bare metal, a virtual machine, one whose idle states are deep, noise.
        for points in [
            &[(500.0, 4.0), (1000.0, 3.5), (2000.0, 3.0), (4000.0, 2.4), (8000.0, 2.0), (20_000.0, 1.6)],
            &[(500.0, 60.0), (1000.0, 50.0), (2000.0, 40.0), (4000.0, 28.0), (8000.0, 20.0), (20_000.0, 12.0)],
            &[(500.0, 100.0), (1000.0, 80.0), (2000.0, 50.0), (4000.0, 30.0), (8000.0, 16.0), (20_000.0, 8.0)],
            &[(500.0, 8.0), (1000.0, 12.0), (2000.0, 5.0), (4000.0, 9.0), (8000.0, 6.0), (20_000.0, 7.0)],
        ] {
            assert_eq!(doubt("timer", &curve(points)), None, "{points:?}");
        }
    }

    #[test]
    fn curves_that_no_machine_has_are_doubted() {
        for (points, about) in [
            // Seen: others had a third of the core.
            (&[(500.0, 660.0), (1000.0, 347.0), (2000.0, 180.0), (4000.0, 95.0)][..], "660 µs at 500/s"),
            (&[(1000.0, 120.0), (2500.0, 50.0), (5000.0, 26.0), (10_000.0, 14.0)][..], "whatever the rate"),
            (&[(1000.0, 60.0), (2000.0, 10.0), (4000.0, 8.0)][..], "only"),
            (&[(1000.0, 0.0), (2000.0, 0.0), (4000.0, 0.0)][..], "0 ns"),
            (&[(20_000.0, 60.0)][..], "60 µs"),
        ] {
            let doubt = doubt("timer", &curve(points)).unwrap_or_else(|| panic!("{points:?} is believed"));
            assert!(doubt.contains(about), "{doubt}");
        }
    }

    #[test]
    fn who_used_the_core_meanwhile_is_a_doubt() {
        let with = |others_share, idle_share| Calibration { others_share, idle_share, ..calibration() }.curve_doubts();
        assert_eq!(with(Some(0.01), 0.3), [""; 0], "the kernel's own work");
        assert_eq!(with(Some(0.3), 0.0), ["other programs used 30 % of the CPU meanwhile"]);
        assert_eq!(with(None, 0.3), ["the CPU was used to 30 % by others"]);
        assert_eq!(with(None, 0.01), [""; 0]);
        let restless = Calibration { jitter_p99_ns: 1_200_000, ..calibration() };
        assert_eq!((restless.curve_doubts().len(), restless.doubts().len()), (0, 1));
    }

    #[test]
    fn a_run_contradicts_figures_beyond_a_factor() {
        // 1,000 polls a second for 10 s: 3 % of the core by the curve.
        let run = Observed {
            wall_ns: 10_000_000_000,
            timer_wakes: 10_000,
            period_ns: 1_000_000,
            thread_ns: 60_000_000,
            core_ns: Some(320_000_000),
            ..Observed::default()
        };
        assert_eq!(calibration().contradiction(&run), None);
        let mut absurd = calibration();
        absurd.timer.iter_mut().for_each(|cost| cost.core_share += 0.34);
        let said = absurd.contradiction(&run).unwrap();
        assert_eq!(said, "wake-ups were to take 37.0 % of the core, and all that ran there took 3.2 %");
        assert_eq!(absurd.contradiction(&Observed { core_ns: None, ..run }), None, "the thread's part says nothing");
        assert_eq!(absurd.contradiction(&Observed { wall_ns: 1_000_000_000, ..run }), None, "too short");
        let dear = Observed { thread_ns: 2_000_000_000, core_ns: None, ..run };
        assert!(calibration().contradiction(&dear).unwrap().contains("the engine alone took 20.0 %"));
        assert_eq!(calibration().contradiction(&Observed { packets: 1_000_000, ..dear }), None, "a handler's work");
        let asleep = Observed { timer_wakes: 0, interrupt_wakes: 5, ..run };
        assert_eq!(absurd.contradiction(&asleep), None);
    }
}

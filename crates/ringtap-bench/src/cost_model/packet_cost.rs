//! F = T·(C_IO + C_task) + W·C_wake + B·C_poll + idle, per core and second, in cycles of the time stamp counter (\[4] §8, §9.5).
//!
//! Owns two estimates of C_IO, which must agree: beyond *saturation* F/T − C_task, and below it by *regression* of the core's use on T, W and
//! T·C_task, where the last slope must be 1. From what spins, C_poll, and C_busy = B·C_poll/T.

use std::collections::BTreeMap;

use super::parameter;
use super::regression::{Regression, Row, mean_interval};
use crate::book::{Book, Fit, FitPoint, Sample, Topology};
use crate::packet_cost::{
    CYCLES, EMPTY, PACKETS, REGRESSION, SATURATION, SPINNING, STUDY, TASK, TSC_HZ, TURNS, WAKES, WORK_LOOP,
};

/// Names of models in a book.
pub(crate) const MODEL: &str = "packet_cost";
pub(crate) const CALIBRATION: &str = "work_loop";
/// Names of parameters.
pub(crate) const BY_SATURATION: &str = "C_IO by saturation";
pub(crate) const BY_REGRESSION: &str = "C_IO by regression";
pub(crate) const PER_WAKE: &str = "C_wake";
pub(crate) const TASK_SLOPE: &str = "slope of T·C_task (must be 1)";
pub(crate) const PER_LOOK: &str = "C_poll";
pub(crate) const KNEE: &str = "greatest C_task carried";

/// Less than this share of what was sent was received: past saturation.
const SATURATED: f64 = 0.98;
/// A core that others or the hypervisor used more than this, percent, tells nothing.
const DISTURBED_PERCENT: f64 = 2.0;

/// One run, in cycles and in a second.
#[derive(Debug, Clone, Copy)]
struct Run {
    used: f64,
    packets: f64,
    wakes: f64,
    empty: f64,
    task: f64,
    offered: f64,
    delivered: f64,
}

impl Run {
    fn of(sample: &Sample) -> Option<Self> {
        let measure = |name: &str| sample.measures.get(name).copied();
        let run = Self {
            used: measure(TSC_HZ)? * sample.core_use_percent / 100.0,
            packets: measure(PACKETS)?,
            wakes: measure(WAKES)?,
            empty: measure(EMPTY)?,
            task: measure(TASK)?,
            offered: sample.offered_pps,
            delivered: sample.received as f64 / sample.sent.max(1) as f64,
        };
        let sound =
            [run.used, run.packets, run.wakes, run.empty, run.task, run.offered].into_iter().all(f64::is_finite);
        let undisturbed = |percent: Option<f64>| percent.is_none_or(|percent| percent < DISTURBED_PERCENT);
        // In topology host the kernel's own part of receiving counts among the others.
        let others = sample.others_percent.filter(|_| sample.topology == Topology::Nic);
        (sound && run.packets > 0.0 && undisturbed(sample.steal_percent) && undisturbed(others)).then_some(run)
    }

    /// A row of the regression.
    fn row(&self) -> Row {
        Row {
            x: vec![1.0, self.packets, self.wakes, self.packets * self.task],
            y: self.used,
            weight: 1.0 / (self.used * self.used).max(1.0),
        }
    }
}

/// The work loop's line, and what each use and back end costs.
pub(super) fn fits(book: &Book) -> Vec<Fit> {
    let mut groups: BTreeMap<(Topology, &str), BTreeMap<&str, Vec<Run>>> = BTreeMap::new();
    for sample in book.samples.iter().filter(|sample| sample.study == STUDY && sample.workload != WORK_LOOP) {
        let Some(run) = Run::of(sample) else { continue };
        let group = groups.entry((sample.topology, sample.receiver.as_str())).or_default();
        group.entry(sample.workload.as_str()).or_default().push(run);
    }
    let mut fits: Vec<Fit> = calibration(book).into_iter().collect();
    fits.extend(groups.iter().filter_map(|((topology, receiver), runs)| fit(receiver, *topology, runs)));
    fits
}

/// Cycles of the loop on its turns, as they were measured before the runs.
fn calibration(book: &Book) -> Option<Fit> {
    let samples = book.samples.iter().filter(|sample| sample.study == STUDY && sample.workload == WORK_LOOP);
    let points: Vec<(f64, f64)> = samples
        .filter_map(|sample| Some((*sample.measures.get(TURNS)?, *sample.measures.get(CYCLES)?)))
        .filter(|(turns, took)| *turns > 0.0 && *took > 0.0 && turns.is_finite() && took.is_finite())
        .collect();
    let rows: Vec<Row> =
        points.iter().map(|&(turns, took)| Row { x: vec![1.0, turns], y: took, weight: 1.0 / (took * took) }).collect();
    let line = Regression::non_negative(&rows)?;
    let [intercept, slope] = line.coefficients[..] else { return None };
    let of = |column: usize, value: f64| {
        let (low, high) = line.interval(column);
        (value, low, high)
    };
    let worst =
        points.iter().map(|&(turns, took)| (took / (intercept + slope * turns) - 1.0).abs()).fold(0.0, f64::max);
    let point = |&(turns, took): &(f64, f64)| FitPoint {
        label: format!("{turns:.0} turns"),
        x: turns,
        predicted: intercept + slope * turns,
        measured: took,
        held_back: false,
    };
    Some(Fit {
        model: CALIBRATION.to_owned(),
        receiver: WORK_LOOP.to_owned(),
        topology: Topology::Nic,
        formula: "cycles = intercept + slope · turns, of the time stamp counter by RDTSCP".to_owned(),
        parameters: vec![
            parameter("intercept", "cycles", of(0, intercept), 1.0),
            parameter("slope", "cycles a turn", of(1, slope), 1.0),
            parameter("worst deviation", "%", (worst, worst, worst), 100.0),
        ],
        r_squared: line.r_squared,
        points: points.iter().map(point).collect(),
    })
}

/// The mean and its interval; of one value, which has none, that.
fn mean(values: &[f64]) -> Option<(f64, f64, f64)> {
    match values {
        [only] => Some((*only, *only, *only)),
        values => mean_interval(values),
    }
}

fn fit(receiver: &str, topology: Topology, runs: &BTreeMap<&str, Vec<Run>>) -> Option<Fit> {
    let of = |workload: &str| runs.get(workload).map(Vec::as_slice).unwrap_or_default();
    let mut parameters = Vec::new();
    // Runs at one work are one observation only where all of them say the same.
    let past: Vec<f64> = (of(SATURATION).iter())
        .filter(|run| run.delivered < SATURATED)
        .map(|run| run.used / run.packets - run.task)
        .collect();
    parameters.extend(mean(&past).map(|mean| parameter(BY_SATURATION, "cycles", mean, 1.0)));
    let carried = of(SATURATION).iter().filter(|run| run.delivered >= 1.0).map(|run| run.task).reduce(f64::max);
    let beyond = of(SATURATION).iter().filter(|run| run.delivered < SATURATED).map(|run| run.task).reduce(f64::min);
    if let (Some(carried), Some(beyond)) = (carried, beyond) {
        parameters.push(parameter(KNEE, "cycles", (carried, carried, beyond.max(carried)), 1.0));
    }
    let rows: Vec<Row> = of(REGRESSION).iter().map(Run::row).collect();
    let regression = Regression::non_negative(&rows);
    let mut points = Vec::new();
    if let Some(found) = &regression {
        for (column, name, unit) in [
            (1, BY_REGRESSION, "cycles"),
            (2, PER_WAKE, "cycles a wake-up"),
            (3, TASK_SLOPE, "–"),
            (0, "idle", "cycles/s"),
        ] {
            if found.kept.contains(&column) {
                let (low, high) = found.interval(column);
                parameters.push(parameter(name, unit, (found.coefficients[column], low, high), 1.0));
            }
        }
        points = of(REGRESSION)
            .iter()
            .map(|run| FitPoint {
                label: format!("{:.0} pps, {:.0} cycles added", run.offered, run.task),
                x: run.offered,
                predicted: found.predict(&run.row().x),
                measured: run.used,
                held_back: false,
            })
            .collect();
    }
    let io = regression.as_ref().filter(|found| found.kept.contains(&1)).map(|found| found.coefficients[1]);
    let looks: Vec<(f64, f64, f64)> = (of(SPINNING).iter())
        .filter(|run| run.empty > 0.0)
        .filter_map(|run| {
            let per_look = ((run.used - run.packets * (io? + run.task)) / run.empty).max(0.0);
            Some((run.offered, per_look, run.empty * per_look / run.packets))
        })
        .collect();
    let per_look: Vec<f64> = looks.iter().map(|(_, per_look, _)| *per_look).collect();
    parameters.extend(mean(&per_look).map(|mean| parameter(PER_LOOK, "cycles a look", mean, 1.0)));
    let mut rates: Vec<f64> = looks.iter().map(|(pps, ..)| *pps).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    for pps in rates {
        let own: Vec<f64> = looks.iter().filter(|look| look.0 == pps).map(|look| look.2).collect();
        let mean = own.iter().sum::<f64>() / own.len() as f64;
        let (low, high) = own.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &of| (low.min(of), high.max(of)));
        parameters.push(parameter(&format!("C_busy at {pps:.0} pps"), "cycles", (mean, low, high), 1.0));
    }
    (!parameters.is_empty()).then(|| Fit {
        model: MODEL.to_owned(),
        receiver: receiver.to_owned(),
        topology,
        formula: "F = T·(C_IO + C_task) + W·C_wake + B·C_poll + idle, cycles of the time stamp counter in a second of the receiver's \
                  core; beyond saturation C_IO = F/T − C_task"
            .to_owned(),
        parameters,
        r_squared: regression.and_then(|found| found.r_squared),
        points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost_model::synthetic::{book_of, sample};

    const HZ: f64 = 2.0e9;

    /// A run that costs 150 cycles a packet, 4,000 a wake-up and 90 an empty look.
    fn run(workload: &str, pps: f64, wakes: f64, task: f64) -> Sample {
        let cycles = pps * (150.0 + task) + wakes * 4_000.0 + 2e7;
        let most = (HZ / (150.0 + task)).min(pps);
        let (used, packets) = if cycles > HZ { (HZ, most) } else { (cycles, pps) };
        let (used, empty) = if workload == SPINNING { (HZ, (HZ - pps * (150.0 + task)) / 90.0) } else { (used, 0.0) };
        let mut sample = sample("capture xdp", Topology::Nic, pps, used / HZ * 100.0);
        (sample.study, sample.workload) = (STUDY.to_owned(), workload.to_owned());
        sample.received = (sample.sent as f64 * packets / pps) as u64;
        sample.measures = [(TSC_HZ, HZ), (TASK, task), (PACKETS, packets), (WAKES, wakes), (EMPTY, empty)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        sample
    }

    fn all() -> Vec<Sample> {
        let mut samples = Vec::new();
        for task in [1_000.0, 1_500.0, 2_000.0, 2_500.0] {
            samples.push(run(SATURATION, 1e6, 1_000.0, task));
        }
        for (pps, wakes) in [(2e4, 2e4), (2e4, 1e3), (148e3, 5e4), (148e3, 1e3), (148e3, 4e3)] {
            for task in [0.0, 250.0, 1_000.0] {
                samples.push(run(REGRESSION, pps, wakes, task));
            }
        }
        samples.extend([2e4, 148e3].map(|pps| run(SPINNING, pps, 0.0, 0.0)));
        samples
    }

    fn value(fit: &Fit, name: &str) -> f64 {
        fit.parameters
            .iter()
            .find(|parameter| parameter.name == name)
            .unwrap_or_else(|| panic!("{name}: {fit:?}"))
            .value
    }

    #[test]
    fn known_costs_are_found_by_both_ways() {
        let fits = fits(&book_of(all()));
        let [fit] = &fits[..] else { panic!("{fits:?}") };
        for (name, known) in [
            (BY_SATURATION, 150.0),
            (BY_REGRESSION, 150.0),
            (PER_WAKE, 4_000.0),
            (TASK_SLOPE, 1.0),
            (PER_LOOK, 90.0),
            (KNEE, 1_500.0),
            ("C_busy at 20000 pps", (HZ - 2e4 * 150.0) / 2e4),
        ] {
            assert!((value(fit, name) / known - 1.0).abs() < 0.01, "{name} {}", value(fit, name));
        }
    }

    #[test]
    fn a_core_that_the_hypervisor_took_tells_nothing() {
        let mut samples = all();
        samples.iter_mut().for_each(|sample| sample.steal_percent = Some(5.0));
        assert!(fits(&book_of(samples)).is_empty());
    }

    #[test]
    fn the_work_loops_line_and_what_is_off_it() {
        let points = (1..20).map(|round| {
            let mut sample = Sample { study: STUDY.to_owned(), workload: WORK_LOOP.to_owned(), ..Sample::default() };
            let turns = f64::from(round) * 16.0;
            let took = (10.0 + 0.6 * turns) * if round == 7 { 1.01 } else { 1.0 };
            sample.measures = [(TURNS, turns), (CYCLES, took)].map(|(name, value)| (name.to_owned(), value)).into();
            sample
        });
        let fits = fits(&book_of(points.collect()));
        assert_eq!((fits.len(), fits[0].model.as_str()), (1, CALIBRATION));
        assert!((value(&fits[0], "slope") / 0.6 - 1.0).abs() < 0.01);
        assert!((0.5..1.1).contains(&value(&fits[0], "worst deviation")), "{:?}", fits[0]);
    }
}

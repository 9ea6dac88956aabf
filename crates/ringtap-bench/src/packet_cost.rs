//! The study `cost`: what a packet, a wake-up and an empty look cost (\[4] §8, §9.5), for capturing and for forwarding, on every back end
//! that runs here.
//!
//! Owns which runs are made. Added work is `ringtap::cycles`'s loop, calibrated before; what follows from the samples is in
//! `cost_model::packet_cost`. In topology nic the kernel's part ran on the other core, and is not in the figures.

mod ports;

use std::rc::Rc;

use ringtap::pacer::Policy;
use ringtap::{Backend, Result};
use ringtap_testbed::Topology;

use crate::bench::{Bench, cost_seconds};
use crate::book::Sample;
use crate::definition::{CostPoints, Use};
use crate::run::Benches;
use crate::scale::Scale;

/// Name in samples.
pub(crate) const STUDY: &str = "cost";
/// Samples' workloads: the calibration, and what a run is for.
pub(crate) const WORK_LOOP: &str = "work loop";
pub(crate) const SATURATION: &str = "saturation";
pub(crate) const REGRESSION: &str = "regression";
pub(crate) const SPINNING: &str = "spinning";

/// In [`Sample::measures`]: cycles of the time stamp counter in a second.
pub(crate) const TSC_HZ: &str = "tsc_hz";
/// Cycles added to each packet.
pub(crate) const TASK: &str = "task_cycles";
/// Packets received, wake-ups and looks that found nothing, each in a second while packets came.
pub(crate) const PACKETS: &str = "packets_per_second";
pub(crate) const WAKES: &str = "wakes_per_second";
pub(crate) const EMPTY: &str = "empty_looks_per_second";
/// Turns of the work loop, and what they took.
pub(crate) const TURNS: &str = "turns";
pub(crate) const CYCLES: &str = "cycles";

/// One run to be made.
#[derive(Debug, Clone)]
struct Run {
    workload: &'static str,
    r#use: Use,
    backend: Backend,
    topology: Topology,
    policy: Policy,
    /// How it waits, in words.
    wait: String,
    pps: f64,
    task_cycles: f64,
}

impl Run {
    /// Name of the receiver: two waits of one use and back end are one receiver, of which a regression is made.
    fn receiver(&self) -> String {
        format!("{} {}", self.r#use.name(), self.backend.name())
    }
}

pub(crate) fn study(bench: &mut Bench<'_>) -> Result<()> {
    let definitions = Rc::clone(&bench.definitions);
    let benches = Rc::clone(&bench.benches);
    for sample in calibration(&benches) {
        bench.keep(sample)?;
    }
    for round in 0..bench.scale.rounds {
        for run in runs(&definitions.cost, &bench.scale, benches.load().tsc_hz) {
            let receiver = run.receiver();
            if !bench.wants(&receiver) {
                continue;
            }
            let seconds = bench.scale.seconds_of(definitions.cost.seconds);
            let count = (run.pps * seconds).max(1.0) as u64;
            bench.measure(STUDY, &receiver, run.topology, seconds, || ports::sample(&benches, &run, round, count))?;
        }
    }
    Ok(())
}

pub(crate) fn seconds(bench: &Bench<'_>) -> f64 {
    let points = &bench.definitions.cost;
    let run = cost_seconds(bench.scale.seconds_of(points.seconds));
    runs(points, &bench.scale, 1.0).len() as f64 * run * f64::from(bench.scale.rounds)
}

/// What the work loop's calibration measured, a sample for each wait value.
fn calibration(benches: &Benches) -> Vec<Sample> {
    let load = benches.load();
    let sample = |&(turns, took): &(u64, f64)| Sample {
        study: STUDY.to_owned(),
        workload: WORK_LOOP.to_owned(),
        receiver: WORK_LOOP.to_owned(),
        measures: [(TSC_HZ, load.tsc_hz), (TURNS, turns as f64), (CYCLES, took)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        ..Sample::default()
    };
    load.points.iter().map(sample).collect()
}

/// Every run of a round, so that what is compared is measured one soon after the other. A short benchmark has the first and the last of
/// each list.
fn runs(points: &CostPoints, scale: &Scale, tsc_hz: f64) -> Vec<Run> {
    let is_short = scale.program_seconds.is_some();
    let thin = |values: &[f64]| match values {
        [first, .., last] if is_short => vec![*first, *last],
        all => all.to_vec(),
    };
    let pps = points.saturation_pps.min(scale.greatest_pps);
    let topologies = if is_short { &points.topologies[..1] } else { &points.topologies[..] };
    let mut runs = Vec::new();
    for (&topology, &r#use, &backend) in topologies.iter().flat_map(|topology| {
        points.uses.iter().flat_map(move |r#use| points.backends.iter().map(move |backend| (topology, r#use, backend)))
    }) {
        let run = |workload, policy: &Policy, wait: &str, pps, task_cycles| Run {
            workload,
            r#use,
            backend: backend.backend(),
            topology,
            policy: policy.clone(),
            wait: wait.to_owned(),
            pps,
            task_cycles,
        };
        let interrupt = (Policy::Interrupt, "interrupt".to_owned());
        for share in thin(&points.saturation_shares) {
            runs.push(run(SATURATION, &interrupt.0, &interrupt.1, pps, share * tsc_hz / pps));
        }
        let timers = thin(&points.periods_us).into_iter().map(|micros| {
            let period_ns = (micros * 1e3) as u64;
            (Policy::Timer { period_ns }, format!("timer {micros} us"))
        });
        for (policy, wait) in [interrupt.clone()].into_iter().chain(timers) {
            for &pps in &thin(&points.rates) {
                for &task in &thin(&points.tasks_cycles) {
                    runs.push(run(REGRESSION, &policy, &wait, pps, task));
                }
            }
        }
        // A real-time thread that spins leaves no time to the device's kernel thread on its core.
        if topology == Topology::Nic {
            for &pps in &thin(&points.rates) {
                runs.push(run(SPINNING, &Policy::Busy, "spinning", pps, 0.0));
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Definitions;

    #[test]
    fn each_use_and_back_end_has_runs_of_every_kind() {
        let usual = Definitions::read(None).unwrap();
        for scale in [&usual.scale.quick, &usual.scale.usual] {
            let runs = runs(&usual.cost, scale, 2e9);
            for backend in &usual.cost.backends {
                for workload in [SATURATION, REGRESSION, SPINNING] {
                    let own = runs.iter().filter(|run| run.backend == backend.backend() && run.workload == workload);
                    assert!(own.count() >= 4, "{backend:?} {workload}");
                }
            }
            assert!(runs.iter().all(|run| run.pps <= scale.greatest_pps && run.task_cycles >= 0.0));
            assert!(runs.iter().all(|run| run.topology == Topology::Nic || run.policy != Policy::Busy));
            // As much work as there is time from packet to packet, and more.
            let most = runs.iter().filter(|run| run.workload == SATURATION).map(|run| run.task_cycles * run.pps / 2e9);
            assert!(most.fold(0.0, f64::max) > 1.0);
        }
    }
}

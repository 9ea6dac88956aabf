//! Attacks of two stages under a flood: splitter, two sensors and correlator beside two Suricatas and syslog.
//!
//! Owns the way from a point to a sample. Runs are `crate::staged`'s; what follows from them is kept whole, as `Evidence`, and
//! drawn by `report::staged`.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_testbed::Topology;
use serde_json::json;

use super::Point;
use crate::bench::{Bench, cost_seconds};
use crate::book::{Claims, Sample};
use crate::definition::StagedPoints;
use crate::staged::chain::Setting;
use crate::staged::evidence::{Cell, Evidence, TO_FINAL, TO_LOG, TO_PROVISIONAL};
use crate::staged::plant::{Plan, STAGES};
use crate::staged::wires::WireLosses;
use crate::staged::{self, Sent, Traffic};

pub(crate) const STUDY: &str = "staged";
/// Where a sample's evidence is in what it reports.
pub(crate) const EVIDENCE: &str = "evidence";
/// Starting four programs, and waiting for what follows from the last packet.
const AROUND_SECONDS: f64 = 6.0;

/// Who looks for the pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiver {
    Ringtap,
    Suricata,
}

impl Receiver {
    const ALL: [(&'static str, Self); 2] = [("ringtap-correlate", Self::Ringtap), ("suricata-syslog", Self::Suricata)];

    fn find(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind).ok_or_else(|| {
            let choice = Self::ALL.map(|(name, _)| name).join(", ");
            Error::usage("measure", name, "the study `staged` has no such receiver")
                .way_out(format!("choose among: {choice}"))
        })
    }
}

/// Every point in every round, receivers in turn at each flood.
pub(crate) fn study(bench: &mut Bench<'_>) -> Result<()> {
    let definitions = Rc::clone(&bench.definitions);
    let ringtap = super::ringtap(&definitions.programs)?;
    for points in &definitions.staged {
        let plan = plan(bench, points);
        for round in 0..bench.scale.rounds {
            for flood_pps in bench.scale.rates_of(&points.floods) {
                let traffic = Traffic { plan: plan.clone(), flood_pps };
                for receiver in points.receivers.iter().filter(|name| bench.wants(name)).collect::<Vec<_>>() {
                    let kind = Receiver::find(receiver)?;
                    let topology = Topology::Nic;
                    let point =
                        Point { study: STUDY, workload: &points.workload, receiver, topology, round, pps: flood_pps };
                    let seconds = plan.lasts().as_secs_f64() + AROUND_SECONDS;
                    bench.measure(STUDY, receiver, topology, seconds, || {
                        sample(&point, kind, &ringtap, points, &traffic)
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// About how long that takes.
pub(crate) fn seconds(bench: &Bench<'_>) -> f64 {
    let of = |points: &StagedPoints| {
        let receivers = points.receivers.iter().filter(|name| bench.wants(name)).count();
        let runs = receivers * bench.scale.rates_of(&points.floods).len();
        runs as f64 * cost_seconds(plan(bench, points).lasts().as_secs_f64() + AROUND_SECONDS)
    };
    bench.definitions.staged.iter().map(of).sum::<f64>() * f64::from(bench.scale.rounds)
}

/// As defined, or so many of the pairs as the shorter time has.
fn plan(bench: &Bench<'_>, points: &StagedPoints) -> Plan {
    let seconds = bench.scale.seconds_of(points.seconds).min(points.seconds);
    Plan {
        gaps: points.gaps_us.iter().copied().map(Duration::from_micros).collect(),
        each: ((f64::from(points.pairs) * seconds / points.seconds) as u32).max(1),
        over: Duration::from_secs_f64(seconds),
    }
}

fn sample(
    point: &Point<'_>,
    kind: Receiver,
    ringtap: &Path,
    points: &StagedPoints,
    traffic: &Traffic,
) -> Result<Sample> {
    let windows: Vec<Duration> = points.windows_us.iter().copied().map(Duration::from_micros).collect();
    let setting = Setting { ringtap, options: &points.options, windows: &windows, both_flooded: points.both };
    match kind {
        Receiver::Ringtap => ours(point, &setting, traffic),
        Receiver::Suricata => peers(point, &setting, traffic),
    }
}

fn ours(point: &Point<'_>, setting: &Setting<'_>, traffic: &Traffic) -> Result<Sample> {
    let run = staged::ours(setting, traffic)?;
    let evidence = Evidence::of(&run.traces, setting.windows, &run.losses());
    let handled = run.sensors.iter().filter_map(|sensor| sensor["packets"].as_u64()).sum();
    let mut sample = Sample {
        claims: Claims { received: Some(handled), dropped: Some(run.lost()) },
        unaccounted: run.unaccounted(),
        ..counted(point, &run.sent, handled)
    };
    sample.measures = measures(&evidence);
    sample.drops = drops(&evidence.wires);
    let delivered = first_cells(&evidence).filter_map(|cell| cell.delivered).sum();
    let more = [
        ("pairs_delivered", delivered),
        ("pairs_due", evidence.due()),
        ("pairs_missed", evidence.missed()),
        ("incidents_late", run.late),
        ("incidents_incomplete", run.incomplete),
    ];
    sample.measures.extend(more.map(|(name, count)| (name.to_owned(), count as f64)));
    sample.reported = Some(json!({
        EVIDENCE: evidence, "splitter": run.splitter, "sensors": run.sensors, "correlator": run.correlator,
    }));
    Ok(sample)
}

fn peers(point: &Point<'_>, setting: &Setting<'_>, traffic: &Traffic) -> Result<Sample> {
    let run = staged::peers(setting, traffic)?;
    let evidence = Evidence::of_log(&run.traces, setting.windows, run.wires);
    let mut sample = Sample {
        claims: Claims { received: Some(run.handled.iter().sum()), dropped: Some(run.dropped.iter().sum()) },
        ..counted(point, &run.sent, run.handled.iter().sum())
    };
    sample.measures = measures(&evidence);
    sample.drops = drops(&evidence.wires);
    let logged = run.traces.iter().filter(|trace| trace.apart_on_arrival().is_some()).count();
    sample.measures.insert("pairs_logged".to_owned(), logged as f64);
    sample.reported = Some(json!({ EVIDENCE: evidence, "splitter": run.splitter }));
    Ok(sample)
}

fn counted(point: &Point<'_>, sent: &Sent, handled: u64) -> Sample {
    let packets = sent.packets();
    Sample {
        sent_pps: sent.flood.as_ref().map_or(0.0, |flood| flood.achieved_pps),
        sent: packets,
        received: handled.min(packets),
        lost: packets.saturating_sub(handled),
        ..point.sample(&sent.core)
    }
}

/// Cells that have each pair once.
fn first_cells(evidence: &Evidence) -> impl Iterator<Item = &Cell> {
    let first = evidence.cells.first().map(|cell| cell.window_us);
    evidence.cells.iter().filter(move |cell| Some(cell.window_us) == first)
}

/// Losses of the testbed's wires, by where they lie.
fn drops(wires: &WireLosses) -> BTreeMap<String, Option<u64>> {
    let behind = STAGES.iter().zip(wires.behind).map(|(stage, lost)| (format!("wire_to_{}", stage.sensor), lost));
    behind.chain([("driver_queue".to_owned(), wires.before)]).collect()
}

fn measures(evidence: &Evidence) -> BTreeMap<String, f64> {
    let pairs = first_cells(evidence).map(|cell| cell.pairs).sum::<u64>();
    let mut measures = BTreeMap::from([("pairs".to_owned(), pairs as f64)]);
    for (name, hop) in [("provisional", TO_PROVISIONAL), ("final", TO_FINAL), ("log", TO_LOG)] {
        measures.extend(evidence.hops.get(hop).map(|delays| (format!("p99_to_{name}_ms"), delays.p99 / 1e3)));
    }
    measures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_by_name() {
        assert_eq!(Receiver::find("suricata-syslog").unwrap(), Receiver::Suricata);
        assert!(Receiver::find("suricata").unwrap_err().to_string().contains("suricata-syslog"));
    }
}

//! The forwarder beside its peers: testpmd, the kernel's bridge, tc mirred and an XDP redirect, between the same two interfaces.
//!
//! Owns which runs are made and the search for the rate without loss. How one is made is in `run`.

mod run;

use std::rc::Rc;

use ringtap::{Error, Result};
use ringtap_testbed::{KernelForwarder, Topology};

use super::Point;
use crate::bench::{Bench, DISTURBED, cost_seconds};
use crate::book::{Finding, Sample};
use crate::definition::ForwardPoints;

pub(crate) const STUDY: &str = "forward";
/// The trials of its searches, in samples.
const SEARCH: &str = "forward search";
/// Quantities in findings begin like this.
pub(crate) const CAPACITY: &str = "no_loss_pps";
/// In [`Sample::measures`]: where both ways are used, what was lost each way.
pub(crate) const LOST_THERE: &str = "lost_there";
pub(crate) const LOST_BACK: &str = "lost_back";
/// The generator's limit is reached when it sends this much less than asked.
const SHORTFALL: f64 = 0.03;
/// Steps of a search at most.
const STEPS: usize = 12;

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forwarder {
    /// `ringtap forward` with this back end, which waits like that.
    Ringtap(&'static str, Waits),
    /// testpmd on this driver in this mode.
    Testpmd(&'static str, &'static str),
    Kernel(KernelForwarder),
}

/// How it waits, with a bound of 1 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    Hybrid,
    Interrupt,
    Timer,
}

impl Forwarder {
    const ALL: [(&'static str, Self); 11] = [
        ("ringtap-xdp", Self::Ringtap("xdp", Waits::Hybrid)),
        ("ringtap-xdp interrupt", Self::Ringtap("xdp", Waits::Interrupt)),
        ("ringtap-xdp timer", Self::Ringtap("xdp", Waits::Timer)),
        ("ringtap-packet", Self::Ringtap("packet", Waits::Hybrid)),
        ("testpmd-io af_packet", Self::Testpmd("af_packet", "io")),
        ("testpmd-io af_xdp", Self::Testpmd("af_xdp", "io")),
        ("testpmd-macswap af_packet", Self::Testpmd("af_packet", "macswap")),
        ("testpmd-macswap af_xdp", Self::Testpmd("af_xdp", "macswap")),
        ("bridge", Self::Kernel(KernelForwarder::Bridge)),
        ("tc-mirred", Self::Kernel(KernelForwarder::Mirred)),
        ("xdp-redirect", Self::Kernel(KernelForwarder::Xdp)),
    ];

    fn find(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind).ok_or_else(|| {
            let choice = Self::ALL.map(|(name, _)| name).join(", ");
            Error::usage("measure", name, "the study `forward` has no such forwarder")
                .way_out(format!("choose among: {choice}"))
        })
    }
}

/// What a run is made with, beside its [`Point`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) frame_bytes: usize,
    pub(crate) count: u64,
    pub(crate) both: bool,
}

/// Frame lengths; a short benchmark has the first.
fn sizes<'p>(bench: &Bench<'_>, points: &'p ForwardPoints) -> &'p [usize] {
    if is_short(bench) { points.sizes.get(..1).unwrap_or_default() } else { &points.sizes }
}

fn is_short(bench: &Bench<'_>) -> bool {
    bench.scale.program_seconds.is_some()
}

pub(crate) fn study(bench: &mut Bench<'_>) -> Result<()> {
    let definitions = Rc::clone(&bench.definitions);
    for points in &definitions.forward {
        let receivers: Vec<&String> = points.receivers.iter().filter(|name| bench.wants(name)).collect();
        for round in 0..bench.scale.rounds {
            for &frame_bytes in sizes(bench, points) {
                for &pps in &points.rates {
                    for receiver in &receivers {
                        once(bench, points, STUDY, receiver, frame_bytes, pps, round)?;
                    }
                }
            }
        }
        for &frame_bytes in sizes(bench, points) {
            for receiver in &receivers {
                search(bench, points, receiver, frame_bytes)?;
            }
        }
    }
    Ok(())
}

fn once(
    bench: &mut Bench<'_>,
    points: &ForwardPoints,
    study: &'static str,
    receiver: &str,
    frame_bytes: usize,
    pps: f64,
    round: u32,
) -> Result<Option<Sample>> {
    let definitions = Rc::clone(&bench.definitions);
    let ringtap = super::ringtap(&definitions.programs)?;
    let seconds = bench.scale.seconds_of(points.seconds);
    let topology = points.topology;
    let kind = Forwarder::find(receiver)?;
    let traffic = Traffic { frame_bytes, count: (pps * seconds).max(1.0) as u64, both: points.both };
    let point = Point { study, workload: &points.workload, receiver, topology, round, pps };
    bench.measure(STUDY, receiver, topology, seconds, || run::sample(&point, kind, &ringtap, traffic))
}

/// The greatest rate without loss: doubled until there is one, then halved in ratio.
fn search(bench: &mut Bench<'_>, points: &ForwardPoints, receiver: &str, frame_bytes: usize) -> Result<()> {
    let greatest = bench.scale.greatest_pps / if points.both { 2.0 } else { 1.0 };
    let resolution = if is_short(bench) { points.resolution.max(1.5) } else { points.resolution };
    let (mut low, mut high, mut at_least) = (0.0_f64, f64::INFINITY, false);
    let mut pps = points.search_from.min(greatest);
    for step in 0..STEPS {
        let Some(sample) = trial(bench, points, receiver, frame_bytes, pps, step as u32)? else { return Ok(()) };
        let short = sample.sent_pps < pps * (1.0 - SHORTFALL);
        match sample.lost {
            0 => low = sample.sent_pps.min(pps),
            _ => high = pps,
        }
        at_least = sample.lost == 0 && (short || pps >= greatest);
        if at_least || (low > 0.0 && high / low <= resolution) || (low == 0.0 && pps < 1e3) {
            break;
        }
        pps = match (low > 0.0, high.is_finite()) {
            (true, true) => (low * high).sqrt(),
            (true, false) => (low * 2.0).min(greatest),
            (false, _) => high / 2.0,
        };
    }
    bench.find(Finding {
        study: STUDY.to_owned(),
        receiver: receiver.to_owned(),
        topology: points.topology,
        quantity: format!("{CAPACITY} ({}, {frame_bytes} B)", points.workload),
        value: low,
        values: vec![low],
        at_least,
        note: format!(
            "one trial of {} s a rate, none lost, each way where both are used; the lowest rate with loss is no more than {resolution} times; {DISTURBED}",
            bench.scale.seconds_of(points.seconds)
        ),
    })
}

/// One trial; again where it failed while the hypervisor had the core.
fn trial(
    bench: &mut Bench<'_>,
    points: &ForwardPoints,
    receiver: &str,
    frame_bytes: usize,
    pps: f64,
    step: u32,
) -> Result<Option<Sample>> {
    const REPEATS: usize = 3;
    let mut sample = once(bench, points, SEARCH, receiver, frame_bytes, pps, step)?;
    for _ in 0..REPEATS {
        let is_disturbed = |of: &Sample| of.lost > 0 && of.steal_percent.is_some_and(|steal| steal >= 1.0);
        if !sample.as_ref().is_some_and(is_disturbed) {
            break;
        }
        sample = once(bench, points, SEARCH, receiver, frame_bytes, pps, step)?;
    }
    Ok(sample)
}

pub(crate) fn seconds(bench: &Bench<'_>) -> f64 {
    // A search takes about eight trials.
    const TRIALS: f64 = 8.0;
    let of = |points: &ForwardPoints| {
        let receivers = points.receivers.iter().filter(|name| bench.wants(name)).count();
        let points_of_each = points.rates.len() as f64 * f64::from(bench.scale.rounds) + TRIALS;
        (receivers * sizes(bench, points).len()) as f64
            * points_of_each
            * cost_seconds(bench.scale.seconds_of(points.seconds))
    };
    bench.definitions.forward.iter().map(of).sum()
}

/// Kernel forwarders run in the receiving device's NAPI: on the receiver's core in topology host alone.
pub(crate) fn suits(kind: Forwarder, topology: Topology) -> Result<()> {
    match kind {
        Forwarder::Kernel(_) if topology == Topology::Nic => Err(Error::failed(
            "measure",
            "a forwarder of the kernel",
            "none of it is on the receiver's core in topology nic",
        )
        .way_out("measure it in topology host")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarders_by_name() {
        assert_eq!(Forwarder::find("ringtap-xdp timer").unwrap(), Forwarder::Ringtap("xdp", Waits::Timer));
        assert_eq!(Forwarder::find("bridge").unwrap(), Forwarder::Kernel(KernelForwarder::Bridge));
        assert!(Forwarder::find("testpmd").unwrap_err().to_string().contains("testpmd-io af_xdp"));
        assert!(suits(Forwarder::Kernel(KernelForwarder::Xdp), Topology::Nic).is_err());
        assert!(suits(Forwarder::Ringtap("xdp", Waits::Hybrid), Topology::Nic).is_ok());
    }

    #[test]
    fn the_usual_definitions_name_known_forwarders() {
        let usual = crate::Definitions::read(None).unwrap();
        assert!(!usual.forward.is_empty());
        for name in usual.forward.iter().flat_map(|points| &points.receivers) {
            Forwarder::find(name).unwrap();
        }
    }
}

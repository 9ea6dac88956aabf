//! The rate without loss, in the manner of RFC 2544 section 26.1: trials of a fixed number of packets, all without loss.
//!
//! In topology host veth's own queue overflows whenever the machine takes the core away for a moment, whatever the receiver
//! does; there a loss of up to one percent counts as none, and the finding says so.

use ringtap::Result;
use ringtap_testbed::Topology;

use crate::bench::{Bench, DISTURBED, topology_name};
use crate::book::{Finding, Sample};
use crate::catalogue::Receiver;
use crate::run::Request;

/// Where the search begins if the greatest rate is not carried, packets per second.
const LEAST_PPS: f64 = 10e3;
/// Loss that counts as none in topology host.
const HOST_TOLERANCE: f64 = 0.01;
/// The generator's limit is reached when it sends this much less than asked.
const SHORTFALL: f64 = 0.03;

/// What a rate came to.
enum Verdict {
    Carried { sent_pps: f64, short: bool },
    Lost,
    Unknown,
}

pub(super) fn search(bench: &mut Bench<'_>) -> Result<()> {
    for topology in [Topology::Nic, Topology::Host] {
        // Who was told a peak rate is not asked for more.
        let receivers: Vec<_> =
            bench.receivers.iter().filter(|receiver| receiver.peak_pps.is_none()).cloned().collect();
        for receiver in receivers {
            if let Some((capacity_pps, at_least)) = of(bench, &receiver, topology)? {
                beyond(bench, &receiver, topology, capacity_pps)?;
                let tolerance = if topology == Topology::Host { ", loss up to 1 % counts as none" } else { "" };
                let note = format!(
                    "{} trials of {} packets of 64 B{tolerance}; {}; generator's limit {:.0} packets/s",
                    bench.scale.trials, bench.scale.trial_packets, DISTURBED, bench.scale.greatest_pps
                );
                bench.find(Finding {
                    study: "capacity".to_owned(),
                    receiver: receiver.name.clone(),
                    topology,
                    quantity: "no_loss_capacity_pps".to_owned(),
                    value: capacity_pps,
                    values: vec![capacity_pps],
                    at_least,
                    note,
                })?;
            }
        }
    }
    Ok(())
}

/// The greatest rate carried, and whether the generator gave no more. `None` when it can't be run or carries nothing.
fn of(bench: &mut Bench<'_>, receiver: &Receiver, topology: Topology) -> Result<Option<(f64, bool)>> {
    let greatest = bench.scale.greatest_pps;
    let mut low = match carries(bench, receiver, topology, greatest)? {
        Verdict::Carried { sent_pps, .. } => return Ok(Some((sent_pps, true))),
        Verdict::Unknown => return Ok(None),
        Verdict::Lost => None,
    };
    let mut high = greatest;
    let mut pps = (LEAST_PPS * greatest).sqrt();
    while low.is_none_or(|low: f64| high / low > 1.0 + bench.scale.resolution) && pps >= LEAST_PPS {
        match carries(bench, receiver, topology, pps)? {
            Verdict::Carried { sent_pps, short } => {
                low = Some(sent_pps);
                if short {
                    return Ok(Some((sent_pps, true)));
                }
            }
            Verdict::Lost => high = pps,
            Verdict::Unknown => return Ok(None),
        }
        pps = match low {
            Some(low) => (low * high).sqrt(),
            None => high / 2.0,
        };
    }
    if low.is_none() {
        let what = format!("capacity of {} ({})", receiver.name, topology_name(topology));
        bench.miss(what, format!("it loses packets at {LEAST_PPS:.0} packets/s"));
    }
    Ok(low.map(|low| (low, false)))
}

fn carries(bench: &mut Bench<'_>, receiver: &Receiver, topology: Topology, pps: f64) -> Result<Verdict> {
    let tolerance = if topology == Topology::Host { HOST_TOLERANCE } else { 0.0 };
    let mut slowest = f64::INFINITY;
    for round in 0..bench.scale.trials {
        let request = Request { round, ..Request::new("capacity", receiver, topology, pps, bench.scale.trial_packets) };
        let loses = |sample: &Sample| sample.lost as f64 > sample.sent as f64 * tolerance;
        let Some(sample) = bench.run_undisturbed(&request, loses)? else { return Ok(Verdict::Unknown) };
        if loses(&sample) {
            return Ok(Verdict::Lost);
        }
        slowest = slowest.min(sample.sent_pps);
    }
    Ok(Verdict::Carried { sent_pps: slowest.min(pps), short: slowest < pps * (1.0 - SHORTFALL) })
}

/// What is delivered at twice the capacity, and how the losses lie.
fn beyond(bench: &mut Bench<'_>, receiver: &Receiver, topology: Topology, capacity_pps: f64) -> Result<()> {
    let pps = (capacity_pps * 2.0).min(bench.scale.greatest_pps);
    for round in 0..bench.scale.trials {
        let request = Request::new("beyond", receiver, topology, pps, bench.scale.trial_packets);
        bench.run(&Request { round, numbered: true, ..request })?;
    }
    Ok(())
}

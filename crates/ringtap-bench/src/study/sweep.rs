//! Studies that run everybody over a range of one thing and search nothing.
//!
//! Runs are interleaved: each round goes through all points, so that a slow hour of the machine falls on all.

use std::rc::Rc;

use ringtap::Result;
use ringtap_testbed::Topology;

use super::named;
use crate::bench::Bench;
use crate::catalogue::Receiver;
use crate::definition::Rates;
use crate::run::{Arrivals, Request};
use crate::scale::Scale;
use crate::storm::{self, Storm};

/// 100 Mb/s of 64-byte packets, the sources' figure (\[1] §7).
pub(super) const STANDARD_PPS: f64 = 148e3;
const TOPOLOGIES: [Topology; 2] = [Topology::Nic, Topology::Host];

pub(super) fn rates(bench: &mut Bench<'_>) -> Result<()> {
    let receivers = bench.receivers.clone();
    let (scale, definitions) = (bench.scale.clone(), Rc::clone(&bench.definitions));
    let sweep = Sweep { scale: &scale, definition: &definitions.rates };
    for round in 0..scale.rounds {
        for &pps in &scale.rates {
            for topology in TOPOLOGIES {
                if topology == Topology::Host && pps < definitions.rates.least_host_pps {
                    continue;
                }
                for receiver in receivers.iter().filter(|receiver| sweep.has(receiver, round, pps)) {
                    let count = (pps * scale.seconds) as u64;
                    let request = Request { round, ..Request::new("rates", receiver, topology, pps, count) };
                    bench.run(&request)?;
                    if scale.soaker {
                        bench.run(&Request { study: "soaker", soaked: true, ..request })?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Which receivers the study `rates` runs at which rate.
pub(super) struct Sweep<'d> {
    pub(super) scale: &'d Scale,
    pub(super) definition: &'d Rates,
}

impl Sweep<'_> {
    fn has(&self, receiver: &Receiver, round: u32, pps: f64) -> bool {
        if receiver.peak_pps.is_some_and(|peak_pps| pps > peak_pps) {
            return false;
        }
        let Rates { receivers, key_rates, .. } = self.definition;
        let no_key = !self.scale.rates.iter().any(|rate| key_rates.contains(rate));
        receivers.contains(&receiver.name) || round < self.scale.other_rounds && (no_key || key_rates.contains(&pps))
    }

    /// How many runs [`rates`] has.
    pub(super) fn runs(&self, receivers: &[Receiver]) -> f64 {
        let scale = self.scale;
        let at = |round, pps| receivers.iter().filter(|receiver| self.has(receiver, round, pps)).count();
        let topologies = |pps: f64| if pps < self.definition.least_host_pps { 1 } else { TOPOLOGIES.len() };
        let runs_of = |round| scale.rates.iter().map(|&pps| at(round, pps) * topologies(pps)).sum::<usize>();
        let each = if scale.soaker { 2 } else { 1 };
        ((0..scale.rounds).map(runs_of).sum::<usize>() * each) as f64
    }
}

/// What a waiting receiver costs while nothing comes, and the core without one.
pub(super) fn idle(bench: &mut Bench<'_>) -> Result<()> {
    let receivers = named(bench, &bench.definitions.idle.receivers);
    let scale = bench.scale.clone();
    for round in 0..scale.rounds {
        bench.idle(None, round, scale.seconds * 2.0)?;
        for receiver in &receivers {
            bench.idle(Some(receiver), round, scale.seconds * 2.0)?;
        }
    }
    Ok(())
}

pub(super) fn sizes(bench: &mut Bench<'_>) -> Result<()> {
    let scale = bench.scale.clone();
    let count = (STANDARD_PPS * scale.seconds) as u64;
    let receivers = named(bench, &bench.definitions.sizes.receivers);
    for round in 0..scale.rounds {
        for &frame_bytes in &scale.sizes {
            for topology in TOPOLOGIES {
                for receiver in &receivers {
                    let request = Request::new("sizes", receiver, topology, STANDARD_PPS, count);
                    bench.run(&Request { round, frame_bytes, ..request })?;
                }
            }
        }
    }
    Ok(())
}

pub(super) fn arrivals(bench: &mut Bench<'_>) -> Result<()> {
    let scale = bench.scale.clone();
    let count = (STANDARD_PPS * scale.seconds) as u64;
    let receivers = named(bench, &bench.definitions.arrivals.receivers);
    for round in 0..scale.rounds {
        for arrivals in Arrivals::ALL {
            for receiver in &receivers {
                let request = Request::new("arrivals", receiver, Topology::Nic, STANDARD_PPS, count);
                bench.run(&Request { round, arrivals, ..request })?;
            }
        }
    }
    Ok(())
}

pub(super) fn pause(bench: &mut Bench<'_>) -> Result<()> {
    let (scale, definitions) = (bench.scale.clone(), Rc::clone(&bench.definitions));
    let receivers = named(bench, &definitions.pause.receivers);
    for round in 0..scale.rounds {
        for &pps in &definitions.pause.rates {
            for &pause_us in &definitions.pause.pauses_us {
                for receiver in &receivers {
                    let request = Request::new("pause", receiver, Topology::Host, pps, (pps * scale.seconds) as u64);
                    bench.run(&Request { round, napi_pause_ns: Some(pause_us * 1000), ..request })?;
                }
            }
        }
    }
    Ok(())
}

pub(super) fn polls(bench: &mut Bench<'_>) -> Result<()> {
    let (scale, definitions) = (bench.scale.clone(), Rc::clone(&bench.definitions));
    let polls = &definitions.polls;
    let receivers = named(bench, &polls.receivers);
    for round in 0..scale.rounds {
        for topology in TOPOLOGIES {
            for &per_second in &polls.per_second {
                for receiver in &receivers {
                    let count = (polls.pps * scale.seconds) as u64;
                    let request = Request::new("polls", receiver, topology, polls.pps, count);
                    bench.run(&Request { round, period_ns: Some(1_000_000_000 / u64::from(per_second)), ..request })?;
                }
            }
        }
    }
    Ok(())
}

pub(super) fn storms(bench: &mut Bench<'_>) -> Result<()> {
    if let Err(error) = storm::version() {
        bench.miss("storms".to_owned(), error.to_string());
        return Ok(());
    }
    let scale = bench.scale.clone();
    let load = bench.definitions.storms.load;
    let pps = scale.greatest_pps.min(1e6);
    let count = (pps * scale.seconds) as u64;
    let receivers = named(bench, &bench.definitions.storms.receivers);
    for round in 0..scale.rounds {
        for storm in std::iter::once(None).chain(Storm::ALL.into_iter().map(Some)) {
            for load in [0.0, load] {
                for receiver in receivers.iter().filter(|receiver| load == 0.0 || receiver.is_ringtap()) {
                    stormy(bench, receiver, storm, load, pps, count, round)?;
                }
            }
        }
    }
    Ok(())
}

fn stormy(
    bench: &mut Bench<'_>,
    receiver: &Receiver,
    storm: Option<Storm>,
    load: f64,
    pps: f64,
    count: u64,
    round: u32,
) -> Result<()> {
    let core = bench.benches.of(Topology::Nic).config().receiver_core;
    let raging = storm.map(|storm| storm.begin(core)).transpose()?;
    let request = Request::new("storms", receiver, Topology::Nic, pps, count);
    let beside = storm.map(|storm| storm.name().to_owned());
    bench.run(&Request { round, load_ns: load / pps * 1e9, beside, ..request })?;
    drop(raging);
    Ok(())
}

//! Studies that run everybody over a range of one thing and search nothing.
//!
//! Owns the ranges. Runs are interleaved: each round goes through all points, so that a slow hour of the machine falls on all.

use ringtap::Result;
use ringtap_testbed::Topology;

use super::named;
use crate::bench::Bench;
use crate::catalogue::Receiver;
use crate::run::{Arrivals, Request};
use crate::scale::Scale;
use crate::storm::{self, Storm};

/// 100 Mb/s of 64-byte packets, the sources' figure (000 §7).
pub(super) const STANDARD_PPS: f64 = 148e3;
const TOPOLOGIES: [Topology; 2] = [Topology::Nic, Topology::Host];

pub(super) const SIZED: &[&str] = &["hybrid 1ms", "interrupt", "packet 1ms", "libpcap", "tcpdump"];
pub(super) const PATTERNED: &[&str] = &["hybrid 1ms", "hybrid 250us", "windowed 1ms", "timer 1ms", "interrupt"];
pub(super) const PAUSED: &[&str] = &["hybrid 1ms", "interrupt"];
pub(super) const PAUSES_US: [u64; 6] = [0, 20, 50, 100, 133, 200];
pub(super) const PAUSE_RATES: [f64; 3] = [20e3, STANDARD_PPS, 500e3];
pub(super) const STORMED: &[&str] = &["hybrid 1ms", "interrupt", "libpcap", "tcpdump"];
/// Event processing beside which storms are tried, share of the core.
const STORM_LOAD: f64 = 0.5;

/// Those that are measured at every rate; the others at each [`KEY_RATES`] that is asked for, or at all when none is.
pub(super) const SWEPT: &[&str] = &[
    "hybrid 1ms",
    "hybrid 1ms peak 500k",
    "hybrid 1ms peak 150k",
    "hybrid 250us",
    "hybrid 10ms",
    "hybrid 100ms",
    "libpcap",
    "tcpdump",
    "timer 1ms",
    "timer 250us",
    "interrupt",
    "interrupt + NAPI pause",
];
const KEY_RATES: [f64; 4] = [20e3, STANDARD_PPS, 500e3, 1e6];
/// Below this rate the cost of the kernel's receive path is lost in the noise, so topology nic is enough.
const LEAST_HOST_PPS: f64 = 20e3;

pub(super) fn rates(bench: &mut Bench<'_>) -> Result<()> {
    let receivers = bench.receivers.clone();
    let scale = bench.scale.clone();
    for round in 0..scale.rounds {
        for &pps in &scale.rates {
            for topology in TOPOLOGIES {
                if topology == Topology::Host && pps < LEAST_HOST_PPS {
                    continue;
                }
                for receiver in receivers.iter().filter(|receiver| is_swept(&scale, receiver, round, pps)) {
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

fn is_swept(scale: &Scale, receiver: &Receiver, round: u32, pps: f64) -> bool {
    if receiver.peak_pps.is_some_and(|peak_pps| pps > peak_pps) {
        return false;
    }
    let no_key = !scale.rates.iter().any(|rate| KEY_RATES.contains(rate));
    SWEPT.contains(&receiver.name.as_str()) || round < scale.other_rounds && (no_key || KEY_RATES.contains(&pps))
}

/// How many runs [`rates`] has.
pub(super) fn runs_of_rates(scale: &Scale, receivers: &[Receiver]) -> f64 {
    let at = |round, pps| receivers.iter().filter(|receiver| is_swept(scale, receiver, round, pps)).count();
    let topologies = |pps: f64| if pps < LEAST_HOST_PPS { 1 } else { TOPOLOGIES.len() };
    let runs_of = |round| scale.rates.iter().map(|&pps| at(round, pps) * topologies(pps)).sum::<usize>();
    let each = if scale.soaker { 2 } else { 1 };
    ((0..scale.rounds).map(runs_of).sum::<usize>() * each) as f64
}

/// What a waiting receiver costs while nothing comes, and the core without one.
pub(super) fn idle(bench: &mut Bench<'_>) -> Result<()> {
    let receivers = named(bench, &["hybrid 1ms"]);
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
    let receivers = named(bench, SIZED);
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
    let receivers = named(bench, PATTERNED);
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
    let scale = bench.scale.clone();
    let receivers = named(bench, PAUSED);
    for round in 0..scale.rounds {
        for pps in PAUSE_RATES {
            for pause_us in PAUSES_US {
                for receiver in &receivers {
                    let request = Request::new("pause", receiver, Topology::Host, pps, (pps * scale.seconds) as u64);
                    bench.run(&Request { round, napi_pause_ns: Some(pause_us * 1000), ..request })?;
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
    let pps = scale.greatest_pps.min(1e6);
    let count = (pps * scale.seconds) as u64;
    let receivers = named(bench, STORMED);
    for round in 0..scale.rounds {
        for storm in std::iter::once(None).chain(Storm::ALL.into_iter().map(Some)) {
            for load in [0.0, STORM_LOAD] {
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

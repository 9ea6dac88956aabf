//! A staged attack, whose stages come to two sensors, under a flood of one of them: the second figure of "Efficient real-time
//! Linux interface for PCI devices" made real. Demo and study differ only in what they ask for.
//!
//! Owns the order of a run: who is in the way first, then traffic, then the accounts. What is planted is `plant`'s, who looks
//! at it `chain`'s and `peer`'s, what follows from it `evidence`'s.

pub(crate) mod chain;
pub(crate) mod evidence;
pub(crate) mod peer;
pub(crate) mod plant;
mod tap;
mod told;
pub(crate) mod wires;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ringtap::{Error, Result};
use ringtap_testbed::generate::{Replay, ReplayPace};
use ringtap_testbed::{
    CoreUse, CoreUseReport, Folder, Generator, GeneratorConfig, GeneratorReport, Pattern, Profile, Testbed,
    TestbedConfig,
};
use serde_json::Value;

use chain::{Chain, Setting};
use evidence::{Losses, StageTrace, Trace};
use peer::Suricatas;
use plant::{LEAD, Plan};
use wires::WireLosses;

/// Source ports of the flood.
const FLOWS: u16 = 256;
/// Goes before the flood on its core, as it is nothing beside it.
const PLANT_PRIORITY: u8 = 40;

/// What is sent.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    /// The pairs.
    pub plan: Plan,
    /// 64-byte packets per second to each flooded sensor; 0 for none.
    pub flood_pps: f64,
}

/// What was sent, and what it cost.
#[derive(Debug)]
pub(crate) struct Sent {
    pub flood: Option<GeneratorReport>,
    pub planted: u64,
    pub core: CoreUseReport,
}

impl Sent {
    /// Packets.
    pub(crate) fn packets(&self) -> u64 {
        self.planted + self.flood.as_ref().map_or(0, |flood| flood.stamped)
    }
}

/// A run with our sensors and correlator.
#[derive(Debug)]
pub(crate) struct ChainRun {
    pub sent: Sent,
    /// Of each pair, in order.
    pub traces: Vec<Trace>,
    /// Summaries.
    pub splitter: Value,
    pub sensors: Vec<Value>,
    pub correlator: Value,
    /// Incidents found behind the watermark, and those whose windows may lack something.
    pub late: u64,
    pub incomplete: u64,
    pub wires: WireLosses,
}

impl ChainRun {
    /// What was lost of the packets, and by whom.
    pub(crate) fn losses(&self) -> Losses {
        Losses { wires: self.wires, ledgers: self.lost() }
    }

    /// Packets that a ledger calls lost: by the splitter, before it, by a sensor, or let go by a sensor with too much to do.
    pub(crate) fn lost(&self) -> u64 {
        let of = |value: &Value| value.as_u64().unwrap_or(0);
        let account = &self.splitter["account"];
        let sensors: u64 = self.sensors.iter().map(|it| of(&it["ledger"]["lost"]) + of(&it["shed"])).sum();
        of(&account["dropped"]) + of(&account["lost_before"]) + sensors
    }

    /// What no ledger explains, of all three; `None` where one can't tell.
    pub(crate) fn unaccounted(&self) -> Option<i64> {
        let splitter = self.splitter["account"]["unaccounted"].as_i64()?;
        self.sensors.iter().map(|it| it["ledger"]["unaccounted"].as_i64()).try_fold(splitter, |sum, it| Some(sum + it?))
    }
}

/// A run with Suricata and syslog.
#[derive(Debug)]
pub(crate) struct Peers {
    pub sent: Sent,
    /// Of each pair: what the splitter and the log saw.
    pub traces: Vec<Trace>,
    pub splitter: Value,
    /// Packets that each says were dropped, and those it handled.
    pub dropped: Vec<u64>,
    pub handled: Vec<u64>,
    pub wires: WireLosses,
}

/// Sends it through our own.
pub(crate) fn ours(setting: &Setting<'_>, traffic: &Traffic) -> Result<ChainRun> {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let chain = Chain::start(&testbed, setting)?;
    let sent = send(&testbed, setting, traffic)?;
    chain.settle();
    let left = chain.finish(&testbed)?;
    let handled: BTreeSet<(u32, usize)> = left.handled.into_iter().collect();
    let windows = setting.windows.len();
    let widest = windows.saturating_sub(1);
    let mut traces: Vec<Trace> = (0..traffic.plan.pairs()).map(|pair| trace(&traffic.plan, pair)).collect();
    for (pair, trace) in traces.iter_mut().enumerate() {
        let pair = pair as u32;
        for (stage, seen) in trace.stages.iter_mut().enumerate() {
            seen.splitter_ns = left.times.get(&(pair, stage)).copied();
            seen.is_handled = handled.contains(&(pair, stage));
        }
        trace.provisional_ns = left.announced.provisional_ns.get(&(pair, widest)).copied();
        trace.final_ns = left.announced.final_ns.get(&(pair, widest)).copied();
        trace.found = (0..windows).map(|window| left.announced.final_ns.contains_key(&(pair, window))).collect();
    }
    for alarm in left.alarms {
        let Some(trace) = traces.get_mut(alarm.pair as usize) else { continue };
        let seen = &mut trace.stages[alarm.stage];
        if seen.correlator_ns.is_none() {
            (seen.sensor_ns, seen.built_ns) = (Some(alarm.time_ns), Some(alarm.built_ns));
            seen.correlator_ns = Some(alarm.arrived_ns);
        }
    }
    Ok(ChainRun {
        sent,
        traces,
        splitter: left.splitter,
        sensors: left.sensors,
        correlator: left.announced.summary,
        late: left.announced.late,
        incomplete: left.announced.incomplete,
        wires: left.wires,
    })
}

/// Sends it past Suricata.
pub(crate) fn peers(setting: &Setting<'_>, traffic: &Traffic) -> Result<Peers> {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let peers = Suricatas::start(&testbed, setting)?;
    let sent = send(&testbed, setting, traffic)?;
    let left = peers.finish(&testbed)?;
    let mut traces: Vec<Trace> = (0..traffic.plan.pairs()).map(|pair| trace(&traffic.plan, pair)).collect();
    for (pair, trace) in traces.iter_mut().enumerate() {
        for (stage, seen) in trace.stages.iter_mut().enumerate() {
            let which = (pair as u32, stage);
            seen.splitter_ns = left.times.get(&which).copied();
            seen.correlator_ns = left.arrived.get(&which).copied();
        }
    }
    Ok(Peers {
        sent,
        traces,
        splitter: left.splitter,
        dropped: left.peers.iter().map(|peer| peer.claims_dropped.unwrap_or(0)).collect(),
        handled: left.peers.iter().map(|peer| peer.received).collect(),
        wires: left.wires,
    })
}

fn trace(plan: &Plan, pair: u32) -> Trace {
    Trace { gap: plan.gap(pair), stages: [StageTrace::default(); 2], ..Trace::default() }
}

/// Sends pairs and flood.
fn send(testbed: &Testbed, setting: &Setting<'_>, traffic: &Traffic) -> Result<Sent> {
    let folder = Folder::new(testbed)?;
    std::fs::write(folder.outside().join("pairs.pcap"), traffic.plan.capture(testbed))
        .map_err(|error| Error::os("write", "pairs.pcap", &error))?;
    let mut replay =
        Replay::new(testbed.sender().interface(), vec![folder.outside().join("pairs.pcap")], ReplayPace::Recorded(1.0));
    (replay.core, replay.priority) = (Some(testbed.config().generator_core), Some(PLANT_PRIORITY));
    let lasts = traffic.plan.lasts();
    let (planting, flood, core) = if traffic.flood_pps > 0.0 {
        let pps = traffic.flood_pps * if setting.both_flooded { 2.0 } else { 1.0 };
        let profile = Profile::lasting(Pattern::Constant { pps }, lasts);
        let mut flood = GeneratorConfig::for_testbed(testbed, 64, profile);
        flood.frame.flows = FLOWS;
        let planting = testbed.sender().run(|| replay.start())??;
        let past = testbed.traffic_past(flood, None, || true)?;
        (planting, Some(past.generator), past.core)
    } else {
        let meter = CoreUse::start(testbed.config().receiver_core)?;
        let planting = testbed.sender().run(|| replay.start())??;
        std::thread::sleep(lasts);
        (planting, None, meter.finish()?)
    };
    Ok(Sent { flood, planted: finish(planting)?, core })
}

/// All pairs are out, or the machine is too slow for them.
fn finish(planting: Generator) -> Result<u64> {
    let until = Instant::now() + LEAD + Duration::from_secs(10);
    while !planting.is_finished() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    planting.stop()?;
    let report = planting.join()?;
    Ok(report.stamped)
}

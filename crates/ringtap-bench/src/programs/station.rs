//! The station beside receivers of traps and syslog: how many notifications per second are taken without loss, decoded,
//! deduplicated and stored, all of a receiver on one core.
//!
//! Owns the search for the rate that is held, and the way from a point to a sample. Messages are `load`'s, programs `receiver`'s.
//!
//! Topology nic: sender, wire and the kernel's receive path are on the generator's core, everything of the receiver on the other.
//! That favours receivers by sockets, whose protocol processing is done for them. Loss is counted from the sequence numbers in
//! what really came out: lines of files, rows of the store.
//!
//! A rate counts as held when nothing is lost and everything is out a second after the last message was sent: a run is shorter
//! than the buffers of some receivers are deep, so without the second condition a receiver that can't keep up would seem to.

mod command;
mod load;
mod receiver;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap::{Error, Result};
use ringtap_testbed::{CoreUse, CoreUseReport, GeneratorReport, RunningProgram, Testbed, TestbedConfig, Topology};

use super::{CPU_MS, Point, cpu_ms};
use crate::bench::{Bench, cost_seconds};
use crate::book::{Claims, Finding, Sample};
use crate::definition::{Definitions, StationPoints};
use load::{Frames, Load};
use receiver::{Outcome, Receiver, Running};

const STUDY: &str = "station";
/// In [`Sample::measures`]: 1 when the rate was held, else 0.
const HELD: &str = "held";
/// All must be out so long after the last message.
const LATEST: Duration = Duration::from_secs(1);
/// What has not moved for so long has ended.
const STILL: Duration = Duration::from_millis(1500);
/// A receiver that takes longer is ended with what it has.
const LONGEST: Duration = Duration::from_secs(10);
/// The generator's rate counts as reached from this share on.
const REACHED: f64 = 0.98;
/// Least rate of a search, messages per second.
const LEAST_PPS: f64 = 100.0;

/// A search for each receiver, or each rate in every round.
pub(crate) fn study(bench: &mut Bench<'_>) -> Result<()> {
    let definitions = Rc::clone(&bench.definitions);
    let _buffers = LargeBuffers::allow()?;
    for points in &definitions.station {
        let load = Load::find(&points.workload)?;
        let wanted = points.receivers.iter().filter(|name| bench.wants(name));
        let receivers = wanted.map(|name| Receiver::find(name, load)).collect::<Result<Vec<_>>>()?;
        let rates = bench.scale.rates_of(&points.rates);
        if rates.is_empty() {
            for receiver in receivers {
                search(bench, &definitions, points, receiver, load)?;
            }
            continue;
        }
        for round in 0..bench.scale.rounds {
            for &pps in &rates {
                for &receiver in &receivers {
                    let run = Run { definitions: &definitions, points, receiver, load, round, pps };
                    run.measure(bench)?;
                }
            }
        }
    }
    Ok(())
}

/// About how long that takes. A search doubles its rate about seven times and halves the interval about three times.
pub(crate) fn seconds(bench: &Bench<'_>) -> f64 {
    let of = |points: &StationPoints| {
        let receivers = points.receivers.iter().filter(|name| bench.wants(name)).count() as f64;
        let rates = bench.scale.rates_of(&points.rates).len() as f64;
        let runs = if rates == 0.0 { 10.0 } else { rates * f64::from(bench.scale.rounds) };
        receivers * runs * (cost_seconds(bench.scale.seconds_of(points.seconds)) + 3.0)
    };
    bench.definitions.station.iter().map(of).sum()
}

/// Doubles the rate until it is not held, then halves the interval.
fn search(
    bench: &mut Bench<'_>,
    definitions: &Definitions,
    points: &StationPoints,
    receiver: Receiver,
    load: Load,
) -> Result<()> {
    let mut held: Option<f64> = None;
    let mut not_held: Option<f64> = None;
    let (mut pps, mut round, mut generator_at_its_end) = (points.search_from, 0, false);
    loop {
        let run = Run { definitions, points, receiver, load, round, pps };
        let Some(sample) = run.measure(bench)? else { break };
        round += 1;
        if sample.measures.get(HELD) == Some(&1.0) {
            held = Some(pps);
            if sample.sent_pps < pps * REACHED {
                generator_at_its_end = true;
                break;
            }
        } else {
            not_held = Some(pps);
        }
        pps = match (held, not_held) {
            (Some(low), Some(high)) if high / low <= points.resolution => break,
            (Some(low), Some(high)) => (low * high).sqrt(),
            (Some(low), None) => low * 2.0,
            (None, Some(high)) if high <= LEAST_PPS => break,
            (None, Some(high)) => high / 2.0,
            (None, None) => break,
        };
    }
    let Some(value) = held else { return Ok(()) };
    bench.find(Finding {
        study: STUDY.to_owned(),
        receiver: receiver.name().to_owned(),
        topology: Topology::Nic,
        quantity: format!("held_pps ({})", points.workload),
        value,
        values: vec![value],
        at_least: generator_at_its_end,
        note: format!(
            "nothing lost and all out {} s after the last message; the lowest rate that was not held is at most {} times this",
            LATEST.as_secs(),
            points.resolution
        ),
    })
}

/// One run to be made.
#[derive(Clone, Copy)]
struct Run<'d> {
    definitions: &'d Definitions,
    points: &'d StationPoints,
    receiver: Receiver,
    load: Load,
    round: u32,
    pps: f64,
}

/// What was seen of it from outside.
struct Seen {
    sent: GeneratorReport,
    core: CoreUseReport,
    /// From the last message sent to the last one out.
    out_after: Duration,
    cpu_ms: Option<f64>,
    outcome: Outcome,
}

impl Run<'_> {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Option<Sample>> {
        let seconds = bench.scale.seconds_of(self.points.seconds);
        let count = self.points.count.unwrap_or((self.pps * seconds) as u64);
        let cost = count as f64 / self.pps;
        bench.measure(STUDY, self.receiver.name(), Topology::Nic, cost, || self.sample(count))
    }

    fn sample(&self, count: u64) -> Result<Sample> {
        let testbed = Testbed::new(TestbedConfig::default())?;
        let frames = Arc::new(Frames::make(&testbed, self.load, count)?);
        let Seen { sent, core, out_after, cpu_ms, outcome } = self.watch(&testbed, &frames)?;
        let Outcome { numbers, reported, alarms } = outcome;
        let distinct: BTreeSet<u64> = numbers.iter().copied().filter(|&number| number < count).collect();
        let received = distinct.len() as u64;
        if received == 0 {
            // No loss at any rate looks like that: what was started does not take this load at all.
            let why = format!("nothing of {count} messages came out; its account: {reported}");
            return Err(Error::failed("measure", self.receiver.name(), why));
        }
        let lost = count - received;
        let is_checked = self.receiver.is_ringtap() && self.load != Load::Syslog;
        let wrong_alarms = is_checked.then(|| frames.wrong_alarms(&numbers, alarms));
        let held = lost == 0 && out_after <= LATEST;
        let workload = &self.points.workload;
        let point = Point {
            study: STUDY,
            workload,
            receiver: self.receiver.name(),
            topology: Topology::Nic,
            round: self.round,
            pps: self.pps,
        };
        let mut measures = BTreeMap::from([
            (HELD.to_owned(), f64::from(u8::from(held))),
            ("out_after_ms".to_owned(), out_after.as_secs_f64() * 1e3),
            ("generator_late".to_owned(), sent.lateness.over_100_us as f64),
        ]);
        measures.extend(sent.queue_full.map(|count| ("generator_queue_full".to_owned(), count as f64)));
        measures.extend(cpu_ms.map(|spent| (CPU_MS.to_owned(), spent)));
        measures.extend(wrong_alarms.map(|count| ("wrong_alarms".to_owned(), count as f64)));
        Ok(Sample {
            frame_bytes: frames.mean_len().round() as usize,
            sent_pps: sent.achieved_pps,
            sent: count,
            received,
            lost,
            numbered: true,
            duplicates: numbers.len() as u64 - received,
            claims: Claims { received: reported["stored"].as_u64(), dropped: None },
            unaccounted: reported["unaccounted"].as_i64(),
            arrival: super::delays(&reported["to_alarm_us"]),
            measures,
            reported: (!reported.is_null()).then_some(reported),
            ..point.sample(&core)
        })
    }

    /// Starts the receiver, sends, and waits until nothing more comes out.
    fn watch(&self, testbed: &Testbed, frames: &Arc<Frames>) -> Result<Seen> {
        let folder = tempfile::tempdir().map_err(|error| Error::os("make", "a folder", &error))?;
        // The nodes are not on the wire's subnet: without a way back the host would drop their packets as spoofed.
        ip(testbed, &format!("route add 10.64.0.0/16 dev {}", testbed.receiver().interface()))?;
        let programs = &self.definitions.programs;
        let running = Running::start(testbed, programs, self.receiver, self.load, folder.path())?;
        let napi = testbed.place_napi(self.receiver != Receiver::RingtapXdp)?;
        let idle = running.cpu_time();
        let meter = CoreUse::start(testbed.config().receiver_core)?;
        let generator = frames.send(testbed, self.pps)?;
        while !generator.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let core = meter.finish()?;
        let ended = Instant::now();
        let sent = generator.join()?;
        let (mut last, mut last_change) = (running.progress(), ended);
        while last_change.elapsed() < STILL && ended.elapsed() < LONGEST {
            std::thread::sleep(Duration::from_millis(20));
            let now = running.progress();
            if now != last {
                (last, last_change) = (now, Instant::now());
            }
        }
        let out_after = last_change.duration_since(ended);
        let cpu_ms = cpu_ms(idle, running.cpu_time());
        let outcome = running.finish(folder.path())?;
        drop(napi);
        Ok(Seen { sent, core, out_after, cpu_ms, outcome })
    }
}

fn ip(testbed: &Testbed, arguments: &str) -> Result<()> {
    let mut command = testbed.receiver().command("ip");
    command.args(arguments.split_whitespace());
    let mut program: RunningProgram = testbed.receiver().start(command)?;
    let status = program.child().wait().map_err(|error| Error::os("wait for", "ip", &error))?;
    if status.success() { Ok(()) } else { Err(Error::failed("run", format!("ip {arguments}"), status)) }
}

/// Receive buffers as large as receivers ask for. Ringtap may override the limit; its peers may not. Put back at the end.
struct LargeBuffers(String);

impl LargeBuffers {
    const LIMIT: &str = "/proc/sys/net/core/rmem_max";

    fn allow() -> Result<Self> {
        let failed = |error| Error::os("change", Self::LIMIT, &error);
        let before = std::fs::read_to_string(Self::LIMIT).map_err(failed)?;
        std::fs::write(Self::LIMIT, (256u32 << 20).to_string()).map_err(failed)?;
        Ok(Self(before))
    }
}

impl Drop for LargeBuffers {
    fn drop(&mut self) {
        // What can't be written now could not be written before, and then it was not changed.
        let _ = std::fs::write(Self::LIMIT, &self.0);
    }
}

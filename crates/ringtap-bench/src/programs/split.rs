//! The splitter beside tc mirred: each packet of a flood of 64-byte UDP to one of two outputs, by its flow or its source port.
//!
//! Owns the way from a point to a sample. Topology host throughout: mirred is part of the kernel's reception, so only with that on the
//! receiver's core is anything of it there. What arrived is counted at the outputs' other ends; the splitter's own account stands
//! beside it.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_testbed::{GeneratorConfig, OutputWire, Pattern, Profile, Testbed, TestbedConfig, Topology, WireCounters};

use super::Point;
use super::ours::{self, RunningCommand};
use crate::bench::{Bench, cost_seconds};
use crate::book::{Claims, Sample};
use crate::definition::SplitPoints;

const STUDY: &str = "split";
/// Source ports of the flood.
const FLOWS: u16 = 256;
/// From the last packet sent until the counters are read.
const SETTLING: Duration = Duration::from_millis(300);
/// The pause that a splitter with a bound of 1 ms asks of the kernel for a peak of 1.5 million packets/s is some 50 µs; this is more,
/// which is in mirred's favour.
const PAUSE_NS: u32 = 100_000;

/// Every point in every round, receivers in turn at each rate.
pub(crate) fn study(bench: &mut Bench<'_>) -> Result<()> {
    let definitions = Rc::clone(&bench.definitions);
    let ringtap = super::ringtap(&definitions.programs)?;
    for points in &definitions.split {
        for round in 0..bench.scale.rounds {
            for pps in bench.scale.rates_of(&points.rates) {
                let count = count(bench, points, pps);
                if round > 0 && points.count == Some(count) {
                    continue;
                }
                for receiver in points.receivers.iter().filter(|name| bench.wants(name)).collect::<Vec<_>>() {
                    let kind = Receiver::find(receiver)?;
                    let topology = Topology::Host;
                    let point = Point { study: STUDY, workload: &points.workload, receiver, topology, round, pps };
                    bench.measure(STUDY, receiver, topology, count as f64 / pps, || {
                        sample(&point, kind, &ringtap, &points.options, count)
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// Packets of a run.
fn count(bench: &Bench<'_>, points: &SplitPoints, pps: f64) -> u64 {
    let usual = (pps * bench.scale.seconds_of(points.seconds)) as u64;
    points.count.filter(|_| bench.scale.program_seconds.is_none()).unwrap_or(usual)
}

/// About how long that takes.
pub(crate) fn seconds(bench: &Bench<'_>) -> f64 {
    let of = |points: &SplitPoints| {
        let receivers = points.receivers.iter().filter(|name| bench.wants(name)).count() as f64;
        let run = |pps: f64| {
            let count = count(bench, points, pps);
            let rounds = if points.count == Some(count) { 1 } else { bench.scale.rounds };
            cost_seconds(count as f64 / pps) * f64::from(rounds)
        };
        receivers * bench.scale.rates_of(&points.rates).into_iter().map(run).sum::<f64>()
    };
    bench.definitions.split.iter().map(of).sum()
}

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiver {
    /// With this back end for input and outputs.
    Ringtap(&'static str),
    Mirred {
        paced: bool,
    },
}

impl Receiver {
    const ALL: [(&'static str, Self); 4] = [
        ("ringtap-xdp", Self::Ringtap("xdp")),
        ("ringtap-packet", Self::Ringtap("packet")),
        ("tc-mirred", Self::Mirred { paced: false }),
        ("tc-mirred-paced", Self::Mirred { paced: true }),
    ];

    fn find(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind).ok_or_else(|| {
            let choice = Self::ALL.map(|(name, _)| name).join(", ");
            Error::usage("measure", name, "the study `split` has no such receiver")
                .way_out(format!("choose among: {choice}"))
        })
    }
}

/// `ringtap split` at work.
fn start(
    testbed: &Testbed,
    backend: &str,
    ringtap: &Path,
    outputs: &[OutputWire],
    options: &[String],
) -> Result<RunningCommand> {
    let core = testbed.config().receiver_core.to_string();
    let mut command = ours::command(testbed, ringtap, "split");
    command.args(["-i", testbed.receiver().interface(), "--json", "--cpu", &core]);
    command.args(["--backend", backend, "--out-backend", backend]);
    command.args(outputs.iter().flat_map(|output| ["--out", &output.interface]));
    command.args(options);
    RunningCommand::start(testbed, "ringtap split", command, "splitting")
}

/// Has the kernel redirect each packet of the receiver's interface by the last bit of its source port.
fn redirect(testbed: &Testbed, outputs: &[OutputWire], paced: bool) -> Result<()> {
    let interface = testbed.receiver().interface();
    let mut lines = vec![format!("qdisc add dev {interface} clsact")];
    for (number, output) in outputs.iter().enumerate() {
        lines.push(format!(
            "filter add dev {interface} ingress protocol ip pref 1 u32 match ip sport {number} 0x1 \
             action mirred egress redirect dev {}",
            output.interface
        ));
    }
    for line in lines {
        let run = || Command::new("tc").args(line.split_whitespace()).output();
        let output = testbed
            .receiver()
            .run(run)?
            .map_err(|error| Error::os("run", "tc", &error).way_out("install it: apt-get install iproute2"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            return Err(Error::failed("run", format!("tc {line}"), said));
        }
    }
    if paced {
        for (name, value) in [("napi_defer_hard_irqs", 1), ("gro_flush_timeout", PAUSE_NS)] {
            let path = format!("/sys/class/net/{interface}/{name}");
            let done = testbed.receiver().run(|| std::fs::write(&path, value.to_string()))?;
            done.map_err(|error| Error::os("write to", path.clone(), &error))?;
        }
    }
    Ok(())
}

fn sample(point: &Point<'_>, kind: Receiver, ringtap: &Path, options: &[String], count: u64) -> Result<Sample> {
    let testbed = Testbed::new(TestbedConfig { topology: point.topology, ..TestbedConfig::default() })?;
    let outputs = testbed.add_outputs(2)?;
    let splitter = match kind {
        Receiver::Ringtap(backend) => Some(start(&testbed, backend, ringtap, &outputs, options)?),
        Receiver::Mirred { .. } => None,
    };
    let napi = testbed.place_napi(kind != Receiver::Ringtap("xdp"))?;
    if let Receiver::Mirred { paced } = kind {
        redirect(&testbed, &outputs, paced)?;
    }
    let before = WireCounters::read(&testbed)?;
    // Longer than it has to be: the count ends it.
    let lasting = Duration::from_secs_f64(count as f64 / point.pps * 2.0 + 1.0);
    let profile = Profile::lasting(Pattern::Constant { pps: point.pps }, lasting);
    let mut traffic = GeneratorConfig::for_testbed(&testbed, 64, profile).count(count);
    traffic.frame.flows = FLOWS;
    let past = testbed.traffic_past(traffic, None, || true)?;
    std::thread::sleep(SETTLING);
    let reported = splitter.map(RunningCommand::finish).transpose()?;
    let arrived = outputs.iter().map(|output| output.arrived(&testbed)).collect::<Result<Vec<u64>>>()?;
    let wire = WireCounters::read(&testbed)?.drops_since(&before);
    drop(napi);
    let (sent, received) = (past.generator.stamped, arrived.iter().sum::<u64>());
    let of = |name: &str| reported.as_ref().and_then(|said| said["account"][name].as_u64());
    let mut sample = Sample {
        sent_pps: past.generator.achieved_pps,
        sent,
        received: received.min(sent),
        lost: sent.saturating_sub(received),
        claims: Claims { received: of("forwarded"), dropped: of("dropped").zip(of("lost_before")).map(|(a, b)| a + b) },
        unaccounted: reported.as_ref().and_then(|said| said["account"]["unaccounted"].as_i64()),
        arrival: reported.as_ref().and_then(|said| super::delays(&said["time_inside_us"])),
        ..point.sample(&past.core)
    };
    sample.drops.insert("driver_queue".to_owned(), wire.veth_queue);
    let named = ["arrived_first", "arrived_second"].into_iter().zip(&arrived);
    sample.measures = named.map(|(name, count)| (name.to_owned(), *count as f64)).collect();
    sample.reported = reported;
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_by_name() {
        assert_eq!(Receiver::find("ringtap-packet").unwrap(), Receiver::Ringtap("packet"));
        assert_eq!(Receiver::find("tc-mirred-paced").unwrap(), Receiver::Mirred { paced: true });
        assert!(Receiver::find("tc").unwrap_err().to_string().contains("tc-mirred"));
    }
}

//! The sensor beside Suricata: the same rules, the same flood of 64-byte UDP with attacks planted in it, the same core.
//!
//! Owns the traffic and the way from a point to a sample. Programs are `receiver`'s, rules `rules`'.

mod receiver;
mod rules;

use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_testbed::generate::Prepared;
use ringtap_testbed::{Generator, GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig, WireCounters};
use ringtap_wire::UdpFrame;

use super::Point;
use crate::bench::{Bench, cost_seconds};
use crate::book::{Claims, Sample};
use crate::definition::SensorPoints;
use receiver::{Measured, Receiver, Running};

const STUDY: &str = "sensor";
/// Planted attacks per second.
const ATTACKS_PPS: f64 = 200.0;
/// Source ports of the flood.
const FLOWS: u16 = 256;

/// Every point in every round, receivers in turn at each rate.
pub(crate) fn study(bench: &mut Bench<'_>) -> Result<()> {
    let definitions = Rc::clone(&bench.definitions);
    let ringtap = super::ringtap(&definitions.programs)?;
    for points in &definitions.sensor {
        let folder = tempfile::tempdir().map_err(|error| Error::os("make", "a folder", &error))?;
        let set = Rules::write(folder.path(), points)?;
        bench.say(format!("{STUDY}: {}: {} rules", points.workload, set.count));
        for round in 0..bench.scale.rounds {
            for &topology in &points.topologies {
                for pps in bench.scale.rates_of(&points.rates) {
                    for receiver in points.receivers.iter().filter(|name| bench.wants(name)).collect::<Vec<_>>() {
                        let kind = Receiver::find(receiver)?;
                        let seconds = bench.scale.seconds_of(points.seconds);
                        let point = Point { study: STUDY, workload: &points.workload, receiver, topology, round, pps };
                        bench.measure(STUDY, receiver, topology, seconds, || {
                            sample(&point, kind, &ringtap, &set, seconds)
                        })?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// About how long that takes.
pub(crate) fn seconds(bench: &Bench<'_>) -> f64 {
    let of = |points: &SensorPoints| {
        let receivers = points.receivers.iter().filter(|name| bench.wants(name)).count();
        let runs = receivers * points.topologies.len() * bench.scale.rates_of(&points.rates).len();
        // Rules are compiled anew in each run.
        runs as f64 * (cost_seconds(bench.scale.seconds_of(points.seconds)) + 3.0)
    };
    bench.definitions.sensor.iter().map(of).sum::<f64>() * f64::from(bench.scale.rounds)
}

/// Rules on disk, and the options that the sensor needs for them.
struct Rules {
    file: std::path::PathBuf,
    count: usize,
    options: Vec<String>,
}

impl Rules {
    fn write(folder: &Path, points: &SensorPoints) -> Result<Self> {
        let file = folder.join("figures.rules");
        let count = rules::write(&file, points.rules_folder.as_deref(), points.costly, !points.priority)?;
        let mut options = points.options.clone();
        if points.priority {
            let first = folder.join("first.rules");
            rules::write_first(&first)?;
            options.extend(["--priority-rules".to_owned(), first.display().to_string()]);
        }
        Ok(Self { file, count, options })
    }
}

fn sample(point: &Point<'_>, kind: Receiver, ringtap: &Path, rules: &Rules, seconds: f64) -> Result<Sample> {
    let testbed = Testbed::new(TestbedConfig { topology: point.topology, ..TestbedConfig::default() })?;
    let mut running = Running::start(&testbed, kind, ringtap, &rules.file, &rules.options)?;
    let napi = testbed.place_napi(kind.needs_napi())?;
    let before = WireCounters::read(&testbed)?;
    let planted = (ATTACKS_PPS * seconds * 0.9) as u64;
    let profile = Profile::lasting(Pattern::Constant { pps: point.pps }, Duration::from_secs_f64(seconds));
    let mut traffic = GeneratorConfig::for_testbed(&testbed, 64, profile);
    traffic.frame.flows = FLOWS;
    let attacks = plant(&testbed, planted)?;
    let past = testbed.traffic_past(traffic, None, || true)?;
    let attacks = attacks.join()?;
    running.settle()?;
    let resident = running.resident_bytes();
    let sent = past.generator.stamped + attacks.stamped;
    let Measured { handled, alerts, claims_received, claims_dropped, resident_bytes, reported } =
        running.finish(sent)?;
    let wire = WireCounters::read(&testbed)?.drops_since(&before);
    drop(napi);
    let mut sample = Sample {
        sent_pps: past.generator.achieved_pps,
        sent,
        received: handled.min(sent),
        lost: sent.saturating_sub(handled),
        claims: Claims { received: claims_received, dropped: claims_dropped },
        unaccounted: reported["ledger"]["unaccounted"].as_i64(),
        arrival: super::delays(&reported["latency_us"]),
        ..point.sample(&past.core)
    };
    sample.drops.insert("driver_queue".to_owned(), wire.veth_queue);
    let measures = [
        ("rules", Some(rules.count as f64)),
        ("attacks_planted", Some(attacks.stamped as f64)),
        ("attacks_found", alerts.map(|count| count as f64)),
        ("resident_bytes", resident.or(resident_bytes).map(|bytes| bytes as f64)),
    ];
    sample.measures = measures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    sample.reported = Some(reported);
    Ok(sample)
}

/// Sends attacks beside the flood, on the generator's core and before it, so that the receiver's core has nothing to do
/// with them: 22 bytes of payload make 64-byte frames.
fn plant(testbed: &Testbed, count: u64) -> Result<Generator> {
    let (from, to) = (testbed.sender().link().clone(), testbed.receiver().link().clone());
    let frame = UdpFrame {
        source_mac: from.mac,
        destination_mac: to.mac,
        vlan: None,
        source: SocketAddr::new(from.ipv4.into(), 39_999),
        destination: SocketAddr::new(to.ipv4.into(), rules::ATTACKED_PORT),
        hop_limit: 64,
        traffic_class: 0,
        identification: 0,
    };
    let prepared = Prepared {
        interface: testbed.sender().interface().to_owned(),
        pps: Some(ATTACKS_PPS),
        count,
        make: Box::new(move |number, room| frame.write(room, &rules::attack(number)).unwrap_or(0)),
        core: Some(testbed.config().generator_core),
        priority: Some(40),
        anywhere: false,
    };
    testbed.sender().run(|| prepared.start())?
}

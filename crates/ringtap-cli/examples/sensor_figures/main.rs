//! The sensor beside Suricata: the same rules, the same flood of 64-byte UDP with attacks planted in it, the same core.
//!
//! ```text
//! sensor_figures --ringtap target/release/ringtap --out FILE [--receivers LIST] [--rates LIST] [--seconds N] [--rounds N]
//!                [--topology nic|host] [--et FOLDER] [--costly N] [--first yes] [--extra "OPTION…"]
//! sensor_figures --table FILE
//! ```
//!
//! As root, on a machine that does nothing else. Each sample is appended to FILE as a line of JSON, so a run may be done in
//! pieces; receivers take turns at each rate. `--et` adds the rules of a folder that the sensor takes to the 160 own ones,
//! for both; `--costly` adds so many expressions for the flood's port, which make the sensor slow. `--first` gives the
//! sensor the rules for the attacked port as `--priority-rules` instead of the own ones. `--table` prints medians, and the rates without loss.

mod receivers;
mod rules;
mod table;

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_testbed::generate::Prepared;
use ringtap_testbed::peer::PeerKind;
use ringtap_testbed::{Generator, GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig, Topology, WireCounters};
use ringtap_wire::UdpFrame;
use serde_json::{Value, json};

use receivers::{Measured, Receiver, Running};

/// Planted attacks per second.
const ATTACKS_PPS: f64 = 200.0;
/// Source ports of the flood.
const FLOWS: u16 = 256;

/// What is asked for.
struct Request {
    ringtap: PathBuf,
    out: PathBuf,
    receivers: Vec<Receiver>,
    rates_pps: Vec<f64>,
    seconds: f64,
    rounds: u32,
    topology: Topology,
    et: Option<PathBuf>,
    costly: u32,
    first: bool,
    extra: Vec<String>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.as_slice() {
        [option, file] if option == "--table" => table::print(Path::new(file)),
        words => read(words).and_then(|request| measure(&request)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sensor_figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read(words: &[String]) -> Result<Request> {
    let wrong = |what: &str| Error::usage("read", what, "not understood").way_out("see the head of this file");
    let mut request = Request {
        ringtap: PathBuf::new(),
        out: PathBuf::new(),
        receivers: vec![
            Receiver::Ringtap,
            Receiver::Suricata(PeerKind::SuricataAfPacket),
            Receiver::Suricata(PeerKind::SuricataAfXdp),
        ],
        rates_pps: vec![148e3, 500e3],
        seconds: 3.0,
        rounds: 1,
        topology: Topology::Nic,
        et: None,
        costly: 0,
        first: false,
        extra: Vec::new(),
    };
    for pair in words.chunks(2) {
        let [option, value] = pair else { return Err(wrong(&pair[0])) };
        match option.as_str() {
            "--ringtap" => request.ringtap = value.into(),
            "--out" => request.out = value.into(),
            "--receivers" => {
                let receivers: Option<_> = value.split(',').map(Receiver::from_name).collect();
                request.receivers = receivers.ok_or_else(|| wrong(value))?;
            }
            "--rates" => {
                let kpps = |rate: &str| rate.parse::<f64>().ok().map(|kpps| kpps * 1e3);
                request.rates_pps = value.split(',').map(kpps).collect::<Option<_>>().ok_or_else(|| wrong(value))?;
            }
            "--seconds" => request.seconds = value.parse().map_err(|_| wrong(value))?,
            "--rounds" => request.rounds = value.parse().map_err(|_| wrong(value))?,
            "--topology" => request.topology = if value == "host" { Topology::Host } else { Topology::Nic },
            "--costly" => request.costly = value.parse().map_err(|_| wrong(value))?,
            "--first" => request.first = value == "yes",
            "--et" => request.et = Some(value.into()),
            "--extra" => request.extra = value.split_whitespace().map(str::to_owned).collect(),
            _ => return Err(wrong(option)),
        }
    }
    if request.ringtap.as_os_str().is_empty() || request.out.as_os_str().is_empty() {
        return Err(wrong("the command line without --ringtap and --out"));
    }
    Ok(request)
}

fn measure(request: &Request) -> Result<()> {
    let folder = tempfile::tempdir().map_err(|error| Error::os("make", "a folder", &error))?;
    let rules = folder.path().join("figures.rules");
    let set = rules::write(&rules, request.et.as_deref(), request.costly, !request.first)?;
    let mut extra = request.extra.clone();
    if request.first {
        let first = folder.path().join("first.rules");
        rules::write_first(&first)?;
        extra.extend(["--priority-rules".to_owned(), first.display().to_string()]);
    }
    eprintln!("sensor_figures: {} rules", set.count);
    let failed = |error: std::io::Error| Error::os("write", request.out.display().to_string(), &error);
    let mut out = std::fs::OpenOptions::new().append(true).create(true).open(&request.out).map_err(failed)?;
    for round in 0..request.rounds {
        for &pps in &request.rates_pps {
            for &receiver in &request.receivers {
                let mut sample = sample(request, &extra, receiver, &rules, pps)?;
                sample["rules"] = json!(set.name);
                sample["rule_count"] = json!(set.count);
                sample["priority_rules"] = json!(request.first);
                sample["round"] = json!(round);
                eprintln!("sensor_figures: {}", table::line(&sample));
                writeln!(out, "{sample}").map_err(failed)?;
            }
        }
    }
    Ok(())
}

fn sample(request: &Request, extra: &[String], receiver: Receiver, rules: &Path, pps: f64) -> Result<Value> {
    let testbed = Testbed::new(TestbedConfig { topology: request.topology, ..TestbedConfig::default() })?;
    let mut running = Running::start(&testbed, receiver, &request.ringtap, rules, extra)?;
    let napi = testbed.place_napi(receiver.needs_napi())?;
    let before = WireCounters::read(&testbed)?;
    let planted = (ATTACKS_PPS * request.seconds * 0.9) as u64;
    let profile = Profile::lasting(Pattern::Constant { pps }, Duration::from_secs_f64(request.seconds));
    let mut traffic = GeneratorConfig::for_testbed(&testbed, 64, profile);
    traffic.frame.flows = FLOWS;
    let attacks = plant(&testbed, planted)?;
    let past = testbed.traffic_past(traffic, None, || true)?;
    let attacks = attacks.join()?;
    running.settle()?;
    let resident = running.resident_bytes();
    let sent = past.generator.stamped + attacks.stamped;
    let Measured { handled, alarms, claims_dropped, mut facts } = running.finish(sent)?;
    let wire = WireCounters::read(&testbed)?.drops_since(&before);
    drop(napi);
    if resident.is_some() {
        facts["resident_bytes"] = json!(resident);
    }
    Ok(json!({
        "receiver": receiver.name(),
        "topology": request.topology,
        "asked_pps": pps,
        "sent_pps": past.generator.achieved_pps,
        "sent": sent,
        "handled": handled,
        "lost": sent.saturating_sub(handled),
        "claims_dropped": claims_dropped,
        "veth_queue_drops": wire.veth_queue,
        "planted": attacks.stamped,
        "found": alarms,
        "core_percent": past.core.used_percent,
        "steal_percent": past.core.steal_percent,
        "facts": facts,
    }))
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

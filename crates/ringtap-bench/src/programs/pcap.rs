//! A client of libpcap on Ringtap's library and on the system's: share delivered, core use, and whether the client's counts
//! add up to what was sent.
//!
//! Owns the way from a point to a sample; the clients are `client`'s. Both libraries run with the same client and options;
//! RINGTAP_… variables of this process reach ours, and a receiver may bring its own: `libpcap xdp+napi_pacing=off`.

mod client;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_testbed::{CoreUse, GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig, Topology, WireCounters};
use serde_json::json;

use super::Point;
use crate::bench::{Bench, cost_seconds};
use crate::book::{Claims, Sample};
use crate::definition::{PcapPoints, Programs};
use client::{Client, Said};

const STUDY: &str = "pcap";
/// What the names of receivers begin with: the library's kind follows.
const PREFIX: &str = "libpcap ";
/// From the last packet sent until the client is asked to end.
const SETTLING: Duration = Duration::from_millis(700);

/// Every point in every round, libraries in turn at each rate.
pub(crate) fn study(bench: &mut Bench<'_>) -> Result<()> {
    let definitions = Rc::clone(&bench.definitions);
    for points in &definitions.pcap {
        let client = Client::find(&points.workload)?;
        let wanted = points.receivers.iter().filter(|name| bench.wants(name));
        let libraries = wanted.map(|name| Library::find(name)).collect::<Result<Vec<_>>>()?;
        let folder = libraries.iter().any(|library| library.backend.is_some()).then(|| linked(&definitions.programs));
        let folder = folder.transpose()?;
        for round in 0..bench.scale.rounds {
            for &topology in &points.topologies {
                for pps in bench.scale.rates_of(&points.rates) {
                    for library in &libraries {
                        let seconds = bench.scale.seconds_of(points.seconds);
                        let receiver = library.name;
                        let point = Point { study: STUDY, workload: &points.workload, receiver, topology, round, pps };
                        let ours = folder.as_ref().map(tempfile::TempDir::path);
                        bench.measure(STUDY, receiver, topology, seconds, || {
                            sample(&point, client, library, ours, seconds)
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
    let of = |points: &PcapPoints| {
        let receivers = points.receivers.iter().filter(|name| bench.wants(name)).count();
        let runs = receivers * points.topologies.len() * bench.scale.rates_of(&points.rates).len();
        // Clients need a while to start.
        runs as f64 * (cost_seconds(bench.scale.seconds_of(points.seconds)) + 3.0)
    };
    bench.definitions.pcap.iter().map(of).sum::<f64>() * f64::from(bench.scale.rounds)
}

/// Whose library a client runs on.
#[derive(Debug, PartialEq)]
struct Library<'n> {
    name: &'n str,
    /// Ours with this back end; `None`: the system's.
    backend: Option<&'n str>,
    /// Options of ours, as environment variables.
    options: Vec<(String, &'n str)>,
}

impl<'n> Library<'n> {
    fn find(name: &'n str) -> Result<Self> {
        let wrong = |cause: &str| {
            Error::usage("measure", name, cause.to_owned())
                .way_out("name `libpcap system`, or `libpcap BACKEND+OPTION=VALUE…` for Ringtap's")
        };
        let kind = name.strip_prefix(PREFIX).ok_or_else(|| wrong("the study `pcap` has no such receiver"))?;
        let mut words = kind.split('+');
        let backend = words.next().filter(|word| !word.is_empty()).ok_or_else(|| wrong("it names no library"))?;
        let option = |word: &'n str| {
            let (option, value) = word.split_once('=').ok_or_else(|| wrong("an option has no value"))?;
            Ok((format!("RINGTAP_{}", option.to_uppercase()), value))
        };
        let options = words.map(option).collect::<Result<Vec<_>>>()?;
        if backend == "system" && !options.is_empty() {
            return Err(wrong("the system's library has no options of ours"));
        }
        Ok(Self { name, backend: (backend != "system").then_some(backend), options })
    }
}

/// A folder in which programs find our library under both of its names.
fn linked(programs: &Programs) -> Result<tempfile::TempDir> {
    let library = match &programs.libpcap {
        Some(path) => path.clone(),
        None => super::ringtap(&Programs::default())?.with_file_name("libringtap_pcap.so"),
    };
    let library: PathBuf = library.canonicalize().map_err(|error| {
        Error::os("find library", library.display().to_string(), &error)
            .way_out("make build-pcap, or name it as `libpcap` under [programs] in the definitions")
    })?;
    let folder = tempfile::tempdir().map_err(|error| Error::os("make", "a folder", &error))?;
    for name in ["libpcap.so.0.8", "libpcap.so.1"] {
        std::os::unix::fs::symlink(&library, folder.path().join(name))
            .map_err(|error| Error::os("link", name, &error))?;
    }
    Ok(folder)
}

/// One run on a fresh testbed.
fn sample(
    point: &Point<'_>,
    client: Client,
    library: &Library<'_>,
    ours: Option<&Path>,
    seconds: f64,
) -> Result<Sample> {
    let testbed = Testbed::new(TestbedConfig { topology: point.topology, ..TestbedConfig::default() })?;
    testbed.enable_receiver_napi()?;
    // Before the client, as whoever places NAPI on a core does so once and for all.
    let pin = || match point.topology {
        Topology::Host => testbed.pin_napi(testbed.config().receiver_core).map(drop),
        Topology::Nic => Ok(()),
    };
    pin()?;
    let running = client.start(&testbed, |command| {
        if let Some((folder, backend)) = ours.zip(library.backend) {
            command.env("LD_LIBRARY_PATH", folder).env("RINGTAP_BACKEND", backend);
            command.envs(library.options.iter().map(|(name, value)| (name, value)));
        }
    })?;
    // The driver may have made new ones.
    pin()?;
    let before = WireCounters::read(&testbed)?;
    let profile = Profile::lasting(Pattern::Constant { pps: point.pps }, Duration::from_secs_f64(seconds));
    let generator = testbed.generate(GeneratorConfig::for_testbed(&testbed, 64, profile))?;
    let core = CoreUse::start(testbed.config().receiver_core)?;
    let sent = generator.join()?;
    let used = core.finish()?;
    std::thread::sleep(SETTLING);
    let drops = WireCounters::read(&testbed)?.drops_since(&before);
    let Said { captured, received, dropped, dropped_by_interface } = running.finish()?;
    let accounted = received + dropped + dropped_by_interface;
    let mut sample = Sample {
        sent_pps: sent.achieved_pps,
        sent: sent.stamped,
        received: captured.min(sent.stamped),
        lost: sent.stamped.saturating_sub(captured),
        claims: Claims { received: Some(received), dropped: Some(dropped + dropped_by_interface) },
        ..point.sample(&used)
    };
    sample.drops.insert("driver_queue".to_owned(), drops.veth_queue);
    sample.measures.insert("sent_minus_accounted".to_owned(), sent.stamped as f64 - accounted as f64);
    let settings = std::env::vars().filter(|(name, _)| name.starts_with("RINGTAP_"));
    let settings: serde_json::Map<_, _> = settings.map(|(name, value)| (name, json!(value))).collect();
    sample.reported = Some(json!({
        "captured": captured,
        "received": received,
        "dropped": dropped,
        "dropped_by_interface": dropped_by_interface,
        "settings": settings,
    }));
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_by_name() {
        assert_eq!(Library::find("libpcap system").unwrap().backend, None);
        let ours = Library::find("libpcap xdp+napi_pacing=off").unwrap();
        assert_eq!(ours.backend, Some("xdp"));
        assert_eq!(ours.options, [("RINGTAP_NAPI_PACING".to_owned(), "off")]);
        for bad in ["tcpdump", "libpcap ", "libpcap xdp+napi_pacing", "libpcap system+x=y"] {
            assert!(Library::find(bad).unwrap_err().to_string().contains("libpcap system"), "{bad}");
        }
    }
}

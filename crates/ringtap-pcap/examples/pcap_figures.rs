//! tcpdump, or Suricata with 160 rules, on Ringtap's libpcap and on the system's, interleaved: share delivered, core use, and
//! whether the client's counts add up to what was sent.
//!
//! `pcap_figures [--client tcpdump|suricata] [--topology nic|host] [--rates 148,500] [--seconds 3] [--runs 5] [--backends system,packet,xdp] [--library FILE]`
//! as root, on a machine that does nothing else. One line of JSON per run on standard output, and at the end the medians on
//! standard error. Both libraries run with the same client and options; RINGTAP_… variables reach ours, and a back end may bring
//! its own: `--backends system,xdp,xdp+napi_pacing=off` compares three.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_testbed::{CoreUse, GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig, Topology, WireCounters};

#[derive(Clone, Copy)]
enum Client {
    /// Writes packets to /dev/null.
    Tcpdump,
    /// In pcap mode, one thread.
    Suricata,
}

impl Client {
    fn name(self) -> &'static str {
        match self {
            Self::Tcpdump => "tcpdump",
            Self::Suricata => "suricata",
        }
    }
}

struct Request {
    client: Client,
    topologies: Vec<Topology>,
    rates_pps: Vec<f64>,
    seconds: f64,
    runs: u32,
    backends: Vec<String>,
    library: PathBuf,
}

fn main() -> ExitCode {
    match request().and_then(|request| measure(&request)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pcap_figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn request() -> Result<Request> {
    let own = std::env::current_exe().map_err(|error| Error::os("find", "this program", &error))?;
    let beside = own.parent().and_then(|folder| folder.parent()).map(|folder| folder.join("libringtap_pcap.so"));
    let mut request = Request {
        client: Client::Tcpdump,
        topologies: vec![Topology::Host, Topology::Nic],
        rates_pps: vec![148e3, 500e3],
        seconds: 3.0,
        runs: 5,
        backends: ["system", "packet", "xdp"].map(str::to_owned).to_vec(),
        library: beside.unwrap_or_default(),
    };
    let wrong =
        |what: &str| Error::usage("read", what.to_owned(), "not understood").way_out("see the head of this file");
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| wrong(&word))?;
        match word.as_str() {
            "--client" => {
                request.client = match value.as_str() {
                    "tcpdump" => Client::Tcpdump,
                    "suricata" => Client::Suricata,
                    _ => return Err(wrong(&value)),
                };
            }
            "--topology" => {
                request.topologies = match value.as_str() {
                    "host" => vec![Topology::Host],
                    "nic" => vec![Topology::Nic],
                    _ => return Err(wrong(&value)),
                };
            }
            "--rates" => {
                let rates: Option<Vec<f64>> =
                    value.split(',').map(|rate| rate.parse::<f64>().ok().map(|kpps| kpps * 1e3)).collect();
                request.rates_pps = rates.ok_or_else(|| wrong(&value))?;
            }
            "--seconds" => request.seconds = value.parse().map_err(|_| wrong(&value))?,
            "--runs" => request.runs = value.parse().map_err(|_| wrong(&value))?,
            "--backends" => request.backends = value.split(',').map(str::to_owned).collect(),
            "--library" => request.library = value.into(),
            _ => return Err(wrong(&word)),
        }
    }
    if !request.library.is_file() {
        return Err(Error::failed("find library", request.library.display().to_string(), "there is no such file")
            .way_out("cargo build --release -p ringtap-pcap, or --library FILE"));
    }
    Ok(request)
}

fn measure(request: &Request) -> Result<()> {
    let folder = tempfile::tempdir().map_err(|error| Error::os("make", "a folder", &error))?;
    for name in ["libpcap.so.0.8", "libpcap.so.1"] {
        let library = request.library.canonicalize().unwrap_or_else(|_| request.library.clone());
        std::os::unix::fs::symlink(library, folder.path().join(name))
            .map_err(|error| Error::os("link", name, &error))?;
    }
    for &topology in &request.topologies {
        for &pps in &request.rates_pps {
            let mut runs: BTreeMap<&str, Vec<Figures>> = BTreeMap::new();
            for run in 0..request.runs {
                for backend in &request.backends {
                    runs.entry(backend).or_default().push(one(request, topology, pps, run, backend, folder.path())?);
                }
            }
            for (backend, runs) in runs {
                let of = |figure: fn(&Figures) -> f64| median(runs.iter().map(figure).collect());
                eprintln!(
                    "{} {topology:?} {:.0} kpps {backend}: {:.0} kpps sent, {:.3} % delivered, core use {:.1} %, steal {:.1} %, \
                     sent - accounted {:.0} (medians of {})",
                    request.client.name(),
                    pps / 1e3,
                    of(|run| run.achieved_pps) / 1e3,
                    of(|run| run.delivered_percent),
                    of(|run| run.core_percent),
                    of(|run| run.steal_percent),
                    of(|run| run.unaccounted),
                    runs.len()
                );
            }
        }
    }
    Ok(())
}

/// What of a run its median is taken.
struct Figures {
    achieved_pps: f64,
    delivered_percent: f64,
    core_percent: f64,
    steal_percent: f64,
    unaccounted: f64,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// What a client says it got, and what it says was lost.
struct Said {
    captured: u64,
    received: u64,
    dropped: u64,
    dropped_by_interface: u64,
}

/// One run on a fresh testbed.
fn one(request: &Request, topology: Topology, pps: f64, run: u32, backend: &str, library: &Path) -> Result<Figures> {
    let testbed = Testbed::new(TestbedConfig { topology, ..TestbedConfig::default() })?;
    testbed.enable_receiver_napi()?;
    // Before the client, as whoever places NAPI on a core does so once and for all.
    let pin = || match topology {
        Topology::Host => testbed.pin_napi(testbed.config().receiver_core).map(drop),
        Topology::Nic => Ok(()),
    };
    pin()?;
    let receiver = testbed.receiver();
    let folder = tempfile::tempdir().map_err(|error| Error::os("make", "a folder", &error))?;
    let path = |name: &str| folder.path().join(name);
    let write =
        |name: &str, text: String| std::fs::write(path(name), text).map_err(|error| Error::os("write", name, &error));
    let mut command = receiver.command("taskset");
    let core = testbed.config().receiver_core.to_string();
    command.args(["-c", &core]);
    let start = match request.client {
        Client::Tcpdump => {
            command.args(["tcpdump", "-n", "-Z", "root", "-w", "/dev/null", "-i", receiver.interface(), "udp"]);
            Duration::from_millis(1500)
        }
        Client::Suricata => {
            write("160.rules", rules())?;
            write("suricata.yaml", CONFIGURATION.replace("DIR", &folder.path().display().to_string()))?;
            command.arg("suricata").arg(format!("--pcap={}", receiver.interface()));
            command.args(["-vv", "--runmode", "single", "-k", "none", "-c"]).arg(path("suricata.yaml"));
            command.arg("-S").arg(path("160.rules")).arg("-l").arg(folder.path());
            Duration::from_secs(6)
        }
    };
    let words = File::create(path("words")).map_err(|error| Error::os("write", "what the client says", &error))?;
    let again = words.try_clone().map_err(|error| Error::os("write", "what the client says", &error))?;
    command.stdin(Stdio::null()).stdout(again).stderr(words);
    let mut words_of_backend = backend.split('+');
    let name = words_of_backend.next().unwrap_or_default();
    if name != "system" {
        command.env("LD_LIBRARY_PATH", library).env("RINGTAP_BACKEND", name);
        for (option, value) in words_of_backend.filter_map(|word| word.split_once('=')) {
            command.env(format!("RINGTAP_{}", option.to_uppercase()), value);
        }
    }
    let program = receiver.start(command)?;
    std::thread::sleep(start);
    // The driver may have made new ones.
    pin()?;
    let before = WireCounters::read(&testbed)?;
    let profile = Profile::lasting(Pattern::Constant { pps }, Duration::from_secs_f64(request.seconds));
    let generator = testbed.generate(GeneratorConfig::for_testbed(&testbed, 64, profile))?;
    let core = CoreUse::start(testbed.config().receiver_core)?;
    let sent = generator.join()?;
    let used = core.finish()?;
    std::thread::sleep(Duration::from_millis(700));
    let drops = WireCounters::read(&testbed)?.drops_since(&before);
    program.interrupt()?;
    let said = match request.client {
        Client::Tcpdump => tcpdump_said(&std::fs::read_to_string(path("words")).unwrap_or_default()),
        Client::Suricata => suricata_said(
            &std::fs::read_to_string(path("eve.json")).unwrap_or_default(),
            &std::fs::read_to_string(path("words")).unwrap_or_default(),
        ),
    };
    let accounted = said.received + said.dropped + said.dropped_by_interface;
    let figures = Figures {
        achieved_pps: sent.achieved_pps,
        delivered_percent: said.captured as f64 / sent.stamped.max(1) as f64 * 100.0,
        core_percent: used.used_percent,
        steal_percent: used.steal_percent.unwrap_or(f64::NAN),
        unaccounted: sent.stamped as f64 - accounted as f64,
    };
    let line = serde_json::json!({
        "client": request.client.name(), "topology": topology, "pps": pps, "run": run, "backend": backend,
        "settings": std::env::vars().filter(|(name, _)| name.starts_with("RINGTAP_")).collect::<BTreeMap<_, _>>(),
        "sent": sent.stamped, "achieved_pps": sent.achieved_pps, "captured": said.captured,
        "delivered_percent": figures.delivered_percent,
        "core_percent": used.used_percent, "steal_percent": used.steal_percent,
        "received": said.received, "dropped": said.dropped, "dropped_by_interface": said.dropped_by_interface,
        "sent_minus_accounted": sent.stamped as i64 - accounted as i64,
        "wire_drops": format!("{drops:?}"),
    });
    println!("{line}");
    Ok(figures)
}

fn tcpdump_said(words: &str) -> Said {
    let count = |what: &str| words.lines().find_map(|line| line.strip_suffix(what)?.trim().parse().ok()).unwrap_or(0);
    Said {
        captured: count("packets captured").max(count("packet captured")),
        received: count("packets received by filter"),
        dropped: count("packets dropped by kernel"),
        dropped_by_interface: count("packets dropped by interface"),
    }
}

/// What it decoded by its log; what it received by its last words, as the log's capture counters are up to a second old.
fn suricata_said(log: &str, words: &str) -> Said {
    let mut events = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let last = events.rfind(|event| event["event_type"] == "stats").unwrap_or_default();
    let count = |group: &str, name: &str| last["stats"][group][name].as_u64().unwrap_or(0);
    // "…: pcap total:444000 recv:444000 drop:0 (0.0%)"
    let total = words.lines().rev().find_map(|line| line.split_once("pcap total:")).map_or("", |(_, counts)| counts);
    let number = |text: &str| text.split(' ').next().and_then(|digits| digits.parse().ok());
    let dropped = total.split_once("drop:").and_then(|(_, rest)| number(rest));
    Said {
        captured: count("decoder", "pkts"),
        received: number(total).unwrap_or_else(|| count("capture", "kernel_packets")),
        dropped: dropped.unwrap_or_else(|| count("capture", "kernel_drops")),
        dropped_by_interface: count("capture", "kernel_ifdrops"),
    }
}

/// 160 rules that look into every datagram and find nothing.
fn rules() -> String {
    let rule = |sid: u32| {
        let pattern = sid.wrapping_mul(0x9e37_79b1);
        format!("alert udp any any -> any any (msg:\"{sid}\"; content:\"p{pattern:08x}q\"; sid:{sid}; rev:1;)\n")
    };
    (1..=160).map(rule).collect()
}

/// Of the tests: DIR is its folder.
const CONFIGURATION: &str = include_str!("../tests/support/suricata.yaml");

//! tcpdump on Ringtap's libpcap and on the system's, interleaved: share delivered, core use, and whether its counts add up.
//!
//! `pcap_figures [--topology nic|host] [--rates 148,500] [--seconds 3] [--runs 5] [--backends system,packet,xdp] [--library FILE]`
//! as root, on a machine that does nothing else. One line of JSON per run on standard output. Both libraries run with the same
//! tcpdump and options; RINGTAP_… variables reach ours.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_testbed::{CoreUse, GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig, Topology, WireCounters};

struct Request {
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
            "--topology" => {
                request.topologies = vec![if value == "host" { Topology::Host } else { Topology::Nic }];
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
            for run in 0..request.runs {
                for backend in &request.backends {
                    one(request, topology, pps, run, backend, folder.path())?;
                }
            }
        }
    }
    Ok(())
}

/// One run of tcpdump on a fresh testbed.
fn one(
    request: &Request,
    topology: Topology,
    pps: f64,
    run: u32,
    backend: &str,
    library: &std::path::Path,
) -> Result<()> {
    let testbed = Testbed::new(TestbedConfig { topology, ..TestbedConfig::default() })?;
    testbed.enable_receiver_napi()?;
    let receiver = testbed.receiver();
    let words = tempfile::NamedTempFile::new().map_err(|error| Error::os("make", "a file", &error))?;
    let mut command = receiver.command("taskset");
    let core = testbed.config().receiver_core.to_string();
    command.args(["-c", &core, "tcpdump", "-n", "-Z", "root", "-w", "/dev/null", "-i", receiver.interface()]);
    command.arg("udp");
    command.stderr(File::create(words.path()).map_err(|error| Error::os("write", "what tcpdump says", &error))?);
    if backend != "system" {
        command.env("LD_LIBRARY_PATH", library).env("RINGTAP_BACKEND", backend);
    }
    let program = receiver.start(command)?;
    std::thread::sleep(Duration::from_millis(1500));
    if topology == Topology::Host {
        testbed.pin_napi(testbed.config().receiver_core)?;
    }
    let before = WireCounters::read(&testbed)?;
    let core = CoreUse::start(testbed.config().receiver_core)?;
    let profile = Profile::lasting(Pattern::Constant { pps }, Duration::from_secs_f64(request.seconds));
    let generator = testbed.generate(GeneratorConfig::for_testbed(&testbed, 64, profile))?;
    let sent = generator.join()?;
    let used = core.finish()?;
    std::thread::sleep(Duration::from_millis(300));
    let drops = WireCounters::read(&testbed)?.drops_since(&before);
    program.interrupt()?;
    let said = std::fs::read_to_string(words.path()).unwrap_or_default();
    let count =
        |what: &str| -> u64 { said.lines().find_map(|line| line.strip_suffix(what)?.trim().parse().ok()).unwrap_or(0) };
    let captured = count("packets captured").max(count("packet captured"));
    let [received, dropped, by_interface] =
        ["packets received by filter", "packets dropped by kernel", "packets dropped by interface"].map(count);
    let accounted = received + dropped + by_interface;
    let line = serde_json::json!({
        "topology": topology, "pps": pps, "run": run, "backend": backend,
        "sent": sent.stamped, "achieved_pps": sent.achieved_pps, "captured": captured,
        "delivered_percent": captured as f64 / sent.stamped.max(1) as f64 * 100.0,
        "core_percent": used.used_percent, "steal_percent": used.steal_percent,
        "received": received, "dropped": dropped, "dropped_by_interface": by_interface,
        "sent_minus_accounted": sent.stamped as i64 - accounted as i64,
        "wire_drops": format!("{drops:?}"),
    });
    println!("{line}");
    Ok(())
}

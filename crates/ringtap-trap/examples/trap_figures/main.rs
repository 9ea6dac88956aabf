//! How many notifications per second can be taken without loss, decoded, deduplicated and stored: Ringtap and its peers, all of a
//! receiver on one core.
//!
//! ```text
//! cargo build --release -p ringtap-cli && cargo build --release -p ringtap-trap --example trap_figures
//! target/release/examples/trap_figures search v2c snmptrapd-file --raw raw.jsonl
//! target/release/examples/trap_figures rounds v2c ringtap-xdp=100000,snmptrapd-file=8000 --times 3 --raw raw.jsonl
//! target/release/examples/trap_figures rounds v2c ringtap-xdp=100000 --count 1000000 --times 1 --raw raw.jsonl
//! ```
//!
//! Testbed, topology nic: sender, wire and the kernel's receive path are on the generator's core, everything of the receiver on the other.
//! That favours receivers by sockets, whose protocol processing is done for them. Loss is counted from the sequence numbers in what really
//! came out: lines of files, rows of the store.
//!
//! A rate counts as held when nothing is lost and everything is out a second after the last of ten seconds' messages was sent: a run is
//! shorter than the buffers of some receivers are deep, so without the second condition a receiver that can't keep up would seem to.
//! Each sample is one JSON object in the file given by --raw, in the order of the runs.

mod load;
mod receivers;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap::{Error, Result};
use ringtap_testbed::{CoreUse, RunningProgram, Testbed, TestbedConfig};
use serde_json::{Value, json};

use load::{Frames, Load};
use receivers::{Outcome, Receiver, Running};

/// How long is sent.
const SECONDS: f64 = 10.0;
/// All must be out so long after the last message.
const LATEST: Duration = Duration::from_secs(1);
/// What has not moved for so long has ended.
const STILL: Duration = Duration::from_millis(1500);
/// A receiver that takes longer is ended with what it has.
const LONGEST: Duration = Duration::from_secs(10);
/// The rate that was held and the lowest that was not differ by no more than this.
const RESOLUTION: f64 = 1.1;
/// The generator's rate counts as reached from this share on.
const REACHED: f64 = 0.98;
/// Rates of a search, messages per second.
const LOWEST: f64 = 100.0;

/// Where programs are.
pub struct Programs {
    ringtap: PathBuf,
    /// A package of syslog-ng unpacked here; else the installed one.
    syslog_ng: Option<PathBuf>,
    telegraf: Option<PathBuf>,
    /// MIB files for Telegraf.
    mibs: Option<PathBuf>,
}

struct Options {
    programs: Programs,
    raw: PathBuf,
    times: u32,
    from: f64,
    count: Option<u64>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trap_figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let usage = || {
        Error::usage("run", "trap_figures", "the arguments make no sense").way_out(
            "search LOAD RECEIVER | rounds LOAD RECEIVER=RATE,… --raw FILE [--from RATE] [--times N] [--count N] [--ringtap FILE] [--syslog-ng FOLDER] [--telegraf FILE] [--mibs FOLDER]",
        )
    };
    let own = std::env::current_exe().map_err(|error| Error::os("find", "this program", &error))?;
    let beside = own.ancestors().nth(2).map(|folder| folder.join("ringtap")).unwrap_or_default();
    let mut options = Options {
        programs: Programs { ringtap: beside, syslog_ng: None, telegraf: None, mibs: None },
        raw: PathBuf::from("trap-figures.jsonl"),
        times: 3,
        from: 1000.0,
        count: None,
    };
    let mut plain = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let Some(option) = argument.strip_prefix("--") else {
            plain.push(argument);
            continue;
        };
        let value = arguments.next().ok_or_else(usage)?;
        match option {
            "raw" => options.raw = value.into(),
            "times" => options.times = value.parse().map_err(|_| usage())?,
            "from" => options.from = value.parse().map_err(|_| usage())?,
            "count" => options.count = Some(value.parse().map_err(|_| usage())?),
            "ringtap" => options.programs.ringtap = value.into(),
            "syslog-ng" => options.programs.syslog_ng = Some(value.into()),
            "telegraf" => options.programs.telegraf = Some(value.into()),
            "mibs" => options.programs.mibs = Some(value.into()),
            _ => return Err(usage()),
        }
    }
    let [command, load, what] = &plain[..] else { return Err(usage()) };
    let load = Load::from_name(load).ok_or_else(usage)?;
    let receiver = |name: &str| Receiver::from_name(name).filter(|receiver| receiver.takes(load)).ok_or_else(usage);
    let _buffers = LargeBuffers::allow()?;
    match command.as_str() {
        "search" => search(&options, receiver(what)?, load),
        "rounds" => {
            let mut points = Vec::new();
            for word in what.split(',') {
                let (name, rate) = word.split_once('=').ok_or_else(usage)?;
                points.push((receiver(name)?, rate.parse::<f64>().map_err(|_| usage())?));
            }
            for _ in 0..options.times {
                for &(receiver, pps) in &points {
                    let count = options.count.unwrap_or((pps * SECONDS) as u64);
                    sample(&options, receiver, load, pps, count, "rounds")?;
                }
            }
            Ok(())
        }
        _ => Err(usage()),
    }
}

/// Doubles the rate until it is not held, then halves the interval.
fn search(options: &Options, receiver: Receiver, load: Load) -> Result<()> {
    let mut held: Option<f64> = None;
    let mut not_held: Option<f64> = None;
    let mut pps = options.from;
    loop {
        let sample = sample(options, receiver, load, pps, (pps * SECONDS) as u64, "search")?;
        if sample["held"] == true {
            held = Some(pps);
            if sample["generator_reached"] == false {
                break;
            }
        } else {
            not_held = Some(pps);
        }
        pps = match (held, not_held) {
            (Some(low), Some(high)) if high / low <= RESOLUTION => break,
            (Some(low), Some(high)) => (low * high).sqrt(),
            (Some(low), None) => low * 2.0,
            (None, Some(high)) if high <= LOWEST => break,
            (None, Some(high)) => high / 2.0,
            (None, None) => break,
        };
    }
    println!("{} {}: held {held:?}, not held {not_held:?}", receiver.name(), load.name());
    Ok(())
}

/// One run; its sample.
fn sample(options: &Options, receiver: Receiver, load: Load, pps: f64, count: u64, purpose: &str) -> Result<Value> {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let folder = tempfile::tempdir().map_err(|error| Error::os("make", "a folder", &error))?;
    let frames = Arc::new(Frames::make(&testbed, load, count)?);
    // The nodes are not on the wire's subnet: without a way back the host would drop their packets as spoofed.
    let interface = testbed.receiver().interface();
    ip(&testbed, &format!("route add 10.64.0.0/16 dev {interface}"))?;
    let running = Running::start(&testbed, &options.programs, receiver, load, folder.path())?;
    let napi = testbed.place_napi(receiver != Receiver::RingtapXdp)?;

    let meter = CoreUse::start(testbed.config().receiver_core)?;
    let generator = frames.send(&testbed, pps)?;
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
    let Outcome { numbers, said, alarms } = running.finish(folder.path())?;
    drop(napi);

    let distinct: BTreeSet<u64> = numbers.iter().copied().filter(|&number| number < count).collect();
    let lost = count - distinct.len() as u64;
    let checked = receiver.is_ringtap() && load != Load::Syslog;
    let wrong_alarms = checked.then(|| frames.wrong_alarms(&numbers, alarms));
    let held = lost == 0 && out_after <= LATEST;
    let sample = json!({
        "purpose": purpose,
        "receiver": receiver.name(),
        "load": load.name(),
        "asked_pps": pps,
        "achieved_pps": sent.achieved_pps,
        "generator_reached": sent.achieved_pps >= pps * REACHED,
        "generator": {"stamped": sent.stamped, "queue_full": sent.queue_full, "not_ready": sent.not_ready, "late": sent.lateness.over_100_us},
        "mean_frame_bytes": frames.mean_len(),
        "sent": count,
        "came_out": distinct.len(),
        "twice": numbers.len() - distinct.len(),
        "lost": lost,
        "out_after_ms": out_after.as_secs_f64() * 1e3,
        "held": held,
        "wrong_alarms": wrong_alarms,
        "core_percent": core.used_percent,
        "steal_percent": core.steal_percent,
        "said": said,
    });
    println!(
        "{:>17} {:>6} {:>7.0}/s: {} of {count} came out, all after {:.0} ms, core {:.1} %{}{}",
        receiver.name(),
        load.name(),
        sent.achieved_pps,
        distinct.len(),
        out_after.as_secs_f64() * 1e3,
        core.used_percent,
        said["to_alarm_us"]["p99"].as_f64().map(|p99| format!(", p99 to alarm {p99:.0} µs")).unwrap_or_default(),
        match (held, wrong_alarms) {
            (_, Some(1..)) => "; ALARMS ARE WRONG",
            (true, _) => "",
            (false, _) => "; NOT HELD",
        },
    );
    let mut raw = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&options.raw)
        .map_err(|error| Error::os("write", options.raw.display().to_string(), &error))?;
    writeln!(raw, "{sample}").map_err(|error| Error::os("write", options.raw.display().to_string(), &error))?;
    Ok(sample)
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
        let _ = std::fs::write(Self::LIMIT, &self.0);
    }
}

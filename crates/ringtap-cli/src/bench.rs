//! `ringtap bench`: measure this host, and everybody else on it, in one interleaved run.
//!
//! Owns the command's words and its progress on a terminal; what is measured is `ringtap-bench`'s.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_bench::bench::{load, write_reports};
use ringtap_bench::{Bench, Beside, Definitions, Progress, Study, Wanted, plots};
use ringtap_run::{notes, signals, units};
use serde_json::json;

use crate::words::unused_beside;

/// Measure capacity, core use, latency, memory and robustness of Ringtap, its ablations and real peers
#[derive(Debug, clap::Args)]
#[command(mut_args(|option| unused_beside(option, "render", &["out"])),
    mut_args(|option| unused_beside(option, "plots", &["out", "demo"])),
    mut_args(|option| unused_beside(option, "soak", &OF_SOAK)), after_help = "Examples:\n  ringtap bench --quick --out results\n  ringtap bench --out results\n  \
ringtap bench --only rates,capacity --receivers 'hybrid 1ms,tcpdump' --rounds 5 --out results\n  \
ringtap bench --only sensor,station,pcap,split,forward,staged --out programs\n  \
ringtap bench --soak 1000M --soak-rate 1M --out soak\n  \
ringtap bench --plots --out results\n\n\
Studies: idle, rates, capacity, load, ring, sizes, arrivals, pause, polls, napi, storms; and, when named by --only or with --all, of whole programs \
sensor, station, pcap, split, forward and staged, and cost: what a packet, a wake-up and an empty look cost.\n\
DIR gets bench.json (every raw sample, written after each run), bench.md (medians) and report.html.\n\n\
Needs root: it makes network namespaces. Peers that are not installed are named in the report. The exit code is 1 when a \
packet is unaccounted for or a study failed, never because something was slow.")]
pub struct Args {
    /// Folder of the results; it is made if need be
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Add to the results in DIR instead of replacing them
    #[arg(long)]
    add: bool,
    /// Go on with a benchmark that was cut off: the same options and this one. The study that was under way is made anew
    #[arg(long)]
    resume: bool,
    /// One short run of everybody, three minutes at most
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Five rounds, trials of a million packets: many hours
    #[arg(long)]
    full: bool,
    /// Only these studies
    #[arg(long, value_name = "STUDY", value_delimiter = ',')]
    only: Vec<String>,
    /// Every study, those of whole programs and of costs too
    #[arg(long, conflicts_with = "only")]
    all: bool,
    /// Points of the studies, instead of the usual ones: a file shaped like crates/ringtap-bench/definitions.toml
    #[arg(long, value_name = "FILE")]
    define: Option<PathBuf>,
    /// Only these receivers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    receivers: Vec<String>,
    /// Rates of the study `rates`, and of the studies of whole programs
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = units::rate)]
    rates: Vec<f64>,
    /// Repetitions, interleaved
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Run each point of the study `rates` a second time and measure core use by a soaker, a lowest-priority thread that
    /// counts what is left of the core (always with --full)
    #[arg(long)]
    soaker: bool,
    /// Length of a run
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    run: Option<Duration>,
    /// Packets of a trial of the searches for capacity and ring
    #[arg(long, value_name = "COUNT", value_parser = units::count)]
    trial: Option<u64>,
    /// No studies, but one run of so many packets without loss, or with the place of each loss
    #[arg(long, value_name = "COUNT", value_parser = units::count)]
    soak: Option<u64>,
    /// Rate of the soak
    #[arg(long, value_name = "RATE", default_value = "1M", value_parser = units::rate, requires = "soak")]
    soak_rate: f64,
    /// Slots of the soak's ring, a power of two [default: as planned for this host]
    #[arg(long, value_name = "SLOTS", requires = "soak")]
    soak_ring: Option<u32>,
    /// Measure nothing: fit the models and write the report of DIR's bench.json anew
    #[arg(long)]
    render: bool,
    /// Measure nothing: draw core use against rate, from DIR's bench.json, as SVG for documents (light and dark)
    #[arg(long)]
    plots: bool,
    /// Also draw the ledger of a demo: the output of `ringtap demo --json`
    #[arg(long, value_name = "FILE", requires = "plots")]
    demo: Option<PathBuf>,
    /// One JSON object on standard output: the findings
    #[arg(long)]
    json: bool,
}

/// Studies at rates that may be named.
const OF_RATES: [Study; 5] = [Study::Rates, Study::Sensor, Study::Station, Study::Pcap, Study::Split];

/// What is asked for beside --soak.
const OF_SOAK: [&str; 5] = ["out", "add", "soak_rate", "soak_ring", "json"];

/// Runs the command. Fails when a packet is unaccounted for.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.render {
        let mut book = load(&args.out)?;
        book.fits = ringtap_bench::cost_model::fit(&book);
        write_reports(&book, &args.out)?;
        notes::say(&format!("{} written", args.out.join("report.html").display()));
        return Ok(ExitCode::SUCCESS);
    }
    if args.plots {
        for path in plots::write(&load(&args.out)?, args.demo.as_deref(), &args.out)? {
            notes::say(&format!("{} written", path.display()));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = args.wanted()?;
    let mut tell = show;
    let mut bench = Bench::new(&wanted, signals::stop_flag()?, &mut tell)?;
    if let Some((count, pps)) = wanted.soak {
        ringtap_bench::soak(&mut bench, count, pps, args.soak_ring)?;
    }
    let mut all_made = true;
    for study in &wanted.studies {
        all_made &= bench.make(*study)?;
    }
    let book = bench.finish()?;
    let unaccounted: u64 = book.samples.iter().filter_map(|sample| sample.unaccounted).map(i64::unsigned_abs).sum();
    let (runs, findings) = (book.samples.len(), book.findings.len());
    let report = args.out.join("report.html");
    notes::say(&format!("{runs} runs, {findings} findings, {unaccounted} unaccounted packets; {}", report.display()));
    if args.json {
        println!(
            "{}",
            json!({ "findings": book.findings, "fits": book.fits, "missing": book.missing, "unaccounted": unaccounted })
        );
    }
    Ok(if unaccounted == 0 && all_made { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Args {
    fn wanted(&self) -> Result<Wanted> {
        let definitions = Definitions::read(self.define.as_deref())?;
        let mut scale = match (self.quick, self.full) {
            (true, _) => &definitions.scale.quick,
            (_, true) => &definitions.scale.full,
            _ => &definitions.scale.usual,
        }
        .clone();
        if !self.rates.is_empty() {
            scale.rates.clone_from(&self.rates);
            scale.program_rates.clone_from(&self.rates);
        }
        if let Some(rounds) = self.rounds {
            (scale.rounds, scale.other_rounds) = (rounds, rounds);
        }
        scale.soaker |= self.soaker;
        if let Some(run) = self.run {
            scale.seconds = run.as_secs_f64();
            scale.program_seconds = Some(scale.seconds);
        }
        scale.trial_packets = self.trial.unwrap_or(scale.trial_packets);
        if scale.seconds < 0.05 || scale.trial_packets < 1000 {
            return Err(Error::usage("measure with", "--run or --trial", "too short to mean anything")
                .way_out("use 50ms and 1000 packets or more"));
        }
        let studies = match (self.soak, self.only.is_empty()) {
            (Some(_), _) => Vec::new(),
            (None, _) if self.all => Study::all().collect(),
            (None, false) => self.only.iter().map(|name| Study::find(name)).collect::<Result<_>>()?,
            (None, true) if self.quick => vec![Study::Idle, Study::Rates],
            (None, true) => Study::CAPTURE.to_vec(),
        };
        for (option, is_given, of) in [
            ("--rates", !self.rates.is_empty(), &OF_RATES[..]),
            ("--trial", self.trial.is_some(), &[Study::Capacity, Study::Ring]),
            ("--soaker", self.soaker, &[Study::Rates]),
        ] {
            if is_given && !studies.iter().any(|study| of.contains(study)) {
                let names = of.iter().map(|study| study.name()).collect::<Vec<_>>().join(", ");
                return Err(Error::usage("use", option, format!("none of its studies is to run: {names}"))
                    .way_out("leave it out, or name one of them by --only"));
            }
        }
        Ok(Wanted {
            definitions,
            scale,
            studies,
            receivers: self.receivers.clone(),
            out: self.out.clone(),
            beside: match (self.resume, self.add) {
                (true, _) => Beside::Resumed,
                (_, true) => Beside::Added,
                _ => Beside::Nothing,
            },
            command: std::env::args()
                .skip(1)
                .filter(|argument| argument != "--resume")
                .fold("ringtap".to_owned(), |line, argument| format!("{line} {argument}")),
            soak: self.soak.map(|count| (count, self.soak_rate)),
        })
    }
}

/// One line a run; on a terminal the share done and the time left follow in place.
fn show(progress: &Progress) {
    let terminal = std::io::stderr().is_terminal();
    let clear = if terminal { "\r\x1b[K" } else { "" };
    eprintln!("{clear}{}", progress.line);
    if terminal && let Some(left) = progress.left_seconds {
        eprint!("{:>5.1} %, about {} left", progress.share * 100.0, shown_time(left));
        let _ = std::io::stderr().flush();
    }
}

fn shown_time(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil() as u64;
    if minutes < 120 { format!("{minutes} min") } else { format!("{} h {} min", minutes / 60, minutes % 60) }
}

//! `ringtap demo`: the options, and where its text goes. The acts are the bench crate's (`ringtap_bench::demo`).

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::value_parser;
use ringtap::Result;
use ringtap_bench::demo::{self, Options, staged};
use ringtap_run::{notes, units};

/// Prove it here: private testbed, 148 kpps, a ramp to 1 Mpps, and ordinary receivers beside Ringtap (under a minute)
///
/// With --staged another proof: attacks in two stages, each seen by another sensor, while a flood hides one of them. Splitter, two
/// sensors and correlator are real programs in a private host; shown is whether each attack is found, when each part of its way
/// was passed, and what two Suricatas and syslog find in the same place (where Suricata is installed).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ringtap demo\n  ringtap demo --max-latency 250us --json > demo.json\n  \
tshark -r ringtap-demo.pcapng -c 5\n  \
ringtap demo --staged\n  ringtap demo --staged --flood 500k --json > staged.json\n\n\
Needs root: it makes network namespaces. Nothing leaves them, and nothing is left behind. The exit code is 0 when all was proven.")]
pub struct Args {
    /// Longest time from a packet's arrival to the handler (10us to 1s)
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::duration)]
    max_latency: Duration,
    /// Where the first packets of the main run are written
    #[arg(long, short = 'w', value_name = "FILE", default_value = "ringtap-demo.pcapng")]
    write: PathBuf,
    /// Show attacks in two stages, by splitter, two sensors and correlator
    #[arg(long, conflicts_with_all = ["max_latency", "write"])]
    staged: bool,
    /// With --staged: packets per second of the flood
    #[arg(long, value_name = "RATE", default_value = "148k", value_parser = units::rate, requires = "staged")]
    flood: f64,
    /// With --staged: how many attacks, ten a second
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..=i64::from(staged::MOST_ATTACKS)), requires = "staged")]
    attacks: u32,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the command. Fails when a packet was lost or unaccounted for in the main run or the ramp; of --staged, when an attack
/// was missed or a packet is unaccounted for.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut say = |text: &str| {
        if args.json { eprintln!("{text}") } else { println!("{text}") }
    };
    let (is_proven, json) = if args.staged {
        let options = staged::Options { attacks: args.attacks, flood_pps: args.flood };
        let outcome = staged::run(&options, &mut say, &mut notes::say)?;
        (outcome.is_proven(), outcome.to_json())
    } else {
        let options = Options { max_latency: args.max_latency, write: args.write };
        let outcome = demo::run(&options, &mut say, &mut notes::say)?;
        (outcome.is_proven(), outcome.to_json())
    };
    if args.json {
        println!("{json}");
    }
    Ok(if is_proven { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

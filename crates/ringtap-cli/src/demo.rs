//! `ringtap demo`: the options, and where its text goes. The three acts are the bench crate's (`ringtap_bench::demo`).

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ringtap::Result;
use ringtap_bench::demo::{self, Options};
use ringtap_run::units;

/// Prove it here: private testbed, 148 kpps, a ramp to 1 Mpps, and ordinary receivers beside Ringtap (under a minute)
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ringtap demo\n  ringtap demo --max-latency 250us --json > demo.json\n  \
tshark -r ringtap-demo.pcapng -c 5\n\n\
Needs root: it makes network namespaces. Nothing leaves them, and nothing is left behind.")]
pub struct Args {
    /// Longest time from a packet's arrival to the handler (10us to 1s)
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::duration)]
    max_latency: Duration,
    /// Where the first packets of the main run are written
    #[arg(long, short = 'w', value_name = "FILE", default_value = "ringtap-demo.pcapng")]
    write: PathBuf,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the command. Fails when a packet was lost or unaccounted for in the main run or the ramp.
pub fn run(args: Args) -> Result<ExitCode> {
    let options = Options { max_latency: args.max_latency, write: args.write };
    let mut say = |text: &str| {
        if args.json { eprintln!("{text}") } else { println!("{text}") }
    };
    let outcome = demo::run(&options, &mut say, &mut |text| eprintln!("ringtap: {text}"))?;
    if args.json {
        println!("{}", outcome.to_json());
    }
    Ok(if outcome.is_proven() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

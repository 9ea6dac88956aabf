//! The `ringtap` command: one binary, one subcommand per task.
//!
//! Owns the list of subcommands, exit codes and the one line an error becomes. What a subcommand does is in its module;
//! how it is done is in the crates below.

mod alarms;
mod bench;
mod capture;
mod correlate;
mod demo;
mod doctor;
mod generate;
mod man;
mod pcap_run;
mod plan;
mod sensor;
mod trap;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind as ClapError};
use clap::{Parser, Subcommand};
use ringtap::error::ErrorKind;

/// Exit code of a request that was sound and could not be carried out.
const FAILED: u8 = 1;
/// Exit code of a request that makes no sense; clap uses the same.
const USAGE: u8 = 2;

/// Packet capture within a latency bound, with an account of every packet.
///
/// Say how late a packet may be; Ringtap spends the least CPU that keeps this promise, loses nothing, and proves it.
#[derive(Parser)]
#[command(name = "ringtap", version, after_help = EXAMPLES, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ringtap demo                                        see it work, in a private testbed
  ringtap doctor eth1                                 what works here, and what does not
  ringtap capture -i eth1 -w storm.pcapng             record an interface until Ctrl-C
  ringtap capture -i eth1 --max-latency 250us         only measure: latency, loss by cause, cost
  ringtap sensor --replay old.pcap -S my.rules        find attacks, as EVE JSON
  ringtap generate -i IF --rate 148k --count 1M       numbered test traffic, in a testbed

Rates take k and M, times us, ms, s, min and h, sizes KiB, MiB and GiB.
`ringtap COMMAND --help` has each command's options. Exit codes: 0 done, 1 failed, 2 wrong usage.";

// The variants are ordered as help shows them: what a newcomer needs first.
// One value, made once: its size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Subcommand)]
enum Command {
    Capture(capture::Args),
    Demo(demo::Args),
    Sensor(sensor::Args),
    Generate(generate::Args),
    Plan(plan::Args),
    Bench(bench::Args),
    Doctor(doctor::Args),
    Trap(trap::Args),
    Alarms(alarms::Args),
    Correlate(correlate::Args),
    PcapRun(pcap_run::Args),
    #[command(hide = true)]
    Man(man::Args),
}

fn main() -> ExitCode {
    end_quietly_without_reader();
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return explain(&error),
    };
    let outcome = match command {
        Command::Capture(args) => capture::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Trap(args) => trap::run(args),
        Command::Alarms(args) => alarms::run(args),
        Command::Correlate(args) => correlate::run(args),
        Command::Sensor(args) => sensor::run(args),
        Command::PcapRun(args) => pcap_run::run(args),
        Command::Man(args) => man::run(args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("ringtap: {error}");
        ExitCode::from(if error.kind() == ErrorKind::Usage { USAGE } else { FAILED })
    })
}

/// What clap says: help and version as they are, an error as one line.
fn explain(error: &clap::Error) -> ExitCode {
    let is_help = error.kind() == ClapError::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !error.use_stderr() {
        // Nobody reads it any more: that is no reason for a word.
        let _ = error.print();
        return if is_help { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
    }
    if let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && std::env::args().nth(1).is_some_and(|command| command == "capture")
        && let Some(ours) = capture::tip(option)
    {
        eprintln!("ringtap: {option} is not known here; what tcpdump does with it is done by: {ours}");
        return ExitCode::from(USAGE);
    }
    let text = error.to_string();
    // Error, places and tips; usage and the pointer to help are for a terminal's paragraph, not for a line.
    let parts: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).take_while(|line| !is_usage(line)).collect();
    let line = parts.join(" ");
    eprintln!("ringtap: {}", line.strip_prefix("error: ").unwrap_or(&line));
    ExitCode::from(USAGE)
}

fn is_usage(line: &str) -> bool {
    line.starts_with("Usage:") || line.starts_with("For more information")
}

/// `println!` panics when standard output's reader has gone (`ringtap plan | head -1`); that is no reason for a word.
fn end_quietly_without_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>().map(String::as_str).unwrap_or_default();
        if text.starts_with("failed printing to stdout") && text.contains("Broken pipe") {
            std::process::exit(0);
        }
        usual(info);
    }));
}

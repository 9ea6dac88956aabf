//! The `ringtap` command: one binary, one subcommand per task.
//!
//! Owns the list of subcommands, exit codes and the one line an error becomes. What a subcommand does is in its module;
//! how it is done is in the crates below.

mod alarms;
mod bench;
mod capture;
mod completions;
mod config;
mod correlate;
mod demo;
mod doctor;
mod forward;
mod generate;
mod kafka;
mod live;
mod man;
mod outputs;
mod pcap_log;
mod pcap_run;
mod plan;
mod sensor;
mod split;
mod top;
mod topology;
mod trap;
mod words;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind as ClapError};
use clap::{Parser, Subcommand};
use ringtap::error::ErrorKind;
use ringtap_run::notes;

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
    Topology(topology::Args),
    Top(top::Args),
    Correlate(correlate::Args),
    Config(config::Args),
    Split(split::Args),
    Forward(forward::Args),
    PcapRun(pcap_run::Args),
    #[command(hide = true)]
    Man(man::Args),
    #[command(hide = true)]
    Completions(completions::Args),
}

fn main() -> ExitCode {
    end_quietly_without_reader();
    let (arguments, configuration) = match config::options::with_configuration(std::env::args_os().collect()) {
        Ok(given) => given,
        Err(error) => return end(&error),
    };
    let command = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.command,
        Err(error) => return explain(&error, configuration.as_deref()),
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
        Command::Topology(args) => topology::run(args),
        Command::Top(args) => top::run(args),
        Command::Correlate(args) => correlate::run(args),
        Command::Config(args) => config::run(args),
        Command::Sensor(args) => sensor::run(args),
        Command::Split(args) => split::run(args),
        Command::Forward(args) => forward::run(args),
        Command::PcapRun(args) => pcap_run::run(args),
        Command::Man(args) => man::run(args),
        Command::Completions(args) => completions::run(args),
    };
    outcome.unwrap_or_else(|error| end(&error))
}

/// Says an error; the exit code that it becomes.
fn end(error: &ringtap::Error) -> ExitCode {
    notes::say(&error.to_string());
    ExitCode::from(if error.kind() == ErrorKind::Usage { USAGE } else { FAILED })
}

/// What clap says: help and version as they are, an error as one line. `configuration`: the table that some of the options are from.
fn explain(error: &clap::Error, configuration: Option<&str>) -> ExitCode {
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
        notes::say(&format!("{option} is not known here; what tcpdump does with it is done by: {ours}"));
        return ExitCode::from(USAGE);
    }
    let text = error.to_string();
    // Error, places and tips; usage and the pointer to help are for a terminal's paragraph, not for a line.
    let parts: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).take_while(|line| !is_usage(line)).collect();
    let beside = configuration.map_or_else(String::new, |table| format!("; options of {table} count, too"));
    notes::say(&(one_line(&parts) + way_out(error.kind(), &parts) + &beside));
    ExitCode::from(USAGE)
}

/// What the standard library says of a value that it can't read, and what is said here.
const SAID_OF_VALUES: [(&str, &str); 7] = [
    ("invalid digit found in string", "it is no whole number; give one such as 7"),
    ("cannot parse integer from empty string", "it is no whole number; give one such as 7"),
    ("number too large to fit in target type", "it is too great; give a smaller one"),
    ("invalid float literal", "it is no number; give one such as 0.5"),
    ("cannot parse float from empty string", "it is no number; give one such as 0.5"),
    ("invalid socket address syntax", "it is no ADDRESS:PORT; give one such as 192.0.2.1:5514 or [::1]:5514"),
    ("invalid IP address syntax", "it is no address; give one such as 192.0.2.1 or 2001:db8::1"),
];

/// Where clap gives no tip.
fn way_out(kind: ClapError, parts: &[&str]) -> &'static str {
    match kind {
        ClapError::ArgumentConflict => "; leave one of them out",
        ClapError::UnknownArgument | ClapError::InvalidSubcommand if !parts.iter().any(|part| is_tip(part)) => {
            "; --help has those there are"
        }
        _ => "",
    }
}

fn is_tip(part: &str) -> bool {
    part.starts_with("tip: ")
}

/// A tip stands behind a semicolon, as each way out does.
fn one_line(parts: &[&str]) -> String {
    let mut line = String::new();
    for part in parts {
        match part.strip_prefix("tip: ") {
            Some(tip) => line = format!("{line}; {tip}"),
            None => line = format!("{line} {part}"),
        }
    }
    let line = line.trim_start();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    SAID_OF_VALUES.iter().fold(line.to_owned(), |line, (theirs, ours)| line.replace(theirs, ours))
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

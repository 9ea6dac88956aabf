//! `ringtap top`: a running program on the terminal.
//!
//! Owns the options; all the rest is `ringtap_top`'s.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ringtap::Result;
use ringtap_run::units;

/// Show a running program on the terminal: what was lost, its ledger, rates, latency, and what it found.
///
/// Asks the page that `--web ADDR:PORT` of capture, sensor, trap, correlate or forward serves. Losses stand first. Without a terminal, or
/// on a dumb one, each look is printed as text.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Address and port of the running program's --web
    #[arg(value_name = "HOST:PORT")]
    address: String,
    /// The file with the token, where the page asks for one
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Time between two looks, 1s at least
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    every: Duration,
    /// End after so many looks [default: on q or Ctrl-C]
    #[arg(long, value_name = "N", value_parser = units::count)]
    count: Option<u64>,
}

const EXAMPLES: &str = "\
Keys: q or Esc quits, Tab and Shift-Tab change the list, arrows, PageUp, PageDown and Home scroll it.

Examples:
  ringtap sensor -i eth1 -S my.rules --web 127.0.0.1:9400 &
  ringtap top 127.0.0.1:9400
  ringtap top 127.0.0.1:9400 --count 2          two looks as text

See also ringtap trap top, which needs no server: it reads a station's store.";

/// Runs the command.
///
/// # Errors
/// As of [`ringtap_top::run`].
pub fn run(args: Args) -> Result<ExitCode> {
    let Args { address, token, every, count } = args;
    ringtap_top::run(&ringtap_top::Options { address, token, every, count })?;
    Ok(ExitCode::SUCCESS)
}

//! `ringtap capture`.

use std::process::ExitCode;

use ringtap::Result;

/// Capture packets from an interface or a file, into a file or just to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Interface to capture from.
    #[arg(short, long, value_name = "IF")]
    interface: String,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    println!("{}", args.interface);
    Ok(ExitCode::SUCCESS)
}

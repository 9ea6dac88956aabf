//! `ringtap completions`: what shells complete, from the same definitions as the help. Hidden: `make completions` is its user.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::{Shell, generate_to};
use ringtap::{Error, Result};

/// Write the completions of bash, zsh and fish.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder to write them into
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// A file can't be written.
pub fn run(args: Args) -> Result<ExitCode> {
    let failed = |error: &std::io::Error| {
        Error::os("write completions into", args.out.display().to_string(), error)
            .way_out("name a folder you may write to")
    };
    fs::create_dir_all(&args.out).map_err(|error| failed(&error))?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut crate::Cli::command(), "ringtap", &args.out).map_err(|error| failed(&error))?;
    }
    Ok(ExitCode::SUCCESS)
}

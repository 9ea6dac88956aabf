//! The lab's program: inside a guest it checks Ringtap on that guest's kernel and network card, outside it makes the table.
//!
//! Owns the command line. It changes interfaces and sends on them without asking, so it runs only where `lab/init` is
//! the first process: in a guest that has nothing but two cards joined by a wire.

mod bond;
mod cell;
mod checks;
mod flows;
mod host_use;
mod interrupts;
mod jitter;
mod outcome;
mod programs;
mod table;
mod timers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use cell::{Card, Expected};

/// Checks of Ringtap on real drivers and kernels, inside the lab's virtual machines
#[derive(Debug, Parser)]
#[command(name = "ringtap-lab")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run all checks between eth0 and eth1; one JSON object per line on standard output
    Check {
        /// Fail when the driver does not give zero-copy with busy poll
        #[arg(long)]
        expect_zero_copy: bool,
        /// Fail when the timer does not keep the card's interrupt masked
        #[arg(long)]
        expect_masked: bool,
        /// The card under test is at this PCI address, bound to vfio-pci, instead of being eth1
        #[arg(long, value_name = "ADDRESS")]
        vfio: Option<String>,
        /// Only checks whose name contains this
        #[arg(long)]
        only: Option<String>,
        /// How long each measurement of the check of jitter lasts
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=600))]
        jitter_seconds: u64,
    },
    /// Compare sources of time on this machine, in real time on its last CPU; one JSON object on standard output
    Timers {
        /// Between two ticks, microseconds
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
        period_us: u64,
        /// For each source
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
    },
    /// Receive until killed (what the check of a crash kills)
    #[command(hide = true)]
    Victim {
        #[arg(long)]
        vfio: Option<String>,
    },
    /// Print what guests reported; exits with 1 when a check failed or a guest did not come to its end
    Table {
        /// Files of results, named KERNEL,NIC.jsonl
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// As Markdown, for docs/kernels.md
        #[arg(long)]
        markdown: bool,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Check { expect_zero_copy, expect_masked, vfio, only, jitter_seconds } => {
            let expected = Expected { zero_copy: expect_zero_copy, masked: expect_masked };
            in_a_guest(|| checks::run(expected, card(vfio), only.as_deref(), jitter_seconds))
        }
        Command::Victim { vfio } => in_a_guest(|| checks::victim(card(vfio))),
        Command::Timers { period_us, seconds } => finish(timers(period_us, seconds).map(|()| true)),
        Command::Table { files, markdown } => finish(table::print(&files, markdown)),
    }
}

fn card(vfio: Option<String>) -> Card {
    vfio.map_or(Card::Kernel, Card::Own)
}

fn in_a_guest(run: impl FnOnce() -> ExitCode) -> ExitCode {
    if std::fs::read_link("/proc/1/exe").is_ok_and(|init| init.ends_with("busybox")) {
        return run();
    }
    eprintln!("ringtap-lab: this is no guest of the lab (its init is not busybox): run `make lab`");
    ExitCode::from(2)
}

fn timers(period_us: u64, seconds: u64) -> ringtap::Result<()> {
    let cpu = ringtap::sched::allowed_cpus().into_iter().next_back().unwrap_or(0);
    let timed = timers::compare(cpu, Duration::from_micros(period_us), seconds)?;
    println!("{}", serde_json::json!({ "cpu": cpu, "period_us": period_us, "seconds": seconds, "sources": timed }));
    Ok(())
}

fn finish<E: std::fmt::Display>(result: Result<bool, E>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ringtap-lab: {error}");
            ExitCode::FAILURE
        }
    }
}

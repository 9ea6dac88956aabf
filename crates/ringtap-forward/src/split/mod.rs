//! The splitter: each packet of one interface to the outputs that its flow, protocol or class is for.
//!
//! Owns what is asked for ([`Options`]) and what is left at the end ([`Done`]). A packet's way: engine → `handler` → `rule` (where
//! to; `flow`, `classes`) → `port` (one for each engine and output) → the output's transmit ring, or the spool of a file. `outputs`
//! opens and checks, `health` watches, `live` runs, `accounts` and `report` tell.
//!
//! **Engines.** Each engine has a transmit ring of its own for each output: no lock, and no queue in which packets would wait once
//! more. All packets of a flow, of both directions, are handled by one engine in the order of their arrival: where card or kernel
//! spread them over several, they are handed over before ([`ringtap::HandOver`]). So a flow's order on an output is that of its arrival.
//!
//! **Outputs that are down** have their flows moved to the others of their class by rendezvous hashing: no other flow moves, and
//! these come back when the output does.

mod accounts;
mod classes;
mod flow;
mod handler;
mod live;
mod outputs;
mod report;
mod rule;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use ringtap::record::LEAST_SPOOL_BYTES;
use ringtap::{Error, Result};
use ringtap_run::live::Live;
use serde::Serialize;

pub use outputs::{OutBackend, names_file};
pub use report::Summary;

/// By what packets are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// Addresses, ports, protocol and VLANs, the same for both directions.
    Flow,
    /// Addresses and VLANs alone: also flows some of whose packets are fragments stay whole.
    Hosts,
    /// Fixed classes: TCP, UDP, ICMP, other IP, not IP.
    Protocol,
    /// Classes by libpcap expressions, from this file.
    Classes(PathBuf),
}

/// What to split, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The interface, and what is asked of its receiver.
    pub input: Live,
    /// Interfaces, files and pipes, or `-` for standard output: 1 to 64.
    pub outputs: Vec<String>,
    /// By what.
    pub by: By,
    /// Packets of tunnels are told apart by what is inside.
    pub inner: bool,
    /// Chooses which flow goes where; the same value does so in every run. `None`: a random one.
    pub seed: Option<u64>,
    /// How frames are sent on interfaces.
    pub backend: OutBackend,
    /// Slots of each transmit ring, a power of two.
    pub slots: u32,
    /// Bytes between an engine and each file.
    pub spool_bytes: usize,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Report at this interval.
    pub stats: Option<Duration>,
    /// Reports are JSON objects.
    pub objects: bool,
    /// User to go on as.
    pub user: Option<String>,
    /// Keep all privileges.
    pub no_sandbox: bool,
}

impl Options {
    /// By flow, as long as nobody ends it.
    pub fn new(input: Live, outputs: Vec<String>) -> Self {
        Self {
            input,
            outputs,
            by: By::Flow,
            inner: false,
            seed: None,
            backend: OutBackend::Auto,
            slots: 4096,
            spool_bytes: ringtap::record::DEFAULT_SPOOL_BYTES,
            duration: None,
            stats: None,
            objects: false,
            user: None,
            no_sandbox: false,
        }
    }

    /// Refuses what can't be had, before anything is opened.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse =
            |option: &str, cause: String, way_out: &str| Err(Error::usage("use", option, cause).way_out(way_out));
        if !self.slots.is_power_of_two() || !(128..=65536).contains(&self.slots) {
            let cause = format!("{} slots", self.slots);
            return refuse("--out-ring", cause, "give a power of two from 128 to 65536");
        }
        if self.spool_bytes < LEAST_SPOOL_BYTES {
            let cause = format!("{} bytes are too few", self.spool_bytes);
            return refuse("--spool", cause, "give 64KiB or more");
        }
        self.input.check()
    }

    /// Whether packets go to standard output, so that nothing else may.
    pub fn writes_stdout(&self) -> bool {
        self.outputs.iter().any(|output| output == outputs::STDOUT)
    }
}

/// Why splitting came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
    /// The time asked for.
    Duration,
    /// The interface was removed, moved, or is used by the host now, or its engine ended.
    InputGone,
    /// No output is left that could come back.
    OutputsGone,
}

/// A run that came to its end.
#[derive(Debug)]
pub struct Done {
    /// What it came to.
    pub summary: Summary,
    /// What went wrong, if anything did; the summary holds.
    pub failure: Option<Error>,
}

/// Splits until the end, in a process of its own; the caller is its main thread and has no second one yet.
///
/// # Errors
/// What could not be set up, or ended it without an account.
pub fn run(options: &Options) -> Result<Done> {
    live::run(options)
}

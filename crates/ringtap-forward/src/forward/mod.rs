//! The forwarder: two interfaces become one wire. What comes by one leaves by the other, in one direction or in both.
//!
//! Owns what is asked for ([`Options`]) and what is left at the end ([`Done`]). A packet's way: engine → `handler` → the transmit ring of
//! the other interface. By AF_XDP both interfaces share one UMEM, and a packet is handed over by its descriptor; by packet rings and
//! DPDK it is copied once. One engine, with one wait, serves both. `live` runs, `accounts`, `report` and `metrics` tell.

mod accounts;
mod handler;
mod live;
mod metrics;
mod report;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ringtap::receiver::Backend;
use ringtap::{Error, Result};
use ringtap_run::live::Live;
use ringtap_web::Places;
use serde::Serialize;

pub use report::Summary;

/// What to forward, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The first interface, and what is asked of the receivers of both.
    pub first: Live,
    /// Name of the second interface.
    pub second: String,
    /// What comes by the second leaves by the first, too.
    pub both: bool,
    /// Slots of each transmit ring, a power of two.
    pub slots: u32,
    /// End after so many packets, of both directions together.
    pub count: Option<u64>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Report at this interval.
    pub stats: Option<Duration>,
    /// Reports are JSON objects.
    pub objects: bool,
    /// What is shown, and where.
    pub places: Places,
    /// User to go on as.
    pub user: Option<String>,
    /// Keep all privileges.
    pub no_sandbox: bool,
}

impl Options {
    /// From `first` to `second`, as long as nobody ends it.
    pub fn new(first: Live, second: impl Into<String>) -> Self {
        Self {
            first,
            second: second.into(),
            both: false,
            slots: 4096,
            count: None,
            duration: None,
            stats: None,
            objects: false,
            places: Places::default(),
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
        if self.count == Some(0) {
            return refuse("--count", "0 packets".to_owned(), "give 1 or more");
        }
        let backend = self.first.backend;
        if !matches!(backend, Backend::Auto | Backend::Xdp | Backend::Packet | Backend::Socket | Backend::Dpdk) {
            let cause = format!("{} does not forward", backend.name());
            return refuse("--backend", cause, "give auto, xdp, packet, socket or dpdk");
        }
        self.first.check()
    }
}

/// Why forwarding came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
    /// The time asked for.
    Duration,
    /// The number of packets asked for.
    Count,
    /// One of the interfaces was removed, moved, or is used by the host now, or the engine ended.
    PortGone,
}

/// A run that came to its end.
#[derive(Debug)]
pub struct Done {
    /// What it came to.
    pub summary: Summary,
    /// What went wrong, if anything did; the summary holds.
    pub failure: Option<Error>,
}

/// Forwards until the end, in a process of its own; the caller is its main thread and has no second one yet.
///
/// # Errors
/// What could not be set up, or ended it without an account.
pub fn run(options: &Options) -> Result<Done> {
    live::run(options)
}

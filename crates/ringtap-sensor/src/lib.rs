//! The intrusion sensor: Suricata's rules against an interface or capture files.
//!
//! ```no_run
//! use ringtap_run::live::Live;
//! use ringtap_sensor::{Input, Options, run};
//!
//! let mut options = Options::new(Input::Interfaces(vec![Live::new("eth1")]));
//! options.rules.files = vec!["my.rules".into()];
//! options.outputs.eve = Some("eve.json".into());
//! let done = run(&options)?;
//! print!("{}", done.summary.text());
//! # Ok::<(), ringtap::Error>(())
//! ```
//!
//! An alert's way: `inspector` (the engine's thread asks the detector) → `finds` (a [`Record`], and a [`datagram`] in the
//! transmit ring) → the queue of `ringtap-output` → `outputs` (the output thread makes [`eve`] lines and `notifications`).
//! What an interface and files share is in `session`; `live` and `replay` make the engines.
//!
//! Owns: rules to programs, their exchange while engines run, shedding, records and their forms, the summary. Does not: find
//! anything (`ringtap-detect` does), own rings (`ringtap`), write lines (`ringtap-output`), read a command line or print.
#![forbid(unsafe_code)]

mod catalogue;
mod community;
mod config;
pub mod datagram;
pub mod eve;
mod finds;
mod inspector;
mod live;
mod notifications;
mod options;
mod outputs;
mod pages;
mod programs;
mod record;
mod replay;
mod rules;
mod session;
mod shedding;
mod statistics;
mod summary;
#[cfg(test)]
mod tests;

pub use catalogue::{Catalogue, RuleText};
pub use community::community_id;
pub use options::{Bounds, DatagramTarget, Datagrams, Event, Input, Options, OutputOptions, RuleOptions, variable};
pub use record::{AlertRecord, AnomalyRecord, FlowFacts, FlowRecord, Place, Record, RuleKey, TaggedRecord};
pub use rules::check::{Check, check_rules};
pub use summary::{Ending, Run, Summary};

/// Runs a sensor until its input ends, its time is over or a signal comes. It listens for signals and gives up privileges: to be
/// called once in a process, from its first thread.
///
/// # Errors
/// What could not be set up, or an engine that panicked. What went wrong in a run that has a summary is in [`Run::failure`].
pub fn run(options: &Options) -> ringtap::Result<Run> {
    match &options.input {
        Input::Interfaces(lives) => live::run(options, lives),
        Input::Files(files) => replay::run(options, files),
    }
}

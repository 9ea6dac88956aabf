//! The intrusion sensor: Suricata's rules against an interface or capture files.
//!
//! ```no_run
//! use ringtap_run::live::Live;
//! use ringtap_sensor::{Input, Options, run};
//!
//! let mut options = Options::new(Input::Interfaces(vec![Live::new("eth1")]));
//! options.rules.files = vec!["my.rules".into()];
//! options.outputs.eve = Some("eve.json".into());
//! let done = run(&options, None)?;
//! print!("{}", done.summary.text());
//! # Ok::<(), ringtap::Error>(())
//! ```
//!
//! An alert's way: `inspector` (the engine's thread asks the detector) → `finds` (a [`Record`], and by `alarms` a datagram in a
//! transmit ring) → the queue of `ringtap-output` → `outputs` (the output thread makes [`eve`] lines and `notifications`).
//! What an interface and files share is in `session`; `live` and `replay` make the engines.
//!
//! Owns: rules to programs, their exchange while engines run, shedding, records and their forms, the summary. Does not: find
//! anything (`ringtap-detect` does), own rings (`ringtap`), write lines (`ringtap-output`), read a command line or print.
#![forbid(unsafe_code)]

mod account;
mod alarms;
mod blinding;
mod catalogue;
mod community;
pub mod config;
mod correlating;
pub mod eve;
mod finds;
mod heart;
mod identity;
mod inspector;
mod live;
mod memory;
mod metrics;
mod notifications;
mod numbers;
mod options;
mod outputs;
mod pages;
mod pcap_log;
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
mod view;

pub use catalogue::{Catalogue, RuleText};
pub use community::community_id;
pub use correlating::{Correlate, OpenCorrelator, Opened};
pub use options::{
    AlarmOptions, Bounds, DatagramTarget, Datagrams, Event, Input, LineTarget, Options, OutputOptions, PcapLog,
    RuleOptions, WithAlerts, variable,
};
pub use record::{
    AlertRecord, AnomalyRecord, FileName, FlowFacts, FlowRecord, FrameFacts, PayloadFacts, Place, Record, RuleKey,
    Said, TaggedRecord, TransactionRecord,
};
pub use ringtap_datagram::SensorId;
pub use rules::check::{Check, check_rules};
pub use summary::{Ending, Run, Summary};

/// Runs a sensor, and a correlator of its alarms where one is asked for, until its input ends, its time is over or a signal comes. It
/// listens for signals and gives up privileges: to be called once in a process, from its first thread.
///
/// # Errors
/// What could not be set up, or an engine that panicked. What went wrong in a run that has a summary is in [`Run::failure`].
pub fn run(options: &Options, correlate: Option<Correlate>) -> ringtap::Result<Run> {
    match &options.input {
        Input::Interfaces(lives) => live::run(options, lives, correlate),
        Input::Files(files) => replay::run(options, files, correlate),
    }
}

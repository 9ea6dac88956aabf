//! The capture tool: packets from interfaces or from files, through the engine, into a file or just counted, with an account of
//! every one.
//!
//! Owns what is captured ([`Capture`]) and what becomes of each packet behind the engine. `live` and `replay` run, `supervise`
//! watches, `report` speaks meanwhile, `summary` at the end. Does not: read arguments, choose an exit code, or know how a receiver
//! is set up (`ringtap-run`).

#![forbid(unsafe_code)]

mod accounts;
mod advice;
mod handler;
mod last;
mod live;
mod metrics;
mod object;
mod replay;
mod report;
mod summary;
mod supervise;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ringtap::ledger::{Cause, Ledger};
use ringtap::record::{LONGEST_READABLE, RecordConfig, Target};
use ringtap::source::file::Pace;
use ringtap::{Error, Result};
use ringtap_run::filter::Filter;
use ringtap_run::live::Live;
use ringtap_run::process::Process;
use ringtap_run::sandbox::Needs;
use ringtap_web::Places;

pub use accounts::Tally;
pub use last::KeepLast;
pub use report::Streams;
pub use summary::{CpuUse, Summary};
pub use supervise::Ending;

/// Where packets come from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// Interfaces, each with what is asked of its receiver. How many bytes are kept of each packet follows from the capture.
    Interfaces(Vec<Live>),
    /// Capture files, one after another.
    Files {
        /// The files.
        files: Vec<PathBuf>,
        /// How fast.
        pace: Pace,
    },
}

/// A capture.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Where packets come from.
    pub origin: Origin,
    /// What to keep, as in pcap-filter(7).
    pub filter: Option<String>,
    /// End after so many packets (after the filter).
    pub count: Option<u64>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Keep at most so many bytes of each packet.
    pub snaplen: Option<u32>,
    /// What to record into; the number of spools follows from the queues.
    pub record: Option<RecordConfig>,
    /// Of interfaces: what is recorded stays in memory until it is asked for (SIGUSR1); `None`: all is written.
    pub keep_last: Option<KeepLast>,
    /// A packet that was wanted and is lost is an error.
    pub fail_on_loss: bool,
    /// Report at this interval.
    pub stats: Option<Duration>,
    /// Reports at intervals are JSON objects.
    pub objects: bool,
    /// Of interfaces: what is shown while it runs, and where.
    pub places: Places,
}

/// A capture that came to its end.
#[derive(Debug)]
pub struct Ended {
    /// What it came to.
    pub summary: Summary,
    /// What went wrong, if anything did; the summary holds.
    pub error: Option<Error>,
}

impl Capture {
    /// Everything of `origin`, without an end, kept nowhere.
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            filter: None,
            count: None,
            duration: None,
            snaplen: None,
            record: None,
            keep_last: None,
            fail_on_loss: false,
            stats: None,
            objects: false,
            places: Places::default(),
        }
    }

    /// Runs it to its end, in `process`, whose main thread this is.
    ///
    /// # Errors
    /// What could not be set up, or ended the capture without an account.
    pub fn run(&self, process: &Process, streams: &mut Streams) -> Result<Ended> {
        match &self.origin {
            Origin::Interfaces(lives) => live::run(self, lives, process, streams),
            Origin::Files { files, pace } => replay::run(self, files, *pace, process, streams),
        }
    }

    /// Whether packets go to standard output, so that nothing else may.
    pub fn records_to_stdout(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.target == Target::Stdout)
    }

    /// With `fail_on_loss`: what was wanted and lost, as an error. What came after `count` was not wanted.
    fn loss(&self, ledger: &Ledger, object: &str) -> Option<Error> {
        let at_limit = ledger.drops.get(&Cause::LeftAtLimit).copied().flatten().unwrap_or(0);
        let (lost, unaccounted) = (ledger.lost() - at_limit, ledger.unaccounted().unwrap_or(0));
        let is_failure = self.fail_on_loss && (lost > 0 || unaccounted != 0);
        let cause = format!("{lost} packets are lost and {unaccounted} unaccounted for");
        is_failure
            .then(|| Error::failed("capture all of", object, cause).way_out("the summary tells causes and advice"))
    }

    /// The filter, compiled for packets of this link type.
    fn compile_filter(&self, link_type: u16) -> Result<Option<Filter>> {
        self.filter.as_ref().map(|text| Filter::compile(text, link_type)).transpose()
    }

    /// Bytes to keep of each packet.
    fn kept_bytes(&self) -> usize {
        let most = if self.record.is_some() { LONGEST_READABLE } else { usize::MAX };
        self.snaplen.map_or(most, |snaplen| most.min(snaplen as usize))
    }

    /// The file, or the pattern of files, that is written.
    fn file(&self) -> Option<&Path> {
        match &self.record.as_ref()?.target {
            Target::File(path) => Some(path),
            Target::Stdout | Target::Clients => None,
        }
    }

    /// What is still done once all is set up. `rings`: packets come by rings.
    fn needs(&self, rings: bool) -> Needs<'_> {
        let (mut reads, mut removes) = (Vec::new(), Vec::new());
        match &self.origin {
            Origin::Interfaces(lives) => {
                removes.extend(lives.iter().flat_map(|live| live.dpdk.socket_folders()));
            }
            Origin::Files { files, .. } => reads.extend(files.iter().map(PathBuf::as_path)),
        }
        Needs { rings, reads, writes: Vec::from_iter(self.file()), removes, ..Needs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(file: &str) -> Capture {
        Capture::new(Origin::Files { files: vec![file.into()], pace: Pace::AsFast })
    }

    #[test]
    fn what_is_kept_of_a_packet_fits_the_readers_of_recordings() {
        let counted = of("a.pcap");
        let recorded = Capture { record: Some(RecordConfig::new("b.pcap")), ..counted.clone() };
        assert_eq!((counted.kept_bytes(), recorded.kept_bytes()), (usize::MAX, LONGEST_READABLE));
        assert_eq!(Capture { snaplen: Some(96), ..recorded.clone() }.kept_bytes(), 96);
        assert_eq!(Capture { snaplen: Some(u32::MAX), ..recorded }.kept_bytes(), LONGEST_READABLE);
    }

    #[test]
    fn only_files_are_needed_afterwards() {
        let to_stdout = Capture { record: Some(RecordConfig::new("-")), ..of("a.pcap") };
        let needs = to_stdout.needs(false);
        assert!(to_stdout.records_to_stdout() && needs.writes.is_empty() && needs.reads == [Path::new("a.pcap")]);
        let live = Capture { origin: Origin::Interfaces(vec![Live::new("eth1")]), ..of("") };
        let live = Capture { record: Some(RecordConfig::new("b.pcap")), ..live };
        assert!(live.needs(true).rings && live.needs(true).reads.is_empty());
        assert_eq!(live.needs(true).writes, [Path::new("b.pcap")]);
    }

    #[test]
    fn loss_fails_where_it_is_asked_to_and_was_wanted() {
        let mut ledger = Ledger { offered: Some(100), delivered: 90, filtered: Some(0), ..Ledger::default() };
        ledger.drop(Cause::LeftAtLimit, Some(10));
        let strict = Capture { fail_on_loss: true, ..of("a.pcap") };
        assert!(strict.loss(&ledger, "eth1").is_none(), "beyond --count");
        ledger.drop(Cause::RingFull, Some(3));
        assert!(of("a.pcap").loss(&ledger, "eth1").is_none());
        let error = strict.loss(&ledger, "eth1").unwrap().to_string();
        assert!(error.contains("3 packets are lost and -3 unaccounted for"), "{error}");
    }
}

//! Options of the sensor's capture file of flows with alerts.
//!
//! Owns their spelling; what they do is `ringtap_sensor`'s, and the file `ringtap::record`'s.

use std::path::PathBuf;
use std::time::Duration;

use ringtap::record::{LONGEST_READABLE, RecordConfig, Rotation};
use ringtap::{Error, Result};
use ringtap_run::units;
use ringtap_sensor::PcapLog;

use crate::outputs;
use crate::words::{Words, one_of};

/// Whose packets are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Of flows with alerts.
    Alerts,
}

const WHICH: Words<Which> =
    &[("alerts", "Of flows with alerts, and single packets with alerts that belong to no flow", Which::Alerts)];

/// Where they go, and how many are kept.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Packets")]
pub struct PcapLogArgs {
    /// Write packets into a capture file: also what was in memory of the flow when the alert came
    #[arg(long, value_name = "WHICH", value_parser = one_of(WHICH), requires = "pcap_file")]
    pcap_log: Option<Which>,
    /// That file; a name that ends in .pcap gives that format, others pcapng; .zst behind it compresses
    #[arg(long, value_name = "FILE", requires = "pcap_log")]
    pcap_file: Option<PathBuf>,
    /// So long the packets of all flows stay in memory, as an alert may come; they are in the file that much later
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration, requires = "pcap_log")]
    pcap_keep: Duration,
    /// Memory for that, of each engine; where it is too small for the time the newest push out the oldest
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = units::size_from(2 * LONGEST_READABLE as u64, "holds no packet of full length"), requires = "pcap_log")]
    pcap_keep_size: u64,
    /// Begin a new file before one exceeds this size (compressed, where it is); names get a number and the time
    #[arg(long, value_name = "SIZE", value_parser = outputs::rotate_packets(), requires = "pcap_log")]
    pcap_rotate_size: Option<u64>,
    /// Begin a new file after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "pcap_log")]
    pcap_rotate_time: Option<Duration>,
    /// Keep so many files, the newest
    #[arg(long, value_name = "N", value_parser = units::count, requires = "pcap_log")]
    pcap_rotate_keep: Option<u64>,
    /// Leave so much of the file system free: with --pcap-rotate-keep the oldest files go first, else the log ends
    #[arg(long, value_name = "SIZE", value_parser = units::size, requires = "pcap_log")]
    pcap_min_free: Option<u64>,
    /// Memory between each engine and the disk
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = units::size, requires = "pcap_log")]
    pcap_spool: u64,
}

impl PcapLogArgs {
    /// What they mean.
    ///
    /// # Errors
    /// Packets would go to standard output, where the summary does.
    pub fn log(self) -> Result<Option<PcapLog>> {
        let Some((Which::Alerts, file)) = self.pcap_log.zip(self.pcap_file) else { return Ok(None) };
        if file.as_os_str() == "-" {
            let cause = "the summary goes to standard output";
            return Err(Error::usage("use", "--pcap-file -", cause).way_out("name a file"));
        }
        let bytes = |size| usize::try_from(size).unwrap_or(usize::MAX);
        let record = RecordConfig {
            rotation: Rotation {
                size: self.pcap_rotate_size,
                time: self.pcap_rotate_time,
                keep: self.pcap_rotate_keep.map(bytes),
            },
            min_free: self.pcap_min_free,
            spool_bytes: bytes(self.pcap_spool),
            ..RecordConfig::new(file)
        };
        Ok(Some(PcapLog { record, before: self.pcap_keep, memory: bytes(self.pcap_keep_size) }))
    }
}

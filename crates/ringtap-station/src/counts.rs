//! What the station's threads count between receiving and the disk.
//!
//! Owns the counters, each written by one thread. The account they make is `status`'.

use std::sync::atomic::{AtomicU64, Ordering};

use ringtap::histogram::Histogram;

use crate::cause::CauseCounts;

/// What the station counted; one thread writes, any reads.
#[derive(Debug, Default)]
pub struct StationCounts {
    /// Datagrams and TCP messages looked at.
    pub seen: AtomicU64,
    /// SNMP notifications among them, by version: v1, v2c, v3.
    pub snmp: [AtomicU64; 3],
    /// Syslog messages among them.
    pub syslog: AtomicU64,
    /// Informs among the notifications.
    pub informs: AtomicU64,
    /// Changes of alarms that were announced.
    pub announced: AtomicU64,
    /// Notifications whose varbinds could not all be read.
    pub damaged: AtomicU64,
    /// Notifications of conditions for which the table of alarms had no room; they are stored.
    pub table_full: AtomicU64,
    /// Why others became no notification.
    pub causes: CauseCounts,
    /// Alarms in the table.
    pub alarms: AtomicU64,
    /// Alarms raised.
    pub raised: AtomicU64,
    /// Notifications in the store.
    pub stored: AtomicU64,
    /// Notifications that could not be stored before the end.
    pub not_stored: AtomicU64,
    /// Answers and Reports sent.
    pub answered: AtomicU64,
    /// Reports that were due and not sent, as there were too many.
    pub reports_withheld: AtomicU64,
    /// Times the wall clock was set by more than a second.
    pub clock_jumps: AtomicU64,
    /// From arrival to the alarm, nanoseconds.
    pub to_alarm: Histogram,
    /// From arrival to the disk, nanoseconds; one value per batch: its oldest notification.
    pub to_disk: Histogram,
}

impl StationCounts {
    /// Notifications taken.
    pub fn notifications(&self) -> u64 {
        self.snmp.iter().chain([&self.syslog]).map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

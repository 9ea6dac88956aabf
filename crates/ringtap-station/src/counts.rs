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
    /// Notifications of conditions for which their sender, its network or strangers have all alarms that they may; they are stored.
    pub share_full: AtomicU64,
    /// Notifications of alarms that something more authentic had raised; they are stored and change nothing.
    pub not_authentic: AtomicU64,
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
    /// Open incidents of root cause.
    pub incidents: AtomicU64,
    /// Alarms that are held until their cause is decided.
    pub held: AtomicU64,
    /// Alarms that were cleared while they were held, and so never announced.
    pub transients: AtomicU64,
    /// Alarms that root cause had no room for; they were announced by themselves.
    pub unexamined: AtomicU64,
    /// Changes of alarms that were announced by themselves as too many waited for root cause.
    pub passed_by: AtomicU64,
    /// Incidents announced, revisions counted.
    pub incidents_told: AtomicU64,
    /// Storms of alarms.
    pub storms: AtomicU64,
    /// From arrival to the alarm, nanoseconds.
    pub to_alarm: Histogram,
    /// From arrival to the disk, nanoseconds; one value per batch: its oldest notification.
    pub to_disk: Histogram,
}

/// What became of connections of syslog; one thread writes, any reads.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    /// Open ones.
    pub open: AtomicU64,
    /// Refused: their address is not taken, or has, or all have, as many as may be.
    pub refused: AtomicU64,
    /// Ended because a message or a handshake was not whole in time.
    pub timed_out: AtomicU64,
    /// Those that gave their place to another.
    pub closed: AtomicU64,
    /// Times the kernel gave no connection that waited, such as for want of descriptors.
    pub not_accepted: AtomicU64,
}

impl StationCounts {
    /// Notifications taken.
    pub fn notifications(&self) -> u64 {
        self.snmp.iter().chain([&self.syslog]).map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

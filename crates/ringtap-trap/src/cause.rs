//! Why a datagram became no notification: the station's part of the ledger.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Why a datagram or message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No BER, or not what SNMP says.
    Malformed,
    /// Neither v1, v2c nor v3.
    OtherVersion,
    /// A request or response sent to the wrong port.
    NotANotification,
    /// A community that is not configured.
    Community,
    /// Another security model than USM.
    SecurityModel,
    /// The question for our engine ID; it was answered.
    Discovery,
    /// usmStatsUnknownEngineIDs.
    UnknownEngine,
    /// usmStatsUnknownUserNames.
    UnknownUser,
    /// usmStatsUnsupportedSecLevels: other security than the user has.
    SecurityLevel,
    /// usmStatsWrongDigests: another password, or changed on the way.
    WrongDigest,
    /// usmStatsNotInTimeWindows: old, replayed, or not synchronised yet.
    TimeWindow,
    /// usmStatsDecryptionErrors.
    Decryption,
    /// The same authenticated message again, within the window.
    Replayed,
    /// Longer than the receive buffer.
    Oversize,
    /// Syslog without a byte of text.
    EmptySyslog,
    /// Syslog over TCP that is framed in neither way.
    SyslogFraming,
}

/// All causes, in order.
pub const CAUSES: [Cause; 16] = [
    Cause::Malformed,
    Cause::OtherVersion,
    Cause::NotANotification,
    Cause::Community,
    Cause::SecurityModel,
    Cause::Discovery,
    Cause::UnknownEngine,
    Cause::UnknownUser,
    Cause::SecurityLevel,
    Cause::WrongDigest,
    Cause::TimeWindow,
    Cause::Decryption,
    Cause::Replayed,
    Cause::Oversize,
    Cause::EmptySyslog,
    Cause::SyslogFraming,
];

impl Cause {
    /// Its name in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::OtherVersion => "other_version",
            Self::NotANotification => "not_a_notification",
            Self::Community => "community",
            Self::SecurityModel => "security_model",
            Self::Discovery => "discovery",
            Self::UnknownEngine => "unknown_engine",
            Self::UnknownUser => "unknown_user",
            Self::SecurityLevel => "security_level",
            Self::WrongDigest => "wrong_digest",
            Self::TimeWindow => "time_window",
            Self::Decryption => "decryption",
            Self::Replayed => "replayed",
            Self::Oversize => "oversize",
            Self::EmptySyslog => "empty_syslog",
            Self::SyslogFraming => "syslog_framing",
        }
    }
}

/// Counts by cause; one thread writes, any reads.
#[derive(Debug, Default)]
pub struct CauseCounts([AtomicU64; CAUSES.len()]);

impl CauseCounts {
    /// One more.
    pub fn add(&self, cause: Cause) {
        self.0[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn read(&self, cause: Cause) -> u64 {
        self.0[cause as usize].load(Ordering::Relaxed)
    }

    /// The causes that occurred.
    pub fn all(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        CAUSES.into_iter().map(|cause| (cause, self.read(cause))).filter(|&(_, count)| count > 0)
    }

    /// Over all causes.
    pub fn total(&self) -> u64 {
        CAUSES.into_iter().map(|cause| self.read(cause)).sum()
    }
}

//! Why an SNMP datagram became no notification.
//!
//! Owns the reasons that SNMP itself has, and their names. Counting them is for whoever receives.

use serde::Serialize;

/// Why a datagram was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// No BER, or not what SNMP says.
    Malformed,
    /// Neither v1, v2c nor v3.
    OtherVersion,
    /// v1 or v2c where only v3 is taken.
    VersionOff,
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
}

impl Refusal {
    /// All of them, in the order of their numbers (`as usize`).
    pub const ALL: [Self; 14] = [
        Self::Malformed,
        Self::OtherVersion,
        Self::VersionOff,
        Self::NotANotification,
        Self::Community,
        Self::SecurityModel,
        Self::Discovery,
        Self::UnknownEngine,
        Self::UnknownUser,
        Self::SecurityLevel,
        Self::WrongDigest,
        Self::TimeWindow,
        Self::Decryption,
        Self::Replayed,
    ];

    /// Its name in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::OtherVersion => "other_version",
            Self::VersionOff => "version_off",
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;

    #[test]
    fn the_list_is_in_the_order_of_numbers() {
        for (number, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal as usize, number, "{}", refusal.name());
        }
    }
}

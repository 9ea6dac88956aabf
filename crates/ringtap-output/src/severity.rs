//! Owns: how severe a condition is (X.733 §8.1.2.3, by the names of RFC 8632), and what that is to syslog.
//! Does not: decide it, or know states: a condition that is gone has no severity.

use serde::{Deserialize, Serialize};

/// Perceived severity, least severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Not known.
    Indeterminate,
    /// Warning.
    Warning,
    /// Minor.
    Minor,
    /// Major.
    Major,
    /// Critical.
    Critical,
}

/// Each, with its name in RFC 8632 and the level that rules of Sigma name it by.
const NAMES: [(Severity, &str, &str); 5] = [
    (Severity::Indeterminate, "indeterminate", "informational"),
    (Severity::Warning, "warning", "low"),
    (Severity::Minor, "minor", "medium"),
    (Severity::Major, "major", "high"),
    (Severity::Critical, "critical", "critical"),
];

impl Severity {
    /// Its name in RFC 8632.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// By its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.into_iter().find(|(_, known, _)| *known == name).map(|(severity, ..)| severity)
    }

    /// The level of a rule of Sigma, and of an incident.
    #[must_use]
    pub fn level(self) -> &'static str {
        NAMES[self as usize].2
    }

    /// By the name of the level.
    #[must_use]
    pub fn from_level(level: &str) -> Option<Self> {
        NAMES.into_iter().find(|(_, _, known)| *known == level).map(|(severity, ..)| severity)
    }
}

/// Syslog's severity (RFC 5424 §6.2.1) by the mapping of RFC 5674 §2.1; `None` is a condition that is gone or none at all: notice.
pub(crate) fn syslog(severity: Option<Severity>) -> u8 {
    match severity {
        Some(Severity::Critical) => 1,
        Some(Severity::Major) => 2,
        Some(Severity::Minor) => 3,
        Some(Severity::Warning) => 4,
        Some(Severity::Indeterminate) | None => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_order() {
        for severity in
            [Severity::Indeterminate, Severity::Warning, Severity::Minor, Severity::Major, Severity::Critical]
        {
            assert_eq!(Severity::from_name(severity.name()), Some(severity));
            assert_eq!(Severity::from_level(severity.level()), Some(severity));
            assert_eq!(NAMES[severity as usize].0, severity);
        }
        assert_eq!(Severity::from_name("cleared"), None);
        assert!(
            Severity::Critical > Severity::Major && syslog(Some(Severity::Critical)) < syslog(Some(Severity::Major))
        );
        assert_eq!(syslog(None), 5);
    }
}

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

impl Severity {
    /// Its name in RFC 8632.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Indeterminate => "indeterminate",
            Self::Warning => "warning",
            Self::Minor => "minor",
            Self::Major => "major",
            Self::Critical => "critical",
        }
    }

    /// By its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Indeterminate, Self::Warning, Self::Minor, Self::Major, Self::Critical]
            .into_iter()
            .find(|severity| severity.name() == name)
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
        }
        assert_eq!(Severity::from_name("cleared"), None);
        assert!(
            Severity::Critical > Severity::Major && syslog(Some(Severity::Critical)) < syslog(Some(Severity::Major))
        );
        assert_eq!(syslog(None), 5);
    }
}

//! When alarms expire: those that nobody tells of any more and that nothing clears.
//!
//! Owns how long each condition's may be quiet. Clearing them is the table's.

use std::collections::HashMap;
use std::time::Duration;

use ringtap_run::units;
use schemars::JsonSchema;
use serde::Deserialize;

/// How long an alarm may be quiet, as one writes it: a time, or `never`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct After(Option<Duration>);

impl TryFrom<String> for After {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "never" => Ok(Self(None)),
            text => Ok(Self(Some(units::duration(text).map_err(|wanted| format!("{wanted}, or \"never\""))?))),
        }
    }
}

/// When alarms expire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expiry {
    /// Nanoseconds; `None`: never.
    default_ns: Option<u64>,
    by_condition: HashMap<String, Option<u64>>,
}

impl Expiry {
    /// Of all alarms, and of those with these conditions.
    pub fn new(default: Option<After>, conditions: impl IntoIterator<Item = (String, After)>) -> Self {
        let ns = |After(after): After| after.map(|after| after.as_nanos() as u64);
        let by_condition = conditions.into_iter().map(|(condition, after)| (condition, ns(after))).collect();
        Self { default_ns: default.and_then(ns), by_condition }
    }

    /// Whether no alarm ever expires.
    pub fn is_never(&self) -> bool {
        self.default_ns.is_none() && self.by_condition.values().all(Option::is_none)
    }

    /// Nanoseconds without a notification after which an alarm of this condition expires.
    pub fn of(&self, condition: &str) -> Option<u64> {
        self.by_condition.get(condition).copied().unwrap_or(self.default_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_goes_before_the_default() {
        let after = |text: &str| After::try_from(text.to_owned()).unwrap();
        let expiry = Expiry::new(Some(after("24h")), [("a".to_owned(), after("1s")), ("b".to_owned(), after("never"))]);
        assert_eq!(
            (expiry.of("a"), expiry.of("b"), expiry.of("c")),
            (Some(1_000_000_000), None, Some(86_400_000_000_000))
        );
        assert!(!expiry.is_never() && Expiry::default().is_never() && Expiry::new(Some(after("never")), []).is_never());
        let error = After::try_from("soon".to_owned()).unwrap_err();
        assert!(error.contains("soon") && error.contains("never"), "{error}");
    }
}

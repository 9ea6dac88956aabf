//! One line of results, as the guest writes it and the table reads it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What came of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Passed,
    Failed,
    /// This kernel or card does not have what would be checked; `detail` says what.
    Absent,
}

/// A check's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) state: State,
    /// One sentence: what was seen, or what is wrong.
    pub(crate) detail: String,
    /// What was measured, by name with its unit.
    #[serde(default)]
    pub(crate) figures: BTreeMap<String, serde_json::Value>,
}

impl Outcome {
    pub(crate) fn passed(detail: impl Into<String>) -> Self {
        Self { state: State::Passed, detail: detail.into(), figures: BTreeMap::new() }
    }

    pub(crate) fn failed(detail: impl Into<String>) -> Self {
        Self { state: State::Failed, ..Self::passed(detail) }
    }

    pub(crate) fn absent(detail: impl Into<String>) -> Self {
        Self { state: State::Absent, ..Self::passed(detail) }
    }

    /// Passed when nothing is wrong, else failed with all that is.
    pub(crate) fn of(wrong: &[String], seen: impl Into<String>) -> Self {
        if wrong.is_empty() { Self::passed(seen) } else { Self::failed(wrong.join("; ")) }
    }

    #[must_use]
    pub(crate) fn figure(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        self.figures.insert(name.to_owned(), value.into());
        self
    }
}

/// One line on the results' serial port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(crate) enum Line {
    /// First: what the guest is.
    Cell { kernel: String, driver: String, queues: u32 },
    /// Then one for each check.
    Check {
        name: String,
        seconds: f64,
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// Last: the guest came to its end.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back_as_it_was_written() {
        let outcome = Outcome::of(&["a".to_owned(), "b".to_owned()], "fine").figure("packets", 7);
        assert_eq!((outcome.state, outcome.detail.as_str()), (State::Failed, "a; b"));
        let line = Line::Check { name: "x".into(), seconds: 0.5, outcome };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line, "{text}");
    }
}

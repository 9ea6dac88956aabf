//! Owns: one event as every input gives it: when, which, from whom, and what it says by EVE's names.
//! Does not: read any input's format.

use std::sync::Arc;

use ringtap_sigma::Mark;
use serde_json::Value as Json;

/// Where an event comes from, which is how its fields are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Format {
    /// EVE JSON, of Suricata or of the sensor.
    Eve = 1,
    /// An alarm of the station, as its outputs tell it.
    Alarm = 2,
    /// Any other JSON with a time.
    Json = 3,
}

impl Format {
    /// All.
    pub const ALL: [Self; 3] = [Self::Eve, Self::Alarm, Self::Json];

    /// Its name in options and texts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Eve => "eve",
            Self::Alarm => "alarm",
            Self::Json => "json",
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|format| *format as u8 == number)
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its format.
    pub format: Format,
    /// When it happened, which one it is, and whose clock said so.
    pub mark: Mark,
    /// The sensor's name.
    pub sensor: Arc<str>,
    /// The line as it came, without its line feed: what the log keeps.
    pub line: Box<str>,
    /// The same, parsed, addresses in their canonical form.
    pub content: Json,
}

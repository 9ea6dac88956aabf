//! Owns: one event as every input gives it: when, which, from whom, and what it says by EVE's names.
//! Does not: read any input's format.

use std::borrow::Cow;
use std::sync::Arc;

use ringtap_sigma::Mark;
use serde_json::Value as Json;

use crate::alarm::Alarm;

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

    /// Of its number in a log.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
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
    /// What it says.
    pub said: Said,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A line of JSON.
    Line {
        /// As it came, without its line feed: what the log keeps.
        line: Box<str>,
        /// The same, parsed, addresses in their canonical form.
        content: Json,
    },
    /// An alarm that a registered sensor has sealed. Its line is written when somebody asks for it.
    Alarm(Box<Alarm>),
}

impl Event {
    /// The line, without a line feed.
    #[must_use]
    pub fn line(&self) -> Cow<'_, str> {
        match &self.said {
            Said::Line { line, .. } => Cow::Borrowed(line),
            Said::Alarm(alarm) => Cow::Owned(alarm.line()),
        }
    }

    /// The line parsed, addresses in their canonical form.
    #[must_use]
    pub fn content(&self) -> Cow<'_, Json> {
        match &self.said {
            Said::Line { content, .. } => Cow::Borrowed(content),
            Said::Alarm(alarm) => Cow::Owned(alarm.content()),
        }
    }

    /// Whether its sensor has numbered it.
    #[must_use]
    pub fn is_numbered(&self) -> bool {
        matches!(self.said, Said::Alarm(_))
    }

    /// Whether it has what the lines of our sensors alone have, and was not taken for one: another version wrote it, or it is damaged. As
    /// an event without a number it would count twice. What a sensor writes to its log is no such line.
    #[must_use]
    pub fn is_like_a_sensor_s(&self) -> bool {
        matches!(&self.said, Said::Line { content, .. } if content["ringtap"].get("boot_id").is_some())
    }

    /// Bytes that it takes, near enough: parsed JSON takes several times its text.
    #[must_use]
    pub fn weight(&self) -> usize {
        match &self.said {
            Said::Line { line, .. } => size_of::<Self>() + 4 * line.len(),
            Said::Alarm(_) => size_of::<Self>() + size_of::<Alarm>(),
        }
    }
}

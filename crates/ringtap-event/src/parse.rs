//! Owns: a line of JSON into an event: its format, its time, its sensor.
//! Does not: number equal records; that needs to know what came before, and is [`Numbers`](crate::identity::Numbers)'.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use ringtap_sigma::{Clock, Identity, Mark};
use serde_json::Value as Json;
use twox_hash::XxHash64;

use crate::event::{Event, Format, Said};
use crate::fields::canonical;

/// Longest line, bytes: far beyond any alert, so that a file without line feeds takes no more memory than this.
pub const MAX_LINE: usize = 1 << 20;

/// Longest name of a sensor, bytes: it is in the log, and in each line that tells of it.
pub const MAX_NAME: usize = 255;

/// How lines are to be understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Each line as it looks.
    #[default]
    Auto,
    /// EVE only.
    Eve,
    /// JSON lines; no line is looked at more closely.
    Json,
}

/// An event or promise is from the future beyond the receipt, the error of its clock and this, ns.
const FUTURE_NS: i64 = 1_000_000_000;
/// What is allowed for a clock of which no error is known, ns: clocks that nobody sets are seldom farther off.
const UNKNOWN_ERROR_NS: i64 = 60_000_000_000;
/// Names of the time in JSON lines, the first that is there counts.
const TIMES: [&str; 9] =
    ["timestamp", "@timestamp", "time", "_time", "ts", "event.created", "eventTime", "EventTime", "UtcTime"];

/// Why a line is no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bad {
    /// No JSON, or no object.
    NoObject(String),
    /// It has no time, or one that is none.
    NoTime(String),
    /// It is too long.
    TooLong,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoObject(why) => write!(f, "expected one JSON object: {why}"),
            Self::NoTime(why) => f.write_str(why),
            Self::TooLong => write!(f, "the line is longer than {} bytes", MAX_LINE),
        }
    }
}

/// Makes events of lines of one input.
#[derive(Clone, Debug)]
pub struct Parser {
    wanted: Wanted,
    /// The sensor of lines that name none.
    name: Arc<str>,
    /// The last one that a line named: mostly the next line's, too.
    last: Arc<str>,
}

impl Parser {
    /// For an input of this name.
    #[must_use]
    pub fn new(wanted: Wanted, name: &str) -> Self {
        Self { wanted, name: name.into(), last: name.into() }
    }

    /// The event of a line; `sequence` of its identity is 0 still.
    ///
    /// # Errors
    /// It is none.
    pub fn event(&mut self, line: &[u8]) -> Result<Event, Bad> {
        let text = std::str::from_utf8(line).map_err(|error| Bad::NoObject(error.to_string()))?;
        let mut content: Json =
            serde_json::from_str(text).map_err(|error| Bad::NoObject(within_the_line(&error.to_string())))?;
        let Json::Object(object) = &content else { return Err(Bad::NoObject("this is another value".into())) };
        let is = |name: &str| object.get(name).is_some();
        let format = match self.wanted {
            Wanted::Eve => Format::Eve,
            Wanted::Json => Format::Json,
            Wanted::Auto if is("changed_ns") && is("condition") && is("resource") => Format::Alarm,
            Wanted::Auto if is("timestamp") && is("event_type") => Format::Eve,
            Wanted::Auto => Format::Json,
        };
        let time_ns = time(&content, format)?;
        let sensor = self.sensor(&content, format);
        canonical(&mut content, format);
        let number = hash(sensor.as_bytes());
        let identity = Identity { sensor: number, epoch: hash(line), sequence: 0 };
        let mark = Mark { time_ns, identity, clock: Clock { domain: number, error_us: None } };
        Ok(Event { format, mark, sensor, said: Said::Line { line: text.into(), content } })
    }

    fn sensor(&mut self, content: &Json, format: Format) -> Arc<str> {
        let names: &[&str] = match format {
            Format::Eve => &["host"],
            Format::Json => &["sensor"],
            Format::Alarm => &[],
        };
        let named = names.iter().find_map(|name| content.get(name)?.as_str());
        // The log has a length of two bytes for it.
        let Some(name) = named.filter(|name| !name.is_empty() && name.len() <= MAX_NAME) else {
            return Arc::clone(&self.name);
        };
        if *self.last != *name {
            self.last = name.into();
        }
        Arc::clone(&self.last)
    }
}

/// A number that stays the same everywhere.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    XxHash64::oneshot(0, bytes)
}

/// Whether a stamp lies in the future of the time it was received at.
#[must_use]
pub fn is_from_the_future(time_ns: i64, error_us: Option<u32>, now_ns: i64) -> bool {
    let error_ns = error_us.map_or(UNKNOWN_ERROR_NS, |error| i64::from(error) * 1000);
    time_ns > now_ns.saturating_add(error_ns).saturating_add(FUTURE_NS)
}

/// `serde_json` counts lines from the beginning of what it was given, which is always line 1.
fn within_the_line(error: &str) -> String {
    error.replace("at line 1 column", "at column")
}

fn time(content: &Json, format: Format) -> Result<i64, Bad> {
    let named = |names: &[&'static str]| {
        names.iter().find_map(|&name| content.get(name).map(|value| (name, value))).ok_or_else(|| {
            let names = names.join(", ");
            Bad::NoTime(format!("there is no time: expected one of {names}"))
        })
    };
    let (name, value) = match format {
        Format::Eve => named(&["timestamp"])?,
        Format::Alarm => named(&["changed_ns"])?,
        Format::Json => named(&TIMES)?,
    };
    let ns = match value {
        Json::String(text) => text_time(text),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Some(number_time(number)),
            // A float holds a time of today to less than a microsecond. Nanoseconds since 1970 end in 2262.
            None => number.as_f64().filter(|s| s.abs() < 9.2e9).map(|s| (s * 1e6).round() as i64 * 1000),
        },
        _ => None,
    };
    ns.ok_or_else(|| {
        Bad::NoTime(format!("{name}: expected a time such as 2026-01-31T12:00:00.5Z, or seconds since 1970"))
    })
}

/// A whole number since 1970, its unit by its size: seconds until the year 5138, then ms, µs and ns.
fn number_time(number: i64) -> i64 {
    let size = number.unsigned_abs();
    let unit = match size {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    number.saturating_mul(unit)
}

/// RFC 3339 and what EVE makes of it (an offset without a colon). Without an offset it is UTC.
fn text_time(text: &str) -> Option<i64> {
    let parse = |text: &str| text.parse::<Timestamp>().ok();
    let time = parse(text).or_else(|| parse(&format!("{text}Z")))?;
    i64::try_from(time.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> Result<Event, Bad> {
        Parser::new(Wanted::Auto, "in").event(line.as_bytes())
    }

    #[test]
    fn formats_and_times() {
        let of = |line: &str| event(line).map(|event| (event.format, event.mark.time_ns)).unwrap();
        let eve = r#"{"timestamp":"2015-03-29T11:01:38.221126-0600","event_type":"alert"}"#;
        assert_eq!(of(eve), (Format::Eve, 1_427_648_498_221_126_000));
        let without = r#"{"timestamp":"2019-01-02T03:50:11.315110","event_type":"dns"}"#;
        assert_eq!(of(without), (Format::Eve, 1_546_401_011_315_110_000));
        assert_eq!(of(r#"{"time":1642982400,"name":"x"}"#), (Format::Json, 1_642_982_400_000_000_000));
        assert_eq!(of(r#"{"ts":1642982400.25}"#), (Format::Json, 1_642_982_400_250_000_000));
        assert_eq!(of(r#"{"@timestamp":1642982400123}"#), (Format::Json, 1_642_982_400_123_000_000));
        assert_eq!(of(r#"{"_time":"2026-01-31T12:00:00Z"}"#).0, Format::Json);
        let alarm = r#"{"resource":"192.0.2.1","condition":"linkDown","changed_ns":1642982400000000001}"#;
        assert_eq!(of(alarm), (Format::Alarm, 1_642_982_400_000_000_001));
    }

    #[test]
    fn whose_it_is() {
        let named = event(r#"{"timestamp":"2026-01-31T12:00:00Z","event_type":"alert","host":"s1"}"#).unwrap();
        let unnamed = event(r#"{"timestamp":"2026-01-31T12:00:00Z","event_type":"alert"}"#).unwrap();
        assert_eq!((&*named.sensor, &*unnamed.sensor), ("s1", "in"));
        assert_ne!(named.mark.identity.sensor, unnamed.mark.identity.sensor);
        assert_eq!(named.mark.clock.error_us, None);
    }

    #[test]
    fn what_is_no_event_says_why() {
        for (line, part) in [
            ("", "JSON object"),
            ("[1]", "another value"),
            (r#"{"time":"#, "column"),
            (r#"{"name":"x"}"#, "timestamp"),
            (r#"{"time":"soon"}"#, "2026-01-31"),
            (r#"{"time":[]}"#, "expected a time"),
            (r#"{"time":1e300}"#, "expected a time"),
            (r#"{"time":10000000000.5}"#, "expected a time"),
            (r#"{"time":-9999999999.5}"#, "expected a time"),
        ] {
            let bad = event(line).unwrap_err().to_string();
            assert!(bad.contains(part) && bad.lines().count() == 1, "{line}: {bad}");
        }
        assert!(event("\u{0}").is_err() && Parser::new(Wanted::Auto, "in").event(b"\xff{}").is_err());
        // Far from 1970: for the engine, which calls it late.
        assert_eq!(event(r#"{"time":-9223372036854775808}"#).unwrap().mark.time_ns, i64::MIN);
    }
}

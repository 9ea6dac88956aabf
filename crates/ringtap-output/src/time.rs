//! Owns: times as texts, UTC to the microsecond.
//! Does not: know time zones.

use jiff::Timestamp;

/// Nanoseconds since 1970 as `YYYY-MM-DDTHH:MM:SS.ffffff` (RFC 3339 without its zone), cut to the microsecond. Any `u64` is within
/// the calendar: the last is in 2554.
#[must_use]
pub fn utc_micros(ns: u64) -> String {
    let time = Timestamp::from_nanosecond(ns.into()).unwrap_or(Timestamp::MAX);
    let mut text = format!("{time:.6}");
    text.truncate(text.trim_end_matches('Z').len());
    text
}

/// A time of RFC 3339 with its zone, `2026-11-25T22:00:00Z` or `2026-11-25T23:00+01:00`, as nanoseconds since 1970; `None`: it is none, or
/// earlier than that.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    text.parse::<Timestamp>().ok()?.as_nanosecond().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::{parse, utc_micros};

    #[test]
    fn times_are_read_with_their_zone_alone() {
        assert_eq!(parse("1970-01-01T00:00:01Z"), Some(1_000_000_000));
        assert_eq!(parse("2026-11-25T23:00+01:00"), parse("2026-11-25T22:00:00Z"));
        for text in
            ["", "2026-11-25", "2026-11-25T22:00:00", "tomorrow", "1969-12-31T23:59:59Z", "9999-12-31T00:00:00Z"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(utc_micros(0), "1970-01-01T00:00:00.000000");
        assert_eq!(utc_micros(951_782_399_999_999_999), "2000-02-28T23:59:59.999999", "cut, not rounded");
        assert_eq!(utc_micros(951_782_400_000_001_000), "2000-02-29T00:00:00.000001");
        assert_eq!(utc_micros(u64::MAX), "2554-07-21T23:34:33.709551");
    }
}

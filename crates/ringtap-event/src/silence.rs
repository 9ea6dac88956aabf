//! Owns: the record of a topic that says that a sensor is silent (docs/flink.md).
//! Does not: decide what follows from it.

use std::borrow::Cow;

use serde::Deserialize;

#[derive(Deserialize)]
struct Record<'a> {
    event_type: Cow<'a, str>,
    #[serde(borrow)]
    host: Cow<'a, str>,
    #[expect(dead_code, reason = "for those who read the topic; that it is there tells the record from others")]
    since_ns: i64,
}

/// The sensor that a record says is not to be waited for until it is heard again; `None`: it is no such record.
#[must_use]
pub fn silence(record: &[u8]) -> Option<Cow<'_, str>> {
    const WORD: &[u8] = b"\"silent\"";
    // Nearly all records are none, and to parse each of them for this would cost as much as the event.
    if !record.windows(WORD.len()).any(|bytes| bytes == WORD) {
        return None;
    }
    let Record { event_type, host, .. } = serde_json::from_slice(record).ok()?;
    (event_type == "silent").then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_the_sensor_that_is_silent() {
        let record = br#"{"event_type":"silent","host":"no\u0072th","since_ns":1700000000000000000,"timestamp":"now"}"#;
        assert_eq!(silence(record).as_deref(), Some("north"));
        for other in [
            r#"{"event_type":"silent","host":"north"}"#,
            r#"{"event_type":"alert","host":"silent","since_ns":1}"#,
            r#"{"event_type":"silent","host":["north"],"since_ns":1}"#,
            r#"["silent"]"#,
            "silent",
        ] {
            assert_eq!(silence(other.as_bytes()), None, "{other}");
        }
    }
}

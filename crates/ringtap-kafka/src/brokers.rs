//! Owns: what a user says of a cluster: addresses of some of its brokers, and names of topics.
//! Does not: look a name up.

use std::fmt;
use std::str::FromStr;

/// Port of a broker that is named without one.
const PORT: u16 = 9092;
/// Longest name of a topic (Kafka's own bound).
const TOPIC_MAX: usize = 249;

/// Some brokers of a cluster: the first that answers tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brokers(pub(crate) Vec<(String, u16)>);

impl FromStr for Brokers {
    type Err = String;

    /// Reads `HOST[:PORT][,HOST[:PORT]…]`; an IPv6 address stands in brackets.
    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(|one| broker(one.trim())).collect::<Result<Vec<_>, _>>().map(Self)
    }
}

fn broker(text: &str) -> Result<(String, u16), String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':').or((rest.is_empty()).then_some(""))),
        None => text.split_once(':').map_or((text, Some("")), |(host, port)| (host, Some(port))),
    };
    let is_host = |host: &str| {
        !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':'))
    };
    let port = match port {
        Some("") if !text.ends_with(':') => Some(PORT),
        port => port.and_then(|port| port.parse().ok()).filter(|port| *port > 0),
    };
    match port.filter(|_| is_host(host)) {
        Some(port) => Ok((host.to_owned(), port)),
        None => Err(format!("'{text}' is no HOST:PORT of a broker")),
    }
}

impl fmt::Display for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (host, port)) in self.0.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "," })?;
            match host.contains(':') {
                true => write!(f, "[{host}]:{port}")?,
                false => write!(f, "{host}:{port}")?,
            }
        }
        Ok(())
    }
}

/// Reads the name of a topic.
///
/// # Errors
/// Kafka takes no such name.
pub fn topic(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_good =
        !text.is_empty() && text.len() <= TOPIC_MAX && text.bytes().all(is_name) && text != "." && text != "..";
    match is_good {
        true => Ok(text.to_owned()),
        false => Err(format!("'{text}' is no name of a topic: 1 to {TOPIC_MAX} of a-z, A-Z, 0-9, '.', '_' and '-'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let brokers: Brokers = "kafka-1.example.org:9093, 192.0.2.1,[2001:db8::1]:9094,[::1]".parse().unwrap();
        assert_eq!(brokers.to_string(), "kafka-1.example.org:9093,192.0.2.1:9092,[2001:db8::1]:9094,[::1]:9092");
        for wrong in ["", "a,", "a:", "a:0", "a:70000", "a b:1", "[::1", "[::1]x", "http://a:1"] {
            assert!(wrong.parse::<Brokers>().is_err(), "{wrong}");
        }
        assert!(topic("ringtap-alarms").is_ok());
        assert!(["", ".", "..", "a b", "a/b", &"x".repeat(250)].iter().all(|wrong| topic(wrong).is_err()));
    }
}

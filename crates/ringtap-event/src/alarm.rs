//! Owns: an alarm that a registered sensor has sealed, as an event: its mark, its line, and what it says to rules without
//! either.
//! Does not: check seals.
//!
//! Alarms come fastest of all that comes. Rules and the log take what they need from the message itself; its line, which is
//! what EVE says of it, is written for people and for rules that look at the whole of it.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use ringtap_datagram::{Action, Alert, Clock as Whose, Direction, Message, Origin, SensorId, protocol_name};
use ringtap_sigma::{Clock, Identity, Mark, Row, Value};
use serde_json::Value as Json;

use crate::event::{Event, Format, Said};
use crate::fields::canonical;
use crate::parse::hash;

/// The type of EVE that an alarm is.
pub const EVENT_TYPE: &str = "alert";
/// Protocols that have ports in EVE.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

/// An alarm of a registered sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Alarm {
    /// What the sensor said.
    pub alert: Alert,
    /// What the rule is called, and its class, where that is known.
    pub texts: Option<(Arc<str>, Arc<str>)>,
}

impl Alarm {
    /// As an event of the sensor, whose name it is.
    #[must_use]
    pub fn event(self, sensor: Arc<str>) -> Event {
        let alert = &self.alert;
        let identity =
            Identity { sensor: number(&alert.origin.sensor), epoch: alert.origin.epoch, sequence: alert.sequence };
        let clock = Clock { domain: domain(&alert.origin), error_us: error_us(alert.error_ns) };
        let mark = Mark { time_ns: ns(alert.time_ns), identity, clock };
        Event { format: Format::Eve, mark, sensor, said: Said::Alarm(self.into()) }
    }

    /// As EVE has it, without its line feed.
    #[must_use]
    pub fn line(&self) -> String {
        self.object().to_string()
    }

    /// The line parsed, addresses in their canonical form.
    #[must_use]
    pub fn content(&self) -> Json {
        let mut content = self.object();
        canonical(&mut content, Format::Eve);
        content
    }

    fn object(&self) -> Json {
        let mut line = Vec::new();
        Message::Alert(self.alert).write_line(None, &mut line);
        let mut content: Json = serde_json::from_slice(&line).unwrap_or_default();
        content["host"] = self.alert.origin.sensor.as_str().into();
        if let Some((signature, category)) = &self.texts
            && let Some(Json::Object(object)) = content.get_mut("alert")
        {
            object.insert("signature".into(), (&**signature).into());
            object.insert("category".into(), (&**category).into());
        }
        content
    }
}

/// A field of an alarm's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    EventType,
    Source,
    SourcePort,
    Destination,
    DestinationPort,
    Protocol,
    IpVersion,
    Direction,
    Host,
    Action,
    Generator,
    SignatureId,
    Revision,
    Severity,
    Signature,
    Category,
}

const PARTS: [(&str, Part); 16] = [
    ("event_type", Part::EventType),
    ("src_ip", Part::Source),
    ("src_port", Part::SourcePort),
    ("dest_ip", Part::Destination),
    ("dest_port", Part::DestinationPort),
    ("proto", Part::Protocol),
    ("ip_v", Part::IpVersion),
    ("direction", Part::Direction),
    ("host", Part::Host),
    ("alert.action", Part::Action),
    ("alert.gid", Part::Generator),
    ("alert.signature_id", Part::SignatureId),
    ("alert.rev", Part::Revision),
    ("alert.severity", Part::Severity),
    ("alert.signature", Part::Signature),
    ("alert.category", Part::Category),
];

/// Where the fields of rules are in alarms.
#[derive(Clone, Debug)]
pub struct Layout {
    count: usize,
    parts: Vec<(usize, Part)>,
}

impl Layout {
    /// For fields by EVE's names; `None` where one of them is only in the line.
    pub fn new<'a>(fields: impl ExactSizeIterator<Item = &'a str>) -> Option<Self> {
        let count = fields.len();
        let mut parts = Vec::new();
        for (at, name) in fields.enumerate() {
            if ["timestamp", "community_id"].contains(&name) || name.starts_with("ringtap.") {
                return None;
            }
            parts.extend(PARTS.iter().find(|(known, _)| *known == name).map(|(_, part)| (at, *part)));
        }
        Some(Self { count, parts })
    }

    /// Hands an alarm's values to `work`, in the order of the fields, with an empty message.
    pub fn with_row<R>(&self, alarm: &Alarm, work: impl FnOnce(&Row<'_>) -> R) -> R {
        let Alarm { alert, texts } = alarm;
        let ends = alert.ends.as_ref();
        let address = |address: IpAddr| Text::of(address.to_canonical());
        let [source, destination] = [ends.map(|it| address(it.source)), ends.map(|it| address(it.destination))];
        let ports = ends.filter(|ends| WITH_PORTS.contains(&ends.protocol)).map(|ends| ends.ports);
        let protocol = ends.map(|ends| protocol_name(ends.protocol));
        let number = |number: u32| Value::Integer(number.into());
        let mut values = vec![Value::Missing; self.count];
        for (at, part) in &self.parts {
            values[*at] = match part {
                Part::EventType => Value::Text(EVENT_TYPE),
                Part::Source => source.as_ref().map_or(Value::Missing, Text::value),
                Part::SourcePort => ports.map(|ports| number(ports.0.into())).unwrap_or_default(),
                Part::Destination => destination.as_ref().map_or(Value::Missing, Text::value),
                Part::DestinationPort => ports.map(|ports| number(ports.1.into())).unwrap_or_default(),
                Part::Protocol => protocol.as_deref().map_or(Value::Missing, Value::Text),
                Part::IpVersion => {
                    ends.map_or(Value::Missing, |ends| number(if ends.source.is_ipv4() { 4 } else { 6 }))
                }
                Part::Direction => match alert.direction {
                    None => Value::Missing,
                    Some(Direction::ToServer) => Value::Text("to_server"),
                    Some(Direction::ToClient) => Value::Text("to_client"),
                },
                Part::Host => Value::Text(alert.origin.sensor.as_str()),
                Part::Action => Value::Text(match alert.action {
                    Action::Allowed => "allowed",
                    Action::Blocked => "blocked",
                }),
                Part::Generator => number(alert.rule.gid),
                Part::SignatureId => number(alert.rule.sid),
                Part::Revision => number(alert.rule.rev),
                Part::Severity => number(alert.severity.into()),
                Part::Signature => texts.as_ref().map_or(Value::Missing, |texts| Value::Text(&texts.0)),
                Part::Category => texts.as_ref().map_or(Value::Missing, |texts| Value::Text(&texts.1)),
            };
        }
        work(&Row { values: &values, message: "" })
    }
}

/// An address as text, in place.
#[derive(Clone, Copy)]
struct Text {
    bytes: [u8; 46],
    len: usize,
}

impl Text {
    fn of(address: IpAddr) -> Self {
        let mut this = Self { bytes: [0; 46], len: 0 };
        match address {
            IpAddr::V4(address) => this.put_v4(address.octets()),
            // The longest has 45 bytes.
            IpAddr::V6(address) => drop(write!(this, "{address}")),
        }
        this
    }

    /// The same as with `write!`, which takes several times as long.
    fn put_v4(&mut self, octets: [u8; 4]) {
        for (at, octet) in octets.into_iter().enumerate() {
            let digits = [octet / 100, octet / 10 % 10, octet % 10].map(|digit| b'0' + digit);
            let skipped = if octet >= 100 { 0 } else { 1 + usize::from(octet < 10) };
            let dot: &[u8] = if at < 3 { b"." } else { b"" };
            for byte in digits[skipped..].iter().chain(dot) {
                self.bytes[self.len] = *byte;
                self.len += 1;
            }
        }
    }

    fn value(&self) -> Value<'_> {
        Value::Text(std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default())
    }
}

impl std::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let place = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// The number of a sensor, by its name.
#[must_use]
pub fn number(id: &SensorId) -> u64 {
    hash(id.as_str().as_bytes())
}

/// Sensors of one boot that have the host's clock have one clock. Capture files have nothing in common.
#[must_use]
pub fn domain(origin: &Origin) -> u64 {
    let (name, mut bytes) = (origin.sensor.as_str().as_bytes(), [0; 64]);
    let len = if origin.clock == Whose::Recorded { 17 + name.len() } else { 17 };
    bytes[..16].copy_from_slice(&origin.boot_id);
    bytes[16] = origin.clock as u8;
    bytes[17..17 + name.len()].copy_from_slice(name);
    hash(&bytes[..len])
}

/// The error of a clock as marks have it, µs.
#[must_use]
pub fn error_us(error_ns: Option<u64>) -> Option<u32> {
    error_ns.and_then(|error| u32::try_from(error.div_ceil(1000)).ok()).filter(|error| *error < u32::MAX)
}

/// A time as marks have it, ns.
#[must_use]
pub fn ns(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ringtap_datagram::{Ends, Rule};

    use super::*;
    use crate::fields::Columns;

    fn origin(sensor: &str) -> Origin {
        Origin { sensor: sensor.parse().unwrap(), boot_id: [1; 16], clock: Whose::Host, epoch: 5 }
    }

    fn ends() -> impl Strategy<Value = Ends> {
        let v4 = (any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
        let v6 = (any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
        let mapped = any::<[u8; 4]>().prop_map(|a| {
            let mapped = std::net::Ipv4Addr::from(a).to_ipv6_mapped();
            (IpAddr::from(mapped), IpAddr::from([0u16, 0, 0, 1, 0, 0, 0, 1]))
        });
        (prop_oneof![v4, v6, mapped], any::<u8>(), any::<(u16, u16)>()).prop_map(
            |((source, destination), protocol, ports)| {
                let ports = if WITH_PORTS.contains(&protocol) { ports } else { (0, 0) };
                Ends { source, destination, protocol, ports }
            },
        )
    }

    prop_compose! {
        fn alarm()(
            numbers in any::<(u64, u64, u64)>(), error_ns in any::<Option<u64>>(), rule in any::<(u32, u32, u32)>(),
            severity in any::<u8>(), blocked in any::<bool>(), ends in proptest::option::of(ends()),
            direction in 0..3u8, community in any::<Option<[u8; 20]>>(), recorded in any::<bool>(),
            texts in proptest::option::of((".{0,40}", ".{0,20}")),
        ) -> Alarm {
            let clock = if recorded { Whose::Recorded } else { Whose::Host };
            let alert = Alert {
                origin: Origin { clock, ..origin("north.1") },
                sequence: numbers.0.max(1),
                time_ns: numbers.1,
                built_ns: numbers.2,
                error_ns: error_ns.filter(|error| *error != u64::MAX),
                rule: Rule { gid: rule.0, sid: rule.1, rev: rule.2 },
                severity,
                action: if blocked { Action::Blocked } else { Action::Allowed },
                ends,
                direction: [None, Some(Direction::ToServer), Some(Direction::ToClient)][usize::from(direction)],
                community,
            };
            Alarm { alert, texts: texts.map(|(signature, category)| (signature.into(), category.into())) }
        }
    }

    /// Every value that is in a line, by the names that lead to it.
    fn names(object: &Json, before: &str, names: &mut Vec<String>) {
        for (name, value) in object.as_object().into_iter().flatten() {
            let name = format!("{before}{name}");
            names_of(value, name, names);
        }
    }

    fn names_of(value: &Json, name: String, all: &mut Vec<String>) {
        if value.is_object() {
            names(value, &format!("{name}."), all);
        }
        all.push(name);
    }

    proptest! {
        #[test]
        fn rules_see_what_the_line_says(alarm in alarm()) {
            let content = alarm.content();
            let mut fields = vec!["dns.rrname".into(), "alert".into(), "src_ip.x".into(), "severity".into()];
            names(&content, "", &mut fields);
            let event = alarm.clone().event("north.1".into());
            let line = Event { said: Said::Line { line: alarm.line().into(), content }, ..event.clone() };
            let shown = |columns: &Columns, event: &Event| {
                columns.with_row(event, |row| row.values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>())
            };
            // All of them, which the line has to be made for; and those of an alarm itself.
            for most in [usize::MAX, 0] {
                let of_line = |name: &String| Layout::new(std::iter::once(name.as_str())).is_none();
                let fields: Vec<String> =
                    fields.iter().filter(|name| most > 0 || !of_line(name)).cloned().collect();
                prop_assert_eq!(Layout::new(fields.iter().map(String::as_str)).is_some(), most == 0);
                let columns = Columns::new(&fields, Format::Eve);
                prop_assert_eq!(shown(&columns, &event), shown(&columns, &line));
            }
        }
    }

    #[test]
    fn whose_clock_it_is() {
        let recorded = |sensor| Origin { clock: Whose::Recorded, ..origin(sensor) };
        assert_eq!(domain(&origin("a")), domain(&origin("b")));
        assert_ne!(domain(&origin("a")), domain(&Origin { boot_id: [2; 16], ..origin("a") }));
        assert_ne!(domain(&recorded("a")), domain(&recorded("b")));
        assert_eq!([None, Some(0), Some(1), Some(u64::MAX)].map(error_us), [None, Some(0), Some(1), None]);
    }
}

//! Owns: the field table: which names of rules and of inputs mean the same, by EVE's name; and an event's values in the
//! order that an automaton asks for.
//! Does not: know when an event happened or whose it is.
//!
//! A name that is not in the table stays as it is: a path into the event, with dots.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::LazyLock;

use ringtap_sigma::{Automaton, Row, Value};
use serde_json::{Map, Value as Json};

use crate::alarm::Layout;
use crate::event::{Event, Format, Said};

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text as it came.
    Text,
    /// An address, in its canonical form (RFC 5952; IPv4 in IPv6 as IPv4).
    Address,
    /// A whole number.
    Number,
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// EVE's name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Other names that rules and JSON lines have for it.
    pub others: &'static [&'static str],
    /// The station's name for it.
    pub alarm: Option<&'static str>,
}

const fn text(name: &'static str, others: &'static [&'static str]) -> Field {
    Field { name, kind: Kind::Text, others, alarm: None }
}

const fn alarm(name: &'static str, alarm: &'static str) -> Field {
    Field { name, kind: Kind::Text, others: &[], alarm: Some(alarm) }
}

/// The table. In `docs/correlate.md` it is [`table`].
pub const FIELDS: &[Field] = &[
    Field {
        name: "src_ip",
        kind: Kind::Address,
        others: &["source.ip", "id.orig_h", "SourceIp", "src", "srcip", "client.ip"],
        alarm: Some("resource"),
    },
    Field {
        name: "dest_ip",
        kind: Kind::Address,
        others: &["dst_ip", "destination.ip", "id.resp_h", "DestinationIp", "dst", "dstip", "server.ip"],
        alarm: None,
    },
    Field {
        name: "src_port",
        kind: Kind::Number,
        others: &["source.port", "id.orig_p", "SourcePort", "client.port"],
        alarm: None,
    },
    Field {
        name: "dest_port",
        kind: Kind::Number,
        others: &["dst_port", "destination.port", "id.resp_p", "DestinationPort", "server.port"],
        alarm: None,
    },
    text("proto", &["network.transport", "Protocol"]),
    text("app_proto", &["network.protocol"]),
    text("event_type", &[]),
    text("in_iface", &[]),
    text("host", &["host.name", "host.hostname", "hostname", "Computer", "ComputerName", "agent.name"]),
    Field { name: "host.ip", kind: Kind::Address, others: &["agent.ip"], alarm: None },
    text("message", &["rule.description"]),
    text("community_id", &["network.community_id"]),
    text("alert.signature", &["signature", "rule.name"]),
    Field { name: "alert.signature_id", kind: Kind::Number, others: &["signature_id", "rule.id"], alarm: None },
    text("alert.category", &["rule.category"]),
    Field { name: "alert.severity", kind: Kind::Number, others: &[], alarm: None },
    text("dns.rrname", &["query", "dns.question.name", "QueryName"]),
    text("dns.rrtype", &["record_type", "dns.question.type"]),
    text("http.hostname", &["cs-host", "url.domain"]),
    text("http.url", &["c-uri", "url.original"]),
    text("http.http_method", &["cs-method", "http.request.method"]),
    text("http.http_user_agent", &["c-useragent", "user_agent.original"]),
    Field { name: "http.status", kind: Kind::Number, others: &["sc-status", "http.response.status_code"], alarm: None },
    text("tls.sni", &["tls.client.server_name", "server_name"]),
    text("user", &["user.name", "username", "TargetUserName", "User"]),
    alarm("alarm.condition", "condition"),
    alarm("alarm.condition_name", "condition_name"),
    alarm("alarm.node", "resource"),
    alarm("alarm.object", "object"),
    alarm("alarm.severity", "severity"),
    alarm("alarm.cleared", "cleared"),
    alarm("alarm.event_type", "event_type"),
    alarm("alarm.probable_cause", "probable_cause"),
    Field { name: "alarm.id", kind: Kind::Number, others: &[], alarm: Some("id") },
    Field { name: "alarm.count", kind: Kind::Number, others: &[], alarm: Some("count") },
];

/// The line of the table that a name of a rule or input belongs to.
#[must_use]
pub fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name || field.others.contains(&name))
}

/// The table as Markdown.
#[must_use]
pub fn table() -> String {
    let mut text =
        String::from("| field (EVE) | holds | rules and JSON lines may say | station's alarms |\n|---|---|---|---|\n");
    for Field { name, kind, others, alarm } in FIELDS {
        let kind = match kind {
            Kind::Text => "text",
            Kind::Address => "address",
            Kind::Number => "number",
        };
        let others: Vec<String> = others.iter().map(|other| format!("`{other}`")).collect();
        let alarm = alarm.map_or(String::new(), |alarm| format!("`{alarm}`"));
        // Writing to a text cannot fail.
        let _ = writeln!(text, "| `{name}` | {kind} | {} | {alarm} |", others.join(" "));
    }
    text
}

/// Where addresses are, by format.
static ADDRESSES: LazyLock<[Vec<Path>; 3]> = LazyLock::new(|| {
    Format::ALL.map(|format| {
        let fields = FIELDS.iter().filter(|field| field.kind == Kind::Address);
        fields.flat_map(|field| Column::of(field.name, format).0).collect()
    })
});

/// Puts every address of the table into its canonical form.
pub fn canonical(content: &mut Json, format: Format) {
    for path in &ADDRESSES[format as usize - 1] {
        if let Some(Json::String(text)) = path.find_mut(content)
            && let Ok(address) = text.parse::<IpAddr>()
        {
            let canonical = address.to_canonical().to_string();
            if canonical != *text {
                *text = canonical;
            }
        }
    }
}

/// A way into an event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Path {
    /// The whole name: JSON lines may have dots in their names.
    whole: Box<str>,
    parts: Box<[Box<str>]>,
}

impl Path {
    fn new(name: &str) -> Self {
        let parts: Vec<Box<str>> = name.split('.').map(Box::from).collect();
        Self { whole: name.into(), parts: if parts.len() > 1 { parts.into() } else { Box::default() } }
    }

    fn find_mut<'a>(&self, content: &'a mut Json) -> Option<&'a mut Json> {
        let direct = content.get(&*self.whole).is_some();
        let parts = if direct { std::slice::from_ref(&self.whole) } else { &self.parts };
        let mut at = content;
        for part in parts {
            at = at.get_mut(&**part)?;
        }
        (!parts.is_empty()).then_some(at)
    }
}

/// Where one field is in events of one format; the first that is there counts.
#[derive(Clone, Debug)]
struct Column(Vec<Path>);

impl Column {
    fn of(name: &str, format: Format) -> Self {
        let Some(field) = find(name) else {
            // An alarm has nothing but what the table says: its own names mean other things.
            let none = format == Format::Alarm;
            return Self(if none { Vec::new() } else { vec![Path::new(name)] });
        };
        Self(match format {
            Format::Alarm => field.alarm.map(Path::new).into_iter().collect(),
            Format::Eve => vec![Path::new(field.name)],
            Format::Json => [field.name].iter().chain(field.others).copied().map(Path::new).collect(),
        })
    }
}

/// The names that columns are found by: an event is gone through once, however many fields rules name.
#[derive(Clone, Debug, Default)]
struct Names(HashMap<Box<str>, Name>);

#[derive(Clone, Debug, Default)]
struct Name {
    /// Columns whose value this is, each with its rank: of several the least counts.
    columns: Vec<(usize, usize)>,
    below: Names,
}

impl Names {
    fn new(columns: &[Column]) -> Self {
        let mut this = Self::default();
        for (number, column) in columns.iter().enumerate() {
            for (rank, path) in column.0.iter().enumerate() {
                this.0.entry(path.whole.clone()).or_default().columns.push((number, 2 * rank));
                let Some((last, before)) = path.parts.split_last() else { continue };
                let mut at = &mut this;
                for part in before {
                    at = &mut at.0.entry(part.clone()).or_default().below;
                }
                at.0.entry(last.clone()).or_default().columns.push((number, 2 * rank + 1));
            }
        }
        this
    }

    /// Puts the values of an object into `found`, by column, with their ranks. An object is no value itself: `host` of
    /// `{"host":{"name":…}}` is `host.name`.
    fn find<'a>(&self, object: &'a Map<String, Json>, found: &mut [(usize, Option<&'a Json>)]) {
        for (name, value) in object {
            let Some(Name { columns, below }) = self.0.get(&**name) else { continue };
            if let Json::Object(object) = value {
                if !below.0.is_empty() {
                    below.find(object, found);
                }
                continue;
            }
            for (column, rank) in columns {
                if *rank < found[*column].0 {
                    found[*column] = (*rank, Some(value));
                }
            }
        }
    }
}

/// The fields of an automaton in events of one format.
#[derive(Clone, Debug)]
pub struct Columns {
    format: Format,
    count: usize,
    names: Names,
    /// Where the constant `event_type` of alarms goes.
    event_type: Option<usize>,
    /// How sealed alarms are taken; `None`: by their line.
    sealed: Option<Layout>,
}

/// Values of a list that are looked at.
const MAX_LIST: usize = 256;

impl Columns {
    /// For the fields that rules name.
    #[must_use]
    pub fn new(fields: &[String], format: Format) -> Self {
        let at = fields.iter().position(|field| field == "event_type");
        Self {
            format,
            count: fields.len(),
            names: Names::new(&fields.iter().map(|field| Column::of(field, format)).collect::<Vec<_>>()),
            event_type: at.filter(|_| format == Format::Alarm),
            sealed: Layout::new(fields.iter().map(|name| find(name).map_or(name.as_str(), |field| field.name))),
        }
    }

    /// For all that an automaton looks at, the message too.
    #[must_use]
    pub fn of(automaton: &Automaton, format: Format) -> Self {
        let columns = Self::new(automaton.fields(), format);
        Self { sealed: columns.sealed.filter(|_| !automaton.searches_messages()), ..columns }
    }

    /// Hands an event's values to `work`, in the order of the fields. Its line is the message, which
    /// [`new`](Self::new) does not promise.
    pub fn with_row<R>(&self, event: &Event, work: impl FnOnce(&Row<'_>) -> R) -> R {
        match (&event.said, &self.sealed) {
            (Said::Line { line, content }, _) => self.with_line(content, line, work),
            (Said::Alarm(alarm), Some(layout)) => layout.with_row(alarm, work),
            (Said::Alarm(alarm), None) => self.with_line(&alarm.content(), &alarm.line(), work),
        }
    }

    fn with_line<R>(&self, content: &Json, line: &str, work: impl FnOnce(&Row<'_>) -> R) -> R {
        let mut found = vec![(usize::MAX, None); self.count];
        if let Json::Object(object) = content {
            self.names.find(object, &mut found);
        }
        let found = || found.iter().map(|(_, value)| *value);
        // What values only borrow is made first: texts of numbers with a fraction, and lists.
        let texts: Vec<String> = found().flatten().flat_map(each).filter_map(fraction).collect();
        let (mut rest, mut lists) = (texts.iter(), Vec::new());
        let mut values: Vec<Value<'_>> = Vec::with_capacity(self.count);
        for value in found() {
            values.push(match value {
                None => Value::Missing,
                Some(list @ Json::Array(_)) => {
                    let items: Vec<Value<'_>> = each(list).iter().map(|item| scalar(item, &mut rest)).collect();
                    lists.push((values.len(), items));
                    Value::Missing
                }
                Some(value) => scalar(value, &mut rest),
            });
        }
        for (at, items) in &lists {
            values[*at] = Value::List(items);
        }
        if let Some(at) = self.event_type {
            values[at] = Value::Text(self.format.name());
        }
        work(&Row { values: &values, message: line })
    }
}

/// The value itself, or those of a list.
fn each(value: &Json) -> &[Json] {
    match value {
        Json::Array(list) => &list[..list.len().min(MAX_LIST)],
        value => std::slice::from_ref(value),
    }
}

fn fraction(value: &Json) -> Option<String> {
    match value {
        Json::Number(number) if number.as_i64().is_none() => Some(number.to_string()),
        _ => None,
    }
}

fn scalar<'a>(value: &'a Json, texts: &mut std::slice::Iter<'a, String>) -> Value<'a> {
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::String(text) => Value::Text(text),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Integer(number),
            None => texts.next().map_or(Value::Missing, |text| Value::Number(text)),
        },
        // Objects, and lists in lists, have no text that could be compared.
        Json::Array(_) | Json::Object(_) => Value::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_means_one_field() {
        let mut names: Vec<&str> = Vec::new();
        for field in FIELDS {
            names.push(field.name);
            names.extend(field.others);
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_manual_has_this_table() {
        let manual = include_str!("../../../docs/correlate.md");
        assert!(manual.contains(&table()), "put this into docs/correlate.md:\n{}", table());
    }

    fn row(fields: &[&str], format: Format, json: &str) -> Vec<String> {
        let fields: Vec<String> = fields.iter().map(|&field| field.into()).collect();
        let mut content: Json = serde_json::from_str(json).unwrap();
        canonical(&mut content, format);
        let columns = Columns::new(&fields, format);
        columns.with_line(&content, json, |row| row.values.iter().map(|value| format!("{value:?}")).collect())
    }

    #[test]
    fn names_of_each_input() {
        let eve = r#"{"src_ip":"2001:DB8:0::1","alert":{"signature":"x"},"a":[1,2.5,"b"]}"#;
        let expected = [r#"Text("2001:db8::1")"#, r#"Text("x")"#, r#"List([Integer(1), Number("2.5"), Text("b")])"#];
        assert_eq!(row(&["src_ip", "alert.signature", "a"], Format::Eve, eve), expected);
        let json = r#"{"source.ip":"::ffff:192.0.2.1","destination":{"ip":"192.0.2.2"},"cs-host":"h"}"#;
        let expected = [r#"Text("192.0.2.1")"#, r#"Text("192.0.2.2")"#, r#"Text("h")"#, "Missing"];
        assert_eq!(row(&["src_ip", "dst_ip", "http.hostname", "none"], Format::Json, json), expected);
        // As Elastic's schema and Wazuh have them: an object is not the value of its name.
        let host = r#"{"host":{"name":"www","ip":"2001:DB8::5"}}"#;
        assert_eq!(row(&["host", "host.ip"], Format::Json, host), [r#"Text("www")"#, r#"Text("2001:db8::5")"#]);
        let agent = r#"{"agent":{"name":"www","ip":"192.0.2.5"},"rule":{"description":"Common web attack."}}"#;
        let expected = [r#"Text("www")"#, r#"Text("192.0.2.5")"#, r#"Text("Common web attack.")"#];
        assert_eq!(row(&["host", "host.ip", "message"], Format::Json, agent), expected);
        let alarm = r#"{"resource":"192.0.2.7","event_type":"equipmentAlarm","condition":"linkDown","object":"3"}"#;
        let names = ["src_ip", "alarm.node", "event_type", "alarm.event_type", "alarm.condition", "object"];
        let expected = [
            r#"Text("192.0.2.7")"#,
            r#"Text("192.0.2.7")"#,
            r#"Text("alarm")"#,
            r#"Text("equipmentAlarm")"#,
            r#"Text("linkDown")"#,
            "Missing",
        ];
        assert_eq!(row(&names, Format::Alarm, alarm), expected);
    }
}

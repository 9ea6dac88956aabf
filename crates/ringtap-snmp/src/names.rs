//! Names of objects: what an object identifier is called, and how its values are written.
//!
//! Owns the table of names and its look-up. Modules (SMIv1 and SMIv2, with what they import) are read and resolved by `mib-rs`, where files
//! are; only what rendering needs is taken from it, and can be kept. A name that is missing leaves a number, never a gap.

use std::collections::HashMap;

use mib_rs::Mib;
use mib_rs::mib::display_hint::{HexCase, format_integer, format_octets};
use serde::{Deserialize, Serialize};

use crate::oid::{self, Oid};
use crate::varbind::Value;

/// One named object identifier, in the form that caches keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    hint: String,
    /// Enumerations, or the names of bits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<(i64, String)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    bits: bool,
}

/// Names by object identifier.
#[derive(Debug, Default)]
pub struct Names {
    by_oid: HashMap<Vec<u8>, Entry>,
    by_name: HashMap<String, Vec<u8>>,
    /// What was wrong with files; the rest was read.
    warnings: Vec<String>,
}

/// What rendering needs of resolved modules: object identifiers in numbers, and what is known of each.
pub fn entries(mib: &Mib) -> Vec<(String, Entry)> {
    let mut entries = Vec::new();
    for node in mib.nodes() {
        if node.name().is_empty() || node.oid().len() < 2 {
            continue;
        }
        let mut entry = Entry { name: node.name().to_owned(), hint: String::new(), labels: Vec::new(), bits: false };
        if let Some(object) = node.object() {
            object.effective_display_hint().clone_into(&mut entry.hint);
            let bits = object.effective_bits();
            entry.bits = !bits.is_empty();
            let labels = if entry.bits { bits } else { object.effective_enums() };
            entry.labels = labels.iter().map(|named| (named.value, named.label.clone())).collect();
        }
        entries.push((node.oid().to_string(), entry));
    }
    entries
}

impl Names {
    /// A table of these; `warnings` are what was wrong with their files, one sentence each.
    pub fn new(entries: Vec<(String, Entry)>, warnings: Vec<String>) -> Self {
        let mut this = Self { warnings, ..Self::default() };
        for (text, entry) in entries {
            let Some(arcs) = oid::parse(&text) else { continue };
            let bytes = oid::encode(&arcs);
            this.by_name.entry(entry.name.clone()).or_insert_with(|| bytes.clone());
            this.by_oid.insert(bytes, entry);
        }
        this
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.by_oid.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_oid.is_empty()
    }

    /// What was wrong with files, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The encoded identifier of `linkDown` or `1.3.6.1.6.3.1.1.5.3`.
    pub fn resolve(&self, text: &str) -> Option<Vec<u8>> {
        oid::parse(text).map(|arcs| oid::encode(&arcs)).or_else(|| self.by_name.get(text).cloned())
    }

    /// The entry of the longest prefix of `oid` that has a name, and how many bytes that prefix has.
    fn find(&self, oid: Oid<'_>) -> Option<(&Entry, usize)> {
        if self.by_oid.is_empty() {
            return None;
        }
        let bytes = oid.bytes();
        // A prefix ends where a subidentifier does: with a byte without the continuation bit.
        (1..=bytes.len())
            .rev()
            .filter(|&end| bytes[end - 1] & 0x80 == 0)
            .find_map(|end| self.by_oid.get(&bytes[..end]).map(|entry| (entry, end)))
    }

    /// `ifIndex.3`, or numbers where there is no name.
    pub fn name(&self, oid: Oid<'_>) -> String {
        match self.find(oid) {
            Some((entry, end)) => match oid.suffix(&oid.bytes()[..end]) {
                Some(rest) if !rest.is_empty() => format!("{}.{rest}", entry.name),
                _ => entry.name.clone(),
            },
            None => oid.to_string(),
        }
    }

    /// A value as text: enumerations and DISPLAY-HINTs where the name has them.
    pub fn value(&self, name: Oid<'_>, value: &Value<'_>) -> String {
        let entry = self.find(name).map(|(entry, _)| entry);
        match *value {
            Value::Integer(number) => {
                let label = entry.and_then(|entry| entry.labels.iter().find(|(value, _)| *value == number));
                match (label, entry) {
                    (Some((_, label)), _) => format!("{label}({number})"),
                    (None, Some(entry)) => {
                        format_integer(&entry.hint, number, HexCase::Lower).unwrap_or_else(|| number.to_string())
                    }
                    (None, None) => number.to_string(),
                }
            }
            Value::OctetString(bytes) => octets(entry, bytes),
            Value::Null => "null".to_owned(),
            Value::ObjectId(oid) => self.name(oid),
            Value::IpAddress(address) => address.to_string(),
            Value::Counter32(number) | Value::Gauge32(number) | Value::Counter64(number) => number.to_string(),
            Value::TimeTicks(ticks) => {
                let seconds = ticks / 100;
                let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
                format!("{days}d {hours:02}:{minutes:02}:{:02}.{:02}", seconds % 60, ticks % 100)
            }
            Value::Opaque(bytes) => opaque(bytes),
            Value::Exception(tag) => {
                ["noSuchObject", "noSuchInstance", "endOfMibView"][usize::from(tag & 3).min(2)].to_owned()
            }
            Value::Other { tag, content } => format!("type 0x{tag:02x}: {}", hex(content)),
        }
    }
}

fn octets(entry: Option<&Entry>, bytes: &[u8]) -> String {
    if let Some(entry) = entry.filter(|entry| entry.bits) {
        let names = (0..bytes.len() * 8).filter(|bit| bytes[bit / 8] >> (7 - bit % 8) & 1 == 1).map(|bit| {
            let label = entry.labels.iter().find(|(value, _)| *value == bit as i64);
            label.map_or_else(|| bit.to_string(), |(_, label)| format!("{label}({bit})"))
        });
        return names.collect::<Vec<_>>().join(" ");
    }
    if let Some(text) = entry.and_then(|entry| format_octets(&entry.hint, bytes, HexCase::Lower)) {
        return text;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r')) => text.to_owned(),
        _ => hex(bytes),
    }
}

/// net-snmp wraps floating-point numbers so (draft-perkins-opaque-01): tag 0x9f 0x78 (float), 0x79 (double).
fn opaque(bytes: &[u8]) -> String {
    match *bytes {
        [0x9f, 0x78, 4, a, b, c, d] => f32::from_be_bytes([a, b, c, d]).to_string(),
        [0x9f, 0x79, 8, a, b, c, d, e, f, g, h] => f64::from_be_bytes([a, b, c, d, e, f, g, h]).to_string(),
        _ => hex(bytes),
    }
}

/// Octets as hexadecimal digits with colons: `0a:ff`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(names: &Names, text: &str) -> String {
        let bytes = oid::encode(&oid::parse(text).unwrap());
        names.name(Oid::new(&bytes).unwrap())
    }

    #[test]
    fn without_names_there_are_numbers() {
        let names = Names::default();
        assert_eq!(name_of(&names, "1.3.6.1.4.1.5.6"), "1.3.6.1.4.1.5.6");
        let name = Oid::new(&[0x2b]).unwrap();
        assert_eq!(names.value(name, &Value::OctetString(b"text")), "text");
        assert_eq!(names.value(name, &Value::OctetString(&[1, 0xff])), "01:ff");
        assert_eq!(names.value(name, &Value::TimeTicks(8_640_000 + 366_101)), "1d 01:01:01.01");
        assert_eq!(names.value(name, &Value::Opaque(&[0x9f, 0x78, 4, 0x3f, 0xc0, 0, 0])), "1.5");
    }
}

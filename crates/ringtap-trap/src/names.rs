//! Names from MIB files: what an object identifier is called, and how its values are written.
//!
//! Owns the table of names, its look-up and its cache. Modules (SMIv1 and SMIv2, with what they import) are read and resolved by
//! `mib-rs`; only what rendering needs is taken from it. A name that is missing leaves a number, never a gap.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use mib_rs::mib::display_hint::{HexCase, format_integer, format_octets};
use mib_rs::{Loader, ResolverStrictness, source};
use ringtap::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::oid::{self, Oid};
use crate::snmp::Value;

/// Layout of the cache; a change makes old caches useless.
const CACHE_VERSION: u32 = 1;

/// One named object identifier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
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

/// The cache: what it was made from, and the names in numeric form.
#[derive(Serialize, Deserialize)]
struct Cache {
    version: u32,
    /// Path, length and time of change of each file.
    files: Vec<(PathBuf, u64, u128)>,
    entries: Vec<(String, Entry)>,
    warnings: Vec<String>,
}

impl Names {
    /// Reads all modules below `directories`; from `cache`, if that was made from the same files, else writes it.
    ///
    /// # Errors
    /// A directory can't be read. What is wrong inside a file is a warning.
    pub fn load(directories: &[PathBuf], cache: Option<&Path>) -> Result<Self> {
        let mut files = Vec::new();
        for directory in directories {
            list(directory, 0, &mut files)
                .map_err(|error| Error::os("read MIB files in", directory.display().to_string(), &error))?;
        }
        files.sort();
        let cached = cache.and_then(|path| serde_json::from_slice::<Cache>(&std::fs::read(path).ok()?).ok());
        if let Some(cached) = cached.filter(|cached| cached.version == CACHE_VERSION && cached.files == files) {
            return Ok(Self::of(cached.entries, cached.warnings));
        }
        let (entries, mut warnings) = read(directories)?;
        if let Some(path) = cache {
            let made = Cache { version: CACHE_VERSION, files, entries, warnings };
            let written = serde_json::to_vec(&made).map_err(std::io::Error::from).and_then(|bytes| {
                // Whole or not at all: another process may be reading it.
                let new = path.with_extension("new");
                std::fs::write(&new, bytes).and_then(|()| std::fs::rename(&new, path))
            });
            let Cache { entries, warnings: found, .. } = made;
            warnings = found;
            if let Err(error) = written {
                warnings.push(format!("the cache of MIB names {} can't be written: {error}", path.display()));
            }
            return Ok(Self::of(entries, warnings));
        }
        Ok(Self::of(entries, warnings))
    }

    /// The names of a cache as they were when it was written; none when there is no cache, or one of another layout.
    pub fn cached(path: &Path) -> Self {
        let cached = std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<Cache>(&bytes).ok());
        match cached.filter(|cached| cached.version == CACHE_VERSION) {
            Some(cached) => Self::of(cached.entries, cached.warnings),
            None => Self::default(),
        }
    }

    fn of(entries: Vec<(String, Entry)>, warnings: Vec<String>) -> Self {
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

/// `0a:ff`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// The files below a directory, symbolic links to directories left alone below the first levels.
fn list(directory: &Path, depth: u32, files: &mut Vec<(PathBuf, u64, u128)>) -> std::io::Result<()> {
    const MAX_DEPTH: u32 = 8;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let Ok(data) = std::fs::metadata(&path) else { continue };
        if data.is_dir() && depth < MAX_DEPTH {
            list(&path, depth + 1, files)?;
        } else if data.is_file() {
            let changed = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            files.push((path, data.len(), changed.map_or(0, |time| time.as_nanos())));
        }
    }
    Ok(())
}

type Found = (Vec<(String, Entry)>, Vec<String>);

fn read(directories: &[PathBuf]) -> Result<Found> {
    let mut loader = Loader::new().resolver_strictness(ResolverStrictness::Permissive);
    for directory in directories {
        let files = source::dir(directory)
            .map_err(|error| Error::os("read MIB files in", directory.display().to_string(), &error))?;
        loader = loader.source(files);
    }
    let names = directories.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let mib = loader.load().map_err(|error| Error::failed("read MIB files in", &names, error))?;
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
    let mut warnings = Vec::new();
    if entries.is_empty() {
        warnings.push(format!("there is no MIB module in {names}"));
    }
    Ok((entries, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = r#"
EXAMPLE-MIB DEFINITIONS ::= BEGIN
IMPORTS MODULE-IDENTITY, OBJECT-TYPE, NOTIFICATION-TYPE, Integer32, enterprises FROM SNMPv2-SMI
        TEXTUAL-CONVENTION FROM SNMPv2-TC
        Colour FROM EXAMPLE-TC;
exampleMIB MODULE-IDENTITY LAST-UPDATED "202601010000Z" ORGANIZATION "x" CONTACT-INFO "x" DESCRIPTION "x"
    ::= { enterprises 99999 }
exampleColour OBJECT-TYPE SYNTAX Colour MAX-ACCESS read-only STATUS current DESCRIPTION "x" ::= { exampleMIB 1 }
exampleTenths OBJECT-TYPE SYNTAX Tenths MAX-ACCESS read-only STATUS current DESCRIPTION "x" ::= { exampleMIB 2 }
Tenths ::= TEXTUAL-CONVENTION DISPLAY-HINT "d-1" STATUS current DESCRIPTION "x" SYNTAX Integer32
exampleMac OBJECT-TYPE SYNTAX Mac MAX-ACCESS read-only STATUS current DESCRIPTION "x" ::= { exampleMIB 3 }
Mac ::= TEXTUAL-CONVENTION DISPLAY-HINT "1x:" STATUS current DESCRIPTION "x" SYNTAX OCTET STRING (SIZE (6))
exampleFlags OBJECT-TYPE SYNTAX BITS { one(0), two(9) } MAX-ACCESS read-only STATUS current DESCRIPTION "x" ::= { exampleMIB 4 }
exampleEvent NOTIFICATION-TYPE OBJECTS { exampleColour } STATUS current DESCRIPTION "x" ::= { exampleMIB 0 1 }
END
"#;
    const TC: &str = r#"
EXAMPLE-TC DEFINITIONS ::= BEGIN
IMPORTS MODULE-IDENTITY, enterprises FROM SNMPv2-SMI TEXTUAL-CONVENTION FROM SNMPv2-TC;
exampleTC MODULE-IDENTITY LAST-UPDATED "202601010000Z" ORGANIZATION "x" CONTACT-INFO "x" DESCRIPTION "x"
    ::= { enterprises 99998 }
Colour ::= TEXTUAL-CONVENTION STATUS current DESCRIPTION "x" SYNTAX INTEGER { red(1), green(2) }
END
"#;
    const V1: &str = r#"
OLD-MIB DEFINITIONS ::= BEGIN
IMPORTS enterprises FROM RFC1155-SMI OBJECT-TYPE FROM RFC-1212 TRAP-TYPE FROM RFC-1215;
oldThings OBJECT IDENTIFIER ::= { enterprises 99997 }
oldState OBJECT-TYPE SYNTAX INTEGER { up(1), down(2) } ACCESS read-only STATUS mandatory DESCRIPTION "x" ::= { oldThings 1 }
oldTrap TRAP-TYPE ENTERPRISE oldThings VARIABLES { oldState } DESCRIPTION "x" ::= 5
END
"#;

    fn name_of(names: &Names, text: &str) -> String {
        let bytes = oid::encode(&oid::parse(text).unwrap());
        names.name(Oid::new(&bytes).unwrap())
    }

    fn value_of(names: &Names, name: &str, value: Value<'_>) -> String {
        let bytes = names.resolve(name).unwrap();
        names.value(Oid::new(&bytes).unwrap(), &value)
    }

    #[test]
    fn both_versions_are_read_with_imports_and_cached() {
        let folder = tempfile::tempdir().unwrap();
        let mibs = folder.path().join("mibs");
        std::fs::create_dir(&mibs).unwrap();
        for (file, text) in
            [("EXAMPLE-MIB.txt", V2), ("EXAMPLE-TC.mib", TC), ("OLD-MIB.my", V1), ("noise.txt", "what?")]
        {
            std::fs::write(mibs.join(file), text).unwrap();
        }
        let cache = folder.path().join("cache.json");
        for round in 0..2 {
            assert_eq!(cache.exists(), round == 1);
            let names = Names::load(std::slice::from_ref(&mibs), Some(&cache)).unwrap();
            assert_eq!(name_of(&names, "1.3.6.1.4.1.99999.1.7"), "exampleColour.7");
            assert_eq!(name_of(&names, "1.3.6.1.4.1.99999.0.1"), "exampleEvent");
            assert_eq!(name_of(&names, "1.3.6.1.4.1.99997.0.5"), "oldTrap");
            assert_eq!(value_of(&names, "exampleColour", Value::Integer(2)), "green(2)");
            assert_eq!(value_of(&names, "exampleColour", Value::Integer(3)), "3");
            assert_eq!(value_of(&names, "exampleTenths", Value::Integer(-7)), "-0.7");
            assert_eq!(value_of(&names, "exampleMac", Value::OctetString(&[0, 0xab, 1])), "00:ab:01");
            assert_eq!(value_of(&names, "exampleFlags", Value::OctetString(&[0x80, 0x40])), "one(0) two(9)");
            assert_eq!(value_of(&names, "oldState", Value::Integer(2)), "down(2)");
            assert_eq!(name_of(&Names::cached(&cache), "1.3.6.1.4.1.99999.0.1"), "exampleEvent");
        }
        // Another file: the cache is not believed.
        std::fs::remove_file(mibs.join("OLD-MIB.my")).unwrap();
        let names = Names::load(&[mibs], Some(&cache)).unwrap();
        assert_eq!(name_of(&names, "1.3.6.1.4.1.99997.0.5"), "enterprises.99997.0.5");
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
        assert!(Names::load(&["/nowhere/at/all".into()], None).unwrap_err().to_string().contains("/nowhere/at/all"));
    }
}

//! MIB files: modules below directories become a table of names, which is kept beside the store.
//!
//! Owns the files: which there are, the cache and when it is believed. Reading and resolving modules (SMIv1 and SMIv2, with what they
//! import) is `mib-rs`'s; what the names are used for is [`ringtap_snmp::names`]'.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use mib_rs::{Loader, ResolverStrictness, source};
use ringtap::{Error, Result};
use ringtap_snmp::names::{Entry, Names, entries};
use serde::{Deserialize, Serialize};

/// Layout of the cache; a change makes old caches useless.
const CACHE_VERSION: u32 = 1;

/// Path, length and time of change of a file.
type FileState = (PathBuf, u64, u128);

/// The cache: what it was made from, and the names in numeric form.
#[derive(Serialize, Deserialize)]
struct Cache {
    version: u32,
    files: Vec<FileState>,
    entries: Vec<(String, Entry)>,
    warnings: Vec<String>,
}

impl Cache {
    /// `None`: there is none, or one of another layout.
    fn read(path: &Path) -> Option<Self> {
        let cache: Self = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        (cache.version == CACHE_VERSION).then_some(cache)
    }

    /// Whole or not at all: another process may be reading it.
    fn write(&self, path: &Path) -> std::io::Result<()> {
        let bytes = serde_json::to_vec(self)?;
        let new = path.with_extension("new");
        std::fs::write(&new, bytes)?;
        std::fs::rename(&new, path)
    }
}

/// Reads all modules below `directories`; from `cache`, if that was made from the same files, else writes it.
///
/// # Errors
/// A directory can't be read. What is wrong inside a file is a warning.
pub fn load(directories: &[PathBuf], cache: Option<&Path>) -> Result<Names> {
    let mut files = Vec::new();
    for directory in directories {
        list(directory, 0, &mut files)
            .map_err(|error| Error::os("read MIB files in", directory.display().to_string(), &error))?;
    }
    files.sort();
    if let Some(cached) = cache.and_then(Cache::read).filter(|cached| cached.files == files) {
        return Ok(Names::new(cached.entries, cached.warnings));
    }
    let (entries, warnings) = read(directories)?;
    let mut made = Cache { version: CACHE_VERSION, files, entries, warnings };
    if let Some(path) = cache
        && let Err(error) = made.write(path)
    {
        made.warnings.push(format!("the cache of MIB names {} can't be written: {error}", path.display()));
    }
    Ok(Names::new(made.entries, made.warnings))
}

/// The names of a cache as they were when it was written; none when there is no cache, or one of another layout.
pub fn cached(path: &Path) -> Names {
    Cache::read(path).map_or_else(Names::default, |cached| Names::new(cached.entries, cached.warnings))
}

/// Where the names found in MIB files are kept in a store's directory.
pub fn cache_of(store: &Path) -> PathBuf {
    store.join("names.json")
}

/// The files below a directory, symbolic links to directories left alone below the first levels.
fn list(directory: &Path, depth: u32, files: &mut Vec<FileState>) -> std::io::Result<()> {
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

/// Names, and warnings.
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
    let entries = entries(&mib);
    let mut warnings = Vec::new();
    if entries.is_empty() {
        warnings.push(format!("there is no MIB module in {names}"));
    }
    Ok((entries, warnings))
}

#[cfg(test)]
mod tests {
    use ringtap_snmp::oid::{self, Oid};
    use ringtap_snmp::varbind::Value;

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
            let names = load(std::slice::from_ref(&mibs), Some(&cache)).unwrap();
            assert_eq!(name_of(&names, "1.3.6.1.4.1.99999.1.7"), "exampleColour.7");
            assert_eq!(name_of(&names, "1.3.6.1.4.1.99999.0.1"), "exampleEvent");
            assert_eq!(name_of(&names, "1.3.6.1.4.1.99997.0.5"), "oldTrap");
            assert_eq!(value_of(&names, "exampleColour", Value::Integer(2)), "green(2)");
            assert_eq!(value_of(&names, "exampleColour", Value::Integer(3)), "3");
            assert_eq!(value_of(&names, "exampleTenths", Value::Integer(-7)), "-0.7");
            assert_eq!(value_of(&names, "exampleMac", Value::OctetString(&[0, 0xab, 1])), "00:ab:01");
            assert_eq!(value_of(&names, "exampleFlags", Value::OctetString(&[0x80, 0x40])), "one(0) two(9)");
            assert_eq!(value_of(&names, "oldState", Value::Integer(2)), "down(2)");
            assert_eq!(name_of(&cached(&cache), "1.3.6.1.4.1.99999.0.1"), "exampleEvent");
        }
        // Another file: the cache is not believed.
        std::fs::remove_file(mibs.join("OLD-MIB.my")).unwrap();
        let names = load(&[mibs], Some(&cache)).unwrap();
        assert_eq!(name_of(&names, "1.3.6.1.4.1.99997.0.5"), "enterprises.99997.0.5");
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        assert!(load(&["/nowhere/at/all".into()], None).unwrap_err().to_string().contains("/nowhere/at/all"));
    }
}

//! Owns: `ringtap.toml`, which all programs share: the names of its tables, where one is wrong, and what is near to a name that is
//! not known.
//! Does not: know what is in a table; each program reads its own.

mod keys;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use ringtap::{Error, Result};
use serde::de::{DeserializeOwned, IgnoredAny};
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

pub use keys::Keys;

use crate::secrets;

/// Where packages put it.
pub const USUAL_PATH: &str = "/etc/ringtap/ringtap.toml";

/// The tables of all programs.
const TABLES: [&str; 15] = [
    "alarms",
    "blinding",
    "bounds",
    "capture",
    "correlate",
    "discover",
    "forward",
    "iprep",
    "kafka",
    "overlap",
    "rules",
    "snmp",
    "split",
    "trap",
    "variables",
];

/// A program's own tables, `T`, of the file `name`; those of other programs are passed over, unknown ones are an error.
/// `way_out` says where to read what may be in it.
///
/// # Errors
/// Something in it is not understood (with its line, and without what stands there).
pub fn parse<T: DeserializeOwned>(name: &str, text: &str, way_out: &str) -> Result<T> {
    if let Some(fault) = frame(name, text, way_out).into_iter().next() {
        return Err(fault);
    }
    toml::from_str(text).map_err(|error| wrong(name, text, &error, way_out))
}

/// What is wrong in a file whatever program reads it: it is no TOML, or has tables that no program knows.
#[must_use]
pub fn frame(name: &str, text: &str, way_out: &str) -> Vec<Error> {
    let tables: BTreeMap<Spanned<String>, IgnoredAny> = match toml::from_str(text) {
        Ok(tables) => tables,
        Err(error) => return vec![wrong(name, text, &error, way_out)],
    };
    let mut unknown: Vec<_> = tables.keys().filter(|table| !TABLES.contains(&table.as_ref().as_str())).collect();
    unknown.sort_by_key(|table| table.span().start);
    let fault = |table: &Spanned<String>| {
        let shown = ringtap_output::printable(table.as_ref());
        let cause = format!("unknown table `{shown}`, {}", expected(table.as_ref(), &TABLES));
        let at = secrets::line(text, table.span().start);
        Error::usage("read the configuration", format!("{name}:{at}"), cause).way_out(way_out)
    };
    unknown.into_iter().map(fault).collect()
}

/// What is wrong in the tables `T` of the file at `path`: the first fault of each table, by its form; if there is none, what `deeply`
/// finds.
#[must_use]
pub fn check<T: DeserializeOwned>(path: &Path, way_out: &str, deeply: impl FnOnce() -> Result<()>) -> Vec<Error> {
    let name = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return vec![Error::os("read the configuration", name, &error)],
    };
    let whole = match DeTable::parse(&text) {
        Ok(whole) => whole,
        Err(error) => return vec![wrong(&name, &text, &error, way_out)],
    };
    let span = whole.span();
    let fault = |(table, value)| {
        let alone = Spanned::new(span.clone(), DeTable::from_iter([(table, value)]));
        T::deserialize(Deserializer::from(alone)).err().map(|error| wrong(&name, &text, &error, way_out))
    };
    let faults: Vec<Error> = whole.into_inner().into_iter().filter_map(fault).collect();
    if faults.is_empty() { deeply().err().into_iter().collect() } else { faults }
}

fn wrong(name: &str, text: &str, error: &toml::de::Error, way_out: &str) -> Error {
    let (at, cause) = secrets::fault(text, error);
    Error::usage("read the configuration", format!("{name}:{at}"), cause).way_out(way_out)
}

/// What was to stand where `unknown` does: the name that is nearest to it, if one is near, else all of them.
#[must_use]
pub fn expected(unknown: &str, known: &[&str]) -> String {
    match nearest(unknown, known) {
        Some(near) => format!("the nearest known name is `{near}`"),
        None if known.len() == 1 => format!("expected `{}`", known[0]),
        None => format!("expected one of `{}`", known.join("`, `")),
    }
}

/// The known name that was meant, as far as one can tell: a third of its letters may be others. Of several that are as near the one that
/// begins the same for longer.
fn nearest<'k>(unknown: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |name: &str| name.to_lowercase().replace('_', "-");
    let unknown = plain(unknown);
    // What is far too long is not compared.
    let near = |name: &&str| unknown.len() < 64 && name.len().abs_diff(unknown.len()) <= name.len().max(6) / 3;
    let compared = known.iter().copied().filter(near).map(|name| {
        let known = plain(name);
        let alike = unknown.bytes().zip(known.bytes()).take_while(|(one, other)| one == other).count();
        (strsim::damerau_levenshtein(&unknown, &known), Reverse(alike), name)
    });
    let (changes, _, name) = compared.min()?;
    let most = (name.len().max(3) / 3).min(name.len().min(unknown.len()).saturating_sub(1));
    (changes <= most).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(default)]
    struct File {
        bounds: Bounds,
    }

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Bounds {
        flows: Option<u64>,
    }

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(default)]
    struct Two {
        bounds: Bounds,
        other: Bounds,
    }

    #[test]
    fn others_tables_are_passed_over_and_unknown_ones_are_named() {
        let read = |text: &str| parse::<File>("f", text, "see there");
        let all: String = TABLES.iter().map(|table| format!("[{table}]\n")).collect();
        assert!(read(&all).is_ok());
        let others =
            "[bounds]\nflows = 10\n[trap]\nx = [1]\n[[correlate.sensor]]\nid = \"a\"\n[iprep]\ncategories = \"c\"\n";
        assert_eq!(read(others).unwrap().bounds.flows, Some(10));
        for (text, expected) in [
            ("[bounds]\n[correlat]\n", "f:2: unknown table `correlat`, the nearest known name is `correlate`"),
            ("[bounds]\n[elsewhere]\n", "f:2: unknown table `elsewhere`, expected one of `alarms`"),
            ("flows = 10\n", "f:1: unknown table `flows`"),
            ("[bounds]\nflow = 10\n", "f:2: unknown field `flow`, the nearest known name is `flows`"),
            ("[bounds]\nbudget = 10\n", "f:2: unknown field `budget`, expected `flows`"),
            ("[bounds]\nflows = \"secret\"\n", "f:2: invalid type, expected u64"),
            ("[bounds\n", "f:1: "),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("see there") && !error.contains("secret"), "{error}");
        }
    }
    #[test]
    fn each_table_tells_its_first_fault_and_the_depth_is_looked_at_last() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let faults = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            let faults = check::<Two>(file.path(), "see there", || Err(Error::failed("use", "it", "too deep")));
            faults.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let two = faults("[trap]\nx = 1\n[bounds]\nflows = -1\nflow = 1\n[other]\nflow = 1\nflows = \"no\"\n");
        assert!(two.len() == 2 && two[0].contains(":5: ") && two[1].contains(":7: "), "{two:?}");
        assert!(faults("[bounds\n")[0].contains(":1: "));
        assert!(faults("[bounds]\nflows = 1\n")[0].contains("too deep"));
    }

    #[test]
    fn the_nearest_name_is_one_that_may_have_been_meant() {
        let known = ["communities", "community", "max-alarms", "to", "user", "wait", "write"];
        for (unknown, near) in [
            ("comunity", Some("community")),
            ("max_alarms", Some("max-alarms")),
            ("MaxAlarms", Some("max-alarms")),
            ("users", Some("user")),
            ("ot", Some("to")),
            ("writ", Some("write")),
            ("zz", None),
            ("", None),
            ("password", None),
        ] {
            assert_eq!(nearest(unknown, &known), near, "{unknown}");
        }
        assert_eq!(nearest(&"user".repeat(1 << 20), &known), None);
    }
}

//! Owns: `ringtap.toml`, which all programs share: the names of its tables, and where one is wrong.
//! Does not: know what is in a table; each program reads its own.

use std::collections::BTreeMap;

use ringtap::{Error, Result};
use serde::de::{DeserializeOwned, IgnoredAny};
use toml::Spanned;

use crate::secrets;

/// The tables of all programs.
const TABLES: [&str; 12] = [
    "alarms",
    "blinding",
    "bounds",
    "correlate",
    "discover",
    "iprep",
    "kafka",
    "overlap",
    "rules",
    "snmp",
    "trap",
    "variables",
];

/// A program's own tables, `T`, of the file `name`; those of other programs are passed over, unknown ones are an error.
/// `way_out` says where to read what may be in it.
///
/// # Errors
/// Something in it is not understood (with its line, and without what stands there).
pub fn parse<T: DeserializeOwned>(name: &str, text: &str, way_out: &str) -> Result<T> {
    let wrong = |at: usize, cause: String| {
        Error::usage("read the configuration", format!("{name}:{at}"), cause).way_out(way_out)
    };
    let fault = |error| {
        let (at, cause) = secrets::fault(text, &error);
        wrong(at, cause)
    };
    let tables: BTreeMap<Spanned<String>, IgnoredAny> = toml::from_str(text).map_err(fault)?;
    if let Some(unknown) = tables.keys().find(|table| !TABLES.contains(&table.as_ref().as_str())) {
        let shown = ringtap_output::printable(unknown.as_ref());
        let cause = format!("unknown table `{shown}`, expected one of `{}`", TABLES.join("`, `"));
        return Err(wrong(secrets::line(text, unknown.span().start), cause));
    }
    toml::from_str(text).map_err(fault)
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

    #[test]
    fn others_tables_are_passed_over_and_unknown_ones_are_named() {
        let read = |text: &str| parse::<File>("f", text, "see there");
        let all: String = TABLES.iter().map(|table| format!("[{table}]\n")).collect();
        assert!(read(&all).is_ok());
        let others =
            "[bounds]\nflows = 10\n[trap]\nx = [1]\n[[correlate.sensor]]\nid = \"a\"\n[iprep]\ncategories = \"c\"\n";
        assert_eq!(read(others).unwrap().bounds.flows, Some(10));
        for (text, expected) in [
            ("[bounds]\n[correlat]\n", "f:2: unknown table `correlat`, expected one of `alarms`"),
            ("flows = 10\n", "f:1: unknown table `flows`"),
            ("[bounds]\nflow = 10\n", "f:2: unknown field `flow`"),
            ("[bounds]\nflows = \"secret\"\n", "f:2: invalid type, expected u64"),
            ("[bounds\n", "f:1: "),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("see there") && !error.contains("secret"), "{error}");
        }
    }
}

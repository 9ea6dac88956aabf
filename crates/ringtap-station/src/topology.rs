//! Topology files: read and checked, for the station and for whoever looks at one.
//!
//! Owns what of files people are told. What is in one is `ringtap_rootcause::topology::file`'s.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ringtap::{Error, Result};
use ringtap_rootcause::Topology;
use ringtap_rootcause::topology::file::{self, Fault, MOST_BYTES};
use ringtap_run::units;

/// Reads a topology file.
///
/// # Errors
/// It can't be read, or has a fault: the first is told with its line, and how many there are.
pub fn read(path: &Path) -> Result<Topology> {
    check(path)?.map_err(|faults| {
        let (name, what) = match faults.first() {
            Some(fault) => (format!("{}:{}", path.display(), fault.line), fault.what.clone()),
            None => (path.display().to_string(), "it has a fault".to_owned()),
        };
        let others = faults.len().saturating_sub(1);
        let cause = if others == 0 { what } else { format!("{what} (and {others} more)") };
        Error::usage("read the topology", name, cause).way_out("`ringtap topology check` shows all faults")
    })
}

/// Reads a topology file; within: its faults.
///
/// # Errors
/// It can't be read.
pub fn check(path: &Path) -> Result<std::result::Result<Topology, Vec<Fault>>> {
    let name = path.display().to_string();
    let failed = |error: std::io::Error| Error::os("read the topology", &name, &error);
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MOST_BYTES as u64 + 1).read_to_string(&mut text).map_err(failed)?;
    Ok(file::read(&text))
}

/// What is in it, in a line.
#[must_use]
pub fn size(topology: &Topology) -> String {
    let one = |count: usize, one: &str, many: &str| {
        format!("{} {}", units::grouped(count as u64), if count == 1 { one } else { many })
    };
    [
        one(topology.nodes().len(), "node", "nodes"),
        one(topology.links().len(), "link", "links"),
        one(topology.adjacencies().len(), "adjacency", "adjacencies"),
        one(topology.cards().len(), "card", "cards"),
        one(topology.power().len(), "power group", "power groups"),
        one(topology.sites().len(), "site", "sites"),
    ]
    .join(", ")
}

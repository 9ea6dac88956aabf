//! `ringtap bench --plots`: drawings for documents, from a book and from what a demo printed.
//!
//! Owns the names of the files. What they show is in `report::standalone`.

use std::path::{Path, PathBuf};

use ringtap::{Error, Result};
use ringtap_testbed::Topology;

use crate::book::Book;
use crate::report::standalone;

/// Writes `core-use-nic.svg` and `core-use-host.svg` of `book`, and `demo.svg` of the output of `ringtap demo --json` in
/// the file `demo`, into the folder `out`. What was written.
///
/// # Errors
/// The book has no rates of Ringtap, the demo's output is not one, or a file can't be read or written.
pub fn write(book: &Book, demo: Option<&Path>, out: &Path) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for (topology, name) in [(Topology::Nic, "core-use-nic.svg"), (Topology::Host, "core-use-host.svg")] {
        if let Some(svg) = standalone::core_use(book, topology) {
            written.push(save(&out.join(name), &svg)?);
        }
    }
    if written.is_empty() {
        return Err(Error::failed("draw core use of", out.display().to_string(), "it has no rates of `hybrid 1ms`")
            .way_out("measure them: ringtap bench --only rates --out DIR"));
    }
    if let Some(demo) = demo {
        let object = demo.display().to_string();
        let bytes = std::fs::read(demo).map_err(|error| Error::os("read", object.clone(), &error))?;
        let said = serde_json::from_slice(&bytes).map_err(|error| Error::failed("read", object.clone(), error))?;
        let svg = standalone::demo(&said).ok_or_else(|| {
            Error::failed("draw", object, "it is not what a demo prints").way_out("ringtap demo --json > FILE")
        })?;
        written.push(save(&out.join("demo.svg"), &svg)?);
    }
    Ok(written)
}

fn save(path: &Path, svg: &str) -> Result<PathBuf> {
    let failed = |error| Error::os("write", path.display().to_string(), &error);
    std::fs::write(path, svg).map_err(failed)?;
    Ok(path.to_owned())
}

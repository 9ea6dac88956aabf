//! Where the third-party data of the conformance suite is. It is no part of the repository, and no other test needs it.

use std::path::{Path, PathBuf};

/// The folder: what `RINGTAP_CONFORMANCE` says, else `../shared/data` seen from the repository's root. `scripts/test` asks the
/// same before it runs the suite.
fn folder() -> PathBuf {
    std::env::var_os("RINGTAP_CONFORMANCE").filter(|value| !value.is_empty()).map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        |value| {
            let given = PathBuf::from(value);
            // Relative to where `make` was called, which is the repository's root; tests run in their crate's folder.
            if given.is_absolute() { given } else { Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(given) }
        },
    )
}

/// A file or folder of it.
///
/// # Panics
///
/// Where it is not there, in the words that `scripts/test` knows.
#[must_use]
pub fn data(test: &str, name: &str) -> PathBuf {
    let path = folder().join(name);
    assert!(path.exists(), "did not run: {test}: {} is missing: set RINGTAP_CONFORMANCE", path.display());
    path
}

/// The folders in a folder of it, sorted by name.
///
/// # Panics
///
/// As [`data`], and where it can't be read.
#[must_use]
pub fn cases(test: &str, name: &str) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(data(test, name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut folders: Vec<PathBuf> =
        listed.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Its capture files of all kinds of protocols, many malformed, sorted by name.
///
/// # Panics
///
/// As [`data`], and where there are too few.
#[must_use]
pub fn captures(test: &str) -> Vec<PathBuf> {
    let folder = data(test, "decode");
    let files = crate::read::files(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    assert!(files.len() >= 300, "only {} capture files in {}", files.len(), folder.display());
    files
}

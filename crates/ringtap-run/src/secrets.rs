//! Files that nobody else may read, and numbers that nobody can foresee.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ringtap::{Error, Result};

/// Reads a configuration that may hold secrets.
///
/// # Errors
/// It can't be read, or others may read it too.
pub fn read_private(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    let failed = |error: std::io::Error| Error::os("read the configuration", &name, &error);
    let mode = path.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Error::failed("read the configuration", &name, format!("its mode is {:04o}", mode & 0o7777))
            .way_out(format!("it may hold secrets: chmod 600 {name}")));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// A number that nobody can foresee, by getrandom(2).
///
/// # Errors
/// The kernel has none yet or refuses the call.
pub fn random() -> Result<u64> {
    getrandom::u64().map_err(|error| Error::failed("take a random number from", "the kernel", error))
}

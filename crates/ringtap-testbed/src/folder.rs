//! Folders in memory that only the receiver sees: nothing of them is left, however a program ends.
//!
//! Owns the memory file system that they are in.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use ringtap::{Error, Result};

use crate::testbed::Testbed;

/// Where the receiver has a memory file system of its own, over the machine's.
pub(crate) const MEMORY: &str = "/dev/shm";
/// Tells ours from the machine's.
const MARK: &str = "/dev/shm/.ringtap-testbed";

/// A folder in memory for one program. Its files go when this is dropped, and with the testbed however that ends: the file
/// system is mounted nowhere but inside the receiver.
#[derive(Debug)]
pub struct Folder {
    inside: PathBuf,
    /// The way to it from outside.
    descriptor: File,
}

impl Folder {
    /// An empty one.
    ///
    /// # Errors
    /// A memory file system can't be mounted there, or written to.
    pub fn new(testbed: &Testbed) -> Result<Self> {
        testbed.receiver().run(|| {
            if !Path::new(MARK).exists() {
                let none: Option<&str> = None;
                mount(Some("tmpfs"), MEMORY, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, none)
                    .map_err(|errno| Error::os("mount a tmpfs on", MEMORY, &errno.into()))?;
                fs::write(MARK, "").map_err(|error| Error::os("write", MARK, &error))?;
            }
            let failed = |error| Error::os("make a folder in", MEMORY, &error);
            let inside = tempfile::Builder::new().prefix("peer-").tempdir_in(MEMORY).map_err(failed)?.keep();
            let descriptor = File::open(&inside).map_err(failed)?;
            Ok(Self { inside, descriptor })
        })?
    }

    /// How a program inside the receiver calls it.
    #[must_use]
    pub fn inside(&self) -> &Path {
        &self.inside
    }

    /// How we call it.
    #[must_use]
    pub fn outside(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays goes with the testbed.
        for entry in fs::read_dir(self.outside()).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

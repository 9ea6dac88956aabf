//! Where peers keep files, and the judgement over the packets they wrote.
//!
//! Owns a folder in memory that only the receiver sees, and the reading of captures in it. The verdict over the numbers is
//! `sequence`'s.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use ringtap::source::Source;
use ringtap::source::file::{FileSource, Pace};
use ringtap::{Error, Result};

use crate::sequence::{SequenceChecker, SequenceReport};
use crate::stamp::Stamp;
use crate::testbed::Testbed;

/// Where the receiver has a memory file system of its own, over the machine's.
pub(super) const MEMORY: &str = "/dev/shm";
/// Tells ours from the machine's.
const MARK: &str = "/dev/shm/.ringtap-testbed";

/// A folder in memory for one peer. Its files go when this is dropped, and with the testbed however that ends: the file
/// system is mounted nowhere but inside the receiver.
pub(super) struct Folder {
    inside: PathBuf,
    /// The way to it from outside.
    descriptor: File,
}

impl Folder {
    pub(super) fn new(testbed: &Testbed) -> Result<Self> {
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
    pub(super) fn inside(&self) -> &Path {
        &self.inside
    }

    /// How we call it.
    pub(super) fn outside(&self) -> PathBuf {
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

/// Reads capture files and checks the numbers in them.
pub(super) fn judge(
    files: &[impl AsRef<Path>],
    expected: u64,
    sent: u64,
    note: &mut Vec<String>,
) -> Result<SequenceReport> {
    let mut checker = SequenceChecker::new(expected);
    // A program that saw nothing may have written not even a header.
    let files: Vec<&Path> =
        files.iter().map(AsRef::as_ref).filter(|path| path.metadata().is_ok_and(|data| data.len() > 0)).collect();
    if !files.is_empty() {
        let mut source = FileSource::open(&files, Pace::AsFast)?;
        while !source.has_ended() {
            for packet in source.receive().iter() {
                match Stamp::from_frame(packet.data) {
                    Some(stamp) => checker.see(stamp.seq),
                    None => checker.see_foreign(),
                }
            }
        }
        note.extend(source.faults().iter().map(|fault| format!("what it wrote is faulty: {fault}")));
    }
    Ok(checker.report(sent))
}

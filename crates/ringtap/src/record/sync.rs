//! What is on the disk for good: finished files are synced by a thread of their own, so that no disk holds up the writer.
//!
//! Owns that thread (`ringtap-sync`, started with the first file that rotation closes) and what could not be synced. A file is
//! synced when it is finished, and so is its directory, which holds its name; what is being written is the kernel's to
//! write back, as with any program.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::error::{Error, Result};

/// Files that may wait for the disk. When one more is finished the writer waits too, and then the spool.
const WAITING: usize = 16;

/// A finished file and its path.
type Finished = (File, PathBuf);

/// Syncs finished files in the background.
#[derive(Debug, Default)]
pub(super) struct Syncer {
    running: Option<(SyncSender<Finished>, JoinHandle<Option<Error>>)>,
    /// The first file that could not be synced.
    error: Option<Error>,
}

impl Syncer {
    /// Has a finished file synced.
    pub(super) fn take(&mut self, file: File, path: PathBuf) {
        if self.running.is_none() {
            let (sender, files) = sync_channel::<Finished>(WAITING);
            let work = move || {
                // The first error is told; the others are its like.
                files.into_iter().filter_map(|(file, path)| sync(&file, &path).err()).reduce(|first, _| first)
            };
            let thread = std::thread::Builder::new().name("ringtap-sync".to_owned()).spawn(work);
            self.running = thread.ok().map(|thread| (sender, thread));
        }
        match &self.running {
            Some((sender, _)) => drop(sender.send((file, path))),
            // No thread is left: the writer does it.
            None => self.error = self.error.take().or(sync(&file, &path).err()),
        }
    }

    /// Waits until no file is held any more: what is deleted meanwhile takes its room until then. `false`: none was.
    pub(super) fn settle(&mut self) -> bool {
        let Some((sender, thread)) = self.running.take() else { return false };
        drop(sender);
        let error = thread.join().ok().flatten();
        self.error = self.error.take().or(error);
        true
    }

    /// Waits until all are synced; what could not be.
    pub(super) fn finish(mut self) -> Option<Error> {
        self.settle();
        self.error
    }
}

/// The file's bytes and its name are on the disk when this returns.
pub(super) fn sync(file: &File, path: &Path) -> Result<()> {
    let failed = |error: &std::io::Error| {
        Error::os("sync", path.display().to_string(), error).way_out("it may be incomplete after a power failure")
    };
    file.sync_data().map_err(|error| failed(&error))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(folder).and_then(|folder| folder.sync_data()) {
        // A directory that may be written to and not read, or one that cannot be synced, as that of /dev/fd/1.
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => Ok(()),
        done => done.map_err(|error| failed(&error)),
    }
}

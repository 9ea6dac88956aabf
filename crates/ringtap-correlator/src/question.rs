//! What `ringtap alarms --incidents` is asked, and its answer from the store.
//!
//! Owns which list answers what; the lists are `listing`'s, packets are gathered by `packets`.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ringtap::{Error, Result};
use ringtap_output::Severity;
use ringtap_run::{notes, units};

use crate::listing::Listing;
use crate::packets::{Flows, Gathered};

/// A question about incidents.
#[derive(Debug, Clone, Copy)]
pub enum Question<'a> {
    /// Those that are told by themselves.
    List {
        /// Closed ones too.
        all: bool,
        /// Only those of this severity and worse.
        least: Option<Severity>,
    },
    /// One, by the beginning of its id.
    Show(&'a str),
    /// All, with their members.
    Export,
    /// One, by the beginning of its id, with what its members say, as JSON.
    ExportOne(&'a str),
    /// The packets of one.
    Packets(Packets<'a>),
}

/// Which packets are wanted, and where to.
#[derive(Debug, Clone, Copy)]
pub struct Packets<'a> {
    /// The incident, by the beginning of its id.
    pub id: &'a str,
    /// Recordings, or folders of them.
    pub places: &'a [PathBuf],
    /// How far before and behind a member, nanoseconds.
    pub around_ns: i64,
    /// Where to; else standard output.
    pub write: Option<&'a Path>,
}

impl Question<'_> {
    /// Answers it from the store in this folder; what `out` took is the inner result.
    ///
    /// # Errors
    /// There is no store, no such incident, or it can't be read; the packets can't be written to their file.
    pub fn answer(self, folder: &Path, json: bool, out: &mut impl Write) -> Result<io::Result<()>> {
        let listing = Listing::read(folder)?;
        Ok(match self {
            Self::List { all, least } => listing.list(out, all, least, json).map(|count| {
                if count == 0 && !json {
                    let such = least.map_or(String::new(), |least| format!(" of severity {} or worse", least.name()));
                    let open = if all { "" } else { " that are open; --all has the closed ones" };
                    notes::say(&format!("there are none{such}{open}"));
                }
            }),
            Self::Show(id) => listing.show(out, folder, listing.find(id)?, json)?,
            Self::Export => listing.export(out),
            Self::ExportOne(id) => listing.show(out, folder, listing.find(id)?, true)?,
            Self::Packets(wanted) => wanted.gather(&listing, folder, out)?,
        })
    }
}

impl Packets<'_> {
    fn gather(self, listing: &Listing, folder: &Path, out: &mut impl Write) -> Result<io::Result<()>> {
        let Self { id, places, around_ns, write } = self;
        let events = listing.events(folder, listing.find(id)?)?;
        let flows = Flows::of(events.iter(), around_ns);
        if flows.is_empty() {
            return Err(Error::failed(
                "gather packets of",
                format!("incident {id}"),
                "the log has no flow of its members",
            ));
        }
        if write.is_none() && io::stdout().is_terminal() {
            return Err(Error::usage("write", "packets to a terminal", "nobody can read that").way_out("give -w FILE"));
        }
        // First all of it: what is there stays until there is something in its place.
        let gathered = flows.gather(places)?;
        let written = match write {
            Some(path) => {
                save(&gathered, path)?;
                Ok(())
            }
            None => gathered.write(out),
        };
        let found = &gathered.found;
        for note in &found.notes {
            notes::say(note);
        }
        notes::say(&format!("{} packets of {} recordings", units::grouped(found.packets as u64), found.files));
        Ok(written)
    }
}

/// Writes packets to a file, but to none that they were found in.
fn save(gathered: &Gathered, path: &Path) -> Result<()> {
    let failed = |error| Error::os("write", path.display().to_string(), &error);
    if path.metadata().is_ok_and(|metadata| gathered.is_input(&metadata)) {
        return Err(Error::usage("write", path.display().to_string(), "it is one of the files to look through")
            .way_out("name another file with -w"));
    }
    let mut options = OpenOptions::new();
    let file = options.create(true).write(true).truncate(true).mode(0o600).open(path).map_err(failed)?;
    gathered.write(&mut BufWriter::new(file)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("a.pcapng");
        std::fs::write(&recording, "something").unwrap();
        let gathered = Flows::default().gather(&[folder.path().to_owned()]).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&recording, &link).unwrap();
        for path in [&recording, &link] {
            assert!(save(&gathered, path).unwrap_err().to_string().contains("one of the files"));
        }
        assert_eq!(std::fs::read(&recording).unwrap(), b"something");
        save(&gathered, &folder.path().join("new")).unwrap();
    }
}

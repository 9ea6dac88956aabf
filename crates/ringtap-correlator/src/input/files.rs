//! Owns: files and pipes that are read to their end, and their merging by time.
//! Does not: know the watermark: a file may be out of order in itself.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, stdin};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use ringtap::{Error, Result};

use super::channel::{self, Came, Receiver};
use super::counts::InputCounts;
use super::parse::{Parser, Wanted};
use super::reader;
use crate::event::Event;

/// Bytes of one file that may wait: each has its own, as all have to go on for the earliest to be found.
const WAITING: usize = 16 << 20;

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// Something; true: of a file, which is read from its beginning each time.
    Came(Box<Came>, bool),
    /// Nothing yet.
    Nothing,
    /// Nothing any more.
    End,
}

struct Input {
    events: Receiver,
    heads: VecDeque<Event>,
    is_file: bool,
    has_ended: bool,
}

/// Several files, read at once.
pub struct Files {
    inputs: Vec<Input>,
    counts: Vec<Arc<InputCounts>>,
}

impl Files {
    /// Opens them; `-` is standard input. A pipe is opened by its thread, as that waits for who writes.
    ///
    /// # Errors
    /// One can't be opened.
    pub fn open(paths: &[PathBuf], wanted: Wanted) -> Result<Self> {
        let mut this = Self { inputs: Vec::new(), counts: Vec::new() };
        let names: Vec<String> = paths.iter().map(|path| base_name(path)).collect();
        for (number, path) in paths.iter().enumerate() {
            let failed = |error| Error::os("read", path.display().to_string(), &error);
            if path == Path::new("-") {
                this.start("stdin", false, wanted, || Some(stdin().lock()))?;
                continue;
            }
            let kind = path.metadata().map_err(failed)?.file_type();
            if kind.is_dir() {
                return Err(
                    Error::usage("read", path.display().to_string(), "it is a folder").way_out("name its files")
                );
            }
            // The same file is the same sensor, wherever it lies; of several with one name each is its own.
            let is_alone = names.iter().filter(|name| **name == names[number]).count() == 1;
            let name = if is_alone { names[number].clone() } else { path.display().to_string() };
            if kind.is_fifo() {
                let path = path.clone();
                this.start(&name, false, wanted, move || File::open(path).ok())?;
            } else {
                let file = File::open(path).map_err(failed)?;
                this.start(&name, kind.is_file(), wanted, || Some(file))?;
            }
        }
        Ok(this)
    }

    fn start<R: Read>(
        &mut self,
        name: &str,
        is_file: bool,
        wanted: Wanted,
        open: impl FnOnce() -> Option<R> + Send + 'static,
    ) -> Result<()> {
        let (sender, events) = channel::channel(WAITING);
        let (counts, mut parser) = (InputCounts::new(name), Parser::new(wanted, name));
        self.counts.push(Arc::clone(&counts));
        self.inputs.push(Input { events, heads: VecDeque::new(), is_file, has_ended: false });
        let work = move || match open() {
            Some(input) => {
                let understand = |line: &[u8]| parser.event(line).map(|event| Some(Came::Event(event)));
                reader::read(reader::buffered(input), understand, &counts, &sender);
            }
            None => drop(counts.failed.fetch_add(1, std::sync::atomic::Ordering::Relaxed)),
        };
        std::thread::Builder::new()
            .name("ringtap-input".to_owned())
            .spawn(work)
            .map(drop)
            .map_err(|error| Error::os("start the thread of", name, &error))
    }

    /// What each input counted.
    #[must_use]
    pub fn counts(&self) -> &[Arc<InputCounts>] {
        &self.counts
    }

    /// The earliest event of those that come next. Waits as long as this for an input that has none.
    pub fn next(&mut self, wait: Duration) -> Next {
        let mut earliest: Option<(i64, usize)> = None;
        for (number, input) in self.inputs.iter_mut().enumerate() {
            if input.heads.is_empty() && !input.has_ended {
                match input.events.recv_timeout(wait) {
                    Ok(batch) => input.heads.extend(batch.into_iter().filter_map(event)),
                    Err(RecvTimeoutError::Timeout) => return Next::Nothing,
                    Err(RecvTimeoutError::Disconnected) => input.has_ended = true,
                }
            }
            if let Some(head) = input.heads.front()
                && earliest.is_none_or(|(time, _)| head.mark.time_ns < time)
            {
                earliest = Some((head.mark.time_ns, number));
            }
        }
        let Some((_, number)) = earliest else { return Next::End };
        let input = &mut self.inputs[number];
        let is_file = input.is_file;
        input.heads.pop_front().map_or(Next::Nothing, |event| Next::Came(Box::new(Came::Event(event)), is_file))
    }
}

/// A file's name without its folder.
fn base_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Files have nothing but events.
fn event(came: Came) -> Option<Event> {
    match came {
        Came::Event(event) => Some(event),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn files_are_merged_by_time_and_bad_lines_counted() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let one = write("one", "{\"time\":1}\n{\"time\":3}\n\nnothing\n{\"time\":2}");
        let two = write("two", "{\"time\":2}\n\u{0}\n{\"time\":5}\n");
        let mut files = Files::open(&[one, two], Wanted::Auto).unwrap();
        let mut seen = Vec::new();
        loop {
            match files.next(Duration::from_secs(60)) {
                Next::Came(came, is_file) => {
                    let event = event(*came).unwrap();
                    assert!(is_file);
                    seen.push((event.mark.time_ns / 1_000_000_000, event.sensor.to_string()));
                }
                Next::Nothing => panic!("both files are there"),
                Next::End => break,
            }
        }
        let seen: Vec<(i64, &str)> = seen.iter().map(|(time, sensor)| (*time, sensor.as_str())).collect();
        assert_eq!(seen, [(1, "one"), (2, "two"), (3, "one"), (2, "one"), (5, "two")]);
        let bad: Vec<u64> = files.counts().iter().map(|counts| counts.bad.load(Ordering::Relaxed)).collect();
        assert_eq!(bad, [1, 1]);
        // Two of one name are two sensors.
        fs::create_dir(folder.path().join("other")).unwrap();
        let [one, two] = [write("one", "{\"time\":1}"), write("other/one", "{\"time\":1}")];
        let mut files = Files::open(&[one, two], Wanted::Auto).unwrap();
        let sensors: std::collections::HashSet<u64> = (0..2)
            .map(|_| match files.next(Duration::from_secs(60)) {
                Next::Came(came, _) => event(*came).unwrap().mark.clock.domain,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sensors.len(), 2);
        assert!(Files::open(&[folder.path().to_owned()], Wanted::Auto).is_err());
        assert!(Files::open(&[folder.path().join("none")], Wanted::Auto).is_err());
    }
}

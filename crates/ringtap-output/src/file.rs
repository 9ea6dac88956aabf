//! Owns: a file of lines: appended to, opened again on request, begun anew when it would exceed a size. `-` is standard
//! output.
//! Does not: compress or delete what was rotated, except the oldest beyond a number.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringtap::{Error, Result};

/// Bytes kept before they are written.
const BUFFER: usize = 64 << 10;
/// A failed file is tried again after this.
const RETRY: Duration = Duration::from_secs(1);

/// A file of lines.
#[derive(Debug)]
pub struct FileOutput {
    path: PathBuf,
    /// Begin a new one before it exceeds this many bytes, and keep so many old ones.
    rotate: Option<(u64, u32)>,
    file: Option<Box<dyn Target>>,
    buffer: Vec<u8>,
    buffered_lines: u64,
    len: u64,
    retry_at: Option<Instant>,
}

trait Target: Write + Send + std::fmt::Debug {}
impl Target for File {}
impl Target for io::Stdout {}

impl FileOutput {
    /// Opens `path` for appending; with `rotate` (bytes, number) `PATH.1` is the newest old file.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn open(path: &Path, rotate: Option<(u64, u32)>) -> Result<Self> {
        let (file, len) = open(path).map_err(|error| {
            Error::os("open output", path.display().to_string(), &error)
                .way_out("name a file in a folder you may write to")
        })?;
        let buffer = Vec::with_capacity(BUFFER);
        Ok(Self { path: path.to_owned(), rotate, file: Some(file), buffer, buffered_lines: 0, len, retry_at: None })
    }

    pub(super) fn line(&mut self, line: &[u8]) -> bool {
        if let Some((most, _)) = self.rotate
            && self.len > 0
            && self.len + line.len() as u64 > most
        {
            self.flush();
            self.turn();
        }
        if self.file.is_none() && !self.try_again() {
            return false;
        }
        self.len += line.len() as u64;
        self.buffer.extend_from_slice(line);
        self.buffered_lines += 1;
        self.buffer.len() < BUFFER || self.flush().is_none()
    }

    /// Writes what is buffered; the number of lines that were lost, if any.
    pub(super) fn flush(&mut self) -> Option<u64> {
        if self.buffer.is_empty() {
            return None;
        }
        let lines = std::mem::take(&mut self.buffered_lines);
        let done =
            self.file.as_mut().is_some_and(|file| file.write_all(&self.buffer).and_then(|()| file.flush()).is_ok());
        self.buffer.clear();
        if done {
            return None;
        }
        // Part may have been written: the next line begins on its own.
        self.file = None;
        self.retry_at = Some(Instant::now() + RETRY);
        Some(lines)
    }

    pub(super) fn reopen(&mut self) {
        self.flush();
        self.file = None;
        self.retry_at = None;
        self.try_again();
    }

    fn try_again(&mut self) -> bool {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        match open(&self.path) {
            Ok((file, len)) => {
                (self.file, self.len, self.retry_at) = (Some(file), len, None);
                true
            }
            Err(_) => {
                self.retry_at = Some(Instant::now() + RETRY);
                false
            }
        }
    }

    /// `PATH` becomes `PATH.1`, that `PATH.2`, and so on; the oldest goes.
    fn turn(&mut self) {
        let Some((_, keep)) = self.rotate else { return };
        let name = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..keep).rev() {
            let _ = std::fs::rename(name(number), name(number + 1));
        }
        let _ = if keep == 0 { std::fs::remove_file(&self.path) } else { std::fs::rename(&self.path, name(1)) };
        self.reopen();
    }
}

fn open(path: &Path) -> io::Result<(Box<dyn Target>, u64)> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdout()), 0));
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o640).open(path)?;
    let len = file.metadata()?.len();
    Ok((Box::new(file), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_and_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve.json");
        let mut file = FileOutput::open(&path, Some((10, 2))).unwrap();
        for line in ["11111\n", "2222\n", "33333\n", "44444\n"] {
            assert!(file.line(line.as_bytes()));
        }
        assert_eq!(file.flush(), None);
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(
            (read("eve.json"), read("eve.json.1"), read("eve.json.2")),
            ("44444\n".into(), "33333\n".into(), "2222\n".into())
        );
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        file.reopen();
        assert!(file.line(b"5\n"));
        file.flush();
        assert_eq!((read("eve.json"), read("moved")), ("5\n".into(), "44444\n".into()));
    }

    #[test]
    fn a_full_disk_is_told() {
        let mut file = FileOutput::open(Path::new("/dev/full"), None).unwrap();
        assert!(file.line(b"a\n") && file.line(b"b\n"));
        assert_eq!(file.flush(), Some(2));
        assert!(!file.line(b"c\n"), "not tried again at once");
    }
}

//! Owns: a file of lines: appended to, opened again on request, begun anew when it would exceed a size. `-` is standard
//! output.
//! Does not: compress or delete what was rotated, except the oldest beyond a number.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringtap::{Error, Result};

use crate::output::Taken;

/// Bytes kept before they are written.
const BUFFER: usize = 64 << 10;
/// A failed file is tried again after this.
const RETRY: Duration = Duration::from_secs(1);

/// A file of lines.
#[derive(Debug)]
pub(crate) struct FileOutput {
    path: PathBuf,
    /// Begin a new one before it exceeds this many bytes, and keep so many old ones.
    rotate: Option<(u64, u32)>,
    file: Option<Box<dyn Target>>,
    buffer: Vec<u8>,
    buffered_lines: u64,
    /// Of the file with what is buffered.
    len: u64,
    retry_at: Option<Instant>,
    /// Why it could not be written or opened when that failed last.
    cause: Option<io::Error>,
}

trait Target: Write + Send + std::fmt::Debug {
    /// Takes the last bytes of `len` off again, where that can be done and nobody else has written since.
    fn cut(&mut self, _bytes: u64, _len: u64) {}
}

impl Target for File {
    fn cut(&mut self, bytes: u64, len: u64) {
        if self.metadata().is_ok_and(|now| now.is_file() && now.len() == len) {
            // Half a line stays where this fails, too.
            let _ = self.set_len(len - bytes);
        }
    }
}

impl Target for io::Stdout {}

impl FileOutput {
    /// Opens `path` for appending; with `rotate` (bytes, number) `PATH.1` is the newest old file.
    ///
    /// # Errors
    /// It can't be opened.
    pub(crate) fn open(path: &Path, rotate: Option<(u64, u32)>) -> Result<Self> {
        let (file, len) = open(path).map_err(|error| {
            Error::os("open output", path.display().to_string(), &error)
                .way_out("name a file in a folder you may write to")
        })?;
        Ok(Self {
            path: path.to_owned(),
            rotate,
            file: Some(file),
            buffer: Vec::with_capacity(BUFFER),
            buffered_lines: 0,
            len,
            retry_at: None,
            cause: None,
        })
    }

    /// Takes a line that ends with its line feed; what becomes of it is counted when the buffer is handed on.
    pub(crate) fn line(&mut self, line: &[u8], taken: &mut Taken) {
        if let Some((most, _)) = self.rotate
            && self.len > 0
            && self.len + line.len() as u64 > most
        {
            self.flush(taken);
            self.turn(taken);
        }
        if self.file.is_none() && !self.try_again() {
            taken.count(false);
            return;
        }
        self.len += line.len() as u64;
        self.buffer.extend_from_slice(line);
        self.buffered_lines += 1;
        if self.buffer.len() >= BUFFER {
            self.flush(taken);
        }
    }

    /// Writes what is buffered. Lines that don't get there whole are lost.
    pub(crate) fn flush(&mut self, taken: &mut Taken) {
        let Some(file) = self.file.as_mut().filter(|_| !self.buffer.is_empty()) else { return };
        let lines = std::mem::take(&mut self.buffered_lines);
        match write(file, &self.buffer) {
            Ok(()) => taken.written += lines,
            Err((written, error)) => {
                let (there, rest) = self.buffer.split_at(written);
                let whole = there.iter().filter(|byte| **byte == b'\n').count() as u64;
                let half = there.iter().rev().take_while(|byte| **byte != b'\n').count();
                if half > 0 {
                    file.cut(half as u64, self.len - rest.len() as u64);
                }
                taken.written += whole;
                taken.failed += lines.saturating_sub(whole);
                self.give_up(error);
            }
        }
        self.buffer.clear();
    }

    pub(crate) fn reopen(&mut self, taken: &mut Taken) {
        self.flush(taken);
        self.file = None;
        self.retry_at = None;
        self.try_again();
    }

    /// Why it could not be written or opened when that failed last.
    pub(crate) fn cause(&self) -> Option<&io::Error> {
        self.cause.as_ref()
    }

    /// It is not written for a while.
    fn give_up(&mut self, cause: io::Error) {
        self.file = None;
        self.retry_at = Some(Instant::now() + RETRY);
        self.cause = Some(cause);
    }

    fn try_again(&mut self) -> bool {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        match open(&self.path) {
            Ok((file, len)) => (self.file, self.len, self.retry_at) = (Some(file), len, None),
            Err(error) => self.give_up(error),
        }
        self.file.is_some()
    }

    /// `PATH` becomes `PATH.1`, that `PATH.2`, and so on; the oldest goes.
    fn turn(&mut self, taken: &mut Taken) {
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
        self.reopen(taken);
    }
}

/// Writes all of it; where that fails, how many bytes were written before.
fn write(file: &mut Box<dyn Target>, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((written, error)),
        }
    }
    file.flush().map_err(|error| (written, error))
}

fn open(path: &Path) -> io::Result<(Box<dyn Target>, u64)> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdout()), 0));
    }
    let file = open_file(path)?;
    let len = file.metadata()?.len();
    Ok((Box::new(file), len))
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_and_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve.json");
        let (mut file, mut taken) = (FileOutput::open(&path, Some((10, 2))).unwrap(), Taken::default());
        for line in ["11111\n", "2222\n", "33333\n", "44444\n"] {
            file.line(line.as_bytes(), &mut taken);
        }
        file.flush(&mut taken);
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(
            (read("eve.json"), read("eve.json.1"), read("eve.json.2")),
            ("44444\n".into(), "33333\n".into(), "2222\n".into())
        );
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        file.reopen(&mut taken);
        file.line(b"5\n", &mut taken);
        file.flush(&mut taken);
        assert_eq!((read("eve.json"), read("moved")), ("5\n".into(), "44444\n".into()));
        assert_eq!(taken, Taken { written: 5, failed: 0 });
    }

    #[test]
    fn each_line_that_a_full_disk_takes_not_is_counted_also_when_the_buffer_is_full() {
        let (mut file, mut taken) = (FileOutput::open(Path::new("/dev/full"), None).unwrap(), Taken::default());
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        // The last one fills the buffer.
        (0..BUFFER / line.len()).for_each(|_| file.line(&line, &mut taken));
        assert_eq!(taken, Taken { written: 0, failed: 64 });
        assert_eq!(file.cause().unwrap().kind(), io::ErrorKind::StorageFull);
        file.line(&line, &mut taken);
        assert_eq!(taken, Taken { written: 0, failed: 65 }, "not tried again at once");
    }

    /// Takes so many bytes.
    #[derive(Debug)]
    struct Bounded(File, usize);

    impl Write for Bounded {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = bytes.len().min(self.1);
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.1 -= room;
            self.0.write(&bytes[..room])
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    impl Target for Bounded {
        fn cut(&mut self, bytes: u64, len: u64) {
            self.0.cut(bytes, len);
        }
    }

    #[test]
    fn a_disk_that_becomes_full_leaves_no_half_line_and_goes_on_when_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve.json");
        let (mut file, mut taken) = (FileOutput::open(&path, None).unwrap(), Taken::default());
        file.file = Some(Box::new(Bounded(open_file(&path).unwrap(), 15)));
        (0..4).for_each(|_| file.line(b"11111\n", &mut taken));
        file.flush(&mut taken);
        assert_eq!(taken, Taken { written: 2, failed: 2 });
        file.retry_at = None;
        file.line(b"2\n", &mut taken);
        file.flush(&mut taken);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "11111\n11111\n2\n");
        assert_eq!(taken, Taken { written: 3, failed: 2 });
    }
}

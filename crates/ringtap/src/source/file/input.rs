//! A capture file seen through a window of memory: the bytes that are there, and where in the file they stand; in a compressed
//! file, in what it unpacks to.
//!
//! Owns reading and offsets. It knows no format; `pcap.rs` and `pcapng.rs` beside it do.

use std::fs::File;
use std::io::{ErrorKind, Read};

use super::zstd::Zstd;

/// Bytes read at a time: large enough to make the system calls cheap, small enough to stay in a core's cache.
const READ_AT_ONCE: usize = 256 << 10;

/// Whether the window holds the bytes that were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// They are there, from `Input::start` on.
    There,
    /// The window must move first, which it may not while packets in it are lent out.
    Later,
    /// The file ends before: this many bytes are left.
    Short(usize),
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// Byte of the file at which the faulty piece begins.
    pub(super) offset: u64,
    /// What was expected, what is there.
    pub(super) problem: String,
    /// Whether the file ends too early, rather than holding something wrong.
    pub(super) cut: bool,
}

/// One packet as it stands in the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    /// Index of its first byte in the window's memory.
    pub(super) at: usize,
    /// Captured bytes.
    pub(super) len: u32,
    /// Bytes on the wire, at least `len`.
    pub(super) wire_len: u32,
    /// Recorded time in nanoseconds since 1970; 0 when the file gives none.
    pub(super) stamp_ns: u64,
    /// LINKTYPE_ value of the interface it came from.
    pub(super) link_type: u16,
    /// Bytes from `Input::start` to the end of the record.
    pub(super) total: usize,
}

/// What a format finds at the window's start.
#[derive(Debug)]
pub(super) enum Step {
    /// A packet, not yet consumed.
    Packet(Record),
    /// See [`Window::Later`].
    Later,
    /// The file ends where it may.
    End,
    /// It does not; nothing after this point can be trusted.
    Fault(Fault),
}

/// Where bytes come from.
#[derive(Debug)]
enum Bytes {
    Plain(File),
    Zstd(Zstd),
}

impl Bytes {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(out),
            Self::Zstd(zstd) => zstd.read(out),
        }
    }
}

/// A file and the part of it that is in memory: `memory[start..end]`.
#[derive(Debug)]
pub(super) struct Input {
    bytes: Bytes,
    pub(super) start: usize,
    end: usize,
    /// Byte of the file that `start` stands for.
    pub(super) offset: u64,
    ended: bool,
}

impl Input {
    pub(super) fn new(file: File) -> Self {
        Self { bytes: Bytes::Plain(file), start: 0, end: 0, offset: 0, ended: false }
    }

    /// Takes the file for a compressed one, from its beginning. Nothing may have been consumed.
    pub(super) fn unpack(self, memory: &[u8]) -> std::io::Result<Self> {
        let bytes = match self.bytes {
            Bytes::Plain(file) => Bytes::Zstd(Zstd::new(file, &memory[self.start..self.end])?),
            zstd @ Bytes::Zstd(_) => zstd,
        };
        Ok(Self { bytes, start: 0, end: 0, offset: 0, ended: false })
    }

    /// Whether offsets are of what a compressed file unpacks to.
    pub(super) fn is_unpacked(&self) -> bool {
        matches!(self.bytes, Bytes::Zstd(_))
    }

    /// Makes sure that the next `wanted` bytes are in `memory`; moves and refills the window only when `may_move`.
    ///
    /// `wanted` must not exceed `memory`: callers check lengths from the file first.
    pub(super) fn need(&mut self, memory: &mut [u8], wanted: usize, may_move: bool) -> Result<Window, Fault> {
        while self.end - self.start < wanted {
            if self.ended {
                return Ok(Window::Short(self.end - self.start));
            }
            if !may_move {
                return Ok(Window::Later);
            }
            if self.start > 0 {
                memory.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            let room = memory.len().min(self.end.max(wanted) + READ_AT_ONCE);
            match self.bytes.read(&mut memory[self.end..room]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let offset = self.offset + (self.end - self.start) as u64;
                    let cut = error.kind() == ErrorKind::UnexpectedEof;
                    return Err(Fault { offset, problem: format!("cannot be read: {error}"), cut });
                }
            }
        }
        Ok(Window::There)
    }

    /// Copies the next bytes without consuming them, zeros where the file ends before; returns how many are there.
    pub(super) fn peek(&mut self, memory: &mut [u8], first: &mut [u8; 4]) -> Result<usize, Fault> {
        let there = match self.need(memory, first.len(), true)? {
            Window::Short(there) => there,
            _ => first.len(),
        };
        *first = [0; 4];
        first[..there].copy_from_slice(&self.window(memory)[..there]);
        Ok(there)
    }

    /// The bytes in the window, of which [`Input::need`] vouched for some.
    pub(super) fn window<'m>(&self, memory: &'m [u8]) -> &'m [u8] {
        &memory[self.start..self.end]
    }

    /// Steps over `count` bytes of the window.
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Steps over up to `left` bytes of the file, as far as the window may move; returns how many remain, and whether
    /// it must go on later.
    pub(super) fn skip(&mut self, memory: &mut [u8], mut left: u64, may_move: bool) -> Result<(u64, Window), Fault> {
        while left > 0 {
            let window = self.need(memory, 1, may_move)?;
            if window != Window::There {
                return Ok((left, window));
            }
            let step = usize::try_from(left).unwrap_or(usize::MAX).min(self.end - self.start);
            self.consume(step);
            left -= step as u64;
        }
        Ok((0, Window::There))
    }
}

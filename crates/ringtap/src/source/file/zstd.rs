//! Reads what zstd compressed: one frame or several, in bounded memory.
//!
//! Owns the decoder and where in the compressed file it stands. It decodes a block at a time, so that all that stands before
//! a damaged one is given out first.

use std::fmt;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// What a frame begins with (RFC 8878, section 3.1.1).
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Most memory a frame may ask for to be decoded, as a power of two: 128 MiB, as much as the zstd program allows.
const WINDOW_LOG_MAX: u32 = 27;

/// Compressed bytes read at a time: a block and more.
const READ_AT_ONCE: usize = 256 << 10;

/// A compressed file that is being read.
pub(super) struct Zstd {
    file: File,
    decoder: Decoder<'static>,
    /// Compressed bytes; those of `at..` are not decoded yet.
    packed: Vec<u8>,
    at: usize,
    /// Byte of the file that `at` stands for.
    offset: u64,
    /// Bytes that the decoder takes next, at most: what is left of a block, and the next one's header.
    wanted: usize,
    in_frame: bool,
    ended: bool,
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstd").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl Zstd {
    /// `file`, of which the bytes in `first` have been read.
    pub(super) fn new(file: File, first: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))?;
        Ok(Self { file, decoder, packed: first.to_vec(), at: 0, offset: 0, wanted: 1, in_frame: false, ended: false })
    }

    /// As read(2): 0 at the end of the file, which is an error within a frame.
    pub(super) fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        loop {
            if self.at == self.packed.len() && !self.ended {
                self.refill()?;
            }
            let to = self.packed.len().min(self.at + self.wanted);
            let mut input = InBuffer::around(&self.packed[self.at..to]);
            let mut output = OutBuffer::around(&mut *out);
            let next = self.decoder.run(&mut input, &mut output);
            let (taken, made) = (input.pos(), output.pos());
            let next = next.map_err(|error| self.fault(ErrorKind::InvalidData, &error.to_string()))?;
            self.at += taken;
            self.offset += taken as u64;
            self.in_frame = next > 0 && (self.in_frame || taken > 0);
            self.wanted = next.max(1);
            if made > 0 {
                return Ok(made);
            }
            if self.ended && self.at == self.packed.len() {
                return if self.in_frame {
                    Err(self.fault(ErrorKind::UnexpectedEof, "the frame goes on"))
                } else {
                    Ok(0)
                };
            }
        }
    }

    fn refill(&mut self) -> Result<()> {
        self.packed.resize(READ_AT_ONCE, 0);
        let count = self.file.read(&mut self.packed);
        self.packed.truncate(count.as_ref().map_or(0, |count| *count));
        self.at = 0;
        self.ended = count? == 0;
        Ok(())
    }

    fn fault(&self, kind: ErrorKind, problem: &str) -> Error {
        Error::new(kind, format!("zstd, at byte {} of the compressed file: {problem}", self.offset))
    }
}

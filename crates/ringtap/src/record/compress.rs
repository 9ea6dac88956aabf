//! Compression of a recording: blocks of one zstd frame, and the bytes that end the frame behind each of them.
//!
//! Owns the encoder and the frame's end. It writes no files: `output.rs` puts the end behind what it writes and overwrites it
//! with the next block, so that a file is a complete frame at any time, whatever becomes of the process or of the next write.
//! For that the checksum must be known after each block, and the encoder tells it only once: it is computed here as well.

use std::fmt;
use std::hash::Hasher;

use twox_hash::XxHash64;
use zstd::stream::raw::{CParameter, Encoder, Operation, OutBuffer};

use crate::error::{Error, Result};

/// Bytes that end a frame: an empty last block (RFC 8878, section 3.1.1.2), and the checksum of the content.
pub(super) const END_LEN: usize = 7;

/// The end of a frame.
pub(super) type End = [u8; END_LEN];

/// An empty block of raw bytes that is the last one.
const LAST_BLOCK: [u8; 3] = [1, 0, 0];

/// Bytes that the encoder's output grows by.
const STEP: usize = 64 << 10;

/// One frame being made.
pub(super) struct Compressor {
    encoder: Encoder<'static>,
    hash: XxHash64,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl Compressor {
    pub(super) fn new(level: i32) -> Result<Self> {
        let encoder = Encoder::new(level).and_then(|mut encoder| {
            encoder.set_parameter(CParameter::ChecksumFlag(true))?;
            Ok(encoder)
        });
        let encoder = encoder.map_err(|error| failed(&error))?;
        Ok(Self { encoder, hash: XxHash64::with_seed(0) })
    }

    /// Begins another frame.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.hash = XxHash64::with_seed(0);
        self.encoder.reinit().map_err(|error| failed(&error))
    }

    /// Puts whole blocks that hold all of `plain` into `packed`, in place of what was there; returns what ends the frame
    /// behind them.
    pub(super) fn pack(&mut self, plain: &[u8], packed: &mut Vec<u8>) -> Result<End> {
        packed.clear();
        let mut rest = plain;
        loop {
            let at = packed.len();
            packed.resize(at + STEP, 0);
            let mut out = OutBuffer::around(&mut packed[at..]);
            let left = if rest.is_empty() {
                self.encoder.flush(&mut out).map_err(|error| failed(&error))?
            } else {
                let mut input = zstd::stream::raw::InBuffer::around(rest);
                self.encoder.run(&mut input, &mut out).map_err(|error| failed(&error))?;
                rest = &rest[input.pos()..];
                usize::MAX
            };
            let made = out.pos();
            packed.truncate(at + made);
            if left == 0 {
                break;
            }
        }
        self.hash.write(plain);
        let mut end = [0; END_LEN];
        end[..3].copy_from_slice(&LAST_BLOCK);
        // The lower half, little-endian.
        end[3..].copy_from_slice(&self.hash.finish().to_le_bytes()[..4]);
        Ok(end)
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::failed("compress", "the recording", error.to_string())
        .way_out("use a lower level, or record without --compress")
}

//! Owns: the SCTP common header and the walk over chunks (RFC 9260 §3).
//! Does not: read inside chunks, or follow associations.

use crate::bytes::{be16, be32};
use crate::error::{Header, HeaderError, at_least};

mod field {
    use core::ops::Range;
    pub(super) const SOURCE_PORT: Range<usize> = 0..2;
    pub(super) const DESTINATION_PORT: Range<usize> = 2..4;
    pub(super) const VERIFICATION_TAG: Range<usize> = 4..8;
    pub(super) const CHECKSUM: Range<usize> = 8..12;

    pub(super) const CHUNK_TYPE: usize = 0;
    pub(super) const CHUNK_FLAGS: usize = 1;
    pub(super) const CHUNK_LENGTH: Range<usize> = 2..4;
}

/// An SCTP common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sctp<'a> {
    bytes: &'a [u8],
}

impl<'a> Sctp<'a> {
    /// Length of the common header in bytes.
    pub const LEN: usize = 12;

    /// A view of the header at the start of `bytes`; the rest of `bytes` is the chunks.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) below 12 bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Sctp, bytes, Self::LEN)?;
        Ok(Self { bytes })
    }

    /// Source port.
    #[inline]
    #[must_use]
    pub fn source_port(&self) -> u16 {
        be16(self.bytes, field::SOURCE_PORT)
    }

    /// Destination port.
    #[inline]
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        be16(self.bytes, field::DESTINATION_PORT)
    }

    /// Verification tag.
    #[inline]
    #[must_use]
    pub fn verification_tag(&self) -> u32 {
        be32(self.bytes, field::VERIFICATION_TAG)
    }

    /// CRC32c field, as a big-endian number (RFC 9260 appendix A stores the CRC least significant byte first).
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u32 {
        be32(self.bytes, field::CHECKSUM)
    }

    /// The chunks.
    #[inline]
    #[must_use]
    pub fn chunks(&self) -> Chunks<'a> {
        Chunks { rest: self.payload() }
    }

    /// What follows the common header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[Self::LEN..]
    }
}

/// One SCTP chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Type; 0 is DATA, 1 INIT, 2 INIT ACK.
    pub kind: u8,
    /// Flags, whose meaning depends on the type.
    pub flags: u8,
    /// The value, without padding.
    pub value: &'a [u8],
}

/// The chunks of a packet, at most one per four bytes. Ends behind the first one whose length is impossible.
#[derive(Clone, Copy, Debug)]
pub struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, HeaderError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        const HEADER_LEN: usize = 4;
        let bytes = core::mem::take(&mut self.rest);
        if bytes.is_empty() {
            return None;
        }
        if let Err(error) = at_least(Header::Sctp, bytes, HEADER_LEN) {
            return Some(Err(error));
        }
        let length = usize::from(be16(bytes, field::CHUNK_LENGTH));
        if length < HEADER_LEN {
            return Some(Err(HeaderError::length(Header::Sctp, length)));
        }
        if let Err(error) = at_least(Header::Sctp, bytes, length) {
            return Some(Err(error));
        }
        // Chunks are padded to four bytes; the last one's padding may be cut off.
        self.rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(Chunk {
            kind: bytes[field::CHUNK_TYPE],
            flags: bytes[field::CHUNK_FLAGS],
            value: &bytes[HEADER_LEN..length],
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;
    use std::vec::Vec;

    #[test]
    fn header_and_chunks() {
        let bytes = [
            0, 7, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, // common header
            0, 3, 0, 5, 0xff, 0, 0, 0, // a chunk with padding
            1, 0, 0, 4, // an empty chunk
            2, 0, 0, 3, // an impossible one
        ];
        let view = Sctp::new(&bytes).unwrap();
        assert_eq!((view.source_port(), view.destination_port()), (7, 9));
        assert_eq!((view.verification_tag(), view.checksum()), (0x0102_0304, 0x0506_0708));
        let chunks: Vec<_> = view.chunks().collect();
        assert_eq!(chunks[0], Ok(Chunk { kind: 0, flags: 3, value: &[0xff] }));
        assert_eq!(chunks[1], Ok(Chunk { kind: 1, flags: 0, value: &[] }));
        assert_eq!(chunks[2].unwrap_err().fault, Fault::BadLength { found: 3 });
        assert_eq!(chunks.len(), 3);
        assert_eq!(Sctp::new(&bytes[..18]).unwrap().chunks().count(), 1);
        assert_eq!(
            Sctp::new(&bytes[..14]).unwrap().chunks().next().unwrap().unwrap_err().fault,
            Fault::Truncated { need: 4, have: 2 }
        );
        assert!(Sctp::new(&bytes[..11]).is_err());
    }
}

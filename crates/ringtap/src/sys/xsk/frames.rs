//! How receive frames lie in a UMEM, and what fits them.
//!
//! Owns the arithmetic between frames, chunks and addresses. Who owns a frame is the socket's business.

use super::{PACKED_FRAME, STAMP_BYTES, UNALIGNED_SHIFT, XDP_PACKET_HEADROOM, XskConfig};

/// Chunk of the UMEM that a packed frame ends.
pub(super) const PACKED_CHUNK: u32 = 2048;
/// Longest packet from Linux's segmentation offload with header, tags and stamp, and the chunk it begins in; whole pages.
pub(super) const PACKED_TAIL: usize = 68 << 10;

impl XskConfig {
    /// The longest packet that fits, bytes from the link-layer header on: one UMEM chunk, or as many packed frames as there are.
    ///
    /// Some of Intel's controllers are told their buffers' size in KiB (SRRCTL.BSIZEPACKET, 82576 data sheet section
    /// 8.10.2), and their drivers round down in zero-copy mode: what a 2 KiB chunk leaves becomes 1 KiB, and a longer
    /// packet would come in two pieces that nobody puts together.
    pub(crate) fn longest_frame(frame_size: u32, rx_frames: u32, driver: Option<&str>) -> u32 {
        if frame_size == PACKED_FRAME {
            return rx_frames.saturating_mul(PACKED_FRAME).min(1 << 16) - STAMP_BYTES;
        }
        let room = frame_size - XDP_PACKET_HEADROOM - STAMP_BYTES;
        if driver.is_some_and(|name| ["igb", "igc", "ixgbe"].contains(&name)) { room & !1023 } else { room }
    }
}

/// How receive frames lie in the UMEM, from its beginning on.
///
/// Whole frames are the UMEM's chunks, which the kernel wants to be of 2 KiB at least. **Packed** frames are smaller: chunks
/// that overlap (XDP_UMEM_UNALIGNED_CHUNK_FLAG), each 448 bytes behind the one before, with so much headroom that the
/// kernel writes to the last 448 bytes of each and to nothing else. A longer packet comes in several pieces, and as frames are
/// used and given back in the order of their addresses, these lie one behind the other: one packet again, without a copy.
/// The memory goes on at its own beginning ([`Region::endless`]), so that holds for the last frame too. Only in copy mode, where
/// it is the kernel that writes: a device would fill its buffers to the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    /// Frames of another port before these (see `relay`).
    pub(crate) before: u32,
    /// A power of two.
    pub(crate) count: u32,
    pub(crate) size: u32,
}

impl Frames {
    pub(crate) fn packed(self) -> bool {
        self.size == PACKED_FRAME
    }

    pub(crate) fn chunk_size(self) -> u32 {
        if self.packed() { PACKED_CHUNK } else { self.size }
    }

    pub(crate) fn headroom(self) -> u32 {
        if self.packed() { PACKED_CHUNK - XDP_PACKET_HEADROOM - PACKED_FRAME } else { 0 }
    }

    pub(crate) fn bytes(self) -> usize {
        self.count as usize * self.size as usize
    }

    /// Memory that shows its beginning once more behind its end.
    pub(crate) fn tail(self) -> usize {
        if self.packed() { PACKED_TAIL } else { 0 }
    }

    /// What the fill ring calls a frame.
    pub(super) fn address(self, frame: u32) -> u64 {
        (u64::from(self.before) + u64::from(frame)) * u64::from(self.size)
    }

    /// Where the last of them ends.
    pub(super) fn end(self) -> usize {
        self.address(self.count) as usize
    }

    /// The frame that a descriptor names, and where in the UMEM its bytes are; `None` when it names none, or bytes outside.
    pub(super) fn find(self, descriptor: &libc::xdp_desc) -> Option<(u32, usize)> {
        let size = u64::from(self.size);
        let (chunk, inside, room) = if self.packed() {
            let inside = descriptor.addr >> UNALIGNED_SHIFT;
            let lead = u64::from(PACKED_CHUNK - PACKED_FRAME);
            (descriptor.addr & ((1 << UNALIGNED_SHIFT) - 1), inside, (inside == lead).then_some(size)?)
        } else {
            let inside = descriptor.addr & (size - 1);
            (descriptor.addr - inside, inside, size - inside)
        };
        let frame = u32::try_from(chunk).ok()? / if self.packed() { PACKED_FRAME } else { self.size };
        let frame = frame.checked_sub(self.before)?;
        let fits = frame < self.count && self.address(frame) == chunk && u64::from(descriptor.len) <= room;
        fits.then_some((frame, (chunk + inside) as usize))
    }
}

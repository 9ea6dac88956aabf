//! The block format (draft-ietf-opsawg-pcapng): sections, interfaces, packets of several kinds.
//!
//! Section headers and interface descriptions are read with pcap-parser. Packet blocks are taken apart here: pcap-parser
//! allocates for their options, skips the obsolete packet block, and reads binary time resolutions and big-endian time
//! offsets wrongly (0.17). All other blocks are stepped over without being held in memory.

use pcap_parser::{OptionCode, parse_block_be, parse_block_le, parse_sectionheaderblock};

use super::input::{Fault, Input, Record, Step, Window};
use crate::record::pcapng::block;

/// Section 4.1: tells the byte order of a section.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// What is needed of one interface description.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: u16,
    /// Most bytes captured of a packet; 0 for no limit.
    snaplen: u32,
    units_per_second: u64,
    offset_seconds: i64,
}

impl Interface {
    /// Nanoseconds since 1970 of a stamp in this interface's units; clamped to what 64 bits hold.
    fn stamp_ns(&self, units: u64) -> u64 {
        let ns = match self.units_per_second {
            1_000_000_000 => i128::from(units),
            1_000_000 => i128::from(units) * 1000,
            // Below 2^64 × 2^30, so it fits.
            per_second => i128::from(units) * 1_000_000_000 / i128::from(per_second),
        };
        (ns + i128::from(self.offset_seconds) * 1_000_000_000).clamp(0, i128::from(u64::MAX)) as u64
    }
}

/// Interfaces of a section that are remembered: as many as the oldest packet block can name. A file of nothing else
/// would otherwise take memory without end.
const MOST_INTERFACES: usize = 1 << 16;

/// The state of reading one file: the present section's byte order and interfaces.
#[derive(Debug)]
pub(super) struct Pcapng {
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// Rest of a block that is being stepped over, and its length for a message.
    skipping: u64,
}

/// Whether a file that begins with these four bytes is in this format.
pub(super) fn is_magic(first: [u8; 4]) -> bool {
    u32::from_le_bytes(first) == block::SECTION_HEADER
}

impl Pcapng {
    /// Reads the first section header.
    pub(super) fn open(input: &mut Input, memory: &mut [u8]) -> Result<Self, Fault> {
        let mut this = Self { big_endian: false, interfaces: Vec::new(), skipping: 0 };
        match this.block(input, memory, true)? {
            Some(step @ (Step::End | Step::Later | Step::Packet(_))) => {
                Err(Fault { offset: 0, problem: format!("expected a section header, found {step:?}"), cut: false })
            }
            Some(Step::Fault(fault)) => Err(fault),
            None => Ok(this),
        }
    }

    /// LINKTYPE_ value of the first interface, where one has been described.
    pub(super) fn link_type(&self) -> Option<u16> {
        self.interfaces.first().map(|interface| interface.link_type)
    }

    /// The next packet, past whatever stands before it.
    pub(super) fn next(&mut self, input: &mut Input, memory: &mut [u8], may_move: bool) -> Result<Step, Fault> {
        loop {
            if let Some(step) = self.block(input, memory, may_move)? {
                return Ok(step);
            }
        }
    }

    /// One block; `None` when it was consumed and holds no packet.
    fn block(&mut self, input: &mut Input, memory: &mut [u8], may_move: bool) -> Result<Option<Step>, Fault> {
        if self.skipping > 0 {
            let (left, window) = input.skip(memory, self.skipping, may_move)?;
            self.skipping = left;
            return match window {
                Window::There => Ok(None),
                Window::Later => Ok(Some(Step::Later)),
                Window::Short(_) => {
                    Err(cut(input.offset, format!("expected {left} more bytes of a block, 0 are there")))
                }
            };
        }
        match input.need(memory, 12, may_move)? {
            Window::There => {}
            Window::Later => return Ok(Some(Step::Later)),
            Window::Short(0) => return Ok(Some(Step::End)),
            Window::Short(there) => {
                return Err(cut(input.offset, format!("expected a block of at least 12 bytes, {there} are there")));
            }
        }
        let window = input.window(memory);
        let first = [window[0], window[1], window[2], window[3]];
        let kind = if is_magic(first) {
            self.big_endian = byte_order([window[8], window[9], window[10], window[11]], input.offset)?;
            block::SECTION_HEADER
        } else {
            self.u32_at(window, 0)
        };
        let total = self.u32_at(window, 4);
        if total < 12 || !total.is_multiple_of(4) {
            let problem = format!("expected a block length of at least 12 and a multiple of 4, found {total}");
            return Err(wrong(input.offset, problem));
        }
        let needed = matches!(
            kind,
            block::SECTION_HEADER
                | block::INTERFACE_DESCRIPTION
                | block::ENHANCED_PACKET
                | block::SIMPLE_PACKET
                | block::OBSOLETE_PACKET
        );
        if !needed {
            self.skipping = u64::from(total);
            return Ok(None);
        }
        let total = total as usize;
        if total > memory.len() {
            let problem = format!("expected a block of at most {} bytes, its length says {total}", memory.len());
            return Err(wrong(input.offset, problem));
        }
        match input.need(memory, total, may_move)? {
            Window::There => {}
            Window::Later => return Ok(Some(Step::Later)),
            Window::Short(there) => {
                return Err(cut(input.offset, format!("expected {total} bytes, {there} are there")));
            }
        }
        let bytes = &input.window(memory)[..total];
        let trailer = self.u32_at(bytes, total - 4);
        if trailer as usize != total {
            let problem = format!("expected the block length {total} repeated at its end, found {trailer}");
            return Err(wrong(input.offset, problem));
        }
        match kind {
            block::SECTION_HEADER => self.section(bytes, input.offset)?,
            block::INTERFACE_DESCRIPTION => self.interface(bytes, input.offset)?,
            _ => {
                let record = self.packet(kind, bytes, input)?;
                return Ok(Some(Step::Packet(record)));
            }
        }
        input.consume(total);
        Ok(None)
    }

    fn section(&mut self, bytes: &[u8], offset: u64) -> Result<(), Fault> {
        let (_, header) =
            parse_sectionheaderblock(bytes).map_err(|_| wrong(offset, "expected a section header".to_owned()))?;
        if header.major_version != 1 {
            let problem = format!("expected pcapng version 1, found {}.{}", header.major_version, header.minor_version);
            return Err(wrong(offset, problem));
        }
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, bytes: &[u8], offset: u64) -> Result<(), Fault> {
        let parsed = if self.big_endian { parse_block_be(bytes) } else { parse_block_le(bytes) };
        let Ok((_, pcap_parser::Block::InterfaceDescription(description))) = parsed else {
            return Err(wrong(offset, "expected an interface description with well-formed options".to_owned()));
        };
        let link_type = u16::try_from(description.linktype.0).map_err(|_| {
            wrong(offset, format!("expected a link type up to 65535, found {}", description.linktype.0))
        })?;
        let mut interface =
            Interface { link_type, snaplen: description.snaplen, units_per_second: 1_000_000, offset_seconds: 0 };
        for option in &description.options {
            match (option.code, option.as_bytes()) {
                (OptionCode::IfTsresol, Ok(&[resolution, ..])) => {
                    interface.units_per_second = units_per_second(resolution).ok_or_else(|| {
                        wrong(offset, format!("expected a time resolution that fits 64 bits, found {resolution:#x}"))
                    })?;
                }
                (OptionCode::IfTsoffset, Ok(value)) => {
                    if let Ok(value) = <[u8; 8]>::try_from(value) {
                        interface.offset_seconds =
                            if self.big_endian { i64::from_be_bytes(value) } else { i64::from_le_bytes(value) };
                    }
                }
                _ => {}
            }
        }
        if self.interfaces.len() == MOST_INTERFACES {
            return Err(wrong(offset, format!("expected at most {MOST_INTERFACES} interfaces in a section")));
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// Takes apart a whole packet block at the window's start (sections 4.3, 4.4 and appendix A).
    fn packet(&self, kind: u32, bytes: &[u8], input: &Input) -> Result<Record, Fault> {
        let offset = input.offset;
        let body_at = match kind {
            block::SIMPLE_PACKET => 12,
            _ => 28,
        };
        // What the block can hold besides its fixed fields and the trailing length.
        let room = bytes.len().checked_sub(body_at + 4).ok_or_else(|| {
            wrong(offset, format!("expected a packet block of at least {} bytes, found {}", body_at + 4, bytes.len()))
        })?;
        let (id, units, wire_len) = match kind {
            block::SIMPLE_PACKET => (0, 0, self.u32_at(bytes, 8)),
            block::OBSOLETE_PACKET => (self.u16_at(bytes, 8).into(), self.units_at(bytes), self.u32_at(bytes, 24)),
            _ => (self.u32_at(bytes, 8), self.units_at(bytes), self.u32_at(bytes, 24)),
        };
        let interface = self.interfaces.get(id as usize).ok_or_else(|| {
            wrong(offset, format!("expected one of {} described interfaces, found number {id}", self.interfaces.len()))
        })?;
        let (len, stamp_ns) = if kind == block::SIMPLE_PACKET {
            let snaplen = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
            let len = wire_len.min(snaplen);
            (len, 0)
        } else {
            (self.u32_at(bytes, 20), interface.stamp_ns(units))
        };
        if len as usize > room {
            let problem = format!("expected at most {room} packet bytes in this block, found a length of {len}");
            return Err(wrong(offset, problem));
        }
        Ok(Record {
            at: input.start + body_at,
            len,
            wire_len: wire_len.max(len),
            stamp_ns,
            link_type: interface.link_type,
            total: bytes.len(),
        })
    }

    /// The 64-bit stamp, upper half first in either byte order.
    fn units_at(&self, bytes: &[u8]) -> u64 {
        u64::from(self.u32_at(bytes, 12)) << 32 | u64::from(self.u32_at(bytes, 16))
    }

    fn u32_at(&self, bytes: &[u8], at: usize) -> u32 {
        let field = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big_endian { u32::from_be_bytes(field) } else { u32::from_le_bytes(field) }
    }

    fn u16_at(&self, bytes: &[u8], at: usize) -> u16 {
        let field = [bytes[at], bytes[at + 1]];
        if self.big_endian { u16::from_be_bytes(field) } else { u16::from_le_bytes(field) }
    }
}

/// Section 4.2, if_tsresol: a power of ten, or of two when the highest bit is set.
fn units_per_second(resolution: u8) -> Option<u64> {
    let exponent = u32::from(resolution & 0x7f);
    if resolution & 0x80 == 0 { 10_u64.checked_pow(exponent) } else { 1_u64.checked_shl(exponent) }
}

fn byte_order(magic: [u8; 4], offset: u64) -> Result<bool, Fault> {
    match u32::from_le_bytes(magic) {
        BYTE_ORDER_MAGIC => Ok(false),
        other if other == BYTE_ORDER_MAGIC.swap_bytes() => Ok(true),
        other => Err(wrong(offset, format!("expected the byte-order magic {BYTE_ORDER_MAGIC:08x}, found {other:08x}"))),
    }
}

fn wrong(offset: u64, problem: String) -> Fault {
    Fault { offset, problem, cut: false }
}

fn cut(offset: u64, problem: String) -> Fault {
    Fault { offset, problem, cut: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_follow_resolution_and_offset() {
        let stamp = |resolution, offset_seconds, units| {
            let units_per_second = units_per_second(resolution).unwrap();
            Interface { link_type: 1, snaplen: 0, units_per_second, offset_seconds }.stamp_ns(units)
        };
        assert_eq!(stamp(6, 0, 1_500_000), 1_500_000_000);
        assert_eq!(stamp(9, 0, 7), 7);
        assert_eq!(stamp(3, 2, 1), 2_001_000_000);
        assert_eq!(stamp(12, 0, 1_000_000), 1000);
        assert_eq!(stamp(0x80 | 10, 0, 512), 500_000_000);
        assert_eq!(stamp(9, -1, 5), 0, "before 1970 is clamped");
        assert_eq!(stamp(0, i64::MAX, u64::MAX), u64::MAX);
        assert_eq!(units_per_second(20), None);
        assert_eq!(units_per_second(0x80 | 64), None);
    }
}

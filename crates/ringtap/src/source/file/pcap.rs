//! The classic capture format (pcap-savefile(5), draft-ietf-opsawg-pcap): one header, then records.
//!
//! Both byte orders, microseconds and nanoseconds, and the "modified" variant of old Linux kernels with its longer record
//! header. The file header is read with pcap-parser; records are taken apart here, because a record that is cut must be
//! told exactly, and because nothing may be allocated per packet.

use pcap_parser::{PcapHeader, parse_pcap_header};

use super::input::{Fault, Input, Record, Step, Window};

const HEADER_LEN: usize = 24;
/// Magic of the modified variant in big-endian files, which pcap-parser does not know.
const MODIFIED_SWAPPED: u32 = 0x34cd_b2a1;

/// Whether a file that begins with these four bytes is in this format.
pub(super) fn is_magic(first: [u8; 4]) -> bool {
    matches!(
        u32::from_le_bytes(first),
        0xa1b2_c3d4 | 0xd4c3_b2a1 | 0xa1b2_3c4d | 0x4d3c_b2a1 | 0xa1b2_cd34 | MODIFIED_SWAPPED
    )
}

/// How to read the records of one file.
#[derive(Debug)]
pub(super) struct Pcap {
    big_endian: bool,
    record_header: usize,
    fraction_ns: u64,
    link_type: u16,
}

impl Pcap {
    /// Reads the file header.
    pub(super) fn open(input: &mut Input, memory: &mut [u8]) -> Result<Self, Fault> {
        let fault = |problem: String, cut| Fault { offset: 0, problem, cut };
        if let Window::Short(there) = input.need(memory, HEADER_LEN, true)? {
            return Err(fault(format!("expected a {HEADER_LEN}-byte pcap header, {there} bytes are there"), true));
        }
        let mut header = [0; HEADER_LEN];
        header.copy_from_slice(&input.window(memory)[..HEADER_LEN]);
        let modified_swapped = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) == MODIFIED_SWAPPED;
        if modified_swapped {
            header[..4].copy_from_slice(&0xa1b2_c3d4_u32.to_be_bytes());
        }
        let (_, parsed): (_, PcapHeader) =
            parse_pcap_header(&header).map_err(|_| fault("expected a pcap header".to_owned(), false))?;
        if parsed.version_major != 2 {
            return Err(fault(
                format!("expected pcap version 2, found {}.{}", parsed.version_major, parsed.version_minor),
                false,
            ));
        }
        // The upper six bits tell of frame check sequences (draft-ietf-opsawg-pcap section 4), not of the link type.
        let link_type = parsed.network.0 as u32 & 0x03ff_ffff;
        let link_type = u16::try_from(link_type)
            .map_err(|_| fault(format!("expected a link type up to 65535, found {link_type}"), false))?;
        input.consume(HEADER_LEN);
        Ok(Self {
            big_endian: parsed.is_bigendian(),
            record_header: if parsed.is_modified_format() || modified_swapped { 24 } else { 16 },
            fraction_ns: if parsed.is_nanosecond_precision() { 1 } else { 1000 },
            link_type,
        })
    }

    /// LINKTYPE_ value of all packets.
    pub(super) fn link_type(&self) -> u16 {
        self.link_type
    }

    /// The next record.
    pub(super) fn next(&self, input: &mut Input, memory: &mut [u8], may_move: bool) -> Result<Step, Fault> {
        match input.need(memory, self.record_header, may_move)? {
            Window::There => {}
            Window::Later => return Ok(Step::Later),
            Window::Short(0) => return Ok(Step::End),
            Window::Short(there) => {
                let problem = format!("expected a {}-byte record header, {there} bytes are there", self.record_header);
                return Err(Fault { offset: input.offset, problem, cut: true });
            }
        }
        let header = input.window(memory);
        let field = |index: usize| {
            let bytes = [header[index], header[index + 1], header[index + 2], header[index + 3]];
            if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        let (seconds, fraction, len, wire_len) = (field(0), field(4), field(8), field(12));
        let limit = memory.len() - self.record_header;
        if len as usize > limit {
            let problem = format!("expected a packet of at most {limit} bytes, the record header says {len}");
            return Err(Fault { offset: input.offset, problem, cut: false });
        }
        let total = self.record_header + len as usize;
        match input.need(memory, total, may_move)? {
            Window::There => Ok(Step::Packet(Record {
                at: input.start + self.record_header,
                len,
                wire_len: wire_len.max(len),
                stamp_ns: u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.fraction_ns,
                link_type: self.link_type,
                total,
            })),
            Window::Later => Ok(Step::Later),
            Window::Short(there) => {
                let there = there - self.record_header;
                let offset = input.offset + self.record_header as u64;
                Err(Fault { offset, problem: format!("expected {len} bytes, {there} are there"), cut: true })
            }
        }
    }
}

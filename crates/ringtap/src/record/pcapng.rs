//! Encodes pcapng blocks (draft-ietf-opsawg-pcapng) in native byte order, with nanosecond stamps.
//!
//! Owns the bytes of blocks and options. It writes into memory only, and knows no file, spool or clock.

use super::{FinalCounts, InterfaceInfo};

/// Block types, sections 4.1–4.6 and appendix A.
pub mod block {
    /// Section Header Block; reads the same in both byte orders.
    pub const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    /// Interface Description Block.
    pub const INTERFACE_DESCRIPTION: u32 = 1;
    /// Packet Block, obsolete.
    pub const OBSOLETE_PACKET: u32 = 2;
    /// Simple Packet Block.
    pub const SIMPLE_PACKET: u32 = 3;
    /// Interface Statistics Block.
    pub const INTERFACE_STATISTICS: u32 = 5;
    /// Enhanced Packet Block.
    pub const ENHANCED_PACKET: u32 = 6;
}

/// Bytes of an Enhanced Packet Block besides the packet and its padding.
pub const PACKET_OVERHEAD: usize = 32;

/// Where an Enhanced Packet Block's captured length stands.
pub(super) const CAPTURED_LEN_AT: usize = 20;

/// Options of any block.
const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;

/// What is said of a whole section.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// The machine.
    pub hardware: Option<String>,
    /// The operating system.
    pub os: Option<String>,
    /// The program that records.
    pub application: Option<String>,
    /// The user's comment.
    pub comment: Option<String>,
}

impl Section {
    /// What this machine says of itself (proc_cpuinfo(5), uname(2) by way of proc_sys_kernel(5)).
    pub fn of_this_machine(application: &str, comment: Option<&str>) -> Self {
        let kernel = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
        let os = match (kernel("ostype"), kernel("osrelease")) {
            (Some(kind), Some(release)) => Some(format!("{} {}", kind.trim(), release.trim())),
            _ => None,
        };
        let hardware = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        Self { hardware, os, application: Some(application.to_owned()), comment: comment.map(str::to_owned) }
    }
}

/// Appends a Section Header Block (section 4.1); the section's length is left open.
pub fn section_header(out: &mut Vec<u8>, section: &Section) {
    with_block(out, block::SECTION_HEADER, |out| {
        out.extend_from_slice(&0x1a2b_3c4d_u32.to_ne_bytes());
        out.extend_from_slice(&1_u16.to_ne_bytes());
        out.extend_from_slice(&0_u16.to_ne_bytes());
        out.extend_from_slice(&(-1_i64).to_ne_bytes());
        text_option(out, OPT_COMMENT, section.comment.as_deref());
        text_option(out, 2, section.hardware.as_deref());
        text_option(out, 3, section.os.as_deref());
        text_option(out, 4, section.application.as_deref());
        option(out, OPT_END, &[]);
    });
}

/// Appends an Interface Description Block (section 4.2) with a time resolution of nanoseconds.
pub fn interface_description(out: &mut Vec<u8>, interface: &InterfaceInfo) {
    with_block(out, block::INTERFACE_DESCRIPTION, |out| {
        out.extend_from_slice(&interface.link_type.to_ne_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&interface.snaplen.to_ne_bytes());
        text_option(out, 2, Some(&interface.name));
        text_option(out, 3, interface.description.as_deref());
        option(out, 9, &[9]);
        if let Some(filter) = &interface.filter {
            // The first byte says that a string in libpcap's syntax follows.
            option(out, 11, &[&[0], cut(filter, MAX_OPTION - 1).as_bytes()].concat());
        }
        option(out, OPT_END, &[]);
    });
}

/// Appends an Enhanced Packet Block (section 4.3): a packet in two parts, as it lies in a ring.
pub fn enhanced_packet(out: &mut Vec<u8>, interface: u16, stamp_ns: u64, wire_len: u32, data: (&[u8], &[u8])) {
    let len = data.0.len() + data.1.len();
    let total = packet_block_len(len) as u32;
    out.extend_from_slice(&block::ENHANCED_PACKET.to_ne_bytes());
    out.extend_from_slice(&total.to_ne_bytes());
    out.extend_from_slice(&u32::from(interface).to_ne_bytes());
    stamp(out, stamp_ns);
    out.extend_from_slice(&(len as u32).to_ne_bytes());
    out.extend_from_slice(&wire_len.to_ne_bytes());
    out.extend_from_slice(data.0);
    out.extend_from_slice(data.1);
    pad(out, len);
    out.extend_from_slice(&total.to_ne_bytes());
}

/// Length of the Enhanced Packet Block for a packet of `len` bytes.
pub fn packet_block_len(len: usize) -> usize {
    PACKET_OVERHEAD + len.next_multiple_of(4)
}

/// Appends an Interface Statistics Block (section 4.6). Counts that are `None` are left out, as are times that are.
pub fn interface_statistics(
    out: &mut Vec<u8>,
    counts: &FinalCounts,
    now_ns: u64,
    start_ns: Option<u64>,
    end_ns: Option<u64>,
) {
    with_block(out, block::INTERFACE_STATISTICS, |out| {
        out.extend_from_slice(&u32::from(counts.interface).to_ne_bytes());
        stamp(out, now_ns);
        text_option(out, OPT_COMMENT, counts.ledger.as_deref());
        for (code, time) in [(2, start_ns), (3, end_ns)] {
            if let Some(time) = time {
                let mut value = Vec::with_capacity(8);
                stamp(&mut value, time);
                option(out, code, &value);
            }
        }
        let numbers = [
            (4, counts.received),
            (5, counts.dropped_by_interface),
            (6, counts.accepted_by_filter),
            (7, counts.dropped_by_system),
            (8, counts.delivered),
        ];
        for (code, number) in numbers {
            if let Some(number) = number {
                option(out, code, &number.to_ne_bytes());
            }
        }
        option(out, OPT_END, &[]);
    });
}

/// Longest option value: its length has 16 bits.
const MAX_OPTION: usize = 65_535;

/// Type, length, body, padding, length again (section 3.1).
fn with_block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let total = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&total.to_ne_bytes());
    out.extend_from_slice(&total.to_ne_bytes());
}

/// The 64-bit stamp, upper half first in either byte order.
fn stamp(out: &mut Vec<u8>, ns: u64) {
    out.extend_from_slice(&((ns >> 32) as u32).to_ne_bytes());
    out.extend_from_slice(&(ns as u32).to_ne_bytes());
}

/// Section 3.5; longer values are cut.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(MAX_OPTION)];
    out.extend_from_slice(&code.to_ne_bytes());
    out.extend_from_slice(&(value.len() as u16).to_ne_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}

/// An option only where there is text.
fn text_option(out: &mut Vec<u8>, code: u16, text: Option<&str>) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        option(out, code, cut(text, MAX_OPTION).as_bytes());
    }
}

/// The longest beginning of `text` that has at most `len` bytes.
fn cut(text: &str, len: usize) -> &str {
    let mut end = len.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn pad(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&[0; 3][..len.next_multiple_of(4) - len]);
}

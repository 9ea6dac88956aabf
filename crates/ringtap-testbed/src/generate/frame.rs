//! The frame the generator sends, all but what changes per packet.
//!
//! Owns addresses, lengths and the parts of checksums that are the same for every packet of a length. Does not own the
//! stamp's layout (`stamp`) or the writing of it (bpf/generate.bpf.c).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringtap::{Error, Result};

use crate::host::Link;
use crate::stamp::{MAGIC, OFFSET_IPV4, OFFSET_IPV6, STAMP_BYTES};

/// Smallest frame: Ethernet's, without the frame check sequence, which a device adds.
pub const MIN_FRAME_BYTES: usize = 64;
/// Largest frame: what fits into a page beside the kernel's own data.
pub const MAX_FRAME_BYTES: usize = 3300;
/// Largest number of entries of [`FrameSpec::sizes`]; `SIZES` in bpf/generate.bpf.c.
pub const MAX_SIZES: usize = 256;

const UDP_BYTES: usize = 8;
const UDP: u8 = 17;

/// UDP destination port of generated packets unless told otherwise.
pub const DEFAULT_PORT: u16 = 9_000;

/// What a frame looks like: Ethernet, optional VLAN tag, IPv4 or IPv6, UDP, stamp, zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameSpec {
    /// Ethernet source.
    pub source_mac: [u8; 6],
    /// Ethernet destination.
    pub destination_mac: [u8; 6],
    /// VLAN identifier (0–4095) of an 802.1Q tag, if any.
    pub vlan: Option<u16>,
    /// IP source; of the same family as the destination.
    pub source: IpAddr,
    /// IP destination.
    pub destination: IpAddr,
    /// First UDP source port.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
    /// How many source ports are used, one after the other; 1 makes a single flow.
    pub flows: u16,
    /// Frame lengths in bytes as handed to the device (without the frame check sequence), used one after the other.
    pub sizes: Vec<usize>,
}

impl FrameSpec {
    /// A single UDP flow over IPv4 from one end of a wire to the other, source port 40000, destination port 9000.
    pub fn ipv4(from: &Link, to: &Link, size: usize) -> Self {
        Self::new(from, to, IpAddr::V4(from.ipv4), IpAddr::V4(to.ipv4), size)
    }

    /// As [`FrameSpec::ipv4`], over IPv6; the smallest size is 84.
    pub fn ipv6(from: &Link, to: &Link, size: usize) -> Self {
        Self::new(from, to, IpAddr::V6(from.ipv6), IpAddr::V6(to.ipv6), size)
    }

    fn new(from: &Link, to: &Link, source: IpAddr, destination: IpAddr, size: usize) -> Self {
        Self {
            source_mac: from.mac,
            destination_mac: to.mac,
            vlan: None,
            source,
            destination,
            source_port: 40_000,
            destination_port: DEFAULT_PORT,
            flows: 1,
            sizes: vec![size],
        }
    }

    /// Smallest frame that holds the stamp behind these headers.
    pub fn min_size(&self) -> usize {
        (self.stamp_offset() + STAMP_BYTES).max(MIN_FRAME_BYTES)
    }

    /// Bytes of the link header in front of the IP header.
    pub(crate) fn ip_offset(&self) -> usize {
        if self.vlan.is_some() { 18 } else { 14 }
    }

    /// Where the stamp starts.
    pub(crate) fn stamp_offset(&self) -> usize {
        let untagged = if self.source.is_ipv4() { OFFSET_IPV4 } else { OFFSET_IPV6 };
        untagged + self.ip_offset() - 14
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: String| Error::usage("build", "frame", what);
        if self.source.is_ipv4() != self.destination.is_ipv4() {
            return Err(wrong(format!("{} and {} are of different families", self.source, self.destination)));
        }
        if self.vlan.is_some_and(|vlan| vlan > 4095) {
            return Err(wrong(format!("VLAN {}", self.vlan.unwrap_or(0))).way_out("use 0 to 4095"));
        }
        if self.flows == 0 || usize::from(self.source_port) + usize::from(self.flows) > 65_536 {
            return Err(wrong(format!("{} flows from source port {}", self.flows, self.source_port))
                .way_out("use at least one, and ports up to 65535"));
        }
        if self.sizes.is_empty() || self.sizes.len() > MAX_SIZES {
            return Err(wrong(format!("{} sizes", self.sizes.len())).way_out(format!("give 1 to {MAX_SIZES}")));
        }
        let (min, max) = (self.min_size(), MAX_FRAME_BYTES);
        if let Some(size) = self.sizes.iter().find(|size| !(min..=max).contains(size)) {
            return Err(wrong(format!("size {size}")).way_out(format!("use {min} to {max} bytes with these headers")));
        }
        Ok(())
    }

    /// The longest frame, with everything in it but stamp, lengths and checksums.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(MAX_FRAME_BYTES);
        frame.extend(self.destination_mac);
        frame.extend(self.source_mac);
        if let Some(vlan) = self.vlan {
            frame.extend([0x81, 0x00]);
            frame.extend(vlan.to_be_bytes());
        }
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend([0x08, 0x00]);
                frame.extend(ipv4_header(source, destination, 0, 0));
            }
            (source, destination) => {
                frame.extend([0x86, 0xdd]);
                frame.extend(ipv6_header(as_ipv6(source), as_ipv6(destination), 0));
            }
        }
        frame.extend(self.source_port.to_be_bytes());
        frame.extend(self.destination_port.to_be_bytes());
        frame.resize(self.sizes.iter().copied().max().unwrap_or(0), 0);
        frame
    }

    /// `struct size` of bpf/generate.bpf.c for each size: frame, IP length, UDP length, IP checksum, sum for UDP's.
    pub(crate) fn size_table(&self) -> Vec<[u64; 5]> {
        self.sizes.iter().map(|&size| self.size_entry(size)).collect()
    }

    fn size_entry(&self, size: usize) -> [u64; 5] {
        let udp_length = size - (self.stamp_offset() - UDP_BYTES);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let ip_length = size - self.ip_offset();
                let header = ipv4_header(source, destination, ip_length as u16, 0);
                let checksum = !fold(sum_words(&header));
                [size as u64, ip_length as u64, udp_length as u64, checksum.into(), 0]
            }
            (source, destination) => {
                // RFC 8200 section 8.1: pseudo-header, UDP header, payload; the zeros behind the stamp add nothing.
                let mut sum = sum_words(&as_ipv6(source).octets()) + sum_words(&as_ipv6(destination).octets());
                sum += u64::from(UDP) + 2 * udp_length as u64 + u64::from(self.destination_port);
                [size as u64, udp_length as u64, udp_length as u64, 0, sum]
            }
        }
    }
}

/// The number every stamp starts with, as the program's configuration has it.
pub(crate) const fn magic() -> u64 {
    MAGIC as u64
}

fn as_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// RFC 791: no options, don't fragment, time to live 64.
fn ipv4_header(source: Ipv4Addr, destination: Ipv4Addr, length: u16, checksum: u16) -> [u8; 20] {
    let mut header = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, UDP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header[12..16].copy_from_slice(&source.octets());
    header[16..].copy_from_slice(&destination.octets());
    header
}

/// RFC 8200: no extension headers, hop limit 64.
fn ipv6_header(source: Ipv6Addr, destination: Ipv6Addr, payload: u16) -> [u8; 40] {
    let mut header = [0; 40];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&payload.to_be_bytes());
    header[6..8].copy_from_slice(&[UDP, 64]);
    header[8..24].copy_from_slice(&source.octets());
    header[24..].copy_from_slice(&destination.octets());
    header
}

pub(crate) fn sum_words(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u64::from)).sum()
}

/// One's-complement sum (RFC 1071).
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(size: usize) -> FrameSpec {
        let link = |last| Link {
            interface: "x".into(),
            index: 1,
            mac: [2, 0, 0, 0, 0, last],
            ipv4: Ipv4Addr::new(198, 18, 0, last),
            ipv6: Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, last.into()),
        };
        FrameSpec::ipv4(&link(1), &link(2), size)
    }

    #[test]
    fn smallest_sizes_hold_the_stamp() {
        assert_eq!(spec(64).min_size(), 64);
        assert_eq!(FrameSpec { vlan: Some(5), ..spec(64) }.min_size(), 68);
        let v6 =
            FrameSpec { source: "2001:2::1".parse().unwrap(), destination: "2001:2::2".parse().unwrap(), ..spec(64) };
        assert_eq!(v6.min_size(), 84);
        assert!(spec(63).check().is_err());
        assert!(spec(64).check().is_ok());
        assert!(spec(MAX_FRAME_BYTES + 1).check().is_err());
    }

    #[test]
    fn ipv4_checksum_makes_the_header_sum_to_ones() {
        let [_, length, udp_length, checksum, _] = spec(100).size_entry(100);
        assert_eq!((length, udp_length), (86, 66));
        let header = ipv4_header(Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2), 86, checksum as u16);
        assert_eq!(fold(sum_words(&header)), 0xffff);
    }

    #[test]
    fn absurd_frames_are_refused_with_a_way_out() {
        for (frame, word) in [
            (FrameSpec { sizes: vec![12], ..spec(64) }, "size 12"),
            (FrameSpec { sizes: vec![], ..spec(64) }, "0 sizes"),
            (FrameSpec { flows: 0, ..spec(64) }, "0 flows"),
            (FrameSpec { vlan: Some(4096), ..spec(64) }, "VLAN 4096"),
            (FrameSpec { destination: "2001:2::2".parse().unwrap(), ..spec(64) }, "families"),
        ] {
            let error = frame.check().unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
            assert_eq!(error.kind(), ringtap::error::ErrorKind::Usage);
        }
    }
}

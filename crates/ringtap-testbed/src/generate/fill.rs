//! Frames written by user space, byte for byte what the in-kernel program writes.
//!
//! Owns what changes from packet to packet: stamp, lengths, source port, checksums; a mirror of `fill` in
//! bpf/generate.bpf.c. The rest of the frame is `frame`'s.

use super::frame::{FrameSpec, fold};
use crate::stamp::{STAMP_BYTES, Stamp};

const UDP_BYTES: usize = 8;

/// A frame's constant bytes and what is needed for the others.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    template: Vec<u8>,
    /// `struct size` of bpf/generate.bpf.c: frame, IP length, UDP length, IP checksum, sum for UDP's.
    sizes: Vec<[u64; 5]>,
    ip_offset: usize,
    stamp_offset: usize,
    ipv4: bool,
    source_port: u16,
    flows: u64,
    stream: u16,
    first_seq: u64,
}

impl FrameWriter {
    /// For a frame that was checked.
    pub(crate) fn new(frame: &FrameSpec, stream: u16, first_seq: u64) -> Self {
        Self {
            template: frame.bytes(),
            sizes: frame.size_table(),
            ip_offset: frame.ip_offset(),
            stamp_offset: frame.stamp_offset(),
            ipv4: frame.source.is_ipv4(),
            source_port: frame.source_port,
            flows: frame.flows.into(),
            stream,
            first_seq,
        }
    }

    /// Writes packet number `sent` (from 0) into `out` and returns its length; 0 when `out` is too small.
    pub(crate) fn write(&self, out: &mut [u8], sent: u64, now_ns: u64) -> usize {
        let [length, ip_length, udp_length, ip_checksum, udp_sum] =
            self.sizes[(sent % self.sizes.len() as u64) as usize];
        let Some(frame) = out.get_mut(..length as usize) else { return 0 };
        frame.copy_from_slice(&self.template[..length as usize]);
        let mut put = |at: usize, value: u64| frame[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
        if self.ipv4 {
            put(self.ip_offset + 2, ip_length);
            put(self.ip_offset + 10, ip_checksum);
        } else {
            put(self.ip_offset + 4, ip_length);
        }
        let udp = self.stamp_offset - UDP_BYTES;
        let port = u64::from(self.source_port) + sent % self.flows;
        let stamp = Stamp { stream: self.stream, seq: self.first_seq.wrapping_add(sent), time_ns: now_ns }.to_bytes();
        put(udp, port);
        put(udp + 4, udp_length);
        if !self.ipv4 {
            // RFC 8200 section 8.1 forbids 0, the sign of no checksum.
            let sum =
                udp_sum + port + stamp.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair[1])).sum::<u64>();
            let checksum = !fold(sum);
            put(udp + 6, if checksum == 0 { 0xffff } else { checksum.into() });
        }
        frame[self.stamp_offset..self.stamp_offset + STAMP_BYTES].copy_from_slice(&stamp);
        length as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::sum_words;
    use super::*;

    fn spec(source: &str, destination: &str) -> FrameSpec {
        FrameSpec {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            vlan: None,
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            source_port: 40_000,
            destination_port: 9_000,
            flows: 3,
            sizes: vec![100, 1514, 101],
        }
    }

    #[test]
    fn headers_add_up_and_stamps_parse() {
        let v4 = spec("198.18.0.1", "198.18.0.2");
        let v6 = spec("2001:2::1", "2001:2::2");
        for frame in [v4.clone(), FrameSpec { vlan: Some(9), ..v4 }, v6.clone(), FrameSpec { vlan: Some(4095), ..v6 }] {
            let writer = FrameWriter::new(&frame, 5, 1 << 33);
            for sent in 0..40 {
                let mut out = vec![0xee; 2048];
                let length = writer.write(&mut out, sent, 77_777 * sent);
                assert_eq!(length, frame.sizes[sent as usize % 3]);
                let bytes = &out[..length];
                let wanted = Stamp { stream: 5, seq: (1 << 33) + sent, time_ns: 77_777 * sent };
                assert_eq!(Stamp::from_frame(bytes), Some(wanted));
                let ip = &bytes[frame.ip_offset()..];
                let (udp, addresses) = if frame.source.is_ipv4() {
                    assert_eq!(fold(sum_words(&ip[..20])), 0xffff, "IPv4 header checksum");
                    assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
                    (&ip[20..], &ip[12..20])
                } else {
                    assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])), ip.len() - 40);
                    (&ip[40..], &ip[8..40])
                };
                assert_eq!(u64::from(u16::from_be_bytes([udp[0], udp[1]])), 40_000 + sent % 3);
                assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), udp.len());
                if frame.source.is_ipv6() {
                    let sum = sum_words(addresses) + 17 + udp.len() as u64 + sum_words(udp);
                    assert_eq!(fold(sum), 0xffff, "UDP checksum");
                }
            }
            assert_eq!(writer.write(&mut [0; 99], 0, 0), 0, "a frame too small is not written");
        }
    }
}

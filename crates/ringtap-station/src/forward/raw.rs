//! UDP datagrams with another host's source address, by a raw socket (raw(7): with `IPPROTO_RAW` the program writes the IP header).
//!
//! Owns the headers and their checksums. What does not fit into the path's packets is not sent, as nobody could put it together: raw(7).

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, sendto, socket};

const UDP: u8 = 17;
/// Hops, as hosts begin with.
const TTL: u8 = 64;

/// A raw socket for one family.
pub(super) struct RawSocket {
    fd: OwnedFd,
    is_v4: bool,
}

impl RawSocket {
    /// One that reaches this address.
    pub(super) fn open(to: SocketAddr) -> Result<Self, Errno> {
        let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let fd = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)?;
        Ok(Self { fd, is_v4: to.is_ipv4() })
    }

    /// Whether a datagram can have this source here.
    pub(super) fn can_say(&self, source: SocketAddr) -> bool {
        source.is_ipv4() == self.is_v4
    }

    /// Sends; whether the kernel took it.
    pub(super) fn send(&self, source: SocketAddr, to: SocketAddr, payload: &[u8]) -> bool {
        let Some(packet) = packet(source, to, payload) else { return false };
        // The kernel refuses a port here (ipv6(7)); the one that counts is in the packet.
        let address = SockaddrStorage::from(SocketAddr::new(to.ip(), 0));
        sendto(self.fd.as_raw_fd(), &packet, &address, MsgFlags::empty()) == Ok(packet.len())
    }
}

/// A UDP datagram from its IP header on; `None`: the addresses are of two families, or it is too long.
fn packet(source: SocketAddr, to: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    let udp_bytes = u16::try_from(8 + payload.len()).ok()?;
    let mut packet = Vec::with_capacity(48 + payload.len());
    let mut sum = Sum::default();
    match (source.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(to)) => {
            let total = udp_bytes.checked_add(20)?;
            // The kernel fills in the identification and the header's checksum.
            packet.extend([0x45, 0]);
            packet.extend(total.to_be_bytes());
            packet.extend([0, 0, 0, 0, TTL, UDP, 0, 0]);
            packet.extend(source.octets());
            packet.extend(to.octets());
            sum.add(&source.octets());
            sum.add(&to.octets());
        }
        (IpAddr::V6(source), IpAddr::V6(to)) => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(udp_bytes.to_be_bytes());
            packet.extend([UDP, TTL]);
            packet.extend(source.octets());
            packet.extend(to.octets());
            sum.add(&source.octets());
            sum.add(&to.octets());
        }
        _ => return None,
    }
    let head = [source.port().to_be_bytes(), to.port().to_be_bytes(), udp_bytes.to_be_bytes()].concat();
    // The pseudo header (RFC 768; RFC 8200 §8.1), then the datagram itself.
    sum.add(&[0, UDP]);
    sum.add(&udp_bytes.to_be_bytes());
    sum.add(&head);
    sum.add(payload);
    packet.extend(head);
    packet.extend(sum.checksum().to_be_bytes());
    packet.extend(payload);
    Some(packet)
}

/// The Internet checksum (RFC 1071) of parts with an even number of bytes, but the last.
#[derive(Default)]
struct Sum(u32);

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.chunks(2) {
            self.0 += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
    }

    /// 0 would mean that there is none.
    fn checksum(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        match !(sum as u16) {
            0 => 0xffff,
            checksum => checksum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_say_who_sent_them_and_their_checksums_are_right() {
        for (source, to, head) in
            [("192.0.2.1:5000", "198.51.100.9:162", 20), ("[2001:db8::1]:5000", "[2001:db8::2]:162", 40)]
        {
            let (source, to): (SocketAddr, SocketAddr) = (source.parse().unwrap(), to.parse().unwrap());
            let bytes = packet(source, to, b"odd").unwrap();
            assert_eq!(bytes.len(), head + 8 + 3);
            // Over the pseudo header and the datagram, the checksum included, the sum is all ones.
            let mut sum = Sum::default();
            sum.add(&bytes[if head == 20 { 12 } else { 8 }..head]);
            sum.add(&[0, UDP, 0, 11]);
            sum.add(&bytes[head..]);
            assert_eq!(sum.checksum(), 0xffff, "{source}");
            assert_eq!(&bytes[head + 8..], b"odd");
        }
        assert!(packet("192.0.2.1:1".parse().unwrap(), "[::1]:1".parse().unwrap(), b"").is_none());
        assert!(packet("192.0.2.1:1".parse().unwrap(), "192.0.2.1:1".parse().unwrap(), &[0; 65_536]).is_none());
    }
}

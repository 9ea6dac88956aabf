//! Owns: the Community ID, version 1, of a flow (Corelight's specification of community-id-spec).
//! Does not: know flows of other kinds than those with an IP header.

use std::net::IpAddr;

use data_encoding::BASE64;
use sha1::{Digest, Sha1};

/// What the ports stand for.
fn icmp_ports(v6: bool, kind: u8, code: u8) -> (u16, u16, bool) {
    // Types that have a counterpart, which stands for the other port.
    const V4: [(u8, u8); 10] =
        [(8, 0), (0, 8), (13, 14), (14, 13), (15, 16), (16, 15), (10, 9), (9, 10), (17, 18), (18, 17)];
    const V6: [(u8, u8); 10] = [
        (128, 129),
        (129, 128),
        (130, 131),
        (131, 130),
        (133, 134),
        (134, 133),
        (135, 136),
        (136, 135),
        (139, 140),
        (140, 139),
    ];
    let table = if v6 { &V6 } else { &V4 };
    match table.iter().find(|(request, _)| *request == kind) {
        Some((_, reply)) => (kind.into(), (*reply).into(), false),
        None => (kind.into(), code.into(), true),
    }
}

/// The Community ID of the flow between two ends with this IP protocol, as text; the same for both directions.
#[must_use]
pub fn community_id(
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
    protocol: u8,
    icmp: Option<(u8, u8)>,
    seed: u16,
) -> String {
    format!("1:{}", BASE64.encode(&community_hash(source, destination, protocol, icmp, seed)))
}

/// What the text is made of. Never allocates.
pub(crate) fn community_hash(
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
    protocol: u8,
    icmp: Option<(u8, u8)>,
    seed: u16,
) -> [u8; 20] {
    let has_ports = matches!(protocol, 6 | 17 | 132);
    let (mut ports, mut one_way) = ((source.1, destination.1), false);
    if let Some((kind, code)) = icmp {
        let (first, second, alone) = icmp_ports(source.0.is_ipv6(), kind, code);
        (ports, one_way) = ((first, second), alone);
    }
    let ((mut low, mut high), mut ports) = ((source.0, destination.0), ports);
    if !one_way && (low, ports.0) > (high, ports.1) {
        (low, high, ports) = (high, low, (ports.1, ports.0));
    }
    let mut hash = Sha1::new();
    hash.update(seed.to_be_bytes());
    for address in [low, high] {
        match address {
            IpAddr::V4(address) => hash.update(address.octets()),
            IpAddr::V6(address) => hash.update(address.octets()),
        }
    }
    hash.update([protocol, 0]);
    if has_ports || icmp.is_some() {
        hash.update(ports.0.to_be_bytes());
        hash.update(ports.1.to_be_bytes());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification's own example.
    #[test]
    fn known_values() {
        let (client, server) = (("128.232.110.120".parse().unwrap(), 34855), ("66.35.250.204".parse().unwrap(), 80));
        assert_eq!(community_id(client, server, 6, None, 0), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
        assert_eq!(community_id(server, client, 6, None, 0), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
        assert_eq!(community_id(client, server, 6, None, 1), "1:3V71V58M3Ksw/yuFALMcW0LAHvc=");
    }
}

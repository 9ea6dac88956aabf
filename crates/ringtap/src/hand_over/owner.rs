//! Which packets belong together: those between the same two addresses, in both directions, in fragments or whole.
//!
//! Reads the outermost IP header only: packets of a tunnel meet by the tunnel's ends.

use ringtap_wire::{Layers, LinkType};
use std::net::IpAddr;

/// The same for both directions; `None` without an IP header.
///
/// Each address is mixed before both are joined: hosts that are numbered alike at both ends (10.1.0.7 and 10.2.0.7) would else all
/// have one hash.
pub(super) fn hash(data: &[u8], link: LinkType, secret: u32) -> Option<u32> {
    let layers = Layers::parse(data, link);
    let ip = layers.outer_ip()?.view(data)?;
    Some(joined(ip.source(), ip.destination(), secret))
}

fn joined(one: IpAddr, other: IpAddr, secret: u32) -> u32 {
    mix(folded(one, secret).wrapping_add(folded(other, secret)))
}

/// An address in 32 bits.
fn folded(address: IpAddr, secret: u32) -> u32 {
    match address {
        IpAddr::V4(address) => mix(address.to_bits() ^ secret),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            [96, 64, 32, 0].into_iter().fold(secret, |hash, shift| mix(hash ^ (bits >> shift) as u32))
        }
    }
}

/// Neighbouring addresses differ in few bits; the number of engines takes the low ones.
fn mix(bits: u32) -> u32 {
    let bits = (bits ^ bits >> 16).wrapping_mul(0x7feb_352d);
    let bits = (bits ^ bits >> 15).wrapping_mul(0x846c_a68b);
    bits ^ bits >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_numbered_alike_are_spread() {
        let pairs_by_engine = |address: fn(u8, u8) -> IpAddr| {
            let mut counts = [0; 4];
            for host in 0..=255 {
                let [one, other] = [address(1, host), address(2, host)];
                assert_eq!(joined(one, other, 7), joined(other, one, 7));
                counts[joined(one, other, 7) as usize % 4] += 1;
            }
            counts
        };
        let v4 = |net: u8, host: u8| IpAddr::from([10, net, 0, host]);
        let v6 = |net: u8, host: u8| IpAddr::from([0x2001, 0xdb8, net.into(), 0, 0, 0, 0, host.into()]);
        for counts in [pairs_by_engine(v4), pairs_by_engine(v6)] {
            assert!(counts.iter().all(|&count| count > 32), "{counts:?} of 256");
        }
    }
}

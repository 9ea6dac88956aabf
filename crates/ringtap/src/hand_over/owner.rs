//! Which packets belong together: those between the same two addresses, in both directions, in fragments or whole.
//!
//! Reads the outermost IP header only: packets of a tunnel meet by the tunnel's ends.

use ringtap_wire::{Layers, LinkType};
use std::net::IpAddr;

/// The same for both directions; `None` without an IP header.
pub(super) fn hash(data: &[u8], link: LinkType) -> Option<u32> {
    let layers = Layers::parse(data, link);
    let ip = layers.outer_ip()?.view(data)?;
    Some(mix(folded(ip.source()) ^ folded(ip.destination())))
}

/// An address in 32 bits.
fn folded(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            (bits >> 96) as u32 ^ (bits >> 64) as u32 ^ (bits >> 32) as u32 ^ bits as u32
        }
    }
}

/// Neighbouring addresses differ in few bits; the number of engines takes the low ones.
fn mix(bits: u32) -> u32 {
    let bits = (bits ^ bits >> 16).wrapping_mul(0x7feb_352d);
    bits ^ bits >> 15
}

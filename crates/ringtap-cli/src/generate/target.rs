//! Whom packets go to and whom they come from: the options, completed by what the interface and the testbed know.
//!
//! Owns the defaults. Outside a testbed a destination is guessed only on a veth, which has one other end; never the broadcast
//! address. A MAC address that is missing is asked for.

use std::net::{IpAddr, Ipv4Addr};

use nix::ifaddrs::getifaddrs;
use ringtap::interface::Interface;
use ringtap::netlink;
use ringtap::{Error, Result};
use ringtap_testbed::FrameSpec;
use ringtap_testbed::generate::{DEFAULT_PORT, Neighbour, ask_for, neighbours_here};

use super::Args;

/// Addresses for a wire on which nobody has told us any: reserved for benchmarks (RFC 2544), so that no host answers.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2));
const NOBODY_TOO: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
/// First source port when none is given.
const FROM_PORT: u16 = 40_000;

/// Reads `02:00:00:00:00:01`.
pub(super) fn mac(text: &str) -> Result<[u8; 6], String> {
    let wrong =
        || format!("{text:?} is no MAC address; give six pairs of hexadecimal digits such as 02:00:00:00:00:01");
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let part = parts.next().ok_or_else(wrong)?;
        if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
    }
    if parts.next().is_some() { Err(wrong()) } else { Ok(mac) }
}

/// The frame to send. `private`: inside a testbed, whose other end is the default destination.
pub(super) fn frame(args: &Args, interface: &Interface, sizes: Option<Vec<usize>>, private: bool) -> Result<FrameSpec> {
    let mut peers = if private { neighbours_here(&interface.name)? } else { Vec::new() };
    if peers.is_empty()
        && let Ok(Some(address)) = netlink::veth_peer_address(interface.index)
        && let Ok(mac) = address.try_into()
    {
        peers.push(Neighbour { address: NOBODY, mac });
    }
    let destination = destination(args, &peers)?;
    let destination_mac = destination_mac(args, destination, &peers)?;
    let source_mac = match args.from_mac {
        Some(mac) => mac,
        None => own_mac(interface)?,
    };
    let source = match args.from {
        Some(address) => address,
        None if destination == NOBODY => own_address(interface, destination).unwrap_or(NOBODY_TOO),
        None => own_address(interface, destination)?,
    };
    let frame = FrameSpec {
        source_mac,
        destination_mac,
        vlan: args.vlan,
        source,
        destination,
        source_port: args.from_port.unwrap_or(FROM_PORT),
        destination_port: args.port.unwrap_or(DEFAULT_PORT),
        flows: args.flows.unwrap_or(1),
        sizes: Vec::new(),
    };
    let sizes = sizes.unwrap_or_else(|| vec![frame.min_size()]);
    Ok(FrameSpec { sizes, ..frame })
}

fn destination(args: &Args, peers: &[Neighbour]) -> Result<IpAddr> {
    let family = args.from.map(|from| from.is_ipv6());
    let peer = peers.iter().find(|peer| family.is_none_or(|ipv6| ipv6 == peer.address.is_ipv6()));
    args.to.or(peer.map(|peer| peer.address)).ok_or_else(|| {
        Error::usage("generate on", &args.interface, "no destination given")
            .way_out("say whom the packets go to: --to ADDRESS --to-mac MAC")
    })
}

/// A testbed's wire, and a veth's, has one other end, whatever IP addresses it is to see; on others the host is asked for.
fn destination_mac(args: &Args, destination: IpAddr, peers: &[Neighbour]) -> Result<[u8; 6]> {
    let peer = peers.iter().find(|peer| peer.address == destination).or(peers.first());
    if let Some(mac) = args.to_mac.or(peer.map(|peer| peer.mac)) {
        return Ok(mac);
    }
    ask_for(&args.interface, destination)?.ok_or_else(|| {
        Error::usage(
            "generate on",
            &args.interface,
            format!("no MAC address given for {destination}, and nobody on this interface says that it is theirs"),
        )
        .way_out("give that of the host, or of the router to it, with --to-mac (`ip neighbour` shows those known)")
    })
}

fn own_mac(interface: &Interface) -> Result<[u8; 6]> {
    let link = netlink::link_by_index(interface.index)
        .map_err(|error| Error::os("read MAC address of", &interface.name, &error))?;
    link.address.as_slice().try_into().map_err(|_| {
        Error::failed("generate on", &interface.name, "it has no MAC address").way_out("give one with --from-mac")
    })
}

/// The interface's first address of the destination's family; link-local ones only when there are no others.
fn own_address(interface: &Interface, destination: IpAddr) -> Result<IpAddr> {
    let all = getifaddrs().map_err(|errno| Error::os("list addresses of", &interface.name, &errno.into()))?;
    let mut own: Vec<IpAddr> = all
        .filter(|entry| entry.interface_name == interface.name)
        .filter_map(|entry| entry.address)
        .filter_map(|address| match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => Some(IpAddr::V4(v4.ip())),
            (_, Some(v6)) => Some(IpAddr::V6(v6.ip())),
            _ => None,
        })
        .filter(|address| address.is_ipv4() == destination.is_ipv4())
        .collect();
    own.sort_by_key(|address| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()));
    own.first().copied().ok_or_else(|| {
        let family = if destination.is_ipv4() { "IPv4" } else { "IPv6" };
        Error::usage("generate on", &interface.name, format!("it has no {family} address to send from"))
            .way_out("give one with --from")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses() {
        assert_eq!(mac("02:00:00:00:00:fe"), Ok([2, 0, 0, 0, 0, 254]));
        assert_eq!(mac("02-00-00-00-00-FE"), Ok([2, 0, 0, 0, 0, 254]));
        for bad in
            ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "02:00:00:00:00:0g", "2:0:0:0:0:1", "02:00:00:00:00:+1"]
        {
            assert!(mac(bad).unwrap_err().contains("such as"), "{bad}");
        }
    }
}

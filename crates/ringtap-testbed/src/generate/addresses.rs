//! Whom packets go to and whom they come from: what was said of it, completed by what the interface and the testbed know.
//!
//! Owns the defaults. Outside a testbed a destination is guessed only on a veth, which has one other end; never the broadcast
//! address. A MAC address that is missing is asked for.

use std::net::{IpAddr, Ipv4Addr};

use nix::ifaddrs::getifaddrs;
use ringtap::interface::Interface;
use ringtap::netlink;
use ringtap::{Error, Result};

use super::frame::{DEFAULT_PORT, FrameSpec};
use super::peers::{Neighbour, ask_for, neighbours_here};

/// Addresses for a wire on which nobody has told us any: reserved for benchmarks (RFC 2544), so that no host answers.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2));
const NOBODY_TOO: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
/// First source port when none is given.
const FROM_PORT: u16 = 40_000;

/// Ends of the packets, as far as they were said.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    /// Ethernet destination.
    pub to_mac: Option<[u8; 6]>,
    /// Ethernet source.
    pub from_mac: Option<[u8; 6]>,
    /// IP destination.
    pub to: Option<IpAddr>,
    /// IP source.
    pub from: Option<IpAddr>,
    /// UDP destination port.
    pub port: Option<u16>,
    /// UDP source port, the first one.
    pub from_port: Option<u16>,
    /// How many source ports are used in turn.
    pub flows: Option<u16>,
    /// VLAN of an 802.1Q tag, 0 to 4095.
    pub vlan: Option<u16>,
}

impl Addresses {
    /// The frame to send on an interface of the calling thread's network namespace, in `sizes` or else in the smallest one.
    /// `private`: inside a testbed, whose other end is the default destination.
    ///
    /// # Errors
    /// An address that was not said and can't be found out.
    pub fn frame(&self, interface: &Interface, sizes: Option<Vec<usize>>, private: bool) -> Result<FrameSpec> {
        let mut peers = if private { neighbours_here(&interface.name)? } else { Vec::new() };
        if peers.is_empty()
            && let Ok(Some(address)) = netlink::veth_peer_address(interface.index)
            && let Ok(mac) = address.try_into()
        {
            peers.push(Neighbour { address: NOBODY, mac });
        }
        let destination = self.destination(interface, &peers)?;
        let destination_mac = self.destination_mac(interface, destination, &peers)?;
        let source_mac = match self.from_mac {
            Some(mac) => mac,
            None => own_mac(interface)?,
        };
        let source = match self.from {
            Some(address) => address,
            None if destination == NOBODY => own_address(interface, destination).unwrap_or(NOBODY_TOO),
            None => own_address(interface, destination)?,
        };
        let frame = FrameSpec {
            source_mac,
            destination_mac,
            vlan: self.vlan,
            source,
            destination,
            source_port: self.from_port.unwrap_or(FROM_PORT),
            destination_port: self.port.unwrap_or(DEFAULT_PORT),
            flows: self.flows.unwrap_or(1),
            sizes: Vec::new(),
        };
        let sizes = sizes.unwrap_or_else(|| vec![frame.min_size()]);
        Ok(FrameSpec { sizes, ..frame })
    }

    fn destination(&self, interface: &Interface, peers: &[Neighbour]) -> Result<IpAddr> {
        let family = self.from.map(|from| from.is_ipv6());
        let peer = peers.iter().find(|peer| family.is_none_or(|ipv6| ipv6 == peer.address.is_ipv6()));
        self.to.or(peer.map(|peer| peer.address)).ok_or_else(|| {
            Error::usage("generate on", &interface.name, "no destination given")
                .way_out("say whom the packets go to: --to ADDRESS --to-mac MAC")
        })
    }

    /// A testbed's wire, and a veth's, has one other end, whatever IP addresses it is to see; on others the host is asked for.
    fn destination_mac(&self, interface: &Interface, destination: IpAddr, peers: &[Neighbour]) -> Result<[u8; 6]> {
        let peer = peers.iter().find(|peer| peer.address == destination).or(peers.first());
        if let Some(mac) = self.to_mac.or(peer.map(|peer| peer.mac)) {
            return Ok(mac);
        }
        ask_for(&interface.name, destination)?.ok_or_else(|| {
            Error::usage(
                "generate on",
                &interface.name,
                format!("no MAC address given for {destination}, and nobody on this interface says that it is theirs"),
            )
            .way_out("give that of the host, or of the router to it, with --to-mac (`ip neighbour` shows those known)")
        })
    }
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

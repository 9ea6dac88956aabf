//! Whether the host uses an interface, so that packets taken away from it (AF_XDP) would be missed, and what for.
//!
//! The one place that decides this for every program (invariant 6). What the kernel's tables hold is read in `sys`; what
//! follows for a capture is decided by the receiver.

use std::fmt;
use std::io;
use std::net::IpAddr;

use aya::programs::{SchedClassifier, TcAttachType};
use serde::Serialize;

use crate::sys::netlink::{self, Link};
use crate::sys::uses;

/// What the host uses an interface for: the first thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum HostUse {
    /// The host's way to itself.
    Loopback,
    /// It is a port of a bridge, bond, team, Open vSwitch, VRF or the like.
    Port {
        /// Name of the device it is a port of.
        of: String,
        /// Its kind, as ip-link(8) has it.
        kind: String,
    },
    /// A device stands on it: a VLAN, macvlan, ipvlan, tunnel, MACsec.
    Carries {
        /// That device.
        device: String,
        /// Its kind, as ip-link(8) has it.
        kind: String,
    },
    /// It is the host's end of a guest's device.
    Guest {
        /// Its kind, as ip-link(8) has it.
        kind: String,
    },
    /// It has an address, whatever its label.
    Address {
        /// One of them.
        address: IpAddr,
    },
    /// It has none but link-local addresses, by which neighbours talk to the host all the same.
    LinkLocal {
        /// One of them.
        address: IpAddr,
    },
    /// The host sends and receives by it without an address of its own.
    Route,
    /// A PPPoE session runs over it.
    Pppoe,
    /// It takes in packets to a second MAC address: a macvlan in another network namespace has one.
    SecondMac {
        /// That address.
        address: [u8; 6],
    },
    /// tc filters or BPF programs act on what comes in.
    IngressFilter,
    /// tc mirrors or redirects packets to it.
    MirrorTarget,
    /// IPsec states or policies are bound to it or offloaded to its card.
    Ipsec,
    /// Could not be found out, and so counts as used.
    Unknown {
        /// What could not be read.
        table: &'static str,
        /// Why.
        cause: String,
    },
}

impl HostUse {
    /// What the host uses a port of an aggregate for, by itself or by way of the aggregate `of`, which stands on it; `None`: nothing.
    pub(crate) fn of_port(index: u32, of: u32) -> Option<Self> {
        Self::known_first(Self::of_but(index, Some(of)), || Self::of(of))
    }

    /// What is known of a port or of its aggregate, before what is not: privileges may be gone.
    fn known_first(port: Option<Self>, aggregate: impl FnOnce() -> Option<Self>) -> Option<Self> {
        match port {
            None => aggregate(),
            Some(Self::Unknown { .. }) => aggregate().filter(|found| !matches!(found, Self::Unknown { .. })).or(port),
            Some(_) => port,
        }
    }

    /// What the host uses the interface for; `None`: nothing. Asked in the calling thread's network namespace.
    pub fn of(index: u32) -> Option<Self> {
        Self::of_but(index, None)
    }

    /// As [`HostUse::of`], where being a port of `master` is none.
    fn of_but(index: u32, master: Option<u32>) -> Option<Self> {
        let unknown = |table, error: &dyn fmt::Display| Some(Self::Unknown { table, cause: error.to_string() });
        let links = match netlink::links() {
            Ok(links) => links,
            Err(error) => return unknown("the list of interfaces", &error),
        };
        let Some(own) = links.iter().find(|link| link.index == index) else {
            return unknown("the list of interfaces", &"it is not there");
        };
        let own = &Link { master: own.master.filter(|_| own.master != master), ..own.clone() };
        Self::by_links(own, &links).or_else(|| match Self::by_tables(own) {
            Ok(found) => found,
            Err((table, error)) => unknown(table, &error),
        })
    }

    /// What other devices make of it.
    fn by_links(own: &Link, links: &[Link]) -> Option<Self> {
        let kind = |link: &Link| link.kind.clone().unwrap_or_else(|| "device".to_owned());
        if own.hardware_type == libc::ARPHRD_LOOPBACK {
            return Some(Self::Loopback);
        }
        if let Some(master) = own.master {
            let master = links.iter().find(|link| link.index == master);
            let (of, kind) =
                master.map_or_else(|| ("unnamed".to_owned(), "device".to_owned()), |m| (m.name.clone(), kind(m)));
            return Some(Self::Port { of, kind });
        }
        if let Some(upper) = links.iter().find(|link| link.lower == Some(own.index)) {
            return Some(Self::Carries { device: upper.name.clone(), kind: kind(upper) });
        }
        own.kind.clone().filter(|kind| matches!(kind.as_str(), "macvtap" | "ipvtap")).map(|kind| Self::Guest { kind })
    }

    /// What the network stack does with its packets.
    fn by_tables(own: &Link) -> Result<Option<Self>, (&'static str, io::Error)> {
        let index = own.index;
        let addresses = uses::addresses(index).map_err(|error| ("its addresses", error))?;
        if let Some(&address) = addresses.iter().find(|address| !is_link_local(address)) {
            return Ok(Some(Self::Address { address }));
        }
        if let Some(&address) = addresses.first() {
            return Ok(Some(Self::LinkLocal { address }));
        }
        if let Some(address) = uses::second_mac(index).map_err(|error| ("its MAC addresses", error))? {
            return Ok(Some(Self::SecondMac { address }));
        }
        let tables = [
            ("the routes", uses::has_route(index), Self::Route),
            ("the PPPoE sessions", uses::has_pppoe(&own.name), Self::Pppoe),
            ("its tc filters", uses::has_ingress_filters(index), Self::IngressFilter),
            ("the targets of tc's mirrors", uses::is_mirrored_to(index), Self::MirrorTarget),
            // What takes privileges, which may be gone while a capture runs, comes last.
            ("its tc programs", has_tcx(&own.name), Self::IngressFilter),
            ("the IPsec states", uses::has_ipsec(index), Self::Ipsec),
        ];
        first_use(tables)
    }

    /// Whether the host itself is addressed by it, so that what it would get can be told by address.
    pub fn is_by_address(&self) -> bool {
        matches!(self, Self::Address { .. } | Self::LinkLocal { .. })
    }
}

/// The first table that says so; a table that can't be read hides none behind it.
fn first_use<const N: usize>(
    tables: [(&'static str, io::Result<bool>, HostUse); N],
) -> Result<Option<HostUse>, (&'static str, io::Error)> {
    let mut unread = None;
    for (table, answer, meaning) in tables {
        match answer {
            Ok(true) => return Ok(Some(meaning)),
            Ok(false) => {}
            Err(error) => drop(unread.get_or_insert((table, error))),
        }
    }
    unread.map_or(Ok(None), Err)
}

/// Whether BPF programs are attached to its tc ingress directly (tcx, Linux 6.6), where no qdisc shows them.
fn has_tcx(name: &str) -> io::Result<bool> {
    match SchedClassifier::query_tcx(name, TcAttachType::Ingress) {
        Ok((_, programs)) => Ok(!programs.is_empty()),
        Err(error) => match crate::steer::errno(&error) {
            // Kernels before it, and those built without it.
            Some(libc::EINVAL | libc::EOPNOTSUPP) => Ok(false),
            Some(code) => Err(io::Error::from_raw_os_error(code)),
            None => Err(io::Error::other(error.to_string())),
        },
    }
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

impl fmt::Display for HostUse {
    /// What follows an interface's name: "eth1 is a port of the bridge br0".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback => f.write_str("is the host's way to itself"),
            Self::Port { of, kind } => write!(f, "is a port of {of} ({kind})"),
            Self::Carries { device, kind } => write!(f, "carries {device} ({kind})"),
            Self::Guest { kind } => write!(f, "is a guest's {kind}"),
            Self::Address { address } => write!(f, "has the host's address {address}"),
            Self::LinkLocal { address } => write!(f, "has the host's link-local address {address}"),
            Self::Route => f.write_str("is in routes of the host"),
            Self::Pppoe => f.write_str("carries a PPPoE session"),
            Self::SecondMac { address: [a, b, c, d, e, g] } => {
                write!(
                    f,
                    "takes packets to {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x} too, as for a macvlan elsewhere"
                )
            }
            Self::IngressFilter => f.write_str("has tc filters or programs on what comes in"),
            Self::MirrorTarget => f.write_str("gets packets mirrored or redirected by tc"),
            Self::Ipsec => f.write_str("has IPsec states or policies bound to it"),
            Self::Unknown { table, cause } => write!(f, "may be used by the host: {table} can't be read ({cause})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, kind: Option<&str>) -> Link {
        let name = format!("if{index}");
        Link { index, name, kind: kind.map(str::to_owned), hardware_type: 1, ..Link::default() }
    }

    fn told(links: &[Link]) -> Option<String> {
        HostUse::by_links(&links[0], links).map(|found| format!("if1 {found}"))
    }

    #[test]
    fn ports_parents_and_guests_are_used() {
        for kind in ["bridge", "bond", "team", "openvswitch", "vrf"] {
            let port = Link { master: Some(2), ..link(1, None) };
            assert_eq!(told(&[port, link(2, Some(kind))]), Some(format!("if1 is a port of if2 ({kind})")));
        }
        for kind in ["vlan", "macvlan", "macvtap", "ipvlan", "vxlan", "gretap", "macsec", "xfrm"] {
            let upper = Link { lower: Some(1), ..link(2, Some(kind)) };
            assert_eq!(told(&[link(1, None), upper]), Some(format!("if1 carries if2 ({kind})")));
        }
        assert_eq!(told(&[link(1, Some("macvtap"))]), Some("if1 is a guest's macvtap".to_owned()));
        assert_eq!(told(&[Link { hardware_type: 772, ..link(1, None) }]).unwrap(), "if1 is the host's way to itself");
        assert_eq!(told(&[link(1, Some("veth")), link(2, Some("bridge"))]), None);
    }

    /// After a capture gave its privileges up, some tables can't be read any more.
    #[test]
    fn what_can_not_be_read_hides_no_use() {
        let unread = || Err(io::Error::from_raw_os_error(libc::EPERM));
        let found = first_use([("a", unread(), HostUse::IngressFilter), ("b", Ok(true), HostUse::Ipsec)]);
        assert!(matches!(found, Ok(Some(HostUse::Ipsec))));
        let found = first_use([("a", unread(), HostUse::Route), ("b", unread(), HostUse::Ipsec)]);
        assert!(matches!(found, Err(("a", _))));
        assert!(matches!(first_use([("a", Ok(false), HostUse::Route)]), Ok(None)));

        let unknown = || Some(HostUse::Unknown { table: "its tc programs", cause: "no".to_owned() });
        for (port, aggregate, expected) in [
            (unknown(), Some(HostUse::Route), Some(HostUse::Route)),
            (unknown(), unknown(), unknown()),
            (unknown(), None, unknown()),
            (None, Some(HostUse::Route), Some(HostUse::Route)),
            (Some(HostUse::Ipsec), unknown(), Some(HostUse::Ipsec)),
            (None, None, None),
        ] {
            assert_eq!(HostUse::known_first(port, || aggregate), expected);
        }
    }

    #[test]
    fn what_is_not_there_counts_as_used() {
        let found = HostUse::of(u32::MAX >> 1).unwrap();
        assert!(matches!(found, HostUse::Unknown { .. }), "{found}");
    }
}

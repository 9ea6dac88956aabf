//! The kernel's tables that say what a host does with an interface: addresses, routes, tc, second MAC addresses, IPsec, PPPoE.
//!
//! Owns the questions (rtnetlink(7), linux/pkt_sched.h, linux/xfrm.h) and the reading of the answers, until_whole, in the network namespace of
//! the calling thread. What follows from them is `host_use`'s business.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

use super::netlink::{answers, attributes, datagram, open, u32_at, until_whole};

const HEADER: usize = size_of::<libc::nlmsghdr>();
/// Of linux/netlink.h: dumps are filtered by what the request's header and attributes say (Linux 4.20).
const NETLINK_GET_STRICT_CHK: libc::c_int = 12;

/// Asks for a table and hands each entry's body to `each`, some of them again where the table changes meanwhile.
pub(super) fn dump(protocol: libc::c_int, kind: u16, request: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
    until_whole(|| {
        let socket = open(protocol)?;
        // An older kernel gives more than was asked for, and `each` looks at what it gets.
        let _ = super::setsockopt(socket.as_fd(), libc::SOL_NETLINK, NETLINK_GET_STRICT_CHK, &1i32);
        datagram(&socket, kind, libc::NLM_F_DUMP, request)?;
        answers(&socket, |message| {
            each(message.get(HEADER..).unwrap_or(&[]));
            Ok(())
        })
    })
}

pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from(((value.len() + 4) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The attributes of an entry, behind its structure of `len` bytes.
pub(super) fn behind(entry: &[u8], len: usize) -> impl Iterator<Item = (u16, &[u8])> {
    attributes(entry.get(len..).unwrap_or(&[]))
}

/// The addresses of an interface, of every scope and label.
pub(crate) fn addresses(index: u32) -> io::Result<Vec<IpAddr>> {
    /// struct ifaddrmsg: family, prefix length, flags, scope, index.
    const IFADDRMSG: usize = 8;
    const IFA_LOCAL: u16 = 2;
    let mut request = [0u8; IFADDRMSG];
    request[4..].copy_from_slice(&index.to_ne_bytes());
    let mut found = Vec::new();
    dump(libc::NETLINK_ROUTE, libc::RTM_GETADDR, &request, |entry| {
        if u32_at(entry, 4) != Some(index) {
            return;
        }
        // With a peer, IFA_ADDRESS is the peer's.
        let of = |wanted| behind(entry, IFADDRMSG).find(|&(kind, _)| kind == wanted).map(|(_, value)| value);
        found.extend(of(IFA_LOCAL).or_else(|| of(libc::IFA_ADDRESS)).and_then(ip));
    })?;
    Ok(found)
}

pub(super) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(|octets| Ipv4Addr::from(octets).into())
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(|octets| Ipv6Addr::from(octets).into()))
        .ok()
}

/// Whether a route leads out of an interface. Those that every interface with IPv6 has (ff00::/8, fe80::/64) are none.
pub(crate) fn has_route(index: u32) -> io::Result<bool> {
    /// struct rtmsg: family, lengths of destination and source, tos, table, protocol, scope, type, flags.
    const RTMSG: usize = 12;
    const RTN_MULTICAST: u8 = 5;
    const RTA_DST: u16 = 1;
    const RTA_MULTIPATH: u16 = 9;
    let mut found = false;
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        let mut request = vec![0u8; RTMSG];
        request[0] = family;
        request.extend(attribute(libc::RTA_OIF, &index.to_ne_bytes()));
        dump(libc::NETLINK_ROUTE, libc::RTM_GETROUTE, &request, |route| {
            let mut leads_there = false;
            let mut is_everywhere = family == libc::AF_INET6 as u8 && route.get(7) == Some(&RTN_MULTICAST);
            for (kind, value) in behind(route, RTMSG) {
                match kind {
                    libc::RTA_OIF => leads_there |= u32_at(value, 0) == Some(index),
                    RTA_MULTIPATH => leads_there |= next_hops(value).any(|hop| hop == index),
                    RTA_DST if route.first() == Some(&(libc::AF_INET6 as u8)) => {
                        is_everywhere |= matches!(value, [0xff, ..] | [0xfe, 0x80, ..]);
                    }
                    _ => {}
                }
            }
            found |= leads_there && !is_everywhere;
        })?;
    }
    Ok(found)
}

/// Interfaces of struct rtnexthop: length, flags, hops, index, and attributes behind it.
fn next_hops(mut bytes: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let len = usize::from(super::netlink::u16_at(bytes, 0)?).max(8);
        let index = u32_at(bytes, 4)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some(index)
    })
}

/// struct tcmsg: family and padding, index, handle, parent, info.
const TCMSG: usize = 20;

/// Whether tc filters act on what comes in by an interface (its qdisc `ingress` or `clsact`).
pub(crate) fn has_ingress_filters(index: u32) -> io::Result<bool> {
    /// TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS), which `ingress` understands as well.
    const INGRESS: u32 = 0xffff_fff2;
    let mut has_qdisc = false;
    dump(libc::NETLINK_ROUTE, libc::RTM_GETQDISC, &[0; TCMSG], |qdisc| {
        has_qdisc |= u32_at(qdisc, 4) == Some(index)
            && behind(qdisc, TCMSG).any(|(kind, value)| {
                kind == libc::TCA_KIND && (value.starts_with(b"ingress\0") || value.starts_with(b"clsact\0"))
            });
    })?;
    if !has_qdisc {
        return Ok(false);
    }
    let mut request = [0u8; TCMSG];
    request[4..8].copy_from_slice(&index.to_ne_bytes());
    request[12..16].copy_from_slice(&INGRESS.to_ne_bytes());
    let mut found = false;
    dump(libc::NETLINK_ROUTE, libc::RTM_GETTFILTER, &request, |_| found = true)?;
    Ok(found)
}

/// Whether some tc action mirrors or redirects packets to an interface.
pub(crate) fn is_mirrored_to(index: u32) -> io::Result<bool> {
    /// struct tcamsg.
    const TCAMSG: usize = 4;
    const TCA_ACT_TAB: u16 = 1;
    const TCA_ACT_KIND: u16 = 1;
    const TCA_ACT_OPTIONS: u16 = 2;
    const TCA_MIRRED_PARMS: u16 = 2;
    /// struct tc_mirred: five words of every action's, eaction, ifindex.
    const IFINDEX: usize = 24;
    let kind = attribute(TCA_ACT_KIND, b"mirred\0");
    let request = [vec![0; TCAMSG], attribute(TCA_ACT_TAB, &attribute(1, &kind))].concat();
    let mut found = false;
    let result = dump(libc::NETLINK_ROUTE, libc::RTM_GETACTION, &request, |actions| {
        let tables = behind(actions, TCAMSG).filter(|&(kind, _)| kind == TCA_ACT_TAB);
        let actions = tables.flat_map(|(_, table)| attributes(table));
        let options = actions.flat_map(|(_, action)| attributes(action)).filter(|&(kind, _)| kind == TCA_ACT_OPTIONS);
        let mut targets =
            options.flat_map(|(_, options)| attributes(options)).filter(|&(kind, _)| kind == TCA_MIRRED_PARMS);
        found |= targets.any(|(_, parameters)| u32_at(parameters, IFINDEX) == Some(index));
    });
    match result {
        // A kernel without tc's actions.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        result => result.map(|()| found),
    }
}

/// A further unicast MAC address that the device takes in, as it has for a macvlan, wherever that is.
pub(crate) fn second_mac(index: u32) -> io::Result<Option<[u8; 6]>> {
    /// struct ndmsg: family and padding, index, state, flags, type.
    const NDMSG: usize = 12;
    const NDA_LLADDR: u16 = 2;
    const NTF_SELF: u8 = 2;
    let mut request = [0u8; NDMSG];
    request[0] = libc::AF_BRIDGE as u8;
    request[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut found = None;
    dump(libc::NETLINK_ROUTE, libc::RTM_GETNEIGH, &request, |entry| {
        if u32_at(entry, 4) == Some(index) && entry.get(10).is_some_and(|flags| flags & NTF_SELF != 0) {
            let addresses = behind(entry, NDMSG).filter(|&(kind, _)| kind == NDA_LLADDR);
            // Group addresses are in the same table.
            found = found.or(addresses
                .filter_map(|(_, value)| <[u8; 6]>::try_from(value).ok())
                .find(|address| address[0] & 1 == 0));
        }
    })?;
    Ok(found)
}

/// Whether IPsec states or policies are bound to an interface or handed to its card.
pub(crate) fn has_ipsec(index: u32) -> io::Result<bool> {
    const XFRM_MSG_GETSA: u16 = 0x12;
    const XFRM_MSG_GETPOLICY: u16 = 0x15;
    const XFRMA_OFFLOAD_DEV: u16 = 28;
    /// Sizes of struct xfrm_usersa_info and xfrm_userpolicy_info; both begin with struct xfrm_selector, which has its interface here.
    const TABLES: [(u16, usize); 2] = [(XFRM_MSG_GETSA, 224), (XFRM_MSG_GETPOLICY, 168)];
    const SELECTED: usize = 48;
    if !is_served(libc::NETLINK_XFRM) {
        return Ok(false);
    }
    let mut found = false;
    for (kind, len) in TABLES {
        dump(libc::NETLINK_XFRM, kind, &[], |entry| {
            found |= u32_at(entry, SELECTED) == Some(index)
                || behind(entry, len).any(|(kind, value)| kind == XFRMA_OFFLOAD_DEV && u32_at(value, 0) == Some(index));
        })?;
    }
    Ok(found)
}

/// Whether the kernel has this protocol of netlink already: to ask for one loads its module. `true` when in doubt.
fn is_served(protocol: libc::c_int) -> bool {
    let Ok(text) = std::fs::read_to_string("/proc/thread-self/net/netlink") else { return true };
    let wanted = protocol.to_string();
    text.lines().skip(1).any(|line| line.split_whitespace().nth(1) == Some(&wanted))
}

/// Whether a PPPoE session runs over an interface.
pub(crate) fn has_pppoe(name: &str) -> io::Result<bool> {
    match std::fs::read_to_string("/proc/thread-self/net/pppoe") {
        Ok(text) => Ok(text.lines().skip(1).any(|line| line.split_whitespace().nth(2) == Some(name))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_address_and_nothing_else_here_fails() {
        let lo = crate::sys::netlink::link_by_name("lo").unwrap().index;
        assert!(addresses(lo).unwrap().iter().all(IpAddr::is_loopback));
        assert!(!has_ingress_filters(lo).unwrap());
        assert!(!is_mirrored_to(lo).unwrap());
        assert_eq!(second_mac(lo).unwrap(), None);
        assert!(!has_pppoe("lo").unwrap());
        assert!(!has_route(u32::MAX >> 1).unwrap_or(false));
        assert_eq!(addresses(u32::MAX >> 1).unwrap_or_default(), Vec::<IpAddr>::new());
    }

    #[test]
    fn next_hops_end_where_the_bytes_do() {
        let hop = |index: u32| [&[8u8, 0, 0, 0][..], &index.to_ne_bytes()].concat();
        assert_eq!(next_hops(&[hop(3), hop(7)].concat()).collect::<Vec<_>>(), [3, 7]);
        assert_eq!(next_hops(&[hop(3), vec![0; 5]].concat()).collect::<Vec<_>>(), [3]);
        assert_eq!(next_hops(&[0; 8]).collect::<Vec<_>>(), [0]);
    }
}

//! What the kernel takes for this host: its table `local` (RTM_GETROUTE of rtnetlink(7)).
//!
//! That is more than the addresses of interfaces: directed broadcasts, networks that a route of type `local` gives to the host, and
//! anycast. Works in the network namespace of the calling thread.

use std::io;
use std::net::IpAddr;

use super::uses::{attribute, behind, dump, ip};

/// Destinations of the table `local` that the host's stack takes, each an address and the length of its prefix.
///
/// # Errors
/// The kernel does not tell them.
pub fn destinations() -> io::Result<Vec<(IpAddr, u8)>> {
    /// struct rtmsg: family, lengths of destination and source, tos, table, protocol, scope, type, flags.
    const RTMSG: usize = 12;
    const LENGTH: usize = 1;
    const TABLE: usize = 4;
    const TYPE: usize = 7;
    const RTA_DST: u16 = 1;
    const RTA_TABLE: u16 = 15;
    let local = libc::RT_TABLE_LOCAL;
    let mut found = Vec::new();
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        let mut request = vec![0u8; RTMSG];
        (request[0], request[TABLE]) = (family, local);
        request.extend(attribute(RTA_TABLE, &u32::from(local).to_ne_bytes()));
        let told = dump(libc::NETLINK_ROUTE, libc::RTM_GETROUTE, &request, |route| {
            let is_taken =
                matches!(route.get(TYPE), Some(&(libc::RTN_LOCAL | libc::RTN_BROADCAST | libc::RTN_ANYCAST)));
            let to = behind(route, RTMSG).find(|&(kind, _)| kind == RTA_DST).and_then(|(_, value)| ip(value));
            if route.get(TABLE) == Some(&local) && is_taken {
                found.extend(to.zip(route.get(LENGTH).copied()));
            }
        });
        // A network namespace that never had an address has no such table.
        told.or_else(|error| if error.raw_os_error() == Some(libc::ENOENT) { Ok(()) } else { Err(error) })?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_of_loopback_is_local_and_what_is_remote_is_not() {
        let found = destinations().unwrap();
        assert!(found.contains(&("127.0.0.0".parse().unwrap(), 8)), "{found:?}");
        assert!(!found.iter().any(|(to, _)| *to == "192.0.2.77".parse::<IpAddr>().unwrap()), "{found:?}");
    }
}

//! Which addresses are this host's: what a ring takes beside the host's stack must be for one of them, as the stack would ask.
//!
//! Owns the list as of now. Engines look at a copy of their own, which they renew without waiting.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use ringtap::local;

/// From the first to the last address each; in order, and none begins within the one before.
type Addresses = Arc<[(IpAddr, IpAddr)]>;

/// Addresses of this host, what its routes make its own, and those at which all hosts of a network or a group hear, this one too.
#[derive(Debug)]
pub(crate) struct OwnAddresses {
    now: Mutex<Addresses>,
    /// Grows with every change.
    version: AtomicU64,
}

impl OwnAddresses {
    /// As of now.
    ///
    /// # Errors
    /// The kernel does not tell its addresses.
    pub(crate) fn read() -> io::Result<Self> {
        Ok(Self { now: Mutex::new(addresses()?), version: AtomicU64::new(0) })
    }

    /// As if these were the host's.
    #[cfg(test)]
    pub(super) fn set(&self, addresses: &[IpAddr]) {
        *self.now.lock().unwrap() = addresses.iter().map(|&of| (of, of)).collect();
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Looks again; what can't be asked now stays as it was.
    pub(crate) fn renew(&self) {
        let Ok(found) = addresses() else { return };
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if *now != found {
            *now = found;
            self.version.fetch_add(1, Ordering::Release);
        }
    }
}

/// An engine's copy.
#[derive(Debug)]
pub(super) struct View {
    of: Arc<OwnAddresses>,
    copy: Addresses,
    version: u64,
}

impl View {
    pub(super) fn new(of: Arc<OwnAddresses>) -> Self {
        let copy = Arc::clone(&of.now.lock().unwrap_or_else(PoisonError::into_inner));
        Self { of, copy, version: 0 }
    }

    /// Whether a datagram to this address is for this host.
    pub(super) fn has(&self, to: IpAddr) -> bool {
        let begun = self.copy.partition_point(|&(first, _)| first <= to);
        self.copy[..begun].last().is_some_and(|&(_, last)| to <= last)
    }

    /// Takes the new list, if there is one, unless that is being written at this moment.
    pub(super) fn look(&mut self) {
        let version = self.of.version.load(Ordering::Acquire);
        if version != self.version
            && let Ok(now) = self.of.now.try_lock()
        {
            self.copy = Arc::clone(&now);
            self.version = version;
        }
    }
}

fn addresses() -> io::Result<Addresses> {
    let ip = |address: SockaddrStorage| match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(IpAddr::V4(v4.ip())),
        (_, Some(v6)) => Some(IpAddr::V6(v6.ip())),
        _ => None,
    };
    let mut found = vec![network(Ipv4Addr::BROADCAST.into(), 32)];
    // Which groups the host hears is the card's to ask.
    found.extend([network(Ipv4Addr::new(224, 0, 0, 0).into(), 4), network(Ipv6Addr::from(0xff << 120).into(), 8)]);
    found.extend(local::destinations()?.into_iter().map(|(to, length)| network(to, length)));
    // Interfaces that route alone (VRF) have tables of their own.
    for interface in getifaddrs().map_err(io::Error::from)? {
        let of = |address: Option<SockaddrStorage>| address.and_then(ip);
        let address = of(interface.address);
        let mut all: Vec<IpAddr> = address.into_iter().chain(of(interface.broadcast)).collect();
        if let (Some(IpAddr::V4(address)), Some(IpAddr::V4(mask))) = (address, of(interface.netmask)) {
            all.extend(directed_broadcast(address, u32::from(mask).leading_ones()).map(IpAddr::V4));
        }
        found.extend(all.into_iter().map(|ip| network(ip, if ip.is_ipv6() { 128 } else { 32 })));
    }
    found.sort_unstable();
    let mut merged: Vec<(IpAddr, IpAddr)> = Vec::new();
    for (first, last) in found {
        match merged.last_mut().filter(|before| first <= before.1) {
            Some(before) => before.1 = before.1.max(last),
            None => merged.push((first, last)),
        }
    }
    Ok(merged.into())
}

/// From the first to the last address of a prefix.
fn network(of: IpAddr, length: u8) -> (IpAddr, IpAddr) {
    match of {
        IpAddr::V4(of) => {
            let host = u32::MAX.checked_shr(length.into()).unwrap_or(0);
            let of = u32::from(of);
            (Ipv4Addr::from(of & !host).into(), Ipv4Addr::from(of | host).into())
        }
        IpAddr::V6(of) => {
            let host = u128::MAX.checked_shr(length.into()).unwrap_or(0);
            let of = u128::from(of);
            (Ipv6Addr::from(of & !host).into(), Ipv6Addr::from(of | host).into())
        }
    }
}

/// The address at which all hosts of an address's network hear, whether or not it was given with it; a network of two has none.
fn directed_broadcast(address: Ipv4Addr, length: u32) -> Option<Ipv4Addr> {
    (length < 31).then(|| Ipv4Addr::from(u32::from(address) | u32::MAX >> length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_ours_and_a_documentation_address_is_not_until_the_list_changes() {
        let own = Arc::new(OwnAddresses::read().unwrap());
        let mut view = View::new(Arc::clone(&own));
        let (ours, other) = ("127.0.0.1".parse().unwrap(), "192.0.2.77".parse().unwrap());
        assert!(view.has(ours) && view.has(Ipv4Addr::BROADCAST.into()) && !view.has(other));
        own.set(&[other]);
        view.look();
        assert!(view.has(other) && !view.has(ours));
        own.renew();
        view.look();
        assert!(view.has(ours) && !view.has(other), "what was wrong is put right");
    }

    #[test]
    fn networks_begin_and_end_where_their_prefix_says_and_groups_are_heard() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(network(ip("198.51.100.7"), 24), (ip("198.51.100.0"), ip("198.51.100.255")));
        assert_eq!(network(ip("198.51.100.7"), 32), (ip("198.51.100.7"), ip("198.51.100.7")));
        assert_eq!(network(ip("10.1.2.3"), 0), (ip("0.0.0.0"), ip("255.255.255.255")));
        assert_eq!(network(ip("2001:db8::1"), 128), (ip("2001:db8::1"), ip("2001:db8::1")));
        let directed = |text: &str, length| directed_broadcast(text.parse().unwrap(), length).map(|it| it.to_string());
        assert_eq!(directed("192.0.2.9", 29).as_deref(), Some("192.0.2.15"));
        assert_eq!((directed("192.0.2.9", 31), directed("192.0.2.9", 32)), (None, None));
        let view = View::new(Arc::new(OwnAddresses::read().unwrap()));
        for to in ["127.7.7.7", "127.255.255.255", "224.0.0.1", "239.255.255.255", "255.255.255.255", "ff02::1"] {
            assert!(view.has(ip(to)), "{to}");
        }
        for to in ["223.255.255.255", "240.0.0.1", "255.255.255.254", "fe00::", "::"] {
            assert!(!view.has(ip(to)), "{to}");
        }
    }
}

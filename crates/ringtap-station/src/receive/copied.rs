//! Which datagrams the plain sockets leave to rings that only copy packets, and so have them too: what came whole by an interface
//! whose packets such a ring has.
//!
//! Owns which interfaces these are as of now. Devices come to their end while others go on, and devices above them are made.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringtap::netlink::{self, Link};
use ringtap::{Error, Result};

/// The interfaces by which copies come.
#[derive(Debug, Default)]
pub(crate) struct Copied(Mutex<State>);

/// As of one moment.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// By index.
    interfaces: Vec<u32>,
    ever: bool,
    /// What was said of a port.
    port: Option<String>,
}

impl Copied {
    /// Takes what rings on `copying` (indices) have in place of what was known; a line where a device has become one of several ports
    /// of another.
    ///
    /// # Errors
    /// The kernel does not tell its interfaces: what was known stays.
    pub(crate) fn set(&self, copying: &[u32]) -> io::Result<Option<String>> {
        let links = if copying.is_empty() { Vec::new() } else { netlink::links()? };
        let mut state = self.now();
        state.interfaces = ways(&links, copying);
        state.ever |= !state.interfaces.is_empty();
        let port = some_of_several(&links, copying).map(|(port, of)| {
            format!("{port} is one of several ports of {of} now: what comes by the others is not taken; start again with -i {of}")
        });
        let is_news = state.port != port;
        state.port.clone_from(&port);
        Ok(port.filter(|_| is_news))
    }

    /// As of now, and until it is dropped.
    pub(crate) fn now(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there were copies at any time: of what the kernel drops at the sockets some may be such.
    pub(crate) fn were_any(&self) -> bool {
        self.now().ever
    }
}

impl State {
    /// Whether rings have what comes by this interface.
    pub(crate) fn has(&self, interface: u32) -> bool {
        self.interfaces.contains(&interface)
    }
}

/// Refuses rings on some of several ports: a datagram comes to the socket from the device above them, and does not tell by which of
/// them it came.
///
/// # Errors
/// One of `copying` (indices) is such a port.
pub(crate) fn refuse_some_of_several_ports(copying: &[u32]) -> Result<()> {
    let links = netlink::links().map_err(|error| Error::os("look at", "the interfaces", &error))?;
    match some_of_several(&links, copying) {
        Some((port, of)) => {
            let cause = format!("it is one of several ports of {of}, from which the host takes what is for it");
            Err(Error::usage("copy packets of", port, cause).way_out(format!("give -i {of}, or each of its ports")))
        }
        None => Ok(()),
    }
}

/// A port among `copying` of a device that has others as well, and that device.
fn some_of_several<'l>(links: &'l [Link], copying: &[u32]) -> Option<(&'l str, &'l str)> {
    links.iter().filter(|link| copying.contains(&link.index)).find_map(|port| {
        // What comes by one that routes alone (VRF) is told to have come by the port itself.
        let is_of = |link: &&Link| Some(link.index) == port.master && link.kind.as_deref() != Some("vrf");
        let of = links.iter().filter(is_of).find(|link| !copying.contains(&link.index))?;
        let has_others = links.iter().any(|link| link.master == port.master && !copying.contains(&link.index));
        has_others.then_some((port.name.as_str(), of.name.as_str()))
    })
}

/// Interfaces from which a socket gets what rings on `copying` have.
fn ways(links: &[Link], copying: &[u32]) -> Vec<u32> {
    // What comes out of a tunnel is in no ring as such, nor is what had two tags: the kernel's filter sees one beside the packet.
    let is_kind = |link: &Link, kinds: &[&str]| link.kind.as_deref().is_some_and(|kind| kinds.contains(&kind));
    let reached = netlink::reached(copying.iter().map(|&index| (index, false)), |&(below, tagged)| {
        let master = links.iter().find(|link| link.index == below).and_then(|link| link.master);
        links.iter().filter_map(move |above| {
            let is_vlan = is_kind(above, &["vlan"]);
            let stands_on =
                above.lower == Some(below) && (is_kind(above, &["macvlan", "ipvlan"]) || is_vlan && !tagged);
            (stands_on || master == Some(above.index)).then_some((above.index, tagged || is_vlan))
        })
    });
    let mut ways = Vec::new();
    for (index, _) in reached {
        if !ways.contains(&index) {
            ways.push(index);
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, kind: &str, lower: u32, master: u32) -> Link {
        let given = |index: u32| (index > 0).then_some(index);
        let kind = Some(kind.to_owned());
        Link { index, name: format!("if{index}"), kind, lower: given(lower), master: given(master), ..Link::default() }
    }

    #[test]
    fn what_stands_on_a_copying_device_gets_the_same_datagrams() {
        let links = [
            link(1, "loopback", 0, 0),
            link(2, "veth", 0, 5),
            link(3, "veth", 0, 0),
            link(4, "vlan", 5, 0),
            link(5, "bridge", 0, 0),
            link(6, "vxlan", 2, 0),
            link(7, "vlan", 4, 0),
            link(8, "macvlan", 4, 0),
            link(9, "vlan", 3, 0),
        ];
        assert_eq!(ways(&links, &[2]), [2, 5, 4, 8], "not the tunnel, nor two tags, nor what stands on another");
        assert_eq!(ways(&links, &[3]), [3, 9]);
        assert_eq!(ways(&links, &[]), [0; 0]);
        assert_eq!(ways(&links, &[77]), [77], "one that is gone");
    }

    #[test]
    fn one_of_several_ports_can_not_be_told_from_the_others() {
        let mut links = vec![link(2, "veth", 0, 5), link(5, "bond", 0, 0), link(3, "veth", 0, 0)];
        assert_eq!(some_of_several(&links, &[2]), None, "the only one");
        links[2].master = Some(5);
        assert_eq!(some_of_several(&links, &[2]), Some(("if2", "if5")));
        assert_eq!(some_of_several(&links, &[2, 3]), None);
        assert_eq!(some_of_several(&links, &[5]), None);
        assert_eq!(some_of_several(&links, &[2, 5]), None, "both have it: taken twice, and asked for");
        links[1].kind = Some("vrf".to_owned());
        assert_eq!(some_of_several(&links, &[2]), None, "a VRF hides no port");
    }
}

//! Whether what is sent on one interface comes to another again, or leaves by it, as far as this host's devices tell.
//!
//! Owns the walk over devices that stand on one another. A loop that leaves this host can't be seen from here.

use ringtap::interface::Interface;
use ringtap::netlink::{self, Link, reached};
use ringtap::{Error, Result};

/// # Errors
/// What is sent on `output`, named `name`, would come back by `input`, as far as this host's devices tell. `role` names the input: empty,
/// or with a blank behind it.
pub(crate) fn refuse(name: &str, output: &Interface, input: &Interface, role: &str) -> Result<()> {
    let refuse = |cause: String, way_out: &str| Err(Error::usage("send to", name, cause).way_out(way_out));
    if output.is_loopback() {
        return refuse("it leads back into this host".to_owned(), "name an interface with something at its other end");
    }
    if (output.index, &output.name) == (input.index, &input.name) {
        return refuse(format!("it is {role}{} itself: a loop", input.name), "name another interface");
    }
    if input.is_foreign() {
        return Ok(());
    }
    if netlink::veth_peer_here(input.index).ok().flatten() == Some(output.index) {
        let cause = format!("it is the other end of {role}{}: what is sent there comes back, a loop", input.name);
        return refuse(cause, "name the end of another pair");
    }
    let links = netlink::links().map_err(|error| Error::os("look at", "the interfaces", &error))?;
    if let Some(aggregate) = aggregate_of_both(&links, output.index, input.index) {
        let cause = format!(
            "it and {role}{} are ports of {aggregate}, which sends frames on by itself: they would leave twice, or come back",
            input.name
        );
        return refuse(cause, "name an interface outside of it");
    }
    let peer = |index| netlink::veth_peer_here(index).ok().flatten();
    if let Some(bridge) = bridge_between(&links, peer, input.index, output.index) {
        let cause = format!(
            "{bridge} already carries frames of {role}{} there, over devices that stand on them: they would leave twice, or come back",
            input.name
        );
        return refuse(cause, "name an interface outside of it, or take one of these devices out of it");
    }
    if reaches(&links, peer, output.index, input.index) {
        let cause = format!(
            "it and {role}{} stand on one another: what is sent there leaves by that or comes back",
            input.name
        );
        return refuse(cause, "name an interface that neither stands on that nor leads to it");
    }
    Ok(())
}

/// # Errors
/// Both lead to one device, which is one wire: two VLANs of one card, or VLANs of two ports of one bond.
pub(crate) fn refuse_one_wire(first: &Interface, second: &Interface) -> Result<()> {
    if first.is_foreign() || second.is_foreign() {
        return Ok(());
    }
    let links = netlink::links().map_err(|error| Error::os("look at", "the interfaces", &error))?;
    let Some(common) = common_wire(&links, first.index, second.index) else { return Ok(()) };
    let cause = format!("it and {} both lead to {common}: that is one wire, and two are needed", first.name);
    Err(Error::usage("forward to", &second.name, cause).way_out("name an interface on another device"))
}

/// A device that frames leave by (`false`), or come in by (`true`).
type Place = (u32, bool);

/// Whether frames sent on `output` reach `input` (indices). `peer` tells the other end of a veth in this namespace.
fn reaches(links: &[Link], peer: impl Fn(u32) -> Option<u32>, output: u32, input: u32) -> bool {
    reached([(output, false)], |&place| next(links, &peer, place)).iter().any(|(device, _)| *device == input)
        || stands_on(links, input, output)
        || stands_on(links, output, input)
        || are_siblings(links, output, input)
}

fn find(links: &[Link], index: u32) -> Option<&Link> {
    links.iter().find(|link| link.index == index)
}

/// Where frames go next.
fn next(links: &[Link], peer: &impl Fn(u32) -> Option<u32>, (device, comes_in): Place) -> Vec<Place> {
    let ports = |of: u32| links.iter().filter(move |link| link.master == Some(of)).map(|link| link.index);
    if !comes_in {
        let lower = find(links, device).and_then(|link| link.lower);
        let out = lower.into_iter().chain(ports(device)).map(|device| (device, false));
        return out.chain(peer(device).map(|peer| (peer, true))).collect();
    }
    let above = links.iter().filter(|link| link.lower == Some(device)).map(|link| (link.index, true));
    let mut places: Vec<Place> = above.collect();
    if let Some(master) = find(links, device).and_then(|link| link.master) {
        places.push((master, true));
        if find(links, master).is_some_and(bridges) {
            places.extend(ports(master).filter(|port| *port != device).map(|port| (port, false)));
        }
    }
    places
}

/// Whether it carries frames from each of its ports to the others. Of Open vSwitch, whose bridges share one master, that can't be told.
fn bridges(link: &Link) -> bool {
    link.kind.as_deref() == Some("bridge")
}

/// Name of the bridge by which this host itself sends what comes in by `input` out by `output`, whatever stands between them and it.
fn bridge_between(links: &[Link], peer: impl Fn(u32) -> Option<u32>, input: u32, output: u32) -> Option<&str> {
    let leads = |from: Place| reached([from], |&place| next(links, &peer, place));
    let from_input = leads((input, true));
    if !from_input.contains(&(output, false)) {
        return None;
    }
    // What a port of it sends out is where the output is reached from.
    let carries = |bridge: &&Link| {
        let ports = links.iter().filter(|port| port.master == Some(bridge.index));
        bridges(bridge)
            && from_input.contains(&(bridge.index, true))
            && ports.into_iter().any(|port| leads((port.index, false)).contains(&(output, false)))
    };
    links.iter().find(carries).map(|link| link.name.as_str())
}

/// Name of a device to which what is sent on either of both goes.
fn common_wire(links: &[Link], a: u32, b: u32) -> Option<&str> {
    let below = |device: u32| {
        let aggregate = |link: &Link| {
            let master = link.master.filter(|master| {
                let kind = find(links, *master).and_then(|master| master.kind.as_deref());
                matches!(kind, Some("bond" | "team"))
            });
            // Others that name a device below (ports of a switch, tunnels) are wires of their own.
            let shares = matches!(link.kind.as_deref(), Some("vlan" | "macvlan" | "macvtap" | "ipvlan"));
            link.lower.filter(|_| shares).into_iter().chain(master)
        };
        reached([device], |&device: &u32| find(links, device).into_iter().flat_map(aggregate))
    };
    let of_b = below(b);
    let common = below(a).into_iter().find(|device| of_b.contains(device))?;
    find(links, common).map(|link| link.name.as_str())
}

/// Name of the device of which both are ports, where it carries frames between its ports, or is one link for who is at their other ends.
fn aggregate_of_both(links: &[Link], a: u32, b: u32) -> Option<&str> {
    let master =
        find(links, a)?.master.filter(|master| find(links, b).is_some_and(|link| link.master == Some(*master)))?;
    let carries = |link: &&Link| matches!(link.kind.as_deref(), Some("bridge" | "bond" | "team" | "openvswitch"));
    find(links, master).filter(carries).map(|link| link.name.as_str())
}

/// Whether a device stands on another, or is a port of it, over however many others.
fn stands_on(links: &[Link], device: u32, on: u32) -> bool {
    let below =
        |&device: &u32| find(links, device).into_iter().flat_map(|link| link.lower.into_iter().chain(link.master));
    reached([device], below).contains(&on)
}

/// Two macvlans on one device, which hands frames from one to the other.
fn are_siblings(links: &[Link], a: u32, b: u32) -> bool {
    let lower = |index| {
        let is_macvlan = |link: &&Link| matches!(link.kind.as_deref(), Some("macvlan" | "macvtap"));
        find(links, index).filter(is_macvlan).and_then(|link| link.lower)
    };
    lower(a).is_some_and(|lower_of_a| lower(b) == Some(lower_of_a))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, kind: &str, lower: u32, master: u32) -> Link {
        let given = |index: u32| (index > 0).then_some(index);
        Link { index, kind: Some(kind.to_owned()), lower: given(lower), master: given(master), ..Link::default() }
    }

    #[test]
    fn two_ports_of_one_aggregate_are_no_two_wires() {
        for (kind, is_refused) in
            [("bridge", true), ("bond", true), ("team", true), ("openvswitch", true), ("vrf", false)]
        {
            let aggregate = Link { name: "all0".to_owned(), ..link(10, kind, 0, 0) };
            let links = [aggregate, link(11, "veth", 0, 10), link(12, "", 0, 10), link(13, "", 0, 0)];
            let of_both = |a, b| aggregate_of_both(&links, a, b);
            assert_eq!(of_both(11, 12), is_refused.then_some("all0"), "{kind}");
            assert_eq!((of_both(11, 13), of_both(13, 11), of_both(10, 11), of_both(13, 99)), (None, None, None, None));
        }
    }

    /// Cards 2 and 3 with a VLAN each, both in bridge 10; card 4 in bond 20, which is in bridge 10; 5 and 6 in bond 30 with VLANs on
    /// them; card 7 with two VLANs; card 8 in a bridge of its own.
    fn stacked() -> Vec<Link> {
        let named = |name: &str, link: Link| Link { name: name.to_owned(), ..link };
        vec![
            named("eth2", link(2, "", 0, 0)),
            named("eth3", link(3, "", 0, 0)),
            named("eth2.5", link(12, "vlan", 2, 10)),
            named("eth3.5", link(13, "vlan", 3, 10)),
            named("br0", link(10, "bridge", 0, 0)),
            named("eth4", link(4, "", 0, 20)),
            named("bond0", link(20, "bond", 0, 10)),
            named("eth5", link(5, "", 0, 30)),
            named("eth6", link(6, "", 0, 30)),
            named("bond1", link(30, "bond", 0, 0)),
            named("eth5.5", link(15, "vlan", 5, 0)),
            named("eth6.5", link(16, "vlan", 6, 0)),
            named("eth7", link(7, "", 0, 0)),
            named("eth7.5", link(17, "vlan", 7, 0)),
            named("eth7.6", link(18, "vlan", 7, 0)),
            named("eth8", link(8, "", 0, 40)),
            named("br1", link(40, "bridge", 0, 0)),
            named("lan1", link(21, "dsa", 7, 0)),
            named("lan2", link(22, "dsa", 7, 0)),
            named("vxlan1", link(23, "vxlan", 7, 0)),
            named("vxlan2", link(24, "vxlan", 7, 0)),
        ]
    }

    #[test]
    fn what_a_bridge_carries_over_vlans_and_bonds_is_seen() {
        let links = stacked();
        for (a, b, expected) in [
            (2, 3, Some("br0")),
            (2, 4, Some("br0")),
            (12, 4, Some("br0")),
            (2, 13, Some("br0")),
            (20, 3, Some("br0")),
            (2, 8, None),
            (5, 2, None),
            (17, 18, None),
            (7, 8, None),
        ] {
            assert_eq!(bridge_between(&links, |_| None, a, b), expected, "{a} to {b}");
            assert_eq!(bridge_between(&links, |_| None, b, a), expected, "{b} to {a}");
        }
        // A pair between two bridges is a way, too.
        let mut links = links;
        links.push(link(50, "veth", 0, 10));
        links.push(link(51, "veth", 0, 40));
        let peer = |index| if index == 50 { Some(51) } else { (index == 51).then_some(50) };
        assert!(bridge_between(&links, peer, 2, 8).is_some() && bridge_between(&links, peer, 8, 4).is_some());
    }

    #[test]
    fn two_ways_to_one_device_are_one_wire() {
        let links = stacked();
        for (a, b, expected) in [
            (17, 18, Some("eth7")),
            (15, 16, Some("bond1")),
            (15, 30, Some("bond1")),
            (7, 17, Some("eth7")),
            (12, 13, None),
            (2, 3, None),
            (17, 8, None),
            (21, 22, None),
            (23, 24, None),
        ] {
            assert_eq!(common_wire(&links, a, b), expected, "{a} and {b}");
            assert_eq!(common_wire(&links, b, a), expected, "{b} and {a}");
        }
    }

    #[test]
    fn loops_inside_this_host_are_seen_and_nothing_else() {
        let links = [
            // A card with a VLAN and one on that, two macvlans, and a card beside it.
            link(2, "", 0, 0),
            link(3, "vlan", 2, 0),
            link(4, "vlan", 3, 0),
            link(5, "macvlan", 2, 0),
            link(6, "macvlan", 2, 0),
            link(7, "", 0, 0),
            // A bridge with the ends 12 and 14 of two pairs, and a VLAN on it.
            link(10, "bridge", 0, 0),
            link(11, "veth", 0, 0),
            link(12, "veth", 0, 10),
            link(13, "veth", 0, 0),
            link(14, "veth", 0, 10),
            link(15, "vlan", 10, 0),
            // A pair whose end 22 is a port of a bond with a VLAN; a VLAN on the other end.
            link(20, "bond", 0, 0),
            link(21, "veth", 0, 0),
            link(22, "veth", 0, 20),
            link(23, "vlan", 20, 0),
            link(24, "vlan", 21, 0),
        ];
        let peer = |index| match index {
            11..=14 => Some(if index % 2 == 1 { index + 1 } else { index - 1 }),
            21 => Some(22),
            22 => Some(21),
            _ => None,
        };
        let reaches = |output, input| reaches(&links, peer, output, input);
        for (output, input) in [
            (2, 2),
            (2, 4),
            (4, 2),
            (5, 6),
            (11, 12),
            (11, 10),
            (11, 15),
            // Through the bridge, to the other pair, and by a port.
            (11, 13),
            (15, 14),
            (10, 13),
            (12, 10),
            (21, 20),
            (21, 23),
            (24, 23),
            (23, 21),
        ] {
            assert!(reaches(output, input), "{output} to {input}");
        }
        for (output, input) in [(2, 7), (7, 2), (3, 5), (7, 11), (11, 7), (11, 21), (21, 13), (3, 23)] {
            assert!(!reaches(output, input), "{output} to {input}");
        }
    }
}

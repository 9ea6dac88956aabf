//! `ringtap generate --traps`: a storm's datagrams in frames, each from its node's address.
//!
//! Owns the options' part of it; what is said when is `ringtap_trap::storm`'s, sending the testbed crate's.

use std::net::{IpAddr, SocketAddr};

use ringtap::interface::Interface;
use ringtap::{Error, Result};
use ringtap_testbed::Generator;
use ringtap_testbed::generate::Prepared;
use ringtap_trap::storm::{Script, Storm};
use ringtap_wire::UdpFrame;

use super::{Args, target};

/// The port of SNMP notifications.
const TRAP_PORT: u16 = 162;

/// Reads what is to be sent.
pub(super) fn read(args: &Args, traps: &str) -> Result<Storm> {
    if args.from.is_some() || args.to.is_some_and(|to| to.is_ipv6()) {
        return Err(Error::usage("use", "--traps", "its traps come from many IPv4 addresses")
            .way_out("leave --from out, and give an IPv4 address with --to"));
    }
    Ok(Storm {
        script: Script::read(traps)?,
        nodes: args.nodes,
        count: args.count.unwrap_or(0),
        community: args.community.clone(),
    })
}

/// Starts sending.
pub(super) fn start(
    args: &Args,
    interface: &Interface,
    private: bool,
    storm: Storm,
    priority: Option<u8>,
) -> Result<Generator> {
    let spec = target::frame(args, interface, None, private)?;
    if spec.destination.is_ipv6() {
        return Err(Error::usage("use", "--traps", "the destination is an IPv6 address")
            .way_out("give an IPv4 address with --to"));
    }
    let to = SocketAddr::new(spec.destination, args.port.unwrap_or(TRAP_PORT));
    let (count, from_port) = (storm.count, spec.source_port);
    let make = move |number: u64, room: &mut [u8]| {
        let (node, datagram) = storm.datagram(number);
        let frame = UdpFrame {
            source_mac: spec.source_mac,
            destination_mac: spec.destination_mac,
            vlan: spec.vlan,
            source: SocketAddr::new(IpAddr::V4(node), from_port),
            destination: to,
            hop_limit: 64,
            traffic_class: 0,
            identification: number as u16,
        };
        frame.write(room, &datagram).unwrap_or(0)
    };
    Prepared {
        interface: args.interface.clone(),
        pps: args.rate,
        count,
        make: Box::new(make),
        core: args.cpu,
        priority,
        anywhere: args.yes_really,
    }
    .start()
}

//! A played storm as a capture file of traps, for the generator to replay: each from its node's address, at its time.
//!
//! Owns which notification an event is. Versions are [`Form`]'s.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ringtap_snmp::encode::{Item, Trap};
use ringtap_snmp::oid;
use ringtap_wire::UdpFrame;

use super::{Event, Played};
use crate::generate::FrameSpec;
use crate::storm::form::Form;

/// Longest frame: the notifications here have some 200 bytes.
const ROOM: usize = 1514;
/// Magic number of pcap with nanoseconds, and the link type of Ethernet.
const PCAP_NS: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;

impl Played {
    /// Writes what arrives as pcap, addressed as `spec` says, to `port`; gives how many.
    ///
    /// # Errors
    /// `out` takes no more.
    pub fn write_pcap(&self, spec: FrameSpec, port: u16, form: &Form, out: &mut impl Write) -> io::Result<u64> {
        for word in [PCAP_NS, 0x0004_0002, 0, 0, ROOM as u32, ETHERNET] {
            out.write_all(&word.to_ne_bytes())?;
        }
        let first_ns = self.events.first().map_or(0, |event| event.at_ns);
        let mut written = 0;
        let mut nodes: Vec<IpAddr> = Vec::new();
        for (number, event) in self.events.iter().enumerate() {
            let Ok(source) = event.resource.parse::<IpAddr>() else { continue };
            let at_ns = event.at_ns - first_ns;
            let trap = trap(event, (at_ns / 10_000_000) as u32);
            // Each sender is an engine of its own.
            let node = nodes.iter().position(|known| *known == source).unwrap_or_else(|| {
                nodes.push(source);
                nodes.len() - 1
            });
            let datagram = form.datagram(trap, node as u32, source, number as u64, (at_ns / 1_000_000_000) as u32);
            let frame = UdpFrame {
                source_mac: spec.source_mac,
                destination_mac: spec.destination_mac,
                vlan: spec.vlan,
                source: SocketAddr::new(source, spec.source_port),
                destination: SocketAddr::new(spec.destination, port),
                hop_limit: 64,
                traffic_class: 0,
                identification: number as u16,
            };
            let mut room = [0; ROOM];
            let Ok(len) = frame.write(&mut room, &datagram) else { continue };
            for word in [(at_ns / 1_000_000_000) as u32, (at_ns % 1_000_000_000) as u32, len as u32, len as u32] {
                out.write_all(&word.to_ne_bytes())?;
            }
            out.write_all(&room[..len])?;
            written += 1;
        }
        out.flush()?;
        Ok(written)
    }
}

/// The notification that an event is. Those that clear are others, or the same with another value.
fn trap(event: &Event, uptime: u32) -> Trap {
    let object = event.object.as_str();
    let up = i64::from(event.raises == Some(false));
    let named = |column: &str| oid::parse(&format!("{column}.{object}")).unwrap_or_default();
    let new = |number: &str| Trap::new(&oid::parse(number).unwrap_or_default(), uptime);
    let number = |text: &str| text.parse().unwrap_or(0);
    let address = |text: &str| text.parse().unwrap_or(Ipv4Addr::UNSPECIFIED);
    match event.condition {
        // linkDown is snmpTraps.3, linkUp snmpTraps.4; ifOperStatus up(1), down(2).
        "linkDown" => new(&format!("1.3.6.1.6.3.1.1.5.{}", 3 + up))
            .with(&named("1.3.6.1.2.1.2.2.1.1"), Item::Integer(number(object)))
            .with(&named("1.3.6.1.2.1.2.2.1.7"), Item::Integer(1))
            .with(&named("1.3.6.1.2.1.2.2.1.8"), Item::Integer(2 - up)),
        // bgpEstablishedNotification is 1, bgpBackwardTransNotification 2; bgpPeerState established(6), idle(1).
        "bgpBackwardTransition" => new(&format!("1.3.6.1.2.1.15.0.{}", 2 - up))
            .with(&named("1.3.6.1.2.1.15.3.1.7"), Item::Address(address(object)))
            .with(&named("1.3.6.1.2.1.15.3.1.2"), Item::Integer(1 + 5 * up)),
        // ospfNbrState down(1), full(8).
        "ospfNbrStateChange" => {
            let neighbour = object.rsplit_once('.').map_or(object, |(address, _)| address);
            new("1.3.6.1.2.1.14.16.2.2")
                .with(&named("1.3.6.1.2.1.14.10.1.1"), Item::Address(address(neighbour)))
                .with(&named("1.3.6.1.2.1.14.10.1.6"), Item::Integer(1 + 7 * up))
        }
        // entStateOperDisabled is 2, entStateOperEnabled 1 (RFC 4268); entStateAdmin unlocked(4).
        "entStateOperDisabled" => {
            new(&format!("1.3.6.1.2.1.131.0.{}", 2 - up)).with(&named("1.3.6.1.2.1.131.1.1.1.2"), Item::Integer(4))
        }
        "coldStart" => new("1.3.6.1.6.3.1.1.5.1"),
        // risingAlarm of RMON (RFC 2819); alarmIndex.
        "risingAlarm" => {
            new("1.3.6.1.2.1.16.0.1").with(&named("1.3.6.1.2.1.16.3.1.1.1"), Item::Integer(number(object)))
        }
        _ => new("1.3.6.1.6.3.1.1.5.5"),
    }
}

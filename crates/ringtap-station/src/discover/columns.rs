//! Which columns an agent is asked for, and where their values go.
//!
//! Owns the object identifiers. What the values mean is `ringtap_rootcause::topology::lldp`'s.

use std::net::IpAddr;

use ringtap_rootcause::topology::lldp::{AgentReport, address, clean};
use ringtap_snmp::varbind::Value;

/// A column (or an object, whose instance is 0) and what is done with a value of it: the arcs behind the column come with it.
pub(super) struct Column {
    pub(super) name: &'static [u32],
    pub(super) put: fn(&mut AgentReport, &[u32], Value<'_>),
}

/// sysName (RFC 3418): the first question, by which it is seen who is answered.
pub(super) const SYS_NAME: Column =
    Column { name: &[1, 3, 6, 1, 2, 1, 1, 5], put: |told, _, value| told.name = text(value) };

/// LLDP-MIB is 1.0.8802.1.1.2 (IEEE 802.1AB-2005), IF-MIB RFC 2863, IP-MIB RFC 4293.
pub(super) const COLUMNS: [Column; 17] = [
    // ifDescr, ifPhysAddress, ifName, ifAlias.
    Column {
        name: &[1, 3, 6, 1, 2, 1, 2, 2, 1, 2],
        put: |told, index, value| {
            of_interface(told, index, |it| it.description = text(value));
        },
    },
    Column {
        name: &[1, 3, 6, 1, 2, 1, 2, 2, 1, 6],
        put: |told, index, value| {
            of_interface(told, index, |it| it.mac = bytes(value, 32));
        },
    },
    Column {
        name: &[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 1],
        put: |told, index, value| {
            of_interface(told, index, |it| it.name = text(value));
        },
    },
    Column {
        name: &[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 18],
        put: |told, index, value| {
            of_interface(told, index, |it| it.alias = text(value));
        },
    },
    // ipAdEntIfIndex, whose index is an address, and ipAddressIfIndex, whose index is InetAddressType, a length and an address.
    Column {
        name: &[1, 3, 6, 1, 2, 1, 4, 20, 1, 2],
        put: |told, index, _| {
            told.addresses.extend(address_of(1, index));
        },
    },
    Column {
        name: &[1, 3, 6, 1, 2, 1, 4, 34, 1, 3],
        put: |told, index, _| {
            if let [family, _, rest @ ..] = index {
                told.addresses.extend(address_of(*family, rest));
            }
        },
    },
    // lldpLocChassisIdSubtype, lldpLocChassisId.
    Column { name: &[1, 0, 8802, 1, 1, 2, 1, 3, 1], put: |told, _, value| told.chassis.kind = kind(value) },
    Column { name: &[1, 0, 8802, 1, 1, 2, 1, 3, 2], put: |told, _, value| told.chassis.bytes = bytes(value, 255) },
    // lldpLocPortIdSubtype, lldpLocPortId, lldpLocPortDesc.
    Column {
        name: &[1, 0, 8802, 1, 1, 2, 1, 3, 7, 1, 2],
        put: |told, index, value| {
            of_port(told, index, |it| it.id.kind = kind(value));
        },
    },
    Column {
        name: &[1, 0, 8802, 1, 1, 2, 1, 3, 7, 1, 3],
        put: |told, index, value| {
            of_port(told, index, |it| it.id.bytes = bytes(value, 255));
        },
    },
    Column {
        name: &[1, 0, 8802, 1, 1, 2, 1, 3, 7, 1, 4],
        put: |told, index, value| {
            of_port(told, index, |it| it.description = text(value));
        },
    },
    // lldpRemChassisIdSubtype, lldpRemChassisId, lldpRemPortIdSubtype, lldpRemPortId, lldpRemPortDesc, lldpRemSysName.
    Column {
        name: &[1, 0, 8802, 1, 1, 2, 1, 4, 1, 1, 4],
        put: |told, index, value| {
            of_neighbour(told, index, |it| it.chassis.kind = kind(value));
        },
    },
    Column {
        name: &[1, 0, 8802, 1, 1, 2, 1, 4, 1, 1, 5],
        put: |told, index, value| {
            of_neighbour(told, index, |it| it.chassis.bytes = bytes(value, 255));
        },
    },
    Column {
        name: &[1, 0, 8802, 1, 1, 2, 1, 4, 1, 1, 6],
        put: |told, index, value| {
            of_neighbour(told, index, |it| it.port.kind = kind(value));
        },
    },
    Column {
        name: &[1, 0, 8802, 1, 1, 2, 1, 4, 1, 1, 7],
        put: |told, index, value| {
            of_neighbour(told, index, |it| it.port.bytes = bytes(value, 255));
        },
    },
    Column {
        name: &[1, 0, 8802, 1, 1, 2, 1, 4, 1, 1, 8],
        put: |told, index, value| {
            of_neighbour(told, index, |it| it.description = text(value));
        },
    },
    Column {
        name: &[1, 0, 8802, 1, 1, 2, 1, 4, 1, 1, 9],
        put: |told, index, value| {
            of_neighbour(told, index, |it| it.name = text(value));
        },
    },
];

/// lldpRemManAddrIfSubtype: behind the neighbour's index come AddressFamilyNumbers, a length and an address.
pub(super) const NEIGHBOUR_ADDRESSES: Column = Column {
    name: &[1, 0, 8802, 1, 1, 2, 1, 4, 2, 1, 3],
    put: |told, index, _| {
        if let [mark, port, number, family, _, rest @ ..] = index
            && let Some(neighbour) = told.neighbours.get_mut(&[*mark, *port, *number])
        {
            neighbour.addresses.extend(address_of(*family, rest));
        }
    },
};

fn text(value: Value<'_>) -> String {
    if let Value::OctetString(bytes) = value { clean(bytes) } else { String::new() }
}

fn bytes(value: Value<'_>, most: usize) -> Vec<u8> {
    if let Value::OctetString(bytes) = value { bytes[..bytes.len().min(most)].to_vec() } else { Vec::new() }
}

fn kind(value: Value<'_>) -> u8 {
    if let Value::Integer(kind) = value { u8::try_from(kind).unwrap_or(0) } else { 0 }
}

/// An address whose bytes are arcs.
fn address_of(family: u32, arcs: &[u32]) -> Option<IpAddr> {
    let bytes: Option<Vec<u8>> = arcs.iter().map(|&arc| u8::try_from(arc).ok()).collect();
    address(u8::try_from(family).ok()?, &bytes?)
}

fn of_interface(
    told: &mut AgentReport,
    index: &[u32],
    put: impl FnOnce(&mut ringtap_rootcause::topology::lldp::Interface),
) {
    if let &[index] = index {
        put(told.interfaces.entry(index).or_default());
    }
}

fn of_port(told: &mut AgentReport, index: &[u32], put: impl FnOnce(&mut ringtap_rootcause::topology::lldp::Port)) {
    if let &[number] = index {
        put(told.ports.entry(number).or_default());
    }
}

fn of_neighbour(
    told: &mut AgentReport,
    index: &[u32],
    put: impl FnOnce(&mut ringtap_rootcause::topology::lldp::Neighbour),
) {
    if let &[mark, port, number] = index {
        put(told.neighbours.entry([mark, port, number]).or_default());
    }
}

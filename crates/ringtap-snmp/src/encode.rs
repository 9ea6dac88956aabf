//! Writes notifications of v1 and v2c, and the PDU that v3 wraps (`usm::seal`).
//!
//! Owns what the generator of storms and the tests send. A station itself writes only answers.

use std::net::Ipv4Addr;

use crate::ber::{self, Writer};
use crate::message::tag;
use crate::notification::{SNMP_TRAP_OID, SYS_UP_TIME};
use crate::oid;

/// A value to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// INTEGER.
    Integer(i64),
    /// OCTET STRING.
    Text(Vec<u8>),
    /// OBJECT IDENTIFIER.
    ObjectId(Vec<u32>),
    /// IpAddress.
    Address(Ipv4Addr),
    /// Gauge32.
    Gauge(u32),
    /// Counter32.
    Counter32(u32),
    /// Counter64.
    Counter64(u64),
}

/// A notification to be written.
#[derive(Debug, Clone)]
pub struct Trap {
    /// `None`: a PDU that is no notification.
    oid: Option<Vec<u32>>,
    uptime: u32,
    varbinds: Vec<(Vec<u8>, Item)>,
}

impl Trap {
    /// `oid` is snmpTrapOID, `uptime` in hundredths of a second.
    pub fn new(oid: &[u32], uptime: u32) -> Self {
        Self { oid: Some(oid.to_vec()), uptime, varbinds: Vec::new() }
    }

    /// Only the varbinds that are added.
    pub(crate) fn bare() -> Self {
        Self { oid: None, uptime: 0, varbinds: Vec::new() }
    }

    /// Adds a varbind.
    #[must_use]
    pub fn with(mut self, name: &[u32], value: Item) -> Self {
        self.varbinds.push((oid::encode(name), value));
        self
    }

    /// With another sysUpTime, hundredths of a second.
    #[must_use]
    pub fn at(mut self, uptime: u32) -> Self {
        self.uptime = uptime;
        self
    }

    /// As a trap of SNMPv2c.
    pub fn v2c(&self, community: &[u8], request_id: i32) -> Vec<u8> {
        let mut writer = Writer::default();
        self.pdu(&mut writer, tag::V2_TRAP, request_id);
        community_message(writer, 1, community)
    }

    /// As an inform of SNMPv2c.
    pub fn inform(&self, community: &[u8], request_id: i32) -> Vec<u8> {
        let mut writer = Writer::default();
        self.pdu(&mut writer, tag::INFORM, request_id);
        community_message(writer, 1, community)
    }

    /// As an enterprise-specific trap of SNMPv1.
    pub fn v1(&self, community: &[u8], enterprise: &[u32], agent: Ipv4Addr, generic: i32, specific: i32) -> Vec<u8> {
        let mut writer = Writer::default();
        let pdu = writer.mark();
        self.list(&mut writer, false);
        writer.integer(ber::TIME_TICKS, self.uptime.into());
        writer.integer(ber::INTEGER, specific.into());
        writer.integer(ber::INTEGER, generic.into());
        writer.element(ber::IP_ADDRESS, &agent.octets());
        writer.object_id(enterprise);
        writer.close(tag::V1_TRAP, pdu);
        community_message(writer, 0, community)
    }

    /// As a trap of SNMPv1, mapped as RFC 3584 §3.2 says (without its Counter64s, which v1 does not have).
    pub fn as_v1(&self, community: &[u8], agent: Ipv4Addr) -> Vec<u8> {
        let arcs = self.oid.as_deref().unwrap_or_default();
        let (generic, specific, enterprise) = match arcs {
            [1, 3, 6, 1, 6, 3, 1, 1, 5, number @ 1..=6] => (*number as i32 - 1, 0, &arcs[..9]),
            [enterprise @ .., 0, specific] | [enterprise @ .., specific] => (6, *specific as i32, enterprise),
            [] => (6, 0, arcs),
        };
        let mut this = self.clone();
        this.varbinds.retain(|(_, item)| !matches!(item, Item::Counter64(_)));
        this.v1(community, enterprise, agent, generic, specific)
    }

    /// As a scoped PDU of SNMPv3 with PDU tag `kind`.
    pub fn scoped(&self, kind: u8, engine_id: &[u8], context: &[u8], request_id: i32) -> Vec<u8> {
        let mut writer = Writer::default();
        let scoped = writer.mark();
        self.pdu(&mut writer, kind, request_id);
        writer.element(ber::OCTET_STRING, context);
        writer.element(ber::OCTET_STRING, engine_id);
        writer.close(ber::SEQUENCE, scoped);
        writer.finish()
    }

    fn pdu(&self, writer: &mut Writer, kind: u8, request_id: i32) {
        let pdu = writer.mark();
        self.list(writer, true);
        writer.integer(ber::INTEGER, 0);
        writer.integer(ber::INTEGER, 0);
        writer.integer(ber::INTEGER, request_id.into());
        writer.close(kind, pdu);
    }

    fn list(&self, writer: &mut Writer, of_v2: bool) {
        let list = writer.mark();
        for (name, item) in self.varbinds.iter().rev() {
            let varbind = writer.mark();
            write_item(writer, item);
            writer.element(ber::OBJECT_ID, name);
            writer.close(ber::SEQUENCE, varbind);
        }
        if let Some(oid) = self.oid.as_ref().filter(|_| of_v2) {
            let varbind = writer.mark();
            writer.object_id(oid);
            writer.element(ber::OBJECT_ID, SNMP_TRAP_OID);
            writer.close(ber::SEQUENCE, varbind);
            let varbind = writer.mark();
            writer.integer(ber::TIME_TICKS, self.uptime.into());
            writer.element(ber::OBJECT_ID, SYS_UP_TIME);
            writer.close(ber::SEQUENCE, varbind);
        }
        writer.close(ber::SEQUENCE, list);
    }
}

fn write_item(writer: &mut Writer, item: &Item) {
    match item {
        Item::Integer(value) => writer.integer(ber::INTEGER, *value),
        Item::Text(bytes) => writer.element(ber::OCTET_STRING, bytes),
        Item::ObjectId(arcs) => writer.object_id(arcs),
        Item::Address(address) => writer.element(ber::IP_ADDRESS, &address.octets()),
        Item::Counter32(value) => writer.integer(ber::COUNTER32, (*value).into()),
        Item::Gauge(value) => writer.integer(ber::GAUGE32, (*value).into()),
        Item::Counter64(value) => {
            // Nine bytes when the highest bit is set, so that the number stays positive.
            let bytes = value.to_be_bytes();
            let spare = bytes.iter().take(7).take_while(|&&byte| byte == 0).count();
            let zero = if bytes[spare] & 0x80 == 0 { &[][..] } else { &[0] };
            writer.element(ber::COUNTER64, &[zero, &bytes[spare..]].concat());
        }
    }
}

/// A whole message of v1 (`version` 0) or v2c (1) around the PDU that was written.
pub(crate) fn community_message(mut writer: Writer, version: i64, community: &[u8]) -> Vec<u8> {
    writer.element(ber::OCTET_STRING, community);
    writer.integer(ber::INTEGER, version);
    writer.close(ber::SEQUENCE, 0);
    writer.finish()
}

//! What a trap or inform says, whatever version it came in: v1 is mapped to v2 as RFC 3584 §3.1 says.
//!
//! Owns that mapping and the identity of the agent. What it means for an alarm is for whoever receives it.

use std::borrow::Cow;
use std::net::Ipv4Addr;

use crate::ber::Malformed;
use crate::message::{Pdu, PduHead, Version, tag};
use crate::oid::Oid;
use crate::varbind::{Value, Varbind, Varbinds};

/// sysUpTime.0, encoded.
pub const SYS_UP_TIME: &[u8] = &[0x2b, 6, 1, 2, 1, 1, 3, 0];
/// snmpTrapOID.0, encoded.
pub const SNMP_TRAP_OID: &[u8] = &[0x2b, 6, 1, 6, 3, 1, 1, 4, 1, 0];
/// snmpTrapEnterprise.0, encoded.
pub const SNMP_TRAP_ENTERPRISE: &[u8] = &[0x2b, 6, 1, 6, 3, 1, 1, 4, 3, 0];
/// snmpTrapAddress.0, encoded.
pub const SNMP_TRAP_ADDRESS: &[u8] = &[0x2b, 6, 1, 6, 3, 18, 1, 3, 0];
/// snmpTrapCommunity.0, encoded.
pub const SNMP_TRAP_COMMUNITY: &[u8] = &[0x2b, 6, 1, 6, 3, 18, 1, 4, 0];
/// snmpTraps: the standard traps are its children 1 (coldStart) to 6 (egpNeighborLoss).
pub const SNMP_TRAPS: &[u8] = &[0x2b, 6, 1, 6, 3, 1, 1, 5];

/// A trap or inform.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification<'a> {
    /// Version of the message.
    pub version: Version,
    /// Whether the sender waits for an answer.
    pub inform: bool,
    /// snmpTrapOID, encoded.
    pub trap_oid: Cow<'a, [u8]>,
    /// sysUpTime, hundredths of a second.
    pub uptime: Option<u32>,
    /// Who it is about, when the message says so: agent-addr of v1, snmpTrapAddress that a proxy added.
    pub agent: Option<Ipv4Addr>,
    /// enterprise of v1.
    pub enterprise: Option<Oid<'a>>,
    /// The varbinds without sysUpTime and snmpTrapOID.
    pub varbinds: Varbinds<'a>,
    /// Whether something in them can't be read.
    pub damaged: bool,
    /// request-id.
    pub request_id: i32,
    /// Where the PDU's tag stands in what was parsed: an inform becomes its answer by changing it (RFC 3416 §4.2.7).
    pub pdu_at: usize,
}

impl<'a> Notification<'a> {
    /// Reads a PDU as a notification; `None` when it is another PDU.
    ///
    /// # Errors
    /// A notification of v2 without snmpTrapOID.
    pub fn new(version: Version, pdu: &Pdu<'a>) -> Result<Option<Self>, Malformed> {
        let mut this = Self {
            version,
            inform: pdu.tag == tag::INFORM,
            trap_oid: Cow::Borrowed(&[]),
            uptime: None,
            agent: None,
            enterprise: None,
            varbinds: pdu.varbinds,
            damaged: false,
            request_id: pdu.request_id(),
            pdu_at: pdu.at,
        };
        match pdu.head {
            PduHead::V1Trap { enterprise, agent, generic, specific, uptime } => {
                this.trap_oid = Cow::Owned(v1_trap_oid(enterprise, generic, specific));
                this.uptime = Some(uptime);
                this.agent = (!agent.is_unspecified()).then_some(agent);
                this.enterprise = Some(enterprise);
                this.damaged = pdu.varbinds.is_damaged();
            }
            PduHead::Common { .. } if matches!(pdu.tag, tag::V2_TRAP | tag::INFORM) => {
                let mut leading = pdu.varbinds.split_first();
                if let Some((varbind, rest)) = leading
                    && varbind.name.bytes() == SYS_UP_TIME
                {
                    if let Value::TimeTicks(ticks) | Value::Gauge32(ticks) = varbind.value {
                        this.uptime = Some(ticks as u32);
                    }
                    leading = rest.split_first();
                }
                let Some((Varbind { name, value: Value::ObjectId(oid) }, mut rest)) = leading else {
                    return Err(Malformed("snmpTrapOID"));
                };
                if name.bytes() != SNMP_TRAP_OID {
                    return Err(Malformed("snmpTrapOID"));
                }
                this.trap_oid = Cow::Borrowed(oid.bytes());
                this.varbinds = rest;
                while let Some((varbind, others)) = rest.split_first() {
                    if let Value::IpAddress(address) = varbind.value
                        && this.agent.is_none()
                        && varbind.name.bytes() == SNMP_TRAP_ADDRESS
                    {
                        this.agent = Some(address);
                    }
                    rest = others;
                }
                this.damaged = !rest.bytes().is_empty();
            }
            PduHead::Common { .. } => return Ok(None),
        }
        Ok(Some(this))
    }

    /// snmpTrapOID.
    pub fn oid(&self) -> Oid<'_> {
        // Made from a checked one, and no longer than the limit.
        Oid::new(&self.trap_oid).unwrap_or_default()
    }
}

/// RFC 3584 §3.1 (2), (3): generic traps become snmpTraps.1 to .6, others enterprise.0.specific.
fn v1_trap_oid(enterprise: Oid<'_>, generic: i32, specific: i32) -> Vec<u8> {
    match u8::try_from(generic) {
        Ok(generic @ 0..=5) => [SNMP_TRAPS, &[generic + 1]].concat(),
        _ => {
            let arcs: Vec<u32> = enterprise.arcs().take(crate::oid::MAX_ARCS - 2).chain([0, specific as u32]).collect();
            crate::oid::encode(&arcs)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Trap;
    use crate::message::{Message, parse};

    fn read(bytes: &[u8]) -> Notification<'_> {
        let Ok(Message::Community { version, pdu, .. }) = parse(bytes) else { panic!("{bytes:x?}") };
        Notification::new(version, &pdu).unwrap().unwrap()
    }

    #[test]
    fn v1_traps_are_mapped_as_rfc_3584_says() {
        let enterprise = [1, 3, 6, 1, 4, 1, 8072, 3];
        let agent = Ipv4Addr::new(192, 0, 2, 7);
        let bytes = Trap::new(&[1, 3], 77).v1(b"public", &enterprise, agent, 2, 0);
        let link_down = read(&bytes);
        assert_eq!(link_down.oid().to_string(), "1.3.6.1.6.3.1.1.5.3");
        assert_eq!((link_down.uptime, link_down.agent), (Some(77), Some(agent)));
        let bytes = Trap::new(&[1, 3], 77).v1(b"public", &enterprise, Ipv4Addr::UNSPECIFIED, 6, 300);
        let specific = read(&bytes);
        assert_eq!(specific.oid().to_string(), "1.3.6.1.4.1.8072.3.0.300");
        assert_eq!(specific.agent, None, "0.0.0.0 says nothing");
    }

    #[test]
    fn v2_notifications_need_their_oid_but_not_their_uptime() {
        let bytes = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 4], 99).v2c(b"x", 3);
        let link_up = read(&bytes);
        assert_eq!((link_up.uptime, link_up.inform, link_up.request_id), (Some(99), false, 3));
        assert_eq!(link_up.varbinds.iter().count(), 0);
        // The first varbind's name is not sysUpTime any more, so the second is not where it belongs.
        let mut bytes = bytes;
        let at = bytes.windows(SYS_UP_TIME.len()).position(|window| window == SYS_UP_TIME).unwrap();
        bytes[at + 7] = 1;
        let Ok(Message::Community { version, pdu, .. }) = parse(&bytes) else { panic!() };
        assert_eq!(Notification::new(version, &pdu), Err(Malformed("snmpTrapOID")));
    }
}

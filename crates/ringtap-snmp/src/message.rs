//! SNMP messages as they stand in a datagram: v1 (RFC 1157), v2c (RFC 1901) and v3 (RFC 3412, 3414), borrowed.
//!
//! Owns the structure of messages and PDUs; varbinds are [`varbind`](crate::varbind)'s. It takes any PDU, so that a request sent to the
//! wrong port is known as one. Who may send is `usm`'s and `decode`'s, what a notification means `notification`'s.

use std::net::Ipv4Addr;

use crate::ber::{self, Malformed};
use crate::oid::Oid;
use crate::varbind::Varbinds;

/// Protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// SNMPv1.
    V1,
    /// SNMPv2c.
    V2c,
    /// SNMPv3.
    V3,
}

impl Version {
    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2c => "v2c",
            Self::V3 => "v3",
        }
    }
}

/// msgFlags (RFC 3412 §6.4): authenticated.
pub const FLAG_AUTH: u8 = 1;
/// Encrypted.
pub const FLAG_PRIV: u8 = 2;
/// The sender wants a Report when the message can't be processed.
pub const FLAG_REPORTABLE: u8 = 4;

/// Tags of PDUs (RFC 3416 §3, RFC 1157 §4.1).
pub mod tag {
    /// GetRequest.
    pub const GET: u8 = 0xa0;
    /// Response.
    pub const RESPONSE: u8 = 0xa2;
    /// Trap of SNMPv1.
    pub const V1_TRAP: u8 = 0xa4;
    /// GetBulkRequest.
    pub const GET_BULK: u8 = 0xa5;
    /// InformRequest.
    pub const INFORM: u8 = 0xa6;
    /// Trap of SNMPv2.
    pub const V2_TRAP: u8 = 0xa7;
    /// Report.
    pub const REPORT: u8 = 0xa8;
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// v1 or v2c.
    Community {
        /// Which of both.
        version: Version,
        /// The community.
        community: &'a [u8],
        /// The PDU.
        pdu: Pdu<'a>,
    },
    /// v3, neither authenticated nor decrypted yet.
    V3(V3Message<'a>),
    /// A version that is none of these.
    OtherVersion(i32),
}

/// An SNMPv3 message with the user-based security model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V3Message<'a> {
    /// msgID.
    pub id: i32,
    /// msgFlags.
    pub flags: u8,
    /// msgSecurityModel; 3 is USM. With another one the security parameters are left empty.
    pub model: i32,
    /// msgAuthoritativeEngineID.
    pub engine_id: &'a [u8],
    /// msgAuthoritativeEngineBoots.
    pub boots: u32,
    /// msgAuthoritativeEngineTime, seconds.
    pub time: u32,
    /// msgUserName.
    pub user: &'a [u8],
    /// msgAuthenticationParameters.
    pub mac: &'a [u8],
    /// Where these begin in the datagram.
    pub mac_at: usize,
    /// msgPrivacyParameters.
    pub salt: &'a [u8],
    /// msgData.
    pub data: ScopedData<'a>,
    /// The message without what may follow it in the datagram: what is authenticated.
    pub whole: &'a [u8],
}

/// msgData.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopedData<'a> {
    /// A scoped PDU, from its head on.
    Plain(&'a [u8]),
    /// encryptedPDU.
    Encrypted(&'a [u8]),
}

/// A scoped PDU (RFC 3412 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScopedPdu<'a> {
    /// contextEngineID.
    pub engine_id: &'a [u8],
    /// contextName.
    pub context: &'a [u8],
    /// The PDU.
    pub pdu: Pdu<'a>,
}

/// A PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pdu<'a> {
    /// One of [`tag`], or another.
    pub tag: u8,
    /// Where the tag stands, from the beginning of what was parsed.
    pub at: usize,
    /// What precedes the varbinds.
    pub head: PduHead<'a>,
    /// The varbinds.
    pub varbinds: Varbinds<'a>,
}

/// The fields before the varbinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PduHead<'a> {
    /// All but the trap of v1.
    Common {
        /// request-id.
        request_id: i32,
        /// error-status, or non-repeaters.
        error_status: i32,
        /// error-index, or max-repetitions.
        error_index: i32,
    },
    /// Trap of v1.
    V1Trap {
        /// enterprise.
        enterprise: Oid<'a>,
        /// agent-addr.
        agent: Ipv4Addr,
        /// generic-trap; 6 is enterpriseSpecific.
        generic: i32,
        /// specific-trap.
        specific: i32,
        /// time-stamp, hundredths of a second.
        uptime: u32,
    },
}

/// Reads a datagram. What follows the message is let pass.
///
/// # Errors
/// What was expected and not there.
pub fn parse(datagram: &[u8]) -> Result<Message<'_>, Malformed> {
    let mut rest = datagram;
    let message = ber::next(&mut rest, "a message")?;
    if message.tag != ber::SEQUENCE {
        return Err(Malformed("a message"));
    }
    let mut body = message.content;
    let version = match ber::expect_i32(&mut body, "a version")? {
        0 => Version::V1,
        1 => Version::V2c,
        3 => return Ok(Message::V3(v3(datagram, message.whole, body)?)),
        other => return Ok(Message::OtherVersion(other)),
    };
    let community = ber::expect(&mut body, ber::OCTET_STRING, "a community")?;
    Ok(Message::Community { version, community, pdu: Pdu::parse(datagram, &mut body)? })
}

fn v3<'a>(datagram: &[u8], whole: &'a [u8], mut body: &'a [u8]) -> Result<V3Message<'a>, Malformed> {
    let mut header = ber::expect(&mut body, ber::SEQUENCE, "msgGlobalData")?;
    let id = ber::expect_i32(&mut header, "msgID")?;
    let _max_size = ber::expect_i32(&mut header, "msgMaxSize")?;
    let &[flags] = ber::expect(&mut header, ber::OCTET_STRING, "msgFlags")? else {
        return Err(Malformed("msgFlags of one byte"));
    };
    let model = ber::expect_i32(&mut header, "msgSecurityModel")?;
    let mut security = ber::expect(&mut body, ber::OCTET_STRING, "msgSecurityParameters")?;
    let mut message = V3Message {
        id,
        flags,
        model,
        engine_id: &[],
        boots: 0,
        time: 0,
        user: &[],
        mac: &[],
        mac_at: 0,
        salt: &[],
        data: ScopedData::Encrypted(&[]),
        whole,
    };
    if model == 3 {
        let mut usm = ber::expect(&mut security, ber::SEQUENCE, "UsmSecurityParameters")?;
        message.engine_id = ber::expect(&mut usm, ber::OCTET_STRING, "msgAuthoritativeEngineID")?;
        message.boots = clock(&mut usm, "msgAuthoritativeEngineBoots")?;
        message.time = clock(&mut usm, "msgAuthoritativeEngineTime")?;
        message.user = ber::expect(&mut usm, ber::OCTET_STRING, "msgUserName")?;
        message.mac = ber::expect(&mut usm, ber::OCTET_STRING, "msgAuthenticationParameters")?;
        message.mac_at = offset(datagram, message.mac);
        message.salt = ber::expect(&mut usm, ber::OCTET_STRING, "msgPrivacyParameters")?;
        if message.engine_id.len() > 32 || message.user.len() > 32 {
            return Err(Malformed("an engine ID and a user name of at most 32 bytes"));
        }
    }
    let data = ber::next(&mut body, "msgData")?;
    message.data = match (flags & FLAG_PRIV != 0, data.tag) {
        (true, ber::OCTET_STRING) => ScopedData::Encrypted(data.content),
        (false, ber::SEQUENCE) => ScopedData::Plain(data.whole),
        _ => return Err(Malformed("msgData as msgFlags say")),
    };
    Ok(message)
}

/// INTEGER (0..2147483647); agents are seen that leave out the zero byte before a high first bit.
fn clock(input: &mut &[u8], expected: &'static str) -> Result<u32, Malformed> {
    let value = ber::unsigned(ber::expect(input, ber::INTEGER, expected)?).filter(|&value| value <= 0x7fff_ffff);
    value.map(|value| value as u32).ok_or(Malformed(expected))
}

/// Where `part` begins within `all`, of which it is a part.
fn offset(all: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(all.as_ptr() as usize).min(all.len())
}

impl<'a> ScopedPdu<'a> {
    /// Reads a scoped PDU; what follows it (padding of the cipher) is let pass.
    ///
    /// # Errors
    /// What was expected and not there.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = bytes;
        let mut body = ber::expect(&mut rest, ber::SEQUENCE, "a scoped PDU")?;
        let engine_id = ber::expect(&mut body, ber::OCTET_STRING, "contextEngineID")?;
        let context = ber::expect(&mut body, ber::OCTET_STRING, "contextName")?;
        Ok(Self { engine_id, context, pdu: Pdu::parse(bytes, &mut body)? })
    }
}

impl<'a> Pdu<'a> {
    fn parse(all: &[u8], input: &mut &'a [u8]) -> Result<Self, Malformed> {
        let pdu = ber::next(input, "a PDU")?;
        if pdu.tag & 0xe0 != 0xa0 {
            return Err(Malformed("a PDU"));
        }
        let mut body = pdu.content;
        let head = if pdu.tag == tag::V1_TRAP {
            let enterprise = ber::expect(&mut body, ber::OBJECT_ID, "enterprise")?;
            let enterprise = Oid::new(enterprise).ok_or(Malformed("enterprise"))?;
            let agent: [u8; 4] = ber::expect(&mut body, ber::IP_ADDRESS, "agent-addr")?
                .try_into()
                .map_err(|_| Malformed("agent-addr of four bytes"))?;
            let generic = ber::expect_i32(&mut body, "generic-trap")?;
            let specific = ber::expect_i32(&mut body, "specific-trap")?;
            let uptime = ber::unsigned(ber::expect(&mut body, ber::TIME_TICKS, "time-stamp")?)
                .ok_or(Malformed("time-stamp"))? as u32;
            PduHead::V1Trap { enterprise, agent: agent.into(), generic, specific, uptime }
        } else {
            PduHead::Common {
                request_id: ber::expect_i32(&mut body, "request-id")?,
                error_status: ber::expect_i32(&mut body, "error-status")?,
                error_index: ber::expect_i32(&mut body, "error-index")?,
            }
        };
        let list = ber::expect(&mut body, ber::SEQUENCE, "variable-bindings")?;
        Ok(Self { tag: pdu.tag, at: offset(all, pdu.whole), head, varbinds: Varbinds::new(list) })
    }

    /// request-id; 0 for the trap of v1, which has none.
    pub fn request_id(&self) -> i32 {
        match self.head {
            PduHead::Common { request_id, .. } => request_id,
            PduHead::V1Trap { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;
    use proptest::prelude::*;

    #[test]
    fn a_broken_varbind_costs_only_what_follows_it() {
        let trap = encode::Trap::new(&[1, 3, 6, 1, 4, 1, 9], 7).with(&[1, 3, 6, 1, 9], encode::Item::Integer(5));
        let mut bytes = trap.v2c(b"public", 1);
        let Ok(Message::Community { pdu, .. }) = parse(&bytes) else { panic!("{bytes:x?}") };
        assert_eq!((pdu.varbinds.iter().count(), pdu.varbinds.is_damaged()), (3, false));
        // The last varbind's name becomes something else.
        let at = bytes.len() - 9;
        assert_eq!(bytes[at], ber::OBJECT_ID);
        bytes[at] = ber::NULL;
        let Ok(Message::Community { pdu, .. }) = parse(&bytes) else { panic!("{bytes:x?}") };
        assert_eq!((pdu.varbinds.iter().count(), pdu.varbinds.is_damaged()), (2, true));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn every_damage_to_a_trap_is_survived(at in 0usize..100, byte: u8, cut in 0usize..100) {
            let mut bytes = encode::Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 9).v2c(b"public", 1);
            let at = at % bytes.len();
            bytes[at] = byte;
            let cut = bytes.len().saturating_sub(cut);
            if let Ok(Message::Community { pdu, .. }) = parse(&bytes[..cut]) {
                prop_assert!(pdu.varbinds.iter().count() <= bytes.len());
            }
        }
    }
}

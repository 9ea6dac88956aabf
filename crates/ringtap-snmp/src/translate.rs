//! A trap of v1 as one of v2c, as a proxy that translates sends it on (RFC 3584 §3.1).
//!
//! Owns that mapping of whole messages; varbinds stay the bytes that they are.

use std::net::Ipv4Addr;

use crate::ber::{self, Writer};
use crate::encode::community_message;
use crate::message::{Message, PduHead, Version, parse, tag};
use crate::notification::{
    Notification, SNMP_TRAP_ADDRESS, SNMP_TRAP_COMMUNITY, SNMP_TRAP_ENTERPRISE, SNMP_TRAP_OID, SYS_UP_TIME,
};

/// The same notification as v2c, with snmpTrapAddress.0, snmpTrapCommunity.0 and snmpTrapEnterprise.0 behind its varbinds unless they are
/// there. `source` is snmpTrapAddress.0 where the trap names no agent. `None`: it is no trap of v1.
pub fn v1_as_v2c(datagram: &[u8], source: Ipv4Addr, request_id: i32) -> Option<Vec<u8>> {
    let Message::Community { version: Version::V1, community, pdu } = parse(datagram).ok()? else { return None };
    let PduHead::V1Trap { enterprise, agent, uptime, .. } = pdu.head else { return None };
    let notification = Notification::new(Version::V1, &pdu).ok()??;
    let agent = if agent.is_unspecified() { source } else { agent };
    let is_there = |name: &[u8]| pdu.varbinds.iter().any(|varbind| varbind.name.bytes() == name);

    // The writer writes the last bytes first.
    let mut writer = Writer::default();
    let whole = writer.mark();
    let list = writer.mark();
    let mut add = |name: &[u8], value: &[u8], kind: u8| {
        if !is_there(name) {
            let varbind = writer.mark();
            writer.element(kind, value);
            writer.element(ber::OBJECT_ID, name);
            writer.close(ber::SEQUENCE, varbind);
        }
    };
    add(SNMP_TRAP_ENTERPRISE, enterprise.bytes(), ber::OBJECT_ID);
    add(SNMP_TRAP_COMMUNITY, community, ber::OCTET_STRING);
    add(SNMP_TRAP_ADDRESS, &agent.octets(), ber::IP_ADDRESS);
    writer.raw(pdu.varbinds.bytes());
    let varbind = writer.mark();
    writer.element(ber::OBJECT_ID, &notification.trap_oid);
    writer.element(ber::OBJECT_ID, SNMP_TRAP_OID);
    writer.close(ber::SEQUENCE, varbind);
    let varbind = writer.mark();
    writer.integer(ber::TIME_TICKS, uptime.into());
    writer.element(ber::OBJECT_ID, SYS_UP_TIME);
    writer.close(ber::SEQUENCE, varbind);
    writer.close(ber::SEQUENCE, list);
    writer.integer(ber::INTEGER, 0);
    writer.integer(ber::INTEGER, 0);
    writer.integer(ber::INTEGER, request_id.into());
    writer.close(tag::V2_TRAP, whole);
    Some(community_message(writer, 1, community))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encode::{Item, Trap};

    const SOURCE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

    fn read(bytes: &[u8]) -> (Notification<'_>, &[u8]) {
        let Ok(Message::Community { version, community, pdu }) = parse(bytes) else { panic!("{bytes:x?}") };
        (Notification::new(version, &pdu).unwrap().unwrap(), community)
    }

    #[test]
    fn what_v1_says_is_there_and_who_said_it() {
        let agent = Ipv4Addr::new(192, 0, 2, 7);
        let trap = Trap::new(&[1, 3], 77).with(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 1, 3], Item::Integer(3));
        for (named, expected) in [(agent, agent), (Ipv4Addr::UNSPECIFIED, SOURCE)] {
            let v1 = trap.v1(b"public", &[1, 3, 6, 1, 4, 1, 8072, 3], named, 2, 0);
            let v2c = v1_as_v2c(&v1, SOURCE, 5).unwrap();
            let (notification, community) = read(&v2c);
            assert_eq!((notification.version, notification.inform, community), (Version::V2c, false, &b"public"[..]));
            assert_eq!(notification.oid().to_string(), "1.3.6.1.6.3.1.1.5.3");
            assert_eq!(
                (notification.uptime, notification.agent, notification.request_id),
                (Some(77), Some(expected), 5)
            );
            let names: Vec<String> = notification.varbinds.iter().map(|varbind| varbind.name.to_string()).collect();
            assert_eq!(
                names,
                ["1.3.6.1.2.1.2.2.1.1.3", "1.3.6.1.6.3.18.1.3.0", "1.3.6.1.6.3.18.1.4.0", "1.3.6.1.6.3.1.1.4.3.0"]
            );
            assert!(!notification.damaged);
        }
    }

    #[test]
    fn what_another_proxy_added_is_not_added_again_and_other_versions_are_left_alone() {
        let trap =
            Trap::new(&[1, 3], 1).with(&[1, 3, 6, 1, 6, 3, 18, 1, 3, 0], Item::Address(Ipv4Addr::new(10, 0, 0, 1)));
        let v1 = trap.v1(b"x", &[1, 3, 6, 1, 4, 1, 9], SOURCE, 6, 4);
        let v2c = v1_as_v2c(&v1, SOURCE, 1).unwrap();
        let (notification, _) = read(&v2c);
        assert_eq!((notification.varbinds.iter().count(), notification.agent), (3, Some([10, 0, 0, 1].into())));
        assert_eq!(v1_as_v2c(&Trap::new(&[1, 3, 6, 1], 1).v2c(b"x", 1), SOURCE, 1), None);
        assert_eq!(v1_as_v2c(b"junk", SOURCE, 1), None);
    }

    proptest! {
        #[test]
        fn whatever_is_parsed_as_v1_can_be_read_as_v2c(mut bytes in Just(Trap::new(&[1, 3], 77)
            .with(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 1, 3], Item::Integer(3))
            .v1(b"public", &[1, 3, 6, 1, 4, 1, 8072, 3], SOURCE, 6, 9)), at in 0usize..80, to: u8) {
            let at = at % bytes.len();
            bytes[at] = to;
            if let Some(v2c) = v1_as_v2c(&bytes, SOURCE, 1) {
                let Ok(Message::Community { version, pdu, .. }) = parse(&v2c) else { panic!("{bytes:x?}") };
                prop_assert!(Notification::new(version, &pdu).is_ok());
            }
        }
    }
}

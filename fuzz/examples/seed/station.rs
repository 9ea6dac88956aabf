//! Owns: the seeds of the station's targets: SNMP messages, syslog messages and streams, MIB files.

use ringtap_samples::{apps, snmp as messages};

use crate::Seeds;

/// Datagrams behind a 0, and scoped PDUs behind a 1.
pub fn snmp() -> Seeds {
    let all = messages::messages();
    // Some are alike: one in three.
    let datagrams = all.iter().step_by(3).map(|message| [&[0][..], message].concat());
    let list = messages::notification(&messages::values());
    let scoped = [0xa6, 0xa7, 0xa0].map(|tag| {
        let pdu = messages::pdu(tag, 1, [0, 0], &list);
        let parts = [messages::element(4, b"\x80agent"), messages::element(4, b""), pdu].concat();
        [&[1][..], &messages::element(0x30, &parts)].concat()
    });
    datagrams.chain(scoped).enumerate().map(|(number, bytes)| (format!("message-{number:02}"), bytes)).collect()
}

/// Messages, and streams of them behind their lengths and with line feeds between (RFC 6587).
pub fn syslog() -> Seeds {
    let messages = apps::syslog();
    let last = &messages[messages.len().saturating_sub(4)..];
    let counted = last.iter().flat_map(|message| [message.len().to_string().as_bytes(), b" ", message].concat());
    let lines = last.iter().flat_map(|message| [&message[..], b"\n"].concat());
    let streams = [("counted".to_owned(), counted.collect()), ("lines".to_owned(), lines.collect())];
    let single =
        messages.iter().step_by(3).enumerate().map(|(number, text)| (format!("message-{number}"), text.clone()));
    single.chain(streams).collect()
}

/// Modules in both versions of SMI, of ours.
pub fn mibs() -> Seeds {
    [("smi-v2", SMI_V2), ("smi-v1", SMI_V1)].map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).into()
}

const SMI_V2: &str = r#"FUZZ-MIB DEFINITIONS ::= BEGIN
IMPORTS
    MODULE-IDENTITY, OBJECT-TYPE, NOTIFICATION-TYPE, Integer32, enterprises FROM SNMPv2-SMI
    TEXTUAL-CONVENTION FROM SNMPv2-TC;
fuzz MODULE-IDENTITY
    LAST-UPDATED "202611230000Z"
    ORGANIZATION "nobody"
    CONTACT-INFO "nobody@example.org"
    DESCRIPTION "A module for tests."
    ::= { enterprises 32473 }
Level ::= TEXTUAL-CONVENTION
    DISPLAY-HINT "d-1"
    STATUS current
    DESCRIPTION "A level."
    SYNTAX INTEGER { low(1), high(2) }
level OBJECT-TYPE
    SYNTAX Level
    MAX-ACCESS read-only
    STATUS current
    DESCRIPTION "Its level."
    ::= { fuzz 1 }
levelHigh NOTIFICATION-TYPE
    OBJECTS { level }
    STATUS current
    DESCRIPTION "It is high."
    ::= { fuzz 0 1 }
END
"#;

const SMI_V1: &str = r#"FUZZ-MIB DEFINITIONS ::= BEGIN
IMPORTS
    enterprises FROM RFC1155-SMI
    OBJECT-TYPE FROM RFC-1212
    TRAP-TYPE FROM RFC-1215;
fuzz OBJECT IDENTIFIER ::= { enterprises 32473 }
level OBJECT-TYPE
    SYNTAX INTEGER { low(1), high(2) }
    ACCESS read-only
    STATUS mandatory
    DESCRIPTION "Its level."
    ::= { fuzz 1 }
levelHigh TRAP-TYPE
    ENTERPRISE fuzz
    VARIABLES { level }
    DESCRIPTION "It is high."
    ::= 1
END
"#;

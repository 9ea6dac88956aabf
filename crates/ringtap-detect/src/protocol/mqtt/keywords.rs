//! Owns: MQTT in the rule language.
//! Does not: read packets.

use crate::protocol::Keyword;
use crate::rules::compare;
use crate::rules::rule::{Compare, Test};

pub(super) const RULE_NAMES: &[&str] = &["mqtt"];

pub(super) const TYPE: u8 = 0;
pub(super) const FLAGS: u8 = 1;
pub(super) const QOS: u8 = 2;
pub(super) const REASON: u8 = 3;
pub(super) const VERSION: u8 = 4;
pub(super) const SESSION_PRESENT: u8 = 5;
pub(super) const CONNECT_FLAGS: u8 = 6;
pub(super) const CLIENT_ID: u8 = 7;
pub(super) const USERNAME: u8 = 8;
pub(super) const PASSWORD: u8 = 9;
pub(super) const PROTOCOL: u8 = 10;
pub(super) const WILL_TOPIC: u8 = 11;
pub(super) const WILL_MESSAGE: u8 = 12;
pub(super) const PUBLISH_TOPIC: u8 = 13;
pub(super) const PUBLISH_MESSAGE: u8 = 14;
pub(super) const SUBSCRIBE_TOPIC: u8 = 15;
pub(super) const UNSUBSCRIBE_TOPIC: u8 = 16;
pub(super) const EVENT: u8 = 17;

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::value(TYPE, &["mqtt.type"], kind),
    Keyword::value(FLAGS, &["mqtt.flags"], |value| flags(value, &[("retain", 1), ("dup", 8)])),
    Keyword::value(QOS, &["mqtt.qos"], |value| number(value, 2)),
    Keyword::value(REASON, &["mqtt.reason_code", "mqtt.connack.return_code"], |value| number(value, 255)),
    Keyword::value(VERSION, &["mqtt.protocol_version"], |value| number(value, 255)),
    Keyword::value(SESSION_PRESENT, &["mqtt.connack.session_present"], yes_or_no),
    Keyword::value(CONNECT_FLAGS, &["mqtt.connect.flags"], |value| {
        let names = [("username", 0x80), ("password", 0x40), ("will_retain", 0x20), ("will", 4), ("clean_session", 2)];
        flags(value, &names)
    }),
    Keyword::buffer(CLIENT_ID, &["mqtt.connect.clientid"]),
    Keyword::buffer(USERNAME, &["mqtt.connect.username"]),
    Keyword::buffer(PASSWORD, &["mqtt.connect.password"]),
    Keyword::buffer(PROTOCOL, &["mqtt.connect.protocol_string"]),
    Keyword::buffer(WILL_TOPIC, &["mqtt.connect.willtopic"]),
    Keyword::buffer(WILL_MESSAGE, &["mqtt.connect.willmessage"]),
    Keyword::buffer(PUBLISH_TOPIC, &["mqtt.publish.topic"]),
    Keyword::buffer(PUBLISH_MESSAGE, &["mqtt.publish.message"]),
    Keyword::buffer(SUBSCRIBE_TOPIC, &["mqtt.subscribe.topic"]),
    Keyword::buffer(UNSUBSCRIBE_TOPIC, &["mqtt.unsubscribe.topic"]),
    Keyword::buffer(EVENT, &[]),
];

fn number(value: &str, max: u64) -> Result<Vec<Test>, String> {
    Ok(vec![Test::Number(vec![compare(value, max)?])])
}

/// The name of a packet's type, in any case.
fn kind(value: &str) -> Result<Vec<Test>, String> {
    const NAMES: [&str; 15] = [
        "connect",
        "connack",
        "publish",
        "puback",
        "pubrec",
        "pubrel",
        "pubcomp",
        "subscribe",
        "suback",
        "unsubscribe",
        "unsuback",
        "pingreq",
        "pingresp",
        "disconnect",
        "auth",
    ];
    let word = value.trim().to_ascii_lowercase();
    let place = NAMES.iter().position(|name| *name == word).ok_or(format!("'{value}' is no type"))?;
    Ok(vec![Test::Number(vec![Compare::exactly(place as u64 + 1)])])
}

fn yes_or_no(value: &str) -> Result<Vec<Test>, String> {
    let wanted = match value.trim() {
        "yes" | "true" => 1,
        "no" | "false" => 0,
        other => return Err(format!("'{other}' is neither true nor false")),
    };
    Ok(vec![Test::Number(vec![Compare::exactly(wanted)])])
}

/// Names of flags, apart by commas, `!` before those that must not be set.
fn flags(value: &str, names: &[(&str, u64)]) -> Result<Vec<Test>, String> {
    let (mut set, mut clear) = (0, 0);
    for word in value.split(',').map(str::trim) {
        let (into, name) = match word.strip_prefix('!') {
            Some(name) => (&mut clear, name),
            None => (&mut set, word),
        };
        let (_, bit) = names.iter().find(|(known, _)| *known == name).ok_or(format!("'{name}' is no flag"))?;
        *into |= bit;
    }
    Ok(vec![Test::Flags { set, clear }])
}

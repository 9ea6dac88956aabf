//! Stored notifications and alarms as JSON, with names.
//!
//! Owns the shape of what users and programs read. Rendering happens when somebody looks, not when a trap arrives.

use crate::alarm::Alarm;
use serde_json::{Map, Value as Json, json};

use crate::judge::Announcement;
use crate::store::{Kind, Stored};
use crate::syslog;
use ringtap_snmp::message::{Message, ScopedData, ScopedPdu, Version};
use ringtap_snmp::names::{Names, hex};
use ringtap_snmp::notification::Notification;
use ringtap_snmp::oid::Oid;

/// An alarm, with its condition's name when it is known by number.
pub fn alarm(alarm: &Alarm, names: &Names) -> Json {
    let mut object = serde_json::to_value(alarm).unwrap_or_default();
    let name = condition(alarm, names);
    if name != alarm.key.condition {
        object["condition_name"] = name.into();
    }
    object
}

/// A change of an alarm, as outputs tell it.
pub fn announcement(announcement: &Announcement, names: &Names) -> Json {
    let mut object = alarm(&announcement.alarm, names);
    object["notification"] = announcement.notification.into();
    object
}

/// What an alarm's condition is called: by its name where it is known by number, and there is one.
pub fn condition(alarm: &Alarm, names: &Names) -> String {
    let condition = &alarm.key.condition;
    match names.resolve(condition).as_deref().and_then(Oid::new) {
        Some(oid) => names.name(oid),
        None => condition.clone(),
    }
}

/// A stored notification, decoded again; with its bytes in hexadecimal digits if `raw` (a community is among them).
pub fn notification(stored: &Stored, names: &Names, raw: bool) -> Json {
    let mut object = json!({
        "id": stored.id,
        "at_ns": stored.at_ns,
        "source": stored.source,
        "kind": stored.kind.name(),
        "alarm": stored.alarm,
        "judgement": stored.judgement.to_string(),
    });
    let content = match stored.kind {
        Kind::Syslog => syslog_content(&stored.raw),
        _ => snmp_content(stored, names),
    };
    object["content"] = content.unwrap_or(Json::Null);
    if raw {
        object["raw"] = hex(&stored.raw).replace(':', "").into();
    }
    object
}

fn syslog_content(raw: &[u8]) -> Option<Json> {
    let message = syslog::parse(raw)?;
    let structured: Vec<Json> =
        message.structured.iter().map(|(id, name, value)| json!({"id": id, "name": name, "value": value})).collect();
    Some(json!({
        "facility": message.facility,
        "severity": message.severity,
        "time_ms": message.time_ms,
        "host": message.host,
        "app": message.app,
        "process": message.process,
        "message_id": message.message_id,
        "structured": structured,
        "text": message.text,
    }))
}

fn snmp_content(stored: &Stored, names: &Names) -> Option<Json> {
    match ringtap_snmp::message::parse(&stored.raw).ok()? {
        Message::Community { version, pdu, .. } => Some(snmp_object(&Notification::new(version, &pdu).ok()??, names)),
        Message::V3(message) => {
            let bytes = match (message.data, &stored.decrypted) {
                (ScopedData::Plain(bytes), _) => bytes,
                (ScopedData::Encrypted(_), Some(plain)) => plain,
                (ScopedData::Encrypted(_), None) => return None,
            };
            let scoped = ScopedPdu::parse(bytes).ok()?;
            let mut object = snmp_object(&Notification::new(Version::V3, &scoped.pdu).ok()??, names);
            object["user"] = String::from_utf8_lossy(message.user).into();
            object["engine_id"] = hex(message.engine_id).into();
            object["context"] = String::from_utf8_lossy(scoped.context).into();
            Some(object)
        }
        Message::OtherVersion(_) => None,
    }
}

/// What a notification says. The community is left out: it is a secret of sorts.
pub fn snmp_object(notification: &Notification<'_>, names: &Names) -> Json {
    let mut object = Map::new();
    object.insert("version".into(), notification.version.name().into());
    object.insert("inform".into(), notification.inform.into());
    object.insert("trap_oid".into(), notification.oid().to_string().into());
    object.insert("trap".into(), names.name(notification.oid()).into());
    if let Some(ticks) = notification.uptime {
        object.insert("uptime_cs".into(), ticks.into());
    }
    if let Some(agent) = notification.agent {
        object.insert("agent".into(), agent.to_string().into());
    }
    if let Some(enterprise) = notification.enterprise {
        object.insert("enterprise".into(), names.name(enterprise).into());
    }
    let varbinds: Vec<Json> = notification
        .varbinds
        .iter()
        .map(|varbind| {
            json!({
                "oid": varbind.name.to_string(),
                "name": names.name(varbind.name),
                "value": names.value(varbind.name, &varbind.value),
            })
        })
        .collect();
    object.insert("varbinds".into(), varbinds.into());
    if notification.damaged {
        object.insert("damaged".into(), true.into());
    }
    object.into()
}

//! Owns: a message as one JSON line, its fields named as EVE names them, and the sensor's own in `ringtap`.
//! Does not: find the lines in a stream.
//!
//! ```json
//! {"timestamp":"2026-11-24T10:00:00.123456789+0000","event_type":"alert","src_ip":"192.0.2.1","src_port":40000,
//!  "dest_ip":"198.51.100.7","dest_port":80,"proto":"TCP","ip_v":4,"direction":"to_server","community_id":"1:…",
//!  "alert":{"action":"allowed","gid":1,"signature_id":77,"rev":1,"severity":1},
//!  "ringtap":{"sensor":"north","boot_id":"…","clock":"host","epoch":1795514400000000000,"sequence":1,
//!             "time_ns":1795514400123456789,"built_ns":1795514400123470000,"error_ns":null,"key_id":7,"mac":"…"}}
//! {"timestamp":"…","event_type":"heartbeat",
//!  "ringtap":{"sensor":"north","boot_id":"…","clock":"host","epoch":1795514400000000000,"last_sequence":1,
//!             "h_ns":1795514400195000000,"sent_ns":1795514400200000000,"error_ns":null,"key_id":7,"mac":"…"}}
//! ```
//!
//! `mac` is the seal of the same message as a datagram. So it does not cover `timestamp` and `ip_v`, which say again what `time_ns` (of
//! a heartbeat `sent_ns`) and the addresses say, nor fields that others add: a reader takes the [`Message`], not the line.
//! Numbers of nanoseconds are whole and need 64 bits.

use std::borrow::Cow;
use std::net::IpAddr;

use data_encoding::{BASE64, HEXLOWER};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::datagram::{MAX_LEN, has_ports};
use crate::key::{Key, TAG_LEN};
use crate::message::{Action, Alert, Clock, Direction, Ends, Heartbeat, Message, Origin, Rule, SensorId};
use crate::names::{protocol_name, protocol_number};
use crate::refused::Refused;

/// No line is longer, bytes, with its line feed.
pub const MAX_LINE: usize = 1024;

/// All fields of both kinds.
#[derive(Serialize, Deserialize)]
struct Fields<'a> {
    #[serde(skip_deserializing)]
    timestamp: String,
    #[serde(borrow)]
    event_type: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_ip: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_ip: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proto: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    ip_v: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    community_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alert: Option<AlertFields<'a>>,
    ringtap: SensorFields<'a>,
}

#[derive(Serialize, Deserialize)]
struct AlertFields<'a> {
    action: Cow<'a, str>,
    gid: u32,
    signature_id: u32,
    rev: u32,
    severity: u8,
}

#[derive(Serialize, Deserialize)]
struct SensorFields<'a> {
    sensor: Cow<'a, str>,
    boot_id: Cow<'a, str>,
    clock: Cow<'a, str>,
    epoch: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    built_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_sequence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    h_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_ns: Option<u64>,
    /// `null`: unknown.
    error_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mac: Option<Cow<'a, str>>,
}

/// Nanoseconds since 1970 as EVE writes a time, in UTC, to the nanosecond.
fn timestamp(ns: u64) -> String {
    // Any u64 of nanoseconds ends before the year 2555.
    let time = format!("{:.9}", Timestamp::from_nanosecond(ns.into()).unwrap_or_default());
    format!("{}+0000", time.trim_end_matches('Z'))
}

impl Message {
    /// Adds the line, with its line feed, and with the seal of `key` where there is one.
    pub fn write_line(&self, key: Option<&Key>, out: &mut Vec<u8>) {
        let mut fields = self.fields();
        let mut body = [0; MAX_LEN];
        let sealed = key.and_then(|key| Some((key, self.encode_body(key.id(), &mut body)?)));
        if let Some((key, len)) = sealed {
            fields.ringtap.key_id = Some(key.id());
            fields.ringtap.mac = Some(HEXLOWER.encode(&key.seal(&body[..len])).into());
        }
        // Into memory, from types that all have a form in JSON: no reason to fail.
        let _ = serde_json::to_writer(&mut *out, &fields);
        out.push(b'\n');
    }

    fn fields(&self) -> Fields<'_> {
        let origin = self.origin();
        let clock = match origin.clock {
            Clock::Host => "host",
            Clock::Recorded => "recorded",
        };
        let ringtap = SensorFields {
            sensor: origin.sensor.as_str().into(),
            boot_id: HEXLOWER.encode(&origin.boot_id).into(),
            clock: clock.into(),
            epoch: origin.epoch,
            sequence: None,
            time_ns: None,
            built_ns: None,
            last_sequence: None,
            h_ns: None,
            sent_ns: None,
            error_ns: None,
            key_id: None,
            mac: None,
        };
        let common = |event_type: &'static str, ns, ringtap| Fields {
            timestamp: timestamp(ns),
            event_type: event_type.into(),
            src_ip: None,
            src_port: None,
            dest_ip: None,
            dest_port: None,
            proto: None,
            ip_v: None,
            direction: None,
            community_id: None,
            alert: None,
            ringtap,
        };
        match self {
            Self::Heartbeat(beat) => {
                let Heartbeat { last_sequence, horizon_ns, sent_ns, error_ns, .. } = *beat;
                let (last_sequence, h_ns, sent) = (Some(last_sequence), Some(horizon_ns), Some(sent_ns));
                let ringtap = SensorFields { last_sequence, h_ns, sent_ns: sent, error_ns, ..ringtap };
                common("heartbeat", sent_ns, ringtap)
            }
            Self::Alert(alert) => {
                let (sequence, time_ns, built_ns) = (Some(alert.sequence), Some(alert.time_ns), Some(alert.built_ns));
                let error_ns = alert.error_ns;
                let ringtap = SensorFields { sequence, time_ns, built_ns, error_ns, ..ringtap };
                with_alert(common("alert", alert.time_ns, ringtap), alert)
            }
        }
    }
}

fn with_alert<'a>(fields: Fields<'a>, alert: &Alert) -> Fields<'a> {
    let Rule { gid, sid: signature_id, rev } = alert.rule;
    let action = match alert.action {
        Action::Allowed => "allowed",
        Action::Blocked => "blocked",
    };
    let direction = alert.direction.map(|direction| match direction {
        Direction::ToServer => Cow::from("to_server"),
        Direction::ToClient => "to_client".into(),
    });
    let ports = alert.ends.filter(|ends| has_ports(ends.protocol)).map(|ends| ends.ports);
    Fields {
        src_ip: alert.ends.map(|ends| ends.source),
        src_port: ports.map(|ports| ports.0),
        dest_ip: alert.ends.map(|ends| ends.destination),
        dest_port: ports.map(|ports| ports.1),
        proto: alert.ends.map(|ends| protocol_name(ends.protocol)),
        ip_v: alert.ends.map(|ends| if ends.source.is_ipv4() { 4 } else { 6 }),
        direction,
        community_id: alert.community.map(|hash| format!("1:{}", BASE64.encode(&hash)).into()),
        alert: Some(AlertFields { action: action.into(), gid, signature_id, rev, severity: alert.severity }),
        ..fields
    }
}

/// A line that looks like a message, of which nothing is to be believed yet but on a connection that is trusted.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    message: Message,
    seal: Option<(u32, [u8; TAG_LEN])>,
}

impl Line {
    /// Reads a line, with or without its line feed.
    ///
    /// # Errors
    /// It is longer than [`MAX_LINE`], is not JSON of this form, or has a field that no sensor writes so.
    pub fn parse(line: &[u8]) -> Result<Self, Refused> {
        if line.len() > MAX_LINE {
            return Err(Refused::Length);
        }
        let fields: Fields<'_> = serde_json::from_slice(line).map_err(|_| Refused::Foreign)?;
        let seal = match (fields.ringtap.key_id, &fields.ringtap.mac) {
            (None, None) => None,
            (Some(key_id), Some(mac)) => Some((key_id, bytes(mac).ok_or(Refused::Field("mac"))?)),
            _ => return Err(Refused::Field("mac")),
        };
        Ok(Self { message: message(&fields)?, seal })
    }

    /// The sensor it says it is from.
    #[must_use]
    pub fn sensor(&self) -> SensorId {
        self.message.origin().sensor
    }

    /// The number of the key it says it is sealed with, if it is sealed.
    #[must_use]
    pub fn key_id(&self) -> Option<u32> {
        self.seal.map(|(key_id, _)| key_id)
    }

    /// What it says, if this key has sealed it. Whether the key is that sensor's is for the caller to know.
    ///
    /// # Errors
    /// No seal, another key, or a wrong seal.
    pub fn open(&self, key: &Key) -> Result<Message, Refused> {
        let (key_id, tag) = self.seal.as_ref().ok_or(Refused::Unsealed)?;
        if *key_id != key.id() {
            return Err(Refused::OtherKey);
        }
        let mut body = [0; MAX_LEN];
        let len = self.message.encode_body(*key_id, &mut body).ok_or(Refused::Field("address"))?;
        if key.has_sealed(&body[..len], tag) { Ok(self.message) } else { Err(Refused::Forged) }
    }

    /// What it says, whoever wrote it.
    #[must_use]
    pub fn unverified(&self) -> &Message {
        &self.message
    }
}

fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    HEXLOWER.decode(digits.as_bytes()).ok()?.try_into().ok()
}

fn message(fields: &Fields<'_>) -> Result<Message, Refused> {
    let ringtap = &fields.ringtap;
    let clock = match &*ringtap.clock {
        "host" => Clock::Host,
        "recorded" => Clock::Recorded,
        _ => return Err(Refused::Field("clock")),
    };
    let origin = Origin {
        sensor: ringtap.sensor.parse().map_err(|_| Refused::Field("sensor's name"))?,
        boot_id: bytes(&ringtap.boot_id).ok_or(Refused::Field("boot id"))?,
        clock,
        epoch: ringtap.epoch,
    };
    // What means "unknown" in a datagram is no number here.
    let error_ns = ringtap.error_ns;
    if error_ns == Some(u64::MAX) {
        return Err(Refused::Field("error_ns"));
    }
    match &*fields.event_type {
        "heartbeat" => Ok(Message::Heartbeat(Heartbeat {
            origin,
            last_sequence: ringtap.last_sequence.ok_or(Refused::Field("last_sequence"))?,
            horizon_ns: ringtap.h_ns.ok_or(Refused::Field("h_ns"))?,
            sent_ns: ringtap.sent_ns.ok_or(Refused::Field("sent_ns"))?,
            error_ns,
        })),
        "alert" => alert(fields, origin).map(Message::Alert),
        _ => Err(Refused::Field("event_type")),
    }
}

fn alert(fields: &Fields<'_>, origin: Origin) -> Result<Alert, Refused> {
    let (ringtap, of_rule) = (&fields.ringtap, fields.alert.as_ref().ok_or(Refused::Field("alert"))?);
    let action = match &*of_rule.action {
        "allowed" => Action::Allowed,
        "blocked" => Action::Blocked,
        _ => return Err(Refused::Field("action")),
    };
    let direction = match fields.direction.as_deref() {
        None => None,
        Some("to_server") => Some(Direction::ToServer),
        Some("to_client") => Some(Direction::ToClient),
        Some(_) => return Err(Refused::Field("direction")),
    };
    let community = match &fields.community_id {
        None => None,
        Some(id) => {
            let hash = id.strip_prefix("1:").and_then(|text| BASE64.decode(text.as_bytes()).ok());
            Some(hash.and_then(|hash| hash.try_into().ok()).ok_or(Refused::Field("Community ID"))?)
        }
    };
    Ok(Alert {
        origin,
        sequence: ringtap.sequence.filter(|sequence| *sequence > 0).ok_or(Refused::Field("sequence"))?,
        time_ns: ringtap.time_ns.ok_or(Refused::Field("time_ns"))?,
        built_ns: ringtap.built_ns.ok_or(Refused::Field("built_ns"))?,
        error_ns: ringtap.error_ns,
        rule: Rule { gid: of_rule.gid, sid: of_rule.signature_id, rev: of_rule.rev },
        severity: of_rule.severity,
        action,
        ends: ends(fields)?,
        direction,
        community,
    })
}

fn ends(fields: &Fields<'_>) -> Result<Option<Ends>, Refused> {
    let (source, destination, proto) = match (fields.src_ip, fields.dest_ip, &fields.proto) {
        (None, None, None) if fields.src_port.or(fields.dest_port).is_none() => return Ok(None),
        (Some(source), Some(destination), Some(proto)) if source.is_ipv4() == destination.is_ipv4() => {
            (source, destination, proto)
        }
        _ => return Err(Refused::Field("address")),
    };
    let protocol = protocol_number(proto).ok_or(Refused::Field("proto"))?;
    let ports = match (fields.src_port, fields.dest_port, has_ports(protocol)) {
        (Some(from), Some(to), true) => (from, to),
        (None, None, false) => (0, 0),
        _ => return Err(Refused::Field("port")),
    };
    Ok(Some(Ends { source, destination, protocol, ports }))
}

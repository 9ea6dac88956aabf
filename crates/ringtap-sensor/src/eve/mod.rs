//! Owns: records as lines of EVE JSON, with the field names of Suricata's schema; what lines of all events have in common.
//! Does not: write the lines anywhere, or know what a protocol says: its file does.
//!
//! | file | events |
//! |---|---|
//! | `alert.rs` | `alert`, `packet` |
//! | `flow.rs` | `flow`, `netflow` |
//! | `transaction.rs` | those of protocols, and which file has which |
//! | `http.rs`, `dns.rs`, `tls.rs`, `ssh.rs`, `smtp.rs`, `ftp.rs` | the objects of these names |
//! | `fileinfo.rs` | `fileinfo` |

mod alert;
mod dns;
mod fileinfo;
mod flow;
mod ftp;
mod http;
mod smtp;
mod ssh;
mod tls;
mod transaction;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use ringtap_datagram::protocol_name;
use serde::Serialize;
use serde_json::{Value, json};

use crate::blinding::Change;
use crate::catalogue::Catalogue;
use crate::community::community_id;
use crate::identity::Who;
use crate::options::{Event, WithAlerts};
use crate::record::{AnomalyRecord, FlowFacts, Place, Record};
use ringtap_output::time::utc_micros;

/// Nanoseconds since 1970 as EVE writes a time, in UTC.
#[must_use]
pub fn timestamp(ns: u64) -> String {
    format!("{}+0000", utc_micros(ns))
}

/// What is the same for all lines of a run.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    /// Interface, of a live run.
    pub interface: Option<String>,
    /// Packets are numbered in the lines: in a replay, where numbers mean something.
    pub packet_numbers: bool,
    /// Seed of the Community ID.
    pub community_seed: u16,
    /// Mixed into flow numbers, so that those of two runs differ.
    pub flow_salt: u64,
    /// Texts of the rules.
    pub catalogue: Catalogue,
    /// Which events are told, where a record has several.
    pub events: Vec<Event>,
    /// What is written with alerts.
    pub with_alerts: Vec<WithAlerts>,
    /// Who the sensor is, where a correlator knows it.
    pub(crate) who: Option<Arc<Who>>,
}

#[derive(Serialize)]
struct Common<'a> {
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_iface: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pcap_cnt: Option<u64>,
    event_type: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    vlan: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_ip: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_ip: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proto: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip_v: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp_type: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp_code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pkt_src: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    community_id: Option<String>,
    #[serde(flatten)]
    rest: Value,
}

fn vlans(vlan: [u16; 2]) -> Vec<u16> {
    vlan.into_iter().filter(|&id| id != 0).collect()
}

impl Writer {
    /// The lines of a record, each with its line feed, at the end of `line`; `bytes` were pushed with it. Nothing for statistics, which
    /// need more ([`Self::write_stats`]), and for heartbeats, which are no event.
    pub fn write(&self, record: &Record, bytes: &[u8], line: &mut Vec<u8>) {
        let mut put = |common: Common<'_>| {
            // Into memory, from types that all have a form in JSON: no reason to fail.
            let _ = serde_json::to_writer(&mut *line, &common);
            line.push(b'\n');
        };
        match record {
            Record::Alert(alert) => put(self.alert(alert, bytes)),
            Record::Flow(flow) => self.flow_lines(flow, &mut put),
            Record::Anomaly(anomaly) => put(self.anomaly(anomaly)),
            Record::Tagged(tagged) => put(self.tagged(tagged, bytes)),
            Record::Transaction(record) => self.transaction_lines(record, bytes, &mut put),
            Record::Statistics(_) | Record::Heartbeat(_) => {}
        }
    }

    fn wants(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    /// A line of statistics: `counters` as the object of that name.
    pub fn write_stats(&self, now_ns: u64, uptime_s: u64, counters: &Value, line: &mut Vec<u8>) {
        let mut stats = counters.clone();
        if let Value::Object(stats) = &mut stats {
            stats.insert("uptime".to_owned(), uptime_s.into());
        }
        let object = json!({ "timestamp": timestamp(now_ns), "event_type": "stats", "stats": stats });
        let _ = serde_json::to_writer(&mut *line, &object);
        line.push(b'\n');
    }

    /// A line that says that the sensor is being blinded, or is not any more.
    pub(crate) fn write_change(&self, now_ns: u64, change: &Change, line: &mut Vec<u8>) {
        let object = json!({
            "timestamp": timestamp(now_ns),
            "event_type": "alarm",
            "alarm": {
                "condition": change.condition,
                "state": if change.is_raised { "raised" } else { "cleared" },
                "message": change.message(),
                "count": change.count,
                "of": change.of,
                "percent": change.percent(),
                "bound_percent": change.bound_percent,
                "interval_s": change.interval_s,
            },
        });
        let _ = serde_json::to_writer(&mut *line, &object);
        line.push(b'\n');
    }

    fn common(
        &self,
        event_type: &'static str,
        time_ns: u64,
        place: &Place,
        packet: Option<u64>,
        rest: Value,
    ) -> Common<'_> {
        let has_ports = matches!(place.protocol, 6 | 17 | 132);
        let ends = ((place.source, place.ports.0), (place.destination, place.ports.1));
        Common {
            timestamp: timestamp(time_ns),
            flow_id: None,
            in_iface: self.interface.as_deref(),
            pcap_cnt: packet.filter(|_| self.packet_numbers),
            event_type,
            vlan: vlans(place.vlan),
            src_ip: place.has_ip.then_some(place.source),
            src_port: has_ports.then_some(place.ports.0),
            dest_ip: place.has_ip.then_some(place.destination),
            dest_port: has_ports.then_some(place.ports.1),
            proto: place.has_ip.then(|| protocol_name(place.protocol)),
            ip_v: place.has_ip.then_some(if place.source.is_ipv4() { 4 } else { 6 }),
            icmp_type: place.icmp.map(|(kind, _)| kind),
            icmp_code: place.icmp.map(|(_, code)| code),
            pkt_src: None,
            community_id: place
                .has_ip
                .then(|| community_id(ends.0, ends.1, place.protocol, place.icmp, self.community_seed)),
            rest,
        }
    }

    /// Positive and below 2^53, so that every JSON reader keeps it.
    fn flow_id(&self, number: u64) -> u64 {
        (self.flow_salt.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 11).max(1)
    }

    fn anomaly(&self, anomaly: &AnomalyRecord) -> Common<'_> {
        let event = anomaly.event;
        let name = match event.kind() {
            "decode" => format!("decoder.{}", event.name()),
            _ => event.name().to_owned(),
        };
        let rest = json!({ "anomaly": { "type": event.kind(), "event": name } });
        self.common("anomaly", anomaly.time_ns, &anomaly.place, Some(anomaly.packet), rest)
    }
}

/// From a flow's client to its server.
fn place_of(flow: &FlowFacts, protocol: u8, vlan: [u16; 2]) -> Place {
    Place {
        source: flow.client.0,
        destination: flow.server.0,
        ports: (flow.client.1, flow.server.1),
        protocol,
        icmp: None,
        vlan,
        has_ip: true,
    }
}

/// Bytes as text; what is no UTF-8 becomes U+FFFD.
fn text(bytes: &[u8]) -> Value {
    json!(String::from_utf8_lossy(bytes))
}

/// Puts a text into an object, if it has any byte.
fn put_text(object: &mut Value, name: &str, bytes: &[u8]) {
    if !bytes.is_empty() {
        object[name] = text(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000000+0000");
        assert_eq!(timestamp(1_477_408_530_123_456_789), "2016-10-25T15:15:30.123456+0000");
    }
}

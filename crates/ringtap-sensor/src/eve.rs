//! Owns: records as lines of EVE JSON, with the field names of Suricata's schema.
//! Does not: write the lines anywhere.

use std::net::IpAddr;

use data_encoding::BASE64;
use ringtap_detect::{FlowEnd, Origin};
use serde::Serialize;
use serde_json::{Value, json};

use crate::catalogue::Catalogue;
use crate::community::community_id;
use crate::record::{AlertRecord, AnomalyRecord, FlowRecord, Place, Record, TaggedRecord};
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
    proto: Option<String>,
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

/// The schema's names of IP protocols.
fn protocol_name(protocol: u8) -> String {
    match protocol {
        0 => "",
        1 => "ICMP",
        2 => "IGMP",
        6 => "TCP",
        17 => "UDP",
        41 => "IPv6",
        47 => "GRE",
        50 => "ESP",
        51 => "AH",
        58 => "IPv6-ICMP",
        132 => "SCTP",
        other => return format!("{other:03}"),
    }
    .to_owned()
}

fn vlans(vlan: [u16; 2]) -> Vec<u16> {
    vlan.into_iter().filter(|&id| id != 0).collect()
}

impl Writer {
    /// One line, with its line feed, at the end of `line`. Nothing for statistics, which need more: [`Self::write_stats`].
    pub fn write(&self, record: &Record, line: &mut Vec<u8>) {
        let common = match record {
            Record::Alert(alert) => self.alert(alert),
            Record::Flow(flow) => self.flow(flow),
            Record::Anomaly(anomaly) => self.anomaly(anomaly),
            Record::Tagged(tagged) => self.tagged(tagged),
            Record::Statistics(_) => return,
        };
        // Into memory, from types that all have a form in JSON: no reason to fail.
        let _ = serde_json::to_writer(&mut *line, &common);
        line.push(b'\n');
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

    fn alert(&self, alert: &AlertRecord) -> Common<'_> {
        let fallback = crate::RuleText { action: "allowed", ..crate::RuleText::default() };
        let text = self.catalogue.find(alert.rule).unwrap_or(&fallback);
        let mut rest = json!({
            "alert": {
                "action": text.action,
                "gid": alert.rule.gid,
                "signature_id": alert.rule.sid,
                "rev": alert.rule.rev,
                "signature": text.signature,
                "category": text.category,
                "severity": alert.severity,
            },
            "direction": if alert.to_server { "to_server" } else { "to_client" },
            "ringtap": { "sequence": alert.sequence },
        });
        if !text.metadata.is_empty() {
            let by_key = text.metadata.iter().map(|(key, values)| (key.clone(), json!(values)));
            rest["alert"]["metadata"] = by_key.collect::<serde_json::Map<_, _>>().into();
        }
        if let Some(flow) = &alert.flow {
            rest["flow"] = json!({
                "pkts_toserver": flow.packets[0],
                "pkts_toclient": flow.packets[1],
                "bytes_toserver": flow.bytes[0],
                "bytes_toclient": flow.bytes[1],
                "start": timestamp(flow.first_ns),
                "src_ip": flow.client.0,
                "dest_ip": flow.server.0,
                "src_port": flow.client.1,
                "dest_port": flow.server.1,
            });
            if let Some(app) = flow.app {
                rest["app_proto"] = json!(app);
            }
        } else if let Value::Object(rest) = &mut rest {
            rest.remove("direction");
        }
        let mut common = self.common("alert", alert.time_ns, &alert.place, Some(alert.packet), rest);
        common.flow_id = alert.flow.as_ref().map(|flow| self.flow_id(flow.id));
        common.pkt_src = Some(match alert.origin {
            Origin::Packet => "wire/pcap",
            Origin::Fragments => "defrag",
            Origin::Stream => "stream (detect/log)",
            Origin::FlowEnd => "stream (flow timeout)",
        });
        common
    }

    fn flow(&self, record: &FlowRecord) -> Common<'_> {
        let flow = &record.flow;
        let reason = match record.end {
            FlowEnd::Timeout => "timeout",
            FlowEnd::Evicted => "forced",
            FlowEnd::Shutdown => "shutdown",
        };
        let closed = record.tcp.is_some_and(|(_, state)| state == ringtap_detect::TcpState::Closed);
        let state = match (closed, record.established) {
            (true, _) => "closed",
            (false, true) => "established",
            (false, false) => "new",
        };
        let mut rest = json!({
            "flow": {
                "pkts_toserver": flow.packets[0],
                "pkts_toclient": flow.packets[1],
                "bytes_toserver": flow.bytes[0],
                "bytes_toclient": flow.bytes[1],
                "start": timestamp(flow.first_ns),
                "end": timestamp(flow.last_ns),
                "age": flow.last_ns.saturating_sub(flow.first_ns) / 1_000_000_000,
                "state": state,
                "reason": reason,
                "alerted": record.alerted,
            },
        });
        if let Some(app) = flow.app {
            rest["app_proto"] = json!(app);
        }
        if let Some((flags, state)) = record.tcp {
            rest["tcp"] = json!({
                "tcp_flags": format!("{:02x}", flags[0] | flags[1]),
                "tcp_flags_ts": format!("{:02x}", flags[0]),
                "tcp_flags_tc": format!("{:02x}", flags[1]),
                "state": state.name(),
            });
        }
        let place = Place {
            source: flow.client.0,
            destination: flow.server.0,
            ports: (flow.client.1, flow.server.1),
            protocol: record.protocol,
            icmp: None,
            vlan: record.vlan,
            has_ip: true,
        };
        let mut common = self.common("flow", flow.last_ns, &place, None, rest);
        common.flow_id = Some(self.flow_id(flow.id));
        if matches!(record.protocol, 1 | 58) {
            // Type and code would be needed.
            common.community_id = None;
        }
        common
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

    fn tagged(&self, tagged: &TaggedRecord) -> Common<'_> {
        let bytes = &tagged.bytes[..usize::from(tagged.len).min(tagged.bytes.len())];
        let rule = tagged.rule;
        let rest = json!({
            "packet": BASE64.encode(bytes),
            "packet_info": { "linktype": tagged.link },
            "ringtap": { "tagged_by": { "gid": rule.gid, "signature_id": rule.sid, "rev": rule.rev }, "wire_len": tagged.wire_len },
        });
        let mut common = self.common("packet", tagged.time_ns, &tagged.place, Some(tagged.packet), rest);
        common.flow_id = tagged.flow.map(|number| self.flow_id(number));
        common
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

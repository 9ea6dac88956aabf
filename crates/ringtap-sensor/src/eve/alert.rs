//! Owns: `alert` and `packet`: what is said of an alert, its transaction, payload and packet.
//! Does not: number alerts.

use data_encoding::BASE64;
use ringtap_datagram::protocol_name;
use ringtap_detect::Origin;
use serde_json::{Value, json};

use super::{Common, Writer, timestamp, transaction};
use crate::options::WithAlerts;
use crate::record::{AlertRecord, TaggedRecord};

impl Writer {
    pub(super) fn alert(&self, alert: &AlertRecord, bytes: &[u8]) -> Common<'_> {
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
        if let Some(who) = &self.who {
            rest["ringtap"]["sensor"] = json!(who.sensor.as_str());
            rest["ringtap"]["epoch"] = json!(alert.epoch);
        }
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
        if let Some((outer, depth)) = &alert.tunnel {
            let mut tunnel = json!({
                "src_ip": outer.source,
                "dest_ip": outer.destination,
                "proto": protocol_name(outer.protocol),
                "depth": depth,
            });
            if outer.ports != (0, 0) {
                (tunnel["src_port"], tunnel["dest_port"]) = (json!(outer.ports.0), json!(outer.ports.1));
            }
            rest["tunnel"] = tunnel;
        }
        if let Some((name, is_whole)) = &alert.file {
            let state = if *is_whole { "CLOSED" } else { "UNKNOWN" };
            rest["files"] = json!([{ "filename": String::from_utf8_lossy(name.bytes()), "state": state }]);
            if let Some(command) = &alert.ftp_command {
                let (filename, command) = (String::from_utf8_lossy(name.bytes()), String::from_utf8_lossy(command));
                rest["ftp_data"] = json!({ "filename": filename, "command": command });
            }
        }
        self.put_bytes(alert, bytes, &mut rest);
        let mut common = self.common("alert", alert.time_ns, &alert.place, Some(alert.packet), rest);
        common.flow_id = alert.flow.as_ref().map(|flow| self.flow_id(flow.id));
        common.pkt_src = Some(match alert.origin {
            Origin::Packet => "wire/pcap",
            Origin::Fragments => "defrag",
            Origin::Stream => "stream (detect/log)",
            Origin::FlowEnd => "stream (flow timeout)",
            Origin::SideLine => "stream (other bytes)",
        });
        common
    }

    /// The transaction, the payload and the packet that go with an alert.
    fn put_bytes(&self, alert: &AlertRecord, bytes: &[u8], rest: &mut Value) {
        let parts = alert.parts(bytes);
        if let Some(found) = &parts.transaction {
            rest["tx_id"] = json!(found.id);
            transaction::put_objects(found, rest);
        }
        if let Some(facts) = alert.payload {
            if self.with_alerts.contains(&WithAlerts::Payload) {
                rest["payload"] = json!(BASE64.encode(parts.payload));
            }
            if self.with_alerts.contains(&WithAlerts::PayloadPrintable) {
                rest["payload_printable"] = json!(printable(parts.payload));
            }
            rest["stream"] = json!(u8::from(facts.is_stream));
            if facts.len < facts.of {
                // What is not there is said: the beginning of so many bytes.
                rest["ringtap"]["payload_bytes"] = json!(facts.of);
            }
        }
        if let Some(facts) = alert.frame {
            rest["packet"] = json!(BASE64.encode(parts.frame));
            rest["packet_info"] = json!({ "linktype": facts.link });
        }
    }

    pub(super) fn tagged(&self, tagged: &TaggedRecord, bytes: &[u8]) -> Common<'_> {
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

/// As text: what is not printable, and no end of a line, is a dot.
fn printable(bytes: &[u8]) -> String {
    let letter = |&byte: &u8| if matches!(byte, b' '..=b'~' | b'\r' | b'\n') { char::from(byte) } else { '.' };
    bytes.iter().map(letter).collect()
}

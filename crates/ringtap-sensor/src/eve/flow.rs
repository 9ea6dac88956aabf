//! Owns: `flow` and `netflow`: what a flow was when it ended, and each of its directions.
//! Does not: follow flows.

use ringtap_detect::FlowEnd;
use serde_json::{Value, json};

use super::{Common, Writer, place_of, timestamp};
use crate::options::Event;
use crate::record::{FlowFacts, FlowRecord, Place};

/// Names of TCP's flags, from the lowest bit on (RFC 9293 §3.1).
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"];

fn put_flags(flags: u8, tcp: &mut Value) {
    for (_, name) in FLAGS.into_iter().enumerate().filter(|(place, _)| flags & 1 << place != 0) {
        tcp[name] = json!(true);
    }
}

/// Seconds by the clock's whole seconds, as Suricata counts.
fn age_s(flow: &FlowFacts) -> u64 {
    (flow.last_ns / 1_000_000_000).saturating_sub(flow.first_ns / 1_000_000_000)
}

/// What of a TCP connection did not pass the sensor.
fn unseen(record: &FlowRecord) -> Vec<&'static str> {
    let (handshake, other_side) = record.unseen;
    let side = if record.flow.packets[0] == 0 { "to_server" } else { "to_client" };
    [(handshake, "handshake"), (other_side, side)].into_iter().filter_map(|(is, name)| is.then_some(name)).collect()
}

impl Writer {
    /// Those of a flow that are wanted.
    pub(super) fn flow_lines(&self, record: &FlowRecord, put: &mut impl FnMut(Common<'_>)) {
        if self.wants(Event::Flow) {
            put(self.flow(record));
        }
        if self.wants(Event::Netflow) {
            (0..2)
                .filter(|&side| side == 0 || record.flow.packets[side] > 0)
                .for_each(|side| put(self.netflow(record, side)));
        }
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
                "age": age_s(flow),
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
            put_flags(flags[0] | flags[1], &mut rest["tcp"]);
            let unseen = unseen(record);
            if !unseen.is_empty() {
                rest["tcp"]["unseen"] = json!(unseen);
            }
        }
        let place = place_of(flow, record.protocol, record.vlan);
        let mut common = self.common("flow", flow.last_ns, &place, None, rest);
        common.flow_id = Some(self.flow_id(flow.id));
        if matches!(record.protocol, 1 | 58) {
            // Type and code would be needed.
            common.community_id = None;
        }
        common
    }

    /// One direction; 0: the client's.
    fn netflow(&self, record: &FlowRecord, side: usize) -> Common<'_> {
        let flow = &record.flow;
        let (least, greatest) = record.hop_limits[side];
        let mut rest = json!({
            "netflow": {
                "pkts": flow.packets[side],
                "bytes": flow.bytes[side],
                "start": timestamp(flow.first_ns),
                "end": timestamp(flow.last_ns),
                "age": age_s(flow),
            },
        });
        if least <= greatest {
            (rest["netflow"]["min_ttl"], rest["netflow"]["max_ttl"]) = (json!(least), json!(greatest));
        }
        if let Some(app) = flow.app {
            rest["app_proto"] = json!(app);
        }
        if let Some((flags, _)) = record.tcp {
            rest["tcp"] = json!({ "tcp_flags": format!("{:02x}", flags[side]) });
            put_flags(flags[side], &mut rest["tcp"]);
        }
        let place = place_of(flow, record.protocol, record.vlan);
        let place = if side == 0 {
            place
        } else {
            Place {
                source: place.destination,
                destination: place.source,
                ports: (place.ports.1, place.ports.0),
                ..place
            }
        };
        let mut common = self.common("netflow", flow.last_ns, &place, None, rest);
        common.flow_id = Some(self.flow_id(flow.id));
        if matches!(record.protocol, 1 | 58) {
            common.community_id = None;
        }
        common
    }
}

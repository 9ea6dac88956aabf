//! MQTT 3.1, 3.1.1 and 5.0 (OASIS).
//!
//! Owns the definition, and what belongs to which buffer; packets are `parser.rs`'s, the names in rules are `keywords.rs`'s. A request
//! and its answer are one exchange: rules see both with the answer.

mod keywords;
mod parser;

use keywords as buffer;
pub use parser::{Connect, FixedHeader, MAX_HEADER, Packet, fixed_header, packet};

use super::dialog::{self, Frame, Talk, Talking};
use super::{Definition, Found, Reader, Recognition};

pub(super) const DEFINITION: Definition = Definition {
    name: "mqtt",
    rule_names: keywords::RULE_NAMES,
    keywords: keywords::KEYWORDS,
    recognition: Recognition::FirstBytes(begins),
    stream: Some(Reader::Messages(&Talk {
        begin: || dialog::State::Mqtt(State::default()),
        frame,
        read,
        announce: None,
        end: None,
    })),
    datagram: None,
    events: Some(buffer::EVENT),
};

/// What is kept of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// The client's CONNECT and the server's answer were there.
    has_connected: bool,
    is_accepted: bool,
    /// The version that CONNECT has named; 0 before.
    version: u8,
}

/// Whether bytes begin with a CONNECT; on its port, with any packet.
fn begins(bytes: &[u8], ports: (u16, u16)) -> bool {
    const PORT: u16 = 1883;
    let Some(Ok(header)) = fixed_header(bytes) else { return false };
    if ports.0 == PORT || ports.1 == PORT {
        return header.kind != 0;
    }
    let name = bytes.get(header.len..).unwrap_or_default();
    header.kind == parser::CONNECT && (name.starts_with(b"\0\x04MQTT") || name.starts_with(b"\0\x06MQIsdp"))
}

fn frame(_state: &dialog::State, _side: usize, bytes: &[u8]) -> Frame {
    match fixed_header(bytes) {
        Some(Ok(header)) => Frame::Message(header.len + header.rest),
        Some(Err(parser::Malformed)) => Frame::Lost,
        None => Frame::Incomplete,
    }
}

fn read(talking: &mut Talking<'_>, bytes: &[u8], found: &mut Found<'_>) -> bool {
    let dialog::State::Mqtt(state) = talking.state else { return false };
    // The request of an answer is shown again as it was before that.
    let (mut before, mut now) = (*state, *state);
    let Some(packet) = put(bytes, &mut now, found) else {
        *state = now;
        return true;
    };
    *state = now;
    // A request and its answer by who has asked for it.
    let key = |side: usize, kind: u32, id: u16| (side as u32) << 24 | kind << 16 | u32::from(id);
    let (own, other) = (talking.side, 1 - talking.side);
    let connect = key(0, 1, 0);
    let (asked, missing): (_, &[u8]) = match packet {
        Packet::Connect(_) => {
            talking.ask(connect, bytes);
            return true;
        }
        Packet::Publish { id: Some(id), .. } => {
            talking.ask(key(own, 3, id), bytes);
            return true;
        }
        Packet::Subscribe { id, .. } => {
            talking.ask(key(own, 8, id), bytes);
            return true;
        }
        Packet::Unsubscribe { id, .. } => {
            talking.ask(key(own, 10, id), bytes);
            return true;
        }
        Packet::ConnectAck { .. } => (connect, b"missing_connect"),
        Packet::PublishAck { id, is_last: true, .. } => (key(other, 3, id), b"missing_publish"),
        Packet::SubscribeAck { id, .. } => (key(other, 8, id), b"missing_subscribe"),
        Packet::UnsubscribeAck { id, .. } => (key(other, 10, id), b"missing_unsubscribe"),
        _ => return true,
    };
    match talking.answer(asked) {
        Some(request) => {
            put(request, &mut before, found);
        }
        None => found.add(buffer::EVENT, missing),
    }
    true
}

/// What rules see of one packet; `None` where it can't be read.
fn put<'p>(bytes: &'p [u8], state: &mut State, found: &mut Found<'_>) -> Option<Packet<'p>> {
    let Some(Ok(header)) = fixed_header(bytes) else { return None };
    found.add(buffer::TYPE, &[header.kind]);
    found.add(buffer::FLAGS, &[header.flags]);
    found.add(buffer::QOS, &[header.qos()]);
    if header.qos() == 3 {
        found.add(buffer::EVENT, b"invalid_qos_level");
    }
    if header.kind == 0 {
        found.add(buffer::EVENT, b"unassigned_msg_type");
        return None;
    }
    let Some(packet) = packet(&header, bytes.get(header.len..).unwrap_or_default(), state.version) else {
        found.add(buffer::EVENT, b"malformed_traffic");
        return None;
    };
    match &packet {
        Packet::Connect(connect) => {
            if state.has_connected && state.is_accepted {
                found.add(buffer::EVENT, b"double_connect");
            }
            (state.has_connected, state.version) = (true, connect.version);
            put_connect(connect, found);
        }
        Packet::ConnectAck { session_present, code } => {
            state.is_accepted = true;
            found.add(buffer::SESSION_PRESENT, &[u8::from(*session_present)]);
            found.add(buffer::REASON, &[*code]);
        }
        Packet::Publish { topic, message, .. } => {
            found.add(buffer::PUBLISH_TOPIC, topic);
            found.add(buffer::PUBLISH_MESSAGE, message);
        }
        Packet::PublishAck { code, .. } => found.add(buffer::REASON, &[*code]),
        Packet::Subscribe { topics, .. } => {
            parser::topics(topics, true).for_each(|topic| found.add(buffer::SUBSCRIBE_TOPIC, topic));
        }
        Packet::Unsubscribe { topics, .. } => {
            parser::topics(topics, false).for_each(|topic| found.add(buffer::UNSUBSCRIBE_TOPIC, topic));
        }
        Packet::SubscribeAck { codes, .. } | Packet::UnsubscribeAck { codes, .. } => {
            codes.iter().for_each(|code| found.add(buffer::REASON, &[*code]));
        }
        Packet::Disconnect { code } => found.add(buffer::REASON, &[*code]),
        Packet::Other => {}
    }
    found.add(buffer::VERSION, &[state.version]);
    if !state.has_connected && !matches!(packet, Packet::ConnectAck { .. }) {
        found.add(buffer::EVENT, b"unintroduced_message");
    }
    Some(packet)
}

fn put_connect(connect: &Connect<'_>, found: &mut Found<'_>) {
    found.add(buffer::CLIENT_ID, connect.client_id);
    found.add(buffer::CONNECT_FLAGS, &[connect.flags]);
    found.add(buffer::PROTOCOL, connect.protocol);
    for (number, value) in [
        (buffer::USERNAME, connect.username),
        (buffer::PASSWORD, connect.password),
        (buffer::WILL_TOPIC, connect.will_topic),
        (buffer::WILL_MESSAGE, connect.will_message),
    ] {
        if let Some(value) = value {
            found.add(number, value);
        }
    }
}

//! SNMP and syslog in capture files, by us and by tshark: the same messages, field by field. Shared by the tests over our own
//! captures and by the conformance suite.
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringtap_samples::read;
use ringtap_snmp::message::{self, Message, Pdu, PduHead, ScopedData, ScopedPdu};
use ringtap_snmp::varbind::{Value, Varbinds};
use ringtap_station::syslog::{self, Framer};
use ringtap_wire::{Layers, LinkType};

/// Fields of each packet that the filter keeps, as tshark shows them.
pub fn tshark(test: &str, file: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-Y", filter, "-T", "fields", "-E", "separator=\u{1}", "-E", "aggregator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap_or_else(|error| panic!("did not run: {test}: tshark: {error}"));
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.split('\u{1}').map(str::to_owned).collect())
        .collect()
}

/// tshark's fields of values. Unsigned32 and Gauge32 are one type (RFC 2578 §7.1.7), for which it has two.
pub const VALUES: [&str; 7] = [
    "snmp.value.int",
    "snmp.value.octets",
    "snmp.value.oid",
    "snmp.value.ipv4",
    "snmp.value.counter",
    "snmp.value.u32",
    "snmp.value.timeticks",
];

/// Values in tshark's words, by field.
fn values(varbinds: Varbinds<'_>) -> [Vec<String>; VALUES.len()] {
    let mut found: [Vec<String>; VALUES.len()] = Default::default();
    for varbind in varbinds.iter() {
        let (field, text) = match varbind.value {
            Value::Integer(number) => (0, number.to_string()),
            Value::OctetString([]) => (1, "<MISSING>".to_owned()),
            Value::OctetString(bytes) => (1, bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
            Value::ObjectId(oid) => (2, oid.to_string()),
            Value::IpAddress(address) => (3, address.to_string()),
            Value::Counter32(number) | Value::Counter64(number) => (4, number.to_string()),
            Value::Gauge32(number) => (5, number.to_string()),
            Value::TimeTicks(number) => (6, number.to_string()),
            // Shown without a value.
            Value::Null | Value::Exception(_) => continue,
            Value::Opaque(_) | Value::Other { .. } => panic!("no capture has {varbind:?} so far"),
        };
        found[field].push(text);
    }
    found
}

/// What we say of a PDU in tshark's words: request-id, number of varbinds, their names; and their values. `None` where it is damaged.
pub fn words(pdu: &Pdu<'_>) -> Option<([String; 3], [Vec<String>; VALUES.len()])> {
    if pdu.varbinds.is_damaged() {
        return None;
    }
    let names: Vec<String> = pdu.varbinds.iter().map(|varbind| varbind.name.to_string()).collect();
    let request = match pdu.head {
        PduHead::Common { request_id, .. } => request_id.to_string(),
        PduHead::V1Trap { .. } => String::new(),
    };
    Some(([request, names.len().to_string(), names.join("|")], values(pdu.varbinds)))
}

/// What we say of a message in tshark's words: version, request-id, number of varbinds, their names; and their values.
fn ours(datagram: &[u8]) -> Option<([String; 4], [Vec<String>; VALUES.len()])> {
    let (version, pdu) = match message::parse(datagram).ok()? {
        Message::Community { version, pdu, .. } => (if version == message::Version::V1 { "0" } else { "1" }, pdu),
        Message::V3(message) => match message.data {
            ScopedData::Plain(bytes) => ("3", ScopedPdu::parse(bytes).ok()?.pdu),
            ScopedData::Encrypted(_) => return None,
        },
        Message::OtherVersion(_) => return None,
    };
    let ([request, count, names], values) = words(&pdu)?;
    Some(([version.to_owned(), request, count, names], values))
}

/// Every message of SNMP in the files as tshark says, field by field: how many were compared, and the fields of values they had.
pub fn snmp_decodes_as_tshark_says(test: &str, files: &[PathBuf]) -> (usize, BTreeSet<&'static str>) {
    let mut compared = 0;
    let mut kinds = BTreeSet::new();
    for file in files {
        let fields =
            ["frame.number", "snmp.version", "snmp.request_id", "snmp.name", "snmp.msgVersion", "snmp.value.g32"];
        let theirs = tshark(test, file, "snmp && udp", &[&fields[..], &VALUES].concat());
        let frames = read::packets(file).0;
        for row in theirs {
            let number: u64 = row[0].parse().unwrap();
            let frame = &frames[number as usize - 1].data;
            let layers = Layers::parse(frame, LinkType::Ethernet);
            let ours = ours(layers.payload(frame));
            let place = format!("{} packet {number}", file.display());
            let their_version = if row[4].is_empty() { &row[1] } else { &row[4] };
            // Encrypted, for which tshark has no password either; or nothing that it could read ("not conforming").
            if row[2].is_empty() && row[3].is_empty() && their_version != "0" {
                assert_eq!(ours, None, "{place}: {row:?}");
                continue;
            }
            let Some(([version, request, count, names], values)) = ours else {
                panic!("{place}: tshark reads {row:?}, we do not: {:?}", message::parse(layers.payload(frame)));
            };
            let their_count = if row[3].is_empty() { 0 } else { row[3].split('|').count() };
            assert_eq!((&version, &request), (their_version, &row[2]), "{place}");
            assert_eq!(count, their_count.to_string(), "{place}");
            assert_eq!(names, row[3], "{place}");
            for (index, (field, ours)) in VALUES.iter().zip(&values).enumerate() {
                let mut theirs = row[6 + index].clone();
                if *field == "snmp.value.u32" && theirs.is_empty() {
                    theirs.clone_from(&row[5]);
                }
                assert_eq!(ours.join("|"), theirs, "{place}: {field}");
                kinds.extend(ours.first().map(|_| *field));
            }
            compared += 1;
        }
    }
    (compared, kinds)
}

/// Every datagram of syslog in the files as tshark says; how many there were.
pub fn syslog_decodes_as_tshark_says(test: &str, files: &[PathBuf]) -> usize {
    let mut compared = 0;
    for file in files {
        let fields = ["frame.number", "syslog.facility", "syslog.level", "syslog.msg"];
        let theirs = tshark(test, file, "syslog && udp", &fields);
        let frames = read::packets(file).0;
        for row in theirs {
            let number: usize = row[0].parse().unwrap();
            let frame = &frames[number - 1].data;
            let layers = Layers::parse(frame, LinkType::Ethernet);
            let message = syslog::parse(layers.payload(frame)).unwrap();
            let place = format!("{} packet {number}: {message:?}", file.display());
            assert_eq!(message.has_priority, !row[1].is_empty(), "{place}");
            if message.has_priority {
                assert_eq!(
                    (message.facility.to_string(), message.severity.to_string()),
                    (row[1].clone(), row[2].clone()),
                    "{place}"
                );
            }
            assert!(row[3].contains(message.text.lines().next().unwrap_or_default()), "{place}");
            compared += 1;
        }
    }
    compared
}

/// Messages of syslog over TCP whose segments are these packets: all of `su`, without a loss, with these priorities.
pub fn assert_stream<'p>(name: &str, packets: impl Iterator<Item = (&'p [u8], LinkType)>, expected: &[u8]) {
    let mut framer = Framer::default();
    let mut messages = Vec::new();
    let mut losses = Vec::new();
    for (packet, link) in packets {
        let layers = Layers::parse(packet, link);
        framer.push(layers.payload(packet), |bytes| messages.extend(syslog::parse(bytes)), |cause| losses.push(cause));
    }
    framer.finish(|bytes| messages.extend(syslog::parse(bytes)), |cause| losses.push(cause));
    let priorities: Vec<u8> = messages.iter().map(|message| message.facility * 8 + message.severity).collect();
    assert_eq!((priorities.as_slice(), losses.as_slice()), (expected, &[][..]), "{name}: {messages:?}");
    assert!(messages.iter().all(|message| message.app.as_deref() == Some("su")), "{messages:?}");
}

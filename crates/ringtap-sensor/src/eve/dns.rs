//! Owns: the object `dns`: a question, or an answer with its records, as version 2 of EVE's format has them.
//! Does not: read messages (`ringtap-detect` does).

use ringtap_detect::Transaction;
use ringtap_detect::protocol::dns::{Answer, Data, Message, message};
use serde_json::{Value, json};

use super::text;

/// One object for each question; of an answer one for all of it.
pub(super) fn events(transaction: &Transaction<'_>, put: &mut dyn FnMut(Value)) {
    let Some(message) = message(transaction.said[0]) else { return };
    if message.is_answer() {
        put(answer(&message));
    } else {
        questions(&message, transaction.id).into_iter().for_each(put);
    }
}

/// The same as an alert has it.
pub(super) fn of_alert(transaction: &Transaction<'_>) -> Value {
    match message(transaction.said[0]) {
        Some(message) if message.is_answer() => json!({ "answer": answer(&message) }),
        Some(message) => json!({ "query": questions(&message, transaction.id) }),
        None => json!({}),
    }
}

fn questions(message: &Message, transaction: u32) -> Vec<Value> {
    let question = |question: &ringtap_detect::protocol::dns::Question| {
        json!({
            "version": 2,
            "type": "query",
            "id": message.id,
            "rrname": text(&question.name),
            "rrtype": kind_name(question.kind),
            "tx_id": transaction,
            "opcode": message.opcode(),
        })
    };
    let mut objects: Vec<Value> = message.questions.iter().map(question).collect();
    if let Some(last) = objects.last_mut() {
        mark(last, message);
    }
    objects
}

/// Where the message has more than is told.
fn mark(object: &mut Value, message: &Message) {
    if message.is_cut {
        object["ringtap"] = json!({ "is_cut": true });
    }
}

fn answer(message: &Message) -> Value {
    let mut object = json!({
        "version": 2,
        "type": "answer",
        "id": message.id,
        "flags": format!("{:x}", message.flags),
        "qr": true,
        "opcode": message.opcode(),
        "rcode": rcode_name(message.rcode()),
    });
    for (name, bit) in [("aa", 0x0400u16), ("tc", 0x0200), ("rd", 0x0100), ("ra", 0x0080), ("z", 0x0040)] {
        if message.flags & bit != 0 {
            object[name] = json!(true);
        }
    }
    if let Some(question) = message.questions.first() {
        object["rrname"] = text(&question.name);
        object["rrtype"] = json!(kind_name(question.kind));
    }
    if !message.answers.is_empty() {
        object["answers"] = message.answers.iter().map(record).collect();
        for answer in &message.answers {
            let value = match &answer.data {
                Data::V4(_) | Data::V6(_) | Data::Name(_) | Data::Text(_) => data(&answer.data),
                Data::Soa { .. } => record(answer).get("soa").cloned(),
                Data::Srv(..) => record(answer).get("srv").cloned(),
                Data::Fingerprint(..) => record(answer).get("sshfp").cloned(),
                _ => None,
            };
            if let Some(value) = value {
                let list = &mut object["grouped"][kind_name(answer.kind)];
                match list.as_array_mut() {
                    Some(list) => list.push(value),
                    None => *list = json!([value]),
                }
            }
        }
    }
    if !message.authorities.is_empty() {
        object["authorities"] = message.authorities.iter().map(record).collect();
    }
    mark(&mut object, message);
    object
}

fn record(answer: &Answer) -> Value {
    let mut object = json!({ "rrname": text(&answer.name), "rrtype": kind_name(answer.kind), "ttl": answer.ttl });
    match &answer.data {
        Data::Soa { server, mailbox, numbers: [serial, refresh, retry, expire, minimum] } => {
            object["soa"] = json!({
                "mname": text(server), "rname": text(mailbox), "serial": serial, "refresh": refresh, "retry": retry,
                "expire": expire, "minimum": minimum,
            });
        }
        Data::Srv([priority, weight, port], target) => {
            object["srv"] = json!({ "priority": priority, "weight": weight, "port": port, "name": text(target) });
        }
        Data::Fingerprint(algorithm, kind, digest) => {
            let digits: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            object["sshfp"] = json!({ "fingerprint": digits.join(":"), "algo": algorithm, "type": kind });
        }
        simple => {
            if let Some(value) = data(simple) {
                object["rdata"] = value;
            }
        }
    }
    object
}

fn data(data: &Data) -> Option<Value> {
    match data {
        Data::V4(address) => Some(json!(address)),
        Data::V6(address) => Some(json!(full(*address))),
        Data::Name(bytes) | Data::Text(bytes) => Some(text(bytes)),
        _ => None,
    }
}

/// As EVE has addresses in answers: no group left out.
fn full(address: std::net::Ipv6Addr) -> String {
    address.segments().map(|group| format!("{group:04x}")).join(":")
}

/// Types that have names (IANA "Resource Record (RR) TYPEs"); others are numbers.
const KINDS: &[(u16, &str)] = &[
    (1, "A"),
    (2, "NS"),
    (3, "MD"),
    (4, "MF"),
    (5, "CNAME"),
    (6, "SOA"),
    (7, "MB"),
    (8, "MG"),
    (9, "MR"),
    (10, "NULL"),
    (11, "WKS"),
    (12, "PTR"),
    (13, "HINFO"),
    (14, "MINFO"),
    (15, "MX"),
    (16, "TXT"),
    (17, "RP"),
    (18, "AFSDB"),
    (19, "X25"),
    (20, "ISDN"),
    (21, "RT"),
    (22, "NSAP"),
    (23, "NSAPPTR"),
    (24, "SIG"),
    (25, "KEY"),
    (26, "PX"),
    (27, "GPOS"),
    (28, "AAAA"),
    (29, "LOC"),
    (30, "NXT"),
    (33, "SRV"),
    (34, "ATMA"),
    (35, "NAPTR"),
    (36, "KX"),
    (37, "CERT"),
    (38, "A6"),
    (39, "DNAME"),
    (41, "OPT"),
    (42, "APL"),
    (43, "DS"),
    (44, "SSHFP"),
    (45, "IPSECKEY"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (49, "DHCID"),
    (50, "NSEC3"),
    (51, "NSEC3PARAM"),
    (52, "TLSA"),
    (55, "HIP"),
    (59, "CDS"),
    (60, "CDNSKEY"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (99, "SPF"),
    (249, "TKEY"),
    (250, "TSIG"),
    (251, "IXFR"),
    (252, "AXFR"),
    (253, "MAILB"),
    (254, "MAILA"),
    (255, "ANY"),
    (256, "URI"),
];

fn kind_name(kind: u16) -> String {
    KINDS.iter().find(|(of, _)| *of == kind).map_or_else(|| kind.to_string(), |(_, name)| (*name).to_owned())
}

/// What a server says (IANA "DNS RCODEs").
fn rcode_name(rcode: u8) -> String {
    const NAMES: [&str; 11] = [
        "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
        "NOTZONE",
    ];
    NAMES.get(usize::from(rcode)).map_or_else(|| rcode.to_string(), |name| (*name).to_owned())
}

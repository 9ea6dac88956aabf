//! Owns: the object `tls`: what both sides say in a handshake that is not encrypted.
//! Does not: read messages (`ringtap-detect` does).

use ringtap_detect::Transaction;
use ringtap_detect::protocol::tls::{self, CERTIFICATE, CLIENT_HELLO, SERVER_HELLO, Text};
use serde_json::{Value, json};

use super::{put_text, text};

pub(super) fn object(transaction: &Transaction<'_>) -> Value {
    let mut object = json!({});
    let [client, server] = transaction.said;
    let hello = |said, kind| tls::messages(said).find(|(of, _)| *of == kind).map(|(_, body)| body);
    if let Some(der) = hello(server, CERTIFICATE).and_then(|body| tls::certificates(body).next()) {
        put_certificate(der, &mut object);
    }
    let [asking, answering] = [hello(client, CLIENT_HELLO), hello(server, SERVER_HELLO)];
    let asked = asking.and_then(tls::client_hello);
    let answered = answering.and_then(tls::server_hello);
    if let Some(name) = asked.and_then(|hello| hello.server_name()) {
        put_text(&mut object, "sni", name);
    }
    if let Some(version) = answered.or(asked).map(|hello| hello.version()) {
        object["version"] = json!(version_name(version));
    }
    for (name, hello, body) in [("ja3", asked, asking), ("ja3s", answered, answering)] {
        if let Some((hello, body)) = hello.zip(body) {
            // A byte of point formats has four letters at most, two bytes of the rest have six.
            let mut string = Vec::with_capacity(4 * body.len() + 32);
            hello.ja3(&mut Text(&mut string));
            object[name] = json!({ "hash": text(&tls::md5_hex(&string)), "string": text(&string) });
        }
    }
    object
}

/// A version as EVE names it.
fn version_name(version: u16) -> String {
    match version {
        0x0200 => "SSLv2".to_owned(),
        0x0300 => "SSLv3".to_owned(),
        0x0301 => "TLSv1".to_owned(),
        0x0302..=0x0304 => format!("TLS 1.{}", version - 0x0301),
        0x7f00..=0x7fff => format!("TLS 1.3 draft-{}", version & 0xff),
        _ => "UNDETERMINED".to_owned(),
    }
}

fn put_certificate(der: &[u8], object: &mut Value) {
    if let Some(certificate) = tls::certificate(der) {
        let [mut subject, mut issuer, mut serial] = [const { Vec::new() }; 3];
        certificate.subject(&mut |part| subject.extend_from_slice(part));
        certificate.issuer(&mut |part| issuer.extend_from_slice(part));
        certificate.serial_text(&mut |part| serial.extend_from_slice(part));
        for (name, bytes) in [("subject", subject), ("issuerdn", issuer), ("serial", serial)] {
            put_text(object, name, &bytes);
        }
        if let Some([from, to]) = certificate.validity() {
            (object["notbefore"], object["notafter"]) = (json!(from), json!(to));
        }
    }
    object["fingerprint"] = text(&tls::fingerprint(der));
}

//! Owns: events of protocols: which there are of a record, and which object has what was said.
//! Does not: read what was said; the protocol's file does.

use ringtap_detect::Transaction;
use serde_json::{Value, json};

use super::{Common, Writer, dns, fileinfo, ftp, http, place_of, smtp, ssh, tls};
use crate::options::Event;
use crate::record::TransactionRecord;

/// Puts the objects of a transaction into an alert or a file's event.
pub(super) fn put_objects(transaction: &Transaction<'_>, rest: &mut Value) {
    match transaction.app {
        "http" => rest["http"] = http::object(transaction),
        "dns" => rest["dns"] = dns::of_alert(transaction),
        "tls" => rest["tls"] = tls::object(transaction),
        "ssh" => rest["ssh"] = ssh::object(transaction),
        "smtp" => smtp::put(transaction, rest),
        _ => {}
    }
}

impl Writer {
    /// Those of a transaction that are wanted.
    pub(super) fn transaction_lines(&self, record: &TransactionRecord, bytes: &[u8], put: &mut impl FnMut(Common<'_>)) {
        let (transaction, rest) = record.said.transaction(bytes);
        let id = transaction.id;
        if let Some((is_whole, size)) = record.file {
            let name = rest.to_vec();
            let mail = fileinfo::File { name, size, is_whole, has_gap: false, is_cut: false, side: 0 };
            let file = match transaction.app {
                "ftp-data" => fileinfo::File { side: ftp::file(&transaction).0, is_cut: !is_whole, ..mail },
                _ => mail,
            };
            put(self.file(record, &transaction, &file));
            return;
        }
        let mut event = |kind, rest| put(self.of_transaction(kind, record, rest));
        match transaction.app {
            "http" => {
                if self.wants(Event::Http) {
                    event("http", json!({ "tx_id": id, "http": http::object(&transaction) }));
                }
                if self.wants(Event::Fileinfo) {
                    for file in fileinfo::of_http(&transaction) {
                        put(self.file(record, &transaction, &file));
                    }
                }
            }
            "dns" => dns::events(&transaction, &mut |object| event("dns", json!({ "dns": object }))),
            "tls" => event("tls", json!({ "tls": tls::object(&transaction) })),
            "ssh" => event("ssh", json!({ "tx_id": id, "ssh": ssh::object(&transaction) })),
            "ftp" => event("ftp", json!({ "tx_id": id, "ftp": ftp::object(&transaction) })),
            "ftp-data" => event("ftp_data", json!({ "tx_id": id, "ftp_data": ftp::data(&transaction) })),
            "smtp" => {
                let mut rest = json!({ "tx_id": id });
                smtp::put(&transaction, &mut rest);
                event("smtp", rest);
            }
            _ => {}
        }
    }

    /// An event about a transaction, from client to server.
    pub(super) fn of_transaction(&self, kind: &'static str, record: &TransactionRecord, rest: Value) -> Common<'_> {
        let place = place_of(&record.flow, record.protocol, record.vlan);
        let mut common = self.common(kind, record.time_ns, &place, None, rest);
        common.flow_id = Some(self.flow_id(record.flow.id));
        common.pkt_src = Some("wire/pcap");
        common
    }
}

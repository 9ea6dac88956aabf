//! Owns: the object `ssh`: the banners of both sides.
//! Does not: read banners (`ringtap-detect` does).

use ringtap_detect::Transaction;
use ringtap_detect::protocol::ssh::{Banner, banner};
use serde_json::{Value, json};

use super::text;

pub(super) fn object(transaction: &Transaction<'_>) -> Value {
    let mut object = json!({});
    for (name, said) in ["client", "server"].into_iter().zip(transaction.said) {
        if let Banner::Line { protocol, software } = banner(said) {
            object[name] = json!({ "proto_version": text(protocol), "software_version": text(software) });
        }
    }
    object
}

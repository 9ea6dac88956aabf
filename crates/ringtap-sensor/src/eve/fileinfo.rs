//! Owns: `fileinfo`: files in transactions.
//! Does not: keep files, or their digests.

use ringtap_detect::{HttpView, Transaction};
use serde_json::json;

use super::{Common, Writer, text, transaction};
use crate::record::TransactionRecord;

/// A file in a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) name: Vec<u8>,
    pub(super) size: u64,
    pub(super) is_whole: bool,
    pub(super) is_cut: bool,
    pub(super) has_gap: bool,
    /// Who sends it: 0 is the client.
    pub(super) side: usize,
}

/// The contents of a request and its response.
pub(super) fn of_http(transaction: &Transaction<'_>) -> impl Iterator<Item = File> {
    let view = HttpView::new(transaction.said);
    let contents = transaction.contents;
    let target = view.target().to_vec();
    let named = file_name(view.response_field(b"content-disposition"));
    (0..2).filter(move |&side| contents[side].decoded > 0).map(move |side| {
        let content = contents[side];
        let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
        let name = if side == 1 && !named.is_empty() { &named } else { path };
        File {
            name: name.to_vec(),
            size: content.decoded,
            is_whole: content.is_whole,
            is_cut: content.is_cut,
            has_gap: content.has_gap,
            side,
        }
    })
}

/// The name in a Content-Disposition (RFC 6266).
fn file_name(value: &[u8]) -> Vec<u8> {
    let parts = value.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let mut names = parts.filter_map(|part| {
        let (word, name) = part.split_at_checked(9)?;
        word.eq_ignore_ascii_case(b"filename=").then_some(name)
    });
    let name = names.next().unwrap_or_default();
    name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(name).to_vec()
}

impl Writer {
    pub(super) fn file(&self, record: &TransactionRecord, of: &Transaction<'_>, file: &File) -> Common<'_> {
        let state = match (file.is_whole, file.is_cut) {
            (_, true) => "TRUNCATED",
            (true, false) => "CLOSED",
            (false, false) => "UNKNOWN",
        };
        let mut rest = json!({
            "fileinfo": {
                "filename": text(&file.name),
                "gaps": file.has_gap,
                "state": state,
                "stored": false,
                "size": file.size,
                "tx_id": of.id,
            },
            "app_proto": of.app,
        });
        transaction::put_objects(of, &mut rest);
        let mut common = self.of_transaction("fileinfo", record, rest);
        if file.side == 1 {
            // As it goes.
            std::mem::swap(&mut common.src_ip, &mut common.dest_ip);
            std::mem::swap(&mut common.src_port, &mut common.dest_port);
        }
        common
    }
}

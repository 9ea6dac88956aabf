//! Owns: SMB in the rule language.
//! Does not: read messages.

use crate::protocol::{Keyword, dcerpc, file_extension, file_name};

pub(super) const RULE_NAMES: &[&str] = &["smb"];

/// The pipe's share, or another, that a client wants.
pub(super) const NAMED_PIPE: u8 = 0;
pub(super) const SHARE: u8 = 1;
/// Calls in a pipe, as DCE/RPC has them.
pub(super) const IFACE: u8 = 2;
pub(super) const OPNUM: u8 = 3;
pub(super) const STUB: u8 = 4;
/// What is written to a file or read from it, by message.
pub(super) const FILE: u8 = 5;
pub(super) const EVENT: u8 = 6;
pub(super) const FILE_NAME: u8 = 7;

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::buffer(NAMED_PIPE, &["smb.named_pipe", "smb_named_pipe"]),
    Keyword::buffer(SHARE, &["smb.share", "smb_share"]),
    Keyword::value(IFACE, &["dcerpc.iface", "dce_iface"], dcerpc::iface),
    Keyword::value(OPNUM, &["dcerpc.opnum", "dce_opnum"], dcerpc::opnum),
    Keyword::buffer(STUB, &["dcerpc.stub_data", "dce_stub_data"]),
    Keyword::buffer(FILE, &["file.data", "file_data"]),
    Keyword::buffer(EVENT, &[]),
    Keyword::buffer(FILE_NAME, &["file.name"]).also_value(&[("filename", file_name), ("fileext", file_extension)]),
];

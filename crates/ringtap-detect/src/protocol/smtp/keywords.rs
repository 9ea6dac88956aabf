//! Owns: SMTP in the rule language.
//! Does not: read sessions.

use crate::protocol::{Keyword, file_extension, file_name};

/// What a client says it is, and whose message it brings to whom.
pub(super) const HELO: u8 = 0;
pub(super) const MAIL_FROM: u8 = 1;
pub(super) const RCPT_TO: u8 = 2;
/// A message's file, as far as it has come, and its name.
pub(super) const FILE: u8 = 3;
pub(super) const FILE_NAME: u8 = 4;
pub(super) const EVENT: u8 = 5;

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::buffer(HELO, &["smtp.helo"]),
    Keyword::buffer(MAIL_FROM, &["smtp.mail_from"]),
    Keyword::buffer(RCPT_TO, &["smtp.rcpt_to"]),
    Keyword::buffer(FILE, &["file.data", "file_data"]),
    Keyword::buffer(FILE_NAME, &["file.name"]).also_value(&[("filename", file_name), ("fileext", file_extension)]),
    Keyword::buffer(EVENT, &[]),
];

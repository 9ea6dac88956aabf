//! Owns: the objects `smtp` and `email`: who sends a message to whom, and its fields.
//! Does not: read sessions (`ringtap-detect` does).

use ringtap_detect::Transaction;
use ringtap_detect::protocol::smtp::{Note, notes};
use serde_json::{Value, json};

use super::text;

/// What is behind a word, if the line begins with it in any case.
fn behind<'l>(line: &'l [u8], word: &[u8]) -> Option<&'l [u8]> {
    let (head, rest) = line.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then(|| rest.trim_ascii())
}

/// An address of an envelope: up to the end of the brackets, parameters behind them are left out (RFC 5321 §4.1.2).
fn path(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|&byte| byte == b'>').map_or(text.len(), |at| at + 1);
    &text[..end]
}

pub(super) fn put(transaction: &Transaction<'_>, rest: &mut Value) {
    let (mut smtp, mut recipients) = (json!({}), Vec::new());
    let (mut fields, mut files) = (Vec::<Vec<u8>>::new(), Vec::new());
    for (kind, line) in notes(transaction.said[0]) {
        match kind {
            Note::Command => {
                if let Some(name) = behind(line, b"EHLO ").or_else(|| behind(line, b"HELO ")) {
                    smtp["helo"] = text(name);
                } else if let Some(from) = behind(line, b"MAIL FROM:") {
                    smtp["mail_from"] = text(path(from));
                } else if let Some(to) = behind(line, b"RCPT TO:") {
                    recipients.push(text(path(to)));
                }
            }
            Note::Field if matches!(line.first(), Some(b' ' | b'\t')) => {
                // It goes on.
                if let Some(field) = fields.last_mut() {
                    field.push(b' ');
                    field.extend_from_slice(line.trim_ascii());
                }
            }
            Note::Field => fields.push(line.to_vec()),
            Note::File => files.push(text(line)),
        }
    }
    if !recipients.is_empty() {
        smtp["rcpt_to"] = recipients.into();
    }
    rest["smtp"] = smtp;
    let mut email = json!({});
    for field in &fields {
        if let Some(from) = behind(field, b"from:") {
            email["from"] = text(from);
        }
        for (name, word) in [("to", &b"to:"[..]), ("cc", b"cc:")] {
            if let Some(list) = behind(field, word) {
                email[name] = addresses(list);
            }
        }
    }
    if !files.is_empty() {
        email["attachment"] = files.into();
    }
    if email.as_object().is_some_and(|email| !email.is_empty()) {
        rest["email"] = email;
    }
}

/// A list of addresses: a comma within quotes parts none.
fn addresses(list: &[u8]) -> Value {
    let mut is_quoted = false;
    let parts = list.split(|&byte| {
        is_quoted ^= byte == b'"';
        byte == b',' && !is_quoted
    });
    parts.map(|part| text(part.trim_ascii())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_and_fields() {
        let said = b">EHLO a.example\n>MAIL FROM:<a@b> SIZE=9\n>RCPT TO:<c@d>\n:From: \"A, B\" <a@b>\n:To: c@d,\n: \"E, F\" <e@f>\n=x.exe\n";
        let transaction = Transaction { app: "smtp", id: 0, said: [said, b""], contents: Default::default() };
        let mut rest = json!({});
        put(&transaction, &mut rest);
        let expected = json!({
            "smtp": { "helo": "a.example", "mail_from": "<a@b>", "rcpt_to": ["<c@d>"] },
            "email": { "from": "\"A, B\" <a@b>", "to": ["c@d", "\"E, F\" <e@f>"], "attachment": ["x.exe"] },
        });
        assert_eq!(rest, expected);
    }
}

//! Owns: the objects `ftp` (a command with its reply) and `ftp_data` (the file that a data connection brings).
//! Does not: follow connections (`ringtap-detect` does).

use ringtap_detect::Transaction;
use ringtap_detect::protocol::ftp::{extended_port, is_final, passive_port, port_address};
use serde_json::{Value, json};

use super::text;

/// The commands that Suricata names (RFC 959, 2428, 3659, and older ones).
const COMMANDS: [&str; 46] = [
    "ABOR", "ACCT", "ALLO", "APPE", "AUTH TLS", "CDUP", "CHMOD", "CWD", "DELE", "EPRT", "EPSV", "HELP", "IDLE", "LIST",
    "MAIL", "MDTM", "MKD", "MLFL", "MODE", "MRCP", "MRSQ", "MSAM", "MSND", "MSOM", "NLST", "NOOP", "PASS", "PASV",
    "PORT", "PWD", "QUIT", "REIN", "REST", "RETR", "RMD", "RNFR", "RNTO", "SITE", "SIZE", "SMNT", "STAT", "STOR",
    "STOU", "STRU", "SYST", "TYPE",
];
const OTHERS: [&str; 2] = ["UMASK", "USER"];

/// The command that a line begins with, and what stands behind it.
fn command(line: &[u8]) -> Option<(&'static str, &[u8])> {
    COMMANDS.into_iter().chain(OTHERS).find_map(|name| {
        let (word, rest) = line.split_at_checked(name.len())?;
        (word.eq_ignore_ascii_case(name.as_bytes()) && matches!(rest.first(), None | Some(b' ')))
            .then_some((name, rest))
    })
}

/// A reply's line: its code, where it has one, and its text.
fn reply(line: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match line {
        [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', rest @ ..] => (Some(&line[..3]), rest.get(1..).unwrap_or_default()),
        _ => (None, line),
    }
}

pub(super) fn object(transaction: &Transaction<'_>) -> Value {
    let [asked, answered] = transaction.said.map(|said| said.trim_ascii_end());
    let replies = || answered.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let mut object = json!({});
    let known = command(asked);
    if let Some((name, rest)) = known {
        object["command"] = json!(name);
        if let Some(data) = rest.get(1..).filter(|data| !data.is_empty()) {
            object["command_data"] = text(data);
            object["command_truncated"] = json!(false);
        }
    }
    let codes: Vec<Value> = replies().filter_map(|line| reply(line).0).map(text).collect();
    let texts: Vec<Value> = replies().map(|line| reply(line).1).filter(|line| !line.is_empty()).map(text).collect();
    for (name, list) in [("completion_code", codes), ("reply", texts)] {
        if !list.is_empty() {
            object[name] = list.into();
        }
    }
    let name = known.map_or("", |(name, _)| name);
    let port = match name {
        "PORT" => port_address(asked).map(|(_, port)| port),
        "EPRT" => extended_port(asked),
        "PASV" | "EPSV" => replies().find_map(passive_port),
        _ => None,
    };
    if let Some(port) = port {
        object["dynamic_port"] = json!(port);
    }
    if matches!(name, "PORT" | "EPRT") {
        let is_active = replies().any(|line| line.starts_with(b"200"));
        object["mode"] = json!(if is_active { "active" } else { "passive" });
    }
    object["reply_received"] = json!(if replies().any(is_final) { "yes" } else { "no" });
    object["reply_truncated"] = json!(false);
    object
}

/// Who sends the file (0: the client of the data connection), the command that moves it, and its name.
pub(super) fn file<'t>(transaction: &Transaction<'t>) -> (usize, &'t [u8], &'t [u8]) {
    let [of_client, of_server] = transaction.said;
    let side = usize::from(of_client.is_empty());
    let said = if side == 0 { of_client } else { of_server };
    let (command, name) = said.split_at_checked(4).unwrap_or((said, b""));
    (side, command, name.get(1..).unwrap_or_default())
}

pub(super) fn data(transaction: &Transaction<'_>) -> Value {
    let (_, command, name) = file(transaction);
    json!({ "filename": text(name), "command": text(command) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(asked: &[u8], answered: &[u8]) -> Value {
        object(&Transaction { app: "ftp", id: 0, said: [asked, answered], contents: Default::default() })
    }

    #[test]
    fn commands_and_replies() {
        let passive = of(b"PASV\n", b"227 Entering Passive Mode (203,0,113,9,4,1)\n");
        assert_eq!((&passive["command"], &passive["dynamic_port"]), (&"PASV".into(), &1025.into()));
        let long = of(b"pass b c\n", b"230-first\n more\n230 ok\n");
        assert_eq!((&long["command"], &long["command_data"]), (&"PASS".into(), &"b c".into()));
        assert_eq!(long["completion_code"], json!(["230", "230"]));
        assert_eq!(long["reply"], json!(["first", " more", "ok"]));
        let greeting = of(b"", b"220 here\n");
        assert!(greeting.get("command").is_none() && greeting["reply_received"] == "yes");
        assert_eq!(
            of(b"XYZ a\n", b"500\n"),
            json!({ "completion_code": ["500"], "reply_received": "yes", "reply_truncated": false })
        );
        assert_eq!(
            (&of(b"NOOP\n", b"150 x\n")["reply_received"], of(b"PASSX a", b"").get("command")),
            (&"no".into(), None)
        );
        let active = of(b"EPRT |1|198.51.100.7|2000|\n", b"200 ok\n");
        assert_eq!((&active["dynamic_port"], &active["mode"]), (&2000.into(), &"active".into()));
    }
}

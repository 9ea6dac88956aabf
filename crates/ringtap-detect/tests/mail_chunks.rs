//! Mail in chunks (RFC 3030, BDAT): what is in a message is found however the client cuts it and whatever the server answers.

mod support;

use ringtap_detect::protocol::smtp::{Note, notes};
use ringtap_detect::{Alert, FlowView, Sink, Transaction};
use ringtap_wire::LinkType;
use support::{detector, session};

/// Sids, and what records say.
#[derive(Default)]
struct Told {
    sids: Vec<u32>,
    fields: Vec<String>,
    records: usize,
}

impl Sink for Told {
    fn alert(&mut self, alert: &Alert<'_>) {
        self.sids.push(alert.rule.meta.sid);
    }

    fn transaction(&mut self, transaction: &Transaction<'_>, _flow: &FlowView<'_>, _now_ns: u64) {
        self.records += 1;
        let fields = notes(transaction.said[0]).filter(|(kind, _)| *kind != Note::Command);
        self.fields.extend(fields.map(|(_, line)| String::from_utf8_lossy(line).into_owned()));
    }
}

fn told(texts: &[(bool, &[u8])], size: usize) -> Told {
    let (mut detector, mut found) = (detector(RULES), Told::default());
    for (index, frame) in session(texts, size).iter().enumerate() {
        detector.packet(frame, LinkType::Ethernet, frame.len() as u32, index as u64, &mut found);
    }
    detector.finish(1 << 40, &mut found);
    found.sids.sort_unstable();
    found
}

const RULES: &str = r#"alert smtp any any -> any any (file.data; content:"an EVIL file"; sid:1;)
    alert smtp any any -> any any (file.name; content:"run.exe"; bsize:7; sid:2;)
    alert smtp any any -> any any (smtp.mail_from; content:"e@f"; sid:3;)"#;

const MAIL: &[u8] = b"From: a\r\nSubject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n--b\r\n\
    Content-Disposition: attachment; filename=\"run.exe\"\r\nContent-Transfer-Encoding: base64\r\n\r\nYW4gRVZJ\r\nTCBmaWxl\r\n--b--\r\n";
const ENVELOPE: &[u8] = b"EHLO a\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n";

/// The mail in chunks of these sizes, the rest in the last one, each behind its command.
fn chunked(mail: &[u8], sizes: &[usize]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), mail);
    for &size in sizes {
        let (chunk, behind) = rest.split_at(size);
        out.extend(format!("BDAT {size}\r\n").bytes().chain(chunk.iter().copied()));
        rest = behind;
    }
    out.extend(format!("BDAT {} LAST\r\n", rest.len()).bytes().chain(rest.iter().copied()));
    out
}

#[test]
fn a_chunk_may_end_anywhere() {
    for at in 1..MAIL.len() {
        for size in [1400, 19] {
            let found = told(&[(true, ENVELOPE), (true, &chunked(MAIL, &[at]))], size);
            assert_eq!(found.sids, [1, 2], "cut at {at}, segments of {size}");
            assert_eq!(found.fields, ["From: a", "run.exe"], "cut at {at}, segments of {size}");
        }
    }
    for sizes in [&vec![1; MAIL.len()][..], &[2; 100], &[5, 0, 7, 0, 0, 50]] {
        assert_eq!(told(&[(true, ENVELOPE), (true, &chunked(MAIL, sizes))], 1400).sids, [1, 2], "{sizes:?}");
    }
}

/// The last line needs no end; another message of the session begins anew.
#[test]
fn messages_follow_each_other() {
    let without_end = &MAIL[..MAIL.len() - "\r\n--b--\r\n".len()];
    let both = [chunked(without_end, &[80]), b"MAIL FROM:<e@f>\r\nRCPT TO:<c@d>\r\n".to_vec(), chunked(MAIL, &[3])];
    let found = told(&[(true, ENVELOPE), (true, &both.concat())], 1400);
    assert_eq!(found.sids, [1, 1, 2, 2, 3]);
    assert_eq!(found.fields, ["From: a", "run.exe"].repeat(2));
}

/// What the server refuses is no message, and what it has begun to take goes on behind a command that it refuses.
#[test]
fn answers_decide() {
    let begin: [(bool, &[u8]); 4] =
        [(false, b"220 mx\r\n"), (true, b"EHLO a\r\n"), (false, b"250 mx\r\n"), (true, &ENVELOPE[8..])];
    let [first, second] = [&chunked(MAIL, &[100])[.."BDAT 100\r\n".len() + 100], &chunked(MAIL, &[100])[110..]];
    let next: (bool, &[u8]) = (true, b"MAIL FROM:<e@f>\r\n");
    let run = |rest: &[(bool, &[u8])]| told(&[&begin[..], rest].concat(), 1400).sids;
    let taken: (bool, &[u8]) = (false, b"250 ok\r\n250 ok\r\n");
    // DATA within a message in chunks is refused (RFC 3030 §2), alone or between them.
    let refused: [(bool, &[u8]); 6] =
        [taken, (true, first), (false, b"250 ok\r\n"), (true, b"DATA\r\n"), (false, b"503 no\r\n"), (true, second)];
    assert_eq!(run(&[&refused[..], &[(false, b"250 ok\r\n"), next]].concat()), [1, 2, 3]);
    let together = [first, b"DATA\r\n", &second[..40]].concat();
    let rest = [&second[40..], b"MAIL FROM:<e@f>\r\n"].concat();
    assert_eq!(run(&[taken, (true, &together), (false, b"250 ok\r\n503 no\r\n"), (true, &rest)]), [1, 2, 3]);
    // Who does not know the command takes what follows for commands; who does has as many bytes come, though it wants none of them.
    assert_eq!(run(&[taken, (true, b"BDAT 100000\r\n"), (false, b"500 what\r\n"), next]), [3]);
    let unwanted: [(bool, &[u8]); 4] = [taken, (true, b"BDAT 17\r\n"), (false, b"552 too much\r\n"), next];
    assert_eq!(run(&[&unwanted[..], &[next]].concat()), [3]);
    // Given up in the middle.
    for command in [&b"RSET\r\n"[..], b"EHLO a\r\n"] {
        let again = [&first[..first.len() - 3], b"xyz", command, ENVELOPE, &chunked(MAIL, &[9])].concat();
        assert_eq!(run(&[taken, (true, &again)]), [1, 2]);
    }
}

/// Commands that end nothing make no record, however many there are.
#[test]
fn nothing_is_not_recorded() {
    let greeting = [b"EHLO ", &vec![b'x'; 4080][..], b"\r\n"].concat();
    for command in [&b"RSET\r\n"[..], b"DATA\r\n.\r\n", b"BDAT 0 LAST\r\n"] {
        let mail = [&b"MAIL FROM:<e@f>\r\nRCPT TO:<c@d>\r\n"[..], &chunked(MAIL, &[])].concat();
        let found = told(&[(true, &[&greeting[..], &command.repeat(1000), &mail].concat())], 1400);
        assert_eq!((found.sids, found.records), (vec![1, 2, 3], 1), "{}", command.escape_ascii());
    }
}

/// What a server does not take leaves nothing behind, whatever it says to it.
#[test]
fn refusals_leave_nothing_behind() {
    const MAIL_BY_DATA: [(bool, &[u8]); 6] = [
        (true, b"MAIL FROM:<e@f>\r\n"),
        (false, b"250 ok\r\n"),
        (true, b"RCPT TO:<c@d>\r\n"),
        (false, b"250 ok\r\n"),
        (true, b"DATA\r\n"),
        (false, b"354 go on\r\n"),
    ];
    let by_data = [MAIL, b".\r\n"].concat();
    let mail = [&MAIL_BY_DATA[..], &[(true, &by_data), (false, b"250 ok\r\n")]].concat();
    let chunks = chunked(MAIL, &[]);
    let in_chunks = [&MAIL_BY_DATA[..4], &[(true, &chunks), (false, b"250 ok\r\n")]].concat();
    let run = |begin: &[(bool, &[u8])], rest: &[(bool, &[u8])]| told(&[begin, rest].concat(), 1400).sids;
    let plain: [(bool, &[u8]); 3] = [(false, b"220 mx\r\n"), (true, b"HELO a\r\n"), (false, b"250 mx\r\n")];
    let offered: [(bool, &[u8]); 3] =
        [(false, b"220 mx\r\n"), (true, b"EHLO a\r\n"), (false, b"250-mx\r\n250-SIZE\r\n250 CHUNKING\r\n")];
    // Not offered: no byte of it is taken.
    let refused: [(bool, &[u8]); 4] = [
        (true, b"BDAT 999999999 LAST\r\n"),
        (false, b"503 not offered\r\n"),
        (true, b"\r\n"),
        (false, b"500 what\r\n"),
    ];
    assert_eq!(run(&[&plain[..], &refused].concat(), &mail), [1, 2, 3]);
    // Offered, and too early: taken and thrown away. It was an empty line, or a line that does not end.
    for early in [&b"BDAT 2\r\n\r\n"[..], b"BDAT 3\r\nxyz"] {
        let begin = [&offered[..], &[(true, early), (false, b"503 first MAIL\r\n")]].concat();
        assert_eq!(run(&begin, &in_chunks), [1, 2, 3], "{}", early.escape_ascii());
        assert_eq!(run(&begin, &mail), [1, 2, 3], "{}", early.escape_ascii());
    }
    // An intermediate reply to another command takes no message.
    let other: [(bool, &[u8]); 6] = [
        (true, b"DATA\r\n"),
        (false, b"503 first MAIL\r\n"),
        (true, b"AUTH LOGIN\r\n"),
        (false, b"334 VXNlcg==\r\n"),
        (true, b"\r\n"),
        (false, b"501 no\r\n"),
    ];
    assert_eq!(run(&[&plain[..], &other].concat(), &mail), [1, 2, 3]);
}

#[test]
fn sizes_without_sense() {
    for command in [&b"BDAT \r\n"[..], b"BDAT x\r\n", b"BDAT 0\r\n", b"BDAT 0x10\r\n", b"BDAT 0 LAST\r\n"] {
        let text = [ENVELOPE, command, b"MAIL FROM:<e@f>\r\n", &chunked(MAIL, &[9])].concat();
        assert_eq!(told(&[(true, &text)], 1400).sids, [1, 2, 3], "{}", command.escape_ascii());
    }
    // As large as can be: it is all of the rest.
    let sizes = [u64::MAX, u64::MAX - 1, 1 << 32, 1 << 63].map(|size| size.to_string());
    for size in sizes.iter().map(String::as_str).chain(["-1", "99999999999999999999999"]) {
        let text = [ENVELOPE, format!("BDAT {size} LAST\r\n").as_bytes(), MAIL].concat();
        assert_eq!(told(&[(true, &text)], 1400).sids, [1, 2], "{size}");
    }
    // As servers read it.
    for words in ["bdat {} last", "BDAT  {}  LAST", "BDAT\t{}\tLAST", "BDAT {} LAST ", "BDAT +{} LAST", "BDAT {}LAST"] {
        let command = words.replace("{}", &MAIL.len().to_string()) + "\r\n";
        let text = [ENVELOPE, command.as_bytes(), MAIL, b"MAIL FROM:<e@f>\r\n"].concat();
        assert_eq!(told(&[(true, &text)], 1400).sids, [1, 2, 3], "{words}");
    }
}

/// A server that takes 32 bits of a size for it has the message behind fewer bytes than others.
#[test]
fn sizes_beyond_32_bits() {
    let next = b"MAIL FROM:<e@f>\r\n";
    let len = MAIL.len() as u64;
    for size in [(1 << 32) + len, (7 << 32) + len, (1 << 63) + len].map(|size| size.to_string()) {
        let command = format!("BDAT {size} LAST\r\n");
        let text = [ENVELOPE, command.as_bytes(), MAIL];
        assert_eq!(told(&[(true, &[&text.concat()[..], next].concat())], 1400).sids, [1, 2, 3], "{size}");
        // Nothing follows but its reply: the file has no end of its own.
        let cut = MAIL.len() - "\r\n--b--\r\n".len();
        let command = format!("BDAT {} LAST\r\n", size.parse::<u64>().unwrap() - (len - cut as u64));
        let text = [ENVELOPE, command.as_bytes(), &MAIL[..cut]].concat();
        let replies = b"220 mx\r\n250 a\r\n250 b\r\n250 c\r\n250 taken\r\n";
        assert_eq!(told(&[(true, &text), (false, replies), (true, next)], 1400).sids, [1, 2, 3], "{size}");
    }
    // Not the last one: the next one goes on with its line.
    for at in [1, 50, MAIL.len() - 20] {
        let first = format!("BDAT {}\r\n", (1u64 << 32) + at as u64);
        let last = format!("BDAT {} LAST\r\n", MAIL.len() - at);
        let text = [ENVELOPE, first.as_bytes(), &MAIL[..at], last.as_bytes(), &MAIL[at..], next].concat();
        assert_eq!(told(&[(true, &text)], 1400).sids, [1, 2, 3], "{at}");
    }
    let text = [ENVELOPE, format!("BDAT -{} LAST\r\n", (1u64 << 32) - len).as_bytes(), MAIL, next].concat();
    assert_eq!(told(&[(true, &text)], 1400).sids, [1, 2, 3], "less than nothing");
}

/// What is no command is answered, too, by a server that waits for one.
#[test]
fn unknown_lines_behind_32_bits() {
    let next = b"MAIL FROM:<e@f>\r\n";
    let begin: [(bool, &[u8]); 5] = [
        (false, b"220 mx\r\n"),
        (true, b"EHLO a\r\n"),
        (false, b"250-mx\r\n250 CHUNKING\r\n"),
        (true, &ENVELOPE[8..]),
        (false, b"250 ok\r\n250 ok\r\n"),
    ];
    let long = [&vec![b'x'; 6000][..], b"BDAT 9\r\n"].concat();
    for unknown in [&b"what\r\n"[..], b"\r\n", b"what\r\n\r\n", &long] {
        let lines = unknown.iter().filter(|&&byte| byte == b'\n').count();
        let name = unknown[..unknown.len().min(9)].escape_ascii();
        // The message begins behind them, or goes on in the middle of a line.
        for at in [0, 100] {
            let first = [format!("BDAT {}\r\n", (1u64 << 32) + at as u64).as_bytes(), &MAIL[..at], unknown].concat();
            let last = [format!("BDAT {} LAST\r\n", MAIL.len() - at).as_bytes(), &MAIL[at..]].concat();
            let all = [&first[..], &last, next].concat();
            assert_eq!(
                told(&[&begin[..], &[(true, &all)]].concat(), 1400).sids,
                [1, 2, 3],
                "{name}, {at} before, no reply"
            );
            let (half, rest) = last.split_at(60);
            let replies = [b"250 ok\r\n".to_vec(), b"500 what\r\n".repeat(lines)].concat();
            let texts: [(bool, &[u8]); 4] =
                [(true, &first), (true, half), (false, &replies), (true, &[rest, next].concat())];
            assert_eq!(told(&[&begin[..], &texts].concat(), 1400).sids, [1, 2, 3], "{name}, {at} before, replies");
            let texts: [(bool, &[u8]); 4] =
                [(true, &first), (false, &replies), (true, half), (true, &[rest, next].concat())];
            assert_eq!(told(&[&begin[..], &texts].concat(), 1400).sids, [1, 2, 3], "{name}, {at} before, in turn");
        }
    }
    // A command with another one behind its blanks is one line.
    for len in [4092, 10_000] {
        let text = [b"BDAT 4294967296\r\nRSET", &vec![b' '; len][..], b"BDAT 99999999\r\n", &ENVELOPE[8..]].concat();
        let text = [&text[..], &chunked(MAIL, &[]), next].concat();
        assert_eq!(told(&[&begin[..], &[(true, &text)]].concat(), 1400).sids, [1, 2, 3], "RSET and {len}");
    }
}

/// The server says late that it takes the message: what came meanwhile is of it, however long a line it is.
#[test]
fn a_late_answer_to_data() {
    let head = b"Content-Disposition: attachment; filename=run.exe\r\n\r\n";
    for before in [10, 4090, 5000, 12_000] {
        let asked = [&ENVELOPE[8..], b"RCPT TO:<no>\r\nDATA\r\n", head].concat();
        let line = [&vec![b'x'; before][..], b"an EVIL file", &[b'x'; 100]].concat();
        let texts: [(bool, &[u8]); 8] = [
            (false, b"220 mx\r\n"),
            (true, b"EHLO a\r\n"),
            (false, b"250 mx\r\n"),
            (true, &asked),
            (false, b"250 ok\r\n250 ok\r\n550 no\r\n"),
            (true, &line),
            (false, b"354 go on\r\n"),
            (true, b"\r\n.\r\nMAIL FROM:<e@f>\r\n"),
        ];
        assert_eq!(told(&texts, 1400).sids, [1, 2, 3], "behind {before}");
    }
}

/// One reply is to a whole command, however long it is: others are not taken for the answers to what follows.
#[test]
fn long_commands_have_one_reply() {
    let begin: [(bool, &[u8]); 2] = [(false, b"220 mx\r\n"), (true, ENVELOPE)];
    for len in [4000, 5000, 9000, 16_000, 17_000, 40_000] {
        let long = [b"NOOP ", &vec![b' '; len][..], b"\r\n"].concat();
        // Not known to this server: what follows is no chunk, but a message.
        let text = [&long[..], b"BDAT 100000\r\nMAIL FROM:<e@f>\r\n"].concat();
        let replies = b"250 a\r\n250 b\r\n250 c\r\n250 d\r\n500 what\r\n";
        let next: [(bool, &[u8]); 2] = [(true, b"MAIL FROM:<e@f>\r\n"), (false, b"250 e\r\n")];
        let whole = [&begin[..], &[(true, &text), (false, replies)], &next].concat();
        assert_eq!(told(&whole, 1400).sids, [3], "{len}");
    }
    // Its parameters are read, and what is too long of it is no message.
    let mail = [MAIL, b".\r\n"].concat();
    for len in [4090, 5000, 16_000, 17_000] {
        let command = [b"DATA", &vec![b' '; len][..], b"\r\n"].concat();
        assert_eq!(told(&[(true, &[ENVELOPE, &command, &mail].concat())], 1400).sids, [1, 2], "DATA and {len}");
    }
    for len in [4090, 5000, 16_000] {
        let command = format!("BDAT{}{} LAST\r\n", " ".repeat(len), MAIL.len());
        assert_eq!(
            told(&[(true, &[ENVELOPE, command.as_bytes(), MAIL].concat())], 1400).sids,
            [1, 2],
            "BDAT and {len}"
        );
    }
}

/// A line longer than is kept, cut by chunks: its pieces come in order.
#[test]
fn lines_beyond_what_is_kept() {
    let head = b"Content-Disposition: attachment; filename=run.exe\r\n\r\n";
    for len in [4000, 4090, 4096, 9000] {
        let mail = [&head[..], &vec![b'x'; len], b"an EVIL file"].concat();
        for chunk in [7, 1000, 4095, 4096, 5000] {
            let sizes = vec![chunk; mail.len() / chunk];
            let found = told(&[(true, ENVELOPE), (true, &chunked(&mail, &sizes))], 1400);
            assert_eq!(found.sids, [1, 2], "{len} in chunks of {chunk}");
        }
    }
}

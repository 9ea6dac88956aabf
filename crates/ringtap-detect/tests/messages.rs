//! Protocols that are read message by message: in pieces of any size, with what they keep between messages, and what rules may ask.

mod support;

use ringtap_detect::{Alert, FlowView, Sink, Transaction};
use ringtap_wire::LinkType;
use support::{ACK, Sids, detector, on_ports, session, tcp};

/// The same alerts however it is cut.
fn alerts(rules: &str, texts: &[(bool, &[u8])]) -> Vec<u32> {
    let of_size = |size: usize| {
        let (mut detector, mut found) = (detector(rules), Sids::default());
        for (index, frame) in session(texts, size).iter().enumerate() {
            let now_ns = 1_000_000 * (1 + index as u64);
            detector.packet(frame, LinkType::Ethernet, frame.len() as u32, now_ns, &mut found);
        }
        detector.finish(1 << 40, &mut found);
        found.0.sort_unstable();
        found.0
    };
    let whole = of_size(1400);
    // As far as bytes do not come before the protocol can be known by them.
    for size in [700, 33, 16] {
        assert_eq!(of_size(size), whole, "segments of {size}");
    }
    whole
}

const MAIL: &[u8] = b"Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nEVIL in text\r\n--b\r\n\
    Content-Disposition: attachment; filename=\"run.exe\"\r\nContent-Transfer-Encoding: base64\r\n\r\nYW4gRVZJ\r\nTCBmaWxl\r\n--b--\r\n.\r\n";

#[test]
fn files_in_mail() {
    let rules = r#"alert smtp any any -> any any (file.data; content:"an EVIL file"; sid:1;)
        alert smtp any any -> any any (file.name; content:"run.exe"; bsize:7; sid:2;)
        alert smtp any any -> any any (fileext:"exe"; file.data; content:"EVIL"; sid:3;)
        alert tcp any any -> any any (file.data; content:"EVIL file"; sid:4;)
        alert smtp any any -> any any (smtp.mail_from; content:"<a@example.org>"; sid:5;)
        alert smtp any any -> any any (file.data; content:"in text"; sid:6;)
        alert smtp any any -> any any (fileext:"txt"; sid:7;)"#;
    let envelope: &[u8] = b"EHLO mail.example.org\r\nMAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.org>\r\nDATA\r\n";
    let found = alerts(rules, &[(true, envelope), (false, b"354 go on\r\n"), (true, MAIL), (true, b"QUIT\r\n")]);
    assert_eq!(found, [1, 2, 3, 4, 5]);
    // The server has refused it: what follows are commands.
    let refused = alerts(rules, &[(true, envelope), (false, b"503 no\r\n"), (true, b"MAIL FROM:<a@example.org>\r\n")]);
    assert_eq!(refused, [5, 5]);
}

/// A chunk (RFC 3030) that ends within a line.
/// What a server takes for the message's content is not its end, and what it takes for its end is.
#[test]
fn mail_ends_where_its_server_says() {
    let rules = r#"alert smtp any any -> any any (file.data; content:"EVIL"; sid:1;)"#;
    let begin = |command: &[u8]| [b"EHLO a\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n", command].concat();
    let header: &[u8] = b"Content-Type: application/x-a\r\nContent-Disposition: attachment; filename=x\r\n\r\n";
    // A dot behind 4,096 bytes of a line stands within it.
    let long = [header, &[b'A'; 4096], b".\r\nEVIL\r\n.\r\n"].concat();
    let data = begin(b"DATA\r\n");
    assert_eq!(alerts(rules, &[(true, &data), (false, b"354 go on\r\n"), (true, &long)]), [1]);
    // A last chunk may be empty (RFC 3030).
    let content = [header, b"EVIL\r\n"].concat();
    let chunk = begin(format!("BDAT {}\r\n", content.len()).as_bytes());
    assert_eq!(alerts(rules, &[(true, &chunk), (true, &content), (true, b"BDAT 0 LAST\r\n")]), [1]);
    // What does not fit into one piece of a file is in the next.
    let filler = [&[b'A'; 998][..], b"\r\n"].concat().repeat(65);
    let pieces = [header, &filler, &[b'A'; 533], b"\r\n"].concat();
    // In between the server makes its window free.
    let long: [(bool, &[u8]); 7] = [
        (true, &data),
        (false, b"354 go on\r\n"),
        (true, &pieces[..30_000]),
        (false, b"250 well\r\n"),
        (true, &pieces[30_000..]),
        (false, b"250 well\r\n"),
        (true, b"an EVIL line\r\n.\r\n"),
    ];
    assert_eq!(alerts(rules, &long), [1]);
    // Nothing of a file that was given up stands before the next one.
    let begins = r#"alert smtp any any -> any any (file.data; content:"EVIL"; startswith; sid:1;)"#;
    let given_up = [header, b"xx\r\n"].concat();
    let chunk = begin(format!("BDAT {}\r\n", given_up.len()).as_bytes());
    let next: [(bool, &[u8]); 5] = [
        (true, &chunk),
        (true, &given_up),
        (true, b"RSET\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n"),
        (false, b"354 go on\r\n"),
        (true, &[header, b"EVIL\r\n.\r\n"].concat()),
    ];
    assert_eq!(alerts(begins, &next), [1]);
    // White space without end costs as much as other bytes, and is what it was.
    let quoted = b"Content-Disposition: attachment; filename=x\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nEV=  \r\nIL\r\n.\r\n";
    assert_eq!(alerts(rules, &[(true, &data), (false, b"354 go on\r\n"), (true, quoted)]), [1]);
}

/// Too many messages in a packet end the reading of that side, which is counted; what else looks at its bytes goes on.
#[test]
fn messages_without_number() {
    let rules = r#"alert smtp any any -> any any (smtp.rcpt_to; content:"EVIL"; sid:1;)
        alert tcp any any -> any any (content:"EVIL"; sid:2;)"#;
    for (lines, expected, ended) in [(16_000, &[1, 2][..], 0), (17_000, &[2], 1)] {
        let empty = vec![b'\n'; lines];
        let texts: [(bool, &[u8]); 3] = [(true, b"EHLO a\r\n"), (true, &empty), (true, b"RCPT TO:<EVIL>\r\n")];
        let (mut detector, mut found) = (detector(rules), Sids::default());
        for (index, frame) in session(&texts, 60_000).iter().enumerate() {
            detector.packet(frame, LinkType::Ethernet, frame.len() as u32, index as u64, &mut found);
        }
        found.0.sort_unstable();
        assert_eq!((&found.0[..], detector.counters().dialogs_evicted), (expected, ended));
    }
}

#[test]
fn chunks_of_mail() {
    let rules = r#"alert smtp any any -> any any (app-layer-event:smtp.bdat_chunk_len_exceeded; sid:1;)
        alert smtp any any -> any any (file.data; content:"EVIL file"; sid:2;)"#;
    let whole = [&b"EHLO mail.example.org\r\nBDAT 268 LAST\r\n"[..], &MAIL[..MAIL.len() - 3], b"QUIT\r\n"].concat();
    let len = MAIL.len() - 3;
    let whole = String::from_utf8(whole).unwrap().replace("BDAT 268", &format!("BDAT {len}")).into_bytes();
    assert_eq!(alerts(rules, &[(true, &whole)]), [2]);
    assert_eq!(alerts(rules, &[(true, b"EHLO mail.example.org\r\nBDAT 4 LAST\r\nlonger than four\r\n")]), [1]);
}

#[test]
fn what_ike_chooses() {
    let rules = r#"alert ike any any -> any any (ike.init_spi; content:"0707070707070707"; bsize:16; sid:1;)
        alert ike any any -> any any (ike.exchtype:2; ike.nonce_payload; content:"nonce"; ike.nonce_payload_length:5; sid:2;)
        alert ike any any -> any any (ike.chosen_sa_attribute:alg_enc=7; sid:3;)
        alert ike any any -> any any (ike.vendor; content:"6162"; bsize:4; sid:4;)"#;
    let payloads = b"\x0d\0\0\x09nonce\0\0\0\x06ab";
    let message = [&[7; 8][..], &[0; 8], &[10, 0x10, 2, 0, 0, 0, 0, 0, 0, 0, 0, 43], payloads].concat();
    let frames = [support::udp(500, 500, &message)];
    let mut found = support::sids(&mut detector(rules), &frames);
    found.sort_unstable();
    assert_eq!(found, [1, 2, 4]);
}

#[test]
fn requests_and_answers_of_mqtt() {
    let rules = r#"alert mqtt any any -> any any (mqtt.type:SUBACK; mqtt.subscribe.topic; content:"topic"; mqtt.reason_code:1; sid:1;)
        alert mqtt any any -> any any (mqtt.flags:!dup,!retain; mqtt.qos:0; sid:2;)
        alert mqtt any any -> any any (mqtt.connect.flags:username,!will; mqtt.connect.username; content:"me"; sid:3;)
        alert mqtt any any -> any any (app-layer-event:mqtt.missing_subscribe; sid:4;)
        alert mqtt any any -> any any (app-layer-event:mqtt.double_connect; sid:5;)"#;
    let connect: &[u8] = b"\x10\x11\0\x04MQTT\x04\x82\0\x3c\0\x01c\0\x02me";
    let texts: [(bool, &[u8]); 5] = [
        (true, connect),
        (false, b"\x20\x02\0\0"),
        (true, b"\x82\x0a\0\x07\0\x05topic\x01"),
        (false, b"\x90\x03\0\x07\x01"),
        (false, b"\x90\x03\0\x08\x01"),
    ];
    // The second one of each exchange is told once: CONNECT, the answer to SUBSCRIBE (which has a quality of its own), and one to none.
    assert_eq!(alerts(rules, &texts), [1, 2, 2, 2, 3, 4]);
}

/// A unit of DCE/RPC: a header, then this.
fn unit(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let len = (16 + body.len()) as u16;
    [&[5, 0, kind, flags, 0x10, 0, 0, 0][..], &len.to_le_bytes(), &[0, 0, 7, 0, 0, 0], body].concat()
}

fn calls() -> [(bool, Vec<u8>); 5] {
    let uuid = b"\x08\x83\xaf\xe1\x1f\x5d\xc9\x11\x91\xa4\x08\0\x2b\x14\xa0\xfa\x03\0\0\0";
    let bind = [&[0xb8, 0x10, 0xb8, 0x10, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 0][..], uuid, &[0; 20]].concat();
    let ack = [&[0xb8, 0x10, 0xb8, 0x10, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0][..], &[0; 24]].concat();
    let call = |stub: &[u8]| [&[0, 0, 0, 0, 2, 0, 9, 0][..], stub].concat();
    [
        (true, unit(11, 3, &bind)),
        (false, unit(12, 3, &ack)),
        (true, unit(0, 1, &call(b"an att"))),
        (true, unit(0, 2, &call(b"ack"))),
        (false, unit(2, 3, &call(b"done"))),
    ]
}

#[test]
fn calls_in_parts() {
    let rules = r#"alert tcp any any -> any any (flow:to_server; dcerpc.iface:e1af8308-5d1f-11c9-91a4-08002b14a0fa,=3; dcerpc.opnum:1,8-9; dcerpc.stub_data; content:"an attack"; sid:1;)
        alert dcerpc any any -> any any (flow:to_client; dcerpc.opnum:9; dcerpc.stub_data; content:"done"; sid:2;)
        alert dcerpc any any -> any any (dcerpc.iface:e1af8308-5d1f-11c9-91a4-08002b14a0fa,>3; sid:3;)
        alert dcerpc any any -> any any (dcerpc.opnum:10-12; sid:4;)"#;
    let calls = calls();
    let texts: Vec<(bool, &[u8])> = calls.iter().map(|(own, text)| (*own, &text[..])).collect();
    assert_eq!(alerts(rules, &texts), [1, 2]);
}

/// A message of SMB 2 behind its length: command, flags, number, tree, then this.
fn smb(command: u8, flags: u8, number: u8, tree: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 64];
    message[..4].copy_from_slice(b"\xfeSMB");
    (message[12], message[16], message[24], message[36]) = (command, flags, number, tree);
    message.extend_from_slice(body);
    [&(message.len() as u32).to_be_bytes()[..], &message].concat()
}

#[test]
fn calls_in_pipes_and_files_in_shares() {
    let rules = r#"alert smb any any -> any any (smb.named_pipe; content:"IPC$"; endswith; sid:1;)
        alert tcp any any -> any any (flow:to_server; dcerpc.opnum:9; dcerpc.stub_data; content:"attack"; sid:2;)
        alert smb any any -> any any (file.data; content:"EVIL"; filename:"run"; sid:3;)
        alert smb any any -> any any (smb.share; content:"pub"; sid:4;)"#;
    let wide = |name: &str| name.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let connect = |name: &str| [&[9, 0, 0, 0, 72, 0, 2 * name.len() as u8, 0][..], &wide(name)].concat();
    let write = |file: u8, data: &[u8]| {
        let mut body = vec![0; 48];
        (body[0], body[2], body[4], body[16]) = (49, 112, data.len() as u8, file);
        [body, data.to_vec()].concat()
    };
    let create = |name: &str| {
        let mut body = vec![0; 56];
        (body[0], body[44], body[46]) = (57, 120, 2 * name.len() as u8);
        [body, wide(name)].concat()
    };
    let mut created = vec![0; 88];
    created[64] = 5;
    let mut texts = vec![
        (true, smb(3, 0, 1, 0, &connect(r"\\h\IPC$"))),
        (false, smb(3, 1, 1, 6, &[16, 0, 2, 0])),
        (true, smb(3, 0, 2, 0, &connect(r"\\h\pub"))),
        (false, smb(3, 1, 2, 7, &[16, 0, 1, 0])),
        (true, smb(5, 0, 3, 7, &create("run.exe"))),
        (false, smb(5, 1, 3, 7, &created)),
        (true, smb(9, 0, 4, 7, &write(5, b"an EVIL file"))),
    ];
    texts.extend(
        calls().into_iter().filter(|(own, _)| *own).map(|(own, call)| (own, smb(9, 0, 9, 6, &write(1, &call)))),
    );
    let texts: Vec<(bool, &[u8])> = texts.iter().map(|(own, text)| (*own, &text[..])).collect();
    assert_eq!(alerts(rules, &texts), [1, 2, 3, 4]);
}

#[test]
fn what_ssh_offers_and_the_name_of_a_desktop() {
    let mut offer = b"\0\0\0\x48\x04\x14".to_vec();
    offer.extend([7; 16]);
    for list in [&b"kex"[..], b"host", b"a", b"b", b"c", b"d", b"none", b"zlib", b"", b""] {
        offer.extend((list.len() as u32).to_be_bytes());
        offer.extend(list);
    }
    offer.extend([0; 5]);
    let len = offer.len() as u32 - 4;
    offer[..4].copy_from_slice(&len.to_be_bytes());
    let rules = r#"alert ssh any any -> any any (ssh.hassh.string; content:"kex|3b|a|3b|c|3b|none"; bsize:12; ssh.hassh; bsize:32; sid:1;)
        alert ssh any any -> any any (ssh.software; content:"Open"; startswith; sid:2;)"#;
    let found = alerts(rules, &[(true, b"SSH-2.0-OpenSSH_9.2 comment\r\n"), (true, &offer)]);
    assert_eq!(found, [1, 2]);

    let rules = r#"alert rfb any any -> any any (rfb.name; content:"desk"; bsize:4; sid:1;)
        alert rfb any any -> any any (rfb.sectype:1; sid:2;)
        alert rfb any any -> any any (rfb.secresult:ok; sid:3;)"#;
    let init = [&[4, 0, 3, 0][..], &[0; 16], &[0, 0, 0, 4], b"desk"].concat();
    let texts: [(bool, &[u8]); 7] = [
        (false, b"RFB 003.008\n"),
        (true, b"RFB 003.008\n"),
        (false, &[2, 1, 2]),
        (true, &[1]),
        (false, &[0; 4]),
        (true, &[1]),
        (false, &init),
    ];
    assert_eq!(alerts(rules, &texts), [1, 2, 3]);
}

/// Alerts and transactions.
#[derive(Default)]
struct Told(Vec<u32>, usize);

impl Sink for Told {
    fn alert(&mut self, alert: &Alert<'_>) {
        self.0.push(alert.rule.meta.sid);
    }

    fn transaction(&mut self, _transaction: &Transaction<'_>, _flow: &FlowView<'_>, _now_ns: u64) {
        self.1 += 1;
    }
}

/// So many queries over TCP, the last of them for another name.
fn queries(count: usize, last: &[u8; 6]) -> Vec<u8> {
    let query = |name: &[u8; 6]| {
        let head = [0, 24, 0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 6];
        [&head[..], name, &[0, 0, 1, 0, 1]].concat()
    };
    [query(b"public").repeat(count - 1), query(last)].concat()
}

#[test]
fn queries_without_number_in_one_segment() {
    let rules = r#"alert dns any any -> any any (dns.query; content:"attack"; sid:1;)"#;
    let run = |frames: Vec<Vec<u8>>| {
        let (mut detector, mut told) = (detector(rules), Told::default());
        for (index, frame) in on_ports(41_000, 53, frames).iter().enumerate() {
            detector.packet(frame, LinkType::Ethernet, frame.len() as u32, index as u64, &mut told);
        }
        (told.0, told.1, detector.counters().values_left_out)
    };
    for count in [1, 75, 200, 1500] {
        assert_eq!(run(session(&[(true, &queries(count, b"attack"))], 60_000)), (vec![1], count, 0), "{count}");
    }
    // Other bytes for the same range, which the receiver may have in place of these.
    let mut frames = session(&[(true, &queries(1500, b"public"))], 60_000);
    frames.push(tcp(true, 0, 0, ACK, &queries(1500, b"attack")));
    assert_eq!(run(frames), (vec![1], 1500, 0), "beside the stream");
}

/// What the server says decides: a session goes on in TLS, or as it was.
#[test]
fn sessions_that_ask_for_tls() {
    let rules = r#"alert tls any any -> any any (tls.sni; content:"www.example.org"; sid:1;)
        alert smtp any any -> any any (smtp.mail_from; content:"a@b"; sid:2;)
        alert smtp any any -> any any (app-layer-event:smtp.tls_rejected; sid:3;)
        alert ftp any any -> any any (ftpbounce; sid:4;)"#;
    let hello = ringtap_samples::apps::client_hello("www.example.org");
    let begin: [(bool, &[u8]); 4] = [
        (false, b"220 mx\r\n"),
        (true, b"EHLO a\r\n"),
        (false, b"250-mx\r\n250 STARTTLS\r\n"),
        (true, b"starttls\r\n"),
    ];
    let mail: (bool, &[u8]) = (true, b"MAIL FROM:<a@b>\r\n");
    assert_eq!(alerts(rules, &[&begin[..], &[(false, b"220 go\r\n"), (true, &hello)]].concat()), [1]);
    assert_eq!(alerts(rules, &[&begin[..], &[(false, b"454 not now\r\n"), mail]].concat()), [2, 3]);
    // Asked again.
    let again: [(bool, &[u8]); 4] =
        [(false, b"502 no\r\n"), (true, b"STARTTLS\r\n"), (false, b"220 go\r\n"), (true, &hello)];
    assert_eq!(alerts(rules, &[&begin[..], &again].concat()), [1, 3]);
    // A greeting answers nothing that was sent before it.
    let early: [(bool, &[u8]); 3] =
        [(true, b"EHLO a\r\nSTARTTLS\r\n"), (false, b"220 mx\r\n250 mx\r\n502 no\r\n"), mail];
    assert_eq!(alerts(rules, &early), [2, 3]);
    for (answer, wanted) in [(&b"234 go\r\n"[..], 1), (b"500 what\r\n", 4)] {
        let bounce: &[u8] = if wanted == 1 { &hello } else { b"PORT 192,0,2,9,1,1\r\n" };
        let texts: [(bool, &[u8]); 4] =
            [(true, b"USER a\r\n"), (true, b"AUTH TLS\r\n"), (false, answer), (true, bounce)];
        assert_eq!(alerts(rules, &texts), [wanted]);
    }
}

/// A refusal of DATA is its own only behind the answers to what was sent before it.
#[test]
fn mail_that_is_refused() {
    let rules = r#"alert smtp any any -> any any (file.data; content:"EVIL"; sid:1;)
        alert smtp any any -> any any (smtp.mail_from; content:"e@f"; sid:2;)
        alert smtp any any -> any any (app-layer-event:smtp.data_command_rejected; sid:3;)"#;
    let begin: [(bool, &[u8]); 3] =
        [(false, b"220 mx\r\n"), (true, b"EHLO a\r\n"), (false, b"250-mx\r\n250 PIPELINING\r\n")];
    let together: (bool, &[u8]) = (true, b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<d@d>\r\nDATA\r\n");
    let file: &[u8] = b"Content-Disposition: attachment; filename=x\r\n\r\nEVIL\r\n.\r\n";
    let next: (bool, &[u8]) = (true, b"MAIL FROM:<e@f>\r\n");
    let run = |rest: &[(bool, &[u8])]| alerts(rules, &[&begin[..], rest].concat());
    // One recipient is refused, the message is not.
    let one: &[u8] = b"250 ok\r\n550 no\r\n250 ok\r\n354 go\r\n";
    assert_eq!(run(&[together, (false, one), (true, file), (false, b"250 ok\r\n"), next]), [1, 2]);
    assert_eq!(run(&[together, (false, b"250 ok\r\n550 no\r\n550 no\r\n554 no\r\n"), next]), [2, 3]);
    // Refused when all of it was sent: it was inspected.
    let late: [(bool, &[u8]); 4] =
        [(false, b"250 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n"), (true, file), (false, b"554 no\r\n"), next];
    assert_eq!(run(&[&[together][..], &late].concat()), [1, 2]);
    // The next one of the session: its own refusal.
    let second: [(bool, &[u8]); 4] =
        [(false, b"250 ok\r\n"), (true, b"RCPT TO:<c@d>\r\nDATA\r\n"), (false, b"250 ok\r\n503 no\r\n"), next];
    assert_eq!(run(&[&[together][..], &late, &second].concat()), [1, 2, 2, 3]);
}

//! Events of protocols, flows and files beside those of Suricata 7 over the same captures: the same events, of the same flows, with the
//! same values in the fields that docs/eve.md lists.

mod support;

use ringtap_samples::Sample;
use ringtap_samples::apps;
use ringtap_samples::files::{self, Format, Order};
use ringtap_samples::frames::{Ends, Session};
use serde_json::Value;
use support::{ours, theirs, unlike};

fn ends() -> Ends {
    Ends::new("198.51.100.7", "203.0.113.9")
}

fn http() -> Vec<Vec<u8>> {
    let asked =
        b"GET /a/b.txt?c=d HTTP/1.1\r\nHost: www.example.org:8080\r\nUser-Agent: me/1\r\nReferer: http://x/\r\n\r\n";
    let found = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=x\r\nContent-Length: 5\r\n\r\nhello";
    let sent =
        b"POST /form HTTP/1.1\r\nHost: www.example.org\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: 3\r\n\r\na=b";
    let moved = b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n";
    let part = b"GET /part HTTP/1.0\r\n\r\n";
    let range = b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-2/10\r\nContent-Disposition: attachment; filename=\"p.bin\"\r\nContent-Length: 3\r\n\r\nabc";
    let session = Session::open(ends(), [40000, 80]).client(asked, 1400).server(found, 1400);
    session.client(sent, 1400).server(moved, 1400).client(part, 1400).server(range, 1400).close()
}

fn dns() -> Vec<Vec<u8>> {
    let (asks, answers) = (ends(), ends().back());
    vec![
        asks.udp_frame([5353, 53], &apps::dns_query(7, "www.example.org", 1)),
        answers.udp_frame([53, 5353], &apps::dns_answer(7, "www.example.org", [192, 0, 2, 7])),
        asks.udp_frame([5353, 53], &apps::dns_query(8, "mail.example.org", 15)),
        asks.udp_frame([5354, 53], &apps::dns_query(9, "v6.example.org", 28)),
    ]
}

fn tls() -> Vec<Vec<u8>> {
    let session = Session::open(ends(), [40001, 443]).client(&apps::client_hello("www.example.org"), 100);
    session.server(&apps::server_hello(), 1400).close()
}

fn ssh() -> Vec<Vec<u8>> {
    let session = Session::open(ends(), [40002, 22]).server(&apps::ssh_banner("OpenSSH_9.2p1"), 1400);
    let session = session.client(&apps::ssh_banner("PuTTY_0.80"), 1400).client(&apps::ssh_kexinit(), 1400);
    session.server(&apps::ssh_kexinit(), 1400).close()
}

fn smtp() -> Vec<Vec<u8>> {
    let message: &[u8] = b"From: A <a@example.org>\r\nTo: b@example.net, c@example.net\r\nSubject: s\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=\"b1\"\r\n\r\n--b1\r\nContent-Type: text/plain\r\n\r\nhello\r\n--b1\r\n\
        Content-Type: application/octet-stream; name=\"x.bin\"\r\nContent-Disposition: attachment; filename=\"x.bin\"\r\n\
        Content-Transfer-Encoding: base64\r\n\r\nYWJjZGVmZ2g=\r\n--b1--\r\n.\r\n";
    let mut session = Session::open(ends(), [40003, 25]).server(b"220 mx.example.net ESMTP\r\n", 1400);
    for (said, answer) in [
        (&b"EHLO client.example.org\r\n"[..], &b"250-mx.example.net\r\n250 OK\r\n"[..]),
        (b"MAIL FROM:<a@example.org>\r\n", b"250 OK\r\n"),
        (b"RCPT TO:<b@example.net>\r\n", b"250 OK\r\n"),
        (b"RCPT TO:<c@example.net>\r\n", b"250 OK\r\n"),
        (b"DATA\r\n", b"354 go\r\n"),
        (message, b"250 OK\r\n"),
        (b"QUIT\r\n", b"221 bye\r\n"),
    ] {
        session = session.client(said, 1400).server(answer, 1400);
    }
    session.close()
}

/// A file taken from the server, and one sent to it by a connection that the server opens; a session that says much in one segment.
fn ftp() -> Vec<Vec<u8>> {
    let mut control = Session::open(ends(), [40004, 21]).server(b"220-welcome\r\n220 here\r\n", 1400);
    let mut frames = Vec::new();
    let exchanges: [(&[u8], &[u8]); 11] = [
        (b"USER a\r\n", b"331 say\r\n"),
        (b"PASS b c\r\n", b"230-first\r\n more\r\n230 ok\r\n"),
        (b"SYST\r\n", b"215 UNIX\r\n"),
        (b"XYZ foo\r\n", b"500 what\r\n"),
        (b"PASV\r\n", b"227 Entering Passive Mode (203,0,113,9,4,1)\r\n"),
        (b"RETR dir/a.exe\r\n", b"150 it comes\r\n226 done\r\n"),
        (b"PORT 198,51,100,7,8,1\r\n", b"200 ok\r\n"),
        (b"STOR up.bin\r\n", b"150 go\r\n226 done\r\n"),
        (b"EPSV\r\n", b"229 Entering (|||2050|)\r\n"),
        (b"NOOP\r\nTYPE I\r\n", b"200 one\r\n200 two\r\n"),
        (b"LIST\r\n", b""),
    ];
    for (said, answer) in exchanges {
        control = control.client(said, 1400);
        if !answer.is_empty() {
            control = control.server(answer, 1400);
        }
        frames.append(&mut control.frames);
        if said.starts_with(b"RETR") {
            let file = b"this is a file of the server";
            frames.extend(Session::open(ends(), [40005, 1025]).server(file, 10).close());
        }
        if said.starts_with(b"STOR") {
            let file = b"and this is a file of its client";
            frames.extend(Session::open(ends().back(), [20, 2049]).server(file, 1400).close());
        }
    }
    frames.extend(control.close());
    frames
}

fn differences(name: &str, packets: Vec<Vec<u8>>) -> (usize, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("in.pcap");
    let sample = Sample { name: name.to_owned(), link: 1, packets };
    std::fs::write(&capture, files::file(&sample, Format::Pcap(Order::Little))).unwrap();
    let found = ours(&capture, "");
    (found.len(), unlike(&found, &theirs(name, &capture, "")))
}

#[test]
fn events_as_suricata_tells_them() {
    let mut wrong = Vec::new();
    for (name, packets) in
        [("http", http()), ("dns", dns()), ("tls", tls()), ("ssh", ssh()), ("smtp", smtp()), ("ftp", ftp())]
    {
        let (count, found) = differences(name, packets);
        assert!(count >= 4, "{name}: {count} events");
        wrong.extend(found.into_iter().map(|line| format!("{name}: {line}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn alerts_have_their_transaction_and_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("in.pcap");
    let packets = [http(), dns(), smtp()].concat();
    let sample = Sample { name: "alerts".to_owned(), link: 1, packets };
    std::fs::write(&capture, files::file(&sample, Format::Pcap(Order::Little))).unwrap();
    let rules = r#"alert http any any -> any any (http.uri; content:"/form"; sid:1;)
        alert tcp any any -> any 80 (flow:established,to_server; content:"/part"; sid:2;)
        alert dns any any -> any any (dns.query; content:"mail"; sid:3;)
        alert smtp any any -> any any (smtp.rcpt_to; content:"c@example"; sid:4;)"#;
    let events = ours(&capture, rules);
    let alert = |sid: u64| -> &Value {
        let mut of = events.iter().filter(|event| event["alert"]["signature_id"] == sid);
        of.next().unwrap_or_else(|| panic!("no alert {sid}"))
    };
    assert_eq!(
        (&alert(1)["tx_id"], &alert(1)["http"]["url"], &alert(1)["http"]["xff"]),
        (&1.into(), &"/form".into(), &"192.0.2.1".into())
    );
    // Found in the stream, before the request was read.
    assert_eq!(
        (&alert(2)["tx_id"], &alert(2)["http"]["url"], &alert(2)["stream"]),
        (&2.into(), &"/part".into(), &1.into())
    );
    assert!(alert(2)["payload_printable"].as_str().unwrap().contains("GET /part HTTP/1.0\r\n"));
    assert_eq!(alert(3)["dns"]["query"][0]["rrname"], "mail.example.org");
    assert_eq!(
        (&alert(3)["tx_id"], &alert(3)["stream"], &alert(3)["packet_info"]["linktype"]),
        (&2.into(), &0.into(), &1.into())
    );
    assert_eq!(alert(4)["smtp"]["mail_from"], "<a@example.org>");
    let flow = |kind: &str, port: u64| {
        let mut of = events.iter().filter(|event| event["event_type"] == kind && event["src_port"] == port);
        of.next().unwrap_or_else(|| panic!("no {kind} of {port}"))["flow_id"].clone()
    };
    assert!(
        [flow("http", 40000), flow("alert", 40000), flow("netflow", 40000)].iter().all(|id| *id == flow("flow", 40000))
    );
}

/// Names that a packet only points at, and of bytes that JSON writes with six.
#[test]
fn a_packet_of_pointers_makes_no_long_line() {
    let name = [&[&[63][..], &[1; 63]].concat().repeat(3)[..], &[0]].concat();
    let answers = [0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 2, 0xc0, 12].repeat(200);
    let head = [7u16, 0x8180, 1, 200, 0, 0].map(u16::to_be_bytes).concat();
    let many = [&head[..], &name, &[0, 5, 0, 1], &answers].concat();
    let short = [&head[..], &[1, b'a', 0, 0, 5, 0, 1], &answers].concat();
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("in.pcap");
    let packets = [&many, &short].map(|message| ends().back().udp_frame([53, 5353], message)).to_vec();
    assert!(packets[0].len() < 4096);
    let sample = Sample { name: "pointers".to_owned(), link: 1, packets };
    std::fs::write(&capture, files::file(&sample, Format::Pcap(Order::Little))).unwrap();
    let events = ours(&capture, "alert dns any any -> any any (dns.rcode:0; sid:1;)");
    let longest = events.iter().map(|event| event.to_string().len()).max().unwrap();
    assert!(longest < 64 << 10, "{longest}");
    let answers: Vec<&Value> = events
        .iter()
        .filter_map(|event| {
            [event.pointer("/dns/answer"), event.get("dns").filter(|dns| dns.get("type").is_some())]
                .into_iter()
                .flatten()
                .next()
        })
        .collect();
    assert_eq!(answers.len(), 4, "two events and two alerts");
    assert!(answers.iter().all(|answer| answer["ringtap"]["is_cut"] == true), "{answers:?}");
    let counts: Vec<usize> = answers.iter().map(|answer| answer["answers"].as_array().map_or(0, Vec::len)).collect();
    assert!(
        counts.iter().all(|&count| count < 64) && counts.iter().filter(|&&count| count == 63).count() == 2,
        "{counts:?}"
    );
}

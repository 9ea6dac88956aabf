//! TLS through the whole detector: handshakes in many records and segments.

mod support;

use support::{ACK, detector, handshake, sids, tcp};

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(body.len() as u16).to_be_bytes(), body].concat()
}

/// A message in records of this size.
fn records(kind: u8, body: &[u8], most: usize) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    let message = [&[kind][..], &length[1..], body].concat();
    let record = |part: &[u8]| [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat();
    message.chunks(most).flat_map(record).collect()
}

#[test]
fn names_and_certificates_behind_many_bytes() {
    // Three thousand bytes of padding before the name.
    let list = [extension(21, &[0; 3000]), extension(0, b"\0\x0e\0\0\x0bexample.org")].concat();
    let hello = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0], &(list.len() as u16).to_be_bytes(), &list].concat();
    let certificate = [&[0x30, 0x82, 0x13, 0x88][..], &[9; 5000]].concat();
    let sized = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[1..], bytes].concat();
    let certificates = sized(&sized(&certificate));
    let server = [&[3, 3][..], &[7; 32], &[0, 0x13, 1, 0]].concat();
    let rules = r#"
        alert tls any any -> any any (tls.sni; content:"example.org"; bsize:11; ja3.string; content:"771,4865,21-0,,"; sid:1;)
        alert tls any any -> any any (tls.certs; content:"|30 82 13 88|"; startswith; bsize:5004; sid:2;)
        alert tls any any -> any any (flow:to_client; tls.version:1.2; ja3s.string; content:"771,4865,"; sid:3;)
    "#;
    for (record, segment) in [(16_000, 1400), (100, 300), (7, 50)] {
        let texts =
            [records(1, &hello, record), [records(2, &server, record), records(11, &certificates, record)].concat()];
        let mut frames = handshake();
        for (text, from_client) in texts.iter().zip([true, false]) {
            let other = if from_client { 0 } else { texts[0].len() as u32 };
            for (number, part) in text.chunks(segment).enumerate() {
                frames.push(tcp(from_client, (number * segment) as u32, other, ACK, part));
            }
        }
        let mut found = sids(&mut detector(rules), &frames);
        found.sort_unstable();
        assert_eq!(found, [1, 2, 3], "{record} {segment}");
    }
}

#[test]
fn a_warning_before_the_hello_hides_nothing() {
    let server = [&[3, 3][..], &[7; 32], &[0, 0x13, 1, 0]].concat();
    let rule = r#"alert tls any any -> any any (flow:to_client; ja3s.string; content:"771,4865,"; sid:3;)"#;
    let answer = |alert: &[u8]| {
        let mut frames = handshake();
        let hello = records(1, &[&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat(), 100);
        frames.push(tcp(true, 0, 0, ACK, &hello));
        let text = [alert, &records(2, &server, 100)].concat();
        frames.push(tcp(false, 0, hello.len() as u32, ACK, &text));
        sids(&mut detector(rule), &frames)
    };
    assert_eq!(answer(b"\x15\x03\x01\0\x02\x01\x70"), [3]);
    assert_eq!(answer(b"\x15\x03\x01\0\x02\x02\x28"), [], "a fatal one ends it");
}

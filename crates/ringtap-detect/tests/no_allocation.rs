//! Invariant 1: with all memory taken at start, no packet makes the detector allocate or free.

mod counting_support;
mod support;

use counting_support::allocations;
use ringtap_wire::LinkType;
use support::{ACK, Count, detector, handshake, tcp, udp};

/// A session with more requests than may wait, contents of all kinds, and nothing of TCP that would end it early.
fn http() -> Vec<Vec<u8>> {
    let zipped = miniz_oxide::deflate::compress_to_vec(&[&[b'x'; 200_000][..], b"attack"].concat(), 6);
    let request: &[u8] = b"POST /a%20b HTTP/1.1\r\nHost: a.ORG\r\nX: 1\r\nX: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabf\r\n0\r\n\r\n";
    let plain: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nattack!!!";
    let coded = format!("HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: {}\r\n\r\n", zipped.len());
    // A line, and 50,000,000 zeros.
    let brotli: [&[u8]; 2] = [
        &[
            0x1b, 0x13, 0x00, 0xf8, 0x05, 0x36, 0xc6, 0xd6, 0x6d, 0xdf, 0x20, 0x47, 0x10, 0x85, 0x40, 0xe1, 0x52, 0xd6,
            0x21, 0x43, 0xbd, 0x1e, 0x01,
        ],
        &[
            0xcf, 0xff, 0xff, 0x7f, 0x00, 0x24, 0x00, 0xe2, 0xb1, 0x40, 0x72, 0xef, 0xff, 0xf9, 0xff, 0xff, 0x0f, 0x80,
            0x04, 0x40, 0x1c, 0x16, 0x80, 0xee, 0xfd, 0x7f, 0xfe, 0xc1, 0xeb, 0x03, 0x90, 0x00, 0x88, 0xc3, 0x02, 0xd0,
            0x41, 0xd7, 0x07,
        ],
    ];
    let brotli = brotli.map(|bytes| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: {}\r\n\r\n", bytes.len());
        [head.as_bytes(), bytes].concat()
    });
    let requests = request.repeat(100);
    let responses =
        [plain.repeat(50), brotli.concat().repeat(10), coded.into_bytes(), zipped, b"no length".to_vec()].concat();
    let port = |mut frame: Vec<u8>, from_client: bool| {
        // Another session than the one before.
        frame[if from_client { 35 } else { 37 }] ^= 1;
        frame
    };
    let mut frames: Vec<_> =
        handshake().into_iter().zip([true, false, true]).map(|(frame, own)| port(frame, own)).collect();
    let (mut at, mut behind) = (0, 0);
    for part in requests.chunks(700) {
        frames.push(port(tcp(true, at, 0, ACK, part), true));
        at += part.len() as u32;
    }
    for part in responses.chunks(333) {
        frames.push(port(tcp(false, behind, at, ACK, part), false));
        behind += part.len() as u32;
    }
    frames
}

/// Mail with files and packets of MQTT, in tiny pieces and in large ones, and the same connection again.
fn messages() -> Vec<Vec<u8>> {
    let file =
        [&b"--b\r\nContent-Disposition: attachment; filename=a\r\n\r\n"[..], &b"a threat\r\n".repeat(9000)].concat();
    let head: &[u8] = b"EHLO a\r\nDATA\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n";
    let mail = [head, &file, b"--b--\r\n.\r\n"].concat();
    let connect: &[u8] = b"\x10\x11\0\x04MQTT\x04\x82\0\x3c\0\x01c\0\x02me";
    let queue = [connect, &b"\x32\x0b\0\x05topic\0\x07me".repeat(300)].concat();
    let mut frames = Vec::new();
    for (number, text, size) in [(2u8, &mail, 1400), (4, &queue, 7), (6, &mail, 11)] {
        let port = |mut frame: Vec<u8>, from_client: bool| {
            frame[if from_client { 35 } else { 37 }] ^= number;
            frame
        };
        frames.extend(handshake().into_iter().zip([true, false, true]).map(|(frame, own)| port(frame, own)));
        for (place, part) in text.chunks(size).enumerate() {
            frames.push(port(tcp(true, (place * size) as u32, 0, ACK, part), true));
        }
    }
    frames
}

#[test]
fn packets_allocate_nothing() {
    let mut detector = detector(
        r#"alert udp any any -> any any (content:"attack"; content:"more"; distance:0; threshold:type limit,track by_src,count 1,seconds 1; sid:1;)
        alert tcp any any -> any 80 (flow:established; content:"attack"; pcre:"/k[a-z]+$/R"; flowbits:set,a; sid:2;)
        alert udp any any -> any any (content:"attack"; pcre:"/(a)ttack.*(?=m)/"; hostbits:set,b; sid:3;)
        alert dns any any -> any any (dns.query; content:"example"; sid:4;)
        alert http any any -> any any (http.uri; content:"/a b"; http.header; content:"X: 1, 2"; http.request_body; content:"f"; sid:5;)
        alert http any any -> any any (http.stat_code; content:"200"; file.data; content:"attack"; sid:6;)
        alert http any any -> any any (http.host; dotprefix; content:".org"; endswith; sid:7;)
        alert http any any -> any any (http.uri; to_lowercase; to_sha256; base64_decode; base64_data; content:"x"; sid:8;)
        alert smtp any any -> any any (filename:"a"; file.data; content:"threat"; flowint:a,+,1; sid:9;)
        alert mqtt any any -> any any (mqtt.publish.topic; content:"topic"; sid:10;)"#,
    );
    let mut frames = Vec::new();
    for number in 0..200u16 {
        frames.push(udp(number, 9, b"an attack and more"));
        frames.push(udp(number, 53, b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x07example\x03org\0\0\x01\0\x01"));
        let mut fragment = udp(number, 9, &[b'x'; 64]);
        (fragment[20], fragment[18]) = (0x20, number as u8);
        frames.push(fragment);
    }
    frames.extend(handshake());
    for number in (0..400u32).rev() {
        frames.push(tcp(true, number * 10, 0, ACK, b"some attac"));
    }
    frames.extend(http());
    frames.extend(messages());
    let mut found = Count::default();
    let count = allocations(|| {
        for (index, frame) in frames.iter().enumerate() {
            detector.packet(frame, LinkType::Ethernet, frame.len() as u32, index as u64 * 1_000_000, &mut found);
        }
        detector.finish(1 << 40, &mut found);
    });
    assert_eq!(count, 0);
    assert!(detector.counters().http.transactions >= 100, "{:?}", detector.counters().http);
    assert!(found.0 > 500 && detector.counters().defrag.fragments == 200, "{}", found.0);
}

//! Data connections that FTP's control connections announce: what is announced is read, and nothing is hidden by announcing it.

mod support;

use support::{ACK, Sids, detector, handshake, on_ports, session, sids, tcp, udp};

#[test]
fn files_by_ftp() {
    let rules = r#"alert ftp-data any any -> any any (ftpdata_command:retr; sid:1;)
        alert ftp-data any any -> any any (flow:to_client; file.data; content:"an EVIL file"; filename:"run.exe"; sid:2;)
        alert ftp-data any any -> any any (flow:to_server; file.data; content:"EVIL"; sid:3;)
        alert ftp-data any any -> any any (ftpdata_command:stor; sid:4;)"#;
    let control: [(bool, &[u8]); 4] = [
        (false, b"220 here\r\n"),
        (true, b"USER a\r\nPASV\r\n"),
        (false, b"227 Entering Passive Mode (203,0,113,2,4,1)\r\n"),
        (true, b"RETR dir/run.exe\r\n"),
    ];
    let data: [(bool, &[u8]); 2] = [(false, b"this is an EV"), (false, b"IL file, and more")];
    let run = |client: u16, server: u16| {
        let mut frames = on_ports(41_000, 21, session(&control, 1400));
        frames.extend(on_ports(client, server, session(&data, 1400)));
        // The same again: it was announced once.
        frames.extend(on_ports(client + 1, server, session(&data, 1400)));
        let mut found = sids(&mut detector(rules), &frames);
        found.sort_unstable();
        found
    };
    assert_eq!(run(42_000, 1025), [1, 2]);
    assert_eq!(run(42_000, 1026), [], "at another port");
}

/// A connection that the control connection's server opens to its client, at this port.
fn back(port: u16, segments: &[&[u8]]) -> Vec<Vec<u8>> {
    let (mut frames, mut at) = (handshake(), 0);
    for segment in segments {
        frames.push(tcp(true, at, 0, ACK, segment));
        at += segment.len() as u32;
    }
    turned(port, frames)
}

fn turned(port: u16, frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut frames = on_ports(43_000, port, frames);
    frames.iter_mut().for_each(|frame| frame[26..34].rotate_left(4));
    frames
}

/// A control connection that announces one to port 443 of its client.
const CONTROL: [(bool, &[u8]); 2] =
    [(false, b"220 here\r\n"), (true, b"USER a\r\nEPRT |1|198.51.100.1|443|\r\nRETR file\r\n")];

const RULES: &str = r#"alert http any any -> any any (http.uri; content:"/evil"; sid:1;)
    alert ftp-data any any -> any any (ftpdata_command:retr; sid:2;)
    alert ftp-data any any -> any any (file.data; content:"file"; startswith; sid:3;)"#;

fn found(control: Vec<Vec<u8>>, data: &[&[u8]]) -> Vec<u32> {
    let mut found = sids(&mut detector(RULES), &[control, back(443, data)].concat());
    found.sort_unstable();
    found
}

#[test]
fn a_request_is_read_whatever_was_announced() {
    let get: &[u8] = b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n";
    for server in [None, Some(CONTROL[0])] {
        let texts: Vec<_> = server.into_iter().chain([CONTROL[1]]).collect();
        let control = || on_ports(41_000, 21, session(&texts, 1400));
        assert_eq!(found(control(), &[get]), [1], "{server:?}");
        assert_eq!(found(control(), &[&get[..1], &get[1..]]), [1], "{server:?}, by its first byte");
        assert_eq!(
            found(control(), &[b"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", get]),
            [1],
            "{server:?}, behind empty lines"
        );
    }
}

/// What is said first, by who waits for the request, may be anything.
#[test]
fn a_request_is_read_behind_words_of_its_server() {
    let get: &[u8] = b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n";
    for size in [1400, 1] {
        let mut data = session(&[(false, b"nothing that anybody knows")], 1400);
        data.extend(get.chunks(size).enumerate().map(|(place, part)| tcp(true, (place * size) as u32, 26, ACK, part)));
        let frames = [on_ports(41_000, 21, session(&CONTROL, 1400)), turned(443, data)].concat();
        let mut found = sids(&mut detector(RULES), &frames);
        found.sort_unstable();
        assert_eq!(found, [1, 2], "{size}");
    }
}

#[test]
fn a_file_is_read_from_its_first_byte() {
    let control = || on_ports(41_000, 21, session(&CONTROL, 1400));
    for data in [&[&b"file of some more bytes"[..]][..], &[b"f", b"il", b"e of some more bytes"], &[b"f", b"ile"]] {
        assert_eq!(found(control(), data), [2, 3], "{data:?}");
    }
}

/// Who takes a file may say on its connection what they like, before it comes or meanwhile: it is read on, and so is what they say.
#[test]
fn a_file_is_read_whatever_its_taker_says_meanwhile() {
    let rules = r#"alert http any any -> any any (http.uri; content:"/evil"; sid:1;)
        alert ftp-data any any -> any any (ftpdata_command:retr; sid:2;)
        alert ftp-data any any -> any any (file.data; content:"one EVIL file"; sid:3;)"#;
    let get: &[u8] = b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n";
    let commands: &[u8] = b"USER a\r\nPASS b\r\nPORT 1,2,3,4,5,6\r\n";
    // A request is one of who has opened the connection.
    for (words, by, wanted) in [(get, true, &[1, 2, 3][..]), (get, false, &[2, 3]), (commands, true, &[2, 3])] {
        for (is_first, parts) in [(false, 1), (true, 1), (false, 6), (true, 6)] {
            let file: [(bool, &[u8]); 2] = [(!by, b"these are the bytes of one EV"), (!by, b"IL file, and more")];
            let said = if is_first { [(by, words), file[0], file[1]] } else { [file[0], (by, words), file[1]] };
            let size = if parts == 1 { 1400 } else { words.len().div_ceil(parts) };
            let frames = [on_ports(41_000, 21, session(&CONTROL, 1400)), turned(443, session(&said, size))].concat();
            let mut found = sids(&mut detector(rules), &frames);
            found.sort_unstable();
            assert_eq!(found, wanted, "{} {by} {is_first} {parts}", words.escape_ascii());
        }
    }
}

#[test]
fn only_a_server_of_ftp_has_data_connections() {
    let file: &[&[u8]] = &[b"file of some more bytes"];
    let silent = session(&CONTROL[1..], 1400);
    assert_eq!(found(on_ports(41_000, 8080, silent), file), []);
    let other = session(&[CONTROL[1], (false, b"HTTP/1.1 400 Bad Request\r\n\r\n"), CONTROL[1]], 1400);
    assert_eq!(found(on_ports(41_000, 8080, other), file), []);
}

/// Who can write both sides of a connection within a tunnel, or in another VLAN, says nothing of those beside it.
#[test]
fn what_is_in_a_tunnel_announces_nothing_beside_it() {
    let file: &[&[u8]] = &[b"file of some more bytes"];
    let control = || on_ports(41_000, 21, session(&CONTROL, 1400));
    let tunnelled = |frames: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        frames.iter().map(|inner| udp(1, 4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &inner[..]].concat())).collect()
    };
    let tagged = |frames: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        frames.iter().map(|frame| [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat()).collect()
    };
    assert_eq!(found(tunnelled(control()), file), []);
    assert_eq!(found(tagged(control()), file), []);
    for alike in [tunnelled, tagged] {
        let mut found = sids(&mut detector(RULES), &[alike(control()), alike(back(443, file))].concat());
        found.sort_unstable();
        assert_eq!(found, [2, 3]);
    }
}

#[test]
fn three_thousand_transfers_are_all_read() {
    let (mut detector, mut found) = (detector(RULES), Sids::default());
    let mut texts: Vec<(bool, Vec<u8>)> = vec![(false, b"220 here\r\n".to_vec()), (true, b"USER a\r\n".to_vec())];
    for port in 10_000..13_000 {
        texts.push((true, format!("EPRT |1|198.51.100.1|{port}|\r\nRETR file\r\n").into_bytes()));
        texts.push((false, b"150 it comes\r\n".to_vec()));
    }
    let texts: Vec<(bool, &[u8])> = texts.iter().map(|(own, text)| (*own, &text[..])).collect();
    let control = on_ports(41_000, 21, session(&texts, 1400));
    let mut now_ns = 0;
    let mut pass = |frames: &[Vec<u8>]| {
        for frame in frames {
            now_ns += 1_000_000;
            detector.packet(frame, ringtap_wire::LinkType::Ethernet, frame.len() as u32, now_ns, &mut found);
        }
    };
    let (begin, transfers) = control.split_at(control.len() - 6000);
    pass(begin);
    for (transfer, port) in transfers.chunks(2).zip(10_000..) {
        pass(&[transfer, &back(port, &[b"file of some more bytes"])[..]].concat());
    }
    let count = |sid: u32| found.0.iter().filter(|&&of| of == sid).count();
    assert_eq!([count(2), count(3)], [3000; 2]);
    assert_eq!(detector.counters().announced_evicted, 0);
}

/// Passive ports come round: what one control connection announced another takes back neither.
#[test]
fn what_another_connection_announced_is_not_taken_back() {
    let (mut detector, mut found) = (detector(RULES), Sids::default());
    let mine: [(bool, &[u8]); 2] = [CONTROL[0], (true, b"USER a\r\nEPRT |1|198.51.100.1|443|\r\nRETR file\r\n")];
    let many: Vec<u8> =
        (0..16).flat_map(|port| format!("PORT 198,51,100,1,50,{port}\r\nRETR x\r\n").into_bytes()).collect();
    // The other one announces the port first, and sixteen more once it was announced here, too.
    let other = on_ports(41_001, 21, session(&[CONTROL[0], CONTROL[1], (true, &many)], 1400));
    let again = other.iter().position(|frame| frame.windows(5).any(|it| it == b"PORT ")).unwrap();
    let own = on_ports(41_000, 21, session(&mine, 1400));
    let data = || back(443, &[b"file of some more bytes"]);
    let sequence = [&other[..again], &own[..], &other[again..], &data()[..]];
    for frame in sequence.into_iter().flatten() {
        detector.packet(frame, ringtap_wire::LinkType::Ethernet, frame.len() as u32, 1, &mut found);
    }
    found.0.sort_unstable();
    assert_eq!(found.0, [2, 3]);
}

/// What a control connection announces and nobody opens takes nobody's place but its own.
#[test]
fn announcements_of_one_connection_are_bounded() {
    let (mut detector, mut found) = (detector(RULES), Sids::default());
    let many: Vec<u8> = (0..3000)
        .flat_map(|port| format!("PORT 198,51,100,1,{},{}\r\nRETR x\r\n", 50 + port / 256, port % 256).into_bytes())
        .collect();
    let flood = on_ports(41_001, 21, session(&[CONTROL[0], (true, b"USER b\r\n"), (true, &many)], 1400));
    for frames in [on_ports(41_000, 21, session(&CONTROL, 1400)), flood, back(443, &[b"file of some more bytes"])] {
        for frame in &frames {
            detector.packet(frame, ringtap_wire::LinkType::Ethernet, frame.len() as u32, 1, &mut found);
        }
    }
    found.0.sort_unstable();
    assert_eq!((&found.0[..], detector.counters().announced_evicted), (&[2, 3][..], 0));
}

//! Owns: samples of applications: sessions of TCP, and datagrams of what runs on a network.

use crate::apps::*;
use crate::frames::{Ends, Session, V4, ethernet, ethernet_to};
use crate::{Sample, snmp};

pub(crate) fn samples() -> Vec<Sample> {
    vec![
        Sample::ethernet("dns", dns()),
        Sample::ethernet("tls", tls()),
        Sample::ethernet("ssh", ssh()),
        Sample::ethernet("ftp", ftp()),
        Sample::ethernet("http", http()),
        Sample::ethernet("radius", radius_packets()),
        Sample::ethernet("syslog", syslog_packets()),
        Sample::ethernet("syslog-tcp", syslog_streams()),
        Sample::ethernet("snmp", snmp_packets()),
        Sample::ethernet("ports", every_port()),
    ]
}

const CLIENT: &str = "192.168.1.10";
const SERVER: &str = "192.168.2.20";

fn ends() -> Ends {
    Ends::new(CLIENT, SERVER)
}

fn ends_of_v6() -> Ends {
    Ends::new("2001:db8:1::10", "2001:db8:2::20")
}

fn dns() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (index, name) in ["www.example.org", "mail.example.net", "a.b.c.d.e.f.example.com", "x"].into_iter().enumerate()
    {
        for ends in [ends(), ends_of_v6()] {
            let (id, port) = (0x1000 + index as u16, 40_000 + index as u16);
            for kind in [1, 28, 15, 16, 255] {
                frames.push(ends.udp_frame([port, 53], &dns_query(id, name, kind)));
            }
            frames.push(ends.back().udp_frame([53, port], &dns_answer(id, name, [203, 0, 113, 5])));
        }
    }
    let framed = |message: Vec<u8>| [&(message.len() as u16).to_be_bytes()[..], &message].concat();
    let session = Session::open(ends(), [41_000, 53])
        .client(&framed(dns_query(9, "over-tcp.example.org", 1)), 7)
        .server(&framed(dns_answer(9, "over-tcp.example.org", [203, 0, 113, 6])), 1400);
    frames.extend(session.close());
    frames
}

fn tls() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (index, name) in ["secure.example.org", "shop.example.net"].into_iter().enumerate() {
        for (ends, most) in [(ends(), 1400), (ends_of_v6(), 50)] {
            let ports = [42_000 + index as u16, 443];
            let session = Session::open(ends, ports).client(&client_hello(name), most).server(&server_hello(), most);
            frames.extend(session.close());
        }
    }
    frames
}

fn ssh() -> Vec<Vec<u8>> {
    let open = |port| Session::open(ends(), [port, 22]);
    let usual = open(43_000)
        .server(&ssh_banner("OpenSSH_9.9 Debian-1"), 1400)
        .client(&ssh_banner("libssh_0.11"), 5)
        .client(&ssh_kexinit(), 1400)
        .server(&ssh_kexinit(), 100);
    let refused = open(43_001).client(b"GET / HTTP/1.0\r\n\r\n", 1400);
    [usual.close(), refused.reset()].concat()
}

fn ftp() -> Vec<Vec<u8>> {
    let session = Session::open(ends(), [44_000, 21])
        .server(b"220 ready\r\n", 1400)
        .client(b"USER anonymous\r\n", 1400)
        .server(b"331 password\r\n", 1400)
        .client(b"PASS guest\r\n", 1400)
        .server(b"230 logged in\r\n", 1400)
        .client(b"PORT 10,9,8,7,4,1\r\n", 1400)
        .server(b"200 ok\r\n", 1400)
        .client(b"PORT 192,168,1,10,4,2\r\n", 1400)
        .server(b"200 ok\r\n", 1400)
        .client(b"LIST\r\nQUIT\r\n", 1400)
        .server(b"221 bye\r\n", 1400);
    session.close()
}

fn http() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (index, (len, most)) in [(10, 1400), (3000, 1400), (500, 33)].into_iter().enumerate() {
        let session = Session::open(ends(), [45_000 + index as u16, 80])
            .client(&http_request("/index.html?secret=planted", "www.example.org"), most)
            .server(&http_answer(len), most);
        frames.extend(session.close());
    }
    frames.extend(Session::open(ends(), [45_009, 8080]).client(&http_request("/", "x"), 1400).reset());
    frames
}

fn radius_packets() -> Vec<Vec<u8>> {
    let pair = |id: u8| {
        let port = 50_000 + u16::from(id);
        [ends().udp_frame([port, 1812], &radius(1, id)), ends().back().udp_frame([1812, port], &radius(2, id))]
    };
    (0..12).flat_map(pair).collect()
}

fn syslog_packets() -> Vec<Vec<u8>> {
    syslog().iter().map(|message| ends().udp_frame([514, 514], message)).collect()
}

/// Four messages with their lengths in front, two behind each other with line feeds (RFC 6587).
fn syslog_streams() -> Vec<Vec<u8>> {
    let text = |priority: u8| format!("<{priority}>1 2026-11-23T10:00:00Z host su - ID47 - failed");
    let counted: String = (13..=16).map(text).map(|text| format!("{} {text}", text.len())).collect();
    let lines: String = [14, 16].map(text).map(|text| text + "\n").concat();
    let session = |port, stream: &str| Session::open(ends(), [port, 601]).client(stream.as_bytes(), 25).close();
    [session(46_000, &counted), session(46_001, &lines)].concat()
}

fn snmp_packets() -> Vec<Vec<u8>> {
    let port =
        |message: &[u8]| if message.windows(2).any(|pair| matches!(pair[0], 0xa4 | 0xa6 | 0xa7)) { 162 } else { 161 };
    snmp::messages().iter().map(|message| ends().udp_frame([51_000, port(message)], message)).collect()
}

/// Datagrams and segments to the ports of many services, from many hosts: what they carry is what the service would get.
fn every_port() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (index, port) in [
        7u16, 19, 53, 67, 69, 123, 137, 138, 161, 179, 389, 443, 500, 514, 520, 521, 546, 547, 646, 1701, 1900, 3784,
        4500, 5060, 5353, 11_211,
    ]
    .into_iter()
    .enumerate()
    {
        let number = index as u8;
        let from = Ends::new(&format!("198.51.100.{}", 10 + number), SERVER);
        let payload = match port {
            67 => dhcp(1),
            123 => ntp(3),
            3784 => vec![0x20, 0xc0, 3, 24, 0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
            69 => b"\0\x01file\0octet\0".to_vec(),
            520 => [&[1, 2, 0, 0, 0, 2, 0, 0][..], &[10, 0, 0, 0], &[255, 0, 0, 0], &[0; 4], &[0, 0, 0, 1]].concat(),
            _ => vec![number; 40 + index],
        };
        frames.push(from.udp_frame([55_000 + u16::from(number), port], &payload));
        frames.push(from.udp_frame([56_000 + u16::from(number), port], &payload));
        frames.extend(Session::open(from, [57_000 + u16::from(number), port]).client(&[number; 3], 100).reset());
    }
    for kind in 1..=8 {
        frames.push(ethernet_to([0xff; 6], 0x0800, &{
            let ends = Ends::new("0.0.0.0", "255.255.255.255");
            V4 { ends: [[0; 4], [255; 4]], ..V4::default() }.packet(17, &ends.udp([68, 67], &dhcp(kind)))
        }));
    }
    // Type of service, time to live and identification that rules ask for.
    for (number, (tos, ttl)) in [(0x10, 1), (0xb8, 2), (0, 255), (8, 64)].into_iter().enumerate() {
        let header = V4 { tos, ttl, id: 31_337 + number as u16, fragment: 0x4000, ..V4::default() };
        frames.push(ethernet(0x0800, &header.packet(17, &ends().udp([58_000, 9], b"header"))));
    }
    frames
}

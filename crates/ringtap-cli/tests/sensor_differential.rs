//! The sensor against Suricata 7 over the same captures with the same rules: the same signatures, as often, with the same
//! addresses and ports; for rules about packets also at the same packet.

mod sensor_support;

use sensor_support::suricata::{compare, count, suricata};
use sensor_support::{pcap, replay};
use serde_json::Value;

/// xorshift64*: the same traffic in each run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| b"abcdefGH01\r\n"[self.next(12)]).collect()
    }
}

fn internet_checksum(bytes: &[u8]) -> [u8; 2] {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes()
}

fn ipv4(protocol: u8, ends: [[u8; 4]; 2], id: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut head = vec![0x45, 0];
    head.extend_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    head.extend_from_slice(&id.to_be_bytes());
    head.extend_from_slice(&fragment.to_be_bytes());
    head.extend_from_slice(&[64, protocol, 0, 0]);
    head.extend_from_slice(&ends.concat());
    let checksum = internet_checksum(&head);
    head[10..12].copy_from_slice(&checksum);
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &head, payload].concat()
}

fn udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    [&ports.0.to_be_bytes()[..], &ports.1.to_be_bytes(), &(8 + payload.len() as u16).to_be_bytes(), &[0, 0], payload]
        .concat()
}

fn tcp(ports: (u16, u16), sequence: u32, acknowledgment: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    [
        &ports.0.to_be_bytes()[..],
        &ports.1.to_be_bytes(),
        &sequence.to_be_bytes(),
        &acknowledgment.to_be_bytes(),
        &[0x50, flags, 0xff, 0xff, 0, 0, 0, 0],
        payload,
    ]
    .concat()
}

const A: [u8; 4] = [198, 51, 100, 1];
const B: [u8; 4] = [203, 0, 113, 2];

/// Random datagrams, whole and in fragments in any order, against rules that combine contents and positions.
#[test]
fn datagrams_and_fragments_as_suricata_sees_them() {
    const TEST: &str = "datagrams_and_fragments_as_suricata_sees_them";
    let folder = tempfile::tempdir().unwrap();
    let (capture, rules) = (folder.path().join("x.pcap"), folder.path().join("x.rules"));
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut text = String::new();
    // `within` always ends behind the buffer's start: where it would end before, Suricata takes the sum for an unsigned one
    // and searches everything.
    for sid in 1..=60 {
        let word = |random: &mut Random| {
            String::from_utf8(random.bytes(2)).unwrap().replace('\r', "|0d|").replace('\n', "|0a|")
        };
        let first = word(&mut random);
        let second = word(&mut random);
        let options = match sid % 10 {
            0 => format!(r#"content:"{first}"; content:"{second}"; distance:0;"#),
            1 => format!(r#"content:"{first}"; content:"{second}"; distance:1; within:20;"#),
            2 => format!(r#"content:"{first}"; nocase; offset:10; depth:40;"#),
            3 => format!(r#"content:!"{first}"; content:"{second}"; nocase;"#),
            4 => format!(r#"content:"{first}"; isdataat:!20,relative;"#),
            5 => format!(r#"content:"{first}"; byte_test:1,>,100,0,relative; dsize:>50;"#),
            6 => format!(r#"content:"{first}"; pcre:"/[a-d]+\d/R";"#),
            7 => format!(r#"content:"{first}"; startswith;"#),
            8 => format!(r#"content:"{first}"; endswith;"#),
            _ => format!(
                r#"content:"{first}"; byte_jump:1,0,relative,multiplier 1; content:"{second}"; within:30; distance:-20;"#
            ),
        };
        text.push_str(&format!("alert udp any any -> any any (msg:\"{sid}\"; {options} sid:{sid};)\n"));
    }
    std::fs::write(&rules, text).unwrap();
    let mut frames = Vec::new();
    for number in 0..400u16 {
        let len = 20 + random.next(180);
        let datagram = udp((4000 + number, 9000), &random.bytes(len));
        if number % 4 != 0 {
            frames.push(ipv4(17, [A, B], number, 0, &datagram));
            continue;
        }
        let size = 8 * (2 + random.next(4));
        let mut parts: Vec<Vec<u8>> = datagram
            .chunks(size)
            .enumerate()
            .map(|(index, part)| {
                let more = (index + 1) * size < datagram.len();
                ipv4(17, [A, B], number, (index * size / 8) as u16 | u16::from(more) << 13, part)
            })
            .collect();
        for index in (1..parts.len()).rev() {
            parts.swap(index, random.next(index + 1));
        }
        frames.extend(parts);
    }
    pcap(&capture, &frames);
    let differences = compare(TEST, "datagrams", &capture, &rules, true);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Streams cut anywhere, in any order within a window, some segments twice: each planted word is found once.
#[test]
fn streams_as_suricata_sees_them() {
    const TEST: &str = "streams_as_suricata_sees_them";
    let folder = tempfile::tempdir().unwrap();
    let (capture, rules) = (folder.path().join("x.pcap"), folder.path().join("x.rules"));
    let mut random = Random(0x0bad_cafe_1234_5677);
    let mut text = String::new();
    for sid in 1..=40 {
        text.push_str(&format!(
            "alert tcp any any -> any 8000 (msg:\"{sid}\"; flow:established,to_server; content:\"planted-{sid:02}-\"; content:\"end\"; distance:0; sid:{sid};)\n"
        ));
    }
    std::fs::write(&rules, text).unwrap();
    let mut frames = Vec::new();
    for number in 0..60u16 {
        let ports = (20_000 + number, 8000);
        let (client, server) = (1_000_000 + u32::from(number) * 7919, 0xffff_ff00 + u32::from(number));
        let both = |from_client: bool| if from_client { ([A, B], ports) } else { ([B, A], (ports.1, ports.0)) };
        let mut send = |from_client: bool, segment: &dyn Fn((u16, u16)) -> Vec<u8>| {
            let (ends, ports) = both(from_client);
            frames.push(ipv4(6, ends, number, 0, &segment(ports)));
        };
        send(true, &|ports| tcp(ports, client, 0, 2, &[]));
        send(false, &|ports| tcp(ports, server, client.wrapping_add(1), 18, &[]));
        send(true, &|ports| tcp(ports, client.wrapping_add(1), server.wrapping_add(1), 16, &[]));
        let (before, after) = (10 + random.next(300), 10 + random.next(300));
        let stream = [
            random.bytes(before),
            format!("planted-{:02}-", 1 + number % 40).into_bytes(),
            random.bytes(20),
            b"end".to_vec(),
            random.bytes(after),
        ]
        .concat();
        let mut segments = Vec::new();
        let mut at = 0;
        while at < stream.len() {
            let len = (1 + random.next(40)).min(stream.len() - at);
            segments.push((at, len));
            at += len;
        }
        // Out of order by at most two places, and every seventh again.
        for index in (2..segments.len()).step_by(3) {
            segments.swap(index, index - random.next(3).min(index));
        }
        let again: Vec<_> = segments.iter().step_by(7).copied().collect();
        for (at, len) in segments.into_iter().chain(again) {
            send(true, &|ports| {
                tcp(ports, client.wrapping_add(1 + at as u32), server.wrapping_add(1), 24, &stream[at..at + len])
            });
        }
        let end = client.wrapping_add(1 + stream.len() as u32);
        send(false, &|ports| tcp(ports, server.wrapping_add(1), end, 16, &[]));
        send(true, &|ports| tcp(ports, end, server.wrapping_add(1), 17, &[]));
        send(false, &|ports| tcp(ports, server.wrapping_add(1), end.wrapping_add(1), 17, &[]));
        send(true, &|ports| tcp(ports, end.wrapping_add(1), server.wrapping_add(2), 16, &[]));
    }
    pcap(&capture, &frames);
    let differences = compare(TEST, "streams", &capture, &rules, false);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Rules for every keyword over packets of every protocol. Each finds something, but for those that are named here.
#[test]
fn keywords_as_suricata_sees_them() {
    const TEST: &str = "keywords_as_suricata_sees_them";
    let folder = tempfile::tempdir().unwrap();
    let (capture, rules) = (folder.path().join("x.pcap"), folder.path().join("keywords.rules"));
    std::fs::write(&rules, ringtap_samples::rules::KEYWORDS).unwrap();
    let usual = |sample: &ringtap_samples::Sample| sample.link == 1 && !UNLIKE.contains(&sample.name.as_str());
    let samples = ringtap_samples::samples().into_iter().filter(usual);
    pcap(&capture, &samples.flat_map(|sample| sample.packets).collect::<Vec<_>>());
    let differences = compare(TEST, "keywords", &capture, &rules, false);
    let mut differing: Vec<&str> = differences.iter().map(|line| line.split(['(', ',']).nth(1).unwrap()).collect();
    differing.dedup();
    assert_eq!(differing, COUNTED_APART, "{}", differences.join("\n"));
    let found = count(&replay(&[&capture], &rules, &["--events", "alert", "--no-checksums"]), false);
    let sids =
        ringtap_samples::rules::KEYWORDS.lines().filter_map(|line| line.rsplit_once("sid:")?.1.strip_suffix(";)"));
    let silent = sids.filter(|sid| !found.keys().any(|key| key.0.to_string() == *sid)).collect::<Vec<_>>();
    assert_eq!(silent, SILENT);
}

/// Rules that the two find, but not as often; why is not known yet.
const COUNTED_APART: [&str; 7] = ["4", "15", "29", "43", "81", "89", "94"];

/// Samples that the two decode in ways of their own: how deep to look into tunnels, and what of a broken header is told.
const UNLIKE: [&str; 3] = ["tunnels", "broken-on-purpose", "big"];

/// Rules that find nothing: they are silent, others let their packets through, or no packet is like that; of 15 see above.
const SILENT: [&str; 7] = ["15", "110", "113", "115", "161", "162", "168"];

/// Numbers and bytes of the packets that come after a match whose rule tags its session or a host.
#[test]
fn tagged_packets_as_suricata_sees_them() {
    const TEST: &str = "tagged_packets_as_suricata_sees_them";
    let folder = tempfile::tempdir().unwrap();
    let (capture, rules) = (folder.path().join("x.pcap"), folder.path().join("x.rules"));
    let frame = |from: [u8; 4], port: u16, id: u16, text: &[u8]| ipv4(17, [from, B], id, 0, &udp((port, 9000), text));
    for tag in ["session,3,packets", "session,200,bytes", "host,4,packets,src", "host,2,packets,dst"] {
        let rule = format!("alert udp any any -> any any (msg:\"1\"; content:\"attack\"; tag:{tag}; sid:1;)\n");
        std::fs::write(&rules, rule).unwrap();
        let mut frames = vec![frame(A, 7, 0, b"before"), frame(A, 7, 1, b"attack")];
        for id in 2..12 {
            // Every third is another session of the same hosts.
            frames.push(frame(A, if id % 3 == 0 { 8 } else { 7 }, id, b"and after it"));
        }
        frames.push(frame([192, 0, 2, 99], 7, 12, b"another host"));
        pcap(&capture, &frames);
        let tagged = |events: &[Value]| -> Vec<(u64, String)> {
            let packets = events.iter().filter(|event| event["event_type"] == "packet");
            packets
                .map(|event| (event["pcap_cnt"].as_u64().unwrap(), event["packet"].as_str().unwrap().to_owned()))
                .collect()
        };
        let ours = tagged(&replay(&[&capture], &rules, &["--events", "alert,packet", "--no-checksums"]));
        let theirs = tagged(&suricata(TEST, &capture, &rules, &[]));
        assert_eq!(ours, theirs, "tag:{tag}");
        assert!(!ours.is_empty(), "tag:{tag}");
    }
}

/// Two pieces that overlap, behind a hole that is filled at last.
struct Overlap {
    /// Bytes of the later piece, in [`Overlap::EARLIER`]'s counting.
    later: (usize, usize),
    to: [u8; 4],
    ports: (u16, u16),
    /// Identification of the fragments.
    id: u16,
    /// The first of four rules.
    sid: usize,
}

impl Overlap {
    /// The earlier piece.
    const EARLIER: (usize, usize) = (4, 8);
    /// Later pieces in each place there is.
    const LATER: [(usize, usize); 9] = [(2, 5), (2, 8), (2, 10), (4, 6), (4, 8), (4, 10), (5, 7), (6, 8), (6, 10)];

    fn begin(&self) -> usize {
        self.later.0.min(Self::EARLIER.0)
    }

    fn end(&self) -> usize {
        self.later.1.max(Self::EARLIER.1)
    }

    /// What a host has that takes the earlier or the later bytes.
    fn whole(&self, earlier_wins: bool) -> String {
        let owner = |at: usize| {
            let [earlier, later] = [Self::EARLIER, self.later].map(|(from, until)| (from..until).contains(&at));
            if at < self.begin() {
                'x'
            } else if earlier && (earlier_wins || !later) {
                'A'
            } else {
                'B'
            }
        };
        (0..self.end()).map(owner).collect()
    }

    /// A rule for each way to take them, as segments and as fragments.
    fn rules(&self) -> String {
        let (address, port) = (dotted(self.to), self.ports.1);
        let rule = |(offset, earlier_wins): (usize, bool)| {
            let (stream, sid) = (self.whole(earlier_wins), self.sid + offset);
            // The first unit of the fragments is the UDP header.
            let packet: String = stream.chars().skip(1).chain(['e']).flat_map(|unit| [unit; 8]).collect();
            format!(
                "alert tcp any any -> {address} {port} (msg:\"x\"; content:\"{stream}end\"; sid:{sid};)\n\
                 alert udp any any -> {address} {port} (msg:\"x\"; content:\"{packet}\"; sid:{};)\n",
                sid + 2
            )
        };
        [(0, true), (1, false)].map(rule).concat()
    }

    /// As segments of a connection.
    fn segments(&self) -> Vec<Vec<u8>> {
        let (to, back, ports) = ([A, self.to], [self.to, A], self.ports);
        let client = |at: usize, flags: u8, payload: &[u8]| {
            ipv4(6, to, at as u16, 0, &tcp(ports, 1000 + at as u32, 5001, flags, payload))
        };
        let server = |at: usize, sequence: u32, flags: u8| {
            ipv4(6, back, at as u16, 0, &tcp((ports.1, ports.0), sequence, 1000 + at as u32, flags, b""))
        };
        let (begin, end, (first, last)) = (self.begin(), self.end(), self.later);
        vec![
            client(0, 2, b""),
            server(1, 5000, 18),
            client(1, 16, b""),
            client(1 + Self::EARLIER.0, 24, &b"AAAA"[..Self::EARLIER.1 - Self::EARLIER.0]),
            client(1 + first, 24, &b"BBBBBBBB"[..last - first]),
            client(1, 24, &b"xxxx"[..begin]),
            client(1 + end, 24, b"end"),
            client(4 + end, 17, b""),
            server(5 + end, 5001, 17),
        ]
    }

    /// As fragments of a datagram, in units of eight bytes.
    fn fragments(&self) -> Vec<Vec<u8>> {
        let (begin, end, (first, last)) = (self.begin(), self.end(), self.later);
        let fragment = |from: usize, until: usize, unit: u8, more: bool| {
            let mut payload = vec![unit; (until - from) * 8];
            if from == 0 {
                let header = udp(self.ports, &vec![0; end * 8]);
                payload[..8].copy_from_slice(&header[..8]);
            }
            ipv4(17, [A, self.to], self.id, from as u16 | u16::from(more) << 13, &payload)
        };
        vec![
            fragment(Self::EARLIER.0, Self::EARLIER.1, b'A', true),
            fragment(first, last, b'B', true),
            fragment(end, end + 1, b'e', false),
            fragment(0, begin, b'x', true),
        ]
    }
}

fn dotted(address: [u8; 4]) -> String {
    address.map(|byte| byte.to_string()).join(".")
}

/// Two pieces that overlap in each way there is, to hosts of each system, as segments and as fragments: whose bytes count.
#[test]
fn overlaps_as_suricata_sees_them() {
    const TEST: &str = "overlaps_as_suricata_sees_them";
    const SYSTEMS: [&str; 13] = [
        "bsd",
        "bsd-right",
        "old-linux",
        "linux",
        "old-solaris",
        "solaris",
        "hpux10",
        "hpux11",
        "irix",
        "macos",
        "windows",
        "vista",
        "windows2k3",
    ];
    let folder = tempfile::tempdir().unwrap();
    let (capture, rules) = (folder.path().join("x.pcap"), folder.path().join("x.rules"));
    let host = |system: usize| [10, 0, 0, 1 + system as u8];
    let (mut frames, mut text) = (Vec::new(), String::new());
    for system in 0..SYSTEMS.len() {
        for (number, later) in Overlap::LATER.into_iter().enumerate() {
            let overlap = Overlap {
                later,
                to: host(system),
                ports: (20_000 + number as u16, 8000 + number as u16),
                id: (1 + system * Overlap::LATER.len() + number) as u16,
                sid: 1 + system * 100 + number * 4,
            };
            text += &overlap.rules();
            frames.extend(overlap.segments());
            frames.extend(overlap.fragments());
        }
    }
    std::fs::write(&rules, text).unwrap();
    pcap(&capture, &frames);
    let (config, settings): (String, Vec<String>) = SYSTEMS
        .iter()
        .enumerate()
        .map(|(system, name)| {
            let address = dotted(host(system));
            (format!("{name} = [\"{address}\"]\n"), format!("host-os-policy.{name}.0={address}/32"))
        })
        .unzip();
    let file = folder.path().join("ringtap.toml");
    std::fs::write(&file, format!("[overlap]\n{config}")).unwrap();
    let options = ["--events", "alert", "--no-checksums", "--config", file.to_str().unwrap()];
    let ours = count(&replay(&[&capture], &rules, &options), false);
    let theirs = count(&suricata(TEST, &capture, &rules, &settings), false);
    assert_eq!(ours, theirs);
    assert_eq!(ours.len(), 2 * SYSTEMS.len() * Overlap::LATER.len(), "one way or the other, each of them");
}

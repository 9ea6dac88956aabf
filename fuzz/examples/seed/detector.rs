//! Owns: the seeds of the detector's targets: packets, pieces, rules, and what applications say.

use ringtap_samples::{Sample, apps, rules as texts};

use crate::Seeds;

/// The first packets of each Ethernet sample, each behind its length and the time since the one before.
pub fn packets(samples: &[Sample]) -> Seeds {
    const MAX_LEN: usize = 2000;
    let ethernet = samples.iter().filter(|sample| sample.link == 1);
    let seed = |sample: &Sample| {
        let mut seed = Vec::new();
        for packet in sample.packets.iter().filter(|packet| packet.len() < 1500) {
            if seed.len() + packet.len() > MAX_LEN {
                break;
            }
            seed.extend((packet.len() as u16).to_be_bytes());
            seed.push(1);
            seed.extend(packet);
        }
        seed
    };
    ethernet.map(|sample| (sample.name.clone(), seed(sample))).filter(|(_, seed)| !seed.is_empty()).collect()
}

/// Segments and fragments in and out of order, some over others, behind the number of an overlap policy.
pub fn pieces() -> Seeds {
    let piece = |kind: u8, position: u16, bytes: &[u8]| {
        [&[kind][..], &position.to_be_bytes(), &[bytes.len() as u8], bytes].concat()
    };
    let orders: [(&str, Vec<Vec<u8>>); 5] = [
        ("in-order", vec![piece(0, 0, b"a nee"), piece(0, 5, b"dle and"), piece(1, 0, b"an answer")]),
        ("early", vec![piece(0, 5, b"dle"), piece(0, 0, b"a nee"), piece(0, 20, b"behind a gap")]),
        ("overlap", vec![piece(0, 4, b"needle"), piece(0, 2, b"other bytes"), piece(0, 0, b"ab   ")]),
        ("fragments", vec![piece(2, 0x0102, b"dleneedl"), piece(2, 0x0100, b"needleneedleneed"), piece(2, 3, b"le")]),
        (
            "flags",
            vec![piece(0, 0, b"x123y"), piece(0x08, 5, b"syn"), piece(0x10, 5, b"reset"), piece(0x04, 8, b"fin")],
        ),
    ];
    let seed = |number: usize, pieces: &[Vec<u8>]| [&[number as u8 * 3][..], &pieces.concat()].concat();
    orders.iter().enumerate().map(|(number, (name, pieces))| ((*name).to_owned(), seed(number, pieces))).collect()
}

/// The rules of the samples, some to a file.
pub fn rules() -> Seeds {
    const TO_A_FILE: usize = 8;
    let all = [texts::KEYWORDS, texts::OWN].concat();
    let lines: Vec<&str> = all.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let files = lines.chunks(TO_A_FILE).map(|lines| lines.join("\n") + "\n");
    files.enumerate().map(|(number, text)| (format!("rules-{number:02}"), text.into_bytes())).collect()
}

/// Each of `bytes` behind the byte that says how long segments are.
fn in_segments(sizes: &[u8], bytes: &[(&str, Vec<u8>)]) -> Seeds {
    let of = |(name, bytes): &(&str, Vec<u8>), size: u8| (format!("{name}-{size}"), [&[size][..], bytes].concat());
    bytes.iter().flat_map(|one| sizes.iter().map(move |&size| of(one, size))).collect()
}

/// Messages as they are in datagrams, and behind their lengths as they are in streams.
pub fn dns() -> Seeds {
    let query = apps::dns_query(7, "www.example.org", 1);
    let two = [query.clone(), apps::dns_query(8, "a.b.c.example.net", 28)];
    let framed = two.iter().flat_map(|query| [&(query.len() as u16).to_be_bytes()[..], query].concat()).collect();
    let mut pointers = apps::dns_query(9, "a", 1);
    pointers[5] = 2;
    pointers.extend([1, b'b', 0xc0, 12, 0, 1, 0, 1]);
    let answer = apps::dns_answer(7, "www.example.org", [203, 0, 113, 5]);
    in_segments(&[6, 255], &[("query", query), ("framed", framed), ("pointers", pointers), ("answer", answer)])
}

/// Hellos of both sides, and one that is not whole.
pub fn tls() -> Seeds {
    let hello = apps::client_hello("secure.example.org");
    let cut = hello[..hello.len() / 2].to_vec();
    in_segments(&[20, 255], &[("hello", hello), ("cut", cut), ("server", apps::server_hello())])
}

/// Banners, what follows them, and something else.
pub fn ssh() -> Seeds {
    let usual = [apps::ssh_banner("OpenSSH_9.9 Debian-1"), apps::ssh_kexinit()].concat();
    let request = apps::http_request("/", "www.example.org");
    in_segments(&[4, 255], &[("usual", usual), ("no-end", b"SSH-2.0-endless".to_vec()), ("http", request)])
}

//! Captures of SNMP and syslog decode as tshark says: every message, field by field; secured ones with every digest and cipher.

mod tshark_support;

use std::path::{Path, PathBuf};

use ringtap_samples::files::{Format, Order, file};
use ringtap_samples::frames::Ends;
use ringtap_samples::{Sample, damaged, sample};
use ringtap_snmp::encode::{Item, Trap};
use ringtap_snmp::message::{self, Message, ScopedPdu, tag};
use ringtap_snmp::usm::{AuthProtocol, LocalEngine, PrivProtocol, Sealer, User, Usm};
use ringtap_wire::{Layers, LinkType};
use tshark_support::{VALUES, tshark};

fn write(folder: &Path, sample: &Sample) -> PathBuf {
    let path = folder.join(format!("{}.pcap", sample.name));
    std::fs::write(&path, file(sample, Format::Pcap(Order::Little))).unwrap();
    path
}

#[test]
fn snmp_decodes_as_tshark_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), &sample("snmp"));
    let (compared, kinds) = tshark_support::snmp_decodes_as_tshark_says("snmp_decodes_as_tshark_says", &[file]);
    assert!(compared > 100 && kinds.len() == VALUES.len(), "{compared} messages compared, with values of {kinds:?}");
}

/// Messages cut at each byte, and with each byte changed: refused or read, never a panic; a cut one is never whole.
#[test]
fn damaged_messages_are_refused_or_read() {
    for message in ringtap_samples::snmp::messages() {
        for cut in 0..message.len() {
            let whole = |bytes: &[u8]| match message::parse(bytes) {
                Ok(Message::Community { pdu, .. }) => !pdu.varbinds.is_damaged(),
                Ok(Message::V3(message)) => match message.data {
                    message::ScopedData::Plain(scoped) => {
                        ScopedPdu::parse(scoped).is_ok_and(|scoped| !scoped.pdu.varbinds.is_damaged())
                    }
                    message::ScopedData::Encrypted(_) => true,
                },
                _ => false,
            };
            assert!(!whole(&message[..cut]), "{cut} of {message:02x?}");
            for change in [0x01, 0x80, 0xff] {
                let mut changed = message.clone();
                changed[cut] ^= change;
                whole(&changed);
            }
        }
    }
    for packet in damaged().iter().filter(|sample| sample.name.starts_with("snmp")).flat_map(|sample| &sample.packets) {
        let layers = Layers::parse(packet, LinkType::Ethernet);
        _ = message::parse(layers.payload(packet));
    }
}

const DIGESTS: [(AuthProtocol, &str); 6] = [
    (AuthProtocol::Md5, "MD5"),
    (AuthProtocol::Sha1, "SHA1"),
    (AuthProtocol::Sha224, "SHA2-224"),
    (AuthProtocol::Sha256, "SHA2-256"),
    (AuthProtocol::Sha384, "SHA2-384"),
    (AuthProtocol::Sha512, "SHA2-512"),
];

const CIPHERS: [Option<(PrivProtocol, &str)>; 5] = [
    None,
    Some((PrivProtocol::Des, "DES")),
    Some((PrivProtocol::Aes128, "AES")),
    Some((PrivProtocol::Aes192, "AES192")),
    Some((PrivProtocol::Aes256, "AES256")),
];

/// What our sealer secures with any digest and cipher we open; what is not encrypted tshark reads as we do. That others open it, and
/// we theirs, is shown with net-snmp beside the station (`net_trap`).
#[test]
fn secured_messages_are_opened() {
    const TEST: &str = "secured_messages_are_opened";
    const ENGINE: [u8; 9] = [0x80, 0, 0x1f, 0x88, 4, b't', b'e', b's', b't'];
    let folder = tempfile::tempdir().unwrap();
    let trap = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 4711)
        .with(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 1, 9], Item::Integer(9))
        .with(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 2, 9], Item::Text(b"secret text".to_vec()));
    let ends = Ends::new("192.0.2.1", "192.0.2.2");
    let (mut users, mut packets) = (Vec::new(), Vec::new());
    for (digest, their_digest) in DIGESTS {
        for cipher in CIPHERS {
            let name = format!("{their_digest}-{}", cipher.map_or("none", |(_, name)| name));
            let secret = cipher.map(|(cipher, _)| (cipher, "secretive1"));
            let user = || User::new(&name, Some((digest, "authentic1")), secret).unwrap();
            let scoped = trap.scoped(tag::V2_TRAP, &ENGINE, b"", 77);
            let salt = packets.len() as u64;
            let sealed = Sealer::new(&user(), &ENGINE, 3).seal(packets.len() as i32, 99, &scoped, salt).unwrap();
            packets.push(ends.udp_frame([5000, 162], &sealed));
            users.push(user());
        }
    }
    let count = packets.len();
    let sealed = Sample { name: "sealed".to_owned(), link: 1, packets };
    let path = write(folder.path(), &sealed);
    let fields = ["snmp.msgUserName", "snmp.request_id", "snmp.name"];
    let theirs = tshark(TEST, &path, "snmp", &[&fields[..], &VALUES].concat());
    assert_eq!(theirs.len(), count);
    let local = LocalEngine { id: b"\x80\0\x1f\x88\x04here".to_vec(), boots: 1, started_ns: 0 };
    let mut usm = Usm::new(local, users, 1);
    let mut plain = Vec::new();
    for (packet, row) in sealed.packets.iter().zip(theirs) {
        let layers = Layers::parse(packet, LinkType::Ethernet);
        let Ok(Message::V3(message)) = message::parse(layers.payload(packet)) else { panic!("{row:?}") };
        if let Err(refused) = usm.open(&message, 1_000_000_000, &mut plain) {
            panic!("{row:?}: {:?}", refused.cause);
        }
        let scoped = match message.data {
            message::ScopedData::Plain(bytes) => bytes,
            message::ScopedData::Encrypted(_) => &plain,
        };
        let scoped = ScopedPdu::parse(scoped).unwrap();
        let ([request, _, names], values) = tshark_support::words(&scoped.pdu).unwrap();
        assert_eq!(request, "77", "{row:?}");
        if !row[0].ends_with("-none") {
            assert!(row[1].is_empty() && row[2].is_empty(), "{row:?}");
            continue;
        }
        assert_eq!((&request, &names), (&row[1], &row[2]), "{row:?}");
        for (index, ours) in values.iter().enumerate() {
            assert_eq!(ours.join("|"), row[3 + index], "{}: {row:?}", VALUES[index]);
        }
    }
}

#[test]
fn syslog_decodes_as_tshark_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), &sample("syslog"));
    let compared = tshark_support::syslog_decodes_as_tshark_says("syslog_decodes_as_tshark_says", &[file]);
    assert!(compared >= 30, "{compared} messages compared");
}

#[test]
fn syslog_streams_are_cut_in_both_framings() {
    let packets = sample("syslog-tcp").packets;
    let of_port = |port: [u8; 2]| {
        packets
            .iter()
            .filter(move |packet| packet[34..36] == port)
            .map(|packet| (packet.as_slice(), LinkType::Ethernet))
    };
    for (port, expected) in [(46_000u16, &[13, 14, 15, 16][..]), (46_001, &[14, 16])] {
        assert!(of_port(port.to_be_bytes()).count() > 5);
        tshark_support::assert_stream(&port.to_string(), of_port(port.to_be_bytes()), expected);
    }
}

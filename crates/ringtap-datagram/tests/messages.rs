//! Any message in both forms: read as written, and refused with a bit or a byte changed.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use ringtap_datagram::datagram::Sealed;
use ringtap_datagram::line::{Line, MAX_LINE};
use ringtap_datagram::{
    ALERT_LEN, Action, Alert, Clock, Direction, Ends, HEARTBEAT_LEN, Heartbeat, Key, MAX_LEN, Message, Origin, Refused,
    Rule, SensorId,
};

fn key() -> Key {
    Key::new(7, b"sixteen bytes or more").unwrap()
}

fn ends() -> impl Strategy<Value = Ends> {
    let addresses = prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(from, to)| (IpAddr::from(from), IpAddr::from(to))),
        any::<([u8; 16], [u8; 16])>().prop_map(|(from, to)| (IpAddr::from(from), IpAddr::from(to))),
    ];
    let protocol = prop_oneof![Just(1u8), Just(6), Just(17), Just(58), Just(132), any::<u8>()];
    (addresses, protocol, any::<(u16, u16)>()).prop_map(|((source, destination), protocol, ports)| {
        let ports = if matches!(protocol, 6 | 17 | 132) { ports } else { (0, 0) };
        Ends { source, destination, protocol, ports }
    })
}

fn origin() -> impl Strategy<Value = Origin> {
    let clock = prop_oneof![Just(Clock::Host), Just(Clock::Recorded)];
    ("[a-z0-9._-]{1,32}", any::<[u8; 16]>(), clock, any::<u64>()).prop_map(|(sensor, boot_id, clock, epoch)| Origin {
        sensor: sensor.parse().unwrap(),
        boot_id,
        clock,
        epoch,
    })
}

fn alert() -> impl Strategy<Value = Alert> {
    let numbers = (1u64.., any::<u64>(), any::<u64>(), option::of(0..u64::MAX));
    let rule = any::<[u32; 3]>().prop_map(|[gid, sid, rev]| Rule { gid, sid, rev });
    let action = prop_oneof![Just(Action::Allowed), Just(Action::Blocked)];
    let direction = option::of(prop_oneof![Just(Direction::ToServer), Just(Direction::ToClient)]);
    (origin(), numbers, rule, any::<u8>(), action, option::of(ends()), direction, option::of(any::<[u8; 20]>()))
        .prop_map(
            |(origin, (sequence, time_ns, built_ns, error_ns), rule, severity, action, ends, direction, community)| {
                Alert {
                    origin,
                    sequence,
                    time_ns,
                    built_ns,
                    error_ns,
                    rule,
                    severity,
                    action,
                    ends,
                    direction,
                    community,
                }
            },
        )
}

fn message() -> impl Strategy<Value = Message> {
    let numbers = (any::<[u64; 3]>(), option::of(0..u64::MAX));
    let beat = (origin(), numbers).prop_map(|(origin, ([last_sequence, horizon_ns, sent_ns], error_ns))| {
        Message::Heartbeat(Heartbeat { origin, last_sequence, horizon_ns, sent_ns, error_ns })
    });
    prop_oneof![beat, alert().prop_map(Message::Alert)]
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut payload = vec![0xff; MAX_LEN];
    let len = message.encode(&key(), &mut payload).unwrap();
    payload.truncate(len);
    payload
}

fn line(message: &Message, key: Option<&Key>) -> Vec<u8> {
    let mut line = Vec::new();
    message.write_line(key, &mut line);
    line
}

proptest! {
    #[test]
    fn both_forms_are_read_as_written(message in message()) {
        let payload = encoded(&message);
        let expected = if matches!(message, Message::Alert(_)) { ALERT_LEN } else { HEARTBEAT_LEN };
        prop_assert_eq!(payload.len(), expected);
        let sealed = Sealed::parse(&payload).unwrap();
        prop_assert_eq!((sealed.sensor(), sealed.key_id()), (message.origin().sensor, 7));
        prop_assert_eq!(sealed.open(&key()), Ok(message));

        let text = line(&message, Some(&key()));
        let feeds = text.iter().filter(|byte| **byte == b'\n').count();
        prop_assert!(text.len() <= MAX_LINE && text.last() == Some(&b'\n') && feeds == 1);
        let read = Line::parse(&text).unwrap();
        prop_assert_eq!((read.sensor(), read.key_id()), (message.origin().sensor, Some(7)));
        prop_assert_eq!(read.open(&key()), Ok(message));
        let open = Line::parse(&line(&message, None)).unwrap();
        prop_assert_eq!((open.unverified(), open.open(&key())), (&message, Err(Refused::Unsealed)));
    }

    #[test]
    fn a_changed_bit_is_refused(message in message(), at: prop::sample::Index, bit in 0u8..8) {
        let mut payload = encoded(&message);
        let at = at.index(payload.len());
        payload[at] ^= 1u8 << bit;
        prop_assert!(Sealed::parse(&payload).and_then(|sealed| sealed.open(&key())).is_err(), "byte {}", at);
    }

    #[test]
    fn another_length_is_refused(message in message(), len in 0..2 * MAX_LEN) {
        let mut payload = encoded(&message);
        prop_assume!(len != payload.len());
        payload.resize(len, 0);
        prop_assert!(Sealed::parse(&payload).and_then(|sealed| sealed.open(&key())).is_err());
    }

    #[test]
    fn without_room_nothing_is_written(message in message(), less in 1..=MAX_LEN) {
        let whole = encoded(&message).len();
        let mut room = vec![0xff; whole.saturating_sub(less)];
        prop_assert_eq!(message.encode(&key(), &mut room), None);
        prop_assert!(room.iter().all(|byte| *byte == 0xff));
    }

    #[test]
    fn other_keys_are_refused(message in message(), secret in vec(any::<u8>(), 16..64)) {
        let payload = encoded(&message);
        let (forger, other) = (Key::new(7, &secret).unwrap(), Key::new(8, &secret).unwrap());
        let sealed = Sealed::parse(&payload).unwrap();
        prop_assert_eq!((sealed.open(&forger), sealed.open(&other)), (Err(Refused::Forged), Err(Refused::OtherKey)));
        let read = Line::parse(&line(&message, Some(&key()))).unwrap();
        prop_assert_eq!((read.open(&forger), read.open(&other)), (Err(Refused::Forged), Err(Refused::OtherKey)));
    }

    /// What a line still says after a change is what was sealed: only what says things again is not covered.
    #[test]
    fn a_changed_line_says_the_same_or_is_refused(message in message(), at: prop::sample::Index, byte in 0x20u8..0x7f) {
        let mut text = line(&message, Some(&key()));
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(read) = Line::parse(&text).and_then(|line| line.open(&key())) {
            prop_assert_eq!(read, message);
        }
    }

    /// Even the holder of the key has one form for each message.
    #[test]
    fn what_is_read_is_what_would_be_written(message in message(), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        use hmac::{Hmac, KeyInit, Mac};
        let mut payload = encoded(&message);
        let body = payload.len() - 16;
        for (at, byte) in changes {
            payload[at.index(body)] = byte;
        }
        let mac = Hmac::<sha2::Sha256>::new_from_slice(b"sixteen bytes or more").unwrap();
        let tag = mac.chain_update(&payload[..body]).finalize().into_bytes();
        payload[body..].copy_from_slice(&tag[..16]);
        if let Ok(read) = Sealed::parse(&payload).and_then(|sealed| sealed.open(&key())) {
            prop_assert_eq!(encoded(&read), payload);
        }
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in vec(any::<u8>(), 0..2 * MAX_LEN)) {
        prop_assert!(Sealed::parse(&bytes).and_then(|sealed| sealed.open(&key())).is_err());
        prop_assert!(Line::parse(&bytes).is_err());
    }
}

#[test]
fn names_of_sensors() {
    for good in ["a", "north-1.example_org", &"x".repeat(32)] {
        assert_eq!(good.parse::<SensorId>().unwrap().as_str(), good);
    }
    for wrong in ["", "A", "a b", "a\n", "ä", &"x".repeat(33)] {
        assert!(wrong.parse::<SensorId>().is_err(), "{wrong:?}");
    }
}

#[test]
fn a_line_has_names_of_eve() {
    let origin = Origin { sensor: "north".parse().unwrap(), boot_id: [0xab; 16], clock: Clock::Host, epoch: 1 << 60 };
    let ends =
        Ends { source: [192, 0, 2, 1].into(), destination: [198, 51, 100, 7].into(), protocol: 6, ports: (40000, 80) };
    let alert = Alert {
        origin,
        sequence: 3,
        time_ns: 951_782_400_000_000_009,
        built_ns: 951_782_400_000_050_000,
        error_ns: None,
        rule: Rule { gid: 1, sid: 77, rev: 2 },
        severity: 1,
        action: Action::Allowed,
        ends: Some(ends),
        direction: Some(Direction::ToServer),
        community: Some([0; 20]),
    };
    let expected = concat!(
        r#"{"timestamp":"2000-02-29T00:00:00.000000009+0000","event_type":"alert","src_ip":"192.0.2.1","src_port":40000,"#,
        r#""dest_ip":"198.51.100.7","dest_port":80,"proto":"TCP","ip_v":4,"direction":"to_server","#,
        r#""community_id":"1:AAAAAAAAAAAAAAAAAAAAAAAAAAA=","#,
        r#""alert":{"action":"allowed","gid":1,"signature_id":77,"rev":2,"severity":1},"#,
        r#""ringtap":{"sensor":"north","boot_id":"abababababababababababababababab","clock":"host","epoch":1152921504606846976,"#,
        r#""sequence":3,"time_ns":951782400000000009,"built_ns":951782400000050000,"error_ns":null}}"#,
        "\n"
    );
    let text = line(&Message::Alert(alert), None);
    assert_eq!(String::from_utf8(text.clone()).unwrap(), expected);
    // Others may add fields; nothing else may change.
    let more = expected.replacen("\"ip_v\":4", "\"ip_v\":6,\"in_iface\":\"eth0\"", 1);
    assert_eq!(Line::parse(more.as_bytes()).unwrap().unverified(), &Message::Alert(alert));
    for (from, to) in [
        ("\"sequence\":3", "\"sequence\":0"),
        ("\"TCP\"", "\"ICMP\""),
        ("198.51.100.7", "::1"),
        ("\"error_ns\":null", "\"error_ns\":18446744073709551615"),
        ("\"dest_port\":80,", ""),
        ("\"gid\":1", "\"gid\":1,\"gid\":2"),
        ("\"alert\",", "\"flow\","),
        ("\"to_server\"", "\"to\""),
        ("1:A", "2:A"),
        ("1:AA", "1:AB"),
        ("\"host\"", "\"guest\""),
    ] {
        let changed = expected.replacen(from, to, 1);
        assert_ne!(changed, expected);
        let read = Line::parse(changed.as_bytes()).map(|line| *line.unverified());
        assert!(read.is_err() || read != Ok(Message::Alert(alert)), "{to}");
    }
}

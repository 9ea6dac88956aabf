//! What was acknowledged is in the store, whenever the station is killed.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use ringtap_snmp::encode::{Item, Trap};
use ringtap_snmp::oid;
use ringtap_station::render;
use ringtap_station::store::Store;

use crate::support::{Station, port};

const NUMBER: [u32; 10] = [1, 3, 6, 1, 4, 1, 32473, 1, 1, 0];
const ROUNDS: u32 = 6;

/// Sends informs without waiting for each answer; gives the numbers that were acknowledged before the end.
fn inform(socket: &UdpSocket, to: &str, first: i32, until: Instant) -> (BTreeSet<i32>, i32) {
    let mut acknowledged = BTreeSet::new();
    let mut next = first;
    let mut buffer = [0; 2048];
    while Instant::now() < until {
        for _ in 0..20 {
            let trap = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).with(&NUMBER, Item::Integer(next.into()));
            // Refused while nobody listens.
            let _ = socket.send_to(&trap.inform(b"public", next), to);
            next += 1;
        }
        while let Ok((length, _)) = socket.recv_from(&mut buffer) {
            let ringtap_snmp::message::Message::Community { pdu, .. } =
                ringtap_snmp::message::parse(&buffer[..length]).unwrap()
            else {
                panic!("no answer of v2c")
            };
            assert_eq!(pdu.tag, ringtap_snmp::message::tag::RESPONSE);
            acknowledged.insert(pdu.request_id());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    (acknowledged, next)
}

fn stored_numbers(store: &Store) -> BTreeSet<i32> {
    let names = ringtap_snmp::names::Names::default();
    let name = oid::parse("1.3.6.1.4.1.32473.1.1.0").unwrap();
    assert_eq!(name, NUMBER);
    let rows = store.notifications(0, u64::from(u32::MAX)).unwrap();
    rows.iter()
        .map(|row| {
            let object = render::notification(row, &names, false);
            let varbinds = object["content"]["varbinds"].as_array().unwrap();
            varbinds.last().unwrap()["value"].as_str().unwrap().parse().unwrap()
        })
        .collect()
}

#[test]
fn net_trap_keeps_what_it_acknowledged_when_it_is_killed_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("store");
    let address = format!("127.0.0.1:{}", port());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut acknowledged = BTreeSet::new();
    let mut next = 1;
    for round in 0..ROUNDS {
        let station = Station::start(&directory, &["--listen", &address]);
        let until = Instant::now() + Duration::from_millis(150 + 70 * u64::from(round));
        let (more, after) = inform(&socket, &address, next, until);
        station.kill();
        next = after;
        acknowledged.extend(more);
    }
    assert!(acknowledged.len() > 100, "{} informs were acknowledged", acknowledged.len());
    let store = Store::open(&directory).unwrap();
    let stored = stored_numbers(&store);
    let missing: Vec<_> = acknowledged.difference(&stored).collect();
    assert!(missing.is_empty(), "acknowledged and not stored: {missing:?}");
    // The alarm counts what the store holds: both are written together.
    let alarms = store.alarms().unwrap();
    assert_eq!((alarms.len(), alarms[0].count), (1, store.notification_count().unwrap()));
}

//! The ring beside the host's own stack: answers to informs, syslog, and what comes by another way than the interface.

use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ringtap_testbed::{Testbed, TestbedConfig};
use ringtap_trap::encode::Trap;
use ringtap_trap::snmp::{self, Message, tag};
use serde_json::Value;

use crate::storm::{end, is_ready};
use crate::support::{PATIENCE, RINGTAP};

const LINK_DOWN: [u32; 10] = [1, 3, 6, 1, 6, 3, 1, 1, 5, 3];

/// One inform and one syslog message by the interface, one trap by loopback; what the station said at its end.
fn one_of_each(backend: &str) -> Value {
    assert!(nix::unistd::geteuid().is_root(), "did not run: {backend}: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut command = testbed.receiver().command(RINGTAP);
    command.args(["trap", "--json", "-i", testbed.receiver().interface(), "--backend", backend]);
    command.args(["--listen", "0.0.0.0:162", "--syslog", "0.0.0.0:514", "--spool", "8MiB"]);
    command.arg("--store").arg(&store);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut station = testbed.receiver().start(command).unwrap();
    let until = Instant::now() + PATIENCE;
    while !is_ready(station.child().id()) {
        assert!(Instant::now() < until, "the station does not come up");
        std::thread::sleep(Duration::from_millis(10));
    }

    let to = testbed.receiver().link().ipv4;
    let from = testbed.sender().link().ipv4;
    let trap = Trap::new(&LINK_DOWN, 1);
    testbed
        .sender()
        .run(|| {
            let socket = UdpSocket::bind((from, 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.send_to(&trap.inform(b"public", 77), (to, 162)).unwrap();
            let mut answer = [0; 1500];
            let (length, answered_by) = socket.recv_from(&mut answer).unwrap();
            assert_eq!(answered_by, (to, 162).into());
            let Ok(Message::Community { pdu, .. }) = snmp::parse(&answer[..length]) else { panic!("{answer:x?}") };
            assert_eq!((pdu.tag, pdu.request_id()), (tag::RESPONSE, 77));
            socket.send_to(b"<11>Oct 11 22:14:15 core1 bgpd[7]: peer down", (to, 514)).unwrap();
        })
        .unwrap();
    testbed
        .receiver()
        .run(|| UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&trap.v2c(b"public", 1), "127.0.0.1:162").unwrap())
        .unwrap();
    // Longer than a commit waits.
    std::thread::sleep(Duration::from_millis(500));
    let object = end(station);
    assert_eq!((&object["unaccounted"], &object["not_stored_yet"]), (&0.into(), &0.into()), "{object}");
    assert_eq!(object["notifications"]["syslog"], 1, "{object}");
    assert_eq!((&object["informs"], &object["answered"]), (&1.into(), &1.into()), "{object}");
    object
}

#[test]
fn net_trap_by_xdp_answers_informs_and_takes_what_comes_by_another_way_too() {
    let object = one_of_each("xdp");
    assert_eq!((&object["notifications"]["v2c"], &object["ledger"]["offered"]), (&2.into(), &3.into()), "{object}");
}

#[test]
fn net_trap_by_a_packet_ring_takes_nothing_twice() {
    let object = one_of_each("packet");
    assert_eq!((&object["notifications"]["v2c"], &object["ledger"]["offered"]), (&1.into(), &2.into()), "{object}");
}

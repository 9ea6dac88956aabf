//! The ring beside the host's own stack: answers to informs, syslog, what comes by another way than the interface, and what comes in
//! fragments.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Stdio;

use ringtap_snmp::encode::{Item, Trap};
use ringtap_snmp::message::{self, Message, tag};
use ringtap_station::store::Store;
use ringtap_testbed::{Host, RunningProgram, Testbed, TestbedConfig};
use serde_json::Value;

use crate::support::{PATIENCE, RINGTAP, end, sh, start_on, wait_until_it_says, wait_until_stored, wait_until_up};

const LINK_DOWN: [u32; 10] = [1, 3, 6, 1, 6, 3, 1, 1, 5, 3];

/// One inform and one syslog message by the interface, one trap by loopback; what the station said at its end.
fn one_of_each(backend: &str) -> Value {
    assert!(nix::unistd::geteuid().is_root(), "did not run: {backend}: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let interface = testbed.receiver().interface();
    let arguments = ["-i", interface, "--backend", backend, "--listen", "0.0.0.0:162", "--syslog", "0.0.0.0:514"];
    let store = folder.path().join("store");
    let station = start_on(testbed.receiver(), &store, &arguments);

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
            let Ok(Message::Community { pdu, .. }) = message::parse(&answer[..length]) else { panic!("{answer:x?}") };
            assert_eq!((pdu.tag, pdu.request_id()), (tag::RESPONSE, 77));
            socket.send_to(b"<11>Oct 11 22:14:15 core1 bgpd[7]: peer down", (to, 514)).unwrap();
        })
        .unwrap();
    testbed
        .receiver()
        .run(|| UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&trap.v2c(b"public", 1), "127.0.0.1:162").unwrap())
        .unwrap();
    drop(wait_until_stored(&store, 3));
    let object = end(station);
    assert_eq!((&object["unaccounted"], &object["not_stored_yet"]), (&0.into(), &0.into()), "{object}");
    assert_eq!(object["notifications"]["syslog"], 1, "{object}");
    assert_eq!((&object["informs"], &object["answered"]), (&1.into(), &1.into()), "{object}");
    object
}

#[test]
fn net_trap_by_a_ring_answers_informs_and_takes_what_comes_by_another_way_too_and_nothing_twice() {
    for backend in ["xdp", "packet"] {
        let object = one_of_each(backend);
        let counts = (&object["notifications"]["v2c"], &object["ledger"]["offered"]);
        assert_eq!(counts, (&2.into(), &3.into()), "{backend}: {object}");
    }
}

/// Datagrams over the MTU beside small ones: each is an alarm of one notification, whoever puts its fragments together.
fn fragments(backend: &str) {
    assert!(nix::unistd::geteuid().is_root(), "did not run: fragments by {backend}: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("store");
    let interface = testbed.receiver().interface();
    let arguments = ["-i", interface, "--backend", backend, "--listen", "0.0.0.0:162", "--listen", "[::]:162"];
    let station = start_on(testbed.receiver(), &directory, &arguments);
    let (v4, v6) = (testbed.receiver().link().ipv4, testbed.receiver().link().ipv6);
    let (from4, from6) = (testbed.sender().link().ipv4, testbed.sender().link().ipv6);
    let trap = |number: u32, bytes: usize| {
        let padding = Item::Text(vec![b'x'; bytes]);
        Trap::new(&[1, 3, 6, 1, 4, 1, 32473, 2, 0, number], 1).with(&[1, 3, 6, 1, 4, 1, 32473, 1, 2, 0], padding)
    };
    testbed
        .sender()
        .run(|| {
            let socket = UdpSocket::bind((from4, 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            for (number, bytes) in [(1, 10), (2, 1500), (3, 4000), (4, 60_000)] {
                socket.send_to(&trap(number, bytes).v2c(b"public", 1), (v4, 162)).unwrap();
            }
            socket.send_to(&trap(5, 6000).inform(b"public", 78), (v4, 162)).unwrap();
            let mut answer = vec![0; 65_536];
            let (length, answered_by) = socket.recv_from(&mut answer).unwrap();
            assert_eq!((answered_by, answer[..length].len() > 6000), ((v4, 162).into(), true));
            let socket = UdpSocket::bind((from6, 0)).unwrap();
            for (number, bytes) in [(6, 10), (7, 4000)] {
                socket.send_to(&trap(number, bytes).v2c(b"public", 1), (v6, 162)).unwrap();
            }
        })
        .unwrap();
    drop(wait_until_stored(&directory, 7));
    let object = end(station);
    let ledger = &object["ledger"];
    assert_eq!((&object["unaccounted"], &object["not_stored_yet"]), (&0.into(), &0.into()), "{object}");
    assert_eq!((&object["stored"], &ledger["delivered"]), (&7.into(), &7.into()), "{object}");
    match backend {
        "xdp" => {
            assert!(ledger["filtered"].as_u64().is_some_and(|left| left > 0), "the ring leaves fragments: {object}")
        }
        _ => assert!(ledger["filtered"].is_null(), "the kernel's filter counts nothing: {object}"),
    }
    let alarms = Store::open_beside(&directory).unwrap().alarms().unwrap();
    let mut seen: Vec<(String, u64)> = alarms.into_iter().map(|alarm| (alarm.key.condition, alarm.count)).collect();
    seen.sort();
    let expected: Vec<(String, u64)> = (1..=7).map(|number| (format!("1.3.6.1.4.1.32473.2.0.{number}"), 1)).collect();
    assert_eq!(seen, expected);
}

#[test]
fn net_trap_by_xdp_leaves_fragments_to_the_host_and_takes_the_whole() {
    fragments("xdp");
}

#[test]
fn net_trap_by_a_packet_ring_takes_what_came_in_fragments_once() {
    fragments("packet");
}

/// A process of this host, by whose number ip(8) finds the host's network namespace.
fn process_of(host: &Host) -> (RunningProgram, u32) {
    let mut sleep = host.command("sleep");
    sleep.arg("60");
    let mut running = host.start(sleep).unwrap();
    let id = running.child().id();
    (running, id)
}

/// Two interfaces, each with an account of its own, in the metrics too; when one goes away the other is taken from on.
#[test]
fn net_trap_by_two_rings_has_an_account_of_each_and_goes_on_with_one() {
    assert!(nix::unistd::geteuid().is_root(), "did not run: two rings: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let (sender, receiver) = (testbed.sender(), testbed.receiver());
    let (holder, namespace) = process_of(receiver);
    sh(sender, &format!("ip link add second1 type veth peer name second0 netns {namespace}"));
    sh(sender, "ip address add 198.51.100.1/24 dev second1 && ip link set second1 up");
    sh(receiver, "ip address add 198.51.100.2/24 dev second0 && ip link set second0 up");
    wait_until_up(sender, "second1");
    let folder = tempfile::tempdir().unwrap();
    let interface = receiver.interface();
    let arguments = ["-i", interface, "-i", "second0", "--backend", "xdp", "--listen", "0.0.0.0:162"];
    let arguments = [&arguments[..], &["--metrics", "127.0.0.1:9162"]].concat();
    let store = folder.path().join("store");
    let mut station = start_on(receiver, &store, &arguments);
    let send = |from: &str, to: &str, count: i32| {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        for number in 0..count {
            socket.send_to(&Trap::new(&LINK_DOWN, 1).v2c(b"public", number), (to, 162)).unwrap();
        }
    };
    let (from, to) = (sender.link().ipv4.to_string(), receiver.link().ipv4.to_string());
    sender
        .run(|| {
            send(&from, &to, 1);
            send("198.51.100.1", "198.51.100.2", 3);
        })
        .unwrap();
    drop(wait_until_stored(&store, 4));
    let metrics = receiver
        .run(|| {
            let mut stream = TcpStream::connect("127.0.0.1:9162").unwrap();
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        })
        .unwrap();
    for line in [
        "ringtap_trap_interface_delivered_total{interface=\"second0\"} 3".to_owned(),
        format!("ringtap_trap_interface_delivered_total{{interface=\"{interface}\"}} 1"),
        "ringtap_trap_interface_dropped_total{interface=\"second0\",cause=\"ring_full\"} 0".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    sh(receiver, "ip link del second0");
    wait_until_it_says(&mut station, "second0: ");
    sender.run(|| send(&from, &to, 2)).unwrap();
    drop(wait_until_stored(&store, 6));
    let object = end(station);
    drop(holder);
    assert_eq!((&object["stored"], &object["waiting"]), (&6.into(), &0.into()), "{object}");
    // What the device of one that is gone had counted, nobody can read any more.
    for (number, (name, unaccounted)) in [(interface, 0.into()), ("second0", Value::Null)].into_iter().enumerate() {
        let own = &object["interfaces"][number];
        assert_eq!((&own["name"], &own["ledger"]["delivered"]), (&name.into(), &3.into()), "{object}");
        assert_eq!(own["unaccounted"], unaccounted, "{object}");
    }
}

/// What comes by an interface that no ring copies is the sockets', as is what comes by one with the number of a ring that is gone.
#[test]
fn net_trap_beside_rings_that_copy_takes_what_comes_by_other_interfaces() {
    assert!(nix::unistd::geteuid().is_root(), "did not run: other interfaces: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let (sender, receiver) = (testbed.sender(), testbed.receiver());
    let (holder, namespace) = process_of(receiver);
    // The other end in the sender's host; subnet and index are of that number.
    let add = |number: u8| {
        let pair = format!("far{number} type veth peer name near{number} index 10{number}");
        sh(sender, &format!("ip link add {pair} netns {namespace}"));
        sh(sender, &format!("ip address add 198.51.{number}.1/24 dev far{number} && ip link set far{number} up"));
        sh(receiver, &format!("ip address add 198.51.{number}.2/24 dev near{number} && ip link set near{number} up"));
        wait_until_up(sender, &format!("far{number}"));
    };
    add(1);
    add(2);
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["-i", receiver.interface(), "-i", "near1", "--backend", "packet", "--listen", "0.0.0.0:162"];
    let store = folder.path().join("store");
    let mut station = start_on(receiver, &store, &arguments);
    let send = |number: u8, count: i32| {
        let socket = UdpSocket::bind((format!("198.51.{number}.1"), 0)).unwrap();
        for id in 0..count {
            let trap = Trap::new(&LINK_DOWN, 1).v2c(b"public", id);
            socket.send_to(&trap, (format!("198.51.{number}.2"), 162)).unwrap();
        }
    };
    sender.run(|| (send(1, 1), send(2, 2))).unwrap();
    drop(wait_until_stored(&store, 3));
    sh(receiver, "ip link del near1");
    wait_until_it_says(&mut station, "near1: ");
    add(1);
    sender.run(|| send(1, 4)).unwrap();
    drop(wait_until_stored(&store, 7));
    let object = end(station);
    drop(holder);
    assert_eq!((&object["stored"], &object["waiting"]), (&7.into(), &0.into()), "{object}");
    let own = |number: usize| &object["interfaces"][number]["ledger"]["delivered"];
    assert_eq!((own(0), own(1)), (&0.into(), &1.into()), "{object}");
}

/// A socket is not told by which port a datagram came to the device above it.
#[test]
fn net_trap_refuses_to_copy_one_of_several_ports() {
    assert!(nix::unistd::geteuid().is_root(), "did not run: several ports: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let receiver = testbed.receiver();
    let interface = receiver.interface();
    sh(receiver, "ip link add br0 type bridge && ip link set br0 up && ip link add port1 type veth peer name port2");
    sh(
        receiver,
        &format!("ip link set {interface} master br0 && ip link set port1 master br0 && ip link set port1 up"),
    );
    let folder = tempfile::tempdir().unwrap();
    let start = |interfaces: &[&str]| {
        let mut command = receiver.command(RINGTAP);
        command.args(["trap", "--listen", "0.0.0.0:162", "--duration", "200ms", "--backend", "packet", "--store"]);
        command.arg(folder.path().join("store")).stdout(Stdio::null()).stderr(Stdio::piped());
        command.args(interfaces.iter().flat_map(|name| ["-i", name]));
        let mut station = receiver.start(command).unwrap();
        let mut said = String::new();
        station.child().stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (station.child().wait().unwrap().code(), said)
    };
    let (code, said) = start(&[interface]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains(interface) && said.contains("-i br0"), "{said}");
    assert_eq!(start(&["br0"]).0, Some(0));
    assert_eq!(start(&[interface, "port1"]).0, Some(0));
}

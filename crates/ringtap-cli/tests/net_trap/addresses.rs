//! A host with several addresses: the answer to an inform comes from the one that was asked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::path::Path;
use std::process::Stdio;

use ringtap_snmp::encode::Trap;
use ringtap_snmp::message::{self, Message, tag};
use ringtap_station::store::Store;
use ringtap_testbed::{Testbed, TestbedConfig};
use serde_json::Value;

use crate::support::{PATIENCE, end, sh, start_on, wait_until_stored};

/// Informs to the first and to another address of the station's interface, in both families.
fn informs(test: &str, backend: &[&str]) {
    assert!(nix::unistd::geteuid().is_root(), "did not run: {test}: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let (host, sender) = (testbed.receiver(), testbed.sender());
    let [a, b, c, _] = host.link().ipv4.octets();
    let (first4, other4) = (host.link().ipv4, Ipv4Addr::new(a, b, c, 77));
    let first6 = host.link().ipv6;
    let other6 = Ipv6Addr::from(u128::from(first6) & !0xffff | 0x77);
    let interface = host.interface().to_owned();
    sh(host, &format!("ip address add {other4}/24 dev {interface}; ip address add {other6}/64 dev {interface} nodad"));
    // The testbed's hosts do not ask who has an address.
    let mac: Vec<String> = host.link().mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let neighbour = |address: IpAddr| {
        format!("ip neighbour replace {address} lladdr {} dev {} nud permanent", mac.join(":"), sender.interface())
    };
    sh(sender, &format!("{}; {}", neighbour(other4.into()), neighbour(other6.into())));

    let folder = tempfile::tempdir().unwrap();
    let from = if backend.is_empty() { vec![] } else { [&["-i", &interface][..], backend].concat() };
    let arguments = [&["--listen", "0.0.0.0:162", "--listen", "[::]:162"][..], &from].concat();
    let store = folder.path().join("store");
    let station = start_on(host, &store, &arguments);
    let mut sent = 0u64;
    for to in [IpAddr::from(first4), other4.into(), first6.into(), other6.into()] {
        sent += 2;
        sender
            .run(|| {
                let any: IpAddr =
                    if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
                let socket = UdpSocket::bind((any, 0)).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                let inform = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 1], 1).inform(b"public", 77);
                socket.send_to(&inform, (to, 162)).unwrap();
                let mut answer = [0; 1500];
                let (length, answered_by) = socket.recv_from(&mut answer).unwrap();
                assert_eq!(answered_by, (to, 162).into(), "{test}");
                let Ok(Message::Community { pdu, .. }) = message::parse(&answer[..length]) else {
                    panic!("{answer:x?}")
                };
                assert_eq!((pdu.tag, pdu.request_id()), (tag::RESPONSE, 77));
            })
            .unwrap();
        let target = if to.is_ipv4() { format!("udp:{to}:162") } else { format!("udp6:[{to}]:162") };
        let mut command = sender.command("snmpinform");
        command.args(["-v2c", "-c", "public", "-r", "0", "-t", "10", &target, "1", "1.3.6.1.6.3.1.1.5.2"]);
        command
            .env("SNMP_PERSISTENT_DIR", folder.path())
            .env("SNMPCONFPATH", "/nonexistent")
            .env("MIBS", "")
            .stdin(Stdio::null());
        let mut program =
            sender.start(command).unwrap_or_else(|error| panic!("did not run: {test}: snmpinform: {error}"));
        assert!(program.child().wait().unwrap().success(), "{test}: snmpinform to {target}");
    }
    drop(wait_until_stored(&store, sent));
    let object = end(station);
    assert_eq!((&object["informs"], &object["answered"]), (&sent.into(), &sent.into()), "{object}");
    assert_eq!((&object["stored"], &object["unaccounted"]), (&sent.into(), &0.into()), "{object}");
}

#[test]
fn net_trap_answers_from_the_address_that_was_asked() {
    informs("net_trap_answers_from_the_address_that_was_asked", &[]);
}

#[test]
fn net_trap_answers_from_the_address_that_was_asked_by_a_ring() {
    informs("net_trap_answers_from_the_address_that_was_asked_by_a_ring", &["--backend", "xdp"]);
}

/// What the host's stack takes for itself, and one that it does not; the last number of the traps that are stored, and the account.
fn destinations(test: &str, more: &[&str], store: &Path) -> (Vec<u32>, Value) {
    assert!(nix::unistd::geteuid().is_root(), "did not run: {test}: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let (host, sender) = (testbed.receiver(), testbed.sender());
    let (near, far) = (host.interface().to_owned(), sender.interface().to_owned());
    let mac: Vec<String> = host.link().mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let mac = mac.join(":");
    // Without `brd`, so that no address names the directed broadcast.
    sh(host, &format!("ip address add 203.0.113.2/24 dev {near}; ip route add local 198.51.100.7 dev lo"));
    sh(sender, &format!("ip address add 203.0.113.1/24 dev {far}; ip route add 198.51.100.0/24 dev {far}"));
    for address in ["203.0.113.2", "198.51.100.7", "198.51.100.9"] {
        sh(sender, &format!("ip neighbour replace {address} lladdr {mac} dev {far} nud permanent"));
    }
    let arguments = ["--listen", "0.0.0.0:162", "--listen", "[::]:162"];
    let from = if more.is_empty() { vec![] } else { [&["-i", &near][..], more].concat() };
    let station = start_on(host, store, &[&arguments[..], &from].concat());
    let (first4, first6) = (host.link().ipv4, host.link().ipv6);
    let send = || {
        let index = nix::net::if_::if_nametoindex(&*far).unwrap();
        let ip = |text: &str| SocketAddr::new(text.parse().unwrap(), 162);
        let to = [
            (first4, 162).into(),
            ip("203.0.113.2"),
            ip("255.255.255.255"),
            ip("203.0.113.255"),
            ip("224.0.0.1"),
            ip("198.51.100.7"),
            SocketAddr::from((first6, 162)),
            SocketAddrV6::new("ff02::1".parse().unwrap(), 162, 0, index).into(),
            // Of nobody.
            ip("198.51.100.9"),
        ];
        for (number, to) in to.into_iter().enumerate() {
            let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let socket = UdpSocket::bind((any, 0)).unwrap();
            socket.set_broadcast(true).unwrap();
            nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::BindToDevice, &(&far).into()).unwrap();
            let trap = Trap::new(&[1, 3, 6, 1, 4, 1, 32473, 2, 0, number as u32 + 1], 1);
            socket.send_to(&trap.v2c(b"public", 1), to).unwrap_or_else(|error| panic!("{test}: to {to}: {error}"));
        }
    };
    sender.run(send).unwrap();
    drop(wait_until_stored(store, 8));
    let object = end(station);
    let alarms = Store::open_beside(store).unwrap().alarms().unwrap();
    let last = |condition: &str| condition.rsplit('.').next().unwrap().parse().unwrap();
    let mut taken: Vec<u32> = alarms.iter().map(|alarm| last(&alarm.key.condition)).collect();
    taken.sort_unstable();
    (taken, object)
}

#[test]
fn net_trap_by_a_packet_ring_takes_what_the_stack_takes_and_tells_of_the_rest() {
    const TEST: &str = "net_trap_by_a_packet_ring_takes_what_the_stack_takes_and_tells_of_the_rest";
    let folder = tempfile::tempdir().unwrap();
    let (by_sockets, object) = destinations(TEST, &[], &folder.path().join("sockets"));
    assert_eq!((&by_sockets[..], &object["not_ours"]), (&[1, 2, 3, 4, 5, 6, 7, 8][..], &0.into()), "{object}");
    let (by_ring, object) = destinations(TEST, &["--backend", "packet"], &folder.path().join("ring"));
    assert_eq!((by_ring, &object["not_ours"]), (by_sockets, &1.into()), "{object}");
    assert_eq!((&object["stored"], &object["unaccounted"]), (&8.into(), &0.into()), "{object}");
}

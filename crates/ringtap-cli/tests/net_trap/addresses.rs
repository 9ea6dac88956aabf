//! A host with several addresses: the answer to an inform comes from the one that was asked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use ringtap_snmp::encode::Trap;
use ringtap_snmp::message::{self, Message, tag};
use ringtap_testbed::{Testbed, TestbedConfig};

use crate::support::{PATIENCE, end, sh, start_on};

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
    let station = start_on(host, &folder.path().join("store"), &arguments);
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
    // Longer than a commit waits.
    std::thread::sleep(Duration::from_millis(300));
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

//! A bond that nothing uses, captured by its ports: AF_XDP's sockets are bound to receive queues, and those are the ports'.
//!
//! Owns which bonds are, and what their ports are then. LACP, ARP and neighbour discovery always pass to the host, which finds out by
//! them whether a port works (steer.bpf.c).

use super::{Backend, ReceiverConfig};
use crate::host_use::HostUse;
use crate::interface::Interface;
use crate::sys::netlink;

/// The ports to open in place of the bond; none where it is captured as it is: no bond, or the host uses it or one of its ports.
pub(super) fn ports(config: &ReceiverConfig, interface: &Interface) -> Vec<Interface> {
    let may_be = matches!(config.backend, Backend::Auto | Backend::Xdp)
        && interface.kind.as_deref() == Some("bond")
        && interface.ethernet
        && interface.host_use.is_none();
    let all = if may_be { ports_of(interface) } else { Vec::new() };
    if all.iter().any(|port| port.host_use.is_some() || !port.up) { Vec::new() } else { all }
}

/// The ports of an aggregate, each standing for it. What the host does with a port or by it with the bond is its use.
fn ports_of(of: &Interface) -> Vec<Interface> {
    let links = netlink::links().unwrap_or_default();
    let names = links.into_iter().filter(|link| link.master == Some(of.index)).map(|link| link.name);
    let stands_for = |port: Interface| Interface {
        host_use: HostUse::of_port(port.index, of.index),
        port_of: Some(of.index),
        ..port
    };
    names.filter_map(|name| Interface::find(&name).ok()).map(stands_for).collect()
}

/// Indices of the ports that an aggregate has.
pub(super) fn indices(of: u32) -> Vec<u32> {
    let links = netlink::links().unwrap_or_default();
    links.into_iter().filter(|link| link.master == Some(of)).map(|link| link.index).collect()
}

#[cfg(test)]
mod tests {
    use ringtap_testbed::{Testbed, TestbedConfig};

    use super::*;
    use crate::burst::Packet;
    use crate::engine::Handler;
    use crate::pacer::Policy;
    use crate::receiver::devices::Found;
    use crate::receiver::{Departure, DeviceEnd, Devices, Receiver};
    use crate::steer::Attach;
    use crate::sys::privileges::{self, CAP_BPF, CAP_NET_ADMIN};
    use crate::transmit::Outbox;

    const CAP_SYS_ADMIN: u64 = 1 << 21;

    struct Nothing;

    impl Handler for Nothing {
        fn packet(&mut self, _packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {}
    }

    fn ip(arguments: &str) {
        let done = std::process::Command::new("ip").args(arguments.split(' ')).status().unwrap();
        assert!(done.success(), "ip {arguments}");
    }

    /// A bridge stands in for a bond, of which this kernel may have none: the ports of both are found and left in the same way.
    fn aggregate() {
        ip("link add bond0 type bridge");
        for port in ["port0", "port1"] {
            ip(&format!("link add {port} type veth peer name {port}-end"));
            ip(&format!("link set {port} master bond0 up"));
            ip(&format!("link set {port}-end up"));
        }
        ip("link set bond0 up");
    }

    fn on_a_host(test: &str, run: impl FnOnce() + Send) {
        let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{test}: {error}"));
        testbed.receiver().run(run).unwrap();
    }

    fn found(change: impl FnOnce(&mut ReceiverConfig)) -> Found {
        let bond = Interface::find_up("bond0").unwrap();
        let mut config = ReceiverConfig { backend: Backend::Auto, ..ReceiverConfig::new("bond0", Policy::Interrupt) };
        change(&mut config);
        Found { config, ports: ports_of(&bond), interface: bond }
    }

    #[test]
    fn net_an_aggregate_with_a_port_that_is_not_fit_for_af_xdp_is_copied_whole() {
        on_a_host("net_an_aggregate_with_a_port_that_is_not_fit", || {
            aggregate();
            // A tunnel: its driver runs no XDP program.
            ip("link add port2 type vxlan id 7 dstport 4789");
            ip("link set port2 master bond0 up");
            let devices = Devices::open_found(vec![found(|config| config.attach = Some(Attach::Native))]).unwrap();
            assert_eq!(devices.descriptions().iter().map(|it| it.backend).collect::<Vec<_>>(), ["packet"]);
            let running = devices.start(vec![Nothing]).unwrap();
            let said = running.warnings().join(" ");
            assert!(said.contains("port2") && said.contains("bond0 is copied as it is"), "{said}");
            running.finish().unwrap();
        });
    }

    /// Whoever has the packets of a port has them before the aggregate does.
    #[test]
    fn net_a_program_on_a_port_of_an_aggregate_that_is_copied_is_told() {
        on_a_host("net_a_program_on_a_port_of_an_aggregate", || {
            aggregate();
            let on_port = ReceiverConfig { backend: Backend::Xdp, ..ReceiverConfig::new("port1", Policy::Interrupt) };
            let taker = Receiver::open(on_port).unwrap();
            let copied = |config: &mut ReceiverConfig| config.backend = Backend::Packet;
            let devices = Devices::open_found(vec![Found { ports: Vec::new(), ..found(copied) }]).unwrap();
            let running = devices.start(vec![Nothing]).unwrap();
            let said = running.warnings().join(" ");
            assert!(
                said.contains("port1: what XDP program \"ringtap_steer\"") && said.contains("not seen here"),
                "{said}"
            );
            running.finish().unwrap();
            drop(taker);
        });
    }

    #[test]
    fn net_an_aggregate_is_one_device_of_its_ports_and_ends_when_it_is_used() {
        for has_privileges in [true, false] {
            ends_when_it_is_used(has_privileges);
        }
    }

    /// `has_privileges`: the watching thread may ask the kernel everything.
    fn ends_when_it_is_used(has_privileges: bool) {
        let run = || {
            aggregate();
            let bond = Interface::find_up("bond0").unwrap();
            assert_eq!(bond.host_use, None);
            let ports = ports_of(&bond);
            assert_eq!(ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>(), ["port0", "port1"]);
            assert!(ports.iter().all(|port| port.host_use.is_none() && port.port_of == Some(bond.index)));
            let devices = Devices::open_found(vec![found(|_| {})]).unwrap();
            assert_eq!((devices.iter().count(), devices.source_count()), (1, 2));
            assert!(devices.descriptions().iter().all(|source| source.backend == "xdp"));
            // A thread has the privileges of the one that starts it.
            let given_up = if has_privileges { 0 } else { CAP_NET_ADMIN | CAP_SYS_ADMIN | CAP_BPF };
            let started = privileges::without(given_up, || devices.start(vec![Nothing, Nothing]));
            let mut running = started.unwrap();
            assert_eq!(running.names(), ["bond0"]);
            assert_eq!(running.ledgers().len(), 1);
            // One port leaves, and the other goes on.
            ip("link set port0 nomaster");
            let mut ended = Vec::new();
            let mut wait = |running: &mut crate::receiver::RunningDevices<Nothing>| {
                for _ in 0..200 {
                    ended = running.take_ended();
                    if !ended.is_empty() {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                std::mem::take(&mut ended)
            };
            let first = wait(&mut running);
            assert!(
                matches!(&first[..], [one] if one.device == "port0" && one.end == DeviceEnd::Departed(Departure::Left))
            );
            assert!(!running.have_ended());
            // The host begins to use the aggregate.
            ip("address add 192.0.2.77/24 dev bond0");
            let last = wait(&mut running);
            assert!(
                matches!(&last[..], [one] if matches!(one.end, DeviceEnd::Departed(Departure::Used(_)))),
                "{last:?}"
            );
            assert!(running.have_ended());
            let outcome = running.finish().unwrap();
            assert_eq!((outcome.len(), outcome[0].ports.len()), (1, 2));
            assert!(outcome[0].end.is_some());
            ip("link del bond0");
            ip("link del port0");
            ip("link del port1");
        };
        on_a_host("net_an_aggregate_is_one_device_of_its_ports", run);
    }
}

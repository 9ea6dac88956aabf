//! The testbed: two hosts and the wire between them.
//!
//! Owns the set-up of devices, addresses and neighbours, made so that nothing is on the wire but what a test sends. Does
//! not own the namespaces (`namespace`), programs inside (`host`) or traffic (`generate`).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringtap::sched;
use ringtap::{Error, Result};

use crate::drops::DeviceCounters;
use crate::host::{Host, Link, run_inside};
use crate::namespace::Namespace;
use crate::tools;

/// Alias on `lo` by which a namespace made here is known; the generator sends nowhere else unasked.
pub const NAMESPACE_MARK: &str = "ringtap-testbed";

/// Who runs the receiving device's NAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// The generator's core, which so stands for the NIC's DMA engine; the receiver's core has only the receiver.
    #[default]
    Nic,
    /// A kernel thread on the receiver's core ([`Testbed::pin_napi`]): the whole cost of receiving on one core.
    Host,
}

/// What to build.
#[derive(Debug, Clone)]
pub struct TestbedConfig {
    /// Who runs NAPI.
    pub topology: Topology,
    /// Receive and transmit queues of both interfaces, 1–64. A veth puts a frame on queue (sending CPU mod queues).
    pub queues: u16,
    /// MTU of both interfaces in bytes, 1280–65535.
    pub mtu: u32,
    /// Both hosts have IPv6. Its reports about groups (RFC 3810) are sent again by work that a busy machine may put off: who counts each
    /// packet and needs no IPv6 goes without.
    pub ipv6: bool,
    /// CPU of the generator.
    pub generator_core: usize,
    /// CPU of the receiver.
    pub receiver_core: usize,
}

impl Default for TestbedConfig {
    /// Topology nic, one queue, MTU 1500, IPv6; receiver on the first CPU we may use, generator on the last.
    fn default() -> Self {
        let cpus = sched::allowed_cpus();
        Self {
            topology: Topology::Nic,
            queues: 1,
            mtu: 1500,
            ipv6: true,
            generator_core: cpus.last().copied().unwrap_or(0),
            receiver_core: cpus.first().copied().unwrap_or(0),
        }
    }
}

/// Two hosts joined by a veth pair. Everything vanishes when it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct Testbed {
    config: TestbedConfig,
    sender: Host,
    receiver: Host,
}

impl Testbed {
    /// Builds it; returns when the link is up and silent.
    ///
    /// # Errors
    /// Not root, ip(8) or ethtool(8) missing, or a setting the kernel refuses.
    pub fn new(config: TestbedConfig) -> Result<Self> {
        check(&config)?;
        let with_ipv6 = config.ipv6 && Path::new("/proc/sys/net/ipv6").exists();
        let (sender_link, receiver_link) = links();
        let sender_namespace = Arc::new(Namespace::new()?);
        let receiver_namespace = Arc::new(Namespace::new()?);
        for namespace in [&sender_namespace, &receiver_namespace] {
            run_inside(namespace, || quiet_defaults(with_ipv6))??;
        }
        run_inside(&sender_namespace, || {
            let Link { interface: peer, mac: peer_mac, .. } = &receiver_link;
            let Link { interface, mac, .. } = &sender_link;
            let TestbedConfig { queues, mtu, .. } = &config;
            tools::ip_batch(&[format!(
                "link add {interface} address {} mtu {mtu} numtxqueues {queues} numrxqueues {queues} type veth \
                 peer name {peer} address {} mtu {mtu} numtxqueues {queues} numrxqueues {queues} netns {}",
                mac_text(mac),
                mac_text(peer_mac),
                receiver_namespace.net_path().display()
            )])
        })??;
        let mut hosts = Vec::new();
        for (namespace, own, peer) in
            [(sender_namespace, &sender_link, &receiver_link), (receiver_namespace, &receiver_link, &sender_link)]
        {
            let index = run_inside(&namespace, || configure(own, peer, with_ipv6))??;
            hosts.push(Host::new(namespace, Link { index, ..own.clone() })?);
        }
        let receiver = hosts.pop().ok_or_else(|| Error::failed("build", "testbed", "receiver missing"))?;
        let sender = hosts.pop().ok_or_else(|| Error::failed("build", "testbed", "sender missing"))?;
        let this = Self { config, sender, receiver };
        this.wait_until_silent()?;
        Ok(this)
    }

    /// The host that sends.
    pub fn sender(&self) -> &Host {
        &self.sender
    }

    /// The host that receives.
    pub fn receiver(&self) -> &Host {
        &self.receiver
    }

    /// What was asked for.
    pub fn config(&self) -> &TestbedConfig {
        &self.config
    }

    /// Gives the receiver's device a NAPI without an XDP program (GRO on): frames redirected into a veth are dropped
    /// while the other end has none. For receivers such as packet sockets; attaching XDP does it by itself.
    ///
    /// # Errors
    /// ethtool(8) is missing or the kernel refuses.
    pub fn enable_receiver_napi(&self) -> Result<()> {
        let interface = self.receiver.interface();
        self.receiver.run(|| tools::run("ethtool", &format!("-K {interface} gro on")).map(|_| ()))?
    }

    /// The link must be up, and IPv6's reports about the groups of its own addresses (RFC 3810) must be over: a kernel sends two for each
    /// end, and a busy machine may let the second one wait.
    fn wait_until_silent(&self) -> Result<()> {
        const REPORTS: u64 = 2;
        const QUIET: Duration = Duration::from_millis(20);
        // Where not all reports were seen.
        const LONG_QUIET: Duration = Duration::from_millis(300);
        let until = Instant::now() + Duration::from_secs(5);
        let mut last = None;
        let mut since = Instant::now();
        loop {
            let hosts = [&self.sender, &self.receiver];
            let [sender, receiver] = hosts.map(DeviceCounters::link_only);
            let now = (sender?, receiver?);
            let are_over = !self.config.ipv6 || hosts.iter().all(|host| group_reports(host) >= REPORTS);
            let quiet = if are_over { QUIET } else { LONG_QUIET };
            if !now.0.up || !now.1.up || last.as_ref() != Some(&now) {
                last = Some(now);
                since = Instant::now();
            } else if since.elapsed() >= quiet {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Error::failed("wait for silence on", self.sender.interface(), "still traffic after 5 s")
                    .way_out("look who sends: tcpdump inside the testbed"));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Reports about groups that this end has sent; none where the kernel does not tell.
fn group_reports(host: &Host) -> u64 {
    let path = format!("/proc/thread-self/net/dev_snmp6/{}", host.interface());
    let text = host.run(|| std::fs::read_to_string(path)).ok().and_then(|read| read.ok()).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("Icmp6OutMLDv2Reports"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

fn check(config: &TestbedConfig) -> Result<()> {
    if !nix::unistd::Uid::effective().is_root() {
        return Err(
            Error::failed("build", "testbed", "it needs root (network namespaces)").way_out("run as root or with sudo")
        );
    }
    if !(1..=64).contains(&config.queues) {
        return Err(Error::usage("build", "testbed", format!("{} queues", config.queues)).way_out("ask for 1 to 64"));
    }
    // 1280 is IPv6's minimum (RFC 8200 section 5).
    if !(1280..=65535).contains(&config.mtu) {
        return Err(Error::usage("build", "testbed", format!("MTU {}", config.mtu)).way_out("ask for 1280 to 65535"));
    }
    let allowed = sched::allowed_cpus();
    for core in [config.generator_core, config.receiver_core] {
        if !allowed.contains(&core) {
            return Err(Error::usage(
                "build",
                "testbed",
                format!("CPU {core} is not among those allowed: {}", sched::listed(&allowed)),
            ));
        }
    }
    Ok(())
}

/// Addresses from the ranges for benchmarks (RFC 2544, RFC 5180); names unique on this machine.
fn links() -> (Link, Link) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // 3 + up to 7 digits + 1 + up to 4 digits = IFNAMSIZ − 1.
    let unique = format!("{}n{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed) % 10_000);
    let link = |name: &str, last: u8| Link {
        interface: format!("{name}{unique}"),
        index: 0,
        mac: [2, 0, 0, 0, 0, last],
        ipv4: Ipv4Addr::new(198, 18, 0, last),
        ipv6: Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, last.into()),
    };
    (link("snd", 1), link("rcv", 2))
}

/// What interfaces made later inherit: no router solicitation, no duplicate address detection, no own addresses; group
/// reports at once, so that they are over soon.
pub(crate) fn quiet_defaults(with_ipv6: bool) -> Result<()> {
    tools::ip_batch(&["link set lo up".into(), format!("link set lo alias {NAMESPACE_MARK}")])?;
    // No "port unreachable" for packets that nobody asked for (Linux 6.9 and newer have this per namespace).
    tools::write_if_present("/proc/sys/net/ipv4/icmp_msgs_per_sec", "0")?;
    if !with_ipv6 {
        tools::write_if_present("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")?;
        return tools::write_if_present("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
    }
    let settings = [
        ("accept_dad", "0"),
        ("dad_transmits", "0"),
        ("accept_ra", "0"),
        ("autoconf", "0"),
        ("router_solicitations", "0"),
        ("disable_ipv6", "0"),
        ("addr_gen_mode", "1"),
        ("mldv1_unsolicited_report_interval", "1"),
        ("mldv2_unsolicited_report_interval", "1"),
    ];
    for (name, value) in settings {
        tools::write_if_present(&format!("/proc/sys/net/ipv6/conf/default/{name}"), value)?;
    }
    tools::write_if_present("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0")
}

/// Addresses, static neighbours and offloads of one end; gives the interface's index.
fn configure(own: &Link, peer: &Link, with_ipv6: bool) -> Result<u32> {
    let name = &own.interface;
    // A wire carries whole packets with complete checksums.
    tools::run("ethtool", &format!("-K {name} tx off tso off gso off"))?;
    let mut lines = vec![
        format!("address add {}/24 dev {name}", own.ipv4),
        format!("link set {name} up"),
        format!("neighbour replace {} lladdr {} dev {name} nud permanent", peer.ipv4, mac_text(&peer.mac)),
    ];
    if with_ipv6 {
        lines.insert(1, format!("address add {}/64 dev {name} nodad", own.ipv6));
        lines.push(format!("neighbour replace {} lladdr {} dev {name} nud permanent", peer.ipv6, mac_text(&peer.mac)));
    }
    tools::ip_batch(&lines)?;
    nix::net::if_::if_nametoindex(name.as_str())
        .map_err(|errno| Error::os("find interface", name.clone(), &errno.into()))
}

pub(crate) fn mac_text(mac: &[u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Whether the calling thread is in a network namespace made by Ringtap: asked of the kernel by rtnetlink, as /sys may
/// show another namespace.
///
/// # Errors
/// ip(8) is missing.
pub fn in_testbed_namespace() -> Result<bool> {
    let text = tools::run("ip", "-json link show lo")?;
    let links: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| Error::failed("read", "ip -json link show lo", error))?;
    Ok(links[0]["ifalias"] == NAMESPACE_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_differ() {
        let (first, _) = links();
        let (second, _) = links();
        assert_ne!(first.interface, second.interface);
        assert!(first.interface.len() <= 15, "{}", first.interface);
    }

    #[test]
    fn this_machine_is_no_testbed() {
        assert!(!in_testbed_namespace().unwrap());
    }
}

//! What the kernel counts on a packet's way to us, read from any thread while the engines run.
//!
//! Owns the reading of socket and device counters and their names as causes of loss; ledger.rs adds them up.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::interface::Interface;
use crate::source::pcap::Published;
use crate::source::vfio::Card;
use crate::sys::netlink::LinkStatistics;
use crate::sys::{ethtool, netlink, packet_ring, xsk};

/// The counters of one socket since it was opened.
#[derive(Debug)]
pub(crate) struct SocketAccounts(Kind);

#[derive(Debug)]
enum Kind {
    Xdp {
        fd: Arc<OwnedFd>,
        packed: bool,
    },
    /// PACKET_STATISTICS starts at zero after each reading, so the sum is kept here.
    Packet {
        fd: Arc<OwnedFd>,
        received: u64,
        dropped: u64,
    },
    /// Read by the engine's thread.
    Library(Arc<Published>),
    /// A card in our own hands, for all its queues.
    Card(Arc<Card>),
}

/// What one socket let go, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SocketDrops {
    /// Packets the socket was given, dropped ones included; `None` where the kernel does not count them.
    pub(crate) offered: Option<u64>,
    /// No free slot in the receive ring.
    pub(crate) ring_full: u64,
    /// No free frame in the fill ring.
    pub(crate) fill_ring_empty: u64,
    /// Longer than a frame.
    pub(crate) oversize: u64,
    /// Before a libpcap saw them, on a device of which only it knows.
    pub(crate) nic: u64,
}

impl SocketDrops {
    pub(crate) fn total(&self) -> u64 {
        self.ring_full + self.fill_ring_empty + self.oversize
    }
}

impl SocketAccounts {
    pub(crate) fn xdp(fd: Arc<OwnedFd>, packed: bool) -> Self {
        Self(Kind::Xdp { fd, packed })
    }

    pub(crate) fn packet(fd: Arc<OwnedFd>) -> Self {
        Self(Kind::Packet { fd, received: 0, dropped: 0 })
    }

    pub(crate) fn library(published: Arc<Published>) -> Self {
        Self(Kind::Library(published))
    }

    pub(crate) fn card(card: Arc<Card>) -> Self {
        Self(Kind::Card(card))
    }

    /// Whether packets are left out after they were counted, and nobody says how many.
    pub(crate) fn leaves_out(&self) -> bool {
        matches!(&self.0, Kind::Library(published) if published.leaves_out)
    }

    /// `None` when the kernel does not answer.
    pub(crate) fn read(&mut self) -> Option<SocketDrops> {
        match &mut self.0 {
            Kind::Xdp { fd, packed } => {
                let counted = xsk::statistics(fd.as_fd()).ok()?;
                // rx_dropped counts packets that found no frame or did not fit one; the empty fill ring is counted beside it.
                // Packets of up to 64 KiB fit enough packed frames, but a fill ring with too few for one is not called empty. (A ring of
                // 64 or 128 of them is smaller than that, and the two causes can't be told apart.)
                let fill_ring_empty =
                    if *packed { counted.rx_dropped } else { counted.rx_dropped.min(counted.rx_fill_ring_empty_descs) };
                Some(SocketDrops {
                    offered: None,
                    ring_full: counted.rx_ring_full,
                    fill_ring_empty,
                    oversize: counted.rx_dropped - fill_ring_empty,
                    nic: 0,
                })
            }
            Kind::Packet { fd, received, dropped } => {
                let (packets, drops) = packet_ring::statistics(fd.as_fd()).ok()?;
                *received += u64::from(packets);
                *dropped += u64::from(drops);
                Some(SocketDrops { offered: Some(*received), ring_full: *dropped, ..SocketDrops::default() })
            }
            Kind::Card(card) => {
                let counted = card.count()?;
                Some(SocketDrops {
                    offered: Some(counted.good + counted.missed + counted.oversize),
                    nic: counted.missed,
                    oversize: counted.oversize,
                    ..SocketDrops::default()
                })
            }
            Kind::Library(published) => {
                let counted = published.read()?;
                Some(SocketDrops {
                    offered: Some(counted.offered + counted.before),
                    ring_full: counted.dropped,
                    nic: counted.before,
                    ..SocketDrops::default()
                })
            }
        }
    }
}

/// The counters of an interface since [`DeviceAccounts::start`].
#[derive(Debug)]
pub(crate) struct DeviceAccounts {
    interface: Interface,
    start: Option<DeviceCounters>,
    /// No interface of this host: nothing is counted here.
    is_foreign: bool,
}

#[derive(Debug, Clone, Copy)]
struct DeviceCounters {
    link: LinkStatistics,
    /// Packets dropped by the driver itself, where it says so apart from rx_dropped.
    own_drops: Option<u64>,
    softnet_dropped: Option<u64>,
}

/// What was lost before any socket saw it, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DeviceDrops {
    /// By the device: no descriptor, overrun.
    pub(crate) nic: u64,
    /// By driver or stack between device and socket.
    pub(crate) driver_queue: u64,
    /// Of these, as many as the per-CPU backlogs dropped at most (their counter is not per interface).
    pub(crate) softnet: u64,
}

impl DeviceAccounts {
    /// Remembers where the counters stand.
    pub(crate) fn start(interface: &Interface) -> Self {
        let is_foreign = interface.is_foreign();
        let start = if is_foreign { None } else { DeviceCounters::read(interface) };
        Self { interface: interface.clone(), start, is_foreign }
    }

    /// Packets that came to the interface since the start; `None` when it can't be read.
    pub(crate) fn received(&self) -> Option<u64> {
        let now = DeviceCounters::read(&self.interface)?;
        Some(now.link.rx_packets.saturating_sub(self.start?.link.rx_packets))
    }

    /// What was lost since the start; `None` when it can't be read.
    ///
    /// rx_dropped also has what the host's stack dropped because it knows no protocol for it (`__netif_receive_skb_core`),
    /// after a packet socket got it or the steering passed it: with two VLAN tags, say. That can't be told from loss, except
    /// where the driver has a count of its own, as veth does. There, too, a redirect into the veth that found its queue full
    /// is in rx_dropped only (`peer_tq_xdp_xmit_err`): what exceeds the packets `given_to_host` can be nothing else. veth
    /// counts a native XDP redirect that a socket refused among its own drops: these, `refused_redirects`, are taken out.
    pub(crate) fn drops(&self, refused_redirects: u64, given_to_host: u64) -> Option<DeviceDrops> {
        if self.is_foreign {
            return Some(DeviceDrops::default());
        }
        let (then, now) = (self.start?, DeviceCounters::read(&self.interface)?);
        let since = |now: u64, then: u64| now.saturating_sub(then);
        let nic = since(now.link.rx_missed_errors, then.link.rx_missed_errors)
            + since(now.link.rx_fifo_errors, then.link.rx_fifo_errors);
        let dropped = since(now.link.rx_dropped, then.link.rx_dropped);
        let softnet = match (now.softnet_dropped, then.softnet_dropped) {
            (Some(now), Some(then)) => since(now, then),
            _ => 0,
        };
        Some(match (now.own_drops, then.own_drops) {
            (Some(now), Some(then)) => {
                let own = since(now, then);
                let others = dropped.saturating_sub(own);
                let softnet = softnet.min(others);
                let full_queue = others.saturating_sub(softnet + given_to_host);
                DeviceDrops { nic, driver_queue: own.saturating_sub(refused_redirects) + full_queue, softnet }
            }
            _ => DeviceDrops { nic, driver_queue: dropped - softnet.min(dropped), softnet: softnet.min(dropped) },
        })
    }

    /// The driver's own counters that speak of loss, by their own names; for reports, not for sums.
    pub(crate) fn driver_counters(&self) -> Vec<(String, u64)> {
        let telling = |name: &str| ["drop", "miss", "err", "no_buf", "full"].iter().any(|word| name.contains(word));
        let all = ethtool::statistics(&self.interface.name).unwrap_or_default();
        all.into_iter().filter(|(name, value)| *value > 0 && telling(name)).collect()
    }
}

impl DeviceCounters {
    fn read(interface: &Interface) -> Option<Self> {
        let is_veth = interface.driver.as_deref() == Some("veth");
        Some(Self {
            link: netlink::link_by_index(interface.index).ok()?.statistics,
            own_drops: if is_veth { veth_drops(&ethtool::statistics(&interface.name).ok()?) } else { None },
            softnet_dropped: softnet_dropped(),
        })
    }
}

/// What veth's receive queues dropped (`rx_queue_N_drops`, veth_ethtool.c); None where it does not count that.
fn veth_drops(statistics: &[(String, u64)]) -> Option<u64> {
    let is_drops = |name: &str| {
        name.strip_prefix("rx_queue_").is_some_and(|rest| {
            rest.strip_suffix("_drops")
                .is_some_and(|queue| !queue.is_empty() && queue.bytes().all(|b| b.is_ascii_digit()))
        })
    };
    let drops: Vec<u64> = statistics.iter().filter(|(name, _)| is_drops(name)).map(|(_, value)| *value).collect();
    (!drops.is_empty()).then(|| drops.iter().sum())
}

/// Second column of /proc/net/softnet_stat, summed over the CPUs: packets dropped because a backlog was full.
fn softnet_dropped() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").ok()?;
    text.lines().map(|line| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_veths_queues_are_told_from_those_of_xdp_programs() {
        let named =
            |names: &[(&str, u64)]| names.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<Vec<_>>();
        let statistics = named(&[
            ("peer_ifindex", 3),
            ("rx_queue_0_drops", 5),
            ("rx_queue_0_xdp_drops", 70),
            ("rx_queue_11_drops", 2),
            ("tx_queue_0_xdp_xmit_errors", 9),
        ]);
        assert_eq!(veth_drops(&statistics), Some(7));
        assert_eq!(veth_drops(&statistics[..1]), None, "unknown is not 0");
    }
}

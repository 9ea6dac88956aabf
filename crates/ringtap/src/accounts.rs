//! What the kernel counts on a packet's way to us, read from any thread while the engines run.
//!
//! Owns the reading of socket and device counters and their names as causes of loss; ledger.rs adds them up.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::interface::Interface;
use crate::sys::netlink::LinkStatistics;
use crate::sys::{ethtool, netlink, packet_ring, xsk};

/// The counters of one socket since it was opened.
#[derive(Debug)]
pub(crate) struct SocketAccounts {
    fd: Arc<OwnedFd>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Xdp,
    /// PACKET_STATISTICS starts at zero after each reading, so the sum is kept here.
    Packet {
        received: u64,
        dropped: u64,
    },
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
    /// Addresses in the fill ring that the kernel refused.
    pub(crate) invalid_descriptor: u64,
}

impl SocketDrops {
    pub(crate) fn total(&self) -> u64 {
        self.ring_full + self.fill_ring_empty + self.oversize
    }
}

impl SocketAccounts {
    pub(crate) fn xdp(fd: Arc<OwnedFd>) -> Self {
        Self { fd, kind: Kind::Xdp }
    }

    pub(crate) fn packet(fd: Arc<OwnedFd>) -> Self {
        Self { fd, kind: Kind::Packet { received: 0, dropped: 0 } }
    }

    /// Has a packet socket take nothing more; AF_XDP is stopped by its steering.
    pub(crate) fn refuse_all(&self) {
        if matches!(self.kind, Kind::Packet { .. }) {
            // A program that says no to everything is always valid, and memory for one instruction there.
            let _ = packet_ring::refuse_all(self.fd.as_fd());
        }
    }

    /// `None` when the kernel does not answer.
    pub(crate) fn read(&mut self) -> Option<SocketDrops> {
        match &mut self.kind {
            Kind::Xdp => {
                let counted = xsk::statistics(self.fd.as_fd()).ok()?;
                // rx_dropped counts packets that found no frame or did not fit one; the empty fill ring is counted beside it.
                let fill_ring_empty = counted.rx_dropped.min(counted.rx_fill_ring_empty_descs);
                Some(SocketDrops {
                    offered: None,
                    ring_full: counted.rx_ring_full,
                    fill_ring_empty,
                    oversize: counted.rx_dropped - fill_ring_empty,
                    invalid_descriptor: counted.rx_invalid_descs,
                })
            }
            Kind::Packet { received, dropped } => {
                let (packets, drops) = packet_ring::statistics(self.fd.as_fd()).ok()?;
                *received += u64::from(packets);
                *dropped += u64::from(drops);
                Some(SocketDrops { offered: Some(*received), ring_full: *dropped, ..SocketDrops::default() })
            }
        }
    }
}

/// The counters of an interface since [`DeviceAccounts::start`].
#[derive(Debug)]
pub(crate) struct DeviceAccounts {
    interface: Interface,
    start: Option<DeviceCounters>,
}

#[derive(Debug, Clone, Copy)]
struct DeviceCounters {
    link: LinkStatistics,
    softnet_dropped: Option<u64>,
}

/// What was lost before any socket saw it, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        Self { interface: interface.clone(), start: DeviceCounters::read(interface.index) }
    }

    /// What was lost since the start, given what the sockets say they dropped; `None` when it can't be read.
    ///
    /// veth counts an XDP redirect that a socket refused among its own drops, so these are taken out there.
    pub(crate) fn drops(&self, refused_by_sockets: u64) -> Option<DeviceDrops> {
        let (then, now) = (self.start?, DeviceCounters::read(self.interface.index)?);
        let since = |now: u64, then: u64| now.saturating_sub(then);
        let nic = since(now.link.rx_missed_errors, then.link.rx_missed_errors)
            + since(now.link.rx_fifo_errors, then.link.rx_fifo_errors);
        let mut driver_queue = since(now.link.rx_dropped, then.link.rx_dropped);
        if self.interface.driver.as_deref() == Some("veth") {
            driver_queue = driver_queue.saturating_sub(refused_by_sockets);
        }
        let softnet = match (now.softnet_dropped, then.softnet_dropped) {
            (Some(now), Some(then)) => since(now, then).min(driver_queue),
            _ => 0,
        };
        Some(DeviceDrops { nic, driver_queue: driver_queue - softnet, softnet })
    }

    /// The driver's own counters that speak of loss, by their own names; for reports, not for sums.
    pub(crate) fn driver_counters(&self) -> Vec<(String, u64)> {
        let telling = |name: &str| ["drop", "miss", "err", "no_buf", "full"].iter().any(|word| name.contains(word));
        let all = ethtool::statistics(&self.interface.name).unwrap_or_default();
        all.into_iter().filter(|(name, value)| *value > 0 && telling(name)).collect()
    }
}

impl DeviceCounters {
    fn read(ifindex: u32) -> Option<Self> {
        Some(Self { link: netlink::link_by_index(ifindex).ok()?.statistics, softnet_dropped: softnet_dropped() })
    }
}

/// Second column of /proc/net/softnet_stat, summed over the CPUs: packets dropped because a backlog was full.
fn softnet_dropped() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").ok()?;
    text.lines().map(|line| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok()).sum()
}

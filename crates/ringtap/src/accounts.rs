//! What the kernel counts of an interface on a packet's way to us.
//!
//! Owns the reading of the interface's counters and their names as causes of loss. What a source counts is the source's
//! (`source::counters`); ledger.rs adds both up.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::interface::Interface;
use crate::sys::netlink::LinkStatistics;
use crate::sys::{ethtool, netlink};

/// The counters of an interface since [`InterfaceAccounts::begin`].
#[derive(Debug)]
pub(crate) struct InterfaceAccounts {
    interface: Interface,
    start: Option<InterfaceCounters>,
    backlogs: Share,
    told: LostSoFar,
    /// No interface of this host: nothing is counted here.
    is_foreign: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct InterfaceCounters {
    link: LinkStatistics,
    /// Packets dropped by the driver itself, where it says so apart from rx_dropped.
    own_drops: Option<u64>,
    softnet_dropped: Option<u64>,
}

/// Counters of an interface at one moment; none where they can't be read, or there are none.
#[derive(Debug)]
pub(crate) struct InterfaceLook(Option<InterfaceCounters>);

/// What was told as lost by driver or stack: counters are read one after the other, so a difference of two may fall, and each is too
/// small at most. What was told once stays.
#[derive(Debug, Default)]
struct LostSoFar {
    own: u64,
    rest: u64,
}

impl LostSoFar {
    /// What is lost of both by now.
    fn grow(&mut self, (own, rest): (u64, u64)) -> u64 {
        (self.own, self.rest) = (self.own.max(own), self.rest.max(rest));
        self.own + self.rest
    }
}

/// What was lost before any socket saw it, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InterfaceDrops {
    /// By the device: no descriptor, overrun; `None` where its counters don't say how many.
    pub(crate) nic: Option<u64>,
    /// By driver or stack between device and socket; `None` where the counter has other packets as well.
    pub(crate) driver_queue: Option<u64>,
    /// Of these, as many as the per-CPU backlogs dropped at most (their counter is not per interface).
    pub(crate) softnet: u64,
}

impl InterfaceAccounts {
    /// Of an interface.
    pub(crate) fn new(interface: &Interface) -> Self {
        let is_foreign = interface.is_foreign();
        Self {
            interface: interface.clone(),
            start: None,
            backlogs: Share::default(),
            told: LostSoFar::default(),
            is_foreign,
        }
    }

    /// Remembers where the counters stand.
    pub(crate) fn begin(&mut self) {
        if !self.is_foreign {
            self.start = InterfaceCounters::read(&self.interface);
            self.backlogs = Share::begin(&mut lock_told());
            self.told = LostSoFar::default();
        }
    }

    /// Packets that came to the interface since the start; `None` when it can't be read.
    pub(crate) fn received(&self) -> Option<u64> {
        let now = InterfaceCounters::read(&self.interface)?;
        Some(now.link.rx_packets.saturating_sub(self.start?.link.rx_packets))
    }

    /// Where the counters stand now, for [`InterfaceAccounts::drops`]. To be read before what is taken from it there, so that what
    /// comes meanwhile is taken off once too much, and never counted as lost.
    pub(crate) fn look(&self) -> InterfaceLook {
        InterfaceLook(if self.is_foreign { None } else { InterfaceCounters::read(&self.interface) })
    }

    /// What was lost from the start to a look; `None` when it can't be read. It never falls from one look to the next.
    /// What of it the per-CPU backlogs dropped no other interface of this process has told before.
    ///
    /// `refused_redirects`: native XDP redirects that our sockets refused, which are in their own statistics; `given_to_host`:
    /// packets that went on to the host's stack, where that is known.
    pub(crate) fn drops(
        &mut self,
        look: &InterfaceLook,
        refused_redirects: u64,
        given_to_host: Option<u64>,
    ) -> Option<InterfaceDrops> {
        if self.is_foreign {
            return Some(InterfaceDrops { nic: Some(0), driver_queue: Some(0), softnet: 0 });
        }
        let (then, now) = (self.start?, look.0?);
        let backlogs = &mut self.backlogs;
        let softnet = |grown: u64, most: u64| backlogs.take(&mut lock_told(), grown, most);
        let driver = self.interface.driver.as_deref();
        Some(drops_between(driver, &then, &now, refused_redirects, given_to_host, &mut self.told, softnet))
    }

    /// The driver's own counters that speak of loss, by their own names; for reports, not for sums.
    pub(crate) fn driver_counters(&self) -> Vec<(String, u64)> {
        let telling = |name: &str| ["drop", "miss", "err", "no_buf", "full"].iter().any(|word| name.contains(word));
        let name = netlink::link_by_index(self.interface.index).map(|link| link.name).unwrap_or_default();
        let all = ethtool::statistics(&name).unwrap_or_default();
        all.into_iter().filter(|(name, value)| *value > 0 && telling(name)).collect()
    }
}

/// What of the counters' growth is loss.
fn drops_between(
    driver: Option<&str>,
    then: &InterfaceCounters,
    now: &InterfaceCounters,
    refused_redirects: u64,
    given_to_host: Option<u64>,
    told: &mut LostSoFar,
    softnet: impl FnOnce(u64, u64) -> u64,
) -> InterfaceDrops {
    let since = |now: u64, then: u64| now.saturating_sub(then);
    let nic = missed(
        driver,
        since(now.link.rx_missed_errors, then.link.rx_missed_errors),
        since(now.link.rx_fifo_errors, then.link.rx_fifo_errors),
    );
    let dropped = since(now.link.rx_dropped, then.link.rx_dropped);
    let own = now.own_drops.zip(then.own_drops).map(|(now, then)| since(now, then));
    let others = dropped.saturating_sub(own.unwrap_or(0));
    let softnet = match (now.softnet_dropped, then.softnet_dropped) {
        // What was told as the driver's is not told again as theirs.
        (Some(now), Some(then)) => softnet(since(now, then), others.saturating_sub(told.rest)),
        _ => 0,
    };
    let dropped = Dropped { driver, own, rest: others.saturating_sub(softnet), refused_redirects, given_to_host };
    InterfaceDrops { nic, driver_queue: dropped.lost().map(|lost| told.grow(lost)), softnet }
}

/// What rx_missed_errors and rx_fifo_errors say together (linux/if_link.h): the first counts packets. The second may have the
/// same ones once more, as with igb and igc (rqdpc + mpc, igb_update_stats), and with others it need not count packets at all.
fn missed(driver: Option<&str>, missed: u64, fifo: u64) -> Option<u64> {
    match driver {
        Some("igb" | "igc") => Some(fifo.max(missed)),
        _ if fifo == 0 => Some(missed),
        _ => None,
    }
}

/// The growth of rx_dropped, less what the per-CPU backlogs dropped.
///
/// The host's stack adds to it each packet that it knows no protocol for (`__netif_receive_skb_core`): after a packet socket
/// got it, where it had a tag, or after the steering passed it. That is no loss of ours, and can't be told from what a driver adds.
struct Dropped<'d> {
    driver: Option<&'d str>,
    /// Packets dropped by the driver itself, where it says so apart from rx_dropped.
    own: Option<u64>,
    /// The others.
    rest: u64,
    refused_redirects: u64,
    given_to_host: Option<u64>,
}

impl Dropped<'_> {
    /// How many of them are lost, and in no other counter of ours, of the driver's own and of the others; `None`: that can't be said.
    fn lost(&self) -> Option<(u64, u64)> {
        // What went to the host's stack may all be in it.
        let besides = |rest: u64| match self.given_to_host {
            _ if rest == 0 => Some(0),
            Some(0) => Some(rest),
            _ => None,
        };
        match (self.driver, self.own) {
            // veth counts a native redirect that a socket refused among its queues' drops. A redirect into the veth that found
            // its queue full is in rx_dropped only (`peer_tq_xdp_xmit_err`): what exceeds the packets given to the host.
            (Some("veth"), Some(own)) => {
                let rest = match self.given_to_host {
                    Some(given) => Some(self.rest.saturating_sub(given)),
                    None => besides(self.rest),
                };
                rest.map(|rest| (own.saturating_sub(self.refused_redirects), rest))
            }
            // These drivers add nothing to it (their *_get_stats64 as of Linux 6.12); all is the stack's.
            (Some("e1000" | "e1000e" | "igb" | "igbvf" | "igc" | "ixgbe" | "ixgbevf" | "mlx5_core"), _) => Some((0, 0)),
            // They add each native redirect that a socket refused (receive_small_xdp, receive_mergeable_xdp;
            // stmmac_xdp_run_prog), and what they drop for other reasons.
            (Some("virtio_net" | "st_gmac" | "st_xgmac"), _) => {
                besides(self.rest.saturating_sub(self.refused_redirects)).map(|rest| (0, rest))
            }
            // Whether refused redirects are in it is not known here.
            _ if self.refused_redirects > 0 && self.rest > 0 => None,
            _ => besides(self.rest).map(|rest| (0, rest)),
        }
    }
}

/// Drops of the per-CPU backlogs that interfaces of this process have told. Nobody counts them by interface, and of two that may
/// have lost the same ones, one has.
static TOLD: Mutex<u64> = Mutex::new(0);

fn lock_told() -> MutexGuard<'static, u64> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one interface has told of them.
#[derive(Debug, Default)]
struct Share {
    /// By all before it began.
    before: u64,
    own: u64,
}

impl Share {
    fn begin(told: &mut u64) -> Self {
        Self { before: *told, own: 0 }
    }

    /// Of the drops since it began, `grown`, as many as it lost, `most` at most, and nobody else has told. What was told stays.
    fn take(&mut self, told: &mut u64, grown: u64, most: u64) -> u64 {
        let by_others = told.saturating_sub(self.own).saturating_sub(self.before);
        let own = grown.saturating_sub(by_others).min(most).max(self.own);
        *told += own - self.own;
        self.own = own;
        own
    }
}

impl InterfaceCounters {
    fn read(interface: &Interface) -> Option<Self> {
        let is_veth = interface.driver.as_deref() == Some("veth");
        // By the name it has now.
        let link = netlink::link_by_index(interface.index).ok()?;
        Some(Self {
            link: link.statistics,
            own_drops: if is_veth { veth_drops(&ethtool::statistics(&link.name).ok()?) } else { None },
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

    fn counters(rx_dropped: u64, own_drops: Option<u64>, softnet: u64) -> InterfaceCounters {
        let link = LinkStatistics { rx_dropped, ..LinkStatistics::default() };
        InterfaceCounters { link, own_drops, softnet_dropped: Some(softnet) }
    }

    /// (driver queue, softnet) for a growth of rx_dropped.
    fn lost(driver: &str, now: &InterfaceCounters, refused: u64, to_host: Option<u64>) -> (Option<u64>, u64) {
        let then =
            InterfaceCounters { own_drops: now.own_drops.map(|_| 0), softnet_dropped: Some(0), ..counters(0, None, 0) };
        let drops = drops_between(Some(driver), &then, now, refused, to_host, &mut LostSoFar::default(), u64::min);
        (drops.driver_queue, drops.softnet)
    }

    #[test]
    fn what_was_told_as_lost_stays_and_is_told_once() {
        let mut told = LostSoFar::default();
        let then = counters(0, Some(0), 0);
        // Each look's counters are older than what is taken from them: 40 drops, of which sockets refused 30, then 45.
        let mut look = |now: InterfaceCounters, refused, to_host| {
            let drops = drops_between(Some("veth"), &then, &now, refused, Some(to_host), &mut told, u64::min);
            (drops.driver_queue, drops.softnet)
        };
        assert_eq!(look(counters(40, Some(40), 0), 30, 0), (Some(10), 0));
        assert_eq!(look(counters(40, Some(40), 0), 45, 0), (Some(10), 0));
        assert_eq!(look(counters(60, Some(60), 0), 45, 0), (Some(15), 0));
        // Five found the queue full; then four packets more went to the host.
        assert_eq!(look(counters(69, Some(60), 0), 45, 4), (Some(20), 0));
        assert_eq!(look(counters(69, Some(60), 0), 45, 8), (Some(20), 0));
        // Nobody else had those that the backlogs tell of now, and five of the nine were told.
        assert_eq!(look(counters(69, Some(60), 9), 45, 0), (Some(20), 4));
    }

    #[test]
    fn what_the_stack_has_no_protocol_for_is_no_loss() {
        let some = counters(50, None, 0);
        for driver in ["igb", "ixgbe", "e1000e", "mlx5_core"] {
            assert_eq!(lost(driver, &some, 0, Some(1000)), (Some(0), 0), "{driver} adds nothing itself");
        }
        for driver in ["virtio_net", "r8169", "bridge"] {
            assert_eq!(lost(driver, &some, 0, Some(1000)), (None, 0), "{driver}: whose they are can't be told");
            assert_eq!(lost(driver, &some, 0, None), (None, 0), "{driver}");
            assert_eq!(lost(driver, &some, 0, Some(0)), (Some(50), 0), "{driver}: the stack got none");
            assert_eq!(lost(driver, &counters(0, None, 9), 0, None), (Some(0), 0), "{driver}: none is none");
        }
        assert_eq!(lost("r8169", &counters(50, None, 50), 0, None), (Some(0), 50), "the backlogs explain them");
        assert_eq!(lost("igb", &counters(50, None, 20), 0, None), (Some(0), 20));
    }

    #[test]
    fn two_interfaces_do_not_tell_the_same_drops_of_the_backlogs() {
        let mut told = 7;
        let (mut first, mut second) = (Share::begin(&mut told), Share::begin(&mut told));
        // Both lost thirty, and the backlogs dropped forty.
        assert_eq!((first.take(&mut told, 40, 30), second.take(&mut told, 40, 30)), (30, 10));
        assert_eq!((first.take(&mut told, 40, 30), second.take(&mut told, 40, 30)), (30, 10), "asked again");
        assert_eq!((second.take(&mut told, 55, 30), first.take(&mut told, 55, 31)), (25, 30));
        // One that begins later is not charged for what was before.
        let mut third = Share::begin(&mut told);
        assert_eq!((third.take(&mut told, 5, 9), told), (5, 7 + 60));
        // One alone has all.
        let (mut told, mut alone) = (0, Share::default());
        assert_eq!((alone.take(&mut told, 50, 20), alone.take(&mut told, 50, 60)), (20, 50));
    }

    #[test]
    fn a_redirect_that_a_socket_refused_is_counted_once() {
        let some = counters(50, None, 0);
        assert_eq!(lost("virtio_net", &some, 50, Some(0)), (Some(0), 0));
        assert_eq!(lost("virtio_net", &some, 50, Some(7)), (Some(0), 0));
        assert_eq!(lost("st_gmac", &some, 30, Some(0)), (Some(20), 0));
        assert_eq!(lost("i40e", &some, 30, Some(0)), (None, 0), "whether they are in it is not known");
        assert_eq!(lost("veth", &counters(50, Some(50), 0), 30, Some(1000)), (Some(20), 0));
        assert_eq!(lost("veth", &counters(60, Some(50), 0), 30, Some(4)), (Some(26), 0), "six found the queue full");
        assert_eq!(lost("veth", &counters(60, Some(50), 0), 30, None), (None, 0));
    }

    #[test]
    fn a_packet_missed_is_counted_once() {
        assert_eq!(missed(Some("igb"), 40, 100), Some(100), "40 by the card, 60 by its queues");
        assert_eq!(missed(Some("ixgbe"), 40, 0), Some(40));
        assert_eq!(missed(Some("8139too"), 40, 40), None, "the counter of overflows need not count packets");
    }

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

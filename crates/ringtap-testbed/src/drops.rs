//! What the two devices counted: packets, and drops that no receiver sees.
//!
//! Owns reading rtnl statistics (`ip -s -s -json link`) and driver statistics (`ethtool -S`) and the naming of drop causes.
//! Does not own the ledger these go into.

use std::collections::BTreeMap;

use ringtap::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host::Host;
use crate::testbed::Testbed;
use crate::tools;

/// Counters of one interface since it was made. Driver counters are summed over the queues.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounters {
    /// Administratively and operationally up.
    pub up: bool,
    /// MTU in bytes.
    pub mtu: u64,
    /// Counters of rtnetlink, such as "rx_packets" or "rx_dropped".
    pub link: BTreeMap<String, u64>,
    /// Counters of the driver without the queue's name, such as "rx_xdp_drops" or "tx_xdp_xmit_errors".
    pub driver: BTreeMap<String, u64>,
}

impl DeviceCounters {
    /// Reads all counters of `host`'s interface.
    ///
    /// # Errors
    /// ip(8) or ethtool(8) is missing, or the interface is gone.
    pub fn read(host: &Host) -> Result<Self> {
        host.run(|| Self::read_here(host.interface()))?
    }

    /// As [`DeviceCounters::read`], for an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// ip(8) or ethtool(8) is missing, or the interface is gone.
    pub fn read_here(interface: &str) -> Result<Self> {
        let driver = parse_driver(&tools::run("ethtool", &format!("-S {interface}"))?);
        Ok(Self { driver, ..Self::read_link_here(interface)? })
    }

    /// Only what rtnetlink tells; cheaper, and every device has it.
    pub(crate) fn link_only(host: &Host) -> Result<Self> {
        host.run(|| Self::read_link_here(host.interface()))?
    }

    fn read_link_here(interface: &str) -> Result<Self> {
        let arguments = format!("-s -s -json link show dev {interface}");
        let text = tools::run("ip", &arguments)?;
        let bad = |why: String| Error::failed("read", format!("ip {arguments}"), why);
        let links: Value = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let statistics = links[0]["stats64"].as_object().ok_or_else(|| bad("no stats64 in the answer".into()))?;
        let mut link = BTreeMap::new();
        for (direction, counters) in statistics {
            for (name, count) in counters.as_object().into_iter().flatten() {
                if let Some(count) = count.as_u64() {
                    link.insert(format!("{direction}_{name}"), count);
                }
            }
        }
        let mtu = links[0]["mtu"].as_u64().ok_or_else(|| bad("no mtu in the answer".into()))?;
        Ok(Self { up: links[0]["operstate"] == "UP", mtu, link, driver: BTreeMap::new() })
    }

    /// A driver counter; `None` when the driver has none of this name.
    pub fn driver(&self, name: &str) -> Option<u64> {
        self.driver.get(name).copied()
    }

    /// An rtnetlink counter; `None` when the kernel has none of this name.
    pub fn link(&self, name: &str) -> Option<u64> {
        self.link.get(name).copied()
    }
}

/// Drops at the devices between two readings, by cause. A counter that could not be read is `None`, never 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceDrops {
    /// Frames that found the receiving veth's queue of 256 full.
    pub veth_queue: Option<u64>,
    /// Frames an XDP program on the receiving veth dropped, aborted or could not redirect.
    pub xdp_program: Option<u64>,
    /// Drops of the receiver's stack at this device (rtnetlink `rx_dropped`), without those above.
    pub receiver_stack: Option<u64>,
}

impl DeviceDrops {
    /// Sum of the known causes.
    pub fn known(&self) -> u64 {
        [self.veth_queue, self.xdp_program, self.receiver_stack].into_iter().flatten().sum()
    }
}

/// Counters of both ends at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCounters {
    /// The sender's end.
    pub sender: DeviceCounters,
    /// The receiver's end.
    pub receiver: DeviceCounters,
}

impl WireCounters {
    /// Reads both ends; to be called while nothing is sent, or the two don't fit together.
    ///
    /// # Errors
    /// As [`DeviceCounters::read`].
    pub fn read(testbed: &Testbed) -> Result<Self> {
        Ok(Self {
            sender: DeviceCounters::read(testbed.sender())?,
            receiver: DeviceCounters::read(testbed.receiver())?,
        })
    }

    /// Drops since `earlier`.
    pub fn drops_since(&self, earlier: &Self) -> DeviceDrops {
        let driver = |host: fn(&Self) -> &DeviceCounters, name: &str| {
            Some(host(self).driver(name)?.saturating_sub(host(earlier).driver(name)?))
        };
        let link = |name: &str| Some(self.receiver.link(name)?.saturating_sub(earlier.receiver.link(name)?));
        let receiver: fn(&Self) -> &DeviceCounters = |wire| &wire.receiver;
        // A frame that comes by redirect and finds the queue full counts at the sender's end as an xmit error; one that
        // comes through the sender's stack counts as `rx_dropped` of the receiver (drivers/net/veth.c).
        let by_redirect = driver(|wire| &wire.sender, "tx_xdp_xmit_errors");
        let by_stack = driver(receiver, "rx_drops");
        let veth_queue = match (by_redirect, by_stack) {
            (None, None) => None,
            (redirect, stack) => Some(redirect.unwrap_or(0) + stack.unwrap_or(0)),
        };
        let xdp_program = driver(receiver, "rx_xdp_drops");
        // The driver adds to `rx_dropped` what overflowed here and what XDP_TX of the other end could not send here.
        let of_driver = veth_queue.unwrap_or(0) + driver(|wire| &wire.sender, "rx_xdp_tx_errors").unwrap_or(0);
        let receiver_stack = link("rx_dropped").map(|all| all.saturating_sub(of_driver));
        DeviceDrops { veth_queue, xdp_program, receiver_stack }
    }
}

/// "rx_queue_3_xdp_drops: 7" becomes ("rx_xdp_drops", 7), summed over the queues; other names stay.
fn parse_driver(text: &str) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for line in text.lines() {
        let Some((name, value)) = line.rsplit_once(':') else { continue };
        let Ok(value) = value.trim().parse::<u64>() else { continue };
        let name = name.trim();
        let summed = name.split_once("_queue_").and_then(|(direction, rest)| {
            let (queue, counter) = rest.split_once('_')?;
            queue.parse::<u32>().ok()?;
            Some(format!("{direction}_{counter}"))
        });
        *counters.entry(summed.unwrap_or_else(|| name.to_owned())).or_insert(0) += value;
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_counters_are_summed_over_queues() {
        let text =
            "NIC statistics:\n     peer_ifindex: 2\n     rx_queue_0_xdp_drops: 3\n     rx_queue_1_xdp_drops: 4\n";
        let counters = parse_driver(text);
        assert_eq!(counters["rx_xdp_drops"], 7);
        assert_eq!(counters["peer_ifindex"], 2);
    }

    #[test]
    fn unreadable_counter_is_unknown_not_zero() {
        let none = WireCounters { sender: DeviceCounters::default(), receiver: DeviceCounters::default() };
        assert_eq!(none.drops_since(&none), DeviceDrops::default());
        assert_eq!(none.drops_since(&none).veth_queue, None);
    }
}

//! What changes on a device while packets are taken from it and does not end that: its queues, how it spreads flows over them, the
//! ports of its bond.
//!
//! Owns what is looked at now and then, and the line for the user. Sockets are not opened for what is new: rings are planned, told and
//! locked at the start. Packets there stay with the host. Not every driver runs the XDP program on them (veth does not), so nobody can
//! say how many they are: from then on `offered` and `no_socket` are unknown.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::bond;
use crate::interface::Interface;
use crate::settings::{Reader, Setting};
use crate::sys::ethtool;
use crate::sys::netlink;

/// How often is looked: nobody announces these changes but the one of ports.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// What is as it was when the packets began to come.
#[derive(Debug)]
pub(super) struct Changes {
    interface: Interface,
    queues: u32,
    has_new_queues: Arc<AtomicBool>,
    /// What the card does to keep flows together, where nothing else does.
    spread: Vec<(Setting, String)>,
    /// The queue of each value of the card's hash; empty where nothing depends on it, or it can't be read.
    table: Vec<u32>,
    ports: Vec<u32>,
}

impl Changes {
    /// For AF_XDP on all queues of an interface; `relies_on_card`: flows are together by the card's settings alone.
    pub(super) fn of(interface: &Interface, relies_on_card: bool, has_new_queues: &Arc<AtomicBool>) -> Self {
        let reader = Reader::of(interface.index).ok().filter(|_| relies_on_card);
        let read = |mut reader: Reader| {
            let settings = Setting::of_spreading().into_iter();
            settings.filter_map(|setting| Some((setting.clone(), reader.read(&setting).ok()?))).collect()
        };
        Self {
            interface: interface.clone(),
            queues: interface.queues,
            has_new_queues: Arc::clone(has_new_queues),
            spread: reader.map_or_else(Vec::new, read),
            table: if relies_on_card { table_of(interface.index) } else { Vec::new() },
            ports: interface.port_of.map_or_else(Vec::new, bond::indices),
        }
    }

    /// One line for each change since it was asked last.
    pub(super) fn look(&mut self) -> Vec<String> {
        [self.new_queues(), self.new_spread(), self.new_port()].into_iter().flatten().collect()
    }

    fn new_queues(&mut self) -> Option<String> {
        let name = netlink::link_by_index(self.interface.index).ok()?.name;
        let now = ethtool::receive_queues(&name).ok()?;
        let before = std::mem::replace(&mut self.queues, now);
        if now <= before {
            return None;
        }
        self.has_new_queues.store(true, Ordering::Relaxed);
        Some(format!(
            "{name} has {now} receive queues now and had {before}: what comes on the new ones stays with the host, and how much that is \
             is unknown; start again to take it"
        ))
    }

    fn new_spread(&mut self) -> Option<String> {
        let mut reader = Reader::of(self.interface.index).ok().filter(|_| !self.spread.is_empty())?;
        let is_other = |(setting, before): &(Setting, String)| reader.read(setting).is_ok_and(|now| now != *before);
        let table = table_of(self.interface.index);
        let is_other_table = !self.table.is_empty() && !table.is_empty() && table != self.table;
        if !self.spread.iter().any(is_other) && !is_other_table {
            return None;
        }
        self.spread.clear();
        Some(format!(
            "the receive-side scaling of {} was changed: packets of one flow may come to different engines; start again",
            self.interface.name
        ))
    }

    fn new_port(&mut self) -> Option<String> {
        let of = self.interface.port_of?;
        let now = bond::indices(of);
        let new = now.iter().find(|index| !self.ports.contains(index)).copied();
        // Each port's watch sees it; the one with the lowest index says it.
        let speaks = now.iter().filter(|index| self.ports.contains(index)).min() == Some(&self.interface.index);
        self.ports.extend(now.iter().filter(|index| !self.ports.contains(index)).copied().collect::<Vec<_>>());
        let names = (netlink::link_by_index(new?).ok()?.name, netlink::link_by_index(of).ok()?.name);
        speaks.then(|| format!("{} is a new port of {}: its packets are not taken; start again", names.0, names.1))
    }
}

fn table_of(index: u32) -> Vec<u32> {
    let name = netlink::link_by_index(index).map(|link| link.name);
    name.map_err(io::Error::other).and_then(|name| ethtool::rss_table(&name)).unwrap_or_default()
}

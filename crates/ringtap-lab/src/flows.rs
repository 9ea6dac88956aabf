//! Whole flows from a card with several queues: both directions of each in one handler, whoever sees to it, and the card's
//! settings as they were.
//!
//! Owns the flows that are sent and what is asked of their packets. igb hashes TCP's ports in any case and lets nobody set its key,
//! so there it is the engines that hand packets over.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use ringtap::hand_over::{Demand, HandOver};
use ringtap::receiver::{Devices, ReceiverConfig};
use ringtap::{Error, Handler, Outbox, Packet, Result};
use ringtap_testbed::Stamp;

use crate::cell::{Cell, RECEIVER, settle, timer, wait_for_carrier};
use crate::outcome::Outcome;

/// Hosts that send to one and get answers from it.
const HOSTS: u8 = 12;
/// Packets each way.
const EACH: u64 = 40;
const PPS: f64 = 4000.0;

/// Packets of each host, by the direction.
#[derive(Default)]
struct Hosts(BTreeMap<u8, [u64; 2]>);

impl Handler for Hosts {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        if Stamp::from_frame(packet.data).is_none() {
            return;
        }
        let (source, destination) = (packet.data[29], packet.data[33]);
        let counts = self.0.entry(source.min(destination)).or_default();
        counts[usize::from(source > destination)] += 1;
    }
}

/// The settings by which the card spreads flows, as ethtool(8) tells them.
fn spread() -> Result<String> {
    let mut said = String::new();
    for arguments in
        [&["-x", RECEIVER][..], &["-n", RECEIVER, "rx-flow-hash", "udp4"], &["-n", RECEIVER, "rx-flow-hash", "tcp4"]]
    {
        let output = Command::new("/bin/ethtool").args(arguments).output();
        let output = output.map_err(|error| Error::os("run", "ethtool", &error))?;
        said += &String::from_utf8_lossy(&output.stdout);
    }
    Ok(said)
}

/// Each host's packets come, all of them to one handler.
pub(crate) fn whole_flows(cell: &Cell) -> Result<Outcome> {
    if cell.queues < 2 {
        return Ok(Outcome::absent("one queue"));
    }
    let before = spread()?;
    wait_for_carrier(RECEIVER)?;
    let mut devices = Devices::open(vec![ReceiverConfig { flows_together: true, ..cell.config(timer()) }])?;
    let queues = devices.source_count();
    let how = if devices.hands_over() { "by the engines" } else { "by the card" };
    let demand = Demand { bound: Duration::from_millis(20), peak_pps: PPS };
    let handlers = (0..devices.handler_count()).map(|_| Hosts::default()).collect();
    let handlers = devices.join_flows(handlers, demand, &mut Vec::new())?;
    let handed: Vec<_> = handlers.iter().map(HandOver::counts).collect();
    let running = devices.start(handlers)?;
    for host in 1..=HOSTS {
        let ends = [Ipv4Addr::new(192, 0, 2, host), Ipv4Addr::new(198, 51, 100, 200)];
        cell.send_between(ends, PPS, EACH)?;
        cell.send_between([ends[1], ends[0]], PPS, EACH)?;
    }
    settle(|| running.counters().packets);
    let outcome = running.finish()?.remove(0).outcome;
    let mut wrong = Vec::new();
    if outcome.ledger.unaccounted() != Some(0) {
        wrong.push(format!("the ledger does not add up: {}", outcome.ledger));
    }
    let handlers: Vec<Hosts> = outcome.engines.into_iter().map(|engine| engine.handler.into_inner()).collect();
    for host in 1..=HOSTS {
        let seen: Vec<_> = handlers.iter().filter_map(|handler| handler.0.get(&host)).collect();
        if seen != [&[EACH; 2]] {
            wrong.push(format!("host {host}: {seen:?} in its handlers, not {EACH} each way in one"));
        }
    }
    wait_for_carrier(RECEIVER)?;
    if spread()? != before {
        wrong.push("the card's settings are not as they were".to_owned());
    }
    let by_engine: Vec<usize> = handlers.iter().map(|handler| handler.0.len()).collect();
    let handed: u64 = handed.iter().map(|counts| counts.handed_over()).sum();
    Ok(Outcome::of(
        &wrong,
        format!("{queues} queues, {how}: {by_engine:?} hosts by engine, {handed} packets handed over"),
    ))
}

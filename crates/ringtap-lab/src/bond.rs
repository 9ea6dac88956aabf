//! A bond that nothing uses, captured by its ports with AF_XDP: LACP has to go on beside that, or the bond would have no partner.
//!
//! So has ARP, where the bond asks by it whether its ports are up.
//!
//! Owns two bonds, one at each end of two wires. The first one's ports are under test.

use std::time::{Duration, Instant};

use ringtap::receiver::{Backend, Devices, ReceiverConfig, RunningDevices};
use ringtap::{Error, Result};

use crate::cell::{Cell, Numbers, RECEIVER, SENDER, Traffic, settle, timer, wait_for_carrier};
use crate::host_use::{ADDRESSES, at_the_far_end, ip};
use crate::outcome::Outcome;

/// Not bond0, which the kernel's module makes by itself.
const BOND: &str = "lag0";
const FAR_BOND: &str = "lag1";
/// A pair of cards on a wire of its own, beside that of [`SENDER`] and [`RECEIVER`].
const SENDERS: [&str; 2] = [SENDER, "eth2"];
const PORTS: [&str; 2] = [RECEIVER, "eth3"];
/// LACP's short timeout is three seconds, its long one ninety.
const PATIENCE: Duration = Duration::from_secs(30);
const TRAFFIC: (f64, u64) = (1000.0, 2000);

/// The bond finds its partner by both ports while AF_XDP has their packets, and no packet of others is lost.
pub(crate) fn bond_by_its_ports(cell: &Cell) -> Result<Outcome> {
    if let Err(error) = add(BOND) {
        return Ok(Outcome::absent(format!("this kernel makes no bond: {error}")));
    }
    let checked = check(cell);
    // As it was, whatever came of it. What was not made can't be removed.
    for bond in [BOND, FAR_BOND] {
        let _ = ip(&format!("link del {bond}"));
    }
    for card in SENDERS.into_iter().chain(PORTS) {
        ip(&format!("link set {card} up"))?;
        wait_for_carrier(card)?;
    }
    checked
}

fn add(bond: &str) -> Result<()> {
    ip(&format!("link add {bond} type bond mode 802.3ad lacp_rate fast miimon 100"))
}

/// Makes cards its ports, and nothing uses it.
fn set_up(bond: &str, cards: [&str; 2]) -> Result<()> {
    for card in cards {
        ip(&format!("link set {card} down"))?;
        ip(&format!("link set {card} master {bond}"))?;
        ip(&format!("link set {card} up"))?;
    }
    // Refused by a kernel without IPv6, which makes no address either.
    let _ = ip(&format!("link set {bond} addrgenmode none"));
    ip(&format!("link set {bond} up"))?;
    cards.into_iter().try_for_each(wait_for_carrier)
}

fn check(cell: &Cell) -> Result<Outcome> {
    set_up(BOND, PORTS)?;
    let config = ReceiverConfig { interface: BOND.to_owned(), backend: Backend::Auto, ..cell.config(timer()) };
    let devices = Devices::open(vec![config])?;
    let sources = devices.descriptions();
    let taken = |port: &&str| sources.iter().any(|source| source.object == *port);
    if !sources.iter().all(|source| source.backend == "xdp") || !PORTS.iter().all(taken) {
        return Ok(Outcome::failed(format!("not taken by its ports: {sources:?}")));
    }
    let by_port: Vec<usize> =
        sources.iter().filter_map(|source| PORTS.iter().position(|port| source.object == *port)).collect();
    let handlers = (0..devices.source_count()).map(|_| Numbers::new(TRAFFIC.1, false)).collect();
    let running = devices.start(handlers)?;
    // Only now is there a partner to be found.
    add(FAR_BOND)?;
    set_up(FAR_BOND, SENDERS)?;
    let partner = partner()?;
    for card in SENDERS {
        cell.send_by(card, Traffic::new(TRAFFIC.0, TRAFFIC.1))?;
    }
    settle(|| running.counters().packets);
    judged(running, &by_port, partner.as_deref())
}

/// Whom the bond found by LACP on both ports, in time.
fn partner() -> Result<Option<String>> {
    let read = |what: &str| {
        let path = format!("/sys/class/net/{BOND}/bonding/{what}");
        let text = std::fs::read_to_string(&path).map_err(|error| Error::os("read", &path, &error))?;
        Ok::<_, Error>(text.trim().to_owned())
    };
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        let found = read("ad_partner_mac")?;
        if found != "00:00:00:00:00:00" && read("ad_num_ports")? == PORTS.len().to_string() {
            return Ok(Some(found));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(None)
}

/// The bond asks the host at the other end ten times a second and calls its port down where nothing comes back: as AF_XDP has the port's
/// packets, that is only what is left to the host.
pub(crate) fn bond_that_asks(cell: &Cell) -> Result<Outcome> {
    let [target, _] = ADDRESSES;
    let kind = format!("type bond mode active-backup arp_interval 100 arp_ip_target {target}");
    if let Err(error) = ip(&format!("link add {BOND} {kind}")) {
        return Ok(Outcome::absent(format!("this kernel makes no bond: {error}")));
    }
    let answering = format!("address add {target}/24 dev {SENDER}");
    let checked = at_the_far_end(&[answering], || answers_are_left(cell));
    let _ = ip(&format!("link del {BOND}"));
    ip(&format!("link set {RECEIVER} up"))?;
    wait_for_carrier(RECEIVER)?;
    checked
}

/// For two seconds, which is twenty questions.
fn answers_are_left(cell: &Cell) -> Result<Outcome> {
    const WATCHED: Duration = Duration::from_secs(2);
    ip(&format!("link set {RECEIVER} down"))?;
    ip(&format!("link set {RECEIVER} master {BOND}"))?;
    let _ = ip(&format!("link set {BOND} addrgenmode none"));
    ip(&format!("link set {BOND} up"))?;
    wait_for_carrier(RECEIVER)?;
    let config = ReceiverConfig { interface: BOND.to_owned(), backend: Backend::Auto, ..cell.config(timer()) };
    let devices = Devices::open(vec![config])?;
    let sources = devices.descriptions();
    if !sources.iter().all(|source| source.backend == "xdp" && source.object == RECEIVER) {
        return Ok(Outcome::failed(format!("not taken by its port: {sources:?}")));
    }
    let handlers = (0..devices.source_count()).map(|_| Numbers::new(0, false)).collect();
    let running = devices.start(handlers)?;
    // Attaching has the card restart, and the bond has seen that.
    wait_for_carrier(RECEIVER)?;
    wait_for_carrier(BOND)?;
    let failures = || {
        let path = format!("/proc/net/bonding/{BOND}");
        let text = std::fs::read_to_string(&path).map_err(|error| Error::os("read", path, &error))?;
        let count = text.lines().find_map(|line| line.strip_prefix("Link Failure Count: ")).map(str::to_owned);
        Ok::<_, Error>((count, text.contains(&format!("Currently Active Slave: {RECEIVER}"))))
    };
    let (before, _) = failures()?;
    std::thread::sleep(WATCHED);
    let (after, is_active) = failures()?;
    let outcome = running.finish()?.remove(0).outcome;
    let mut wrong = Vec::new();
    if before.is_none() || before != after || !is_active {
        wrong.push(format!("link failures of the port: {before:?} before, {after:?} after; active: {is_active}"));
    }
    if outcome.ledger.unaccounted() != Some(0) || outcome.ledger.filtered.is_none_or(|passed| passed < 10) {
        wrong.push(format!("not the answers were left to the host: {}", outcome.ledger));
    }
    let passed = outcome.ledger.filtered.unwrap_or(0);
    Ok(Outcome::of(&wrong, format!("up for {WATCHED:?} by {passed} packets left to the host")))
}

fn judged(running: RunningDevices<Numbers>, by_port: &[usize], partner: Option<&str>) -> Result<Outcome> {
    let outcome = running.finish()?.remove(0).outcome;
    let mut seen = [0, 0];
    for (&port, engine) in by_port.iter().zip(&outcome.engines) {
        seen[port] += engine.handler.seen().len() as u64;
    }
    let mut wrong = Vec::new();
    if partner.is_none() {
        wrong.push(format!("the bond found no partner on both ports within {PATIENCE:?}"));
    }
    if seen != [TRAFFIC.1; 2] {
        wrong.push(format!("{seen:?} of {} packets on each port came ({})", TRAFFIC.1, outcome.ledger));
    }
    if outcome.ledger.unaccounted() != Some(0) {
        wrong.push(format!("the ledger does not add up: {}", outcome.ledger));
    }
    if outcome.ledger.filtered == Some(0) {
        wrong.push("no packet was left to the host".to_owned());
    }
    Ok(Outcome::of(
        &wrong,
        format!("partner {} on both ports beside {seen:?} packets taken", partner.unwrap_or("none")),
    ))
}

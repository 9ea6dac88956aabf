//! What a host does with a card, one kind of device after the other: `auto` must leave it its packets.
//!
//! Owns the kinds that kernels of distributions have as modules, and what is said of each.

use std::process::Command;

use ringtap::receiver::{Backend, Devices, Receiver, ReceiverConfig};
use ringtap::{Error, Result};

use crate::cell::{Cell, RECEIVER, timer, wait_for_carrier};
use crate::outcome::Outcome;

/// The device made on the card.
const UPPER: &str = "up0";

/// Kind, what ip(8) has to do (CARD is down when it begins), and what is said of the card.
const USES: [(&str, &[&str], &str); 8] = [
    ("vlan", &["link add link CARD name up0 type vlan id 5"], "carries up0 (vlan)"),
    ("macvlan", &["link add link CARD name up0 type macvlan mode bridge"], "carries up0 (macvlan)"),
    ("ipvlan", &["link add link CARD name up0 type ipvlan mode l2"], "carries up0 (ipvlan)"),
    ("vxlan", &["link add up0 type vxlan id 7 remote 192.0.2.1 dev CARD dstport 4789"], "carries up0 (vxlan)"),
    ("bridge", &["link add up0 type bridge", "link set CARD master up0"], "is a port of up0 (bridge)"),
    ("vrf", &["link add up0 type vrf table 10", "link set CARD master up0"], "is a port of up0 (vrf)"),
    ("team", &["link add up0 type team", "link set CARD master up0"], "is a port of up0 (team)"),
    ("bond", &["link add up0 type bond mode active-backup", "link set CARD master up0"], "is a port of up0 (bond)"),
];

/// Each kind is seen and named, and the card is free again when the device is gone.
pub(crate) fn left_to_the_host(cell: &Cell) -> Result<Outcome> {
    let (mut wrong, mut seen, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, lines, said) in USES {
        ip(&format!("link set {RECEIVER} down"))?;
        let made = lines.iter().try_for_each(|line| ip(&line.replace("CARD", RECEIVER)));
        ip(&format!("link set {RECEIVER} up"))?;
        if made.is_ok() {
            ip(&format!("link set {UPPER} up"))?;
            wrong.extend(faults(cell, kind, said).err().map(|error| format!("{kind}: {error}")));
            seen.push(kind);
        } else {
            absent.push(kind);
        }
        // Not there, where it could not be made.
        let _ = ip(&format!("link del {UPPER}"));
        ip(&format!("link set {RECEIVER} up"))?;
    }
    let (backend, warnings) = opened(cell, RECEIVER)?;
    if backend != "xdp" {
        wrong.push(format!("free again, and taken by {backend}: {}", warnings.join("; ")));
    }
    if seen.is_empty() {
        return Ok(Outcome::absent("this kernel makes no such device"));
    }
    Ok(Outcome::of(&wrong, format!("left to the host: {}; not in this kernel: {}", seen.join(", "), absent.join(", "))))
}

/// The back end that `auto` takes, and what it says.
fn opened(cell: &Cell, interface: &str) -> Result<(&'static str, Vec<String>)> {
    wait_for_carrier(interface)?;
    let mut config = cell.config(timer());
    config.interface = interface.to_owned();
    config.backend = Backend::Auto;
    let receiver = Receiver::open(config)?;
    Ok((receiver.descriptions().remove(0).backend, receiver.warnings().to_vec()))
}

fn faults(cell: &Cell, kind: &str, said: &str) -> Result<()> {
    let fault = |cause: String| Err(Error::failed("leave to the host", RECEIVER, cause));
    let (backend, warnings) = opened(cell, RECEIVER)?;
    if backend != "packet" || !warnings.iter().any(|warning| warning.contains(said)) {
        return fault(format!("taken by {backend}: {}", warnings.join("; ")));
    }
    if kind != "bond" {
        return Ok(());
    }
    let (backend, warnings) = opened(cell, UPPER)?;
    if backend != "packet" || !warnings.iter().any(|warning| warning.contains("is a bond")) {
        return fault(format!("the bond is taken by {backend}: {}", warnings.join("; ")));
    }
    let mut config = cell.config(timer());
    config.interface = UPPER.to_owned();
    match Receiver::open(config.clone()) {
        Err(error) if error.to_string().contains(RECEIVER) => {}
        Err(error) => return fault(format!("the bond is refused without its ports: {error}")),
        Ok(_) => return fault("AF_XDP on a bond was not refused".to_owned()),
    }
    for backend in [Backend::Auto, Backend::Xdp] {
        taken_by_its_ports(ReceiverConfig { backend, ..config.clone() })?;
    }
    // With an address the host uses it, and nothing is taken.
    ip(&format!("address add 192.0.2.9/24 dev {UPPER}"))?;
    let used = Devices::open(vec![ReceiverConfig { backend: Backend::Auto, ..config }])?.descriptions();
    match used.iter().find(|source| source.backend == "xdp") {
        Some(source) => fault(format!("the bond has an address, and {} is taken", source.object)),
        None => Ok(()),
    }
}

/// A bond that nothing uses is one device, and its port has the sockets.
fn taken_by_its_ports(config: ReceiverConfig) -> Result<()> {
    let devices = Devices::open(vec![config])?;
    let names: Vec<&str> = devices.iter().map(|device| device.interface().name.as_str()).collect();
    let sources = devices.descriptions();
    if names != [UPPER] || !sources.iter().all(|source| source.backend == "xdp" && source.object == RECEIVER) {
        return Err(Error::failed("take a bond by its ports", UPPER, format!("{names:?} by {sources:?}")));
    }
    Ok(())
}

fn ip(line: &str) -> Result<()> {
    // Not the ip of the shell, which makes no such devices.
    let output =
        Command::new("/bin/ip").args(line.split(' ')).output().map_err(|error| Error::os("run", "ip", &error))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(Error::failed("run", format!("ip {line}"), String::from_utf8_lossy(&output.stderr).trim()))
    }
}

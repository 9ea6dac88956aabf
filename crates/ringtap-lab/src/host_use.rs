//! What a host does with a card, one kind of device after the other: `auto` must leave it its packets.
//!
//! Owns the kinds that kernels of distributions have as modules, and what is said of each.

use std::process::Command;

use ringtap::interface::Interface;
use ringtap::receiver::{Backend, Devices, Receiver, ReceiverConfig};
use ringtap::{Error, Result};

use crate::cell::{Cell, RECEIVER, SENDER, start_engines, timer, wait_for_carrier};
use crate::outcome::Outcome;

/// The device made on the card.
const UPPER: &str = "up0";

/// A device that the host makes on the card.
struct Use {
    kind: &'static str,
    /// What ip(8) has to do, or teamnl(8) where a line begins with its name; CARD is down when it begins; INDEX
    /// and HWADDR are its own.
    lines: &'static [&'static str],
    /// What is said of the card.
    said: &'static str,
    /// The device that gets the host's address there, and what ip(8) has to do at the other end, whose FAR gets one, too.
    answers: (&'static str, &'static [&'static str]),
}

/// The other end's host and its device.
pub(crate) const FAR_HOST: &str = "far";
pub(crate) const FAR: &str = "far0";
/// Of the far host, and of the host under test.
pub(crate) const ADDRESSES: [&str; 2] = ["198.51.100.1", "198.51.100.2"];
/// Echo requests of [`pings`].
pub(crate) const PINGS: usize = 3;

/// On the card itself: FAR is it by another name.
const PLAIN: &[&str] = &["link add link CARD name far0 type macvlan mode bridge"];

const USES: [Use; 8] = [
    Use {
        kind: "vlan",
        lines: &["link add link CARD name up0 type vlan id 5"],
        said: "carries up0 (vlan)",
        answers: (UPPER, &["link add link CARD name far0 type vlan id 5"]),
    },
    Use {
        kind: "macvlan",
        lines: &["link add link CARD name up0 type macvlan mode bridge"],
        said: "carries up0 (macvlan)",
        answers: (UPPER, PLAIN),
    },
    Use {
        kind: "ipvlan",
        lines: &["link add link CARD name up0 type ipvlan mode l2"],
        said: "carries up0 (ipvlan)",
        answers: (UPPER, PLAIN),
    },
    Use {
        kind: "vxlan",
        lines: &[
            "address add 192.0.2.2/24 dev CARD",
            "link set CARD up",
            "link add up0 type vxlan id 7 remote 192.0.2.1 dev CARD dstport 4789",
        ],
        said: "carries up0 (vxlan)",
        answers: (
            UPPER,
            &[
                "address add 192.0.2.1/24 dev CARD",
                "link add far0 type vxlan id 7 remote 192.0.2.2 dev CARD dstport 4789",
            ],
        ),
    },
    Use {
        kind: "bridge",
        lines: &["link add up0 type bridge", "link set CARD master up0"],
        said: "is a port of up0 (bridge)",
        answers: (UPPER, PLAIN),
    },
    Use {
        kind: "vrf",
        lines: &["link add up0 type vrf table 10", "link set CARD master up0"],
        said: "is a port of up0 (vrf)",
        answers: (RECEIVER, PLAIN),
    },
    Use {
        kind: "team",
        lines: &[
            "link add up0 type team",
            "teamnl up0 setoption mode activebackup",
            // As teamd(8) does: the card takes what is for its own address.
            "link set up0 address HWADDR",
            "link set CARD master up0",
            "link set up0 up",
            "link set CARD up",
            "teamnl up0 setoption activeport INDEX",
        ],
        said: "is a port of up0 (team)",
        answers: (UPPER, PLAIN),
    },
    Use {
        kind: "bond",
        lines: &["link add up0 type bond mode active-backup", "link set CARD master up0"],
        said: "is a port of up0 (bond)",
        answers: (UPPER, PLAIN),
    },
];

/// Each kind is seen and named, and the card is free again when the device is gone.
pub(crate) fn left_to_the_host(cell: &Cell) -> Result<Outcome> {
    let (mut wrong, mut seen, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for Use { kind, lines, said, answers: (near, far) } in USES {
        if made(lines)? {
            wrong.extend(faults(cell, kind, said).err().map(|error| format!("{kind}: {error}")));
            wrong.extend(goes_on(cell, near, far).err().map(|error| format!("{kind}: {error}")));
            seen.push(kind);
        } else {
            absent.push(kind);
        }
        unmake()?;
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

/// Pings from the other end are answered by `near` while a receiver has the card's packets by `auto`.
fn goes_on(cell: &Cell, near: &str, far: &[&str]) -> Result<()> {
    with_far_host(near, far, || {
        let config = ReceiverConfig { backend: Backend::Auto, ..cell.config(timer()) };
        let running = start_engines(Cell::open(config)?, 0, false)?;
        let answers = pings();
        running.finish()?;
        answers
    })
}

/// Has `work` done while the host uses the card by a device of this kind, whose name it is told, and another host is at
/// the other end. `None` where this kernel makes no such device.
pub(crate) fn beside<T>(kind: &str, work: impl FnOnce(&str) -> Result<T>) -> Result<Option<T>> {
    let Some(Use { lines, answers: (near, far), .. }) = USES.iter().find(|each| each.kind == kind) else {
        return Err(Error::failed("make a device on", RECEIVER, format!("there is no kind {kind}")));
    };
    if !made(lines)? {
        unmake()?;
        return Ok(None);
    }
    let done = with_far_host(near, far, || work(near));
    unmake()?;
    done.map(Some)
}

/// Makes the device on the card, and whether this kernel does.
fn made(lines: &[&str]) -> Result<bool> {
    ip(&format!("link set {RECEIVER} down"))?;
    let (index, address) = (Interface::find(RECEIVER)?.index.to_string(), address_of(RECEIVER)?);
    let filled = |line: &str| line.replace("CARD", RECEIVER).replace("INDEX", &index).replace("HWADDR", &address);
    let failed = lines.iter().find_map(|line| Some((line, make(&filled(line)).err()?)));
    if let Some((line, error)) = &failed
        && !line.contains(" type ")
    {
        unmake()?;
        return Err(error.clone());
    }
    let made = failed.is_none();
    ip(&format!("link set {RECEIVER} up"))?;
    if made {
        ip(&format!("link set {UPPER} up"))?;
    }
    Ok(made)
}

/// The card as it was.
fn unmake() -> Result<()> {
    // Not there, where it could not be made.
    let _ = ip(&format!("link del {UPPER}"));
    ip(&format!("address flush dev {RECEIVER}"))?;
    ip(&format!("link set {RECEIVER} up"))?;
    wait_for_carrier(RECEIVER)
}

/// Has `work` done with an address at `near`, and another host at the other end.
fn with_far_host<T>(near: &str, far: &[&str], work: impl FnOnce() -> Result<T>) -> Result<T> {
    ip(&format!("address add {}/24 dev {near}", ADDRESSES[1]))?;
    let lines: Vec<String> = far
        .iter()
        .map(|line| line.replace("CARD", SENDER))
        .chain([format!("address add {}/24 dev {FAR}", ADDRESSES[0]), format!("link set {FAR} up")])
        .collect();
    at_the_far_end(&lines, work)
}

/// Has `work` done while the other end of the wire is another host's, set up there by these lines for ip(8).
pub(crate) fn at_the_far_end<T>(lines: &[String], work: impl FnOnce() -> Result<T>) -> Result<T> {
    ip(&format!("netns add {FAR_HOST}"))?;
    ip(&format!("link set {SENDER} netns {FAR_HOST}"))?;
    let set_up = || {
        there(&format!("link set {SENDER} up"))?;
        lines.iter().try_for_each(|line| there(line))
    };
    let done = set_up().and_then(|()| work());
    // Back where the other checks need it, whatever came of it.
    let _ = there(&format!("link del {FAR}"));
    let _ = there(&format!("address flush dev {SENDER}"));
    there(&format!("link set {SENDER} netns 1"))?;
    ip(&format!("netns del {FAR_HOST}"))?;
    ip(&format!("link set {SENDER} up"))?;
    wait_for_carrier(SENDER)?;
    done
}

/// Has ip(8) do something at the far host.
fn there(line: &str) -> Result<()> {
    ip(&format!("-n {FAR_HOST} {line}"))
}

/// As many pings from the far host as [`PINGS`], each of which must be answered.
pub(crate) fn pings() -> Result<()> {
    let said = said_by("ip", &format!("netns exec {FAR_HOST} /bin/busybox ping -c {PINGS} -W 5 {}", ADDRESSES[1]))?;
    if said.contains(&format!("{PINGS} packets received")) {
        return Ok(());
    }
    Err(Error::failed("ping", ADDRESSES[1], said.trim().replace('\n', "; ")))
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

/// A device's hardware address, as ip(8) writes it.
pub(crate) fn address_of(device: &str) -> Result<String> {
    let path = format!("/sys/class/net/{device}/address");
    let text = std::fs::read_to_string(&path).map_err(|error| Error::os("read", path, &error))?;
    Ok(text.trim().to_owned())
}

fn make(line: &str) -> Result<()> {
    match line.strip_prefix("teamnl ") {
        Some(line) => said_by("teamnl", line).map(drop),
        None => ip(line),
    }
}

/// Has ip(8) do something.
pub(crate) fn ip(line: &str) -> Result<()> {
    said_by("ip", line).map(drop)
}

fn said_by(program: &'static str, line: &str) -> Result<String> {
    // Not the ip of the shell, which makes no such devices.
    let output = Command::new(format!("/bin/{program}")).args(line.split(' ')).output();
    let output = output.map_err(|error| Error::os("run", program, &error))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = [output.stdout, output.stderr].concat();
        Err(Error::failed(
            "run",
            format!("{program} {line}"),
            String::from_utf8_lossy(&said).trim().replace('\n', "; "),
        ))
    }
}

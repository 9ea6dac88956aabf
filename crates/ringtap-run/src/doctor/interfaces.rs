//! What each interface gives: link, driver, queues, MTU, who uses it, whether AF_XDP can have it.

use ringtap::Result;
use ringtap::error::ErrorKind;
use ringtap::interface::{Interface, names};
use ringtap::netlink;
use ringtap::source::probe;
use ringtap::source::xdp::XdpSource;
use ringtap::steer;

use super::{Finding, State, hardware};

/// Findings of one interface, or of all but loopback.
pub(super) fn findings(only: Option<&str>) -> Result<Vec<Finding>> {
    if let Some(name) = only {
        return Ok(of(&Interface::find(name)?, true));
    }
    // One that goes away meanwhile is not there any more, which is all there is to say.
    let interfaces = names().into_iter().filter_map(|name| Interface::find(&name).ok());
    let found: Vec<Finding> =
        interfaces.filter(|interface| !interface.is_loopback()).flat_map(|interface| of(&interface, false)).collect();
    if found.is_empty() {
        let none = Finding::new("interfaces", "all", State::Note, "none but loopback")
            .because("a network namespace of its own has only what was put there: ip link");
        return Ok(vec![none]);
    }
    Ok(found)
}

/// `is_asked` when the user named it: then what makes capture impossible there is no mere note.
fn of(interface: &Interface, is_asked: bool) -> Vec<Finding> {
    let name = interface.name.as_str();
    let finding = |what, state, value: String| Finding::new(name, what, state, value);
    let mut findings = Vec::new();
    findings.push(if interface.up {
        let carrier = netlink::link_by_index(interface.index).is_ok_and(|link| link.carrier);
        match carrier {
            true => finding("state", State::Good, "up".to_owned()),
            false => finding("state", State::Limit, "up, no carrier".to_owned())
                .because("nothing will arrive: look at the cable, or at the other end"),
        }
    } else {
        finding("state", if is_asked { State::Broken } else { State::Note }, "down".to_owned())
            .because(format!("nothing can be captured: ip link set dev {name} up"))
    });
    let driver = interface.driver.clone().unwrap_or_else(|| "none named".to_owned());
    findings.push(finding("driver", State::Note, driver));
    if interface.link_type().is_none() {
        findings.push(
            finding(
                "frames",
                if is_asked { State::Broken } else { State::Note },
                format!("hardware type {}", interface.hardware_type),
            )
            .because("capture files here have no link type for it"),
        );
    }
    findings.push(finding("queues", State::Note, format!("{} for receiving", interface.queues)));
    findings.extend(hardware::findings(interface));
    findings.push(match XdpSource::frame_size_for(interface.mtu, interface.driver.as_deref()) {
        Some(size) => finding("MTU", State::Good, format!("{} (fits a frame of {size} bytes)", interface.mtu)),
        None => finding("MTU", State::Limit, interface.mtu.to_string())
            .because("too large for one AF_XDP frame: --backend packet takes it, auto does so by itself"),
    });
    findings.push(match &interface.host_use {
        Some(used) => finding("used by host", State::Note, format!("yes: it {used}"))
            .because("auto copies packets with a packet ring: AF_XDP would take them from the host (see --take)"),
        None if matches!(interface.kind.as_deref(), Some("bond" | "team")) => {
            finding("used by host", State::Note, "no".to_owned())
                .because("auto copies packets with a packet ring: AF_XDP needs the receive queues of its ports")
        }
        None => finding("used by host", State::Good, "no: auto takes it with AF_XDP".to_owned()),
    });
    findings.push(match steer::occupant(name, interface.index) {
        Ok(None) => finding("XDP program", State::Good, "none".to_owned()),
        Ok(Some(occupant)) => {
            let holders =
                if occupant.holders.is_empty() { "no process seen".to_owned() } else { occupant.holders.join(", ") };
            let value = format!("{:?} (id {}), held by {holders}", occupant.name, occupant.id);
            finding("XDP program", State::Limit, value)
                .because(format!("no AF_XDP until it is gone: stop that program, or: ip link set dev {name} xdp off"))
        }
        Err(error) => finding("XDP program", State::Note, "unknown".to_owned()).because(error.to_string()),
    });
    findings.push(if !interface.ethernet {
        finding("AF_XDP", State::Note, "not tried".to_owned())
            .because("its frames have no Ethernet header: auto uses a packet ring")
    } else if !interface.up {
        finding("AF_XDP", State::Note, "not tried while the interface is down".to_owned())
    } else {
        match probe::af_xdp(interface, 0) {
            Ok(()) => finding(
                "AF_XDP",
                State::Good,
                "can be bound to queue 0 (copy mode; zero-copy shows when capturing)".to_owned(),
            ),
            Err(error) => {
                let state = if error.kind() == ErrorKind::Usage { State::Note } else { State::Limit };
                finding("AF_XDP", state, "can't be bound to queue 0".to_owned()).because(error.to_string())
            }
        }
    });
    findings
}

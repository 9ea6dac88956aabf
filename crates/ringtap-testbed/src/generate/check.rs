//! What is refused before anything is sent, whoever sends it.
//!
//! Owns the words of these refusals. Frames and profiles check themselves (`frame`, `schedule`).

use ringtap::interface::Interface;
use ringtap::netlink;
use ringtap::{Error, Result};

use super::GeneratorConfig;
use crate::testbed::in_testbed_namespace;

/// Checks a generator's request; gives the interface it is for.
pub(super) fn check(config: &GeneratorConfig) -> Result<Interface> {
    config.frame.check()?;
    config.profile.check()?;
    if config.count == Some(0) {
        return Err(Error::usage("generate on", &config.interface, "0 packets").way_out("ask for at least one"));
    }
    let interface = check_interface(&config.interface, config.priority, config.anywhere)?;
    let largest = config.frame.sizes.iter().copied().max().unwrap_or(0);
    let allowed = interface.mtu as usize + config.frame.ip_offset();
    if largest > allowed {
        return Err(Error::usage("generate on", &config.interface, format!("size {largest}"))
            .way_out(format!("its MTU {} allows {allowed}", interface.mtu)));
    }
    Ok(interface)
}

/// Looks up an interface that may be sent on: in a namespace made by Ringtap unless `anywhere`, Ethernet, up.
pub(super) fn check_interface(name: &str, priority: Option<u8>, anywhere: bool) -> Result<Interface> {
    if priority.is_some_and(|priority| !(1..=99).contains(&priority)) {
        return Err(Error::usage("generate on", name, "priority out of range").way_out("use 1 to 99"));
    }
    let interface = Interface::find(name)?;
    if !anywhere && !in_testbed_namespace()? {
        return Err(Error::usage("generate on", name, "it is not in a network namespace made by Ringtap")
            .way_out("run it inside a testbed, or insist explicitly"));
    }
    if !interface.ethernet {
        return Err(Error::failed("generate on", name, "its frames have no Ethernet header")
            .way_out("choose an Ethernet interface"));
    }
    let carrier =
        netlink::link_by_index(interface.index).map_err(|error| Error::os("look up interface", name, &error))?;
    if !interface.up {
        return Err(Error::failed("generate on", name, "it is down").way_out(format!("ip link set dev {name} up")));
    }
    if !carrier.carrier {
        return Err(Error::failed("generate on", name, "the link has no carrier")
            .way_out("connect it, or bring the other end up"));
    }
    Ok(interface)
}

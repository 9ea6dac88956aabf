//! Which back end opens an interface (invariant 6), and what is set on the device for it.
//!
//! Owns the choice that `auto` stands for and the reasons said for it. Opening is the back ends' business (`source`).

use super::{Backend, Flows, ReceiverConfig, suit};
use crate::interface::Interface;
use crate::settings::Settings;
use crate::source::xdp;

/// The back end to try first, and whether another may take its place.
pub(super) fn choose(config: &ReceiverConfig, interface: &Interface, warnings: &mut Vec<String>) -> (Backend, bool) {
    let name = &interface.name;
    match config.backend {
        Backend::Xdp => {
            if let Some(used) = &interface.host_use
                && !config.take
                && config.rules.is_empty()
            {
                warnings.push(format!(
                    "{name} {used}: with AF_XDP the host does not see what Ringtap takes (--backend packet copies instead)"
                ));
            }
            (Backend::Xdp, false)
        }
        Backend::Auto => {
            let may_take = interface.host_use.is_none() || (config.take && config.rules_are_exact);
            let fits = config.frame_size.is_some() || xdp::frame_sizes(config, interface).next().is_some();
            if let Some(used) = interface.host_use.as_ref().filter(|_| !may_take) {
                warnings.push(format!("{name} {used}: packets are copied, and the host keeps its own"));
            } else if is_aggregate(interface) {
                warnings.push(format!(
                    "{name} is a {}, and AF_XDP needs its ports: packets are copied",
                    interface.kind.as_deref().unwrap_or_default()
                ));
            } else if fits && interface.ethernet {
                return (Backend::Xdp, true);
            }
            (Backend::Packet, false)
        }
        other => (other, false),
    }
}

/// Whether its packets come by ports of their own: AF_XDP's sockets are bound to a receive queue, and those are the ports'.
fn is_aggregate(interface: &Interface) -> bool {
    matches!(interface.kind.as_deref().unwrap_or_default(), "bond" | "team")
}

/// Prepares the device for AF_XDP; the back end to open.
pub(super) fn prepare_for_xdp(
    interface: &Interface,
    settings: &Settings,
    fall_back: bool,
    warnings: &mut Vec<String>,
) -> Backend {
    let name = &interface.name;
    let kept = suit::keep_tags(settings);
    if interface.driver.as_deref() == Some("veth") {
        // It takes no tag out of a packet. Its other end may not put one in (tx-vlan-hw-insert), and is not ours to change.
        warnings.push(format!(
            "VLAN tags that the other end of {name} leaves beside packets are not seen by AF_XDP (use --backend packet for these)"
        ));
    } else if let Err(cause) = kept {
        let what = format!("{name} takes VLAN tags out of packets, where AF_XDP does not see them ({cause})");
        if fall_back {
            warnings.push(format!("{what} — using the packet ring instead"));
            return Backend::Packet;
        }
        warnings.push(format!("{what}; use --backend packet, or ethtool -K {name} rxvlan off"));
    }
    Backend::Xdp
}

/// Where handlers need whole flows and several AF_XDP queues take packets: has the card keep flows together, if it can.
pub(super) fn keep_flows_together(
    config: &ReceiverConfig,
    interface: &Interface,
    backend: Backend,
    settings: &Settings,
) -> Flows {
    let queues = xdp::queue_ids(config, interface).len();
    if !config.flows_together || backend != Backend::Xdp || queues < 2 {
        return Flows::Together;
    }
    match suit::keep_flows_together(settings) {
        Ok(()) => Flows::ByCard,
        Err(error) => Flows::Apart(suit::flows_apart(interface, queues, &error)),
    }
}

//! How the kernel's NAPI is paced beneath an AF_XDP receiver, and when it takes the place of our timer.
//!
//! Owns the choice of the pause by policy and CPUs. What is written, and put back, is `napi`'s and `settings`'.

use super::ReceiverConfig;
use crate::interface::Interface;
use crate::napi;
use crate::pacer::Policy;
use crate::settings::Settings;
use crate::source::{AnySource, Source};
use crate::sys::ethtool;
use crate::transmit::TransmitRing;

/// Paces the NAPI of an AF_XDP receiver's interface, `cpus` being where its engines run; whether they need no timer then.
pub(super) fn pace_napi(
    config: &ReceiverConfig,
    interface: &Interface,
    queues: &[(AnySource, Option<TransmitRing>)],
    cpus: &[usize],
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> bool {
    const DEFER_HARD_IRQS: u64 = 2;
    /// What our wake-ups are late, and more.
    const NET_BELOW_NS: u64 = 100_000;
    let busy_poll = queues.iter().any(|(source, _)| source.description().busy_poll);
    let (flush_ns, instead_of_timer) = if busy_poll {
        warnings.extend(card_ring_warning(
            &interface.name,
            config.ring_slots,
            ethtool::receive_ring(&interface.name).ok(),
        ));
        // Our thread runs the device's poll itself; the kernel's timer is only a net below, longer than our period
        // (Documentation/networking/napi.rst, busy polling). Little longer: while we wait for the interrupt at low rates it
        // still defers that after each packet, and the next one then waits for this timer, which must not break the bound.
        // When our poll comes later than the net, the kernel polls once more and the interrupt stays deferred.
        let net_ns = longest_period_ns(&config.policy).map(|period_ns| period_ns + (period_ns / 8).min(NET_BELOW_NS));
        (net_ns.unwrap_or(0), false)
    } else {
        // Generic XDP runs behind the driver's NAPI as well, on packets that GRO leaves alone.
        config.napi_pause.at(interface.index, cpus)
    };
    if flush_ns == 0 {
        return false;
    }
    let in_force = napi::pace(settings, &interface.name, DEFER_HARD_IRQS, flush_ns, warnings);
    instead_of_timer && in_force
}

/// Between two polls of our thread packets wait in the card's own ring, not in ours: it should not be the smaller one.
fn card_ring_warning(interface: &str, ring_slots: u32, card: Option<(u32, u32)>) -> Option<String> {
    let (now, most) = card.filter(|&(now, most)| now < ring_slots && now < most)?;
    let wanted = ring_slots.min(most);
    Some(format!(
        "{interface}'s own ring has {now} descriptors, and with the timer packets wait there between two polls: \
         `ethtool -G {interface} rx {wanted}` makes it {wanted}"
    ))
}

/// The longest timer period a policy may use, if it has a timer.
fn longest_period_ns(policy: &Policy) -> Option<u64> {
    match policy {
        Policy::Hybrid(hybrid) => hybrid.rungs.iter().map(|rung| rung.period_ns).max(),
        Policy::Windowed(windowed) => Some(windowed.period_ns),
        Policy::Timer { period_ns } => Some(*period_ns),
        Policy::Interrupt | Policy::Busy => None,
    }
}

#[cfg(test)]
mod tests {
    use super::card_ring_warning;

    #[test]
    fn a_card_with_a_smaller_ring_that_can_grow_is_named() {
        let warning = |card| card_ring_warning("eth1", 2048, card);
        assert!(warning(Some((256, 4096))).unwrap().contains("rx 2048"));
        assert!(warning(Some((256, 1024))).unwrap().contains("rx 1024"));
        for enough in [Some((2048, 4096)), Some((1024, 1024)), None] {
            assert_eq!(warning(enough), None);
        }
    }
}

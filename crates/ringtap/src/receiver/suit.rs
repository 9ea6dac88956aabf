//! What is set on a device so that its queues suit us, and what is said where it can't be.
//!
//! Owns VLAN tags (a card that takes them out of the packets takes them from AF_XDP), receive-side scaling (both directions of
//! a flow on one queue) and the share of the ring that each queue has. Settings go back by themselves (`settings`).

use super::ReceiverConfig;
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::settings::{Setting, Settings};
use crate::sys::memory::available_memory_bytes;

/// Features by which a card takes the tag out of a packet and hands it over beside it: 802.1Q and 802.1ad
/// (netdev_features_strings, net/ethtool/common.c).
const STRIPS: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// Has the card leave VLAN tags in packets: an XDP program does not see what lies beside them.
///
/// # Errors
/// It takes them out, and goes on doing so: why.
pub(super) fn keep_tags(settings: &Settings) -> std::result::Result<(), String> {
    let mut kept = Ok(());
    for feature in STRIPS {
        let setting = Setting::Feature(feature.to_owned());
        if settings.read(&setting).is_ok_and(|value| value == "on") {
            let off = settings.set(setting, "off");
            kept = kept.and(off.map_err(|error| format!("{feature} can't be switched off: {error}")));
        }
    }
    kept
}

/// Has the card put both directions of a flow on one queue, if it can.
///
/// # Errors
/// It can't, or lets nobody set it.
pub(super) fn keep_flows_together(settings: &Settings) -> std::io::Result<()> {
    let unsupported = || std::io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    let now = settings.read(&Setting::RssHash)?;
    let mut words = now.split(' ');
    let (Some(function), Some(transform), Some(key)) = (words.next(), words.next(), words.next()) else {
        return Err(unsupported());
    };
    // With this key Toeplitz' hash is the same when source and destination change places, as its bits repeat after 16.
    let symmetric: String = "6d5a".chars().cycle().take(key.len()).collect();
    if transform != "0" || (function == "1" && key == symmetric) {
        return Ok(());
    }
    let by_key = if function == "1" && !key.is_empty() {
        settings.set(Setting::RssHash, &format!("{function} {transform} {symmetric}"))
    } else {
        Err(unsupported())
    };
    // RXH_XFRM_SYM_XOR of linux/ethtool.h (6.8): source and destination are joined before they are hashed.
    by_key.or_else(|_| settings.set(Setting::RssHash, &format!("{function} 1 {key}")))
}

/// What is said where flows can't be kept together.
pub(super) fn flows_apart(interface: &Interface, queues: usize, error: &std::io::Error) -> String {
    format!(
        "{name} has {queues} queues, and the two directions of a connection may come on different ones ({error}): they then meet in \
         different detectors, and rules with flow:established do not match them (use --backend packet, or ethtool -L {name} combined 1)",
        name = interface.name,
    )
}

/// A planned ring holds what comes at the peak rate of the device. Flows do not spread evenly, so each queue has twice its share,
/// and not less than [`LEAST_SLOTS`].
pub(super) fn share_of(planned: u32, queues: usize) -> u32 {
    let twice = u64::from(planned) * 2 / queues.max(1) as u64;
    let share = 1u64 << twice.max(1).ilog2();
    (share as u32).max(LEAST_SLOTS).min(planned)
}

const LEAST_SLOTS: u32 = 1024;

/// Says what the rings of several queues take, before they take it.
///
/// # Errors
/// It is more than there is.
pub(super) fn tell_memory(
    config: &ReceiverConfig,
    interface: &Interface,
    queues: usize,
    slots: u32,
    frame_size: u32,
) -> Result<()> {
    if queues < 2 {
        return Ok(());
    }
    let bytes = queues as u64 * u64::from(slots) * u64::from(frame_size);
    let mib = bytes.div_ceil(1 << 20);
    let available = available_memory_bytes().unwrap_or(u64::MAX);
    if bytes > available {
        let cause = format!("{queues} rings of {slots} slots take {mib} MiB, {} MiB are available", available >> 20);
        let error = Error::failed("open rings on", &interface.name, cause);
        return Err(error.way_out("use fewer --queues or a smaller --ring"));
    }
    (config.tell)(&format!("{}: {queues} rings of {slots} slots, {mib} MiB in all", interface.name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::share_of;

    #[test]
    fn queues_share_a_planned_ring() {
        assert_eq!(share_of(65536, 1), 65536);
        assert_eq!(share_of(65536, 2), 65536);
        for queues in 3..300 {
            let share = share_of(65536, queues);
            assert!(share.is_power_of_two() && share >= 1024);
            let total = u64::from(share) * queues as u64;
            assert!(total <= 2 * 65536 || share == 1024, "{queues}: {total}");
            assert!(total >= 65536, "{queues}: {total}");
        }
        assert_eq!(share_of(256, 32), 256, "a small ring is no larger for it");
        assert_eq!(share_of(64, 0), 64);
    }
}

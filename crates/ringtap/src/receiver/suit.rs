//! What is set on a device so that its queues suit us, and what is said where it can't be.
//!
//! Owns VLAN tags (a card that takes them out of the packets takes them from AF_XDP) and receive-side scaling (both directions of
//! a flow on one queue). Settings go back by themselves (`settings`).

use crate::interface::Interface;
use crate::settings::{Setting, Settings};

/// Features by which a card takes the tag out of a packet and hands it over beside it: 802.1Q and 802.1ad
/// (netdev_features_strings, net/ethtool/common.c).
const STRIPS: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// Has the card leave VLAN tags in packets: an XDP program does not see what lies beside them.
///
/// # Errors
/// It takes them out, and goes on doing so: why.
pub(super) fn keep_tags(settings: &Settings) -> Result<(), String> {
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

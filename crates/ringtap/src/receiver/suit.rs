//! What is set on a device so that its queues suit us, and what is said where it can't be.
//!
//! Owns VLAN tags (a card that takes them out of the packets takes them from AF_XDP) and receive-side scaling (all packets
//! between two addresses on one queue). Settings go back by themselves (`settings`).

use std::io;

use crate::interface::Interface;
use crate::settings::{Setting, Settings};
use crate::sys::ethtool::{FLOW_TYPES, RSS_ADDRESSES};

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

/// Has the card put all packets between two addresses on one queue, if it can: both directions, fragments too, so it must not hash
/// ports, which later fragments do not have. What was set before something was refused is set back.
///
/// # Errors
/// It can't, or lets nobody set it.
pub(super) fn keep_flows_together(settings: &Settings) -> io::Result<()> {
    let mut changed: Vec<(Setting, String)> = Vec::new();
    let mut set = |setting: Setting, value: &str| {
        let before = settings.read(&setting)?;
        if before != value {
            settings.set(setting.clone(), value)?;
            changed.push((setting.clone(), before));
        }
        // Drivers take what they can.
        if settings.read(&setting)? == value { Ok(()) } else { Err(unsupported()) }
    };
    let done = by_addresses(&mut set).and_then(|()| {
        let now = settings.read(&Setting::RssHash)?;
        let [by_key, by_transform] = symmetric(&now)?;
        set(Setting::RssHash, &by_key).or_else(|_| set(Setting::RssHash, &by_transform))
    });
    if done.is_err() {
        for (setting, before) in changed.into_iter().rev() {
            // As it was a moment ago.
            let _ = settings.set(setting, &before);
        }
    }
    done
}

/// No kind of flow is hashed by more than its addresses.
fn by_addresses(set: &mut impl FnMut(Setting, &str) -> io::Result<()>) -> io::Result<()> {
    FLOW_TYPES.into_iter().try_for_each(|flow| set(Setting::RssFields(flow), &RSS_ADDRESSES.to_string()))
}

/// Two ways to a hash that is the same when source and destination change places: by the key, and by what is hashed.
fn symmetric(now: &str) -> io::Result<[String; 2]> {
    let mut words = now.split(' ');
    let (Some(function), Some(transform), Some(key)) = (words.next(), words.next(), words.next()) else {
        return Err(unsupported());
    };
    // With this key Toeplitz' hash is so, as its bits repeat after 16.
    let repeated: String = "6d5a".chars().cycle().take(key.len()).collect();
    // RXH_XFRM_SYM_XOR of linux/ethtool.h (6.8): source and destination are joined before they are hashed.
    let joined = format!("{function} 1 {key}");
    let is_toeplitz = function == "1" && !key.is_empty();
    Ok([if is_toeplitz && transform == "0" { format!("1 0 {repeated}") } else { joined.clone() }, joined])
}

fn unsupported() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

/// What is said where flows can't be kept together.
pub(super) fn flows_apart(interface: &Interface, queues: usize, error: &io::Error) -> String {
    format!(
        "{name} has {queues} queues, and packets of one flow may come on different ones ({error}): they then meet different handlers \
         (use --backend packet, or ethtool -L {name} combined 1)",
        name = interface.name,
    )
}

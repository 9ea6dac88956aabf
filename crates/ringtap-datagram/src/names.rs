//! Owns: EVE's names of IP protocols.

use std::borrow::Cow;

const NAMES: [(u8, &str); 11] = [
    (0, ""),
    (1, "ICMP"),
    (2, "IGMP"),
    (6, "TCP"),
    (17, "UDP"),
    (41, "IPv6"),
    (47, "GRE"),
    (50, "ESP"),
    (51, "AH"),
    (58, "IPv6-ICMP"),
    (132, "SCTP"),
];

/// EVE's name of an IP protocol; three digits for one that has none.
#[must_use]
pub fn protocol_name(protocol: u8) -> Cow<'static, str> {
    match NAMES.iter().find(|(number, _)| *number == protocol) {
        Some((_, name)) => Cow::Borrowed(name),
        None => Cow::Owned(format!("{protocol:03}")),
    }
}

/// The protocol of such a name.
pub(crate) fn protocol_number(name: &str) -> Option<u8> {
    match NAMES.iter().find(|(_, known)| *known == name) {
        Some((number, _)) => Some(*number),
        None => name.parse().ok().filter(|number| protocol_name(*number) == name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for protocol in 0..=255 {
            assert_eq!(protocol_number(&protocol_name(protocol)), Some(protocol));
        }
        assert_eq!(protocol_name(3), "003");
        assert_eq!(["tcp", "6", "256", "3"].map(protocol_number), [None; 4]);
    }
}

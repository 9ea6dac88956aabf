//! Rules of our own, written for [`crate::samples`].

/// One for every keyword that the sensor and Suricata 7 know; each finds something in the samples, but for those that say so.
pub const KEYWORDS: &str = include_str!("../rules/keywords.rules");

/// For keywords and forms of the sensor's that Suricata 7 does not know.
pub const OWN: &str = include_str!("../rules/own.rules");

/// For keywords about what applications say in transactions and handshakes; some find nothing in the samples.
pub const APPLICATION: &str = include_str!("../rules/application.rules");

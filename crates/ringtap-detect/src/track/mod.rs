//! State between packets: flows, TCP sessions, bits of hosts, thresholds, tags. All memory is taken at start; when it is full
//! the oldest goes, and a counter says so.

pub(crate) mod bounded_map;
pub(crate) mod flows;
pub(crate) mod hosts;
pub(crate) mod session;
pub(crate) mod tags;
pub(crate) mod thresholds;
pub(crate) mod windows;

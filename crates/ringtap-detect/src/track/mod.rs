//! State between packets: flows, TCP sessions, bits of hosts, thresholds, tags. All memory is taken at start; when it is full
//! the oldest goes, of flows the oldest that nobody answered, and a counter says so.

pub(crate) mod backlog;
pub(crate) mod bounded_map;
pub(crate) mod expected;
pub(crate) mod flows;
mod greeting;
pub(crate) mod hosts;
pub(crate) mod ints;
pub(crate) mod midstream;
mod receiver;
pub(crate) mod segment;
pub(crate) mod session;
pub(crate) mod stream;
pub(crate) mod tags;
pub(crate) mod thresholds;
pub(crate) mod windows;

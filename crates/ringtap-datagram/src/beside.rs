//! A correlator in the sensor's process: what it is told without socket or seal.

use crate::{Heartbeat, Origin};

/// When an alarm was, and which one it is.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    /// Time of the packet, nanoseconds since 1970.
    pub time_ns: u64,
    /// Time of the alarm, nanoseconds since 1970.
    pub built_ns: u64,
    /// Greatest error of the clock of both, nanoseconds; `None`: unknown.
    pub error_ns: Option<u64>,
    /// Number of the alarm in its epoch.
    pub sequence: u64,
}

/// Hears a sensor's alerts and heartbeats, in their order, on the sensor's output thread. The end of the sensor is its drop.
pub trait Listener: Send {
    /// An alert: its line of EVE, and what that does not say exactly enough. `origin`: who tells it; of files nobody.
    fn alarm(&mut self, line: &[u8], stamps: &Stamps, origin: Option<&Origin>);

    /// A heartbeat, behind all alerts of before.
    fn beat(&mut self, beat: &Heartbeat);
}

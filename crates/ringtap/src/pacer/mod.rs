//! When to look at the ring again: the waiting policy (spec S1, S2, S17–S19). Pure: no system call, no clock of its own.

/// How the engine waits once it has found the ring empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Arm the device's interrupt and sleep until a packet arrives.
    Interrupt,
    /// Sleep until this instant (CLOCK_MONOTONIC, nanoseconds), then poll.
    Timer(u64),
    /// Look again at once (busy policy only, for comparison).
    Poll,
}

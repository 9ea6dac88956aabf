//! Where packets come from: the trait every back end implements, and what a back end says of itself.
//!
//! Owns the contract between engine and device. Each back end has a file of its own.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use serde::Serialize;

use crate::burst::Burst;
use crate::sys::event::{PollEnd, Stop};
use crate::sys::{netlink, socket_error};

pub mod any;
pub mod file;
pub mod packet;
pub mod pcap;
pub mod probe;
pub mod socket;
pub mod vfio;
pub mod xdp;

/// Which clock a source's arrival stamps are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StampClock {
    /// CLOCK_MONOTONIC, as bpf_ktime_get_ns() gives it.
    Monotonic,
    /// CLOCK_REALTIME, as the kernel's socket time stamps are.
    Realtime,
    /// CLOCK_REALTIME when the packet was taken off the ring: the device stamps none, so no latency can be taken from it.
    Taken,
    /// The time written in a capture file: no latency can be taken from it.
    Recorded,
}

/// Why a wait for the device's interrupt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Packets are there, or may be.
    Ready,
    /// The limit passed.
    TimedOut,
    /// The stop handle was pulled.
    Stopped,
    /// The device is gone or down for good; the engine ends and says so.
    Gone,
    /// A file has been read to its end.
    End,
}

/// What a back end says of itself once it is set up; part of every report.
#[derive(Debug, Clone, Serialize)]
pub struct Description {
    /// `xdp`, `packet`, `socket`, `pcap`, `vfio` or `file`.
    pub backend: &'static str,
    /// Interface or file name.
    pub object: String,
    /// Receive queue, where the back end is bound to one.
    pub queue: Option<u32>,
    /// Whether frames reach the ring without a copy; from XDP_OPTIONS for AF_XDP. `None` where the question makes no sense.
    pub zero_copy: Option<bool>,
    /// How the program is attached: `native` or `generic`; `None` without XDP.
    pub xdp_mode: Option<&'static str>,
    /// Whether this thread runs the device's NAPI poll itself.
    pub busy_poll: bool,
    /// Slots of the ring; for a libpcap device what its buffer was asked to hold.
    pub ring_slots: usize,
    /// Pinned memory of ring and frames, bytes.
    pub memory_bytes: usize,
    /// Version and file of the libpcap it is taken through, where it is.
    pub library: Option<String>,
}

/// A device the engine can take packets from. One source belongs to one engine thread.
pub trait Source {
    /// The packets that are there now, at most [`crate::burst::BURST_MAX`]; never blocks, allocates or logs.
    fn receive(&mut self) -> Burst<'_>;

    /// Arms the device's interrupt, looks at the ring once more, and sleeps until a packet comes, `stop` is pulled or
    /// `limit` has passed (`None`: no limit).
    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake;

    /// Called after a timer wait, before the ring is looked at: lets this thread run the device's poll where it can
    /// (NAPI busy poll), and answers the fill ring's wish for a wake-up.
    fn poll_device(&mut self) {}

    /// Ends the flow of packets for good. `true`: nothing is on its way any more, and what the ring still holds can be
    /// taken to its end. `false`, as of a file: what is left was never on its way to us.
    fn quiesce(&mut self) -> bool {
        false
    }

    /// Which clock the arrival stamps are of.
    fn stamp_clock(&self) -> StampClock;

    /// What was set up.
    fn description(&self) -> Description;
}

/// Turns the end of a wait on a device's socket into what the engine does next.
///
/// A socket whose interface went down or away reports an error once (ENETDOWN); the interface may come up again, so only
/// one that no longer exists ends the engine. A device that is merely down is looked at again after a pause.
fn device_wake(end: PollEnd, fd: BorrowedFd<'_>, ifindex: u32, stop: &Stop) -> Wake {
    const PAUSE: Duration = Duration::from_millis(100);
    match end {
        PollEnd::Readable => Wake::Ready,
        PollEnd::TimedOut => Wake::TimedOut,
        PollEnd::Stopped => Wake::Stopped,
        PollEnd::Failed => {
            // Reading the error clears it, so that the next wait sleeps again.
            let _ = socket_error(fd);
            if netlink::is_gone(ifindex) {
                return Wake::Gone;
            }
            if stop.wait(PAUSE) { Wake::Stopped } else { Wake::TimedOut }
        }
    }
}

//! Where packets come from: the trait every back end implements, and what a back end says of itself.
//!
//! Owns the contract between engine and device. Each back end has a file of its own and one line in the table (`backend`).

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;

use crate::burst::Burst;
use crate::error::Result;
use crate::interface::Interface;
use crate::meters::EngineMeters;
use crate::sys::event::{Event, PollEnd, Stop};
use crate::sys::{netlink, socket_error};
use crate::transmit::TransmitRing;

pub(crate) mod backend;
pub(crate) mod counters;
pub mod dpdk;
pub mod file;
pub mod given;
pub mod packet;
pub(crate) mod pair;
pub mod pcap;
pub mod probe;
pub(crate) mod ringless;
pub(crate) mod share;
pub mod socket;
pub mod vfio;
pub mod xdp;

pub use backend::Backend;
pub use counters::{DeviceCounters, DeviceCounts};

/// A source of any kind, chosen at run time: one indirect call per burst, none per packet.
pub type AnySource = Box<dyn Source + Send>;

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
    /// `xdp`, `packet`, `socket`, `pcap`, `vfio`, `dpdk` or `file`.
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
    /// Version and file of the libpcap or DPDK it is taken through, where it is.
    pub library: Option<String>,
}

impl Description {
    /// A back end of this name without a ring, on this object.
    pub fn new(backend: &'static str, object: impl Into<String>) -> Self {
        Self {
            backend,
            object: object.into(),
            queue: None,
            zero_copy: None,
            xdp_mode: None,
            busy_poll: false,
            ring_slots: 0,
            memory_bytes: 0,
            library: None,
        }
    }
}

/// A device the engine can take packets from. One source belongs to one engine thread.
///
/// Four methods are the way of a packet and must be there; the others say what the device can do besides, and their defaults are
/// those of a device that can't. [`PacketBuffer`](crate::PacketBuffer) shows a source of another crate; receivers open such
/// ones when they were given to them ([`given::give`]).
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

    /// Lets packets in, once all sources of an interface are open: sockets that share its packets stay shut until then, or the
    /// first ones would get what is meant for the later ones.
    ///
    /// # Errors
    /// The kernel refuses the filter.
    fn admit(&self) -> Result<()> {
        Ok(())
    }

    /// The counters that kernel or device keep for this source; `None` where there are none, or another source tells them.
    fn counters(&self) -> Option<Box<dyn DeviceCounters>> {
        None
    }

    /// Whether the user's filter decides before the device counts, so that nobody knows how many packets it refused.
    fn filters_before_counting(&self) -> bool {
        false
    }

    /// Whether frames can be kept in huge pages.
    fn uses_huge_pages(&self) -> bool {
        false
    }

    /// Whether the source itself sees to promiscuous mode; else it is the interface that is set to it.
    fn sets_promiscuous(&self) -> bool {
        false
    }

    /// LINKTYPE_ value of the frames, where they are of a kind that capture files know.
    fn link_type(&self, interface: &Interface) -> Option<u16> {
        interface.link_type()
    }

    /// The descriptor that becomes readable with the device's interrupt, for a caller that waits by itself ([`Source::arm`]
    /// first); `None` where there is none.
    fn wait_fd(&self) -> Option<Arc<OwnedFd>> {
        None
    }

    /// How long such a wait may last at most, where the device is looked at by the clock as well.
    fn longest_wait(&self) -> Option<Duration> {
        None
    }

    /// Holds the interrupt back again behind such a wait, where the device does not do so by itself.
    fn disarm(&mut self) {}

    /// Arms the device's interrupt, for a caller that waits on [`Source::wait_fd`] itself. `true`: packets are there already.
    fn arm(&mut self) -> bool {
        true
    }

    /// Hands over the engines' stop handle, for a device that fails, or is shut for all its queues, where nobody else would
    /// notice.
    fn share_stop(&mut self, _stop: &Arc<Stop>) {}

    /// Signalled when the device has to be given back.
    fn asked_back(&self) -> Option<Arc<Event>> {
        None
    }

    /// Why the device gives no more packets, where it has said so.
    fn failure(&self) -> Option<&str> {
        None
    }

    /// Lends its frames to the transmit ring of another device, which then sends packets where they lie
    /// ([`TransmitRing::forward`]). `false`: it can't, and they have to be copied.
    fn lend_to(&mut self, _ring: &mut TransmitRing) -> bool {
        false
    }

    /// Descriptors or frame heads that made no sense, and packets that were given unasked.
    fn invalid_descriptors(&self) -> u64 {
        0
    }

    /// Frames that came back as sent by another device's ring ([`Source::lend_to`]) and were not out: no packets, and none is lost.
    fn invalid_completions(&self) -> u64 {
        0
    }

    /// Has `meters` tell what made no sense so far, each device's where its packets are counted.
    fn count_invalid(&self, meters: &EngineMeters) {
        meters.invalid_descriptors.store(self.invalid_descriptors(), Ordering::Relaxed);
        meters.invalid_completions.store(self.invalid_completions(), Ordering::Relaxed);
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn receive(&mut self) -> Burst<'_> {
        (**self).receive()
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        (**self).wait_for_interrupt(stop, limit)
    }

    fn poll_device(&mut self) {
        (**self).poll_device();
    }

    fn quiesce(&mut self) -> bool {
        (**self).quiesce()
    }

    fn stamp_clock(&self) -> StampClock {
        (**self).stamp_clock()
    }

    fn description(&self) -> Description {
        (**self).description()
    }

    fn admit(&self) -> Result<()> {
        (**self).admit()
    }

    fn counters(&self) -> Option<Box<dyn DeviceCounters>> {
        (**self).counters()
    }

    fn filters_before_counting(&self) -> bool {
        (**self).filters_before_counting()
    }

    fn uses_huge_pages(&self) -> bool {
        (**self).uses_huge_pages()
    }

    fn sets_promiscuous(&self) -> bool {
        (**self).sets_promiscuous()
    }

    fn link_type(&self, interface: &Interface) -> Option<u16> {
        (**self).link_type(interface)
    }

    fn wait_fd(&self) -> Option<Arc<OwnedFd>> {
        (**self).wait_fd()
    }

    fn longest_wait(&self) -> Option<Duration> {
        (**self).longest_wait()
    }

    fn disarm(&mut self) {
        (**self).disarm();
    }

    fn arm(&mut self) -> bool {
        (**self).arm()
    }

    fn share_stop(&mut self, stop: &Arc<Stop>) {
        (**self).share_stop(stop);
    }

    fn asked_back(&self) -> Option<Arc<Event>> {
        (**self).asked_back()
    }

    fn failure(&self) -> Option<&str> {
        (**self).failure()
    }

    fn lend_to(&mut self, ring: &mut TransmitRing) -> bool {
        (**self).lend_to(ring)
    }

    fn invalid_descriptors(&self) -> u64 {
        (**self).invalid_descriptors()
    }

    fn invalid_completions(&self) -> u64 {
        (**self).invalid_completions()
    }

    fn count_invalid(&self, meters: &EngineMeters) {
        (**self).count_invalid(meters);
    }
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

//! From a client's options to what a receiver is told.
//!
//! Owns defaults, ranges, and how rings follow from the memory they may take. Nothing is measured here: the process is the client's,
//! so waiting follows from the calibration that `ringtap plan` or another program of Ringtap's has left, or from cautious figures.

use std::ffi::CStr;
use std::ptr;
use std::time::Duration;

use ringtap::calibrate::{Calibration, Wishes};
use ringtap::interface::Interface;
use ringtap::realtime::RealTime;
use ringtap::receiver::{Backend, ReceiverConfig};
use ringtap::sched;
use ringtap::source::xdp::XdpSource;

use crate::abi::{Options, RINGTAP_BACKEND_AUTO, RINGTAP_BACKEND_PACKET, RINGTAP_BACKEND_XDP};
use crate::text::Refusal;

/// libpcap's limit, which other programs of the field have too.
const MOST_SNAPLEN: u32 = 262_144;
const MAX_LATENCY_NS: u64 = 1_000_000;
const LATENCIES_NS: std::ops::RangeInclusive<u64> = 10_000..=1_000_000_000;
/// 16384 packets as long as Ethernet's: 16 ms at a million packets/s.
const RING_BYTES: u64 = 32 << 20;
const RINGS_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=16 << 30;
/// Frames are this large at most; longer packets are fetched.
const FRAME_BYTES: u32 = 16_384;
/// Of a ring, as the receiver takes them.
const FEWEST_SLOTS: u32 = 64;
const MOST_SLOTS: u32 = 1 << 20;
/// Of a ring of packed frames, which a packet may take several of.
const MOST_PACKED: u32 = 1 << 20;

/// What a client asked for, in its ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub interface: String,
    pub backend: Backend,
    pub promiscuous: bool,
    pub take: bool,
    pub snaplen: u32,
    pub max_latency: Duration,
    pub ring_bytes: u64,
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            size: size_of::<Self>(),
            interface: ptr::null(),
            backend: RINGTAP_BACKEND_AUTO,
            promiscuous: 1,
            take: 0,
            snaplen: 0,
            max_latency_ns: MAX_LATENCY_NS,
            ring_bytes: RING_BYTES,
        }
    }
}

impl Wanted {
    /// What these options ask for.
    ///
    /// # Errors
    /// The first field that makes no sense.
    ///
    /// # Safety
    /// The interface's name is null, or ends with a NUL.
    pub unsafe fn read(options: &Options) -> Result<Self, Refusal> {
        let out_of_range =
            |field: &str, value: u64| Err(Refusal::argument(format!("{field}: {value} is out of range")));
        let flag = |field: &str, value: u32| match value {
            0 | 1 => Ok(value == 1),
            _ => Err(Refusal::argument(format!("{field}: {value} is neither 0 nor 1"))),
        };
        if options.interface.is_null() {
            return Err(Refusal::argument("interface: none is named"));
        }
        // SAFETY: not null, so it ends with a NUL by contract.
        let name = unsafe { CStr::from_ptr(options.interface) };
        let name = name.to_str().map_err(|_| Refusal::argument(format!("interface: {name:?} is not UTF-8")))?;
        let backend = match options.backend {
            RINGTAP_BACKEND_AUTO => Backend::Auto,
            RINGTAP_BACKEND_XDP => Backend::Xdp,
            RINGTAP_BACKEND_PACKET => Backend::Packet,
            other => return out_of_range("backend", other.into()),
        };
        if options.snaplen > MOST_SNAPLEN {
            return out_of_range("snaplen", options.snaplen.into());
        }
        if !LATENCIES_NS.contains(&options.max_latency_ns) {
            return out_of_range("max_latency_ns", options.max_latency_ns);
        }
        if !RINGS_BYTES.contains(&options.ring_bytes) {
            return out_of_range("ring_bytes", options.ring_bytes);
        }
        Ok(Self {
            interface: name.to_owned(),
            backend,
            promiscuous: flag("promiscuous", options.promiscuous)?,
            take: flag("take", options.take)?,
            snaplen: if options.snaplen == 0 { u32::MAX } else { options.snaplen },
            max_latency: Duration::from_nanos(options.max_latency_ns),
            ring_bytes: options.ring_bytes,
        })
    }

    /// What the receiver is told.
    ///
    /// # Errors
    /// There is no such interface, or it is down.
    pub fn config(&self) -> ringtap::Result<ReceiverConfig> {
        let interface = self.backend.find(&self.interface)?;
        let cpu = sched::allowed_cpus().last().copied().unwrap_or(0);
        let wishes = Wishes { max_latency: self.max_latency, ..Wishes::default() };
        let (policy, napi_pause) = wishes.waiting(Calibration::cached(cpu).as_ref());
        let mut config = ReceiverConfig::new(&interface.name, policy);
        config.backend = self.backend;
        config.take = self.take;
        config.promiscuous = self.promiscuous;
        // The same packets by either back end: AF_XDP never sees what the host sends.
        config.incoming_only = true;
        config.across_fork = true;
        // The thread, its priority and its memory are the client's.
        config.realtime = RealTime { priority: 0, lock_memory: false, shallow_idle: false };
        config.napi_pause = napi_pause;
        let (slots, packed) = slots(&interface, self.ring_bytes);
        config.ring_slots = slots.clamp(FEWEST_SLOTS, MOST_SLOTS.min(self.backend.most_slots()));
        config.packed_slots = Some(packed);
        Ok(config)
    }
}

/// Slots of rings that take so many bytes together, as frames of one packet and as packed frames: powers of two, planned for the whole
/// device. Of several queues each gets twice its share (`ReceiverConfig::packed_slots`), so the plan is for half of the memory then.
fn slots(interface: &Interface, bytes: u64) -> (u32, u32) {
    let whole = interface.mtu.saturating_add(256).checked_next_power_of_two().unwrap_or(u32::MAX);
    let frame = if whole > FRAME_BYTES { 2048 } else { whole.max(2048) };
    let planned = bytes / u64::from(frame) / if interface.queues > 1 { 2 } else { 1 };
    let slots = 1u32 << planned.clamp(1, 1 << 30).ilog2();
    let packed = slots.saturating_mul(XdpSource::packed_frames(interface.mtu)).min(MOST_PACKED);
    (slots, 1 << packed.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(change: impl FnOnce(&mut Options)) -> Result<Wanted, String> {
        let mut options = Options { interface: c"veth0".as_ptr(), ..Options::new() };
        change(&mut options);
        // SAFETY: the names in these tests end with a NUL.
        unsafe { Wanted::read(&options) }.map_err(|refusal| refusal.text)
    }

    #[test]
    fn defaults_are_in_their_ranges() {
        let wanted = read(|_| {}).unwrap();
        assert_eq!((wanted.interface.as_str(), wanted.backend), ("veth0", Backend::Auto));
        assert_eq!((wanted.promiscuous, wanted.take, wanted.snaplen), (true, false, u32::MAX));
        assert_eq!((wanted.max_latency, wanted.ring_bytes), (Duration::from_millis(1), 32 << 20));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let refused = |change: fn(&mut Options)| read(change).unwrap_err();
        assert_eq!(refused(|o| o.interface = ptr::null()), "interface: none is named");
        assert_eq!(refused(|o| o.interface = c"\xff".as_ptr()), "interface: \"\\xff\" is not UTF-8");
        assert_eq!(refused(|o| o.backend = 3), "backend: 3 is out of range");
        assert_eq!(refused(|o| o.promiscuous = 2), "promiscuous: 2 is neither 0 nor 1");
        assert_eq!(refused(|o| o.take = 7), "take: 7 is neither 0 nor 1");
        assert_eq!(refused(|o| o.snaplen = 262_145), "snaplen: 262145 is out of range");
        assert_eq!(refused(|o| o.max_latency_ns = 9_999), "max_latency_ns: 9999 is out of range");
        assert_eq!(refused(|o| o.ring_bytes = 1 << 19), "ring_bytes: 524288 is out of range");
    }

    #[test]
    fn rings_fit_the_memory_they_may_take() {
        let interface = |mtu, queues| Interface { mtu, queues, ..Interface::foreign("x") };
        assert_eq!(slots(&interface(1500, 1), RING_BYTES).0, 16_384);
        assert_eq!(slots(&interface(1500, 4), RING_BYTES).0, 8192);
        assert_eq!(slots(&interface(9000, 1), RING_BYTES).0, 2048);
        assert_eq!(slots(&interface(65_536, 1), RING_BYTES).0, 16_384, "longer packets are fetched");
        for mtu in [0, 68, 1500, 9000, u32::MAX] {
            for bytes in [*RINGS_BYTES.start(), *RINGS_BYTES.end()] {
                let (slots, packed) = slots(&interface(mtu, 1), bytes);
                assert!(slots.is_power_of_two() && packed.is_power_of_two() && packed >= slots.min(MOST_PACKED));
            }
        }
    }
}

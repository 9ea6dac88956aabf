//! Activation: who captures, Ringtap or the real libpcap, and by which back end.
//!
//! Owns that choice and how ReceiverConfig follows from what the client set. What is no plain live capture on an Ethernet
//! interface goes to the real libpcap, with its codes and words; so does, with a warning, what Ringtap could not open unasked.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use libc::c_int;
use ringtap::calibrate::{Calibration, Wishes};
use ringtap::interface::Interface;
use ringtap::napi::NapiPause;
use ringtap::pacer::{Pacer, Policy};
use ringtap::realtime::RealTime;
use ringtap::receiver::{Backend, Receiver, ReceiverConfig};
use ringtap::sched;
use ringtap::source::xdp::XdpSource;

use crate::abi::{
    DLT_EN10MB, MAXIMUM_SNAPLEN, PCAP_D_INOUT, PCAP_ERROR, PCAP_ERROR_PERM_DENIED, PCAP_TSTAMP_HOST,
    PCAP_TSTAMP_HOST_HIPREC, PCAP_TSTAMP_PRECISION_NANO, PCAP_WARNING,
};
use crate::filter::{self, Program};
use crate::handle::{Handle, Wanted};
use crate::live::{Live, Parts};
use crate::real;
use crate::settings::Choice;

/// The bound where nobody stated one and the client does not ask for immediate delivery.
const BOUND: Duration = Duration::from_millis(1);
/// Slots of the ring (of all queues together) where neither user nor client ask for more: 16 ms at a million packets/s.
const RING_SLOTS: u32 = 16_384;
/// Memory the rings may take unasked, bytes.
const RING_BYTES: u32 = 64 << 20;
/// Frames are this large at most; longer packets are fetched.
const FRAME_BYTES: u32 = 16_384;

/// What became of an attempt to capture by ourselves.
enum Attempt {
    /// It works; what the client should know of it.
    Live(Box<Live>, Option<String>),
    /// The real libpcap is to do it; why, where somebody could be surprised.
    Real(Option<String>),
    /// It was asked for and can't be had: code and words.
    Refused(c_int, String),
}

/// pcap_activate.
pub fn activate(handle: &Handle) -> c_int {
    if handle.is_spent() {
        handle.set_error("it could not be activated before; it can only be closed");
        return PCAP_ERROR;
    }
    let is_fresh = |wanted: &&Wanted| handle.live().is_none() && wanted.real_status.get().is_none();
    let wanted = handle.wanted.as_ref().filter(is_fresh);
    let attempt = wanted.map_or(Attempt::Real(None), |wanted| attempt(handle, wanted));
    match attempt {
        Attempt::Live(live, warning) => {
            if !take_over(handle, *live) {
                return PCAP_ERROR;
            }
            warning.map_or(0, |text| {
                handle.set_error(&text);
                PCAP_WARNING
            })
        }
        Attempt::Real(why) => {
            if let Some(wanted) = wanted {
                wanted.eventfd.leave_to_libpcap();
            }
            // SAFETY: the inner handle is valid as long as the handle; a second activation is refused there.
            let status = unsafe { real::pcap_activate(handle.inner()) };
            if let Some(wanted) = wanted {
                wanted.real_status.set(Some(status));
            }
            match why {
                Some(why) if status == 0 => {
                    handle.set_error(&format!("not captured by Ringtap: {why}"));
                    PCAP_WARNING
                }
                _ => status,
            }
        }
        Attempt::Refused(code, text) => {
            handle.set_error(&text);
            code
        }
    }
}

/// Puts a "dead" handle of the real libpcap in place of the one that held the options.
fn take_over(handle: &Handle, live: Live) -> bool {
    let snaplen = handle.wanted.as_ref().map_or(MAXIMUM_SNAPLEN, snaplen);
    // SAFETY: the inner handle is valid as long as the handle; the new one is owned by it from here on.
    unsafe {
        let precision = real::pcap_get_tstamp_precision(handle.inner()) as u32;
        let dead = real::pcap_open_dead_with_tstamp_precision(DLT_EN10MB, snaplen, precision);
        if dead.is_null() {
            handle.set_error("out of memory");
            return false;
        }
        handle.replace_inner(dead);
    }
    handle.set_live(live);
    true
}

fn snaplen(wanted: &Wanted) -> c_int {
    let asked = wanted.snaplen.get();
    if (1..=MAXIMUM_SNAPLEN).contains(&asked) { asked } else { MAXIMUM_SNAPLEN }
}

fn attempt(handle: &Handle, wanted: &Wanted) -> Attempt {
    let settings = &wanted.settings;
    let plain = !wanted.monitor.get()
        && wanted.protocol.get() == 0
        && [PCAP_TSTAMP_HOST, PCAP_TSTAMP_HOST_HIPREC].contains(&wanted.stamp_type.get());
    let Ok(name) = wanted.device.to_str() else { return Attempt::Real(None) };
    if settings.backend == Choice::System || !plain || name == "any" {
        return Attempt::Real(None);
    }
    // "any", "usbmon1", a file of D-Bus, a name that does not exist: the real libpcap knows, or has the words for it.
    let Ok(interface) = Interface::find(name) else { return Attempt::Real(None) };
    let tagged_by_switch = Path::new("/sys/class/net").join(name).join("dsa/tagging").exists();
    if !interface.ethernet || !interface.up || tagged_by_switch {
        return Attempt::Real(None);
    }
    let config = config(wanted, &interface);
    let asked_for = settings.backend != Choice::Auto;
    let refuse = |denied: bool, text: String| match (asked_for, denied) {
        (true, true) => Attempt::Refused(PCAP_ERROR_PERM_DENIED, text),
        (true, false) => Attempt::Refused(PCAP_ERROR, text),
        // The real libpcap will say the same in its own words.
        (false, true) => Attempt::Real(None),
        (false, false) => Attempt::Real(Some(text)),
    };
    let policy = config.policy.clone();
    let opened = Receiver::open(config).and_then(Receiver::into_direct);
    let (sources, attachment) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let kind = error.errno().map(|errno| std::io::Error::from_raw_os_error(errno).kind());
            return refuse(kind == Some(ErrorKind::PermissionDenied), error.to_string());
        }
    };
    let warning = attachment.warnings().iter().find(|warning| warning.contains("using the packet ring")).cloned();
    let pacer = match Pacer::new(&policy) {
        Ok(pacer) => pacer,
        Err(error) => return refuse(false, error.to_string()),
    };
    let timeout_ms = u64::try_from(wanted.timeout_ms.get()).unwrap_or(0);
    // SAFETY: the inner handle is valid as long as the handle.
    let precision = unsafe { real::pcap_get_tstamp_precision(handle.inner()) };
    let live = Live::new(Parts {
        sources,
        attachment,
        pacer,
        snaplen: snaplen(wanted) as u32,
        nanoseconds: precision == PCAP_TSTAMP_PRECISION_NANO,
        nonblocking: wanted.nonblocking.get(),
        timeout_ns: (timeout_ms > 0).then_some(timeout_ms * 1_000_000),
        stamp_types: stamp_types(handle),
    });
    match live {
        Ok(live) => Attempt::Live(Box::new(live), warning),
        Err(error) => refuse(false, error.to_string()),
    }
}

/// What pcap_list_tstamp_types said before activation, which it also says afterwards.
fn stamp_types(handle: &Handle) -> Vec<c_int> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the inner handle is valid; the list has as many entries as the call returns and is freed once.
    unsafe {
        let count = real::pcap_list_tstamp_types(handle.inner(), &mut list);
        let Some(len) = usize::try_from(count).ok().filter(|len| *len > 0 && !list.is_null()) else {
            return vec![PCAP_TSTAMP_HOST];
        };
        let types = std::slice::from_raw_parts(list, len).to_vec();
        real::pcap_free_tstamp_types(list);
        types
    }
}

fn config(wanted: &Wanted, interface: &Interface) -> ReceiverConfig {
    let settings = &wanted.settings;
    let (policy, napi_pause) = waiting(wanted);
    let mut config = ReceiverConfig::new(&interface.name, policy);
    config.backend = match settings.backend {
        Choice::Xdp => Backend::Xdp,
        Choice::Socket => Backend::Socket,
        // A program that watches everything; one that is not promiscuous reads what is for this host.
        Choice::Auto if settings.take || (wanted.promiscuous.get() && interface.host_use.is_none()) => Backend::Auto,
        Choice::Auto | Choice::Packet | Choice::System => Backend::Packet,
    };
    config.take = settings.take;
    let snaplen = if settings.backend == Choice::Socket { u32::MAX } else { snaplen(wanted) as u32 };
    config.sent_beside = Some(filter::to_core(&filter::for_sent(&Program::default(), PCAP_D_INOUT, snaplen)));
    config.filter = Some(filter::to_core(&Program::default().for_kernel(PCAP_D_INOUT, snaplen)));
    config.incoming_only = interface.is_loopback();
    config.promiscuous = wanted.promiscuous.get();
    config.across_fork = true;
    let frame = interface.mtu.saturating_add(256).next_power_of_two().clamp(2048, FRAME_BYTES);
    let xdp = matches!(config.backend, Backend::Xdp | Backend::Auto);
    // An AF_XDP frame's size follows from the MTU; the ring beside it, and the one in its place, take the default.
    config.frame_size = if xdp { None } else { Some(frame) };
    let queues = if xdp { interface.queues.max(1) } else { 1 };
    let asked = u32::try_from(wanted.buffer_bytes.get()).unwrap_or(0) / frame;
    let unasked = (RING_SLOTS.max(asked) / queues).min(RING_BYTES / frame).max(512);
    let slots = settings.ring.unwrap_or(unasked);
    config.ring_slots = if xdp { slots.next_power_of_two() } else { slots };
    // As many packets as long as the MTU allows, however short they are.
    let packed = config.ring_slots.saturating_mul(XdpSource::packed_frames(interface.mtu)).min(1 << 20);
    config.packed_slots = settings.ring.is_none().then(|| packed.next_power_of_two());
    // The thread, its priority and its memory are the client's.
    config.realtime = RealTime { priority: 0, lock_memory: false, shallow_idle: false };
    config.napi_pause = napi_pause;
    config
}

/// How to wait, and the pause of the kernel's NAPI.
fn waiting(wanted: &Wanted) -> (Policy, NapiPause) {
    let settings = &wanted.settings;
    let told_ns = settings.napi_pacing.map(|pace| pace.as_nanos() as u64);
    let told = NapiPause::anywhere(told_ns.unwrap_or(0));
    // Immediate mode promises delivery as packets arrive; who states a bound has said what that may mean.
    let bound = match settings.max_latency {
        None if wanted.immediate.get() => return (Policy::Interrupt, told),
        None => BOUND,
        Some(bound) => bound,
    };
    let cpu = sched::allowed_cpus().last().copied().unwrap_or(0);
    let wishes = Wishes { max_latency: bound, napi_pace_ns: told_ns, ..Wishes::default() };
    // Never measured here: the process is the client's.
    wishes.waiting(Calibration::cached(cpu).as_ref())
}

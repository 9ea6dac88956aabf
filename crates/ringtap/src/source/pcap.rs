//! Any device of any libpcap as a source: "any", and what patched libpcaps bring: netmap, PF_RING, DAG, DPDK.
//!
//! Owns when the library's counters are read and what they mean. The C interface is in sys/pcap. Each packet is copied once,
//! as libpcap lends it for the length of a callback; a look at the device may be a system call, which is the library's way.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::backend::{Opened, Opener};
use super::counters::{DeviceCounters, DeviceCounts};
use super::{Description, Source, StampClock, Wake};
use crate::burst::{BURST_MAX, Burst, FrameOwner};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::receiver::ReceiverConfig;
use crate::sys::clock;
use crate::sys::event::{PollEnd, Stop};
use crate::sys::grace_period;
use crate::sys::memory::Slot;
use crate::sys::pcap::{Device, DeviceConfig, Statistics};

/// How often a device without a descriptor to wait on is looked at.
const LOOK: Duration = Duration::from_millis(1);
/// Age of the published counters at which they are read again: on Linux, libpcap opens files of /sys to read them.
const STALE: Duration = Duration::from_millis(100);
/// The clock is asked after so many bursts in a row at the latest.
const BURSTS: u32 = 64;
/// How long a device that reports an error is left alone, as [`super::device_wake`] does.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes kept of a packet unless told: a merged one with its headers; a multiple of 64. In immediate mode each frame of libpcap's ring
/// is that long, and on Ethernet never longer than 65,553 bytes: what BIG TCP merges beyond that comes cut.
const WHOLE: u32 = (64 << 10) + 128;
/// Slots of the library's buffer for such frames, unless so many are asked for that short ones need more. Where offloads are on,
/// libpcap lays each frame into a block of 128 KiB.
const WHOLE_SLOTS: u32 = 2048;

pub(super) const OPENER: Opener = Opener { name: NAME, find, most_slots: u32::MAX, rings: |_, _| None, open };
const NAME: &str = "pcap";

/// Their names are the library's business, which may know more than the kernel.
fn find(name: &str) -> Result<Interface> {
    Ok(Interface::find(name).unwrap_or_else(|_| Interface::foreign(name)))
}

fn open(config: &ReceiverConfig, interface: &Interface, warnings: &mut Vec<String>) -> Result<Opened> {
    if super::packet::fanout_count(config) != 1 {
        return Err(Error::usage("open through libpcap", &interface.name, "a libpcap device has one queue")
            .way_out("leave --queues out"));
    }
    let is_any = interface.is_foreign() && interface.name == "any";
    let device = PcapConfig {
        library: config.pcap_library.clone(),
        device: interface.name.clone(),
        ring_slots: config.ring_slots,
        frame_size: config.frame_size,
        // "any" is never promiscuous, and libpcap would say so each time.
        promiscuous: config.promiscuous && !is_any,
        incoming_only: config.incoming_only,
        is_interface: !interface.is_foreign(),
        leaves_out: is_any || interface.is_loopback(),
    };
    let source = PcapSource::open(&device, warnings)?;
    Ok(Opened::unsteered(vec![(Box::new(source), None)]))
}

/// How to open a device.
#[derive(Debug, Clone)]
pub struct PcapConfig {
    /// The device, as its libpcap calls it.
    pub device: String,
    /// The library's file; `None`: the system's libpcap.
    pub library: Option<PathBuf>,
    /// Packets its buffer has to hold, where it can be told; 64 to 2^20.
    pub ring_slots: u32,
    /// Bytes kept of a packet, a power of two from 2048 to 65536; `None`: whole packets, merged ones too.
    pub frame_size: Option<u32>,
    /// Ask for frames that are addressed to others.
    pub promiscuous: bool,
    /// Leave out what this host sends.
    pub incoming_only: bool,
    /// Whether a network interface of this host is behind the device, whose own counters tell what was lost before.
    pub is_interface: bool,
    /// Whether libpcap itself leaves packets out after having counted them, as one of each two on the loopback interface.
    pub leaves_out: bool,
}

/// One device.
pub struct PcapSource {
    device: Device,
    owner: OwnPackets,
    slots: Vec<Slot>,
    description: Description,
    totals: Totals,
    published: Arc<Published>,
    read_at_ns: u64,
    /// Packets that had been taken when the counters were last published; as many as have been, where there are no counters.
    read_at_taken: u64,
    bursts: u32,
    /// Packets taken at which a source that is shut ends.
    end: Option<u64>,
    beyond: u64,
    failure: Option<String>,
    stop: Option<Arc<Stop>>,
}

/// The arena's memory belongs to user space all the time: nothing is given back.
struct OwnPackets;

impl FrameOwner for OwnPackets {
    fn give_back(&mut self, _slots: &[Slot]) {}
}

/// The library's counters since the beginning, which are 32 bits wide and wrap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    latest: Statistics,
    received: u64,
    dropped: u64,
    before: u64,
    /// Whether `received` is found not to contain `dropped`.
    excludes_drops: bool,
}

impl Totals {
    /// The counters as of now, when `taken` packets had been taken off the library's buffer.
    ///
    /// pcap_stats(3PCAP) leaves it to the device whether ps_recv contains ps_drop. Where it does, as on Linux, it is at least
    /// the sum of ps_drop and what was taken; once it was less, it does not.
    fn add(&mut self, now: Statistics, taken: u64) {
        let since = |now: u32, then: u32| u64::from(now.wrapping_sub(then));
        self.received += since(now.received, self.latest.received);
        self.dropped += since(now.dropped, self.latest.dropped);
        self.before += since(now.dropped_by_interface, self.latest.dropped_by_interface);
        self.latest = now;
        self.excludes_drops |= self.received < taken + self.dropped;
    }

    /// Packets that came for us.
    fn offered(&self) -> u64 {
        if self.excludes_drops { self.received + self.dropped } else { self.received }
    }
}

/// What the engine's thread tells the others: a libpcap handle may be asked by one thread at a time.
#[derive(Debug)]
struct Published {
    counts: Mutex<Option<Totals>>,
    taken: AtomicU64,
    is_interface: bool,
    /// As in [`PcapConfig`].
    leaves_out: bool,
}

impl Published {
    /// As of the last reading; what came since then counts as offered once it is taken, and what was lost since then is not
    /// known yet. `None` where the device has no counters.
    fn read(&self) -> Option<DeviceCounts> {
        let totals = (*self.counts.lock().unwrap_or_else(PoisonError::into_inner))?;
        // What is taken now may have been in the buffer when the counters were read, and is in them then.
        let taken = self.taken.load(Ordering::Relaxed);
        // Lost before the library saw them: the interface itself is asked where there is one.
        let before = if self.is_interface { 0 } else { totals.before };
        Some(DeviceCounts {
            offered: Some(totals.offered().max(taken + totals.dropped) + before),
            ring_full: totals.dropped,
            nic: before,
            ..DeviceCounts::default()
        })
    }
}

impl PcapSource {
    /// Opens the device.
    ///
    /// # Errors
    /// A number out of range; what the library says.
    pub fn open(config: &PcapConfig, warnings: &mut Vec<String>) -> Result<Self> {
        let usage = |cause: String, way_out: &str| {
            Err(Error::usage("open through libpcap", &config.device, cause).way_out(way_out))
        };
        if !(64..=1 << 20).contains(&config.ring_slots) {
            return usage(format!("{} ring slots", config.ring_slots), "use 64 to 1048576");
        }
        if let Some(size) = config.frame_size.filter(|size| !size.is_power_of_two() || !(2048..=65536).contains(size)) {
            return usage(format!("frame size {size}"), "use a power of two from 2048 to 65536");
        }
        let snaplen = config.frame_size.unwrap_or(WHOLE);
        let buffer_bytes = match config.frame_size {
            Some(size) => config.ring_slots.saturating_mul(size).min(i32::MAX as u32),
            None => {
                let whole = config.ring_slots.min(WHOLE_SLOTS) * WHOLE;
                whole.max(config.ring_slots.saturating_mul(2048))
            }
        };
        let device_config = DeviceConfig {
            device: config.device.clone(),
            snaplen,
            buffer_bytes,
            promiscuous: config.promiscuous,
            incoming_only: config.incoming_only,
        };
        let (device, library) = Device::open(config.library.as_deref(), &device_config, warnings)?;
        if device.wait_on().0.is_none() {
            warnings.push(format!(
                "{} through libpcap has no descriptor to wait on: without a timer it is looked at every {LOOK:?}",
                config.device
            ));
        }
        let description = Description {
            backend: NAME,
            object: config.device.clone(),
            queue: None,
            zero_copy: Some(false),
            xdp_mode: None,
            busy_poll: false,
            ring_slots: config.ring_slots as usize,
            memory_bytes: device.region().len() + buffer_bytes as usize,
            library: Some(library),
        };
        let published = Arc::new(Published {
            counts: Mutex::new(None),
            taken: AtomicU64::new(0),
            is_interface: config.is_interface,
            leaves_out: config.leaves_out,
        });
        let mut this = Self {
            device,
            owner: OwnPackets,
            slots: Vec::with_capacity(BURST_MAX),
            description,
            totals: Totals::default(),
            published,
            read_at_ns: 0,
            read_at_taken: 0,
            bursts: 0,
            end: None,
            beyond: 0,
            failure: None,
            stop: None,
        };
        this.publish();
        Ok(this)
    }

    /// Reads the counters and leaves them where other threads find them, unless one is looking right now.
    fn publish(&mut self) {
        self.read_at_ns = clock::monotonic_ns();
        let taken = self.published.taken.load(Ordering::Relaxed);
        let Some(statistics) = self.device.statistics() else {
            self.read_at_taken = taken;
            return;
        };
        self.totals.add(statistics, taken);
        if let Ok(mut counts) = self.published.counts.try_lock() {
            *counts = Some(self.totals);
            self.read_at_taken = taken;
        }
    }

    fn is_stale(&self) -> bool {
        clock::monotonic_ns().saturating_sub(self.read_at_ns) > STALE.as_nanos() as u64
    }

    fn fail(&mut self, why: String) {
        if self.failure.is_none() {
            self.failure = Some(why);
            if let Some(stop) = &self.stop {
                stop.device_gone();
            }
        }
    }
}

impl Source for PcapSource {
    fn receive(&mut self) -> Burst<'_> {
        let taken = self.published.taken.load(Ordering::Relaxed);
        let most = self.end.map_or(BURST_MAX as u64, |end| end.saturating_sub(taken).min(BURST_MAX as u64)) as usize;
        if self.slots.is_empty() && most > 0 && self.failure.is_none() {
            match self.device.receive(most, &mut self.slots) {
                Ok(beyond) => self.beyond += beyond,
                Err(why) => self.fail(why),
            }
            self.published.taken.store(taken + self.slots.len() as u64, Ordering::Relaxed);
            self.bursts += 1;
            if self.end.is_none() && (self.slots.is_empty() || self.bursts >= BURSTS) {
                self.bursts = 0;
                if self.is_stale() {
                    self.publish();
                }
            }
        }
        Burst::new(&mut self.slots, self.device.region(), &mut self.owner)
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        if !self.slots.is_empty() {
            return Wake::Ready;
        }
        // Before a long sleep the counters are brought up to date.
        let is_behind = self.read_at_taken != self.published.taken.load(Ordering::Relaxed);
        let (fd, required) = self.device.wait_on();
        let limit = [limit, required, is_behind.then_some(STALE)].into_iter().flatten().min();
        let end = match fd {
            Some(fd) => stop.wait_readable(fd, limit),
            None if stop.wait(limit.map_or(LOOK, |limit| limit.min(LOOK))) => PollEnd::Stopped,
            None => PollEnd::TimedOut,
        };
        match end {
            PollEnd::Readable => Wake::Ready,
            PollEnd::Stopped => Wake::Stopped,
            // The library sees to the error when it is next asked.
            PollEnd::Failed if stop.wait(PAUSE) => Wake::Stopped,
            PollEnd::TimedOut | PollEnd::Failed => {
                if is_behind && self.is_stale() {
                    self.publish();
                }
                Wake::TimedOut
            }
        }
    }

    /// libpcap can't be told to take no more and to give what it has. So the counters are read, and as many packets as had
    /// come by then are taken: those that come later are nobody's.
    fn quiesce(&mut self) -> bool {
        let taken = self.published.taken.load(Ordering::Relaxed);
        let Some(statistics) = self.device.statistics() else { return false };
        self.totals.add(statistics, taken);
        // They are counted before they are in the ring.
        grace_period();
        self.end = Some(self.totals.offered().saturating_sub(self.totals.dropped));
        *self.published.counts.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.totals);
        true
    }

    fn stamp_clock(&self) -> StampClock {
        StampClock::Realtime
    }

    fn description(&self) -> Description {
        self.description.clone()
    }

    fn counters(&self) -> Option<Box<dyn DeviceCounters>> {
        Some(Box::new(LibraryCounters(Arc::clone(&self.published))))
    }

    /// A libpcap sees to that itself.
    fn sets_promiscuous(&self) -> bool {
        true
    }

    /// Its LINKTYPE_ value, where capture files know its DLT_.
    fn link_type(&self, _interface: &Interface) -> Option<u16> {
        match self.device.link_type() {
            // Raw IP and RFC 1483 ATM have another number on the host than in files (tcpdump.org/linktypes.html).
            12 | 14 => Some(101),
            11 => Some(100),
            other => u16::try_from(other).ok(),
        }
    }

    fn share_stop(&mut self, stop: &Arc<Stop>) {
        self.stop = Some(Arc::clone(stop));
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Packets that the library gave unasked.
    fn invalid_descriptors(&self) -> u64 {
        self.beyond
    }
}

/// What the engine's thread published, for the others.
struct LibraryCounters(Arc<Published>);

impl DeviceCounters for LibraryCounters {
    fn read(&mut self) -> Option<DeviceCounts> {
        self.0.read()
    }

    fn leaves_out(&self) -> bool {
        self.0.leaves_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(received: u32, dropped: u32) -> Statistics {
        Statistics { received, dropped, dropped_by_interface: 0 }
    }

    #[test]
    fn both_meanings_of_ps_recv_come_to_the_same_sum() {
        // 100 came, 10 were dropped, 85 were taken, 5 are in the buffer.
        for received in [100, 90] {
            let mut totals = Totals::default();
            totals.add(statistics(received, 10), 85);
            assert_eq!(totals.offered(), 100, "{received}");
        }
    }

    #[test]
    fn a_meaning_once_found_out_stays_when_the_buffer_hides_it() {
        let mut totals = Totals::default();
        totals.add(statistics(90, 10), 90);
        totals.add(statistics(500, 10), 100);
        assert_eq!(totals.offered(), 510);
    }

    #[test]
    fn counters_of_32_bits_wrap() {
        let mut totals = Totals { latest: statistics(u32::MAX - 1, 0), ..Totals::default() };
        totals.add(statistics(3, 0), 5);
        assert_eq!(totals.received, 5);
    }

    #[test]
    fn what_was_taken_since_the_last_reading_is_offered_once() {
        let published = |counts, taken| Published {
            counts: Mutex::new(counts),
            taken: AtomicU64::new(taken),
            is_interface: false,
            leaves_out: false,
        };
        // 11 came, 1 was dropped, 9 were taken, 1 is in the buffer.
        let mut totals = Totals::default();
        totals.add(Statistics { received: 11, dropped: 1, dropped_by_interface: 4 }, 9);
        for (taken, offered) in [(9, 11), (10, 11), (12, 13)] {
            let read = published(Some(totals), taken).read();
            let wanted = DeviceCounts { offered: Some(offered + 4), ring_full: 1, nic: 4, ..DeviceCounts::default() };
            assert_eq!(read, Some(wanted), "{taken} taken");
        }
        assert_eq!(published(None, 12).read(), None, "no counters are unknown, not 0");
    }
}

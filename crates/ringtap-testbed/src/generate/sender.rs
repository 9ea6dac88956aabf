//! Sends from user space when packets are due: a packet socket's transmit ring, an absolute schedule, sleeping and spinning.
//!
//! Owns waiting, catching up, flushing, lateness and the count of what the device took. Does not own what is due when
//! (`pace`, `replay`) or what a frame says (`fill`, `replay`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ringtap::interface::Interface;
use ringtap::netlink::{self, LinkStatistics};
use ringtap::transmit::TransmitRing;
use ringtap::{Error, Result};
use ringtap::{clock, sched};

use super::GeneratorBackend;
use super::program::State;
use super::report::{GeneratorReport, LATENESS_BUCKETS};

/// When a packet is due later than this, the thread sleeps instead of spinning.
const RARE_NS: u64 = 400_000;
/// How long before a packet is due it is up again: a wake-up can take that long on a virtual machine.
const EARLY_NS: u64 = 200_000;
/// Longest sleep at once, so that a stop is seen.
const NAP_NS: u64 = 50_000_000;
/// Frames queued before the kernel is called, as the in-kernel generator's batch.
const BATCH: u32 = 8;
/// Late by more than this counts as a late packet, as in bpf/generate.bpf.c.
const LATE_NS: u64 = 100_000;
/// How often frames that the device refused are offered again.
const RETRY_NS: u64 = 20_000;
/// A ring that stays full for so long belongs to a device that takes nothing any more.
const STUCK_NS: u64 = 2_000_000_000;
/// Memory of a ring.
const RING_BYTES: u32 = 1 << 20;
/// `struct tpacket2_hdr` in front of each frame, two VLAN tags.
const BESIDE_FRAME_BYTES: u32 = 32 + 8;

/// What the sending thread and those who watch it share: one writes, the others read, except for `stop`.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    pub(crate) sent: AtomicU64,
    pub(crate) last_ns: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) done: AtomicBool,
}

/// How a sender behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) core: Option<usize>,
    pub(crate) priority: Option<u8>,
    pub(crate) hold_ns: u64,
    pub(crate) max_late_ns: u64,
}

/// When the next packet may leave, in 1/65536 ns since the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    pub(crate) at_q16: u64,
    /// Interval to the packet before.
    pub(crate) gap_q16: u64,
}

/// A transmit ring with a schedule's clock.
#[derive(Debug)]
pub(crate) struct Sender {
    ring: TransmitRing,
    ifindex: u32,
    before: LinkStatistics,
    shared: Arc<Shared>,
    manner: Manner,
    state: State,
    lateness: Vec<u64>,
    /// Frames queued and not flushed, and since when.
    held: u32,
    held_since_ns: u64,
    pending: u32,
    retry_ns: u64,
    kicks: u64,
    stuck: bool,
}

impl Sender {
    /// Opens the ring; nothing is sent yet.
    pub(crate) fn open(interface: &Interface, manner: Manner, shared: Arc<Shared>) -> Result<Self> {
        let frame_size = (interface.mtu + 14 + BESIDE_FRAME_BYTES).next_power_of_two().max(2048);
        let slots = (RING_BYTES / frame_size).max(16);
        let ring = TransmitRing::open_packet(&interface.name, interface.index, slots, frame_size)?;
        let link = netlink::link_by_index(interface.index)
            .map_err(|error| Error::os("read counters of", &interface.name, &error))?;
        Ok(Self {
            ring,
            ifindex: interface.index,
            before: link.statistics,
            shared,
            manner,
            state: State::default(),
            lateness: vec![0; LATENESS_BUCKETS],
            held: 0,
            held_since_ns: 0,
            pending: 0,
            retry_ns: 0,
            kicks: 0,
            stuck: false,
        })
    }

    /// Binds the calling thread and raises its priority; what is not permitted is only said.
    pub(crate) fn place(&self) -> Vec<String> {
        let mut warnings = super::run::place(self.manner.core, self.manner.priority);
        if let Err(error) = sched::set_timer_slack(1) {
            warnings.push(format!("the generator's timers may be late: {error}"));
        }
        warnings
    }

    /// Packets sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.state.sent
    }

    /// Waits until the packet is due and sends what `build` writes for it (given room and the time). `false` when asked to
    /// stop, when the device takes nothing any more, or when the packet does not fit (length 0).
    pub(crate) fn send(&mut self, due: Due, mut build: impl FnMut(&mut [u8], u64) -> usize) -> bool {
        if self.state.base_ns == 0 {
            self.state.base_ns = clock::monotonic_ns();
        }
        let due_ns = self.state.base_ns + (due.at_q16 >> 16);
        // Caught up at no more than 4/3 of the rate: a pause must not become a burst that overflows a ring.
        let earliest = due_ns.max(self.state.last_ns + ((due.gap_q16 - (due.gap_q16 >> 2)) >> 16));
        if !self.wait_until(earliest) {
            return false;
        }
        let Some((now, length)) = self.queue(&mut build) else { return false };
        let mut late_ns = now.saturating_sub(due_ns);
        if due.at_q16 == 0 && self.state.sent == 0 {
            // The first packet starts the schedule.
            self.state.base_ns = now;
            late_ns = 0;
        }
        self.note(due.at_q16, now, late_ns, length as u64);
        true
    }

    /// As [`Sender::send`], at once: the packet is due whenever it is its turn.
    pub(crate) fn send_now(&mut self, mut build: impl FnMut(&mut [u8], u64) -> usize) -> bool {
        if self.state.base_ns == 0 {
            self.state.base_ns = clock::monotonic_ns();
        }
        if self.held >= BATCH {
            self.flush();
        }
        if self.shared.stop.load(Ordering::Relaxed) {
            return false;
        }
        let Some((now, length)) = self.queue(&mut build) else { return false };
        self.note((now - self.state.base_ns) << 16, now, 0, length as u64);
        true
    }

    /// Puts one frame into the ring as soon as there is room; gives the time it was stamped and its length.
    fn queue(&mut self, build: &mut impl FnMut(&mut [u8], u64) -> usize) -> Option<(u64, usize)> {
        let mut give_up_ns = 0;
        loop {
            let now = clock::monotonic_ns();
            if let Some(length) = self.ring.send(|frame| build(frame, now)) {
                return (length > 0).then_some((now, length));
            }
            if give_up_ns == 0 {
                give_up_ns = now + STUCK_NS;
            }
            self.stuck = now > give_up_ns;
            if self.stuck || self.shared.stop.load(Ordering::Relaxed) {
                return None;
            }
            self.offer_again();
            clock::sleep_until(now + RETRY_NS);
        }
    }

    fn note(&mut self, at_q16: u64, now: u64, late_ns: u64, length: u64) {
        let state = &mut self.state;
        let bucket = (u64::BITS - late_ns.leading_zeros()) as usize;
        self.lateness[bucket.min(LATENESS_BUCKETS - 1)] += 1;
        state.late_max_ns = state.late_max_ns.max(late_ns);
        state.late += u64::from(late_ns > LATE_NS);
        if late_ns > self.manner.max_late_ns {
            state.base_ns += late_ns;
            state.slipped_ns += late_ns;
            state.slips += 1;
        }
        if state.sent == 0 {
            state.first_ns = now;
            state.first_due_q16 = at_q16;
        }
        state.last_due_q16 = at_q16;
        state.last_ns = now;
        state.bytes += length;
        state.sent += 1;
        if self.held == 0 {
            self.held_since_ns = now;
        }
        self.held += 1;
        self.shared.sent.store(state.sent, Ordering::Relaxed);
        self.shared.last_ns.store(now, Ordering::Relaxed);
        self.shared.late.store(state.late, Ordering::Relaxed);
    }

    fn wait_until(&mut self, instant_ns: u64) -> bool {
        loop {
            if self.shared.stop.load(Ordering::Relaxed) {
                return false;
            }
            // Better a short batch, sent now, than a frame that waits for its successors.
            if self.held >= BATCH || self.held > 0 && instant_ns > self.held_since_ns + self.manner.hold_ns {
                self.flush();
            }
            let now = clock::monotonic_ns();
            if now >= instant_ns {
                return true;
            }
            if self.pending > 0 && now >= self.retry_ns {
                self.offer_again();
            } else if self.pending == 0 && instant_ns > now + RARE_NS {
                clock::sleep_until((instant_ns - EARLY_NS).min(now + NAP_NS));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn flush(&mut self) {
        self.held = 0;
        self.kicks += 1;
        self.ring.kick();
        self.pending = self.ring.pending();
        self.retry_ns = self.state.last_ns + RETRY_NS;
    }

    fn offer_again(&mut self) {
        self.held = 0;
        self.kicks += 1;
        self.ring.kick_again();
        self.pending = self.ring.pending();
        self.retry_ns = clock::monotonic_ns() + RETRY_NS;
    }

    /// Waits for the ring to empty and reports. `complete`: all that was asked for has been queued.
    pub(crate) fn finish(mut self, asked_pps: f64, complete: bool, warnings: Vec<String>) -> GeneratorReport {
        /// A device that sends at all empties its ring in this time.
        const DRAIN_NS: u64 = 1_000_000_000;
        self.flush();
        let until = clock::monotonic_ns() + DRAIN_NS;
        while self.pending > 0 && clock::monotonic_ns() < until {
            clock::sleep_until(clock::monotonic_ns() + RETRY_NS);
            self.offer_again();
        }
        let refused = self.refused();
        let mut report = GeneratorReport::new(&self.state, self.lateness, asked_pps);
        report.backend = GeneratorBackend::Ring;
        report.complete = complete;
        report.not_ready = Some(u64::from(self.pending));
        report.queue_full = refused;
        report.accepted = refused.map(|refused| report.stamped.saturating_sub(u64::from(self.pending) + refused));
        report.calls = self.kicks;
        report.warnings = warnings;
        if self.stuck {
            report
                .warnings
                .push(format!("the device took nothing for {} s: sending was given up", STUCK_NS / 1_000_000_000));
        }
        self.shared.done.store(complete, Ordering::Relaxed);
        report
    }

    /// Frames that left the ring and never left the device, as far as it counts them; `None` when it is gone.
    ///
    /// A device may refuse a frame (net_device_ops: NET_XMIT_DROP), which then stays in the ring and is offered again, or
    /// take and drop it. Both add to tx_dropped, so only what is also missing from tx_packets was lost. Where NAPI of a
    /// veth's other end does that count, it lags behind.
    fn refused(&self) -> Option<u64> {
        const SETTLE_NS: u64 = 200_000_000;
        let handed = self.state.sent.saturating_sub(self.pending.into());
        let until = clock::monotonic_ns() + SETTLE_NS;
        loop {
            let now = netlink::link_by_index(self.ifindex).ok()?.statistics;
            let dropped = now.tx_dropped.saturating_sub(self.before.tx_dropped);
            let missing = handed.saturating_sub(now.tx_packets.saturating_sub(self.before.tx_packets));
            let refused = dropped.min(missing);
            if refused == 0 || clock::monotonic_ns() > until {
                return Some(refused);
            }
            clock::sleep_until(clock::monotonic_ns() + 5_000_000);
        }
    }
}

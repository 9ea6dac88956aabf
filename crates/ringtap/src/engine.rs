//! The loop: receive, handle, and when the ring is empty, wait as the pacer says.
//!
//! Owns one source, one handler and the thread's time. No allocation, no lock, no log and no system call in here but the
//! wait, one transmit kick per cycle and, in a long cycle, a turn for others (invariant 1). Which wait is the pacer's
//! business, how it is done the source's.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::burst::Packet;
use crate::histogram::add;
use crate::meters::EngineMeters;
use crate::pacer::{Pacer, Wait};
use crate::source::{Source, StampClock, Wake};
use crate::sys::event::Stop;
use crate::sys::{clock, sched};
use crate::transmit::{Outbox, TransmitRing};

/// Timer waits longer than this also listen to the stop handle; shorter ones end soon enough by themselves.
const LONG_WAIT_NS: u64 = 50_000_000;

/// After so long in one cycle the engine lets threads of its own priority have the core. The kernel's side of reception
/// may be one (NAPI threads; interrupt threads of real-time kernels), and what it has to fetch lies in a queue of a few
/// hundred packets: veth's 256 last 170 µs at 1.5 million packets/s. Shorter costs a system call more often.
const TURN_NS: u64 = 50_000;

/// What is done with each packet, run to completion on the engine's thread (spec S4).
pub trait Handler {
    /// Handles one packet. Must not block; may send frames through `outbox`.
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>);

    /// The ring was found empty and the engine is about to wait.
    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {}
}

/// Why an engine came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The stop handle was pulled; what had come until then has been handled.
    Stopped,
    /// The packet limit was reached.
    Limit,
    /// The file was read to its end.
    EndOfFile,
    /// The device was removed; what was in the ring has been handled.
    DeviceGone,
}

/// One source, one handler, one thread.
#[derive(Debug)]
pub struct Engine<S, H> {
    /// Where packets come from.
    pub source: S,
    /// What is done with them.
    pub handler: H,
    /// When to look.
    pub pacer: Pacer,
    /// The source's transmit side, where it has one.
    pub transmit: Option<TransmitRing>,
    /// Ends the engine.
    pub stop: Arc<Stop>,
    /// What is counted.
    pub meters: Arc<EngineMeters>,
    /// Ends after this many packets.
    pub packet_limit: Option<u64>,
}

/// The clock of the source's stamps, and since when this engine looks at its ring: what came before was never promised a bound.
#[derive(Debug, Clone, Copy)]
struct Stamps {
    clock: StampClock,
    ready_ns: u64,
}

impl Stamps {
    fn from_now(clock: StampClock) -> Self {
        let this = Self { clock, ready_ns: 0 };
        Self { ready_ns: this.now_ns(), ..this }
    }

    /// 0 where the kernel has no part in reception.
    fn now_ns(self) -> u64 {
        match self.clock {
            StampClock::Monotonic => clock::monotonic_ns(),
            StampClock::Realtime => clock::realtime_ns(),
            StampClock::Taken | StampClock::Recorded => 0,
        }
    }
}

impl<S: Source, H: Handler> Engine<S, H> {
    /// Runs on the calling thread until the stop handle is pulled, the limit is reached or the source ends.
    pub fn run(&mut self) -> End {
        let stamps = Stamps::from_now(self.source.stamp_clock());
        let mut remaining = self.packet_limit.unwrap_or(u64::MAX);
        let mut handled = 0u64;
        let mut last_tick_ns = None;
        // When the engine's turn on its core began: with the first burst after a wait. An ordinary thread is made to share
        // by the scheduler, and would give away more than a turn.
        let (mut turn_ns, takes_turns) = (None, sched::is_fifo());
        loop {
            let (found, done_ns) = self.burst(stamps, &mut remaining);
            handled += found;
            // A ring that never runs empty must not outlive the stop handle.
            if remaining == 0 || self.stop.is_pulled() {
                return self.end(End::Stopped, stamps, &mut remaining);
            }
            if found > 0 {
                let began_ns = *turn_ns.get_or_insert(done_ns);
                if takes_turns && done_ns.saturating_sub(began_ns) > TURN_NS {
                    std::thread::yield_now();
                    turn_ns = None;
                }
                continue;
            }
            turn_ns = None;
            let retry = self.cycle_end();
            add(if handled > 0 { &self.meters.cycles } else { &self.meters.empty_wakes }, 1);
            let now_ns = clock::monotonic_ns();
            let wait = self.pacer.next(now_ns, handled);
            handled = 0;
            self.meters.mode_switches.store(self.pacer.mode_switches(), Ordering::Relaxed);
            self.meters.missed_ticks.store(self.pacer.missed_ticks(), Ordering::Relaxed);
            match wait {
                Wait::Interrupt => {
                    self.meters.timer_mode.store(0, Ordering::Relaxed);
                    last_tick_ns = None;
                    let wake = self.source.wait_for_interrupt(&self.stop, retry);
                    add(&self.meters.interrupt_wakes, 1);
                    match wake {
                        Wake::Ready | Wake::TimedOut | Wake::Stopped => {}
                        Wake::Gone => return self.end(End::DeviceGone, stamps, &mut remaining),
                        Wake::End => return End::EndOfFile,
                    }
                }
                Wait::Timer(instant_ns) => {
                    self.meters.timer_mode.store(1, Ordering::Relaxed);
                    let wait_ns = instant_ns.saturating_sub(now_ns);
                    if wait_ns > LONG_WAIT_NS {
                        self.stop.wait(Duration::from_nanos(wait_ns));
                    } else {
                        clock::sleep_until(instant_ns);
                    }
                    let woke_ns = clock::monotonic_ns();
                    add(&self.meters.timer_wakes, 1);
                    self.meters.tick_lateness.record(woke_ns.saturating_sub(instant_ns));
                    if let Some(last_ns) = last_tick_ns.replace(woke_ns) {
                        self.meters.poll_period.record(woke_ns.saturating_sub(last_ns));
                    }
                    self.source.poll_device();
                }
                Wait::Poll => self.source.poll_device(),
            }
        }
    }

    /// Ends the flow of packets and handles those that have come; the ones beyond the limit are counted.
    fn end(&mut self, end: End, stamps: Stamps, remaining: &mut u64) -> End {
        if self.source.quiesce() {
            while self.burst(stamps, remaining).0 > 0 {}
        }
        self.cycle_end();
        match end {
            _ if *remaining == 0 => End::Limit,
            End::Stopped if self.stop.is_device_gone() => End::DeviceGone,
            end => end,
        }
    }

    /// One burst from the source to the handler; returns how many packets it held, and when it was done (nanoseconds of
    /// the stamps' clock; 0 where the kernel has no part in reception).
    fn burst(&mut self, stamps: Stamps, remaining: &mut u64) -> (u64, u64) {
        let burst = self.source.receive();
        let found = burst.len() as u64;
        if found == 0 {
            return (0, 0);
        }
        let mut outbox = Outbox { ring: self.transmit.as_mut(), meters: &self.meters };
        let mut bytes = 0;
        let wanted = found.min(*remaining);
        for packet in burst.iter().take(wanted as usize) {
            bytes += packet.data.len() as u64;
            self.handler.packet(&packet, &mut outbox);
        }
        *remaining -= wanted;
        add(&self.meters.packets, wanted);
        add(&self.meters.bytes, bytes);
        add(&self.meters.left_at_limit, found - wanted);
        // Taken after the burst: each packet's latency is at most this, never more flattering.
        let now_ns = stamps.now_ns();
        if now_ns == 0 {
            return (found, 0);
        }
        for packet in burst.iter().take(wanted as usize) {
            let age_ns = now_ns.saturating_sub(packet.arrival_ns);
            match packet.arrival_ns {
                0 => {}
                arrival_ns if arrival_ns < stamps.ready_ns => self.meters.backlog(age_ns),
                _ => self.meters.latency.record(age_ns),
            }
        }
        (found, now_ns)
    }

    /// Tells the handler, and hands its frames to the device; when to do so again, where some are left.
    fn cycle_end(&mut self) -> Option<Duration> {
        let mut outbox = Outbox { ring: self.transmit.as_mut(), meters: &self.meters };
        self.handler.cycle_end(&mut outbox);
        self.transmit.as_mut().and_then(TransmitRing::kick)
    }
}

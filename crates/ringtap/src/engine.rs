//! The loop: receive, handle, and when the ring is empty, wait as the pacer says.
//!
//! Owns one source, one handler and the thread's time. No allocation, no lock, no log and no system call in here but the
//! wait, one transmit kick per cycle and, in a long cycle, a turn for others (invariant 1). Which wait is the pacer's
//! business, how it is done the source's.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::arrival::ArrivalClock;
use crate::burst::Packet;
use crate::clock::{Clock, SystemClock};
use crate::histogram::add;
use crate::meters::EngineMeters;
use crate::pacer::{Pacer, Wait};
use crate::source::{Source, Wake};
use crate::sys::event::{Event, Stop};
use crate::sys::sched;
use crate::transmit::{Outbox, TransmitRing};

/// Timer waits longer than this also listen to the stop handle; shorter ones end soon enough by themselves.
const LONG_WAIT_NS: u64 = 50_000_000;

/// After so long in one cycle the engine lets threads of its own priority have the core. The kernel's side of reception
/// may be one (NAPI threads; interrupt threads of real-time kernels), and what it has to fetch lies in a queue of a few
/// hundred packets: veth's 256 last 170 µs at 1.5 million packets/s. Shorter costs a system call more often.
const TURN_NS: u64 = 50_000;

/// Lets threads of this priority have the core where the turn that began at `turn_ns` has been long enough.
fn let_others(turn_ns: &mut Option<u64>, now_ns: u64) {
    if now_ns.saturating_sub(*turn_ns.get_or_insert(now_ns)) > TURN_NS {
        std::thread::yield_now();
        *turn_ns = None;
    }
}

/// What is done with each packet, run to completion on the engine's thread.
pub trait Handler {
    /// Handles one packet. Must not block; may send frames through `outbox`.
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>);

    /// The ring was found empty and the engine is about to wait, or it ends.
    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {}

    /// After a cycle's end: how long the engine may wait at most until the next one. `None`: as long as no packet comes; zero:
    /// there is more to do, and the engine only looks at its ring and lets others have the core in between.
    fn next_turn(&self) -> Option<Duration> {
        None
    }

    /// What else wakes the engine while it waits without a limit.
    fn bell(&self) -> Option<Arc<Event>> {
        None
    }

    /// Its engine has ended before the others of the program: the thread that watches over these gives it a turn now and then in the
    /// engine's place ([`RunningDevices::take_ended`](crate::receiver::RunningDevices::take_ended)), for what is still to be done.
    /// Nothing is sent any more. With a single receiver the handlers are in its [`Outcome`](crate::receiver::Outcome) instead.
    fn retired(&mut self, _outbox: &mut Outbox<'_>) {}

    /// All engines of the program have ended. Called by the thread that ends them; nothing is sent any more.
    fn all_ended(&mut self, _outbox: &mut Outbox<'_>) {}
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

impl<S: Source, H: Handler> Engine<S, H> {
    /// Runs on the calling thread until the stop handle is pulled, the limit is reached or the source ends.
    pub fn run(&mut self) -> End {
        self.run_by(&SystemClock, |_, _| {})
    }

    /// As [`Engine::run`], in the time that `clock` tells ([`crate::testing::SimulatedClock`]), which has to be the source's too.
    /// `decided` is told each decision of the pacer before it is followed: it may pull the stop handle, or let simulated time
    /// pass, which nothing else does where the pacer polls without a wait.
    pub fn run_by<C: Clock>(&mut self, clock: &C, mut decided: impl FnMut(&Pacer, Wait)) -> End {
        let mut arrivals = ArrivalClock::new_by(clock, self.source.stamp_clock());
        let mut remaining = self.packet_limit.unwrap_or(u64::MAX);
        let mut handled = 0u64;
        let mut last_tick_ns = None;
        // When the engine's turn on its core began: with the first burst after a wait, or when it began to spin. An ordinary
        // thread is made to share by the scheduler, and would give away more than a turn.
        let (mut turn_ns, takes_turns) = (None, sched::is_fifo());
        loop {
            let (found, done_ns) = self.burst(clock, &mut arrivals, &mut remaining);
            handled += found;
            // A ring that never runs empty must not outlive the stop handle.
            if remaining == 0 || self.stop.is_pulled() {
                return self.end(End::Stopped, clock, &mut arrivals, &mut remaining);
            }
            if found > 0 {
                if takes_turns && done_ns > 0 {
                    let_others(&mut turn_ns, done_ns);
                }
                continue;
            }
            let retry = self.cycle_end();
            if self.has_more() {
                if takes_turns {
                    let_others(&mut turn_ns, clock.monotonic_ns());
                }
                continue;
            }
            add(if handled > 0 { &self.meters.cycles } else { &self.meters.empty_wakes }, 1);
            let now_ns = clock.monotonic_ns();
            let wait = self.pacer.next(now_ns, handled);
            handled = 0;
            self.meters.mode_switches.store(self.pacer.mode_switches(), Ordering::Relaxed);
            self.meters.missed_ticks.store(self.pacer.missed_ticks(), Ordering::Relaxed);
            decided(&self.pacer, wait);
            if wait != Wait::Poll {
                turn_ns = None;
            }
            match wait {
                Wait::Interrupt => {
                    self.meters.timer_mode.store(0, Ordering::Relaxed);
                    last_tick_ns = None;
                    let wake = self.source.wait_for_interrupt(&self.stop, retry);
                    add(&self.meters.interrupt_wakes, 1);
                    match wake {
                        Wake::Ready | Wake::TimedOut | Wake::Stopped => {}
                        Wake::Gone => return self.end(End::DeviceGone, clock, &mut arrivals, &mut remaining),
                        Wake::End => return End::EndOfFile,
                    }
                }
                Wait::Timer(instant_ns) => self.tick(clock, now_ns, instant_ns, &mut last_tick_ns),
                Wait::Poll => {
                    self.source.poll_device();
                    // Who spins gives the core away at no other place: a NAPI thread of its priority would never run, and
                    // whoever waits for that thread (with the lock of all network settings) would wait for good.
                    if takes_turns {
                        let_others(&mut turn_ns, now_ns);
                    }
                }
            }
        }
    }

    /// Sleeps until the timer's instant, then has the device polled.
    fn tick(&mut self, clock: &impl Clock, now_ns: u64, instant_ns: u64, last_tick_ns: &mut Option<u64>) {
        self.meters.timer_mode.store(1, Ordering::Relaxed);
        let wait_ns = instant_ns.saturating_sub(now_ns);
        if wait_ns > LONG_WAIT_NS {
            clock.wait(&self.stop, Duration::from_nanos(wait_ns));
        } else {
            clock.sleep_until(instant_ns);
        }
        let woke_ns = clock.monotonic_ns();
        add(&self.meters.timer_wakes, 1);
        self.meters.tick_lateness.record(woke_ns.saturating_sub(instant_ns));
        if let Some(last_ns) = last_tick_ns.replace(woke_ns) {
            self.meters.poll_period.record(woke_ns.saturating_sub(last_ns));
        }
        self.source.poll_device();
    }

    /// Ends the flow of packets and handles those that have come; the ones beyond the limit are counted.
    fn end(&mut self, end: End, clock: &impl Clock, arrivals: &mut ArrivalClock, remaining: &mut u64) -> End {
        if self.source.quiesce() {
            while self.burst(clock, arrivals, remaining).0 > 0 {}
        }
        self.cycle_end();
        while self.has_more() {
            // Others may go on handing it packets.
            std::thread::yield_now();
            self.cycle_end();
        }
        match end {
            _ if *remaining == 0 => End::Limit,
            End::Stopped if self.stop.is_device_gone() => End::DeviceGone,
            end => end,
        }
    }

    /// One burst from the source to the handler; returns how many packets it held, and when it was done (CLOCK_MONOTONIC; 0
    /// where the kernel has no part in reception).
    fn burst(&mut self, clock: &impl Clock, arrivals: &mut ArrivalClock, remaining: &mut u64) -> (u64, u64) {
        let burst = self.source.receive();
        let found = burst.len() as u64;
        if found == 0 {
            arrivals.ring_is_empty();
            return (0, 0);
        }
        let mut outbox = Outbox { ring: self.transmit.as_mut(), meters: &self.meters };
        let meters = burst.meters().unwrap_or(&self.meters);
        let (mut bytes, mut cut) = (0, 0);
        let wanted = found.min(*remaining);
        for packet in burst.iter().take(wanted as usize) {
            bytes += packet.data.len() as u64;
            cut += u64::from(packet.data.len() < packet.wire_len as usize);
            self.handler.packet(&packet, &mut outbox);
        }
        *remaining -= wanted;
        add(&meters.packets, wanted);
        add(&meters.bytes, bytes);
        add(&meters.cut, cut);
        add(&meters.left_at_limit, found - wanted);
        // Taken after the burst: each packet's latency is at most this, never more flattering.
        let now = arrivals.now_by(clock);
        if let Some(now_ns) = now.stamp_ns {
            for packet in burst.iter().take(wanted as usize) {
                let age_ns = now_ns.saturating_sub(packet.arrival_ns);
                match packet.arrival_ns {
                    0 => {}
                    arrival_ns if arrivals.is_backlog(arrival_ns) => meters.backlog(age_ns),
                    _ => meters.latency.record(age_ns),
                }
            }
        }
        self.meters.clock_steps.store(arrivals.steps(), Ordering::Relaxed);
        (found, now.monotonic_ns)
    }

    /// Whether the handler left something to be done at once.
    fn has_more(&self) -> bool {
        self.handler.next_turn() == Some(Duration::ZERO)
    }

    /// Tells the handler, and hands its frames to the device; when to do so again, where some are left or the handler asks for it.
    fn cycle_end(&mut self) -> Option<Duration> {
        let mut outbox = Outbox { ring: self.transmit.as_mut(), meters: &self.meters };
        self.handler.cycle_end(&mut outbox);
        self.source.count_invalid(&self.meters);
        let kick = self.transmit.as_mut().and_then(TransmitRing::kick);
        [kick, self.handler.next_turn()].into_iter().flatten().min()
    }
}

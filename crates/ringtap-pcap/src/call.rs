//! One pcap_dispatch, pcap_loop or pcap_next on its way: bursts handed out packet by packet, and the pacer's word between them.
//!
//! Owns where a call stands. Between two steps nothing is borrowed or half-done: what was shown of a burst is written down
//! before the client sees it, and frames go back at the next step. So a callback may begin another call on the same capture
//! (what it was shown may be overwritten then, as with libpcap), leave by longjmp(3), or end with its thread; the next call
//! goes on behind the last packet shown. Who sleeps and who calls the client is `entry`.

use std::sync::atomic::Ordering;

use ringtap::clock;
use ringtap::pacer::{Pacer, Wait};
use ringtap::receiver::Intake;
use ringtap::source::{AnySource, Source};

use crate::abi::PacketHeader;
use crate::live::{End, Live};
use crate::unwind;
use crate::wait::{Signal, Woken};

/// Timer waits longer than this also listen to pcap_breakloop; shorter ones end soon enough by themselves.
const LONG_WAIT_NS: u64 = 50_000_000;
/// The most one dispatch handles before it returns, as a bufferful is to libpcap.
const BUFFERFUL: u64 = 16_384;

/// The rings, and how far they were shown.
pub struct Rings {
    intake: Intake,
    pacer: Pacer,
    /// How many packets of the burst were shown.
    shown: usize,
    /// Packets since the pacer was last asked.
    handled: u64,
    /// Until when nobody needs to look (CLOCK_MONOTONIC, ns); 0: no such instant.
    not_before_ns: u64,
}

/// Where a call stands: plain data, so that it may vanish with the stack.
#[derive(Clone, Copy)]
pub struct Call {
    limit: Option<u64>,
    /// pcap_loop: until the limit, whatever time passes.
    endless: bool,
    blocking: bool,
    /// A client that was called by its descriptor and finds nothing goes back to it instead of sleeping here.
    called: bool,
    deadline_ns: Option<u64>,
    delivered: u64,
    /// Packets looked at, and as many of them as in the round through all sources.
    found: u64,
    round: u64,
    woken: Option<(Sleep, Woken)>,
}

/// What a call does next.
#[derive(Clone, Copy)]
pub enum Next {
    /// Take the packets of a burst: [`Live::next_packet`].
    Packets,
    /// Sleep: [`Live::sleep`].
    Sleep(Sleep),
    /// It is done, and has delivered so many.
    Done(u64),
}

/// How long to sleep at most (CLOCK_MONOTONIC, ns).
#[derive(Clone, Copy)]
pub struct Sleep {
    /// The pacer's instant; `None`: until the device's interrupt.
    instant_ns: Option<u64>,
    deadline_ns: Option<u64>,
}

impl Sleep {
    fn until_ns(self) -> Option<u64> {
        [self.instant_ns, self.deadline_ns].into_iter().flatten().min()
    }
}

impl Rings {
    pub fn new(sources: Vec<AnySource>, pacer: Pacer) -> Self {
        Self { intake: Intake::new(sources), pacer, shown: 0, handled: 0, not_before_ns: 0 }
    }

    /// Gives back what was shown; what was not stays with its source.
    fn end_burst(&mut self) {
        self.intake.end_burst(std::mem::take(&mut self.shown));
    }
}

impl Live {
    /// Begins a call that delivers at most `limit` packets: pcap_loop if `endless`, else pcap_dispatch, which takes what is
    /// there and waits for it when nothing is, as the mode says.
    pub fn begin(&self, limit: Option<u64>, endless: bool) -> Call {
        self.has_reader();
        Call {
            limit,
            endless,
            blocking: endless || !self.nonblocking(),
            called: !endless && self.waiting.has_called(),
            deadline_ns: self.deadline_ns(),
            delivered: 0,
            found: 0,
            round: 0,
            woken: None,
        }
    }

    /// The next packet of the burst at hand that passes.
    pub fn next_packet(&self, call: &mut Call) -> Option<(PacketHeader, *const u8)> {
        let mut rings = self.rings.try_borrow_mut().ok()?;
        let rings = &mut *rings;
        if call.limit == Some(call.delivered) {
            return None;
        }
        self.enters();
        let offset_ns = rings.intake.offset_ns();
        let mut found = None;
        while let Some(packet) = rings.intake.burst().get(rings.shown) {
            if self.breaking.load(Ordering::Acquire) {
                break;
            }
            rings.shown += 1;
            rings.handled += 1;
            call.round += 1;
            if let Some(header) = self.judge(rings.intake.turn(), packet, offset_ns) {
                call.delivered += 1;
                found = Some((header, packet.start));
                break;
            }
        }
        self.leaves();
        found
    }

    /// Goes on where no packet is at hand.
    ///
    /// # Errors
    /// pcap_breakloop was called; the interface is gone; another call on this capture is interrupted by this one.
    pub fn proceed(&self, call: &mut Call) -> Result<Next, End> {
        let Ok(mut rings) = self.rings.try_borrow_mut() else {
            return Err(End::Failed("packets can't be read from within another reading of this capture".to_owned()));
        };
        self.enters();
        let next = self.step(call, &mut rings);
        if !matches!(next, Ok(Next::Packets | Next::Sleep(_))) {
            rings.end_burst();
            if self.waiting.has_descriptor() {
                self.set_signal(&mut rings);
            }
        }
        drop(rings);
        self.leaves();
        next
    }

    fn step(&self, call: &mut Call, rings: &mut Rings) -> Result<Next, End> {
        if let Some((sleep, woken)) = call.woken.take() {
            if let Some(ended) = self.awake(call, rings, sleep, woken)? {
                return Ok(ended);
            }
        } else if call.found == 0 && call.round == 0 && call.blocking && rings.not_before_ns > clock::monotonic_ns() {
            // The pacer's last word holds between two calls as well: looking earlier would find less for the same price.
            let sleep = Sleep { instant_ns: Some(rings.not_before_ns), deadline_ns: None };
            rings.not_before_ns = 0;
            return Ok(Next::Sleep(sleep));
        }
        loop {
            if call.limit == Some(call.delivered) {
                rings.not_before_ns = 0;
                return Ok(Next::Done(call.delivered));
            }
            if self.has_broken() {
                return Err(End::Broken);
            }
            let from = if rings.intake.burst().is_empty() { 0 } else { rings.intake.turn() + 1 };
            rings.end_burst();
            if rings.intake.take_burst(from) {
                return Ok(Next::Packets);
            }
            // All sources were looked at.
            let round = std::mem::take(&mut call.round);
            call.found += round;
            if !call.endless && call.found >= BUFFERFUL && call.delivered > 0 {
                rings.not_before_ns = 0;
                return Ok(Next::Done(call.delivered));
            }
            if round == 0 {
                return self.wait(call, rings);
            }
            if rings.handled >= BUFFERFUL {
                self.keep_counts(clock::monotonic_ns());
            }
        }
    }

    /// The rings are empty: how to wait, unless the call is done.
    fn wait(&self, call: &Call, rings: &mut Rings) -> Result<Next, End> {
        let now_ns = clock::monotonic_ns();
        rings.intake.compare_clocks(now_ns);
        self.keep_counts(now_ns);
        let wait = rings.pacer.next(now_ns, std::mem::take(&mut rings.handled));
        rings.not_before_ns = if let Wait::Timer(instant_ns) = wait { instant_ns } else { 0 };
        if !call.endless && call.delivered > 0 {
            return Ok(Next::Done(call.delivered));
        }
        if !call.blocking || call.called {
            self.check_link()?;
            return Ok(Next::Done(0));
        }
        let instant_ns = if let Wait::Timer(instant_ns) = wait { Some(instant_ns) } else { None };
        Ok(Next::Sleep(Sleep { instant_ns, deadline_ns: call.deadline_ns }))
    }

    /// Sleeps as [`Live::proceed`] said. The thread may be cancelled here: no borrow, no lock, plain data only.
    pub fn sleep(&self, call: &mut Call, sleep: Sleep) {
        let woken = match sleep.instant_ns {
            // Armed as the last thing before the sleep: a packet that came in between is seen.
            None if unwind::guard(true, || self.is_ready()) => Woken::Look,
            None => self.waiting.sleep(self.link_events, true, sleep.deadline_ns),
            Some(_) => {
                let until_ns = sleep.until_ns().unwrap_or(0);
                if until_ns.saturating_sub(clock::monotonic_ns()) > LONG_WAIT_NS {
                    self.waiting.sleep(self.link_events, false, Some(until_ns))
                } else {
                    unwind::sleep_until(until_ns);
                    Woken::Look
                }
            }
        };
        call.woken = Some((sleep, woken));
    }

    /// Arms the devices' interrupts; whether there is something to look at all the same.
    fn is_ready(&self) -> bool {
        self.enters();
        let ready = self.rings.try_borrow_mut().is_ok_and(|mut rings| rings.intake.arm());
        self.leaves();
        ready || self.breaking.load(Ordering::Acquire)
    }

    /// What a sleep's end means to the call; `Some`: it is done.
    fn awake(&self, call: &mut Call, rings: &mut Rings, sleep: Sleep, woken: Woken) -> Result<Option<Next>, End> {
        match woken {
            Woken::Link => self.check_link()?,
            Woken::Failed(source) => self.clear_error(source)?,
            // Whether to break off is the flag's to say. Left as it is, a ringing that came behind its word would end each sleep at once.
            Woken::Rung => self.waiting.quiet(),
            Woken::TimedOut | Woken::Look => {}
        }
        let mut timed_out = woken == Woken::TimedOut;
        if let Some(instant_ns) = sleep.instant_ns {
            self.check_news()?;
            rings.intake.sources_mut().iter_mut().for_each(Source::poll_device);
            // The pacer's instant is no end of the client's patience.
            timed_out = sleep
                .deadline_ns
                .is_some_and(|deadline_ns| deadline_ns < instant_ns && clock::monotonic_ns() >= deadline_ns);
        }
        if timed_out && !call.endless && !self.breaking.load(Ordering::Acquire) {
            return Ok(Some(Next::Done(0)));
        }
        if timed_out {
            call.deadline_ns = self.deadline_ns();
        }
        call.called |= woken == Woken::Link && !call.endless && self.waiting.has_descriptor();
        Ok(None)
    }

    /// Sets the client's descriptor to what the pacer said, or to "now" where packets are left.
    fn set_signal(&self, rings: &mut Rings) {
        let instant_ns = rings.not_before_ns;
        let signal = if instant_ns > 0 {
            Signal::At(instant_ns)
        } else if rings.intake.arm() {
            Signal::Now
        } else {
            Signal::Interrupt
        };
        self.waiting.signal(signal);
    }
}

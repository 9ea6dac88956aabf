//! One pcap_dispatch, pcap_loop or pcap_next on its way: bursts handed out packet by packet, and the pacer's word between them.
//!
//! Owns where a call stands. Between two steps nothing is borrowed or half-done: what was shown of a burst is written down
//! before the client sees it, and frames go back at the next step. So a callback may begin another call on the same capture
//! (what it was shown may be overwritten then, as with libpcap), leave by longjmp(3), or end with its thread; the next call
//! goes on behind the last packet shown. Who sleeps and who calls the client is `entry`.

use std::sync::atomic::Ordering;

use ringtap::burst::BURST_MAX;
use ringtap::clock;
use ringtap::pacer::{Pacer, Wait};
use ringtap::source::{AnySource, Source, StampClock};

use crate::abi::PacketHeader;
use crate::live::{End, Live};
use crate::unwind;
use crate::wait::{Signal, Woken};

/// Timer waits longer than this also listen to pcap_breakloop; shorter ones end soon enough by themselves.
const LONG_WAIT_NS: u64 = 50_000_000;
/// How often the two clocks are compared, for sources that stamp by CLOCK_MONOTONIC.
const CLOCKS_NS: u64 = 1_000_000_000;
/// The most one dispatch handles before it returns, as a bufferful is to libpcap.
const BUFFERFUL: u64 = 16_384;

/// The rings, and how far they were shown.
pub struct Intake {
    sources: Vec<AnySource>,
    pacer: Pacer,
    /// The source whose burst is shown, its packets, and how many of them were.
    turn: usize,
    burst: Vec<Shown>,
    shown: usize,
    /// Packets since the pacer was last asked.
    handled: u64,
    /// Until when nobody needs to look (CLOCK_MONOTONIC, ns); 0: no such instant.
    not_before_ns: u64,
    /// What to add to CLOCK_MONOTONIC for CLOCK_REALTIME, and when that was found out.
    offset_ns: i64,
    offset_at_ns: u64,
}

/// A packet of a burst that its source keeps.
pub struct Shown {
    start: *const u8,
    pub len: u32,
    pub wire_len: u32,
    pub arrival_ns: u64,
}

impl Shown {
    /// The captured bytes.
    pub fn data(&self) -> &[u8] {
        // SAFETY: its source holds the frame as long as the burst is not ended, which empties the list this is in.
        unsafe { std::slice::from_raw_parts(self.start, self.len as usize) }
    }
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

impl Intake {
    pub fn new(sources: Vec<AnySource>, pacer: Pacer) -> Self {
        Self {
            sources,
            pacer,
            turn: 0,
            burst: Vec::with_capacity(BURST_MAX),
            shown: 0,
            handled: 0,
            not_before_ns: 0,
            offset_ns: clock::monotonic_to_realtime_ns(),
            offset_at_ns: clock::monotonic_ns(),
        }
    }

    /// Gives back what was shown; what was not stays with its source.
    fn end_burst(&mut self) {
        if !self.burst.is_empty() {
            self.burst.clear();
            self.sources[self.turn].receive().end_after(std::mem::take(&mut self.shown));
        }
    }

    /// Takes the next burst of the sources from this one on; `false`: the round is over.
    fn take_burst(&mut self, from: usize) -> bool {
        for (turn, source) in self.sources.iter_mut().enumerate().skip(from) {
            let burst = source.receive();
            self.burst.extend(burst.iter().map(|packet| Shown {
                start: packet.data.as_ptr(),
                len: packet.data.len() as u32,
                wire_len: packet.wire_len,
                arrival_ns: packet.arrival_ns,
            }));
            burst.end_after(0);
            if !self.burst.is_empty() {
                (self.turn, self.shown) = (turn, 0);
                return true;
            }
        }
        false
    }

    /// Arms every source; whether packets are there.
    fn arm(&mut self) -> bool {
        // Each one, also after the first that is ready.
        self.sources.iter_mut().fold(false, |ready, source| source.arm() | ready)
    }

    fn compare_clocks(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.offset_at_ns) > CLOCKS_NS {
            self.offset_ns = clock::monotonic_to_realtime_ns();
            self.offset_at_ns = now_ns;
        }
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
        let mut intake = self.intake.try_borrow_mut().ok()?;
        let intake = &mut *intake;
        if call.limit == Some(call.delivered) {
            return None;
        }
        self.enters();
        let is_monotonic = |source: &AnySource| source.stamp_clock() == StampClock::Monotonic;
        let mut found = None;
        while let Some(packet) = intake.burst.get(intake.shown) {
            if self.breaking.load(Ordering::Acquire) {
                break;
            }
            intake.shown += 1;
            intake.handled += 1;
            call.round += 1;
            let offset_ns = if is_monotonic(&intake.sources[intake.turn]) { intake.offset_ns } else { 0 };
            if let Some(header) = self.judge(intake.turn, packet, offset_ns) {
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
        let Ok(mut intake) = self.intake.try_borrow_mut() else {
            return Err(End::Failed("packets can't be read from within another reading of this capture".to_owned()));
        };
        self.enters();
        let next = self.step(call, &mut intake);
        if !matches!(next, Ok(Next::Packets | Next::Sleep(_))) {
            intake.end_burst();
            if self.waiting.has_descriptor() {
                self.set_signal(&mut intake);
            }
        }
        drop(intake);
        self.leaves();
        next
    }

    fn step(&self, call: &mut Call, intake: &mut Intake) -> Result<Next, End> {
        if let Some((sleep, woken)) = call.woken.take() {
            if let Some(ended) = self.awake(call, intake, sleep, woken)? {
                return Ok(ended);
            }
        } else if call.found == 0 && call.round == 0 && call.blocking && intake.not_before_ns > clock::monotonic_ns() {
            // The pacer's last word holds between two calls as well: looking earlier would find less for the same price.
            let sleep = Sleep { instant_ns: Some(intake.not_before_ns), deadline_ns: None };
            intake.not_before_ns = 0;
            return Ok(Next::Sleep(sleep));
        }
        loop {
            if call.limit == Some(call.delivered) {
                intake.not_before_ns = 0;
                return Ok(Next::Done(call.delivered));
            }
            if self.has_broken() {
                return Err(End::Broken);
            }
            let from = if intake.burst.is_empty() { 0 } else { intake.turn + 1 };
            intake.end_burst();
            if intake.take_burst(from) {
                return Ok(Next::Packets);
            }
            // All sources were looked at.
            let round = std::mem::take(&mut call.round);
            call.found += round;
            if !call.endless && call.found >= BUFFERFUL && call.delivered > 0 {
                intake.not_before_ns = 0;
                return Ok(Next::Done(call.delivered));
            }
            if round == 0 {
                return self.wait(call, intake);
            }
            if intake.handled >= BUFFERFUL {
                self.keep_counts(clock::monotonic_ns());
            }
        }
    }

    /// The rings are empty: how to wait, unless the call is done.
    fn wait(&self, call: &Call, intake: &mut Intake) -> Result<Next, End> {
        let now_ns = clock::monotonic_ns();
        intake.compare_clocks(now_ns);
        self.keep_counts(now_ns);
        let wait = intake.pacer.next(now_ns, std::mem::take(&mut intake.handled));
        intake.not_before_ns = if let Wait::Timer(instant_ns) = wait { instant_ns } else { 0 };
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
        let ready = self.intake.try_borrow_mut().is_ok_and(|mut intake| intake.arm());
        self.leaves();
        ready || self.breaking.load(Ordering::Acquire)
    }

    /// What a sleep's end means to the call; `Some`: it is done.
    fn awake(&self, call: &mut Call, intake: &mut Intake, sleep: Sleep, woken: Woken) -> Result<Option<Next>, End> {
        match woken {
            Woken::Link => self.check_link()?,
            Woken::Failed(source) => self.clear_error(source)?,
            Woken::TimedOut | Woken::Look => {}
        }
        let mut timed_out = woken == Woken::TimedOut;
        if let Some(instant_ns) = sleep.instant_ns {
            self.check_news()?;
            intake.sources.iter_mut().for_each(Source::poll_device);
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
    fn set_signal(&self, intake: &mut Intake) {
        let instant_ns = intake.not_before_ns;
        let signal = if instant_ns > 0 {
            Signal::At(instant_ns)
        } else if intake.arm() {
            Signal::Now
        } else {
            Signal::Interrupt
        };
        self.waiting.signal(signal);
    }
}

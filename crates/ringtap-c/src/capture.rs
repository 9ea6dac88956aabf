//! A capture: bursts lent to the client, waiting in its thread as the pacer says, breaking off, and the ledger.
//!
//! Owns which thread may do what. One thread reads at a time: who comes while another is at it is refused, and waits for nobody.
//! Another thread may break off a call, read the ledger, and read the words of an error.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{getsockopt, sockopt};
use nix::sys::time::TimeSpec;
use ringtap::burst::BURST_MAX;
use ringtap::pacer::{Pacer, Wait};
use ringtap::receiver::{Attachment, Intake, Receiver, Shown};
use ringtap::{Cause, Event, Ledger, Source, clock};

use crate::abi::{
    Packet, RINGTAP_BROKEN, RINGTAP_CHECKSUM_PENDING, RINGTAP_END, RINGTAP_ERROR_BUSY, RINGTAP_ERROR_GONE,
    RINGTAP_ERROR_INTERNAL,
};
use crate::options::Wanted;
use crate::text::{self, Refusal};

/// How often the kernel's counters are read at least: those of a packet socket have 32 bits, and begin anew with each reading.
const COUNTS_NS: u64 = 60_000_000_000;
/// Bursts without a wait after which the clock is looked at for that.
const BURSTS: u32 = 4096;

/// An open capture.
pub struct Capture {
    // Dropped in this order: the queues before what they are attached by.
    reader: Mutex<Reader>,
    attachment: Mutex<Attachment>,
    /// Readable when some interface changed; a copy, so that nobody keeps the lock while it sleeps.
    link_events: OwnedFd,
    interface: String,
    breaks: Breaks,
    counts: Counts,
    error: Mutex<String>,
    /// What could not be had, one sentence each.
    pub warnings: Vec<CString>,
    /// Which back end was chosen.
    pub backend: CString,
    /// LINKTYPE_ value of the packets, where capture files know them.
    pub link_type: Option<u16>,
}

/// What the reading thread has.
struct Reader {
    intake: Intake,
    pacer: Pacer,
    sockets: Vec<Arc<OwnedFd>>,
    snaplen: u32,
    /// The burst that is lent, as the client sees it.
    lent: Vec<Packet>,
    /// The source whose turn is next, and whether one gave something in this round.
    next: usize,
    found: bool,
    /// Packets since the pacer was last asked.
    handled: u64,
    /// Until when nobody needs to look (CLOCK_MONOTONIC, ns); a time-out may have come in between.
    not_before_ns: Option<u64>,
    stopped: bool,
    /// Why no packets come any more.
    gone: Option<String>,
    /// When the kernel's counters were last read, and bursts since.
    counted_at_ns: u64,
    bursts: u32,
}

// SAFETY: what keeps it from being so are pointers into frames of its own sources, which are `Send` and keep their memory where it is.
unsafe impl Send for Reader {}

/// Breaks off a wait from elsewhere.
struct Breaks {
    flag: AtomicBool,
    event: Event,
}

/// What the reader counts; others read it.
#[derive(Default)]
struct Counts {
    delivered: AtomicU64,
    cut: AtomicU64,
    invalid: AtomicU64,
}

/// How a sleep ended.
enum Woken {
    /// The instant came.
    TimedOut,
    /// A ring may hold something, or the call is broken off.
    Look,
    /// Some interface changed.
    Link,
    /// The socket of this source has an error.
    Failed(usize),
}

impl Capture {
    /// Opens it: packets are received from here on, and kept in the rings.
    ///
    /// # Errors
    /// What could not be set up; nothing of it is left.
    pub fn open(wanted: &Wanted) -> Result<Self, Refusal> {
        let config = wanted.config()?;
        let pacer = Pacer::new(&config.policy).map_err(|error| Refusal::argument(error.to_string()))?;
        let event = Event::new()?;
        let receiver = Receiver::open(config)?;
        let link_type = receiver.link_type();
        let (sources, attachment) = receiver.into_direct()?;
        let link_events = attachment.link_events().try_clone_to_owned();
        let link_events =
            link_events.map_err(|error| ringtap::Error::os("watch", &attachment.interface().name, &error))?;
        let backend = sources.first().map_or("", |source| source.description().backend);
        let sockets: Vec<_> = sources.iter().filter_map(Source::wait_fd).collect();
        let warnings = attachment.warnings().iter().map(|warning| text::without_nul(warning)).collect();
        let reader = Reader {
            sockets,
            intake: Intake::new(sources),
            pacer,
            snaplen: wanted.snaplen,
            lent: Vec::with_capacity(BURST_MAX),
            next: 0,
            found: false,
            handled: 0,
            not_before_ns: None,
            stopped: false,
            gone: None,
            counted_at_ns: clock::monotonic_ns(),
            bursts: 0,
        };
        Ok(Self {
            reader: Mutex::new(reader),
            interface: attachment.interface().name.clone(),
            attachment: Mutex::new(attachment),
            link_events,
            breaks: Breaks { flag: AtomicBool::new(false), event },
            counts: Counts::default(),
            error: Mutex::default(),
            warnings,
            backend: text::without_nul(backend),
            link_type,
        })
    }

    /// The reader's part, if nobody has it.
    ///
    /// # Errors
    /// Another call has it, or one ended in a fault.
    fn reader(&self) -> Result<MutexGuard<'_, Reader>, Refusal> {
        self.reader.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Refusal::of(RINGTAP_ERROR_BUSY),
            TryLockError::Poisoned(_) => Refusal::of(RINGTAP_ERROR_INTERNAL),
        })
    }

    /// The next packets, waited for until the time-out at most; none, and a null pointer: it passed. `None` waits for good.
    ///
    /// # Errors
    /// The call was broken off, the capture is at its end, the interface is gone, another call is under way.
    pub fn next_burst(&self, timeout: Option<Duration>) -> Result<(*const Packet, usize), Refusal> {
        let mut reader = self.reader()?;
        let reader = &mut *reader;
        reader.release(&self.counts);
        let begun_ns = clock::monotonic_ns();
        let deadline_ns = timeout.map(|timeout| begun_ns.saturating_add(timeout.as_nanos() as u64));
        loop {
            if self.breaks.taken() {
                return Err(Refusal::of(RINGTAP_BROKEN));
            }
            if timeout != Some(Duration::ZERO)
                && let Some(instant_ns) = reader.not_before_ns
                && !self.sleep_by_timer(reader, instant_ns, deadline_ns)
            {
                if deadline_ns.is_some_and(|deadline_ns| clock::monotonic_ns() >= deadline_ns) {
                    return Ok((ptr::null(), 0));
                }
                continue;
            }
            if reader.take(&self.counts) {
                self.keep_counting(reader);
                return Ok((reader.lent.as_ptr(), reader.lent.len()));
            }
            if reader.stopped {
                return Err(Refusal::of(RINGTAP_END));
            }
            if let Some(why) = &reader.gone {
                return Err(Refusal::new(RINGTAP_ERROR_GONE, why));
            }
            let now_ns = clock::monotonic_ns();
            reader.intake.compare_clocks(now_ns);
            self.read_counts_by(reader, now_ns);
            if deadline_ns.is_some_and(|deadline_ns| now_ns >= deadline_ns) {
                // Who looks by a clock of its own is not waited for, and the device is looked at for it.
                reader.poll_devices();
                self.check_news(reader);
                return Ok((ptr::null(), 0));
            }
            match reader.pacer.next(now_ns, std::mem::take(&mut reader.handled)) {
                Wait::Timer(instant_ns) => reader.not_before_ns = Some(instant_ns),
                Wait::Poll => reader.poll_devices(),
                // Armed as the last thing before the sleep: a packet that came in between is seen.
                Wait::Interrupt if reader.intake.arm() => {}
                Wait::Interrupt => {
                    let woken = self.sleep(&reader.sockets, deadline_ns);
                    self.awake(reader, &woken);
                }
            }
        }
    }

    /// Sleeps until the pacer's instant, or a part of that; whether it has come.
    fn sleep_by_timer(&self, reader: &mut Reader, instant_ns: u64, deadline_ns: Option<u64>) -> bool {
        if instant_ns > clock::monotonic_ns() {
            let until_ns = deadline_ns.map_or(instant_ns, |deadline_ns| deadline_ns.min(instant_ns));
            let woken = self.sleep(&[], Some(until_ns));
            self.awake(reader, &woken);
        }
        let has_come = clock::monotonic_ns() >= instant_ns;
        if has_come {
            reader.not_before_ns = None;
            reader.poll_devices();
        }
        has_come
    }

    /// Sleeps until one of these sockets is readable, some interface changes, the call is broken off or the instant has come
    /// (CLOCK_MONOTONIC, ns).
    fn sleep(&self, sockets: &[Arc<OwnedFd>], until_ns: Option<u64>) -> Woken {
        const FIXED: usize = 2;
        let fixed = [self.breaks.event.as_fd(), self.link_events.as_fd()];
        let fds = fixed.into_iter().chain(sockets.iter().map(|socket| socket.as_fd()));
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let left = until_ns.map(|until_ns| Duration::from_nanos(until_ns.saturating_sub(clock::monotonic_ns())));
        match ppoll(&mut fds, left.map(TimeSpec::from_duration), None) {
            Ok(0) => Woken::TimedOut,
            Ok(_) => {
                let has = |fd: &PollFd<'_>, flags| fd.revents().is_some_and(|told| told.intersects(flags));
                if has(&fds[0], PollFlags::all()) {
                    // Also one whose flag an earlier call took: it would wake each sleep at once. The flag says whether to break off.
                    self.breaks.quiet();
                }
                if has(&fds[1], PollFlags::all()) {
                    return Woken::Link;
                }
                let failed = |fd: &PollFd<'_>| has(fd, PollFlags::all()) && !has(fd, PollFlags::POLLIN);
                fds[FIXED..].iter().position(failed).map_or(Woken::Look, Woken::Failed)
            }
            // EINTR: a signal's handler may have broken off the call.
            Err(_) => Woken::Look,
        }
    }

    /// What a sleep's end means.
    fn awake(&self, reader: &mut Reader, woken: &Woken) {
        match woken {
            Woken::Link => self.check_news(reader),
            Woken::Failed(source) => {
                // An error of a socket is told once (ENETDOWN), and reading clears it. The interface may come up again, so only one
                // that no longer exists ends the capture.
                let _ = reader.sockets.get(*source).map(|socket| getsockopt(socket, sockopt::SocketError));
                self.check_link(reader);
            }
            Woken::TimedOut | Woken::Look => {}
        }
    }

    /// Looks at the interface where something was announced of one. Who is at the attachment now looks at it, too.
    fn check_news(&self, reader: &mut Reader) {
        // Heard and looked at under one lock: what was heard is taken off.
        let has_news = self.attachment.try_lock().is_ok_and(|mut attachment| attachment.has_news());
        if has_news {
            self.check_link(reader);
        }
    }

    /// Notes it where the interface is gone.
    fn check_link(&self, reader: &mut Reader) {
        if let Some(departure) = lock(&self.attachment).departure() {
            reader.gone = Some(format!("{}: {departure}; {}", self.interface, departure.way_out()));
        }
    }

    /// Sees to it that the kernel's counters are read in time where nothing is waited for.
    fn keep_counting(&self, reader: &mut Reader) {
        reader.bursts += 1;
        if reader.bursts >= BURSTS {
            self.read_counts_by(reader, clock::monotonic_ns());
        }
    }

    fn read_counts_by(&self, reader: &mut Reader, now_ns: u64) {
        reader.bursts = 0;
        if now_ns.saturating_sub(reader.counted_at_ns) > COUNTS_NS {
            reader.counted_at_ns = now_ns;
            lock(&self.attachment).ledger(0);
        }
    }

    /// Gives the lent packets back.
    ///
    /// # Errors
    /// Another call is under way.
    pub fn release(&self) -> Result<(), Refusal> {
        self.reader()?.release(&self.counts);
        Ok(())
    }

    /// Ends the flow of packets: what has come until now is still to be had, and nothing after it.
    ///
    /// # Errors
    /// Another call is under way.
    pub fn stop(&self) -> Result<(), Refusal> {
        let mut reader = self.reader()?;
        reader.release(&self.counts);
        if !reader.stopped {
            lock(&self.attachment).shut();
            for source in reader.intake.sources_mut() {
                source.quiesce();
            }
            reader.not_before_ns = None;
            reader.stopped = true;
        }
        Ok(())
    }

    /// Ends the call of the reader, or its next one. Async-signal-safe but for errno, which it may change.
    pub fn break_off(&self) {
        self.breaks.flag.store(true, Ordering::Release);
        self.breaks.event.signal();
    }

    /// The ledger as of now, for any thread.
    pub fn ledger(&self) -> Ledger {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (delivered, cut) = (read(&self.counts.delivered), read(&self.counts.cut));
        let mut ledger = Ledger { cut, ..lock(&self.attachment).ledger(delivered) };
        ledger.drop(Cause::InvalidDescriptor, Some(read(&self.counts.invalid)));
        ledger
    }

    /// Keeps the words of an error; those of another call that is told at this moment may go first.
    pub fn keep_error(&self, text: &str) {
        if let Ok(mut error) = self.error.try_lock() {
            text.clone_into(&mut error);
        }
    }

    /// The words of the last error; none: empty.
    pub fn error(&self) -> String {
        lock(&self.error).clone()
    }
}

impl Drop for Capture {
    /// A child of the client's may hold copies of all descriptors: packets are the host's again from here on all the same.
    fn drop(&mut self) {
        lock(&self.attachment).shut();
    }
}

impl Reader {
    /// Takes the next burst: of the source behind the one that gave last and, once a whole round gave nothing, of none.
    fn take(&mut self, counts: &Counts) -> bool {
        while !self.intake.take_burst(self.next) {
            self.next = 0;
            if !std::mem::take(&mut self.found) {
                return false;
            }
        }
        (self.next, self.found) = (self.intake.turn() + 1, true);
        let (offset_ns, queue) = (self.intake.offset_ns(), self.intake.turn() as u32);
        let snaplen = self.snaplen;
        self.lent.extend(self.intake.burst().iter().map(|shown| as_lent(shown, snaplen, offset_ns, queue)));
        let cut = self.lent.iter().filter(|packet| packet.captured_len < packet.wire_len).count();
        self.handled += self.lent.len() as u64;
        add(&counts.delivered, self.lent.len() as u64);
        add(&counts.cut, cut as u64);
        self.count_invalid(counts);
        true
    }

    fn release(&mut self, counts: &Counts) {
        self.intake.end_burst(self.lent.len());
        self.lent.clear();
        self.count_invalid(counts);
    }

    fn count_invalid(&self, counts: &Counts) {
        let invalid = self.intake.sources().iter().map(Source::invalid_descriptors).sum();
        counts.invalid.store(invalid, Ordering::Relaxed);
    }

    fn poll_devices(&mut self) {
        self.intake.sources_mut().iter_mut().for_each(Source::poll_device);
    }
}

/// A packet as the client sees it.
fn as_lent(shown: &Shown, snaplen: u32, offset_ns: i64, queue: u32) -> Packet {
    Packet {
        data: shown.start,
        arrival_ns: if shown.arrival_ns == 0 { 0 } else { shown.arrival_ns.wrapping_add_signed(offset_ns) },
        captured_len: shown.len.min(snaplen),
        wire_len: shown.wire_len,
        flags: if shown.checksum_pending { RINGTAP_CHECKSUM_PENDING } else { 0 },
        queue,
    }
}

impl Breaks {
    /// Whether it was called for since this was last asked.
    fn taken(&self) -> bool {
        let taken = self.flag.swap(false, Ordering::AcqRel);
        if taken {
            self.quiet();
        }
        taken
    }

    /// Wakes nobody until it is signalled again.
    fn quiet(&self) {
        // Nothing to read is what is wanted.
        let _: Result<usize, Errno> = nix::unistd::read(self.event.as_fd(), &mut [0; 8]);
    }
}

/// The reader alone adds.
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub mod tests {
    use libc::c_int;
    use ringtap::clock::SystemClock;
    use ringtap::receiver::Backend;
    use ringtap::source::{AnySource, given};
    use ringtap::testing::{Arrival, Ending, MemorySource, Script};

    use super::*;

    /// A queue with so many packets of 100 bytes that came just now, and nothing behind them.
    pub fn queue(packets: usize) -> AnySource {
        let now_ns = clock::monotonic_ns();
        let arrival = Arrival { stamp_ns: Some(now_ns), ..Arrival::there(vec![7; 100]) };
        let script = Script { ending: Ending::Silence, ..Script::of(vec![arrival; packets]) };
        Box::new(MemorySource::new("queue", SystemClock, script).unwrap())
    }

    pub fn open(name: &str, queues: Vec<AnySource>) -> Capture {
        given::give(name, queues).unwrap();
        let wanted = Wanted {
            interface: name.to_owned(),
            backend: Backend::Given,
            promiscuous: false,
            take: false,
            snaplen: 60,
            max_latency: Duration::from_millis(1),
            ring_bytes: 1 << 20,
        };
        Capture::open(&wanted).unwrap_or_else(|refusal| panic!("{}", refusal.text))
    }

    /// The packets of the next burst.
    fn burst(capture: &Capture) -> Result<Vec<Packet>, c_int> {
        let (first, count) = capture.next_burst(Some(Duration::ZERO)).map_err(|refusal| refusal.code)?;
        if count == 0 {
            assert!(first.is_null());
            return Ok(Vec::new());
        }
        // SAFETY: so many are lent until the next call.
        Ok(unsafe { std::slice::from_raw_parts(first, count) }.to_vec())
    }

    #[test]
    fn queues_take_turns_also_when_each_burst_is_released_at_once() {
        let capture = open("turns", vec![queue(130), queue(3), queue(70)]);
        let mut seen = Vec::new();
        loop {
            let packets = burst(&capture).unwrap();
            capture.release().unwrap();
            let Some(first) = packets.first() else { break };
            assert!(packets.iter().all(|packet| packet.queue == first.queue));
            seen.push((first.queue, packets.len()));
        }
        assert_eq!(seen, [(0, 64), (1, 3), (2, 64), (0, 64), (2, 6), (0, 2)]);
    }

    #[test]
    fn packets_are_cut_and_stamped_by_the_wall_clock_and_all_are_in_the_ledger() {
        let capture = open("ledger", vec![queue(5)]);
        let packets = burst(&capture).unwrap();
        assert_eq!(packets.len(), 5);
        for packet in packets {
            assert_eq!((packet.captured_len, packet.wire_len, packet.flags), (60, 100, 0));
            // SAFETY: lent until the next call.
            assert_eq!(unsafe { std::slice::from_raw_parts(packet.data, 60) }, [7; 60]);
            let age_ns = clock::realtime_ns().abs_diff(packet.arrival_ns);
            assert!(age_ns < 60_000_000_000, "{age_ns}");
        }
        capture.stop().unwrap();
        assert_eq!(burst(&capture).unwrap_err(), RINGTAP_END);
        let ledger = capture.ledger();
        assert_eq!((ledger.delivered, ledger.cut, ledger.unaccounted()), (5, 5, Some(0)), "{ledger}");
    }

    #[test]
    fn a_call_that_is_broken_off_loses_nothing() {
        let capture = open("broken", vec![queue(2)]);
        capture.break_off();
        assert_eq!(burst(&capture).unwrap_err(), RINGTAP_BROKEN);
        assert_eq!(burst(&capture).unwrap().len(), 2);
    }

    #[test]
    fn a_wake_up_that_comes_behind_its_break_wakes_once() {
        let capture = open("late", vec![queue(0)]);
        // The call that was broken off took the flag before the breaking thread came to signal.
        capture.breaks.event.signal();
        let sleep = || capture.sleep(&[], Some(clock::monotonic_ns() + 50_000_000));
        assert!(matches!(sleep(), Woken::Look));
        assert!(matches!(sleep(), Woken::TimedOut));
        // A break is heard all the same.
        capture.break_off();
        assert!(matches!(sleep(), Woken::Look));
        assert_eq!(burst(&capture).unwrap_err(), RINGTAP_BROKEN);
    }

    #[test]
    fn a_ledger_that_is_read_meanwhile_refuses_nobody() {
        let capture = open("meanwhile", vec![queue(2000)]);
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| (0..2000).for_each(|_| drop(capture.ledger())));
            let mut packets = 0;
            while packets < 2000 {
                packets += burst(&capture).unwrap().len();
            }
            reads.join().unwrap();
        });
    }
}

//! A live capture: the core's sources and pacer, run in the caller's thread for as long as one call lasts.
//!
//! Owns receiving, the verdict on each packet, its time stamp and what is counted. How it was opened is in `activate`, how it
//! sleeps in `wait`. A callback may call everything but another dispatch: sources are borrowed meanwhile, the rest is not.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, timeval};
use ringtap::burst::Packet;
use ringtap::ledger::Cause;
use ringtap::pacer::{Pacer, Wait};
use ringtap::receiver::Attachment;
use ringtap::source::any::AnySource;
use ringtap::source::{Source, StampClock};
use ringtap::sys::clock;

use crate::abi::{Instruction, PCAP_D_IN, PCAP_D_INOUT, PCAP_D_OUT, PacketHeader, Stat};
use crate::filter::{self, Program};
use crate::wait::{Signal, Waiting, Woken};

/// Timer waits longer than this also listen to the bell; shorter ones end soon enough by themselves.
const LONG_WAIT_NS: u64 = 50_000_000;
/// How often the two clocks are compared, for sources that stamp by CLOCK_MONOTONIC.
const CLOCKS_NS: u64 = 1_000_000_000;
/// The most one dispatch handles before it returns, as a bufferful is to libpcap.
const BUFFERFUL: u64 = 16_384;
/// libpcap's words.
const DISAPPEARED: &str = "The interface disappeared";

/// Why a call ended early.
#[derive(Debug)]
pub enum End {
    /// pcap_breakloop.
    Broken,
    /// An error, in words.
    Failed(String),
}

/// What a source is to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// AF_XDP: only what comes in, no filter in the kernel.
    Incoming,
    /// The packet ring beside AF_XDP: only what the host sends.
    Sent,
    /// A packet socket alone.
    Both,
}

/// What a live capture is made with.
pub struct Parts {
    pub sources: Vec<AnySource>,
    pub attachment: Attachment,
    pub pacer: Pacer,
    pub snaplen: u32,
    pub nanoseconds: bool,
    pub nonblocking: bool,
    pub timeout_ns: Option<u64>,
    pub stamp_types: Vec<c_int>,
}

/// One activated capture.
pub struct Live {
    // Dropped in this order: sources before what they are attached by.
    intake: RefCell<Intake>,
    attachment: RefCell<Attachment>,
    waiting: Waiting,
    kinds: Vec<Kind>,
    /// Bytes of a packet the kernel may keep: recvmmsg(2) would take a shorter packet for the whole.
    kernel_snaplen: u32,
    sockets: Vec<Arc<OwnedFd>>,
    verdict: RefCell<Verdict>,
    breaking: AtomicBool,
    nonblocking: Cell<bool>,
    taken: Cell<u64>,
    refused: Cell<u64>,
    snaplen: u32,
    nanoseconds: bool,
    timeout_ns: Option<u64>,
    stamp_types: Vec<c_int>,
    /// What pcap_next and pcap_next_ex point to until their next call.
    kept: UnsafeCell<Kept>,
}

struct Intake {
    sources: Vec<AnySource>,
    pacer: Pacer,
    /// Packets since the pacer was last asked.
    handled: u64,
    /// Until when nobody needs to look (CLOCK_MONOTONIC, ns); 0: no such instant.
    not_before_ns: u64,
    /// What to add to CLOCK_MONOTONIC for CLOCK_REALTIME, and when that was found out.
    offset_ns: i64,
    offset_at_ns: u64,
}

/// What decides about a packet.
struct Verdict {
    program: Program,
    /// The same for AF_XDP, where it asks for what only the kernel knows.
    incoming: Option<Program>,
    takes_all: bool,
    speaks_of_tags: bool,
    /// Where a packet without its tag is made.
    scratch: Vec<u8>,
    needs_kernel: bool,
    direction: c_int,
    /// Packets that the kernel let in before (CLOCK_REALTIME, ns) were let in by other rules.
    since_ns: u64,
}

#[derive(Default)]
struct Kept {
    header: Option<PacketHeader>,
    data: Vec<u8>,
}

/// How a look at the rings ended.
struct Look {
    found: u64,
    delivered: u64,
    broken: bool,
}

impl Live {
    /// Takes over what was opened.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new(parts: Parts) -> io::Result<Self> {
        let Parts { sources, attachment, pacer, snaplen, nanoseconds, nonblocking, timeout_ns, stamp_types } = parts;
        let is_xdp = |source: &AnySource| matches!(source, AnySource::Xdp(_));
        let beside = sources.iter().any(is_xdp);
        let kinds = sources
            .iter()
            .map(|source| match source {
                AnySource::Xdp(_) => Kind::Incoming,
                _ if beside => Kind::Sent,
                _ => Kind::Both,
            })
            .collect();
        let is_plain = |source: &AnySource| matches!(source, AnySource::Socket(_));
        let kernel_snaplen = if sources.iter().any(is_plain) { u32::MAX } else { snaplen };
        let sockets: Vec<_> = sources.iter().filter_map(AnySource::wait_fd).collect();
        let verdict = Verdict {
            program: Program::default(),
            incoming: None,
            takes_all: true,
            speaks_of_tags: false,
            scratch: Vec::new(),
            needs_kernel: false,
            direction: PCAP_D_INOUT,
            since_ns: 0,
        };
        Ok(Self {
            intake: RefCell::new(Intake {
                sources,
                pacer,
                handled: 0,
                not_before_ns: 0,
                offset_ns: clock::monotonic_to_realtime_ns(),
                offset_at_ns: clock::monotonic_ns(),
            }),
            attachment: RefCell::new(attachment),
            waiting: Waiting::new(sockets.clone())?,
            kinds,
            kernel_snaplen,
            sockets,
            verdict: RefCell::new(verdict),
            breaking: AtomicBool::new(false),
            nonblocking: Cell::new(nonblocking),
            taken: Cell::new(0),
            refused: Cell::new(0),
            snaplen,
            nanoseconds,
            timeout_ns,
            stamp_types,
            kept: UnsafeCell::new(Kept::default()),
        })
    }

    /// pcap_loop: until `limit` packets were delivered, whatever time passes.
    pub fn run(&self, limit: Option<u64>, deliver: &mut dyn FnMut(&PacketHeader, &[u8])) -> Result<u64, End> {
        self.process(limit, true, deliver)
    }

    /// pcap_dispatch: what is there, at most `limit`; waits for it when nothing is, as the mode says.
    pub fn dispatch(&self, limit: Option<u64>, deliver: &mut dyn FnMut(&PacketHeader, &[u8])) -> Result<u64, End> {
        self.process(limit, false, deliver)
    }

    /// The next packet, copied: it stays valid until the next call.
    pub fn next(&self) -> Result<Option<(*mut PacketHeader, *const u8)>, End> {
        let done = self.dispatch(Some(1), &mut |header, data| {
            // SAFETY: `Live` is not shared between threads that receive (pcap(3PCAP)), and nobody else refers to it here.
            let kept = unsafe { &mut *self.kept.get() };
            kept.data.clear();
            kept.data.extend_from_slice(data);
            kept.header = Some(*header);
        })?;
        // SAFETY: as above.
        let kept = unsafe { &mut *self.kept.get() };
        Ok(match &mut kept.header {
            Some(header) if done > 0 => Some((header, kept.data.as_ptr())),
            _ => None,
        })
    }

    fn process(
        &self,
        limit: Option<u64>,
        endless: bool,
        deliver: &mut dyn FnMut(&PacketHeader, &[u8]),
    ) -> Result<u64, End> {
        let Ok(mut intake) = self.intake.try_borrow_mut() else {
            return Err(End::Failed("packets can't be read from within the callback of this capture".to_owned()));
        };
        let done = self.process_with(&mut intake, limit, endless, deliver);
        if self.waiting.has_descriptor() {
            self.set_signal(&mut intake);
        }
        done
    }

    fn process_with(
        &self,
        intake: &mut Intake,
        limit: Option<u64>,
        endless: bool,
        deliver: &mut dyn FnMut(&PacketHeader, &[u8]),
    ) -> Result<u64, End> {
        let mut deadline_ns = self.deadline_ns();
        // A client that was called by its descriptor and finds nothing goes back to it instead of sleeping here.
        let mut called = !endless && self.waiting.has_called();
        let blocking = endless || !self.nonblocking.get();
        let (mut delivered, mut found) = (0, 0);
        if blocking && intake.not_before_ns > clock::monotonic_ns() {
            // The pacer's last word holds between two calls as well: looking earlier would find less for the same price.
            self.wait_until(intake, intake.not_before_ns, deadline_ns)?;
        }
        loop {
            if self.has_broken() {
                return Err(End::Broken);
            }
            let look = self.look(intake, limit.map(|limit| limit - delivered), deliver);
            delivered += look.delivered;
            found += look.found;
            intake.handled += look.found;
            if look.broken {
                self.has_broken();
                return Err(End::Broken);
            }
            if limit == Some(delivered) || (!endless && found >= BUFFERFUL && delivered > 0) {
                intake.not_before_ns = 0;
                return Ok(delivered);
            }
            if look.found > 0 {
                continue;
            }
            let now_ns = clock::monotonic_ns();
            intake.compare_clocks(now_ns);
            let wait = intake.pacer.next(now_ns, std::mem::take(&mut intake.handled));
            intake.not_before_ns = if let Wait::Timer(instant_ns) = wait { instant_ns } else { 0 };
            if !endless && delivered > 0 {
                return Ok(delivered);
            }
            if !blocking || called {
                self.check_link()?;
                return Ok(0);
            }
            let woken = match wait {
                Wait::Timer(instant_ns) => self.wait_until(intake, instant_ns, deadline_ns)?,
                Wait::Interrupt | Wait::Poll => self.wait_for_interrupt(intake, deadline_ns)?,
            };
            match woken {
                Woken::TimedOut if !endless => return Ok(0),
                Woken::TimedOut => deadline_ns = self.deadline_ns(),
                Woken::Link => called |= !endless && self.waiting.has_descriptor(),
                Woken::Look | Woken::Failed(_) => {}
            }
        }
    }

    /// One burst of each source.
    fn look(&self, intake: &mut Intake, limit: Option<u64>, deliver: &mut dyn FnMut(&PacketHeader, &[u8])) -> Look {
        let mut look = Look { found: 0, delivered: 0, broken: false };
        for (source, &kind) in intake.sources.iter_mut().zip(&self.kinds) {
            let offset_ns = if source.stamp_clock() == StampClock::Monotonic { intake.offset_ns } else { 0 };
            let burst = source.receive();
            let mut handled = 0;
            for packet in burst.iter() {
                look.broken = self.breaking.load(Ordering::Acquire);
                if look.broken || limit == Some(look.delivered) {
                    break;
                }
                handled += 1;
                if self.takes(kind, &packet) {
                    self.taken.set(self.taken.get() + 1);
                    look.delivered += 1;
                    let len = packet.data.len().min(self.snaplen as usize);
                    deliver(&self.header(&packet, offset_ns, len), &packet.data[..len]);
                } else {
                    self.refused.set(self.refused.get() + 1);
                }
            }
            look.found += handled as u64;
            burst.end_after(handled);
            if look.broken {
                break;
            }
        }
        look
    }

    fn takes(&self, kind: Kind, packet: &Packet<'_>) -> bool {
        let mut verdict = self.verdict.borrow_mut();
        let verdict = &mut *verdict;
        match kind {
            Kind::Incoming if verdict.direction == PCAP_D_OUT => return false,
            Kind::Incoming => {}
            Kind::Sent | Kind::Both if packet.arrival_ns < verdict.since_ns => return false,
            Kind::Sent | Kind::Both if verdict.needs_kernel => return true,
            Kind::Sent | Kind::Both => {}
        }
        let program = verdict.incoming.as_ref().filter(|_| kind == Kind::Incoming).unwrap_or(&verdict.program);
        let whole = verdict.speaks_of_tags;
        verdict.takes_all || program.takes(packet.data, packet.wire_len, whole, &mut verdict.scratch)
    }

    fn header(&self, packet: &Packet<'_>, offset_ns: i64, len: usize) -> PacketHeader {
        let stamp_ns = match packet.arrival_ns {
            0 => clock::realtime_ns(),
            arrival_ns => arrival_ns.wrapping_add_signed(offset_ns),
        };
        let (seconds, rest) = (stamp_ns / 1_000_000_000, stamp_ns % 1_000_000_000);
        let fraction = if self.nanoseconds { rest } else { rest / 1000 };
        PacketHeader {
            ts: timeval { tv_sec: seconds as i64, tv_usec: fraction as i64 },
            caplen: len as u32,
            len: packet.wire_len,
        }
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.timeout_ns.map(|timeout_ns| clock::monotonic_ns() + timeout_ns)
    }

    /// Sleeps until `instant_ns`, or the deadline if that is earlier; then lets the devices be polled.
    fn wait_until(&self, intake: &mut Intake, instant_ns: u64, deadline_ns: Option<u64>) -> Result<Woken, End> {
        let until_ns = deadline_ns.map_or(instant_ns, |deadline_ns| deadline_ns.min(instant_ns));
        let mut woken = Woken::Look;
        if until_ns.saturating_sub(clock::monotonic_ns()) > LONG_WAIT_NS {
            let attachment = self.attachment.borrow();
            woken = self.waiting.sleep(attachment.link_events(), false, Some(until_ns));
            drop(attachment);
            if woken == Woken::Link {
                self.check_link()?;
            }
        } else {
            clock::sleep_until(until_ns);
        }
        for source in &mut intake.sources {
            source.poll_device();
        }
        Ok(if until_ns < instant_ns { Woken::TimedOut } else { woken })
    }

    fn wait_for_interrupt(&self, intake: &mut Intake, deadline_ns: Option<u64>) -> Result<Woken, End> {
        if intake.arm() || self.breaking.load(Ordering::Acquire) {
            return Ok(Woken::Look);
        }
        let woken = self.waiting.sleep(self.attachment.borrow().link_events(), true, deadline_ns);
        match woken {
            Woken::Link => self.check_link()?,
            Woken::Failed(source) => self.clear_error(source)?,
            Woken::TimedOut | Woken::Look => {}
        }
        Ok(woken)
    }

    /// An error of a socket is told once (ENETDOWN); the interface may come up again, so only one that no longer exists ends
    /// the capture, as with libpcap.
    fn clear_error(&self, source: usize) -> Result<(), End> {
        let mut error = 0;
        let mut len = size_of::<c_int>() as libc::socklen_t;
        let fd = self.sockets[source].as_raw_fd();
        // SAFETY: an integer and its size, as SO_ERROR (socket(7)) asks; reading clears it.
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &mut len) };
        self.check_link()
    }

    fn check_link(&self) -> Result<(), End> {
        if self.attachment.borrow().is_gone() { Err(End::Failed(DISAPPEARED.to_owned())) } else { Ok(()) }
    }

    /// Whether pcap_breakloop was called since this was last asked.
    fn has_broken(&self) -> bool {
        let broken = self.breaking.swap(false, Ordering::AcqRel);
        if broken {
            self.waiting.quiet();
        }
        broken
    }

    /// Ends the call in progress, or the next one.
    pub fn break_loop(&self) {
        self.breaking.store(true, Ordering::Release);
        self.waiting.ring();
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

    /// pcap_get_selectable_fd.
    pub fn descriptor(&self) -> c_int {
        self.waiting.descriptor(self.attachment.borrow().link_events()).unwrap_or(-1)
    }

    /// pcap_getnonblock.
    pub fn nonblocking(&self) -> bool {
        self.nonblocking.get()
    }

    /// pcap_setnonblock.
    pub fn set_nonblocking(&self, on: bool) {
        self.nonblocking.set(on);
    }

    /// PCAP_TSTAMP_ values that could have been chosen.
    pub fn stamp_types(&self) -> &[c_int] {
        &self.stamp_types
    }

    /// Whether it captures the loopback interface.
    pub fn is_loopback(&self) -> bool {
        self.attachment.borrow().interface().is_loopback()
    }

    /// pcap_setfilter: from here on; what an earlier filter let in is judged by this one.
    pub fn set_filter(&self, instructions: &[Instruction]) -> Result<(), String> {
        let program = Program::new(instructions).ok_or("setfilter: bogus program")?;
        let direction = {
            let mut verdict = self.verdict.borrow_mut();
            verdict.takes_all = program.takes_all();
            verdict.speaks_of_tags = program.speaks_of_tags();
            verdict.needs_kernel = program.needs_kernel();
            verdict.incoming = verdict.needs_kernel.then(|| program.for_incoming());
            verdict.program = program;
            verdict.direction
        };
        self.tell_kernel(direction)
    }

    /// pcap_setdirection.
    pub fn set_direction(&self, direction: c_int) -> Result<(), String> {
        if ![PCAP_D_INOUT, PCAP_D_IN, PCAP_D_OUT].contains(&direction) {
            return Err(format!("{direction} is not a direction"));
        }
        let before = self.verdict.borrow().direction;
        self.verdict.borrow_mut().direction = direction;
        self.tell_kernel(direction)?;
        if before != direction {
            self.verdict.borrow_mut().since_ns = clock::realtime_ns();
        }
        Ok(())
    }

    /// Gives the kernel its part of the filter.
    fn tell_kernel(&self, direction: c_int) -> Result<(), String> {
        let mut verdict = self.verdict.borrow_mut();
        for (&kind, socket) in self.kinds.iter().zip(&self.sockets) {
            let wanted = match kind {
                Kind::Incoming => continue,
                Kind::Sent => filter::for_sent(&verdict.program, direction, self.kernel_snaplen),
                Kind::Both => verdict.program.for_kernel(direction, self.kernel_snaplen),
            };
            attach(socket, &wanted).map_err(|error| format!("can't attach the filter to the socket: {error}"))?;
        }
        if verdict.needs_kernel {
            verdict.since_ns = clock::realtime_ns();
        }
        Ok(())
    }

    /// pcap_inject: one frame, by the packet socket that is bound to the interface.
    pub fn send(&self, frame: &[u8]) -> Result<usize, String> {
        let socket = self.kinds.iter().zip(&self.sockets).find(|(kind, _)| **kind != Kind::Incoming);
        let (_, socket) = socket.ok_or("send: there is no packet socket beside AF_XDP")?;
        // SAFETY: readable for its length.
        let sent = unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        usize::try_from(sent).map_err(|_| format!("send: {}", system_error()))
    }

    /// pcap_stats, so that received + dropped + dropped by the interface is what came for this capture's filter (as far as the
    /// kernel filters); `None` when a counter can't be read.
    pub fn stats(&self) -> Option<Stat> {
        let ledger = self.attachment.borrow_mut().ledger(self.taken.get() + self.refused.get());
        let sum = |causes: &[Cause]| -> Option<u64> {
            causes.iter().map(|cause| ledger.drops.get(cause).copied().unwrap_or(Some(0))).sum()
        };
        // The structure has no word for unknown, and what the device's counters count besides loss is none.
        let before = sum(&[Cause::Nic, Cause::DriverQueue, Cause::Softnet]).unwrap_or(0);
        let dropped = sum(&[Cause::RingFull, Cause::FillRingEmpty, Cause::Oversize])?;
        let received = match (ledger.offered, ledger.filtered_of_offered(), sum(&[Cause::NoSocket])) {
            (Some(offered), Some(filtered), Some(elsewhere)) => {
                offered.saturating_sub(before + dropped + filtered + elsewhere + self.refused.get())
            }
            // Without its privileges a process may not read the steering's counters (bpf(2)). What it took off the rings it
            // knows; only what they hold at the moment is missing.
            _ => self.taken.get(),
        };
        // The structure's counters are 32 bits wide and wrap, as libpcap's do.
        Some(Stat { received: received as u32, dropped: dropped as u32, dropped_by_interface: before as u32 })
    }
}

impl Intake {
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

/// SO_ATTACH_FILTER (socket(7)).
fn attach(socket: &OwnedFd, instructions: &[Instruction]) -> io::Result<()> {
    let program: Vec<libc::sock_filter> =
        instructions.iter().map(|i| libc::sock_filter { code: i.code, jt: i.jt, jf: i.jf, k: i.k }).collect();
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program is valid during the call, which copies it and writes nothing.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// errno's text without Rust's "(os error N)", as libpcap says it.
fn system_error() -> String {
    let text = io::Error::last_os_error().to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

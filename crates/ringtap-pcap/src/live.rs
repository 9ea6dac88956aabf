//! A live capture: the core's sources and pacer, the verdict on each packet, its time stamp and what is counted.
//!
//! How it was opened is in `activate`, how a call takes packets from it in `call`, how it sleeps in `wait`.
//!
//! pcap_breakloop and pcap_stats come from signal handlers and other threads while a call is under way, so what they touch
//! is atomic, or a lock that is only ever tried: see [`Live::break_loop`] and [`Live::stats`].

use std::cell::{Cell, RefCell, UnsafeCell};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, compiler_fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libc::{c_int, timeval};
use ringtap::clock;
use ringtap::ledger::Cause;
use ringtap::pacer::Pacer;
use ringtap::receiver::{Attachment, Departure, Shown};
use ringtap::source::{AnySource, Backend, Source};

use crate::abi::{Instruction, PCAP_D_IN, PCAP_D_INOUT, PCAP_D_OUT, PacketHeader, Stat};
use crate::call::Rings;
use crate::filter::{self, Program};
use crate::wait::Waiting;

/// How often the kernel's counters are read for those who ask while a look at the rings is under way.
const COUNTS_NS: u64 = 1_000_000_000;
/// How long another thread waits for a reading that the reader makes for it.
const PATIENCE: Duration = Duration::from_millis(50);
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
    pub(crate) rings: RefCell<Rings>,
    /// Only ever tried: it may be a signal handler that asks, on the thread that has it.
    attachment: Mutex<Attachment>,
    pub(crate) waiting: Waiting,
    /// Readable when some interface changed.
    pub(crate) link_events: RawFd,
    kinds: Vec<Kind>,
    /// Bytes of a packet the kernel may keep: recvmmsg(2) would take a shorter packet for the whole.
    kernel_snaplen: u32,
    sockets: Vec<Arc<OwnedFd>>,
    verdict: RefCell<Verdict>,
    pub(crate) breaking: AtomicBool,
    nonblocking: Cell<bool>,
    counts: Counts,
    snaplen: u32,
    nanoseconds: bool,
    timeout_ns: Option<u64>,
    stamp_types: Vec<c_int>,
    is_loopback: bool,
    /// What pcap_next and pcap_next_ex point to until their next call.
    kept: UnsafeCell<Kept>,
}

/// What pcap_stats tells, and who may read the kernel's counters for it. All of it may be read at any moment, by a signal
/// handler on the reader's thread too.
#[derive(Default)]
struct Counts {
    /// Packets delivered, and packets that our filter refused. The reader alone writes them.
    taken: AtomicU64,
    refused: AtomicU64,
    /// The latest reading of the kernel's counters, as of when (CLOCK_MONOTONIC, ns); 0: there was none.
    received: AtomicU64,
    dropped: AtomicU64,
    before: AtomicU64,
    read_at_ns: AtomicU64,
    /// Somebody waits for the next one.
    wanted: AtomicBool,
    /// A thread is in our code on this capture's behalf, perhaps in the allocator or with the attachment in its hands.
    working: AtomicBool,
    /// Which thread called last, and the stack at its callback; 0: it is not in one.
    reader: AtomicU64,
    callback: AtomicUsize,
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

impl Live {
    /// Takes over what was opened.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new(parts: Parts) -> io::Result<Self> {
        let Parts { sources, attachment, pacer, snaplen, nanoseconds, nonblocking, timeout_ns, stamp_types } = parts;
        let is = |backend: Backend| move |source: &AnySource| source.description().backend == backend.name();
        let is_xdp = is(Backend::Xdp);
        let beside = sources.iter().any(is_xdp);
        let kinds = sources
            .iter()
            .map(|source| match source {
                source if is_xdp(source) => Kind::Incoming,
                _ if beside => Kind::Sent,
                _ => Kind::Both,
            })
            .collect();
        let kernel_snaplen = if sources.iter().any(is(Backend::Socket)) { u32::MAX } else { snaplen };
        let sockets: Vec<_> = sources.iter().filter_map(Source::wait_fd).collect();
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
            rings: RefCell::new(Rings::new(sources, pacer)),
            link_events: attachment.link_events().as_raw_fd(),
            is_loopback: attachment.interface().is_loopback(),
            attachment: Mutex::new(attachment),
            waiting: Waiting::new(sockets.clone())?,
            kinds,
            kernel_snaplen,
            sockets,
            verdict: RefCell::new(verdict),
            breaking: AtomicBool::new(false),
            nonblocking: Cell::new(nonblocking),
            counts: Counts::default(),
            snaplen,
            nanoseconds,
            timeout_ns,
            stamp_types,
            kept: UnsafeCell::new(Kept::default()),
        })
    }

    /// Keeps a packet until the next call of pcap_next or pcap_next_ex.
    ///
    /// # Safety
    /// `data` is readable for the header's captured length.
    pub unsafe fn keep(&self, header: PacketHeader, data: *const u8) -> (*mut PacketHeader, *const u8) {
        // SAFETY: `Live` is not shared between threads that receive (pcap(3PCAP)), nobody else refers to it here, and the data
        // is readable by contract.
        let kept = unsafe {
            let kept = &mut *self.kept.get();
            kept.data.clear();
            kept.data.extend_from_slice(std::slice::from_raw_parts(data, header.caplen as usize));
            kept
        };
        (kept.header.insert(header), kept.data.as_ptr())
    }

    /// What is delivered of a packet, if it passes; counts it.
    pub(crate) fn judge(&self, source: usize, packet: &Shown, offset_ns: i64) -> Option<PacketHeader> {
        // The reader is the only one who writes.
        let add = |count: &AtomicU64| count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if !self.takes(self.kinds[source], packet) {
            add(&self.counts.refused);
            return None;
        }
        add(&self.counts.taken);
        Some(self.header(packet, offset_ns))
    }

    fn takes(&self, kind: Kind, packet: &Shown) -> bool {
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
        verdict.takes_all || program.takes(data_of(packet), packet.wire_len, whole, &mut verdict.scratch)
    }

    fn header(&self, packet: &Shown, offset_ns: i64) -> PacketHeader {
        let stamp_ns = match packet.arrival_ns {
            0 => clock::realtime_ns(),
            arrival_ns => arrival_ns.wrapping_add_signed(offset_ns),
        };
        let (seconds, rest) = (stamp_ns / 1_000_000_000, stamp_ns % 1_000_000_000);
        let fraction = if self.nanoseconds { rest } else { rest / 1000 };
        PacketHeader {
            ts: timeval { tv_sec: seconds as i64, tv_usec: fraction as i64 },
            caplen: packet.len.min(self.snaplen),
            len: packet.wire_len,
        }
    }

    /// When a call that finds nothing ends, if ever.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.timeout_ns.map(|timeout_ns| clock::monotonic_ns() + timeout_ns)
    }

    /// An error of a socket is told once (ENETDOWN); the interface may come up again, so only one that no longer exists ends
    /// the capture, as with libpcap.
    ///
    /// # Errors
    /// The interface is gone.
    pub(crate) fn clear_error(&self, source: usize) -> Result<(), End> {
        let mut error = 0;
        let mut len = size_of::<c_int>() as libc::socklen_t;
        let fd = self.sockets[source].as_raw_fd();
        // SAFETY: an integer and its size, as SO_ERROR (socket(7)) asks; reading clears it.
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &mut len) };
        self.check_link()
    }

    /// Whether the interface is still there and still ours to read. Where another thread reads the counters right now, the
    /// announcement stays to be read at the next look.
    ///
    /// # Errors
    /// It is gone, or the host uses it now.
    pub(crate) fn check_link(&self) -> Result<(), End> {
        let Ok(mut attachment) = self.attachment.try_lock() else { return Ok(()) };
        ended_by(attachment.departure())
    }

    /// The same for who did not sleep on the announcements.
    ///
    /// # Errors
    /// As for [`Live::check_link`].
    pub(crate) fn check_news(&self) -> Result<(), End> {
        // Heard and looked at under one lock: what was heard is taken off, and would be lost to whoever finds it locked then.
        let Ok(mut attachment) = self.attachment.try_lock() else { return Ok(()) };
        if attachment.has_news() { ended_by(attachment.departure()) } else { Ok(()) }
    }

    /// Whether pcap_breakloop was called since this was last asked.
    pub(crate) fn has_broken(&self) -> bool {
        let broken = self.breaking.swap(false, Ordering::AcqRel);
        if broken {
            self.waiting.quiet();
        }
        broken
    }

    /// Ends the call in progress, or the next one. Async-signal-safe: a flag and one system call.
    pub fn break_loop(&self) {
        self.breaking.store(true, Ordering::Release);
        self.waiting.ring();
    }

    /// pcap_get_selectable_fd.
    pub fn descriptor(&self) -> c_int {
        self.waiting.descriptor(self.link_events).unwrap_or(-1)
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
        self.is_loopback
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
            let attached = match attach(socket, &wanted) {
                // Too little memory for it (net.core.optmem_max), or too long for this kernel: user space decides about each
                // packet anyway, so the kernel only sees to the direction.
                Err(_) if !verdict.needs_kernel => {
                    let direction = if kind == Kind::Sent && direction != PCAP_D_IN { PCAP_D_OUT } else { direction };
                    attach(socket, &Program::default().for_kernel(direction, self.kernel_snaplen))
                }
                done => done,
            };
            attached.map_err(|error| format!("can't attach the filter to the socket: {error}"))?;
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
    ///
    /// Reading the kernel's counters allocates memory, and takes the attachment. Nobody may do that in a signal handler that
    /// has interrupted a look at the rings, or the client's callback, on its own thread: the allocator's lock could be held
    /// beneath. So such a caller gets the latest reading, at most a second old, brought up to date by what was delivered
    /// since: atomic loads alone. A handler that has interrupted our sleep, as tcpdump's does, has the counters read: nothing
    /// is held there. Another thread asks the reader and waits for its answer, or reads them itself while the reader sleeps,
    /// is in its callback, or has left. No lock is waited for. What is left to the client: a handler that interrupts its own code
    /// in the allocator, outside of any call on this capture.
    pub fn stats(&self) -> Option<Stat> {
        let counts = &self.counts;
        if !counts.is_in_the_way() && self.read_counters() {
            return counts.stat();
        }
        counts.wanted.store(true, Ordering::Release);
        if !counts.is_readers_thread() {
            let end_ns = clock::monotonic_ns() + PATIENCE.as_nanos() as u64;
            while counts.wanted.load(Ordering::Acquire) && clock::monotonic_ns() < end_ns {
                if !counts.is_in_the_way() && self.read_counters() {
                    break;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        counts.stat()
    }

    /// The reader's part: reads the counters where somebody waits for them, or the latest reading has become old.
    pub(crate) fn keep_counts(&self, now_ns: u64) {
        let counts = &self.counts;
        let age_ns = now_ns.saturating_sub(counts.read_at_ns.load(Ordering::Relaxed));
        if counts.wanted.load(Ordering::Acquire) || age_ns > COUNTS_NS {
            self.read_counters();
        }
    }

    /// Reads the kernel's counters; `false`: another thread is at it.
    fn read_counters(&self) -> bool {
        let Ok(mut attachment) = self.attachment.try_lock() else { return false };
        let counts = &self.counts;
        let (taken, refused) = (counts.taken.load(Ordering::Relaxed), counts.refused.load(Ordering::Relaxed));
        let ledger = attachment.ledger(taken + refused);
        let sum = |causes: &[Cause]| -> Option<u64> {
            causes.iter().map(|cause| ledger.drops.get(cause).copied().unwrap_or(Some(0))).sum()
        };
        // The structure has no word for unknown, and what the device's counters count besides loss is none.
        let before = sum(&[Cause::Nic, Cause::DriverQueue, Cause::Softnet]).unwrap_or(0);
        let dropped = sum(&[Cause::RingFull, Cause::FillRingEmpty, Cause::Oversize]);
        let received = match (dropped, ledger.offered, ledger.filtered_of_offered(), sum(&[Cause::NoSocket])) {
            (Some(dropped), Some(offered), Some(filtered), Some(elsewhere)) => {
                offered.saturating_sub(before + dropped + filtered + elsewhere + refused)
            }
            // Without its privileges a process may not read the steering's counters (bpf(2)). What it took off the rings it
            // knows; only what they hold at the moment is missing.
            _ => taken,
        };
        counts.received.store(received, Ordering::Relaxed);
        // A counter that can't be read makes the answer an error.
        counts.dropped.store(dropped.unwrap_or(UNKNOWN), Ordering::Relaxed);
        counts.before.store(before, Ordering::Relaxed);
        counts.read_at_ns.store(clock::monotonic_ns(), Ordering::Release);
        counts.wanted.store(false, Ordering::Release);
        true
    }

    /// This thread goes on with a look at the rings. Only handlers on this same thread must see that in order: whoever else
    /// comes has the attachment's lock between.
    pub(crate) fn enters(&self) {
        self.counts.working.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// It ends it: nothing of ours is held.
    pub(crate) fn leaves(&self) {
        compiler_fence(Ordering::SeqCst);
        self.counts.working.store(false, Ordering::Relaxed);
    }

    /// From here on this thread reads.
    pub(crate) fn has_reader(&self) {
        self.counts.reader.store(this_thread(), Ordering::Relaxed);
        self.counts.callback.store(0, Ordering::Relaxed);
    }

    /// Runs the client's callback, which may end the thread or leave by a jump: the stack tells later
    /// ([`Counts::is_in_the_way`]).
    #[inline]
    pub fn call_back(&self, callback: impl FnOnce()) {
        self.counts.callback.store(stack_here(), Ordering::Relaxed);
        callback();
        self.counts.callback.store(0, Ordering::Relaxed);
    }
}

/// In place of a count that can't be read.
const UNKNOWN: u64 = u64::MAX;

impl Counts {
    /// Whether the caller may have interrupted code that allocates, or holds the attachment.
    fn is_in_the_way(&self) -> bool {
        if self.working.load(Ordering::Relaxed) {
            return true;
        }
        // In the callback the stack is deeper than where it was called; after a jump out of it, it need not be.
        self.is_readers_thread() && stack_here() < self.callback.load(Ordering::Relaxed)
    }

    fn is_readers_thread(&self) -> bool {
        self.reader.load(Ordering::Relaxed) == this_thread()
    }

    /// The latest reading, with what was delivered since.
    fn stat(&self) -> Option<Stat> {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (dropped, before) = (read(&self.dropped), read(&self.before));
        if dropped == UNKNOWN || before == UNKNOWN {
            return None;
        }
        // What was delivered now may have been in the ring when the counters were read, and is in them then.
        let received = read(&self.received).max(read(&self.taken));
        // The structure's counters are 32 bits wide and wrap, as libpcap's do.
        Some(Stat { received: received as u32, dropped: dropped as u32, dropped_by_interface: before as u32 })
    }
}

/// The captured bytes.
fn data_of(packet: &Shown) -> &[u8] {
    // SAFETY: its source holds the frame as long as the burst is not ended, which empties the list this is borrowed from.
    unsafe { std::slice::from_raw_parts(packet.start, packet.len as usize) }
}

/// What an interface's leaving is to a call.
fn ended_by(departure: Option<Departure>) -> Result<(), End> {
    match departure {
        None => Ok(()),
        Some(Departure::Removed) => Err(End::Failed(DISAPPEARED.to_owned())),
        Some(end) => Err(End::Failed(end.to_string())),
    }
}

fn this_thread() -> u64 {
    // SAFETY: takes nothing and can't fail.
    unsafe { libc::pthread_self() as u64 }
}

/// About where the stack is.
#[inline(never)]
fn stack_here() -> usize {
    let mark = 0u8;
    std::hint::black_box(&raw const mark) as usize
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

//! Peers that are a loop of this process: a plain UDP socket, and libpcap as tcpdump uses it.
//!
//! Owns the two loops and their thread. As they see each packet, they check its number and how long it took.

use std::fs;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use ringtap::{Error, Result};
use ringtap::{clock, sched};

use super::program::socket_mappings;
use super::{PeerOptions, PeerReport, Receiving, stands_still};
use crate::generate::DEFAULT_PORT;
use crate::stamp::Stamp;
use crate::testbed::Testbed;
use crate::trial::TruthHandler;

/// How often a blocked receiver looks at its stop flag.
const LOOK: Duration = Duration::from_millis(100);

/// What a loop leaves: what it saw, and what it says came and was dropped.
struct Outcome {
    handler: TruthHandler,
    claims_received: Option<u64>,
    claims_dropped: Option<u64>,
}

/// A receiver of this process, at work on a thread of its own.
pub(super) struct Loop {
    name: &'static str,
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    /// Taken by `finish`.
    thread: Option<JoinHandle<Result<Outcome>>>,
    /// Ends the wait of a loop that may sleep without end when nothing comes.
    wake: Option<Box<dyn FnOnce() + Send>>,
    /// How long it may sit on a packet.
    hold: Duration,
    memory_bytes: Option<u64>,
}

impl Loop {
    /// Starts `body` inside the receiver, bound to its core under the ordinary scheduler. It is to count what it receives
    /// and to end when the flag is set.
    fn start(
        testbed: &Testbed,
        name: &'static str,
        body: impl FnOnce(&AtomicBool, &AtomicU64) -> Result<Outcome> + Send + 'static,
    ) -> Result<Self> {
        let (stop, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop_flag, counter) = (Arc::clone(&stop), Arc::clone(&received));
        let core = testbed.config().receiver_core;
        let thread = testbed.receiver().spawn(name, move || {
            sched::set_affinity(0, core).map_err(|error| Error::os("bind to", format!("CPU {core}"), &error))?;
            body(&stop_flag, &counter)
        })?;
        let hold = Duration::from_millis(20);
        Ok(Self { name, stop, received, thread: Some(thread), wake: None, hold, memory_bytes: None })
    }

    /// Stops the loop and waits for its end; `None` when that was done before.
    fn end(&mut self) -> Option<thread::Result<Result<Outcome>>> {
        self.stop.store(true, Ordering::Release);
        if let Some(wake) = self.wake.take() {
            wake();
        }
        self.thread.take().map(JoinHandle::join)
    }
}

impl Receiving for Loop {
    fn received(&mut self) -> Result<Option<u64>> {
        Ok(Some(self.received.load(Ordering::Relaxed)))
    }

    fn settle(&mut self) -> Result<()> {
        let received = &self.received;
        stands_still(self.name, self.hold, || Ok(received.load(Ordering::Relaxed)))
    }

    fn finish(mut self: Box<Self>, sent: u64) -> Result<PeerReport> {
        let ended = self.end().ok_or_else(|| Error::failed("end", self.name, "it has ended before"))?;
        let outcome = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(PeerReport {
            received: self.received.load(Ordering::Relaxed),
            sequence: Some(outcome.handler.report(sent)),
            claims_received: outcome.claims_received,
            claims_dropped: outcome.claims_dropped,
            delivery: Some(outcome.handler.delivery()),
            memory_bytes: self.memory_bytes,
            ..PeerReport::default()
        })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Whoever drops it without finishing it has no use for its result.
        let _ = self.end();
    }
}

/// recv(2) in a loop.
pub(super) fn udp(testbed: &Testbed, options: &PeerOptions) -> Result<Loop> {
    let address = (testbed.receiver().link().ipv4, DEFAULT_PORT);
    let object = format!("{}:{}", address.0, address.1);
    let failed = |error: std::io::Error| Error::os("bind UDP socket to", object.clone(), &error);
    let socket = testbed.receiver().run(|| UdpSocket::bind(address))?.map_err(failed)?;
    socket.set_read_timeout(Some(LOOK)).map_err(failed)?;
    if let Some(bytes) = options.buffer_bytes {
        // The kernel doubles what is asked for, for its own bookkeeping (socket(7)).
        let half = usize::try_from(bytes / 2).unwrap_or(usize::MAX);
        setsockopt(&socket, sockopt::RcvBufForce, &half)
            .map_err(|errno| Error::os("set SO_RCVBUFFORCE of", object.clone(), &errno.into()))?;
    }
    let memory_bytes = getsockopt(&socket, sockopt::RcvBuf).ok().map(|bytes| bytes as u64);
    let mut handler = TruthHandler::new(options.expected);
    let mut this = Loop::start(testbed, "udp-recv", move |stop, received| {
        let mut buffer = [0; 2048];
        while !stop.load(Ordering::Relaxed) {
            let Ok(len) = socket.recv(&mut buffer) else { continue };
            match Stamp::from_payload(&buffer[..len]) {
                Some(stamp) => handler.see_stamp(stamp, clock::monotonic_ns()),
                None => handler.see_foreign(),
            }
            received.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Outcome { handler, claims_received: None, claims_dropped: None })
    })?;
    this.memory_bytes = memory_bytes;
    Ok(this)
}

/// libpcap with the defaults of tcpdump, but for a shorter timeout so that it can be ended; it says what pcap_stats(3) says.
pub(super) fn libpcap(testbed: &Testbed, options: &PeerOptions) -> Result<Loop> {
    let interface = testbed.receiver().interface().to_owned();
    let failed = |error: pcap::Error| Error::failed("capture with libpcap on", interface.clone(), error);
    let buffer_bytes = options.buffer_bytes.map(|bytes| i32::try_from(bytes).unwrap_or(i32::MAX));
    let mut capture = testbed.receiver().run(|| {
        let mut inactive = pcap::Capture::from_device(interface.as_str()).map_err(&failed)?;
        if let Some(bytes) = buffer_bytes {
            inactive = inactive.buffer_size(bytes);
        }
        inactive.snaplen(262_144).promisc(true).timeout(LOOK.as_millis() as i32).open().map_err(&failed)
    })??;
    let memory_bytes = own_ring(capture.as_raw_fd());
    // With TPACKET_V3 the kernel hands no empty block over, so libpcap sleeps past its own timeout when nothing comes.
    let wake = capture.breakloop_handle();
    let mut handler = TruthHandler::new(options.expected);
    let mut this = Loop::start(testbed, "libpcap", move |stop, received| {
        while !stop.load(Ordering::Acquire) {
            match capture.next_packet() {
                Ok(packet) => {
                    handler.see(packet.data, clock::monotonic_ns);
                    received.fetch_add(1, Ordering::Relaxed);
                }
                Err(pcap::Error::TimeoutExpired | pcap::Error::NoMorePackets) => {}
                Err(error) => return Err(Error::failed("capture with", "libpcap", error)),
            }
        }
        let says = capture.stats().ok();
        Ok(Outcome {
            handler,
            claims_received: says.map(|stat| u64::from(stat.received)),
            claims_dropped: says.map(|stat| u64::from(stat.dropped) + u64::from(stat.if_dropped)),
        })
    })?;
    this.wake = Some(Box::new(move || wake.breakloop()));
    this.hold = 2 * LOOK;
    this.memory_bytes = memory_bytes;
    Ok(this)
}

/// Bytes of the ring that this process has mapped from a socket.
fn own_ring(fd: RawFd) -> Option<u64> {
    let socket = fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    Some(socket_mappings(&maps, socket.to_str()?)).filter(|&bytes| bytes > 0)
}

pub(super) fn kernel_version() -> Result<String> {
    let path = "/proc/sys/kernel/osrelease";
    let release = fs::read_to_string(path).map_err(|error| Error::os("read", path, &error))?;
    Ok(format!("Linux {}", release.trim()))
}

/// libpcap has no call for it in what the `pcap` crate offers; the loader knows the file.
pub(super) fn libpcap_version() -> Result<String> {
    let path = "/proc/self/maps";
    let maps = fs::read_to_string(path).map_err(|error| Error::os("read", path, &error))?;
    let version = maps.lines().find_map(|line| line.rsplit_once("/libpcap.so.").map(|(_, version)| version.to_owned()));
    Ok(version.map_or_else(|| "libpcap, linked in".to_owned(), |version| format!("libpcap {version}")))
}

//! The two ordinary receivers beside Ringtap in the demo: a plain UDP socket and libpcap, each on the receiver's core.
//!
//! Owns their loops. What was lost is told by sequence numbers; what they say themselves stands beside it.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ringtap::sys::{clock, sched};
use ringtap::{Error, Result};
use ringtap_testbed::trial::TruthHandler;
use ringtap_testbed::{Stamp, Testbed};

/// Destination port of the generator's packets.
const PORT: u16 = ringtap_testbed::generate::DEFAULT_PORT;
/// How often a blocked receiver looks at its stop flag.
const LOOK: Duration = Duration::from_millis(100);

/// A receiver at work on a thread of its own.
pub struct Peer {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    thread: JoinHandle<Result<(TruthHandler, Option<u64>)>>,
}

impl Peer {
    /// Starts one loop inside the receiver, bound to its core under the ordinary scheduler, as such programs run.
    fn start(
        testbed: &Testbed,
        name: &str,
        body: impl FnOnce(&AtomicBool, &AtomicU64) -> Result<(TruthHandler, Option<u64>)> + Send + 'static,
    ) -> Result<Self> {
        let (stop, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop_flag, counter) = (Arc::clone(&stop), Arc::clone(&received));
        let core = testbed.config().receiver_core;
        let thread = testbed.receiver().spawn(name, move || {
            sched::set_affinity(0, core).map_err(|error| Error::os("bind to", format!("CPU {core}"), &error))?;
            body(&stop_flag, &counter)
        })?;
        Ok(Self { stop, received, thread })
    }

    /// recv(2) in a loop on a UDP socket, as a plain server does.
    pub fn udp(testbed: &Testbed, expected: u64) -> Result<Self> {
        let address = (testbed.receiver().link().ipv4, PORT);
        let socket = testbed.receiver().run(|| UdpSocket::bind(address))?;
        let socket =
            socket.map_err(|error| Error::os("bind UDP socket to", format!("{}:{}", address.0, PORT), &error))?;
        socket.set_read_timeout(Some(LOOK)).map_err(|error| Error::os("set up", "UDP socket", &error))?;
        Self::start(testbed, "udp-recv", move |stop, received| {
            let mut handler = TruthHandler::new(expected);
            let mut buffer = [0; 2048];
            while !stop.load(Ordering::Relaxed) {
                if let Ok(len) = socket.recv(&mut buffer) {
                    match Stamp::from_payload(&buffer[..len]) {
                        Some(stamp) => handler.see_stamp(stamp, clock::monotonic_ns()),
                        None => handler.see_foreign(),
                    }
                    received.fetch_add(1, Ordering::Relaxed);
                }
            }
            // A plain server asks nobody what was lost.
            Ok((handler, None))
        })
    }

    /// libpcap's own loop with its defaults, as tcpdump runs it; says what pcap_stats(3) says.
    pub fn pcap(testbed: &Testbed, expected: u64) -> Result<Self> {
        let interface = testbed.receiver().interface().to_owned();
        let failed = |error: pcap::Error| Error::failed("capture with libpcap on", interface.clone(), error);
        let capture = testbed.receiver().run(|| {
            let inactive = pcap::Capture::from_device(interface.as_str()).map_err(&failed)?;
            inactive.snaplen(262_144).promisc(true).timeout(LOOK.as_millis() as i32).open().map_err(&failed)
        })??;
        Self::start(testbed, "libpcap", move |stop, received| {
            let mut capture = capture;
            let mut handler = TruthHandler::new(expected);
            while !stop.load(Ordering::Relaxed) {
                match capture.next_packet() {
                    Ok(packet) => {
                        handler.see(packet.data, clock::monotonic_ns);
                        received.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(pcap::Error::TimeoutExpired) => {}
                    Err(error) => return Err(Error::failed("capture with", "libpcap", error)),
                }
            }
            let says = capture.stats().ok().map(|stat| u64::from(stat.dropped) + u64::from(stat.if_dropped));
            Ok((handler, says))
        })
    }

    /// Packets received so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Ends it; the handler with what it saw, and what the receiver says it lost.
    pub fn finish(self) -> Result<(TruthHandler, Option<u64>)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

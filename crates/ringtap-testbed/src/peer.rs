//! Ordinary receivers to compare with, on the receiver's core: a plain UDP socket, and tcpdump.
//!
//! Owns their loops and programs. What was lost is told by sequence numbers where the peer's packets can be seen; what a
//! peer says itself stands beside it.

use std::fs::File;
use std::io::{Read, Seek};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ringtap::sys::{clock, sched};
use ringtap::{Error, Result};

use crate::generate::DEFAULT_PORT;
use crate::host::RunningProgram;
use crate::stamp::Stamp;
use crate::testbed::Testbed;
use crate::trial::TruthHandler;

/// How often a blocked receiver looks at its stop flag.
pub const LOOK: Duration = Duration::from_millis(100);

/// What a peer leaves: what it saw, and what it says it lost (`None`: it says nothing).
pub type PeerOutcome = (TruthHandler, Option<u64>);

/// A receiver of this process, at work on a thread of its own.
pub struct Peer {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    thread: JoinHandle<Result<PeerOutcome>>,
    wake: Option<Box<dyn FnOnce() + Send>>,
}

impl Peer {
    /// Starts `body` inside the receiver, bound to its core under the ordinary scheduler, as such programs run. It is to
    /// count what it receives and to end when the flag is set.
    ///
    /// # Errors
    /// The thread can't be started inside.
    pub fn start(
        testbed: &Testbed,
        name: &str,
        body: impl FnOnce(&AtomicBool, &AtomicU64) -> Result<PeerOutcome> + Send + 'static,
    ) -> Result<Self> {
        let (stop, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop_flag, counter) = (Arc::clone(&stop), Arc::clone(&received));
        let core = testbed.config().receiver_core;
        let thread = testbed.receiver().spawn(name, move || {
            sched::set_affinity(0, core).map_err(|error| Error::os("bind to", format!("CPU {core}"), &error))?;
            body(&stop_flag, &counter)
        })?;
        Ok(Self { stop, received, thread, wake: None })
    }

    /// For a loop that may sleep without end when nothing comes: `wake` ends its wait, once the flag is set.
    #[must_use]
    pub fn woken_by(mut self, wake: impl FnOnce() + Send + 'static) -> Self {
        self.wake = Some(Box::new(wake));
        self
    }

    /// recv(2) in a loop on a UDP socket, as a plain server does; it asks nobody what was lost.
    ///
    /// # Errors
    /// The socket can't be had.
    pub fn udp(testbed: &Testbed, expected: u64) -> Result<Self> {
        let address = (testbed.receiver().link().ipv4, DEFAULT_PORT);
        let object = format!("{}:{}", address.0, address.1);
        let failed = |error: std::io::Error| Error::os("bind UDP socket to", object.clone(), &error);
        let socket = testbed.receiver().run(|| UdpSocket::bind(address))?.map_err(failed)?;
        socket.set_read_timeout(Some(LOOK)).map_err(failed)?;
        Self::start(testbed, "udp-recv", move |stop, received| {
            let mut handler = TruthHandler::new(expected);
            let mut buffer = [0; 2048];
            while !stop.load(Ordering::Relaxed) {
                let Ok(len) = socket.recv(&mut buffer) else { continue };
                match Stamp::from_payload(&buffer[..len]) {
                    Some(stamp) => handler.see_stamp(stamp, clock::monotonic_ns()),
                    None => handler.see_foreign(),
                }
                received.fetch_add(1, Ordering::Relaxed);
            }
            Ok((handler, None))
        })
    }

    /// Packets received so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Ends it.
    ///
    /// # Errors
    /// Its loop failed.
    pub fn finish(self) -> Result<PeerOutcome> {
        self.stop.store(true, Ordering::Release);
        if let Some(wake) = self.wake {
            wake();
        }
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// tcpdump writing to nowhere, as a process of its own on the receiver's core.
pub struct Tcpdump {
    program: RunningProgram,
    words: File,
}

/// What tcpdump says at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct TcpdumpSays {
    /// "packets captured".
    pub captured: u64,
    /// "packets dropped by kernel".
    pub dropped: u64,
}

impl Tcpdump {
    /// Starts it; returns when it listens.
    ///
    /// # Errors
    /// tcpdump(8) or taskset(1) is missing, or it does not come up within 5 s.
    pub fn start(testbed: &Testbed) -> Result<Self> {
        let failed =
            |cause: String| Error::failed("start", "tcpdump", cause).way_out("apt-get install tcpdump util-linux");
        let words = tempfile::tempfile().map_err(|error| failed(error.to_string()))?;
        let shared = words.try_clone().map_err(|error| failed(error.to_string()))?;
        let receiver = testbed.receiver();
        let mut command = receiver.command("taskset");
        let core = testbed.config().receiver_core.to_string();
        command
            .args(["-c", &core, "tcpdump", "-n", "-Z", "root", "-w", "/dev/null", "-i", receiver.interface()])
            .stderr(shared);
        let mut this = Self { program: receiver.start(command)?, words };
        for _ in 0..100 {
            let said = this.said();
            if said.contains("listening on") {
                return Ok(this);
            }
            if let Ok(Some(status)) = this.program.child().try_wait() {
                return Err(failed(format!("{status}: {}", said.trim())));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(failed("it does not say that it listens".to_owned()))
    }

    /// Ends it with SIGINT; what it says then.
    ///
    /// # Errors
    /// It says nothing that can be read.
    pub fn finish(self) -> Result<TcpdumpSays> {
        let words = self.words.try_clone().map_err(|error| Error::os("read what", "tcpdump said", &error))?;
        self.program.interrupt()?;
        let said = read_whole(words);
        let count = |what: &str| said.lines().find_map(|line| line.strip_suffix(what)?.trim().parse().ok());
        match (count("packets captured"), count("packets dropped by kernel")) {
            (Some(captured), Some(dropped)) => Ok(TcpdumpSays { captured, dropped }),
            _ => Err(Error::failed("read what", "tcpdump said", format!("no counts in {said:?}"))),
        }
    }

    fn said(&mut self) -> String {
        self.words.try_clone().map(read_whole).unwrap_or_default()
    }
}

fn read_whole(mut file: File) -> String {
    let mut text = String::new();
    // What can't be read is not said.
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
    text
}

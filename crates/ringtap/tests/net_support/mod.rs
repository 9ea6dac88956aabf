//! What the tests of the core against the real kernel share: a testbed, frames made by hand, a sender, and handlers.
#![allow(dead_code, unreachable_pub)] // Each test program uses a part.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::ledger::Cause;
use ringtap::pacer::{Hybrid, Policy};
use ringtap::realtime::RealTime;
use ringtap::receiver::{Backend, Outcome, Receiver, ReceiverConfig, Running};
use ringtap::source::Source;
use ringtap::source::packet::{Fanout, PacketRingConfig, PacketSource};
use ringtap::source::xdp::XdpConfig;
use ringtap::steer::Attach;
use ringtap::transmit::{Outbox, TransmitRing};
use ringtap_testbed::{
    GeneratorConfig, GeneratorReport, Host, Pattern, Profile, SequenceChecker, Stamp, Testbed, TestbedConfig,
};

pub mod forked;
pub mod frames;
pub mod redirect;

/// One testbed at a time: generators of several would fight for their core.
pub struct Bench {
    pub testbed: Testbed,
    _turn: MutexGuard<'static, ()>,
}

/// A testbed for the test `name` with some queues, or the end of it.
pub fn bench_with(name: &str, config: TestbedConfig) -> Bench {
    static TURN: Mutex<()> = Mutex::new(());
    assert!(nix::unistd::Uid::effective().is_root(), "did not run: {name}: it needs root");
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    Bench { testbed: Testbed::new(config).unwrap_or_else(|error| panic!("{error}")), _turn: turn }
}

pub fn bench(name: &str) -> Bench {
    bench_with(name, TestbedConfig::default())
}

impl Bench {
    pub fn receiver(&self) -> &Host {
        self.testbed.receiver()
    }

    /// Opens a receiver in the receiving host.
    pub fn open(&self, config: ReceiverConfig) -> ringtap::Result<Receiver> {
        self.receiver().run(|| Receiver::open(config)).unwrap()
    }

    /// As [`Bench::open`], and starts it.
    pub fn start<H: Handler + Send + 'static>(
        &self,
        config: ReceiverConfig,
        handler: impl FnMut(usize) -> H + Send,
    ) -> Running<H> {
        self.receiver()
            .run(move || {
                let receiver = Receiver::open(config).unwrap_or_else(|error| panic!("{error}"));
                let handlers = (0..receiver.source_count()).map(handler).collect();
                receiver.start(handlers).unwrap_or_else(|error| panic!("{error}"))
            })
            .unwrap()
    }

    pub fn finish<H: Handler + Send + 'static>(&self, running: Running<H>) -> Outcome<H> {
        self.receiver().run(|| running.finish()).unwrap().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Sends `count` numbered frames at `pps`; `change` may turn the settings.
    pub fn send_numbered(&self, pps: f64, count: u64, change: impl FnOnce(&mut GeneratorConfig)) -> GeneratorReport {
        let mut config =
            GeneratorConfig::for_testbed(&self.testbed, 64, Profile::endless(Pattern::Constant { pps })).count(count);
        change(&mut config);
        self.testbed
            .generate(config)
            .unwrap_or_else(|error| panic!("{error}"))
            .join()
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs a program of the receiving host.
    pub fn ip(&self, arguments: &str) -> String {
        ip(self.receiver(), arguments)
    }

    /// A file below the receiving interface's folder in /sys.
    pub fn sys(&self, name: &str) -> String {
        let path = format!("/sys/class/net/{}/{name}", self.receiver().interface());
        self.receiver().run(|| std::fs::read_to_string(path)).unwrap().unwrap().trim().to_owned()
    }

    /// Identifier of the XDP program on the receiving interface.
    pub fn xdp_program(&self) -> Option<u32> {
        let index = self.receiver().link().index;
        self.receiver().run(|| ringtap::netlink::link_by_index(index)).unwrap().unwrap().xdp_program
    }

    /// A datagram from the sender's stack reaches a socket of the receiver's.
    pub fn host_traffic_works(&self) -> bool {
        let address = (self.receiver().link().ipv4, 7777);
        let socket = self.receiver().run(|| std::net::UdpSocket::bind(address).unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let from = (self.testbed.sender().link().ipv4, 0);
        self.testbed
            .sender()
            .run(|| std::net::UdpSocket::bind(from).unwrap().send_to(b"hello", address).unwrap())
            .unwrap();
        socket.recv(&mut [0; 16]).is_ok_and(|len| len == 5)
    }
}

pub fn ip(host: &Host, arguments: &str) -> String {
    let output =
        host.run(|| std::process::Command::new("ip").args(arguments.split_whitespace()).output().unwrap()).unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The four ways to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Native,
    Generic,
    Packet,
    Socket,
}

pub const WAYS: [Way; 4] = [Way::Native, Way::Generic, Way::Packet, Way::Socket];

impl Way {
    pub fn is_xdp(self) -> bool {
        matches!(self, Self::Native | Self::Generic)
    }
}

/// A receiver on the bench: hybrid waiting, no real-time priority, nothing changed that needs to be put back.
pub fn config(bench: &Bench, way: Way) -> ReceiverConfig {
    let mut config = ReceiverConfig::new(bench.receiver().interface(), Policy::Hybrid(Hybrid::new(8_300.0, 150_000)));
    config.realtime = RealTime { priority: 0, lock_memory: false, shallow_idle: false };
    config.cpus = vec![bench.testbed.config().receiver_core];
    config.take = true;
    config.promiscuous = false;
    // Where the host gets the packets too, it may answer that nobody listens.
    config.incoming_only = true;
    (config.backend, config.attach) = match way {
        Way::Native => (Backend::Xdp, Some(Attach::Native)),
        Way::Generic => (Backend::Xdp, Some(Attach::Generic)),
        Way::Packet => (Backend::Packet, None),
        Way::Socket => (Backend::Socket, None),
    };
    if way != Way::Native {
        // The generator's frames come by redirect, which needs a NAPI at this end.
        bench.testbed.enable_receiver_napi().unwrap();
    }
    config
}

/// Longer than a busy machine takes for what is due at once, and shorter than the waits of 30 s that must not be slept through.
pub const HANG: Duration = Duration::from_secs(10);

/// AF_XDP on queue 0 of the host's interface: a small ring of whole frames, nothing sent.
pub fn xdp_config(host: &Host) -> XdpConfig {
    let link = host.link();
    XdpConfig {
        interface: link.interface.clone(),
        ifindex: link.index,
        mtu: 1500,
        driver: None,
        queue: 0,
        ring_slots: 64,
        transmit_slots: 0,
        frame_size: 2048,
        huge_pages: false,
        across_fork: false,
        relay: None,
    }
}

/// Waits until `done` or the end of patience; says whether it was done.
pub fn eventually(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + patience;
    loop {
        if done() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until nothing came for 30 ms.
pub fn settle<H: Handler + Send + 'static>(running: &Running<H>) {
    let mut last = running.counters().packets;
    let mut since = Instant::now();
    let until = Instant::now() + Duration::from_secs(4);
    while since.elapsed() < Duration::from_millis(30) && Instant::now() < until {
        thread::sleep(Duration::from_millis(2));
        let now = running.counters().packets;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// A frame as a handler saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub data: Vec<u8>,
    pub wire_len: u32,
    pub arrival_ns: u64,
}

/// Keeps every frame.
#[derive(Clone, Default)]
pub struct Keep(pub Arc<Mutex<Vec<Seen>>>);

impl Keep {
    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub fn frames(&self) -> Vec<Seen> {
        self.0.lock().unwrap().clone()
    }
}

impl Handler for Keep {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        let seen = Seen { data: packet.data.to_vec(), wire_len: packet.wire_len, arrival_ns: packet.arrival_ns };
        self.0.lock().unwrap().push(seen);
    }
}

/// Checks numbers and lengths; may be slow on purpose.
pub struct Count {
    pub checker: SequenceChecker,
    pub sizes: Vec<usize>,
    pub wrong_lengths: u64,
    pub pause: Duration,
}

impl Count {
    pub fn new(expected: u64, sizes: &[usize]) -> Self {
        Self { checker: SequenceChecker::new(expected), sizes: sizes.to_vec(), wrong_lengths: 0, pause: Duration::ZERO }
    }
}

impl Handler for Count {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        match Stamp::from_frame(packet.data) {
            Some(stamp) => {
                self.checker.see(stamp.seq);
                let size = self.sizes[stamp.seq as usize % self.sizes.len()];
                self.wrong_lengths += u64::from(packet.data.len() != size || packet.wire_len as usize != size);
            }
            None => self.checker.see_foreign(),
        }
        if !self.pause.is_zero() {
            thread::sleep(self.pause);
        }
    }
}

/// Known drops by cause, without those that are 0.
pub fn drops<H>(outcome: &Outcome<H>) -> BTreeMap<Cause, u64> {
    outcome
        .ledger
        .drops
        .iter()
        .filter_map(|(&cause, &count)| count.filter(|&count| count > 0).map(|count| (cause, count)))
        .collect()
}

/// A packet socket of its own: sends frames as they are, and sees what comes to its host.
pub struct Wire {
    source: PacketSource,
    transmit: TransmitRing,
}

impl Wire {
    pub fn open(host: &Host) -> Self {
        let config = PacketRingConfig {
            interface: host.interface().to_owned(),
            ifindex: host.link().index,
            ring_slots: 32768,
            transmit_slots: 1024,
            frame_size: 2048,
            fetch_oversize: false,
            incoming_only: true,
            filter: None,
        };
        let (source, transmit, _) = host.run(|| PacketSource::open(&config, Fanout::None)).unwrap().unwrap();
        Self { source, transmit: transmit.unwrap() }
    }

    pub fn send(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            let queued = self.transmit.send(|buffer| {
                buffer[..frame.len()].copy_from_slice(frame);
                frame.len()
            });
            assert_eq!(queued, Some(frame.len()), "the sender's ring has room");
        }
        self.transmit.kick();
        assert!(eventually(Duration::from_secs(2), || self.transmit.pending() == 0), "all sent");
    }

    /// What has come since the last look.
    pub fn received(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            let burst = self.source.receive();
            if burst.is_empty() {
                return frames;
            }
            frames.extend(burst.iter().map(|packet| packet.data.to_vec()));
        }
    }
}

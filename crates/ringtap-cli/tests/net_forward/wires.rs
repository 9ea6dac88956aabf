//! Sender ── forwarding host ── far host, with something that reads all at either end.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ringtap::Source;
use ringtap::netlink;
use ringtap::source::packet::{Fanout, PacketRingConfig, PacketSource};
use ringtap_testbed::{
    DeviceCounters, FarHost, FrameSpec, Generator, GeneratorConfig, Host, Pattern, Profile, Stamp, Testbed,
    TestbedConfig,
};

use crate::capture_support::{Capture, RINGTAP, ip, testbed};

/// Numbers that would otherwise be calibrated.
pub const NUMBERS: [&str; 6] = ["--period", "500us", "--threshold", "10k", "--ring", RING];
/// Slots of each ring: it holds all that a test sends in one direction, however long its reader is kept from its CPU.
const RING: &str = "32768";

pub struct Wires {
    testbed: Testbed,
    far: FarHost,
}

impl Wires {
    pub fn new(test: &str, config: TestbedConfig) -> Self {
        let testbed = testbed(test, config);
        // Nothing is on the wires but what is sent here: a kernel's own reports of multicast groups (MLD) come at any time.
        for host in [testbed.sender(), testbed.receiver()] {
            let switch = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", host.interface());
            host.run(|| std::fs::write(switch, "1").unwrap()).unwrap();
            let gro = format!("-K {} gro on", host.interface());
            let done = host.run(|| Command::new("ethtool").args(gro.split(' ')).status()).unwrap().unwrap();
            assert!(done.success());
        }
        let far = FarHost::behind(&testbed).unwrap();
        let this = Self { testbed, far };
        std::thread::sleep(Duration::from_millis(100));
        this
    }

    pub fn testbed(&self) -> &Testbed {
        &self.testbed
    }

    pub fn far(&self) -> &FarHost {
        &self.far
    }

    /// The host that forwards.
    pub fn host(&self) -> &Host {
        self.testbed.receiver()
    }

    /// Its interface to the far host.
    pub fn near(&self) -> &str {
        self.far.near()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.host().command(RINGTAP);
        command.args(["forward", self.host().interface(), self.near(), "--json"]).args(NUMBERS).args(arguments);
        command
    }

    pub fn start(&self, arguments: &[&str]) -> Capture {
        let forward = Capture::of(self.host(), self.command(arguments));
        forward.wait_for("forwarding ");
        forward
    }

    pub fn sink_at_far(&self) -> Sink {
        Sink::at(self.far.host())
    }

    pub fn sink_at_sender(&self) -> Sink {
        Sink::at(self.testbed.sender())
    }

    /// Sends `count` packets of 16 flows, numbered from `first`, from the sender.
    pub fn send_there(&self, first: u64, count: u64, pps: f64) {
        let config = GeneratorConfig::for_testbed(&self.testbed, 64, profile(count, pps)).count(count);
        finish(self.testbed.generate(numbered(config, first)).unwrap(), count);
    }

    /// The same from the far host.
    pub fn send_back(&self, first: u64, count: u64, pps: f64) {
        let config = self.far_config(first, count, pps);
        finish(self.far.host().run(|| Generator::start(config)).unwrap().unwrap(), count);
    }

    fn far_config(&self, first: u64, count: u64, pps: f64) -> GeneratorConfig {
        let far = self.far.host();
        let frame = FrameSpec::ipv4(far.link(), self.testbed.sender().link(), 64);
        let core = Some(self.testbed.config().generator_core);
        let config = GeneratorConfig { core, ..GeneratorConfig::new(far.interface(), frame, profile(count, pps)) };
        numbered(config.count(count), first)
    }

    /// As [`Wires::send_there`], on a CPU, with source ports from this one on.
    pub fn send_there_from(&self, core: usize, port: u16, first: u64, count: u64, pps: f64) {
        let config = GeneratorConfig::for_testbed(&self.testbed, 64, profile(count, pps)).count(count);
        let mut config = GeneratorConfig { core: Some(core), ..numbered(config, first) };
        config.frame.source_port = port;
        finish(self.testbed.generate(config).unwrap(), count);
    }

    /// The same from the far host.
    pub fn send_back_from(&self, core: usize, port: u16, first: u64, count: u64, pps: f64) {
        let mut config = GeneratorConfig { core: Some(core), ..self.far_config(first, count, pps) };
        config.frame.source_port = port;
        finish(self.far.host().run(|| Generator::start(config)).unwrap().unwrap(), count);
    }

    /// A far host anew, whose wire was removed.
    pub fn renew(&mut self) {
        self.far = FarHost::behind(&self.testbed).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }

    /// What the veths' queues of 256 did not take since they were made: from the forwarder to the far host, and to the sender. Nobody
    /// who sends hears of it.
    pub fn lost_behind(&self) -> [u64; 2] {
        let of = |host: &Host, interface: &str| {
            host.run(|| DeviceCounters::read_here(interface)).unwrap().unwrap_or_else(|error| panic!("{error}"))
        };
        let lost = |from: (&Host, &str), to: &Host| {
            let (from, to) = (of(from.0, from.1), of(to, to.interface()));
            from.driver("tx_xdp_xmit_errors").unwrap_or(0) + to.driver("rx_drops").unwrap_or(0)
        };
        let (there, back) = (lost((self.host(), self.near()), self.far.host()), (self.host(), self.host().interface()));
        [there, lost(back, self.testbed.sender())]
    }

    /// All that matters of both interfaces.
    pub fn state(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for name in [self.host().interface(), self.near()] {
            let link = self.host().run(|| netlink::link_by_name(name)).unwrap().unwrap();
            lines.push(format!("{name}: up {} mtu {} xdp {:?}", link.up, link.mtu, link.xdp_program));
            for words in [&["ip", "-d", "-o", "link", "show", "dev", name][..], &["ethtool", "-k", name]] {
                let output = self.host().run(|| Command::new(words[0]).args(&words[1..]).output()).unwrap().unwrap();
                lines.push(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            for file in ["gro_flush_timeout", "napi_defer_hard_irqs", "threaded"] {
                let path = format!("/sys/class/net/{name}/{file}");
                lines.push(format!("{path}: {:?}", self.host().run(|| std::fs::read_to_string(&path).ok()).unwrap()));
            }
        }
        lines
    }
}

/// A bridge `br0` that is up, without ports, and says nothing of itself.
pub fn quiet_bridge(host: &Host) {
    ip(host, "link add br0 type bridge mcast_snooping 0");
    host.run(|| std::fs::write("/proc/sys/net/ipv6/conf/br0/disable_ipv6", "1").unwrap()).unwrap();
    ip(host, "link set br0 up");
}

fn profile(count: u64, pps: f64) -> Profile {
    Profile::lasting(Pattern::Constant { pps }, Duration::from_secs_f64(count as f64 / pps * 2.0 + 1.0))
}

fn numbered(mut config: GeneratorConfig, first: u64) -> GeneratorConfig {
    config.frame.flows = 16;
    config.first_seq = first;
    config
}

fn finish(generator: Generator, count: u64) {
    let report = generator.join().unwrap();
    assert_eq!(report.stamped, count, "{report}");
    std::thread::sleep(Duration::from_millis(50));
}

/// What came out: number and source port of each packet of the generator, in their order, and all other frames.
#[derive(Debug, Default)]
pub struct Seen {
    pub stamped: Vec<(u64, u16)>,
    pub others: Vec<Vec<u8>>,
}

/// Reads all that arrives at a host, and loses nothing itself.
pub struct Sink {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Sink {
    fn at(host: &Host) -> Self {
        let config = PacketRingConfig {
            ifindex: host.link().index,
            interface: host.interface().to_owned(),
            ring_slots: RING.parse().unwrap(),
            transmit_slots: 0,
            frame_size: 4096,
            fetch_oversize: false,
            incoming_only: true,
            filter: None,
        };
        let (mut source, _, _) = host.run(|| PacketSource::open(&config, Fanout::None)).unwrap().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            loop {
                let is_last = stopped.load(Ordering::Relaxed);
                let burst = source.receive();
                for packet in burst.iter() {
                    match Stamp::from_frame(packet.data) {
                        Some(stamp) => {
                            let port = u16::from_be_bytes([packet.data[34], packet.data[35]]);
                            seen.stamped.push((stamp.seq, port));
                        }
                        None => seen.others.push(packet.data.to_vec()),
                    }
                }
                if burst.is_empty() {
                    if is_last {
                        drop(burst);
                        let counts = source.counters().and_then(|mut it| it.read()).expect("a socket counts");
                        assert_eq!(counts.ring_full, 0, "the sink's own ring was full");
                        return seen;
                    }
                    drop(burst);
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Self { stop, thread }
    }

    pub fn end(self) -> Seen {
        std::thread::sleep(Duration::from_millis(50));
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Whether the UDP checksum of an IPv4 frame without options is right (RFC 768).
pub fn udp_sum_is_right(frame: &[u8]) -> bool {
    let length = usize::from(u16::from_be_bytes([frame[38], frame[39]]));
    let segment = &frame[34..34 + length];
    let padded = segment.len() + segment.len() % 2;
    let word = |at: usize| u32::from(segment[at]) << 8 | u32::from(segment.get(at + 1).copied().unwrap_or(0));
    let addresses: u32 = (26..34).step_by(2).map(|at| u32::from(u16::from_be_bytes([frame[at], frame[at + 1]]))).sum();
    let mut sum = addresses + 17 + length as u32 + (0..padded).step_by(2).map(word).sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

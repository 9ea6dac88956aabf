//! The guest as the checks see it: two cards, one wire, and numbered packets from the first to the second.
//!
//! Owns sending, receiving and the truth of what arrived. Which checks are made of that is `checks`' business.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::interface::Interface;
use ringtap::ledger::Ledger;
use ringtap::meters::EngineSnapshot;
use ringtap::pacer::{Hybrid, Policy};
use ringtap::receiver::{Backend, Receiver, ReceiverConfig, Running};
use ringtap::transmit::Outbox;
use ringtap::{Error, Result};
use ringtap_testbed::{
    FrameSpec, Generator, GeneratorBackend, GeneratorConfig, Pattern, Profile, SequenceChecker, SequenceReport, Stamp,
};

use crate::host_use::address_of;
use crate::interrupts;

/// The card that sends.
pub(crate) const SENDER: &str = "eth0";
/// The card under test, as the kernel calls it.
pub(crate) const RECEIVER: &str = "eth1";
/// Poll period of the timer. An emulated CPU is slow and its host busy: wake-ups may be late by a millisecond.
pub(crate) const PERIOD_NS: u64 = 2_000_000;
/// Between this rate and above, hybrid waiting uses the timer.
pub(crate) const THRESHOLD_PPS: f64 = 1500.0;

/// What to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) pps: f64,
    pub(crate) count: u64,
    /// Bytes of a frame.
    pub(crate) size: usize,
    pub(crate) flows: u16,
    /// VLAN identifier of their tags.
    pub(crate) vlan: Option<u16>,
}

impl Traffic {
    pub(crate) fn new(pps: f64, count: u64) -> Self {
        Self { pps, count, size: 64, flows: 1, vlan: None }
    }
}

/// What a cell is known to have and must go on showing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Expected {
    /// Zero-copy, with a queue that our thread polls.
    pub(crate) zero_copy: bool,
    /// No interrupts while the timer paces.
    pub(crate) masked: bool,
}

/// Where the card under test comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Card {
    /// The kernel has it, as an interface.
    Kernel,
    /// vfio-pci has it, at this PCI address.
    Own(String),
}

/// The two cards.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) card: Card,
    pub(crate) expected: Expected,
    pub(crate) driver: String,
    pub(crate) queues: u32,
    /// How long each measurement of jitter lasts.
    pub(crate) jitter_seconds: u64,
    macs: [[u8; 6]; 2],
}

/// Addresses for documentation (RFC 5737): nobody in the guest has them.
const ENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];

/// What came of packets sent past a receiver.
#[derive(Debug)]
pub(crate) struct Run {
    /// What the sequence numbers say.
    pub(crate) truth: SequenceReport,
    pub(crate) ledger: Ledger,
    pub(crate) counters: EngineSnapshot,
    /// Packets that bore an 802.1Q tag.
    pub(crate) tagged: u64,
    /// Packets of each queue.
    pub(crate) per_queue: Vec<u64>,
    /// Interrupts of the receive queues while packets were sent.
    pub(crate) interrupts: Option<u64>,
    /// Packets per second that were really sent.
    pub(crate) pps: f64,
    /// The driver's own counters that speak of loss.
    driver_counters: Vec<(String, u64)>,
    pub(crate) warnings: Vec<String>,
}

/// Notes the number of every packet; all memory is taken beforehand. With `echo`, sends each one back.
#[derive(Debug)]
pub(crate) struct Numbers {
    seen: Vec<u64>,
    foreign: u64,
    tagged: u64,
    echo: bool,
}

impl Numbers {
    pub(crate) fn new(most: u64, echo: bool) -> Self {
        Self { seen: Vec::with_capacity(most as usize), foreign: 0, tagged: 0, echo }
    }

    pub(crate) fn seen(&self) -> &[u64] {
        &self.seen
    }
}

impl Handler for Numbers {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        match Stamp::from_frame(packet.data) {
            Some(stamp) if self.seen.len() < self.seen.capacity() => self.seen.push(stamp.seq),
            _ => {
                self.foreign += 1;
                return;
            }
        }
        self.tagged += u64::from(packet.data[12..14] == [0x81, 0]);
        if self.echo {
            outbox.send(|frame| {
                let len = packet.data.len();
                frame[..len].copy_from_slice(packet.data);
                frame[..6].copy_from_slice(&packet.data[6..12]);
                frame[6..12].copy_from_slice(&packet.data[..6]);
                len
            });
        }
    }
}

impl Cell {
    pub(crate) fn find(expected: Expected, card: Card, jitter_seconds: u64) -> Result<Self> {
        let (interface, receiver_mac) = match &card {
            Card::Kernel => {
                wait_for_carrier(RECEIVER)?;
                (Interface::find_up(RECEIVER)?, mac(RECEIVER)?)
            }
            // lab/run gives the cards these addresses.
            Card::Own(address) => (Interface::card(address)?, [0x52, 0x54, 0, 0, 0, 2]),
        };
        wait_for_carrier(SENDER)?;
        let driver = interface.driver.clone().unwrap_or_else(|| "unknown".to_owned());
        let macs = [mac(SENDER)?, receiver_mac];
        Ok(Self { card, expected, driver, queues: interface.queues, jitter_seconds, macs })
    }

    /// What the card under test is called.
    pub(crate) fn receiver(&self) -> &str {
        match &self.card {
            Card::Kernel => RECEIVER,
            Card::Own(address) => address,
        }
    }

    /// A receiver on the card under test, on the second CPU; the generator has the first.
    pub(crate) fn config(&self, policy: Policy) -> ReceiverConfig {
        let mut config = ReceiverConfig::new(self.receiver(), policy);
        config.backend = if self.card == Card::Kernel { Backend::Xdp } else { Backend::Vfio };
        config.ring_slots = 2048;
        config.cpus = vec![1];
        config
    }

    /// Sends packets numbered from 0; returns how many and at what rate.
    pub(crate) fn send(&self, traffic: Traffic) -> Result<(u64, f64)> {
        self.send_by(SENDER, traffic)
    }

    /// As [`Cell::send`], by another card.
    pub(crate) fn send_by(&self, card: &str, traffic: Traffic) -> Result<(u64, f64)> {
        self.generate(card, ENDS, traffic)
    }

    /// Sends from one address to another.
    pub(crate) fn send_between(&self, ends: [Ipv4Addr; 2], pps: f64, count: u64) -> Result<(u64, f64)> {
        self.generate(SENDER, ends, Traffic::new(pps, count))
    }

    fn generate(&self, card: &str, [source, destination]: [Ipv4Addr; 2], traffic: Traffic) -> Result<(u64, f64)> {
        let frame = FrameSpec {
            source_mac: self.macs[0],
            destination_mac: self.macs[1],
            vlan: traffic.vlan,
            source: source.into(),
            destination: destination.into(),
            source_port: 40_000,
            destination_port: ringtap_testbed::generate::DEFAULT_PORT,
            flows: traffic.flows,
            sizes: vec![traffic.size],
        };
        let profile = Profile::endless(Pattern::Constant { pps: traffic.pps });
        let mut config = GeneratorConfig::new(card, frame, profile).count(traffic.count);
        config.backend = GeneratorBackend::Ring;
        config.core = Some(0);
        // On a real-time kernel the sending card's own work is done by ordinary threads, which must have their turn.
        config.priority = None;
        config.anywhere = true;
        // Late packets are not made up for in a rush: the rate is what a check asks for, not the end time.
        config.max_late = Duration::from_millis(1);
        let report = Generator::start(config)?.join()?;
        if !report.complete {
            return Err(Error::failed(
                "send on",
                card,
                format!("only {} of {} packets left", report.sent(), traffic.count),
            ));
        }
        Ok((report.sent(), report.achieved_pps))
    }

    /// Opens a receiver when the link is there again: igb restarts its device whenever an XDP program comes or goes.
    pub(crate) fn open(config: ReceiverConfig) -> Result<Receiver> {
        if config.backend != Backend::Vfio {
            wait_for_carrier(&config.interface)?;
        }
        Receiver::open(config)
    }

    /// Opens a receiver, sends, waits until no more packets come, and takes stock.
    pub(crate) fn run(&self, config: ReceiverConfig, traffic: Traffic) -> Result<Run> {
        self.run_with(config, traffic, |_| Ok(()))
    }

    /// As [`Cell::run`]; `first` is called when the engines run and nothing was sent yet.
    pub(crate) fn run_with(
        &self,
        config: ReceiverConfig,
        traffic: Traffic,
        first: impl FnOnce(&Running<Numbers>) -> Result<()>,
    ) -> Result<Run> {
        let echo = config.transmit_slots > 0;
        let receiver = Self::open(config)?;
        let running = start_engines(receiver, traffic.count, echo)?;
        first(&running)?;
        let before = interrupts::received(self.receiver());
        let (sent, pps) = self.send(traffic)?;
        let after = interrupts::received(self.receiver());
        settle(|| running.counters().packets);
        let outcome = running.finish()?;
        let mut checker = SequenceChecker::new(traffic.count);
        for engine in &outcome.engines {
            engine.handler.seen.iter().for_each(|&seq| checker.see(seq));
            (0..engine.handler.foreign).for_each(|_| checker.see_foreign());
        }
        Ok(Run {
            truth: checker.report(sent),
            tagged: outcome.engines.iter().map(|engine| engine.handler.tagged).sum(),
            per_queue: outcome.engines.iter().map(|engine| engine.handler.seen.len() as u64).collect(),
            ledger: outcome.ledger,
            counters: outcome.counters,
            interrupts: after.zip(before).map(|(after, before)| after - before),
            pps,
            driver_counters: outcome.driver_counters,
            warnings: outcome.warnings,
        })
    }
}

impl Run {
    /// What is wrong with it when every packet should have arrived once.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.truth.lost > 0 || self.truth.duplicates > 0 {
            wrong.push(format!(
                "{} of {} packets did not arrive, {} came twice ({}; driver: {:?}; ticks late: {:?})",
                self.truth.lost,
                self.truth.expected,
                self.truth.duplicates,
                self.ledger,
                self.driver_counters,
                self.counters.tick_lateness.quantiles_us()
            ));
        }
        if self.ledger.unaccounted() != Some(0) {
            wrong.push(format!("the ledger does not add up: {}", self.ledger));
        }
        wrong
    }

    /// Interrupts of the card per packet.
    pub(crate) fn interrupts_per_packet(&self) -> Option<f64> {
        self.interrupts.map(|count| count as f64 / self.truth.received.max(1) as f64)
    }
}

/// Starts the receiver's engines, each of which expects `count` numbered packets and answers them with `echo`.
pub(crate) fn start_engines(receiver: Receiver, count: u64, echo: bool) -> Result<Running<Numbers>> {
    let handlers = (0..receiver.source_count()).map(|_| Numbers::new(count, echo)).collect();
    receiver.start(handlers)
}

pub(crate) fn timer() -> Policy {
    Policy::Timer { period_ns: PERIOD_NS }
}

pub(crate) fn hybrid() -> Policy {
    Policy::Hybrid(Hybrid::new(THRESHOLD_PPS, PERIOD_NS))
}

/// Waits until `count` stands still for a quarter of a second, five seconds at most.
pub(crate) fn settle(mut count: impl FnMut() -> u64) {
    let mut last = count();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(250));
        let now = count();
        if now == last {
            return;
        }
        last = now;
    }
}

/// A link comes up some time after its interface does.
pub(crate) fn wait_for_carrier(interface: &str) -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(20);
    let since = Instant::now();
    let path = format!("/sys/class/net/{interface}/carrier");
    while std::fs::read_to_string(&path).map_or(true, |text| text.trim() != "1") {
        if since.elapsed() > LIMIT {
            return Err(Error::failed("wait for the link of", interface, "no carrier after 20 s"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn mac(interface: &str) -> Result<[u8; 6]> {
    let text = address_of(interface)?;
    let bytes: Vec<u8> = text.split(':').filter_map(|part| u8::from_str_radix(part, 16).ok()).collect();
    bytes.try_into().map_err(|_| Error::failed("read the address of", interface, format!("{text:?}")))
}

//! The card itself as a source (\[1] §5.3, §5.6): its descriptors and frames in our memory, its interrupt in our hands, no network stack
//! of the kernel's anywhere.
//!
//! Owns the opening of a card's queues and the order in which ring, mask and wait are looked at. Registers are in `card`.

mod card;

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backend::{Opened, Opener};
use super::counters::{DeviceCounters, DeviceCounts};
use super::{AnySource, Description, Source, StampClock, Wake};
use crate::burst::{BURST_MAX, Burst, FrameOwner};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::receiver::{Queues, ReceiverConfig};
use crate::sys::card_ring::{CardReceive, QueueMemory};
use crate::sys::event::{Event, PollEnd, Stop};
use crate::sys::memory::{Region, Slot};
use crate::sys::vfio::{PciFunction, VfioDevice};
use crate::sys::{clock, sched};
use crate::transmit::TransmitRing;
use card::{Card, Family, Ring};

/// Bytes of a frame: a packet of 1,518 bytes with a VLAN tag fits.
const FRAME_SIZE: u32 = 2048;

/// Most descriptors of a ring: their length in bytes has 20 bits in the cards' registers.
const MOST_SLOTS: u32 = 1 << 15;
/// The card's memory of 64 KB takes half a millisecond at 1 Gb/s.
const DRAIN: Duration = Duration::from_millis(2);

pub(super) const OPENER: Opener =
    Opener { name: NAME, find: Interface::card, most_slots: MOST_SLOTS, rings: |_, _| None, open };
const NAME: &str = "vfio";

fn open(config: &ReceiverConfig, interface: &Interface, warnings: &mut Vec<String>) -> Result<Opened> {
    let usage = |cause: &str, way_out: &str| Err(Error::usage("open by VFIO", &interface.name, cause).way_out(way_out));
    let queues = match &config.queues {
        // More than threads can run at a time gain nothing.
        Queues::All => interface.queues.min(sched::allowed_cpus().len() as u32),
        Queues::Count(count) => *count,
        Queues::Only(_) => return usage("its queues are shared out by ourselves", "give their number"),
    };
    if config.frame_size.is_some_and(|size| size != 2048) {
        return usage("its frames have 2048 bytes", "leave --frame-size out");
    }
    let card = VfioConfig {
        address: interface.name.clone(),
        queues,
        ring_slots: config.ring_slots,
        transmit_slots: config.transmit_slots,
        huge_pages: config.huge_pages,
        promiscuous: config.promiscuous,
    };
    let sources = VfioSource::open(&card, warnings)?.into_iter();
    let sources = sources.map(|(source, transmit)| (Box::new(source) as AnySource, transmit)).collect();
    Ok(Opened::unsteered(sources))
}

/// How to open a card.
#[derive(Debug, Clone)]
pub struct VfioConfig {
    /// PCI address, as 0000:02:00.0; the card is bound to vfio-pci.
    pub address: String,
    /// Receive queues, from 1.
    pub queues: u32,
    /// Receive descriptors of each queue, a power of two from 64 to 32768.
    pub ring_slots: u32,
    /// Transmit descriptors of each queue, a power of two up to 32768, or 0 for no transmit ring.
    pub transmit_slots: u32,
    /// Keep descriptors and frames in huge pages.
    pub huge_pages: bool,
    /// Take frames that are addressed to others.
    pub promiscuous: bool,
}

/// One queue of a card.
pub struct VfioSource {
    receive: CardReceive,
    memory: Arc<Region>,
    slots: Vec<Slot>,
    card: Arc<Card>,
    queue: u32,
    interrupt: Arc<Event>,
    asked_back: Arc<Event>,
    /// Ends all engines: none can go on when one has shut the card.
    stop: Option<Arc<Stop>>,
    is_shut: bool,
    description: Description,
}

impl FrameOwner for CardReceive {
    fn give_back(&mut self, slots: &[Slot]) {
        CardReceive::give_back(self, slots);
    }
}

/// The number of receive queues of the card at `address`.
///
/// # Errors
/// There is no card there, or none of those that are known.
pub fn queues(address: &str) -> Result<u32> {
    family(address).map(Family::queues)
}

fn family(address: &str) -> Result<Family> {
    let (vendor, device) = PciFunction::find(address)?.id;
    Family::of((vendor, device)).ok_or_else(|| {
        Error::failed(
            "open by VFIO",
            address,
            format!("its number is {vendor:04x}:{device:04x}, which is not known here"),
        )
        .way_out("Intel's 82576 and 82574 with copper ports are; others go by --backend xdp")
    })
}

impl VfioSource {
    /// Opens a card's queues. Packets are received from here on.
    ///
    /// # Errors
    /// A number out of range, not a known card, what VFIO refuses, memory.
    pub fn open(config: &VfioConfig, warnings: &mut Vec<String>) -> Result<Vec<(Self, Option<TransmitRing>)>> {
        config.check()?;
        let family = family(&config.address)?;
        if family == Family::I82574 && PciFunction::find(&config.address)?.may_sleep() {
            warnings.push(format!(
                "{} may lose its link to the processor while that sleeps (82574, ASPM): write 0 to l0s_aspm and l1_aspm in /sys/bus/pci/devices/{}/link",
                config.address, config.address
            ));
        }
        let mut device = VfioDevice::open(&config.address)?;
        let most = family.queues().min(device.vectors());
        if config.queues > most {
            let cause = format!("{} queues, and it has {most} with an interrupt of their own", config.queues);
            return Err(Error::usage("open by VFIO", &config.address, cause).way_out("ask for fewer with --queues"));
        }
        let (receive, transmit) = (config.ring_slots as usize, config.transmit_slots as usize);
        let frame_size = FRAME_SIZE as usize;
        let memories: Result<Vec<QueueMemory>> = (0..config.queues)
            .map(|_| QueueMemory::new(&mut device, receive, transmit, frame_size, config.huge_pages))
            .collect();
        let interrupts: Result<Vec<_>> = (0..config.queues).map(|_| Event::new().map(Arc::new)).collect();
        let (memories, interrupts) = (memories?, interrupts?);
        let asked_back = Arc::new(Event::new()?);
        device.signal_on_vectors(&interrupts)?;
        if let Err(error) = device.signal_on_request(&asked_back) {
            warnings.push(format!("{error}; unplugging it waits for the end of this capture"));
        }
        let device = Arc::new(device);
        let card = Arc::new(Card::start(Arc::clone(&device), family)?);
        let mut queues = Vec::new();
        for ((queue, memory), interrupt) in (0..).zip(memories).zip(interrupts) {
            let (to_receive, to_transmit) = memory.card_addresses();
            card.set_rings(
                queue,
                Ring { address: to_receive, descriptors: receive },
                (transmit > 0).then_some(Ring { address: to_transmit, descriptors: transmit }),
            )?;
            let memory_bytes = memory.memory().len();
            let region = Arc::clone(memory.memory());
            let (mut receive, transmit) = memory.rings(&device, family.tails(queue), family == Family::I82576);
            receive.fill();
            let description = Description {
                backend: NAME,
                object: format!("{} ({})", config.address, family.name()),
                queue: Some(queue),
                zero_copy: Some(true),
                xdp_mode: None,
                busy_poll: true,
                ring_slots: config.ring_slots as usize,
                memory_bytes,
                library: None,
            };
            let source = Self {
                receive,
                memory: region,
                slots: Vec::with_capacity(BURST_MAX),
                card: Arc::clone(&card),
                queue,
                interrupt,
                asked_back: Arc::clone(&asked_back),
                stop: None,
                is_shut: false,
                description,
            };
            queues.push((source, transmit.map(TransmitRing::of_card)));
        }
        await_link(&card, &config.address, warnings);
        card.open(config.queues, config.promiscuous);
        Ok(queues)
    }
}

/// A copper link needs seconds to negotiate; a cable may come later.
fn await_link(card: &Card, address: &str, warnings: &mut Vec<String>) {
    const LIMIT: Duration = Duration::from_secs(10);
    let since = Instant::now();
    while !card.has_link() {
        if since.elapsed() > LIMIT {
            warnings.push(format!("{address} has no link yet: is a cable in it?"));
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl VfioConfig {
    fn check(&self) -> Result<()> {
        let usage =
            |cause: String, way_out: &str| Err(Error::usage("open by VFIO", &self.address, cause).way_out(way_out));
        if cfg!(not(target_arch = "x86_64")) {
            return usage(
                "only x86-64 is known to order writes as these cards need it".to_owned(),
                "use --backend xdp",
            );
        }
        if !self.ring_slots.is_power_of_two() || !(64..=MOST_SLOTS).contains(&self.ring_slots) {
            return usage(format!("{} ring slots", self.ring_slots), "use a power of two from 64 to 32768");
        }
        if self.transmit_slots != 0
            && (!self.transmit_slots.is_power_of_two() || !(8..=MOST_SLOTS).contains(&self.transmit_slots))
        {
            return usage(
                format!("{} transmit slots", self.transmit_slots),
                "use a power of two from 8 to 32768, or 0",
            );
        }
        if self.queues == 0 {
            return usage("no queue was asked for".to_owned(), "ask for at least one");
        }
        Ok(())
    }
}

impl Source for VfioSource {
    fn receive(&mut self) -> Burst<'_> {
        if self.slots.is_empty() {
            self.receive.take(&mut self.slots, BURST_MAX, clock::realtime_ns);
            // While a ring is full packets stay in the card's memory, and follow when it has room again.
            if self.is_shut && self.slots.is_empty() {
                std::thread::sleep(DRAIN);
                self.receive.take(&mut self.slots, BURST_MAX, clock::realtime_ns);
            }
        }
        Burst::new(&mut self.slots, &self.memory, &mut self.receive)
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        // Rings of before would end the wait at once; what they told of is in the ring.
        self.interrupt.clear();
        self.card.unmask(self.queue);
        if !self.slots.is_empty() || !self.receive.is_empty() {
            self.card.mask(self.queue);
            return Wake::Ready;
        }
        let end = stop.wait_readable(std::os::fd::AsFd::as_fd(&*self.interrupt), limit);
        self.card.mask(self.queue);
        match end {
            PollEnd::Readable => Wake::Ready,
            PollEnd::TimedOut => Wake::TimedOut,
            PollEnd::Stopped => Wake::Stopped,
            PollEnd::Failed => Wake::Gone,
        }
    }

    fn quiesce(&mut self) -> bool {
        self.card.shut();
        self.is_shut = true;
        if let Some(stop) = &self.stop {
            stop.pull();
        }
        true
    }

    fn stamp_clock(&self) -> StampClock {
        StampClock::Taken
    }

    fn description(&self) -> Description {
        self.description.clone()
    }

    /// The card counts for all its queues together.
    fn counters(&self) -> Option<Box<dyn DeviceCounters>> {
        (self.queue == 0).then(|| Box::new(CardCounters(Arc::clone(&self.card))) as Box<dyn DeviceCounters>)
    }

    fn uses_huge_pages(&self) -> bool {
        true
    }

    /// Our own driver sees to that.
    fn sets_promiscuous(&self) -> bool {
        true
    }

    /// Ends these engines with the first of them.
    fn share_stop(&mut self, stop: &Arc<Stop>) {
        self.stop = Some(Arc::clone(stop));
    }

    fn asked_back(&self) -> Option<Arc<Event>> {
        Some(Arc::clone(&self.asked_back))
    }

    /// Packets that came in several descriptors or in none.
    fn invalid_descriptors(&self) -> u64 {
        self.receive.invalid
    }
}

/// The card's own statistics registers.
struct CardCounters(Arc<Card>);

impl DeviceCounters for CardCounters {
    fn read(&mut self) -> Option<DeviceCounts> {
        let counted = self.0.count()?;
        Some(DeviceCounts {
            offered: Some(counted.good + counted.missed + counted.oversize),
            nic: counted.missed,
            oversize: counted.oversize,
            ..DeviceCounts::default()
        })
    }
}

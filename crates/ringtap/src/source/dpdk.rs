//! A port of DPDK's as a source that sleeps: by the queue's receive interrupt while traffic is thin, by the timer with the interrupt
//! masked while it is thick.
//!
//! Owns which port is opened how, the order in which queue, interrupt and wait are looked at, and what DPDK's counters mean. The C
//! interface is in sys/dpdk, EAL's arguments in `arguments`.

mod arguments;
mod survey;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::backend::{Opened, Opener};
use super::counters::{DeviceCounters, DeviceCounts};
use super::{AnySource, Description, Source, StampClock, Wake};
use crate::burst::{BURST_MAX, Burst, FrameOwner};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::pacer::Policy;
use crate::receiver::{Queues, ReceiverConfig};
use crate::sys::available::available_memory_bytes;
use crate::sys::dpdk::{Counts, Eal, Facts, Limits, Port, Queue, Request};
use crate::sys::event::{Event, PollEnd, Stop};
use crate::sys::memory::Slot;
use crate::sys::{clock, sched};
use crate::transmit::TransmitRing;
use arguments::{Arguments, Wants};

pub use arguments::listening_sockets;
pub use survey::{PortFound, Survey, library_version, survey};

/// Bytes of a frame.
const FRAME_SIZE: u32 = 2048;
/// Most descriptors of a ring: few cards have more.
const MOST_SLOTS: u32 = 1 << 13;
/// Queues that are opened unasked: each takes memory for a whole ring.
const UNASKED_QUEUES: u32 = 4;
/// Longest time between two looks at a port without interrupts.
const LOOK: Duration = Duration::from_millis(1);
/// A virtual device whose other end comes anew forgets that its interrupt was let through, so it is after this time again.
const RENEW: Duration = Duration::from_millis(10);
/// What a card has counted is in the ring after this time: its own memory of 64 KB takes half a millisecond at 1 Gb/s.
const DRAIN: Duration = Duration::from_millis(2);

pub(super) const OPENER: Opener =
    Opener { name: NAME, find: |name| Ok(Interface::given(name, 1)), most_slots: MOST_SLOTS, rings: |_, _| None, open };
const NAME: &str = "dpdk";
const OPERATION: &str = "open through DPDK";

fn open(config: &ReceiverConfig, interface: &Interface, warnings: &mut Vec<String>) -> Result<Opened> {
    let name = &interface.name;
    check(config, name)?;
    let most_queues = match config.queues {
        Queues::Count(count) => count,
        _ => unasked_queues(name),
    };
    let wants = Wants {
        port: name,
        cpus: &sched::allowed_cpus(),
        // Of the transmit ring as many in the device's as wait for it; and what is looked at, or filled, at a time.
        buffers: u64::from(most_queues)
            * (u64::from(config.ring_slots) + 2 * u64::from(config.transmit_slots) + 6 * BURST_MAX as u64),
        // A forwarder's two.
        ports: if config.transmit_slots > 0 { 2 } else { 1 },
        huge_pages: config.huge_pages,
    };
    let arguments = Arguments::new(&config.dpdk_args, wants)?;
    if !Eal::runs() {
        check_memory(name, arguments.mib, available_memory_bytes())?;
        arguments::remove_dead_sockets(&config.dpdk_args);
    }
    let library = config.dpdk_library.as_deref();
    let eal = Eal::start(library, &config.dpdk_args, &arguments.all, &arguments.without_devices)?;
    let limits = eal.limits(name).ok_or_else(|| unknown_port(eal, name))?;
    let queues = queues(config, name, &limits)?;
    let request = Request {
        name,
        queues,
        slots: config.ring_slots,
        send_slots: config.transmit_slots,
        promiscuous: config.promiscuous,
    };
    let (port, mut queues, facts) = eal.open(&request)?;
    let object = format!("{name} ({})", limits.driver);
    let look = longest_look(&config.policy);
    let can_sleep = queues.iter().all(|queue| queue.bell().is_some());
    warn(config, &object, &facts, (!can_sleep).then_some(look), queues.len(), warnings);
    let shared = Arc::new(Shared { port, taken: AtomicU64::new(0), frozen: Mutex::new(None) });
    let memory_bytes = shared.port.region().len();
    let ring =
        |queue: &mut Queue| (request.send_slots > 0).then(|| TransmitRing::of_dpdk(queue.sender(request.send_slots)));
    let rings: Vec<_> = queues.iter_mut().map(ring).collect();
    let source = |queue: Queue| -> Result<AnySource> {
        let number = queue.number();
        Ok(Box::new(DpdkSource {
            description: Description {
                queue: Some(number),
                zero_copy: Some(!facts.is_virtual),
                ring_slots: facts.slots as usize,
                // The pools lie in one region.
                memory_bytes: if number == 0 { memory_bytes } else { 0 },
                library: Some(eal.name().to_owned()),
                ..Description::new(NAME, object.clone())
            },
            slots: Vec::with_capacity(BURST_MAX),
            wait: wait_of(&queue, name)?,
            is_deaf: queue.bell().is_none(),
            queue,
            shared: Arc::clone(&shared),
            look,
            renews: facts.is_virtual,
            rest: None,
            stop: None,
        }))
    };
    let sources = queues.into_iter().zip(rings).map(|(queue, ring)| Ok((source(queue)?, ring)));
    Ok(Opened::unsteered(sources.collect::<Result<_>>()?))
}

/// What becomes readable with the queue's interrupt, for who waits for two ports; where there is none it never does.
fn wait_of(queue: &Queue, name: &str) -> Result<Arc<OwnedFd>> {
    let copy = match queue.bell() {
        Some(bell) => bell.try_clone_to_owned(),
        None => Event::new()?.as_fd().try_clone_to_owned(),
    };
    copy.map(Arc::new).map_err(|error| Error::os("wait for", name, &error))
}

/// Refuses what no port can do, before DPDK is loaded.
fn check(config: &ReceiverConfig, name: &str) -> Result<()> {
    let usage = |cause: String, way_out: &str| Err(Error::usage(OPERATION, name, cause).way_out(way_out));
    if !(64..=MOST_SLOTS).contains(&config.ring_slots) {
        return usage(format!("{} ring slots", config.ring_slots), "use 64 to 8192");
    }
    if config.frame_size.is_some_and(|size| size != FRAME_SIZE) {
        return usage(format!("its frames have {FRAME_SIZE} bytes"), "leave --frame-size out");
    }
    if config.transmit_slots != 0 && !(64..=MOST_SLOTS).contains(&config.transmit_slots) {
        return usage(format!("{} transmit slots", config.transmit_slots), "use 64 to 8192");
    }
    match config.queues {
        Queues::Only(_) => usage("its queues are shared out by ourselves".to_owned(), "give their number"),
        Queues::Count(0) => usage("no queue was asked for".to_owned(), "ask for at least one"),
        _ => Ok(()),
    }
}

/// EAL maps its memory at once, and it is locked then: what is not there would have the kernel end some process.
fn check_memory(name: &str, mib: u64, available: Option<u64>) -> Result<()> {
    match available.map(|bytes| bytes >> 20) {
        Some(available) if mib > available => {
            let cause = format!("{mib} MiB for DPDK's memory, {available} MiB available");
            let way_out = "use a smaller --ring or --out-ring, fewer --queues or a smaller -m";
            Err(Error::failed(OPERATION, name, cause).way_out(way_out))
        }
        _ => Ok(()),
    }
}

/// How many queues are opened: as told, else as many as there are CPUs for, where the port can share its packets out.
fn queues(config: &ReceiverConfig, name: &str, limits: &Limits) -> Result<u32> {
    if let Some(error) = refused_driver(name, limits) {
        return Err(error);
    }
    match config.queues {
        Queues::Count(count) if count > limits.queues => {
            let cause = format!("{count} queues, and it has at most {}", limits.queues);
            Err(Error::usage(OPERATION, name, cause).way_out("ask for fewer with --queues"))
        }
        Queues::Count(count) => Ok(count),
        _ if limits.spreads => Ok(unasked_queues(name).min(limits.queues).max(1)),
        _ => Ok(1),
    }
}

/// Drivers whose ports are not opened, and why.
fn refused_driver(name: &str, limits: &Limits) -> Option<Error> {
    ["net_tap", "net_tun"].contains(&limits.driver.as_str()).then(|| {
        let cause = format!("its driver {} tells of packets by signals, which end every sleep", limits.driver);
        Error::failed(OPERATION, name, cause).way_out("capture its interface in the kernel: --backend xdp or packet")
    })
}

/// Of a card one for each CPU, up to a bound; of a virtual device one.
fn unasked_queues(name: &str) -> u32 {
    if arguments::is_pci(name) { UNASKED_QUEUES.min(sched::allowed_cpus().len() as u32) } else { 1 }
}

fn unknown_port(eal: &Eal, name: &str) -> Error {
    let ports = eal.ports();
    let listed =
        if ports.is_empty() { "DPDK has no port at all".to_owned() } else { format!("DPDK has {}", ports.join(", ")) };
    let cause = if eal.said().is_empty() { String::new() } else { format!(": {}", eal.said()) };
    let way_out = if arguments::is_pci(name) && !ports.is_empty() {
        "all ports are to be named together, this one as it is here: --dpdk-args '-a ADDRESS …'; or bind it to vfio-pci"
    } else if arguments::is_pci(name) {
        "bind the card to vfio-pci (driverctl set-override ADDRESS vfio-pci), or check its address"
    } else {
        "name the device in --dpdk-args, as --vdev=NAME,… or -a ADDRESS"
    };
    Error::failed(OPERATION, name, format!("there is no such port; {listed}{cause}")).way_out(way_out)
}

/// How often a port without interrupts is looked at: as often as the timer would, and at least each millisecond.
fn longest_look(policy: &Policy) -> Duration {
    let period_ns = match policy {
        Policy::Hybrid(hybrid) => hybrid.rungs.iter().map(|rung| rung.period_ns).min(),
        Policy::Windowed(windowed) => Some(windowed.period_ns),
        Policy::Timer { period_ns } => Some(*period_ns),
        Policy::Interrupt | Policy::Busy => None,
    };
    period_ns.map_or(LOOK, Duration::from_nanos).min(LOOK)
}

/// What could not be had, one sentence each.
fn warn(
    config: &ReceiverConfig,
    object: &str,
    facts: &Facts,
    look: Option<Duration>,
    queues: usize,
    warnings: &mut Vec<String>,
) {
    if let Some(look) = look {
        warnings.push(format!(
            "{object} has no receive interrupts: it is looked at every {look:?}, however few packets come"
        ));
    }
    if config.promiscuous && !facts.promiscuous && !facts.is_virtual {
        warnings.push(format!("{object} refuses promiscuous mode: frames addressed to others may not come"));
    }
    if !facts.has_link {
        warnings.push(format!("{object} has no link yet: is there another end?"));
    }
    if facts.slots < config.ring_slots {
        warnings.push(format!(
            "{object} has {} descriptors to a queue, fewer than the {} asked for",
            facts.slots, config.ring_slots
        ));
    }
    if config.flows_together && queues > 1 && !facts.spreads {
        warnings.push(format!("{object} does not keep flows on one queue: use --queues 1"));
    }
}

/// One queue of a port.
pub struct DpdkSource {
    queue: Queue,
    /// For who waits for two ports.
    wait: Arc<OwnedFd>,
    /// There is no interrupt, or it can't be let through.
    is_deaf: bool,
    slots: Vec<Slot>,
    shared: Arc<Shared>,
    description: Description,
    /// Time between two looks where there is no interrupt.
    look: Duration,
    /// The interrupt has to be let through anew now and then.
    renews: bool,
    /// Packets that are still ours once the port was shut.
    rest: Option<u64>,
    /// Ends all engines: the counters are read once for all queues.
    stop: Option<Arc<Stop>>,
}

/// What belongs to all queues of a port.
struct Shared {
    port: Arc<Port>,
    /// Packets taken by all queues.
    taken: AtomicU64,
    /// The counters at the end.
    frozen: Mutex<Option<Counts>>,
}

impl Shared {
    /// Reads the counters for the last time.
    fn freeze(&self) {
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        if frozen.is_none() {
            *frozen = self.port.counts();
        }
    }

    /// `rx_nombuf` is left out: drivers count attempts to fill a ring in it, and the packets that then find no room in `imissed`. The
    /// pool has a buffer for each descriptor and each packet that is lent, so that it does not come to that.
    fn read(&self) -> Option<DeviceCounts> {
        let frozen = *self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = frozen.or_else(|| self.port.counts())?;
        Some(device_counts(counts, self.taken.load(Ordering::Relaxed)))
    }
}

/// What DPDK's counters come to when `taken` packets were taken: some that came after the last reading may have been.
fn device_counts(counts: Counts, taken: u64) -> DeviceCounts {
    DeviceCounts {
        offered: Some(counts.received.max(taken) + counts.missed + counts.errors),
        ring_full: counts.missed,
        nic: counts.errors,
        ..DeviceCounts::default()
    }
}

impl FrameOwner for Queue {
    fn give_back(&mut self, slots: &[Slot]) {
        Queue::give_back(self, slots);
    }
}

impl DpdkSource {
    /// Takes what is there, where nothing is held yet.
    fn take(&mut self) {
        while self.slots.is_empty() {
            let most = self.rest.map_or(BURST_MAX, |rest| rest.min(BURST_MAX as u64) as usize);
            if most == 0 {
                return;
            }
            let count = self.queue.receive(most, &mut self.slots, clock::realtime_ns) as u64;
            if count == 0 {
                return;
            }
            self.shared.taken.fetch_add(count, Ordering::Relaxed);
            // At the end a burst of which nothing made sense is not the last one; before it, the next turn goes on.
            let Some(rest) = &mut self.rest else { return };
            *rest -= count;
        }
    }

    /// Without an interrupt: sleeps until the next look.
    fn sleep(&self, stop: &Stop, limit: Option<Duration>) -> Wake {
        let limit = limit.map_or(self.look, |limit| limit.min(self.look));
        if stop.wait(limit) { Wake::Stopped } else { Wake::TimedOut }
    }
}

impl Drop for DpdkSource {
    fn drop(&mut self) {
        self.queue.give_back(&self.slots);
    }
}

impl Source for DpdkSource {
    fn receive(&mut self) -> Burst<'_> {
        self.take();
        Burst::new(&mut self.slots, self.shared.port.region(), &mut self.queue)
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        if self.arm() {
            self.disarm();
            return Wake::Ready;
        }
        if self.is_deaf {
            return self.sleep(stop, limit);
        }
        let limit = [limit, self.longest_wait()].into_iter().flatten().min();
        let end = self.queue.bell().map(|bell: BorrowedFd<'_>| stop.wait_readable(bell, limit));
        self.disarm();
        match end {
            Some(PollEnd::Readable) => Wake::Ready,
            Some(PollEnd::TimedOut) => Wake::TimedOut,
            Some(PollEnd::Stopped) => Wake::Stopped,
            Some(PollEnd::Failed) | None => Wake::Gone,
        }
    }

    /// A port that is stopped drops what its ring holds. So the counters are read, and as many packets as wait then are taken: those
    /// that come later are nobody's. Where the driver can't tell how many those are, a ring's worth.
    fn quiesce(&mut self) -> bool {
        self.shared.freeze();
        if let Some(stop) = &self.stop {
            stop.pull();
        }
        std::thread::sleep(DRAIN);
        let waiting = self.queue.pending().unwrap_or(self.description.ring_slots as u64);
        self.rest = Some(waiting);
        true
    }

    fn wait_fd(&self) -> Option<Arc<OwnedFd>> {
        Some(Arc::clone(&self.wait))
    }

    fn longest_wait(&self) -> Option<Duration> {
        if self.is_deaf { Some(self.look) } else { self.renews.then_some(RENEW) }
    }

    /// Of what came before the interrupt was let through nobody tells: that is taken here.
    fn arm(&mut self) -> bool {
        self.is_deaf = self.queue.bell().is_none() || !self.queue.arm();
        if !self.is_deaf {
            self.take();
        }
        !self.slots.is_empty()
    }

    fn disarm(&mut self) {
        if !self.is_deaf {
            self.queue.mask();
        }
    }

    fn stamp_clock(&self) -> StampClock {
        StampClock::Taken
    }

    fn description(&self) -> Description {
        self.description.clone()
    }

    /// DPDK counts for all queues together.
    fn counters(&self) -> Option<Box<dyn DeviceCounters>> {
        (self.queue.number() == 0).then(|| Box::new(PortCounters(Arc::clone(&self.shared))) as Box<dyn DeviceCounters>)
    }

    fn uses_huge_pages(&self) -> bool {
        true
    }

    /// DPDK's driver sees to that.
    fn sets_promiscuous(&self) -> bool {
        true
    }

    fn share_stop(&mut self, stop: &Arc<Stop>) {
        self.stop = Some(Arc::clone(stop));
    }

    /// Packets that did not lie in the port's memory.
    fn invalid_descriptors(&self) -> u64 {
        self.queue.invalid
    }
}

/// The port's counters, for other threads.
struct PortCounters(Arc<Shared>);

impl DeviceCounters for PortCounters {
    fn read(&mut self) -> Option<DeviceCounts> {
        self.0.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacer::{Hybrid, Rung};

    #[test]
    fn each_packet_is_offered_once() {
        let counts = Counts { received: 10, missed: 3, errors: 2 };
        let of = |offered| DeviceCounts { offered: Some(offered), ring_full: 3, nic: 2, ..DeviceCounts::default() };
        assert_eq!(device_counts(counts, 7), of(15), "three are in the ring");
        assert_eq!(device_counts(counts, 12), of(17), "two came after the counters were read");
    }

    #[test]
    fn a_port_without_interrupts_is_looked_at_within_the_bound() {
        let rungs = [(8e3, 600_000), (100e3, 250_000)];
        let rungs = rungs.map(|(threshold_pps, period_ns)| Rung { threshold_pps, period_ns });
        assert_eq!(longest_look(&Policy::Hybrid(Hybrid::with_rungs(rungs.to_vec()))), Duration::from_micros(250));
        assert_eq!(longest_look(&Policy::Timer { period_ns: 5_000_000 }), LOOK);
        assert_eq!(longest_look(&Policy::Interrupt), LOOK);
    }

    #[test]
    fn memory_that_is_not_there_is_not_asked_for() {
        let error = check_memory("p", 101, Some(100 << 20)).unwrap_err().to_string();
        assert!(error.contains("101 MiB for DPDK's memory, 100 MiB available"), "{error}");
        assert!(check_memory("p", 100, Some(100 << 20)).is_ok() && check_memory("p", 100, None).is_ok());
    }

    #[test]
    fn queues_are_as_many_as_the_port_can_share_out() {
        let limits = |queues, spreads, driver: &str| Limits { queues, spreads, driver: driver.to_owned() };
        let config = |queues| ReceiverConfig { queues, ..ReceiverConfig::new("p", Policy::Interrupt) };
        let all = config(Queues::All);
        assert_eq!(queues(&all, "p", &limits(8, false, "net_virtio_user")).unwrap(), 1);
        assert_eq!(queues(&all, "p", &limits(8, true, "net_virtio_user")).unwrap(), 1);
        let card = "0000:02:00.0";
        assert_eq!(queues(&all, card, &limits(8, true, "net_e1000_igb")).unwrap(), unasked_queues(card));
        assert_eq!(queues(&config(Queues::Count(2)), "p", &limits(2, false, "net_vhost")).unwrap(), 2);
        let error = queues(&config(Queues::Count(3)), "p", &limits(2, true, "x")).unwrap_err().to_string();
        assert!(error.contains("3 queues, and it has at most 2"), "{error}");
        let error = queues(&all, "p", &limits(1, false, "net_tap")).unwrap_err().to_string();
        assert!(error.contains("net_tap tells of packets by signals"), "{error}");
    }

    #[test]
    fn what_no_port_can_do_is_refused_before_dpdk_is_loaded() {
        let base = || ReceiverConfig::new("p", Policy::Interrupt);
        for (config, words) in [
            (ReceiverConfig { ring_slots: 12, ..base() }, "12 ring slots"),
            (ReceiverConfig { frame_size: Some(4096), ..base() }, "frames have 2048 bytes"),
            (ReceiverConfig { transmit_slots: 32, ..base() }, "32 transmit slots"),
            (ReceiverConfig { transmit_slots: 16_384, ..base() }, "16384 transmit slots"),
            (ReceiverConfig { queues: Queues::Only(vec![1]), ..base() }, "give their number"),
            (ReceiverConfig { queues: Queues::Count(0), ..base() }, "at least one"),
        ] {
            let error = check(&config, "p").unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(check(&base(), "p").is_ok());
    }
}

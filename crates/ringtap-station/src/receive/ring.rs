//! Receiving by rings: UDP to the ports listened on, taken out of the stack where AF_XDP can.
//!
//! Owns the rules, and the handler that finds the datagram in a frame and copies it into the spool. Answers go out by the plain sockets
//! that hold the same ports, and datagrams that came in fragments come in by them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringtap::burst::Packet;
use ringtap::clock;
use ringtap::engine::Handler;
use ringtap::host_use::HostUse;
use ringtap::ledger::Ledger;
use ringtap::receiver::{Backend, Devices, Ended, ReceiverConfig, RunningDevices};
use ringtap::source::StampClock;
use ringtap::source::xdp::XdpSource;
use ringtap::steer::{MOST_RULES, Rule, Side};
use ringtap::transmit::Outbox;
use ringtap::{Error, Result};
use ringtap_run::dpdk::DpdkOptions;
use ringtap_run::filter::Filter;
use ringtap_run::live::Live;
use ringtap_run::notes;
use ringtap_run::waiting::How;
use ringtap_wire::checksum::{Sum, Verdict};
use ringtap_wire::{Layers, LinkType};

use super::own::{OwnAddresses, View};
use super::sockets::Bound;
use crate::cause::{Cause, CauseCounts};
use crate::spool::{self, Head, Service, SpoolConsumer, SpoolProducer};
use crate::status::{RingState, Sources};
use crate::waker::Waker;

/// Longest from arrival to the spool.
const MAX_LATENCY: Duration = Duration::from_millis(1);
/// Bytes that a slot of the ring stands for, when a buffer is turned into slots.
const SLOT_BYTES: u64 = 2048;
/// Number of the protocol in IP.
const UDP: u8 = 17;
/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;

/// The running rings.
pub(crate) struct Ring {
    running: RunningDevices<Copier>,
}

impl Ring {
    /// The core's ledger of each interface as of now.
    pub(crate) fn ledgers(&mut self) -> Vec<(String, Ledger)> {
        let ledgers = self.running.ledgers();
        self.running.names().into_iter().map(str::to_owned).zip(ledgers).collect()
    }

    /// What is wrong with the interfaces.
    pub(crate) fn faults(&self) -> Vec<String> {
        let names: Vec<String> = self.running.names().into_iter().map(str::to_owned).collect();
        ringtap_web::interface_faults(&names, &self.running.states())
    }
}

/// What the handlers counted.
#[derive(Debug, Default)]
pub(crate) struct RingCounts {
    /// Packets that are no datagram to one of our ports, or only a part of one.
    pub(crate) not_ours: AtomicU64,
    /// Datagrams that could not be taken.
    pub(crate) causes: CauseCounts,
}

/// The owner of the running rings, for their end.
pub(crate) struct RingHandle(Arc<Mutex<RingState>>);

impl RingHandle {
    /// Interfaces that have come to their end since it was asked last, and the names of those that go on.
    pub(crate) fn take_ended(&self) -> (Vec<Ended>, Vec<String>) {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            RingState::Running(ring) => {
                let ended = ring.running.take_ended();
                ring.running.take_news().iter().for_each(|line| notes::say(line));
                (ended, ring.running.states().into_iter().map(|(name, _)| name.to_owned()).collect())
            }
            RingState::Ended(_) => (Vec::new(), Vec::new()),
        }
    }

    /// Indices of interfaces whose packets are copied at the moment.
    pub(crate) fn copying(&self) -> Vec<u32> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            RingState::Running(ring) => ring.running.copying(),
            RingState::Ended(_) => Vec::new(),
        }
    }

    /// Ends them with nothing left in the rings.
    pub(crate) fn finish(self) -> Result<Vec<(String, Ledger)>> {
        let empty = RingState::Ended(Vec::new());
        let state = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), empty);
        match state {
            RingState::Running(ring) => {
                Ok(ring.running.finish()?.into_iter().map(|device| (device.name, device.outcome.ledger)).collect())
            }
            RingState::Ended(ledgers) => Ok(ledgers),
        }
    }
}

/// What is received by the ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Name of the interface.
    pub(crate) interface: &'a str,
    /// How packets are taken.
    pub(crate) backend: Backend,
    /// For [`Backend::Dpdk`] alone.
    pub(crate) dpdk: &'a DpdkOptions,
    /// Bytes that the ring should hold.
    pub(crate) buffer: u64,
    /// Addresses for SNMP.
    pub(crate) snmp: &'a [SocketAddr],
    /// Addresses for syslog.
    pub(crate) syslog: &'a [SocketAddr],
}

/// What is asked of the receiver of an interface.
pub(crate) fn configure(wanted: Wanted<'_>) -> Result<ReceiverConfig> {
    let Wanted { interface: name, backend, dpdk, buffer, snmp, syslog } = wanted;
    let mut live = Live { max_latency: MAX_LATENCY, backend, dpdk: dpdk.clone(), ..Live::new(name) };
    live.check()?;
    if backend == Backend::Given {
        // It brings its own rings and says itself when packets come: nothing is to be measured on this host.
        live.ring_slots = Some(buffer / SLOT_BYTES);
        live.waiting.how = How::Interrupt;
    }
    let interface = live.find_interface()?;
    if !interface.ethernet {
        return Err(Error::failed("take packets from", name, "it carries no Ethernet frames")
            .way_out("leave -i out: plain sockets work on any interface"));
    }
    let used_by_address = interface.host_use.as_ref().is_some_and(HostUse::is_by_address);
    let own = if used_by_address { Some(interface.addresses()?) } else { None };
    let rules: Vec<Rule> = snmp.iter().chain(syslog).flat_map(|&listened| taken(listened, own.as_deref())).collect();
    let words: BTreeSet<String> =
        snmp.iter().chain(syslog).map(|listened| format!("udp dst port {}", listened.port())).collect();
    let fits = (1..=MOST_RULES).contains(&rules.len());
    if backend == Backend::Xdp && rules.is_empty() {
        return Err(Error::usage("take packets from", name, "it has none of the addresses that are listened on")
            .way_out("use --backend packet, or leave -i out"));
    }
    // What it is planned with, before anything of ours.
    let config = live.configure(&interface, None)?.config;
    // The power of two that the buffer has room for, and what is planned at least.
    let slots_of = |slot_bytes: u64, planned: u32, most: u64| {
        let room = (buffer / slot_bytes).checked_ilog2().map_or(1, |bits| 1 << bits);
        room.clamp(planned.into(), most) as u32
    };
    Ok(ReceiverConfig {
        backend: if backend == Backend::Auto && !fits { Backend::Packet } else { backend },
        // Our own ports are taken out of the stack; that is what was asked for, and nothing that is for others.
        take: own.is_some(),
        rules,
        ring_slots: slots_of(SLOT_BYTES, config.ring_slots, u64::from(backend.most_slots()).min(1 << 16)),
        packed_slots: config.packed_slots.map(|planned| slots_of(XdpSource::PACKED.into(), planned, 1 << 18)),
        filter: Some(Filter::compile(&Vec::from_iter(words).join(" or "), ETHERNET)?.in_kernel()),
        incoming_only: true,
        promiscuous: false,
        ..config
    })
}

/// What AF_XDP may take of what comes to an address listened on. On an interface that has addresses of this host, `own`, that is what
/// goes to these, without a tag: the rest is for other hosts or for devices above it, or comes to the plain socket.
fn taken(listened: SocketAddr, own: Option<&[IpAddr]>) -> Vec<Rule> {
    let (port, ip) = (listened.port(), listened.ip());
    let rule = |prefix: Option<IpAddr>| Rule {
        vlan: own.map(|_| Rule::UNTAGGED),
        family: Some(if ip.is_ipv6() { 6 } else { 4 }),
        protocol: Some(UDP),
        prefix: prefix.map(|ip| (ip, if ip.is_ipv6() { 128 } else { 32 })),
        ports: Some((port, port)),
        side: Side::Destination,
        // The host's stack puts fragments together, and the plain socket takes the datagram.
        whole: true,
    };
    match own {
        Some(own) if ip.is_unspecified() => {
            own.iter().filter(|own| own.is_ipv6() == ip.is_ipv6()).map(|&own| rule(Some(own))).collect()
        }
        _ => vec![rule((!ip.is_unspecified()).then_some(ip))],
    }
}

/// Starts the engines.
pub(crate) fn start(
    devices: Devices,
    bound: &[Bound],
    own: &Arc<OwnAddresses>,
    spool_bytes: usize,
    waker: &Arc<Waker>,
    sources: &mut Sources,
) -> Result<(RingHandle, Vec<SpoolConsumer>)> {
    let ports: Arc<Vec<Port>> = Arc::new(
        bound
            .iter()
            .enumerate()
            .filter_map(|(index, bound)| {
                Some(Port { address: bound.address()?, service: bound.service(), socket: index as u8 })
            })
            .collect(),
    );
    let queues = devices.source_count();
    let mut handlers = Vec::new();
    let mut consumers = Vec::new();
    for (number, device) in devices.iter().enumerate() {
        // Where a device stamps none, the time of taking is of the same clock.
        let is_realtime = device.stamp_clock() != Some(StampClock::Monotonic);
        for _ in 0..device.source_count() {
            let (spool, consumer) = spool::spool(spool_bytes / queues, Arc::clone(waker))?;
            let counts = Arc::new(RingCounts::default());
            sources.add_ring_queue(number, Arc::clone(&counts), spool.lost());
            consumers.push(consumer);
            let (ports, own) = (Arc::clone(&ports), View::new(Arc::clone(own)));
            handlers.push(Copier { spool, ports, own, counts, is_realtime, offset_ns: offset_ns() });
        }
    }
    let running = devices.start(handlers)?;
    for warning in running.warnings() {
        notes::say(warning);
    }
    let state = Arc::new(Mutex::new(RingState::Running(Box::new(Ring { running }))));
    sources.add_ring(Arc::clone(&state));
    Ok((RingHandle(state), consumers))
}

/// A socket that holds a port.
#[derive(Debug, Clone, Copy)]
struct Port {
    address: SocketAddr,
    service: Service,
    socket: u8,
}

impl Port {
    fn takes(&self, to: SocketAddr) -> bool {
        let ip = self.address.ip();
        self.address.port() == to.port() && ip.is_ipv6() == to.is_ipv6() && (ip.is_unspecified() || ip == to.ip())
    }
}

/// Copies datagrams from frames to the spool.
pub(crate) struct Copier {
    spool: SpoolProducer,
    ports: Arc<Vec<Port>>,
    own: View,
    counts: Arc<RingCounts>,
    /// Stamps are nanoseconds since 1970.
    is_realtime: bool,
    /// What to add to a stamp otherwise; taken anew in each cycle.
    offset_ns: u64,
}

/// From the monotonic clock to the time since 1970.
fn offset_ns() -> u64 {
    clock::realtime_ns().saturating_sub(clock::monotonic_ns())
}

impl Copier {
    /// `Err(None)`: nothing for us.
    fn copy(&mut self, packet: &Packet<'_>) -> Result<(), Option<Cause>> {
        let data = packet.data;
        let layers = Layers::parse(data, LinkType::Ethernet);
        let span = layers.outer_ip().ok_or(None)?;
        if span.is_fragment() {
            // A packet ring sees copies of what the socket gets whole.
            return Err(None);
        }
        let ip = span.view(data).ok_or(None)?;
        let udp = layers.udp(data).ok_or(None)?;
        let to = SocketAddr::new(ip.destination(), udp.destination_port());
        let port = *self.ports.iter().find(|port| port.takes(to)).ok_or(None)?;
        // What a router forwards, or a mirror shows, is for other hosts. An engine that slept has not looked for new addresses.
        self.own.look();
        if port.address.ip().is_unspecified() && !self.own.has(to.ip()) {
            return Err(None);
        }
        if layers.is_cut() {
            return Err(Some(Cause::Oversize));
        }
        if !is_intact(&layers, data, packet.checksum_pending) {
            return Err(Some(Cause::Checksum));
        }
        let at_ns = match (self.is_realtime, packet.arrival_ns) {
            (_, 0) => clock::realtime_ns(),
            (true, stamp) => stamp,
            (false, stamp) => stamp.saturating_add(self.offset_ns),
        };
        let source = SocketAddr::new(ip.source(), udp.source_port());
        let head = Head { at_ns, source, to: Some(to.ip()), service: port.service, socket: port.socket };
        self.spool.push(head, layers.payload(data));
        Ok(())
    }
}

/// Whether the checksums are right, as the host's stack would ask. A sender on this host leaves that of UDP unfinished, either with a word
/// of the kernel (`is_pending`) or with the sum over the pseudo header in its place.
fn is_intact(layers: &Layers, data: &[u8], is_pending: bool) -> bool {
    if layers.verify_ipv4(data) == Verdict::Invalid {
        return false;
    }
    if is_pending || layers.verify_transport(data) != Verdict::Invalid {
        return true;
    }
    let unfinished = || {
        let (ip, udp) = (layers.outer_ip()?.view(data)?, layers.udp(data)?);
        let length = u32::from(udp.length());
        let sum = match (ip.source(), ip.destination()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => Sum::pseudo_v4(from, to, UDP, length),
            (IpAddr::V6(from), IpAddr::V6(to)) => Sum::pseudo_v6(from, to, UDP, length),
            _ => return None,
        };
        Some(!sum.finish() == udp.checksum())
    };
    unfinished().unwrap_or(false)
}

impl Handler for Copier {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        match self.copy(packet) {
            Ok(()) => {}
            Err(Some(cause)) => self.counts.causes.add(cause),
            Err(None) => {
                self.counts.not_ours.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {
        self.spool.cycle_end();
        if !self.is_realtime {
            self.offset_ns = offset_ns();
        }
    }

    fn next_turn(&self) -> Option<Duration> {
        self.spool.next_turn()
    }

    /// What its spool holds goes over while other rings go on.
    fn retired(&mut self, outbox: &mut Outbox<'_>) {
        self.cycle_end(outbox);
    }
}

#[cfg(test)]
mod tests {
    use ringtap::meters::EngineMeters;
    use ringtap_samples::frames::Ends;

    use super::*;

    /// One that takes what is for any of the host's addresses.
    fn copier(own: &Arc<OwnAddresses>) -> (Copier, SpoolConsumer) {
        let (spool, consumer) = spool::spool(2 * spool::BLOCK_BYTES, Arc::default()).unwrap();
        let port = Port { address: "0.0.0.0:162".parse().unwrap(), service: Service::Snmp, socket: 0 };
        let (ports, own) = (Arc::new(vec![port]), View::new(Arc::clone(own)));
        (Copier { spool, ports, own, counts: Arc::default(), is_realtime: true, offset_ns: 0 }, consumer)
    }

    /// An engine that slept has ended no cycle since.
    #[test]
    fn the_first_datagram_to_a_new_address_is_taken() {
        let own = Arc::new(OwnAddresses::read().unwrap());
        let (mut copier, _consumer) = copier(&own);
        let frame = Ends::new("192.0.2.1", "192.0.2.77").udp_frame([50000, 162], b"a notification");
        assert_eq!(copier.copy(&Packet::of(&frame)), Err(None), "for somebody else");
        own.set(&["192.0.2.77".parse().unwrap()]);
        assert_eq!(copier.copy(&Packet::of(&frame)), Ok(()));
    }

    #[test]
    fn what_stays_behind_a_batch_that_nobody_has_taken_yet_does_not_wait_for_the_next_packet() {
        let (mut copier, mut consumer) = copier(&Arc::new(OwnAddresses::read().unwrap()));
        let frame = Ends::new("192.0.2.1", "127.0.0.1").udp_frame([50000, 162], b"a notification");
        let meters = EngineMeters::default();
        let outbox = &mut Outbox::nowhere(&meters);
        for expected in [None, Some(spool::AGAIN)] {
            copier.packet(&Packet::of(&frame), outbox);
            copier.cycle_end(outbox);
            assert_eq!(copier.next_turn(), expected);
        }
        assert_eq!(consumer.take().unwrap().len(), 1);
        copier.cycle_end(outbox);
        assert_eq!((copier.next_turn(), consumer.take().unwrap().len()), (None, 1));
    }

    #[test]
    fn only_whole_datagrams_and_those_that_a_sender_of_this_host_left_unfinished_are_intact() {
        const ETHERNET_AND_IP: usize = 14 + 20;
        let frame = Ends::new("192.0.2.1", "198.51.100.2").udp_frame([50000, 162], b"a notification");
        let intact = |frame: &[u8], is_pending| is_intact(&Layers::parse(frame, LinkType::Ethernet), frame, is_pending);
        assert!(intact(&frame, false));
        let changed = |at: usize| {
            let mut frame = frame.clone();
            frame[at] ^= 1;
            frame
        };
        assert!(!intact(&changed(ETHERNET_AND_IP + 12), false), "a byte of the payload");
        assert!(intact(&changed(ETHERNET_AND_IP + 12), true), "the kernel says that nobody has summed it");
        assert!(!intact(&changed(14 + 8), true), "the header of IP is always finished");
        let (from, to) = ([192, 0, 2, 1].into(), [198, 51, 100, 2].into());
        let length = (frame.len() - ETHERNET_AND_IP) as u32;
        let mut unfinished = frame.clone();
        let sum = !Sum::pseudo_v4(from, to, UDP, length).finish();
        unfinished[ETHERNET_AND_IP + 6..][..2].copy_from_slice(&sum.to_be_bytes());
        assert!(intact(&unfinished, false));
    }
}

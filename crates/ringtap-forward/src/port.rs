//! One engine's end of one output: frames into its transmit ring, or packets into the spool of a file.
//!
//! Owns what can be sent there, and when the ring is handed to the kernel: at a cycle's end, and each [`BATCH`] frames of a long one.
//! Which packets come here is the caller's business, whether the output is up `health`'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ringtap::Result;
use ringtap::burst::Packet;
use ringtap::clock;
use ringtap::histogram::Histogram;
use ringtap::interface::Interface;
use ringtap::netlink;
use ringtap::record::SpoolProducer;
use ringtap::source::StampClock;
use ringtap::transmit::TransmitRing;
use ringtap_wire::{Layers, LinkType, Transport, checksum};

use crate::counts::{Cause, PortCounts};

/// Frames that wait for a system call at most: one for so many is cheap, and a veth's queue at the other end holds 256.
pub(crate) const BATCH: usize = 64;
/// Ethernet header (IEEE 802.3 clause 3.2), bytes.
const HEADER: usize = 14;
/// IEEE 802.1Q tag, bytes: a device sends a tagged frame that is so much longer. By a packet ring that is for 802.1Q tags alone
/// (`packet_extra_vlan_len_allowed` in net/packet/af_packet.c), and a longer frame would block the ring.
const TAG: usize = 4;
/// How long all devices may take for what is left in their rings at the end.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);

/// Bytes in front of a packet in a packet ring's frame, and more.
const FRAME_HEAD: u32 = 64;

/// What a device says it dropped on the way out.
pub(crate) fn dropped_by(index: u32) -> Option<u64> {
    netlink::link_by_index(index).ok().map(|link| link.statistics.tx_dropped)
}

/// A packet ring onto an interface, whose frames hold what its MTU allows.
///
/// # Errors
/// Memory, privileges, the interface gone or down.
pub(crate) fn packet_ring(interface: &Interface, slots: u32) -> Result<TransmitRing> {
    let longest = interface.mtu.saturating_add((HEADER + TAG) as u32);
    let frame_size = longest.saturating_add(FRAME_HEAD).next_power_of_two().clamp(2048, 1 << 17);
    TransmitRing::open_packet(&interface.name, interface.index, slots, frame_size)
}

/// Where frames go.
pub(crate) enum Way {
    /// To an interface.
    Ring(TransmitRing),
    /// To a file's writer.
    Spool(SpoolProducer),
}

/// The end.
pub(crate) struct Port {
    way: Way,
    /// The interface's, as it is at the moment.
    mtu: Arc<AtomicU32>,
    waiting: usize,
    waiting_bytes: u64,
    /// Arrival stamps of what waits.
    stamps: [u64; BATCH],
    /// Of the frames that the kernel refused, those that are counted as lost.
    told: u64,
    /// Their bytes.
    told_bytes: u64,
}

impl Port {
    pub(crate) fn new(way: Way, mtu: Arc<AtomicU32>) -> Self {
        Self { way, mtu, waiting: 0, waiting_bytes: 0, stamps: [0; BATCH], told: 0, told_bytes: 0 }
    }

    /// Takes a packet, or counts why it can't. `true`: it is time to [flush](Self::flush).
    pub(crate) fn send(&mut self, packet: &Packet<'_>, counts: &PortCounts) -> bool {
        let sent = match &mut self.way {
            Way::Ring(ring) => into_ring(ring, self.mtu.load(Ordering::Relaxed) as usize, packet, counts),
            Way::Spool(spool) => {
                let has_room = spool.push(0, packet.arrival_ns, packet.wire_len, packet.data);
                has_room.then_some(()).ok_or(Cause::SlowOutput)
            }
        };
        match sent {
            Ok(()) => {
                self.waiting_bytes += packet.data.len() as u64;
                self.stamps[self.waiting] = packet.arrival_ns;
                self.waiting += 1;
            }
            Err(cause) => counts.drop(cause),
        }
        self.waiting == BATCH
    }

    /// Whether something waits to be [flushed](Self::flush).
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Hands over what waits, counts it, and notes how long it was here. Returns when to do so again, where the device did not take all.
    pub(crate) fn flush(&mut self, stamps: StampClock, counts: &PortCounts, inside: &Histogram) -> Option<Duration> {
        let again = match &mut self.way {
            Way::Ring(ring) => ring.kick(),
            Way::Spool(spool) => {
                spool.wake();
                None
            }
        };
        let waiting = std::mem::take(&mut self.waiting);
        let bytes = std::mem::take(&mut self.waiting_bytes);
        let (refused, refused_bytes) = self.newly_refused(waiting as u64, bytes);
        counts.drop_many(Cause::TooLong, refused);
        counts.forward(waiting as u64 - refused, bytes - refused_bytes);
        // Taken behind the system call: each packet was here at most so long.
        let now_ns = match stamps {
            _ if waiting == 0 => return again,
            StampClock::Monotonic => clock::monotonic_ns(),
            StampClock::Realtime => clock::realtime_ns(),
            StampClock::Taken | StampClock::Recorded => return again,
        };
        for &stamp_ns in self.stamps[..waiting].iter().filter(|stamp_ns| **stamp_ns > 0) {
            inside.record(now_ns.saturating_sub(stamp_ns));
        }
        again
    }

    /// How many frames and bytes a packet ring's kernel found too long since this was asked last, at most so many: the others are told
    /// later, so that no counter falls. An interface's MTU may have been changed, and that not be known yet.
    fn newly_refused(&mut self, most: u64, most_bytes: u64) -> (u64, u64) {
        let Way::Ring(ring) = &self.way else { return (0, 0) };
        if !ring.is_packet() {
            return (0, 0);
        }
        let fresh = (ring.refused() - self.told).min(most);
        let bytes = (ring.refused_bytes() - self.told_bytes).min(most_bytes);
        (self.told, self.told_bytes) = (self.told + fresh, self.told_bytes + bytes);
        (fresh, bytes)
    }

    /// Waits for what the device has not taken yet, until then; how many frames that were counted as forwarded did not leave, and why.
    pub(crate) fn settle(&mut self, until: Instant) -> [(Cause, u64); 2] {
        let Way::Ring(ring) = &mut self.way else { return [(Cause::NotSent, 0), (Cause::TooLong, 0)] };
        ring.kick();
        while ring.pending() > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            ring.kick();
        }
        if ring.is_silent() {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        let not_sent = (Cause::NotSent, ring.pending().into());
        let (cause, refused) = if ring.is_packet() {
            (Cause::TooLong, ring.refused() - self.told)
        } else {
            (Cause::InvalidDescriptor, ring.refused())
        };
        self.told = ring.refused();
        [not_sent, (cause, refused)]
    }
}

fn into_ring(
    ring: &mut TransmitRing,
    mtu: usize,
    packet: &Packet<'_>,
    counts: &PortCounts,
) -> std::result::Result<(), Cause> {
    let data = packet.data;
    if data.len() < packet.wire_len as usize {
        return Err(Cause::Cut);
    }
    if data.len() < HEADER {
        return Err(Cause::TooShort);
    }
    let may_be_longer = match data[12..14] {
        [0x81, 0x00] => true,
        [0x88, 0xa8] => !ring.is_packet(),
        _ => false,
    };
    if data.len() > mtu + HEADER + if may_be_longer { TAG } else { 0 } {
        return Err(Cause::TooLong);
    }
    if ring.lends() {
        return ring.forward(data).map(drop).ok_or(Cause::RingFull);
    }
    let queued = ring.send(|frame| {
        // A ring's frames hold what the MTU allowed when it was opened.
        let Some(frame) = frame.get_mut(..data.len()) else { return 0 };
        frame.copy_from_slice(data);
        if packet.checksum_pending && complete(frame) {
            counts.completed();
        }
        data.len()
    });
    match queued {
        Some(0) => Err(Cause::TooLong),
        Some(_) => Ok(()),
        None => Err(Cause::RingFull),
    }
}

/// Computes the transport checksum that this host left to a device (which an output is not told to do).
pub(crate) fn complete(frame: &mut [u8]) -> bool {
    let layers = Layers::parse(frame, LinkType::Ethernet);
    let Some(span) = layers.inner_ip().filter(|span| span.missing() == 0 && !span.is_source_routed()) else {
        return false;
    };
    let (field, at) = match layers.transport() {
        Some((Transport::Tcp, at)) => (at + 16, at),
        Some((Transport::Udp, at)) => (at + 6, at),
        _ => return false,
    };
    let Some((source, destination)) = span.view(frame).map(|ip| (ip.source(), ip.destination())) else { return false };
    let (end, is_tcp) = (span.end(), field == at + 16);
    let Some(bytes) = frame.get_mut(field..field + 2).filter(|_| field + 2 <= end) else { return false };
    bytes.fill(0);
    let segment = &frame[at..end];
    let sum =
        if is_tcp { checksum::tcp(source, destination, segment) } else { checksum::udp(source, destination, segment) };
    let Some(sum) = sum else { return false };
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

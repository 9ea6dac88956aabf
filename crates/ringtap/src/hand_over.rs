//! Both directions of a flow and all its fragments in one handler, where device and kernel spread them over several engines.
//!
//! Owns who handles a packet, the queues between engines, and the order in which an engine handles what came by them. A packet is
//! copied into the queue from the engine that received it to the engine that handles it, which may be the same one.
//!
//! **Who.** The pair of addresses decides, whatever the ports. A later fragment has no ports, and fragments may come in any order,
//! so nothing narrower puts fragments and the other packets of their flow together without keeping state of flows here.
//! What has no IP addresses stays where it came.
//!
//! **Order.** Each engine handles what is in its queues by arrival stamp, and only what is older than the bound within which every
//! engine looks at its packets: an answer that came to an engine of its own is not handled before its question. So a packet
//! is handled up to twice the bound after it came.
//!
//! **Bounds.** A full queue refuses the packet, which is counted ([`Counts::full`]). One wake-up (eventfd) at most for each other
//! engine at the end of a cycle.

mod owner;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;

use crate::burst::Packet;
use crate::engine::Handler;
use crate::error::Result;
use crate::source::StampClock;
use crate::sys::clock;
use crate::sys::event::Event;
use crate::transmit::Outbox;
use queue::{Incoming, Outgoing};
use ringtap_wire::LinkType;

/// Bytes of all queues to one engine together, and of one of them at least: a merged packet of 64 KiB fits.
const INCOMING_BYTES: usize = 8 << 20;
const LEAST_BYTES: usize = 256 << 10;

/// A handler that gets all packets of its flows, from whichever engine; alone it is just the handler inside.
pub struct HandOver<H> {
    inner: H,
    mesh: Option<Mesh>,
    counts: Arc<Counts>,
}

/// What one engine handed to others. Written by its thread, read by anyone.
#[derive(Debug, Default)]
pub struct Counts {
    handed_over: AtomicU64,
    full: AtomicU64,
}

impl Counts {
    /// Packets that other engines handle.
    pub fn handed_over(&self) -> u64 {
        self.handed_over.load(Ordering::Relaxed)
    }

    /// Packets lost because a queue was full.
    pub fn full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }
}

/// One engine's ends of all queues.
struct Mesh {
    own: usize,
    link: LinkType,
    stamps: StampClock,
    hold_ns: u64,
    /// To each engine, this one included.
    outgoing: Vec<Outgoing>,
    /// From each engine.
    incoming: Vec<Incoming>,
    /// Room for one packet, as long as a queue.
    whole: Vec<u8>,
    members: Arc<[Member]>,
    /// The others may believe that this engine sleeps.
    resting: bool,
    /// How long the earliest packet here has to wait.
    next_ns: Option<u64>,
}

/// What engines know of each other.
struct Member {
    /// Nothing is in its queues and it is about to sleep, or does.
    asleep: AtomicBool,
    bell: Arc<Event>,
    /// Its device is gone: others handle its flows.
    retired: AtomicBool,
}

/// Bytes of each queue among so many engines.
fn queue_bytes(engines: usize) -> usize {
    (INCOMING_BYTES / engines.max(1)).max(LEAST_BYTES)
}

/// Bytes that all queues among so many engines take.
pub(crate) fn memory_bytes(engines: usize) -> usize {
    engines * (engines + 1) * queue_bytes(engines)
}

impl<H> HandOver<H> {
    /// A handler whose engine gets whole flows anyway.
    pub fn alone(inner: H) -> Self {
        Self { inner, mesh: None, counts: Arc::default() }
    }

    /// Handlers of engines among which flows are spread: of one link type, with stamps of one clock. `bound` is how long a packet
    /// waits at most until its engine looks at it.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn among(handlers: Vec<H>, link: LinkType, stamps: StampClock, bound: Duration) -> Result<Vec<Self>> {
        let count = handlers.len();
        if count < 2 {
            return Ok(handlers.into_iter().map(Self::alone).collect());
        }
        let bytes = queue_bytes(count);
        let member = |_| {
            let bell = Arc::new(Event::new()?);
            Ok(Member { asleep: AtomicBool::new(false), bell, retired: AtomicBool::new(false) })
        };
        let members: Arc<[Member]> = (0..count).map(member).collect::<Result<Vec<_>>>()?.into();
        let mut outgoing: Vec<Vec<Outgoing>> = (0..count).map(|_| Vec::new()).collect();
        let mut incoming = Vec::new();
        for _ in 0..count {
            let (out, own): (Vec<Outgoing>, Vec<Incoming>) = (0..count).map(|_| queue::queue(bytes)).unzip();
            for (from, out) in outgoing.iter_mut().zip(out) {
                from.push(out);
            }
            incoming.push(own);
        }
        let ends = outgoing.into_iter().zip(incoming).enumerate();
        let join = |(inner, (own, (outgoing, incoming)))| {
            let mesh = Mesh {
                own,
                link,
                stamps,
                hold_ns: u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX),
                outgoing,
                incoming,
                whole: Vec::with_capacity(bytes),
                members: Arc::clone(&members),
                resting: false,
                next_ns: None,
            };
            Self { inner, mesh: Some(mesh), counts: Arc::default() }
        };
        Ok(handlers.into_iter().zip(ends).map(join).collect())
    }

    /// What its engine handed over.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// The handler inside.
    pub fn into_inner(self) -> H {
        self.inner
    }
}

impl<H: Handler> Handler for HandOver<H> {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        match &mut self.mesh {
            None => self.inner.packet(packet, outbox),
            Some(mesh) => mesh.queue(packet, &self.counts),
        }
    }

    fn cycle_end(&mut self, outbox: &mut Outbox<'_>) {
        if let Some(mesh) = &mut self.mesh {
            mesh.wake_others();
            let now_ns = mesh.now_ns();
            mesh.handle(Some(now_ns), &mut self.inner, outbox);
            self.inner.cycle_end(outbox);
            mesh.rest(now_ns);
        } else {
            self.inner.cycle_end(outbox);
        }
    }

    fn next_turn(&self) -> Option<Duration> {
        self.mesh.as_ref().and_then(|mesh| mesh.next_ns).map(Duration::from_nanos)
    }

    fn bell(&self) -> Option<Arc<Event>> {
        self.mesh.as_ref().map(|mesh| Arc::clone(&mesh.members[mesh.own].bell))
    }

    fn retired(&mut self) {
        if let Some(mesh) = &self.mesh {
            mesh.members[mesh.own].retired.store(true, Ordering::Relaxed);
        }
    }

    fn all_ended(&mut self, outbox: &mut Outbox<'_>) {
        if let Some(mesh) = &mut self.mesh {
            mesh.handle(None, &mut self.inner, outbox);
        }
        self.inner.cycle_end(outbox);
    }
}

impl Mesh {
    /// Copies the packet to who handles it.
    fn queue(&mut self, packet: &Packet<'_>, counts: &Counts) {
        if std::mem::take(&mut self.resting) {
            self.members[self.own].asleep.store(false, Ordering::Relaxed);
        }
        let to = owner::hash(packet.data, self.link).map_or(self.own, |hash| self.of(hash));
        // A frame without a stamp came just now.
        let arrival_ns = if packet.arrival_ns == 0 { self.now_ns() } else { packet.arrival_ns };
        let add = |count: &AtomicU64| count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if !self.outgoing[to].push(&Packet { arrival_ns, ..*packet }) {
            add(&counts.full);
        } else if to != self.own {
            add(&counts.handed_over);
        }
    }

    /// The engine of a pair of addresses. The next one stands in for one that is gone.
    fn of(&self, hash: u32) -> usize {
        let count = self.members.len();
        let first = hash as usize % count;
        let present = |index: &usize| !self.members[*index].retired.load(Ordering::Relaxed);
        (0..count).map(|step| (first + step) % count).find(present).unwrap_or(self.own)
    }

    /// Wakes engines that sleep and have got packets since the last cycle.
    fn wake_others(&mut self) {
        let own = self.own;
        let others = self.outgoing.iter_mut().zip(self.members.iter()).enumerate().filter(|(index, _)| *index != own);
        for (_, (outgoing, member)) in others {
            if outgoing.take_pushed() {
                // Pushed, fence, looked; the sleeper says that it sleeps, fences and looks: one sees the other.
                fence(Ordering::SeqCst);
                if member.asleep.swap(false, Ordering::Relaxed) {
                    member.bell.signal();
                }
            }
        }
    }

    /// Handles what waits here, by arrival: what is due at `now_ns`, or everything.
    fn handle(&mut self, now_ns: Option<u64>, inner: &mut impl Handler, outbox: &mut Outbox<'_>) {
        loop {
            let heads = self.incoming.iter_mut().enumerate().filter_map(|(from, queue)| Some((from, queue.peek()?)));
            let Some((from, head)) = heads.min_by_key(|(_, head)| head.arrival_ns) else { return };
            if now_ns.is_some_and(|now_ns| self.wait_ns(head.arrival_ns, now_ns) > 0) {
                return;
            }
            self.incoming[from].take(&mut self.whole, |packet| inner.packet(packet, outbox));
        }
    }

    /// How long a packet still has to wait. One that comes from the future waits for nothing: the clock was set.
    fn wait_ns(&self, arrival_ns: u64, now_ns: u64) -> u64 {
        if arrival_ns > now_ns.saturating_add(self.hold_ns) {
            return 0;
        }
        arrival_ns.saturating_add(self.hold_ns).saturating_sub(now_ns)
    }

    /// Before the engine sleeps: has itself woken for what comes, and sees to what waits.
    fn rest(&mut self, now_ns: u64) {
        self.members[self.own].asleep.store(true, Ordering::Relaxed);
        self.resting = true;
        fence(Ordering::SeqCst);
        let earliest = self.incoming.iter_mut().filter_map(Incoming::peek).map(|head| head.arrival_ns).min();
        self.next_ns = earliest.map(|arrival_ns| self.wait_ns(arrival_ns, now_ns));
    }

    fn now_ns(&self) -> u64 {
        if self.stamps == StampClock::Monotonic { clock::monotonic_ns() } else { clock::realtime_ns() }
    }
}

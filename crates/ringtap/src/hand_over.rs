//! Both directions of a flow and all its fragments in one handler, where device and kernel spread them over several engines, or
//! one ring feeds several handlers.
//!
//! Owns who handles a packet, the queues between engines, and the order in which an engine handles what came by them. A packet is
//! copied into the queue from the engine that received it to the engine that handles it, which may be the same one. An engine
//! need not have a ring: it handles what others receive.
//!
//! **Who.** The pair of addresses decides, whatever the ports. A later fragment has no ports, and fragments may come in any order,
//! so nothing narrower puts fragments and the other packets of their flow together without keeping state of flows here.
//! What has no IP addresses stays where it came.
//!
//! **Order.** Each engine handles what is in its queues by arrival stamp, and only what is older than the bound within which every
//! engine looks at its packets: an answer that came to an engine of its own is not handled before its question. So a packet
//! is handled up to twice the bound after it came. What one ring alone receives is in order, and nothing is held.
//!
//! **Turns.** An engine handles a slice of what is due at a time: at the end of a cycle, and in between where its ring does not run
//! empty. So a flood ends neither the handling nor the emptying of the ring, and others get the core between two slices.
//!
//! **Bounds.** A full queue refuses the packet, which is counted ([`Counts::full`]). One wake-up (eventfd) at most for each other
//! engine each time that engine sleeps.

mod owner;
mod queue;
mod reach;
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
use crate::sys::fanout;
use crate::transmit::Outbox;
use queue::{Incoming, Outgoing};
pub use reach::Reach;
use reach::Reaching;
use ringtap_wire::LinkType;

/// What all engines' queues hold together at least, and one queue: two merged packets of 64 KiB.
const WAITING_BYTES: u64 = 4 << 20;
const LEAST_BYTES: u64 = 160 << 10;
/// How long packets are on average at the peak rate, with what stands before each in a queue: 6 Gbit/s at 1.5 million a second.
const PACKET_BYTES: u64 = 512;

/// Packets that are received before others are woken, and what is due is handled.
const RECEIVED: u32 = 64;
/// Packets that are handled at once: more than are received, so that an engine catches up.
const SLICE: usize = 4 * RECEIVED as usize;

/// A handler that gets all packets of its flows, from whichever engine; alone it is just the handler inside.
pub struct HandOver<H> {
    inner: H,
    mesh: Option<Mesh>,
    counts: Arc<Counts>,
    /// Where somebody asks how far its engine is.
    reaching: Option<Reaching>,
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
    /// To each engine, this one included; none without a ring.
    outgoing: Vec<Outgoing>,
    /// From each engine with a ring.
    incoming: Vec<Incoming>,
    /// Known to nobody, so that no sender can aim at the engine of somebody else's flow.
    secret: u32,
    /// Room for one packet, as long as a queue.
    whole: Vec<u8>,
    members: Arc<[Member]>,
    /// The others may believe that this engine sleeps.
    resting: bool,
    /// How long the earliest packet here has to wait; zero: it is due.
    next_ns: Option<u64>,
    /// Packets received since others were woken.
    received: u32,
}

/// Where an engine's packets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// A ring of its own, and the queues.
    Ring,
    /// The queues alone.
    Queues,
}

/// What engines know of each other.
struct Member {
    supply: Supply,
    /// Nothing is in its queues and it is about to sleep, or does.
    asleep: AtomicBool,
    reach: Arc<Reach>,
    /// Its device is gone: others handle its flows.
    retired: AtomicBool,
}

/// What the queues have to be ready for.
#[derive(Debug, Clone, Copy)]
pub struct Demand {
    /// How long a packet waits at most until the engine that receives it looks at it.
    pub bound: Duration,
    /// Greatest rate of all engines together, packets per second.
    pub peak_pps: f64,
}

impl Demand {
    /// Bytes of each queue from so many engines that receive to so many that handle, the former among them.
    ///
    /// A packet lies in its queue for about the bound, and for twice that where its engine comes late. Neither receiving nor handling
    /// is spread evenly: each engine may have twice its share of both, and two engines all.
    fn queue_bytes(self, rings: usize, engines: usize) -> usize {
        let waiting_s = 2.0 * self.bound.as_secs_f64();
        let waiting = (self.peak_pps * waiting_s * PACKET_BYTES as f64) as u64;
        let pairs = (rings * engines).max(1) as u64;
        let bytes = (waiting.max(WAITING_BYTES).saturating_mul(4) / pairs).max(LEAST_BYTES);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Bytes that all queues from so many engines that receive to so many that handle take: four times what waits, and from then on
    /// [`LEAST_BYTES`] for each pair of engines.
    pub(crate) fn memory_bytes(self, rings: usize, engines: usize) -> u64 {
        (engines as u64).saturating_mul(rings as u64 + 1).saturating_mul(self.queue_bytes(rings, engines) as u64)
    }
}

impl<H> HandOver<H> {
    /// A handler whose engine gets whole flows anyway.
    pub fn alone(inner: H) -> Self {
        Self { inner, mesh: None, counts: Arc::default(), reaching: None }
    }

    /// Handlers of engines among which flows are spread, with what supplies each: of one link type, with stamps of one clock.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn among(handlers: Vec<(H, Supply)>, link: LinkType, stamps: StampClock, demand: Demand) -> Result<Vec<Self>> {
        let count = handlers.len();
        if count < 2 {
            return Ok(handlers.into_iter().map(|(inner, _)| Self::alone(inner)).collect());
        }
        let supplies: Vec<Supply> = handlers.iter().map(|&(_, supply)| supply).collect();
        let rings = supplies.iter().filter(|&&supply| supply == Supply::Ring).count();
        let bytes = demand.queue_bytes(rings, count);
        let secret = fanout::secret();
        let hold = if rings > 1 { demand.bound } else { Duration::ZERO };
        let member = |&supply| {
            let reach = Arc::new(Reach::new(stamps, Arc::new(Event::new()?)));
            Ok(Member { supply, asleep: AtomicBool::new(false), reach, retired: AtomicBool::new(false) })
        };
        let members: Arc<[Member]> = supplies.iter().map(member).collect::<Result<Vec<_>>>()?.into();
        let mut outgoing: Vec<Vec<Outgoing>> = (0..count).map(|_| Vec::new()).collect();
        let mut incoming = Vec::new();
        for _ in 0..count {
            let (out, own): (Vec<Outgoing>, Vec<Incoming>) = (0..rings).map(|_| queue::queue(bytes)).unzip();
            let receiving = outgoing.iter_mut().zip(&supplies).filter(|(_, supply)| **supply == Supply::Ring);
            for ((from, _), out) in receiving.zip(out) {
                from.push(out);
            }
            incoming.push(own);
        }
        let ends = outgoing.into_iter().zip(incoming).enumerate();
        let join = |((inner, _), (own, (outgoing, incoming)))| {
            let mesh = Mesh {
                own,
                link,
                secret,
                stamps,
                hold_ns: u64::try_from(hold.as_nanos()).unwrap_or(u64::MAX),
                outgoing,
                incoming,
                whole: Vec::with_capacity(bytes),
                members: Arc::clone(&members),
                resting: false,
                next_ns: None,
                received: 0,
            };
            Self { inner, mesh: Some(mesh), counts: Arc::default(), reaching: None }
        };
        Ok(handlers.into_iter().zip(ends).map(join).collect())
    }

    /// What its engine handed over.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// Has its engine say how far it is, by stamps of this clock. To be asked for all engines of a program or none, before they run.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn reach(&mut self, stamps: StampClock) -> Result<Arc<Reach>> {
        let reach = match &self.mesh {
            Some(mesh) => Arc::clone(&mesh.members[mesh.own].reach),
            None => Arc::new(Reach::new(stamps, Arc::new(Event::new()?))),
        };
        self.reaching = Some(Reaching::new(Arc::clone(&reach)));
        Ok(reach)
    }

    /// The handler inside.
    pub fn into_inner(self) -> H {
        self.inner
    }
}

impl<H: Handler> Handler for HandOver<H> {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        let Self { inner, mesh, counts, reaching } = self;
        match mesh {
            None => inner.packet(packet, outbox),
            Some(mesh) => mesh.queue(packet, counts),
        }
        if let Some(reaching) = reaching {
            reaching.packet(packet.arrival_ns, mesh.is_some());
        }
        if let Some(mesh) = mesh {
            mesh.received += 1;
            if mesh.received == RECEIVED {
                mesh.wake_others();
                mesh.handle_slice(mesh.now_ns(), inner, outbox);
                mesh.tell(reaching);
            }
        }
    }

    fn cycle_end(&mut self, outbox: &mut Outbox<'_>) {
        let Self { inner, mesh, reaching, .. } = self;
        if let (Some(reaching), Some(_)) = (&mut *reaching, &mesh) {
            reaching.is_empty(true);
        }
        if let Some(mesh) = mesh {
            mesh.wake_others();
            let now_ns = mesh.now_ns();
            if mesh.handle_slice(now_ns, inner, outbox) {
                mesh.next_ns = Some(0);
            } else {
                inner.cycle_end(outbox);
                mesh.rest(now_ns);
            }
            mesh.tell(reaching);
        } else {
            inner.cycle_end(outbox);
            if let Some(reaching) = reaching {
                reaching.is_empty(false);
            }
        }
    }

    fn next_turn(&self) -> Option<Duration> {
        let own = self.mesh.as_ref().and_then(|mesh| mesh.next_ns).map(Duration::from_nanos);
        [own, self.inner.next_turn()].into_iter().flatten().min()
    }

    fn bell(&self) -> Option<Arc<Event>> {
        let mesh = self.mesh.as_ref().map(|mesh| &mesh.members[mesh.own].reach);
        mesh.or(self.reaching.as_ref().map(|reaching| &reaching.shared)).map(|reach| Arc::clone(reach.bell()))
    }

    fn retired(&mut self, outbox: &mut Outbox<'_>) {
        if let Some(mesh) = &mut self.mesh {
            mesh.members[mesh.own].retired.store(true, Ordering::Relaxed);
            // What waited here, and what others pushed before they saw it, in its time.
            let now_ns = mesh.now_ns();
            while mesh.handle(Some(now_ns), &mut self.inner, outbox) {}
        }
        // It says nothing more, and holds nobody up, once nothing waits here.
        if let Some(reaching) = &self.reaching
            && self.mesh.as_mut().is_none_or(Mesh::is_empty)
        {
            reaching.shared.end();
        }
        self.inner.retired(outbox);
    }

    fn all_ended(&mut self, outbox: &mut Outbox<'_>) {
        if let Some(mesh) = &mut self.mesh {
            while mesh.handle(None, &mut self.inner, outbox) {}
        }
        self.inner.cycle_end(outbox);
        self.inner.all_ended(outbox);
    }
}

/// Of an engine that panicked too: its thread takes the handler along.
impl Drop for Mesh {
    fn drop(&mut self) {
        self.members[self.own].retired.store(true, Ordering::Relaxed);
    }
}

impl Mesh {
    /// Copies the packet to who handles it.
    fn queue(&mut self, packet: &Packet<'_>, counts: &Counts) {
        if std::mem::take(&mut self.resting) {
            self.members[self.own].asleep.store(false, Ordering::Relaxed);
        }
        let to = owner::hash(packet.data, self.link, self.secret).map_or(self.own, |hash| self.of(hash));
        // A frame without a stamp came just now.
        let arrival_ns = if packet.arrival_ns == 0 { self.now_ns() } else { packet.arrival_ns };
        let add = |count: &AtomicU64| count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if !self.outgoing[to].push(&Packet { arrival_ns, ..*packet }) {
            add(&counts.full);
        } else if to != self.own {
            add(&counts.handed_over);
        }
    }

    /// The engine of a pair of addresses. Those that are there share out what one was to handle that is gone.
    fn of(&self, hash: u32) -> usize {
        let (hash, count) = (hash as usize, self.members.len());
        let is_present = |index: &usize| !self.members[*index].retired.load(Ordering::Relaxed);
        let first = hash % count;
        if is_present(&first) {
            return first;
        }
        let present = (0..count).filter(is_present).count();
        (0..count).filter(is_present).nth(hash / count % present.max(1)).unwrap_or(self.own)
    }

    /// Wakes engines that sleep and have got packets since the last cycle.
    fn wake_others(&mut self) {
        self.received = 0;
        let own = self.own;
        let others = self.outgoing.iter_mut().zip(self.members.iter()).enumerate().filter(|(index, _)| *index != own);
        for (_, (outgoing, member)) in others {
            if outgoing.take_pushed() {
                // Pushed, fence, looked; the sleeper says that it sleeps, fences and looks: one sees the other.
                fence(Ordering::SeqCst);
                if member.asleep.swap(false, Ordering::Relaxed) {
                    member.reach.ring();
                }
            }
        }
    }

    /// Whether no packet waits here.
    fn is_empty(&mut self) -> bool {
        self.incoming.iter_mut().all(|queue| queue.peek().is_none())
    }

    /// Handles what is due, a slice at most; whether more is.
    fn handle_slice(&mut self, now_ns: u64, inner: &mut impl Handler, outbox: &mut Outbox<'_>) -> bool {
        (0..SLICE).all(|_| self.handle(Some(now_ns), inner, outbox))
    }

    /// Handles the earliest packet that waits here, if it is due at `now_ns`; without a time any is. Whether there was one.
    fn handle(&mut self, now_ns: Option<u64>, inner: &mut impl Handler, outbox: &mut Outbox<'_>) -> bool {
        let heads = self.incoming.iter_mut().enumerate().filter_map(|(from, queue)| Some((from, queue.peek()?)));
        let Some((from, head)) = heads.min_by_key(|(_, head)| head.arrival_ns) else { return false };
        if now_ns.is_some_and(|now_ns| self.wait_ns(head.arrival_ns, now_ns) > 0) {
            return false;
        }
        self.incoming[from].take(&mut self.whole, |packet| inner.packet(packet, outbox));
        true
    }

    /// Says how far this engine is: as far as all have received, but for what waits here.
    fn tell(&mut self, reaching: &mut Option<Reaching>) {
        let Some(reaching) = reaching else { return };
        // Read before the queues: what was received by then is handled or waits here.
        let receiving = self.members.iter().filter(|member| member.supply == Supply::Ring);
        let Some(received) = Reaching::least_received(receiving.map(|member| &*member.reach)) else { return };
        let earliest = self.incoming.iter_mut().filter_map(Incoming::peek).map(|head| head.arrival_ns).min();
        reaching.handled(earliest.map_or(received, |arrival_ns| received.min(arrival_ns.saturating_sub(1))));
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

//! Owns: the flow table: fixed size, time-outs by protocol and state, emergency when it is nearly full; the flow used
//! longest ago makes room, of those first that are the easiest to make up.
//! Does not: follow TCP (see `session.rs`) or write records.

use ringtap_wire::{Direction, FlowKey, protocol};

use super::session::{Session, State};
use crate::alert::FlowEnd;
use crate::fixed_vec::{FixedVec, SpareVisitor};
use crate::protocol::App;
use crate::use_order::Owner;

const NONE: u32 = u32::MAX;
/// Flows looked at for their time-out each [`SWEEP_NS`], and at each packet in an emergency.
const SWEEP: usize = 4;
const EMERGENCY_SWEEP: usize = 16;
/// So large a part of the table is left to flows of each standing but the best.
const SHARE: usize = 16;
/// Between two looks: a table of a million flows is gone through in 2.5 s, if packets come as often.
const SWEEP_NS: u64 = 10_000;

/// What is still to be inspected of a flow, besides the bytes that its streams are behind by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owed {
    /// What is there of a message, as its side has said that it sends no more; so much of the other side's came before that.
    pub(crate) pause: [Option<u64>; 2],
    /// All that is left: the session or the flow is over.
    pub(crate) end: bool,
    /// Of each side its first bytes were looked at, at its end: what follows lies behind gaps.
    pub(crate) settled: [bool; 2],
    /// The flow has left the table, for this reason.
    pub(crate) leaves: Option<FlowEnd>,
    /// What lies behind gaps: both sides have been silent so long that nobody fills them.
    pub(crate) gaps: bool,
}

impl Owed {
    /// What lies behind gaps is to be inspected, too.
    pub(crate) fn passes_gaps(&self) -> bool {
        self.end || self.gaps
    }
}

/// A flow.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Number, from 1, never used twice.
    pub(crate) id: u64,
    pub(crate) key: FlowKey,
    /// IP headers around its packets: what is in a tunnel is not what goes beside it.
    pub(crate) level: u8,
    /// Direction of the client's packets: of the first one.
    pub(crate) client: Direction,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    /// Packets and bytes of client and server.
    pub(crate) packets: [u64; 2],
    pub(crate) bytes: [u64; 2],
    /// Least and greatest hop limit of client and server.
    pub(crate) hop_limits: [(u8, u8); 2],
    pub(crate) session: Session,
    /// A pass rule matched.
    pub(crate) passed: bool,
    /// Rules of addresses alone were looked at.
    pub(crate) addresses_done: [bool; 2],
    /// Alerts so far.
    pub(crate) alerts: u64,
    /// Position of the next message of each side that a parser of the application's protocol wants.
    pub(crate) app_next: [u64; 2],
    /// Position at which the last message of each side begins that was begun to be read.
    pub(crate) app_last: [u64; 2],
    /// What the application speaks, once it is known.
    pub(crate) app: Option<App>,
    /// What one side says instead, as another connection has announced it: the other side's bytes are of `app`.
    pub(crate) announced: [Option<App>; 2],
    /// It became known by the packet at hand.
    pub(crate) app_is_new: bool,
    /// Nothing more is to be learnt from the application's messages.
    pub(crate) app_done: [bool; 2],
    /// Transactions that were told, of protocols that do not number theirs themselves.
    pub(crate) transactions: u32,
    pub(crate) owed: Owed,
    /// Both sides are silent, its record is told; it stays, so that what they say later is read as what it is.
    pub(crate) rests: bool,
    chain: u32,
    used: bool,
}

impl Flow {
    /// Whether both sides were seen; of TCP, whether they agreed on a session.
    pub(crate) fn is_established(&self) -> bool {
        if self.key.protocol() == protocol::TCP {
            self.session.state >= State::Established
        } else {
            self.packets[0] > 0 && self.packets[1] > 0
        }
    }

    /// Both sides have agreed on a session before our eyes, and have not ended it.
    pub(crate) fn has_agreed(&self) -> bool {
        let session = &self.session;
        let is_open = matches!(session.state, State::Established | State::Closing);
        is_open && !session.is_picked_up && self.key.protocol() == protocol::TCP
    }

    /// What this side speaks, once it is known.
    pub(crate) fn app_of(&self, side: usize) -> Option<App> {
        self.announced[side].or(self.app)
    }

    /// Whether anything of it is still to be inspected that has come.
    pub(crate) fn owes(&self) -> bool {
        self.owed.end || self.owed.gaps || self.owed.pause != [None; 2] || self.session.is_behind()
    }
}

/// Time-outs in seconds, as Suricata's packaged configuration has them: new, established, closed; usual and in an
/// emergency.
fn timeout_s(flow: &Flow, emergency: bool) -> u64 {
    let tcp = flow.key.protocol() == protocol::TCP;
    let closed = tcp && flow.session.state == State::Closed;
    match (tcp, flow.is_established(), closed, emergency) {
        (true, _, true, false) => 60,
        (true, _, true, true) => 10,
        (true, true, false, false) => 600,
        (true, true, false, true) => 100,
        (true, false, false, false) => 60,
        (false, true, _, false) => 300,
        (false, true, _, true) => 100,
        (false, false, _, false) => 30,
        (_, false, _, true) => 10,
    }
}

/// Places of a table for `capacity` flows: a sixteenth more are for those that have left it and are still to be inspected.
fn slots(capacity: usize) -> usize {
    capacity + capacity.div_ceil(SHARE)
}

/// The shortest of them, usual and in an emergency.
const SHORTEST_S: [u64; 2] = [30, 10];

/// What each packet of any flow reads and writes of some others: kept apart, so that these stay in the cache.
#[derive(Clone, Copy, Debug)]
struct Recent {
    last_ns: u64,
    newer: u32,
    older: u32,
    standing: Standing,
}

/// How hard a flow is to make up: those of the easiest kind give their places up first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nobody has answered.
    Unproven,
    /// Answered within a tunnel: whoever sends datagrams to its end writes both sides.
    Tunnelled,
    /// Answered, without a handshake: two packets with forged addresses look like it.
    Answered,
    /// A TCP session.
    Agreed,
}

impl Standing {
    const COUNT: usize = Self::Agreed as usize + 1;
}

/// What is to be done with a flow whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// It ends.
    End(usize),
    /// Its record is told, and it stays.
    Rest(usize),
}

/// Flows from the newest to the oldest.
#[derive(Clone, Copy, Debug)]
struct Order {
    newest: u32,
    oldest: u32,
    count: usize,
}

impl Order {
    const EMPTY: Self = Self { newest: NONE, oldest: NONE, count: 0 };
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounters {
    /// Flows begun.
    pub begun: u64,
    /// Ended by their time-out.
    pub timed_out: u64,
    /// Ended because another one needed the place.
    pub evicted: u64,
    /// Times the table became nearly full.
    pub emergencies: u64,
}

pub(crate) struct Flows {
    flows: FixedVec<Flow>,
    recent: FixedVec<Recent>,
    capacity: usize,
    /// Flows that have left the table and are still to be inspected.
    leaving: usize,
    buckets: Vec<u32>,
    free: u32,
    /// Those of each standing.
    orders: [Order; Standing::COUNT],
    pub(crate) count: usize,
    seed: u64,
    hand: usize,
    swept_ns: u64,
    next_id: u64,
    emergency: bool,
    /// Bits of each flow, one after the other.
    bits: FixedVec<u64>,
    words: usize,
    pub(crate) counters: FlowCounters,
}

impl Flows {
    /// Room for `capacity` flows with `bits` bits each.
    pub(crate) fn new(capacity: usize, bits: usize, seed: u64) -> Self {
        let capacity = capacity.clamp(2, 1 << 28);
        let (words, slots) = (bits.div_ceil(64), slots(capacity));
        Self {
            flows: FixedVec::with_capacity(slots),
            recent: FixedVec::with_capacity(slots),
            capacity,
            leaving: 0,
            buckets: vec![NONE; capacity.next_power_of_two()],
            free: NONE,
            orders: [Order::EMPTY; Standing::COUNT],
            count: 0,
            seed,
            hand: 0,
            swept_ns: 0,
            next_id: 1,
            emergency: false,
            bits: FixedVec::with_capacity(slots * words),
            words,
            counters: FlowCounters::default(),
        }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.flows.show_spare(to);
        self.recent.show_spare(to);
        self.bits.show_spare(to);
    }

    /// Flows that there can be, those that leave included.
    pub(crate) fn slots(&self) -> usize {
        slots(self.capacity)
    }

    fn bucket(&self, key: &FlowKey, level: u8) -> usize {
        key.stable_hash(self.seed ^ u64::from(level)) as usize & (self.buckets.len() - 1)
    }

    /// The flow's index.
    pub(crate) fn find(&self, key: &FlowKey, level: u8) -> Option<usize> {
        let mut at = self.buckets[self.bucket(key, level)];
        while at != NONE {
            let flow = &self.flows[at as usize];
            if flow.key == *key && flow.level == level {
                return Some(at as usize);
            }
            at = flow.chain;
        }
        None
    }

    /// The flow as pools know it: one that was picked up is as easy to make up as one in a tunnel.
    pub(crate) fn owner(&self, index: usize) -> Owner {
        let flow = &self.flows[index];
        Owner { flow: index, is_tunnelled: flow.level > 0 || flow.session.is_picked_up }
    }

    pub(crate) fn get(&self, index: usize) -> &Flow {
        &self.flows[index]
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> &mut Flow {
        &mut self.flows[index]
    }

    /// One of the next few flows in turn, if its time is over: it should end now, or rest. The caller ends it by [`Flows::end`].
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<Due> {
        // A clock that goes back is no reason to wait for it.
        if !self.emergency && now_ns.wrapping_sub(self.swept_ns) < SWEEP_NS {
            return None;
        }
        self.swept_ns = now_ns;
        for _ in 0..if self.emergency { EMERGENCY_SWEEP } else { SWEEP } {
            if self.flows.is_empty() {
                return None;
            }
            self.hand = if self.hand + 1 < self.flows.len() { self.hand + 1 } else { 0 };
            let idle_ns = now_ns.saturating_sub(self.recent[self.hand].last_ns);
            if idle_ns > self.shortest_ns() && self.flows[self.hand].used && self.is_over(self.hand, now_ns) {
                let rests = self.flows[self.hand].rests;
                if rests && self.may_stay(self.hand) {
                    continue;
                }
                if self.may_stay(self.hand) {
                    return Some(Due::Rest(self.hand));
                }
                self.counters.timed_out += u64::from(!rests);
                return Some(Due::End(self.hand));
            }
        }
        None
    }

    /// Whether a flow keeps its place beyond its time: what sessions say that both sides agreed on is read however long they were
    /// silent, until they have half of the table: well below where an emergency ends, or they would keep it up. Those in tunnels count
    /// with all others, as one sender may make many up.
    fn may_stay(&self, index: usize) -> bool {
        let count = match self.recent[index].standing {
            Standing::Agreed => self.orders[Standing::Agreed as usize].count,
            _ => self.count,
        };
        self.flows[index].has_agreed() && count * 2 < self.capacity
    }

    /// A flow goes on that has rested: what is counted of it begins anew, under another number.
    pub(crate) fn wake(&mut self, index: usize, now_ns: u64) {
        let flow = &mut self.flows[index];
        (flow.id, flow.first_ns, flow.last_ns, flow.alerts, flow.rests) = (self.next_id, now_ns, now_ns, 0, false);
        (flow.packets, flow.bytes, flow.hop_limits) = ([0; 2], [0; 2], [(u8::MAX, 0); 2]);
        flow.session.flags = [0; 2];
        self.next_id += 1;
        self.counters.begun += 1;
    }

    /// Whether a flow's time is over.
    #[inline]
    pub(crate) fn is_over(&self, index: usize, now_ns: u64) -> bool {
        let flow = &self.flows[index];
        let idle_ns = now_ns.saturating_sub(flow.last_ns);
        idle_ns > self.shortest_ns() && idle_ns > timeout_s(flow, self.emergency) * 1_000_000_000
    }

    /// No flow's time is shorter.
    #[inline]
    fn shortest_ns(&self) -> u64 {
        SHORTEST_S[usize::from(self.emergency)] * 1_000_000_000
    }

    /// The flow that has to go before another one can begin, if the table is full: one that nobody answered, or else one that
    /// was answered in a tunnel, or one of datagrams, unless those are so few that a new one would have no time to prove itself.
    pub(crate) fn in_the_way(&mut self) -> Option<usize> {
        if self.count < self.capacity {
            return None;
        }
        self.counters.evicted += 1;
        // One of the four has more than a sixteenth of a full table.
        let first = self.orders.iter().find(|order| order.count > self.capacity / SHARE)?;
        Some(first.oldest as usize)
    }

    /// Begins a flow; there must be room.
    pub(crate) fn begin(&mut self, key: FlowKey, level: u8, client: Direction, now_ns: u64) -> usize {
        let bucket = self.bucket(&key, level);
        let flow = Flow {
            id: self.next_id,
            key,
            level,
            client,
            first_ns: now_ns,
            last_ns: now_ns,
            packets: [0; 2],
            bytes: [0; 2],
            hop_limits: [(u8::MAX, 0); 2],
            session: Session::default(),
            passed: false,
            addresses_done: [false; 2],
            alerts: 0,
            app_next: [0; 2],
            app_last: [0; 2],
            app: None,
            announced: [None; 2],
            app_is_new: false,
            app_done: [false; 2],
            transactions: 0,
            owed: Owed::default(),
            rests: false,
            chain: self.buckets[bucket],
            used: true,
        };
        self.next_id += 1;
        self.counters.begun += 1;
        let index = match self.free {
            NONE => {
                self.flows.push(flow);
                self.recent.push(Recent { last_ns: now_ns, newer: NONE, older: NONE, standing: Standing::Unproven });
                self.bits.reach(self.flows.len() * self.words, 0);
                self.flows.len() - 1
            }
            free => {
                self.free = self.flows[free as usize].chain;
                self.flows[free as usize] = flow;
                self.bits[free as usize * self.words..][..self.words].fill(0);
                free as usize
            }
        };
        self.recent[index].last_ns = now_ns;
        self.recent[index].standing = Standing::Unproven;
        self.buckets[bucket] = index as u32;
        self.count += 1;
        self.make_newest(index);
        let nearly_full = self.count * 10 > self.capacity * 9;
        if nearly_full && !self.emergency {
            self.counters.emergencies += 1;
        }
        // Out of it again below 70 %.
        self.emergency = nearly_full || (self.emergency && self.count * 10 > self.capacity * 7);
        index
    }

    fn unlink(&mut self, index: usize) {
        let Recent { newer, older, standing, .. } = self.recent[index];
        let order = &mut self.orders[standing as usize];
        order.count -= 1;
        match newer {
            NONE => order.newest = older,
            _ => self.recent[newer as usize].older = older,
        }
        match older {
            NONE => order.oldest = newer,
            _ => self.recent[older as usize].newer = newer,
        }
    }

    fn make_newest(&mut self, index: usize) {
        let order = &mut self.orders[self.recent[index].standing as usize];
        order.count += 1;
        let second = std::mem::replace(&mut order.newest, index as u32);
        if second == NONE {
            order.oldest = index as u32;
        } else {
            self.recent[second as usize].newer = index as u32;
        }
        self.recent[index].newer = NONE;
        self.recent[index].older = second;
    }

    /// Counts a packet of side `from` (0: client).
    pub(crate) fn packet(&mut self, index: usize, from: usize, bytes: u32, hop_limit: Option<u8>, now_ns: u64) {
        let flow = &mut self.flows[index];
        flow.last_ns = flow.last_ns.max(now_ns);
        self.recent[index].last_ns = flow.last_ns;
        flow.packets[from] += 1;
        flow.bytes[from] += u64::from(bytes);
        if let Some(hops) = hop_limit {
            let (least, greatest) = &mut flow.hop_limits[from];
            (*least, *greatest) = ((*least).min(hops), (*greatest).max(hops));
        }
        if self.orders[self.recent[index].standing as usize].newest != index as u32 {
            self.unlink(index);
            self.make_newest(index);
        }
    }

    /// Marks a flow as answered, if it is: it is kept longer than those that are not.
    #[inline]
    pub(crate) fn prove(&mut self, index: usize) {
        let flow = &self.flows[index];
        let is_proven = flow.is_established() && (!flow.session.is_picked_up || !flow.packets.contains(&0));
        // One that was picked up may be found to have had its handshake.
        let is_open = match self.recent[index].standing {
            Standing::Unproven => true,
            Standing::Answered => flow.key.protocol() == protocol::TCP && !flow.session.is_picked_up,
            Standing::Tunnelled | Standing::Agreed => false,
        };
        if is_open && is_proven {
            self.unlink(index);
            self.recent[index].standing = match &self.flows[index] {
                flow if flow.level > 0 => Standing::Tunnelled,
                flow if flow.key.protocol() == protocol::TCP && !flow.session.is_picked_up => Standing::Agreed,
                _ => Standing::Answered,
            };
            self.make_newest(index);
        }
    }

    /// The side that was taken for the server opens a session: it is the client.
    pub(crate) fn turn(&mut self, index: usize, client: Direction) {
        let flow = &mut self.flows[index];
        flow.client = client;
        flow.packets.reverse();
        flow.bytes.reverse();
        flow.hop_limits.reverse();
        flow.session.flags.reverse();
        flow.addresses_done.reverse();
    }

    /// Takes a flow out of the table that is still to be inspected; whether there was room for it beside.
    pub(crate) fn leave(&mut self, index: usize, end: FlowEnd) -> bool {
        let has_room = self.leaving < slots(self.capacity) - self.capacity;
        if has_room {
            self.take_out(index);
            self.leaving += 1;
            self.flows[index].owed.leaves = Some(end);
        }
        has_room
    }

    /// Gives a flow's place back; its memory elsewhere must have been, too.
    pub(crate) fn end(&mut self, index: usize) {
        match self.flows[index].owed.leaves {
            Some(_) => self.leaving -= 1,
            None => self.take_out(index),
        }
        let flow = &mut self.flows[index];
        flow.owed = Owed::default();
        flow.chain = self.free;
        self.free = index as u32;
    }

    fn take_out(&mut self, index: usize) {
        let bucket = self.bucket(&self.flows[index].key, self.flows[index].level);
        let behind = self.flows[index].chain;
        let mut at = self.buckets[bucket];
        if at == index as u32 {
            self.buckets[bucket] = behind;
        } else {
            while at != NONE {
                let next = self.flows[at as usize].chain;
                if next == index as u32 {
                    self.flows[at as usize].chain = behind;
                    break;
                }
                at = next;
            }
        }
        self.unlink(index);
        self.flows[index].used = false;
        self.count -= 1;
    }

    /// The flow used longest ago, of all standings.
    pub(crate) fn oldest(&self) -> Option<usize> {
        let oldest = self.orders.iter().map(|order| order.oldest).filter(|&oldest| oldest != NONE);
        oldest.min_by_key(|&oldest| self.recent[oldest as usize].last_ns).map(|oldest| oldest as usize)
    }

    pub(crate) fn bit(&self, index: usize, bit: u16) -> bool {
        let bit = usize::from(bit);
        self.bits[index * self.words + bit / 64] & 1 << (bit % 64) != 0
    }

    pub(crate) fn set_bit(&mut self, index: usize, bit: u16, value: bool) {
        let bit = usize::from(bit);
        let word = &mut self.bits[index * self.words + bit / 64];
        if value { *word |= 1 << (bit % 64) } else { *word &= !(1 << (bit % 64)) }
    }
}

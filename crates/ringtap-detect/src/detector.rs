//! Owns: a packet's way: decode, put together, track, choose rules, test, tell.
//! Does not: wait, read or write anything; no allocation after `new`.

mod buffers;
mod candidates;
mod catch_up;
mod conditions;
mod evaluate;
mod levels;
mod messages;
mod records;
mod side_line;
mod side_reader;
mod streams;
mod transactions;

use std::sync::Arc;

use ringtap_wire::LinkType;

use crate::alert::{FlowEnd, Sink};
use crate::decode::Decoded;
use crate::defrag::{Defrag, DefragCounters};
use crate::fixed_vec::SpareVisitor;
use crate::matching::inspect::{Budget, Kept};
use crate::matching::transform::Changed;
use crate::overlap::Policies;
use crate::program::Program;
use crate::protocol::Values;
use crate::protocol::dialog::Dialogs;
use crate::protocol::http::{Http, HttpCounters, Settings};
use crate::protocol::tls::Handshakes;
use crate::reassembly::Reassembly;
use crate::track::backlog::Backlog;
use crate::track::expected::ExpectedFlows;
use crate::track::flows::{Due, FlowCounters, Flows};
use crate::track::hosts::HostBits;
use crate::track::ints::FlowInts;
use crate::track::tags::Tags;
use crate::track::thresholds::Thresholds;
use crate::track::windows::Windows;

/// Longest IP packet.
const MAX_PACKET: usize = 65535;
/// Longest packet that a host merges from several: GSO_MAX_SIZE of linux/netdevice.h (BIG TCP).
const MAX_MERGED: usize = 8 * MAX_PACKET;
/// Link-layer headers before a packet that is put together.
const MAX_LINK: usize = 256;
/// So many packets that are not looked at bring some time to what waits.
const SHED_PER_PUSH: u64 = 1024;
/// One rule may use so large a part of a packet's budget.
const RULES_SHARE: u32 = 4;
/// Room for flowbits that the first rules do not name, and those that are loaded later may.
const SPARE_BITS: usize = 256;

/// Bounds: all memory is taken at start by these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows at one time.
    pub flows: usize,
    /// Bits that rules may name in all, for a reload too.
    pub bits: usize,
    /// Bytes of segments that came too early, of all streams.
    pub early_bytes: usize,
    /// Segments of one stream that came too early.
    pub early_segments: u16,
    /// Bytes of each stream that are kept, so that a pattern across segments is found.
    pub window: usize,
    /// Streams that have such bytes at one time.
    pub windows: usize,
    /// Fragmented packets at one time.
    pub fragmented: usize,
    /// Bytes of fragments.
    pub fragment_bytes: usize,
    /// Counts of thresholds.
    pub thresholds: usize,
    /// Bits of hosts.
    pub host_bits: usize,
    /// Integers of flows (`flowint`).
    pub flow_ints: usize,
    /// Sessions and hosts that are tagged.
    pub tags: usize,
    /// HTTP: what is kept of its messages, and what of it is looked at.
    pub http: Settings,
    /// Steps for one packet, each of about 20 ns: comparisons, and bytes that are searched.
    pub budget: u32,
    /// Alerts of one packet.
    pub alerts: usize,
    /// Whose bytes count where segments or fragments overlap, by the host that receives them.
    pub policies: Policies,
    /// Follow TCP connections without their handshake, and those of which one direction alone is seen.
    pub midstream: bool,
    /// Verify TCP checksums: segments with a wrong one are not part of a stream.
    pub checksums: bool,
    /// Take the time of each rule: two looks at the clock for each.
    pub timed: bool,
}

impl Default for Limits {
    /// For 65,536 flows.
    fn default() -> Self {
        Self::for_flows(65536)
    }
}

impl Limits {
    /// Bounds for so many flows: what each of them begins to say finds room.
    #[must_use]
    pub fn for_flows(flows: usize) -> Self {
        Self {
            flows,
            bits: 1024,
            early_bytes: 64 << 20,
            early_segments: 256,
            window: 2560,
            // Both sides.
            windows: flows.saturating_mul(2),
            fragmented: 4096,
            fragment_bytes: 8 << 20,
            thresholds: 65536,
            host_bits: 16384,
            flow_ints: 16384,
            tags: 4096,
            http: Settings::for_connections(flows),
            budget: 50_000,
            alerts: 15,
            policies: Policies::default(),
            midstream: false,
            checksums: true,
            timed: false,
        }
    }
}

/// What is counted, from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that could not be decoded to the end.
    pub invalid: u64,
    /// Packets inside tunnels.
    pub tunnelled: u64,
    /// Alerts.
    pub alerts: u64,
    /// Matches that a threshold kept in.
    pub suppressed: u64,
    /// Alerts beyond the bound of one packet.
    pub alerts_over: u64,
    /// The most steps that one packet took ([`Limits::budget`] says of how many, at most three times as many, and one for each two bytes
    /// of it).
    pub most_steps: u64,
    /// Times that a rule used up its part of a packet's budget, or rules were left out as all of it was used.
    pub budget_hits: u64,
    /// Searches for an expression that hit their own limit.
    pub expressions_given_up: u64,
    /// Values of datasets forgotten for others that rules have put in.
    pub datasets_evicted: u64,
    /// Packets of flows that a pass rule let go.
    pub passed: u64,
    /// Packets that were not looked at because others went first; not among `packets`.
    pub shed: u64,
    /// Reassembly of streams inspected.
    pub chunks: u64,
    /// Gaps in streams.
    pub gaps: u64,
    /// Segments for which there was no memory.
    pub segments_refused: u64,
    /// Steps of the budget that it took to put early segments and fragments in their places.
    pub early_steps: u64,
    /// Bytes of early segments that are held now, in whole blocks.
    pub early_bytes_now: u64,
    /// Flows of which something waits now to be inspected.
    pub flows_behind: u64,
    /// Bytes that were inspected behind the packet that brought them in order.
    pub waited_bytes: u64,
    /// Times that what waits was given time though packets left none.
    pub backlog_pushes: u64,
    /// Segments inspected before what the other side had said before them, for want of memory to wait in.
    pub disordered: u64,
    /// TCP flows that ended of whose handshake not both SYNs were seen.
    pub flows_without_handshake: u64,
    /// TCP flows that ended of which one direction alone was seen, beside SYNs without an answer.
    pub flows_one_sided: u64,
    /// Segments with a wrong checksum, left out of their streams.
    pub bad_checksums: u64,
    /// Segments that their receiver discards: wrong window, acknowledgement, time stamp, signature, flags.
    pub segments_discarded: u64,
    /// Times that bytes beside a stream were inspected: others for the same range, or late ones.
    pub side_chunks: u64,
    /// Windows taken from streams for others.
    pub windows_evicted: u64,
    /// Counts of thresholds forgotten for others.
    pub thresholds_evicted: u64,
    /// Bits of hosts forgotten for others.
    pub host_bits_evicted: u64,
    /// Integers of flows forgotten for others.
    pub flow_ints_evicted: u64,
    /// Packets of tagged sessions and hosts.
    pub tagged: u64,
    /// Tags forgotten for others.
    pub tags_evicted: u64,
    /// Flows now.
    pub flows_now: u64,
    /// Flows.
    pub flows: FlowCounters,
    /// Fragments.
    pub defrag: DefragCounters,
    /// Conversations of protocols that are read message by message, given up for others.
    pub dialogs_evicted: u64,
    /// Sides of TLS handshakes given up for others, or cut short for want of memory.
    pub handshakes_evicted: u64,
    /// Connections that others had announced, forgotten for others.
    pub announced_evicted: u64,
    /// Values that protocols' messages have for rules, and messages for records, left out or cut for want of room.
    pub values_left_out: u64,
    /// HTTP.
    pub http: HttpCounters,
}

/// What one rule cost and found, from the start of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Times it was looked at.
    pub checks: u64,
    /// Times it matched.
    pub matches: u64,
    /// Steps of the budget it used.
    pub steps: u64,
    /// Time it took, nanoseconds, the two looks at the clock included; 0 unless [`Limits::timed`].
    pub elapsed_ns: u64,
}

/// State between packets.
struct Track {
    flows: Flows,
    backlog: Backlog,
    reassembly: Reassembly,
    windows: Windows,
    hosts: HostBits,
    ints: FlowInts,
    thresholds: Thresholds,
    tags: Tags,
    http: Http,
    handshakes: Handshakes,
    dialogs: Dialogs,
    expected: ExpectedFlows,
}

/// Memory for one packet's work.
struct Work {
    /// Round in which a rule was last put among the candidates.
    stamps: Vec<u64>,
    round: u64,
    candidates: Vec<u32>,
    matched: Vec<(u32, bool)>,
    /// Rules that need not be told again.
    told: Vec<u32>,
    /// A stream's bytes: those kept, then the new ones.
    chunk: Vec<u8>,
    /// What applications say in one packet.
    values: Values,
    /// One of those values behind a rule's transforms.
    changed: Changed,
    kept: Kept,
    /// The heads of a transaction's messages.
    heads: Vec<u8>,
    budget: Budget,
    /// Steps that it had for the packet at hand, what was given beside the packet's own included.
    granted: u32,
    /// What one rule may use of it.
    share: u32,
    /// What of it is left to bytes that had waited, and how many of these may be inspected.
    reserve: u32,
    waiting: usize,
    /// Packets since anything of what waits was inspected that is not the packet's own flow's.
    stalled: u32,
    profile: Vec<Profile>,
}

/// The sensor's engine: one per thread.
pub struct Detector {
    program: Arc<Program>,
    limits: Limits,
    track: Track,
    defrag: Defrag,
    work: Work,
    /// A packet put together, with its link-layer headers, and its payload alone.
    rebuilt: Vec<u8>,
    rebuilt_payload: Vec<u8>,
    counters: Counters,
}

impl Detector {
    /// Takes all memory.
    #[must_use]
    pub fn new(program: Arc<Program>, limits: Limits) -> Self {
        let seed = {
            use std::hash::BuildHasher;
            std::hash::RandomState::new().hash_one(0)
        };
        let bits = limits.bits.max(program.bits + SPARE_BITS);
        let flows = Flows::new(limits.flows, bits, seed);
        // One more, for what lies beside a stream.
        let owners = flows.slots() + 1;
        Self {
            track: Track {
                backlog: Backlog::new(flows.slots()),
                flows,
                reassembly: Reassembly::with_reserve(limits.early_bytes, limits.early_segments),
                windows: Windows::new(limits.windows, limits.window),
                hosts: HostBits::new(limits.host_bits),
                ints: FlowInts::new(limits.flow_ints),
                thresholds: Thresholds::new(limits.thresholds),
                tags: Tags::new(limits.tags),
                http: Http::new(owners, limits.http),
                handshakes: Handshakes::new(owners),
                dialogs: Dialogs::new(owners),
                expected: ExpectedFlows::new(),
            },
            defrag: Defrag::new(limits.fragmented, limits.fragment_bytes, limits.policies.clone(), 60_000_000_000),
            work: Work {
                stamps: vec![0; program.rules.len()],
                round: 0,
                candidates: Vec::with_capacity(program.rules.len()),
                matched: Vec::with_capacity(limits.alerts),
                told: Vec::with_capacity(limits.alerts),
                // A line beside it, the new bytes, and what is behind them.
                chunk: Vec::with_capacity(3 * limits.window + MAX_MERGED),
                values: Values::new(),
                changed: Changed::new(),
                kept: Kept::new(),
                // And bytes that were not read yet.
                heads: Vec::with_capacity(3 * crate::protocol::http::MAX_HEAD),
                budget: Budget::default(),
                granted: 0,
                share: (limits.budget / RULES_SHARE).max(1),
                reserve: 0,
                waiting: 0,
                stalled: 0,
                profile: vec![Profile::default(); program.rules.len()],
            },
            rebuilt: Vec::with_capacity(MAX_LINK + MAX_PACKET),
            rebuilt_payload: Vec::with_capacity(MAX_PACKET),
            program,
            limits: Limits { bits, ..limits },
            counters: Counters::default(),
        }
    }

    /// Shows the tables that fill as they are used: most of its memory when all are full, next to none of it at the beginning.
    pub fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        let Track {
            flows,
            backlog,
            reassembly,
            windows,
            hosts,
            ints,
            thresholds,
            tags,
            http,
            handshakes,
            dialogs,
            expected,
        } = &mut self.track;
        flows.show_spare(to);
        backlog.show_spare(to);
        reassembly.show_spare(to);
        windows.show_spare(to);
        hosts.show_spare(to);
        ints.show_spare(to);
        thresholds.show_spare(to);
        tags.show_spare(to);
        http.show_spare(to);
        handshakes.show_spare(to);
        dialogs.show_spare(to);
        expected.show_spare(to);
        self.defrag.show_spare(to);
    }

    /// The rules in use.
    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Uses other rules from the next packet on; flows, streams and counts stay. Returns the old ones and the profile that
    /// belongs to them, to be dropped elsewhere.
    ///
    /// # Errors
    /// They name more bits than there is room for; the old ones stay in use.
    pub fn swap(
        &mut self,
        program: Arc<Program>,
        scratch: Scratch,
    ) -> Result<(Arc<Program>, Scratch), (Arc<Program>, Scratch)> {
        if program.bits > self.limits.bits || scratch.stamps.len() != program.rules.len() {
            return Err((program, scratch));
        }
        let work = &mut self.work;
        let old = Scratch {
            stamps: std::mem::replace(&mut work.stamps, scratch.stamps),
            candidates: std::mem::replace(&mut work.candidates, scratch.candidates),
            profile: std::mem::replace(&mut work.profile, scratch.profile),
        };
        work.round = 0;
        Ok((std::mem::replace(&mut self.program, program), old))
    }

    /// Handles one packet: `data` begins with a header of type `link`, `wire_len` is its length on the wire in bytes,
    /// `now_ns` its time in nanoseconds.
    pub fn packet(&mut self, data: &[u8], link: LinkType, wire_len: u32, now_ns: u64, sink: &mut impl Sink) {
        self.begin(data.len(), wire_len, now_ns, sink);
        self.nested(data, link, wire_len, now_ns, sink, levels::Nesting::default());
        self.end(now_ns, sink);
    }

    /// As [`Detector::packet`], for one whose transport checksum is still to be computed: what this host sends, and what it has
    /// merged (GRO).
    pub fn packet_unchecked(&mut self, data: &[u8], link: LinkType, wire_len: u32, now_ns: u64, sink: &mut impl Sink) {
        self.begin(data.len(), wire_len, now_ns, sink);
        self.nested(data, link, wire_len, now_ns, sink, levels::Nesting::unchecked());
        self.end(now_ns, sink);
    }

    /// `len` is of what is there of the packet: a file's word for its length on the wire brings no budget.
    fn begin(&mut self, len: usize, wire_len: u32, now_ns: u64, sink: &mut impl Sink) {
        self.counters.packets += 1;
        self.counters.bytes += u64::from(wire_len);
        self.work.renew(self.limits.budget, len as u32);
        self.end_due(now_ns, sink);
        self.work.leave_half(self.limits.budget);
    }

    /// What waits has what the packet left.
    fn end(&mut self, now_ns: u64, sink: &mut impl Sink) {
        self.work_off(now_ns, sink);
        self.counters.most_steps = self.counters.most_steps.max(u64::from(self.work.used()));
    }

    /// Counts a packet that is not looked at, because there are more than can be and others go first. What waits has a little time
    /// after each thousand of them.
    pub fn shed(&mut self, now_ns: u64, sink: &mut impl Sink) {
        self.counters.shed += 1;
        if self.is_behind() && self.counters.shed.is_multiple_of(SHED_PER_PUSH) {
            self.push_backlog(now_ns, sink);
        }
    }

    /// Ends flows whose time is over, a few at each call, and inspects bytes that wait for it: as much as at a packet.
    pub fn expire(&mut self, now_ns: u64, sink: &mut impl Sink) {
        self.work.renew(self.limits.budget, 0);
        self.end_due(now_ns, sink);
        self.work_off(now_ns, sink);
    }

    fn end_due(&mut self, now_ns: u64, sink: &mut impl Sink) {
        match self.track.flows.due(now_ns) {
            Some(Due::End(index)) => self.end_flow(index, FlowEnd::Timeout, now_ns, sink),
            Some(Due::Rest(index)) => self.rest(index, now_ns, sink),
            None => {}
        }
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            windows_evicted: self.track.windows.evicted,
            thresholds_evicted: self.track.thresholds.evicted(),
            host_bits_evicted: self.track.hosts.evicted(),
            flow_ints_evicted: self.track.ints.evicted(),
            budget_hits: self.counters.budget_hits + self.work.budget.cut,
            expressions_given_up: self.work.budget.gave_up,
            datasets_evicted: self.work.budget.forgotten,
            tags_evicted: self.track.tags.evicted(),
            early_bytes_now: self.track.reassembly.bytes_used() as u64,
            flows_behind: self.track.backlog.count() as u64,
            flows_now: self.track.flows.count as u64,
            flows: self.track.flows.counters,
            defrag: self.defrag.counters,
            dialogs_evicted: self.track.dialogs.evicted,
            handshakes_evicted: self.track.handshakes.evicted,
            announced_evicted: self.track.expected.evicted(),
            values_left_out: self.work.values.left_out,
            http: self.track.http.counters(),
            ..self.counters
        }
    }

    /// What each rule cost, in the order of [`Program::rules`].
    #[must_use]
    pub fn profile(&self) -> &[Profile] {
        &self.work.profile
    }

    fn tell_anomalies(packet: &Decoded<'_>, now_ns: u64, sink: &mut impl Sink) {
        for event in packet.events.iter() {
            sink.anomaly(event, packet, now_ns);
        }
    }
}

/// Memory that goes with a program: made aside, swapped in with it.
pub struct Scratch {
    stamps: Vec<u64>,
    candidates: Vec<u32>,
    /// What the rules that go with it cost.
    pub profile: Vec<Profile>,
}

impl Scratch {
    /// Memory for this program.
    #[must_use]
    pub fn new(program: &Program) -> Self {
        let count = program.rules.len();
        Self { stamps: vec![0; count], candidates: Vec::with_capacity(count), profile: vec![Profile::default(); count] }
    }
}

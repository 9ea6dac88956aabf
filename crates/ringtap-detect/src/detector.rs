//! Owns: a packet's way: decode, put together, track, choose rules, test, tell.
//! Does not: wait, read or write anything; no allocation after `new`.

mod buffers;
mod candidates;
mod conditions;
mod evaluate;
mod levels;
mod streams;

use std::sync::Arc;

use ringtap_wire::LinkType;

use crate::alert::{FlowEnd, FlowView, Sink};
use crate::decode::Decoded;
use crate::defrag::{Defrag, DefragCounters};
use crate::fixed_vec::SpareVisitor;
use crate::overlap::Policies;
use crate::program::Program;
use crate::protocol::Values;
use crate::reassembly::Reassembly;
use crate::track::flows::{FlowCounters, Flows};
use crate::track::hosts::HostBits;
use crate::track::tags::Tags;
use crate::track::thresholds::Thresholds;
use crate::track::windows::Windows;

/// Longest IP packet.
const MAX_PACKET: usize = 65535;
/// Longest packet that a host merges from several: GSO_MAX_SIZE of linux/netdevice.h (BIG TCP).
const MAX_MERGED: usize = 8 * MAX_PACKET;
/// Link-layer headers before a packet that is put together.
const MAX_LINK: usize = 256;
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
    /// Sessions and hosts that are tagged.
    pub tags: usize,
    /// Searches and comparisons for one packet.
    pub budget: u32,
    /// Alerts of one packet.
    pub alerts: usize,
    /// Whose bytes count where segments or fragments overlap, by the host that receives them.
    pub policies: Policies,
    /// Verify TCP checksums: segments with a wrong one are not part of a stream.
    pub checksums: bool,
    /// Take the time of each rule: two looks at the clock for each.
    pub timed: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 65536,
            bits: 1024,
            early_bytes: 16 << 20,
            early_segments: 256,
            window: 2560,
            windows: 4096,
            fragmented: 4096,
            fragment_bytes: 8 << 20,
            thresholds: 65536,
            host_bits: 16384,
            tags: 4096,
            budget: 50_000,
            alerts: 15,
            policies: Policies::default(),
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
    /// Packets whose matching hit the budget: rules were left out.
    pub budget_hits: u64,
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
    /// Segments with a wrong checksum, left out of their streams.
    pub bad_checksums: u64,
    /// Windows taken from streams for others.
    pub windows_evicted: u64,
    /// Counts of thresholds forgotten for others.
    pub thresholds_evicted: u64,
    /// Bits of hosts forgotten for others.
    pub host_bits_evicted: u64,
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
    reassembly: Reassembly,
    windows: Windows,
    hosts: HostBits,
    thresholds: Thresholds,
    tags: Tags,
}

/// Memory for one packet's work.
struct Work {
    /// Round in which a rule was last put among the candidates.
    stamps: Vec<u64>,
    round: u64,
    candidates: Vec<u32>,
    matched: Vec<(u32, bool)>,
    /// A stream's bytes: those kept, then the new ones.
    chunk: Vec<u8>,
    /// What applications say in one packet.
    values: Values,
    budget: u32,
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
        Self {
            track: Track {
                flows: Flows::new(limits.flows, bits, seed),
                reassembly: Reassembly::new(limits.early_bytes, limits.early_segments),
                windows: Windows::new(limits.windows, limits.window),
                hosts: HostBits::new(limits.host_bits),
                thresholds: Thresholds::new(limits.thresholds),
                tags: Tags::new(limits.tags),
            },
            defrag: Defrag::new(limits.fragmented, limits.fragment_bytes, limits.policies.clone(), 60_000_000_000),
            work: Work {
                stamps: vec![0; program.rules.len()],
                round: 0,
                candidates: Vec::with_capacity(program.rules.len()),
                matched: Vec::with_capacity(limits.alerts),
                chunk: Vec::with_capacity(limits.window + MAX_MERGED),
                values: Values::new(),
                budget: 0,
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
        let Track { flows, reassembly, windows, hosts, thresholds, tags } = &mut self.track;
        flows.show_spare(to);
        reassembly.show_spare(to);
        windows.show_spare(to);
        hosts.show_spare(to);
        thresholds.show_spare(to);
        tags.show_spare(to);
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
        self.begin(wire_len, now_ns, sink);
        self.nested(data, link, wire_len, now_ns, sink, levels::Nesting::default());
    }

    /// As [`Detector::packet`], for one whose transport checksum is still to be computed: what this host sends, and what it has
    /// merged (GRO).
    pub fn packet_unchecked(&mut self, data: &[u8], link: LinkType, wire_len: u32, now_ns: u64, sink: &mut impl Sink) {
        self.begin(wire_len, now_ns, sink);
        self.nested(data, link, wire_len, now_ns, sink, levels::Nesting::unchecked());
    }

    fn begin(&mut self, wire_len: u32, now_ns: u64, sink: &mut impl Sink) {
        self.counters.packets += 1;
        self.counters.bytes += u64::from(wire_len);
        self.expire(now_ns, sink);
    }

    /// Counts a packet that is not looked at, because there are more than can be and others go first.
    pub fn shed(&mut self) {
        self.counters.shed += 1;
    }

    /// Ends flows whose time is over: a few at each call.
    pub fn expire(&mut self, now_ns: u64, sink: &mut impl Sink) {
        if let Some(index) = self.track.flows.due(now_ns) {
            self.end_flow(index, FlowEnd::Timeout, now_ns, sink);
        }
    }

    /// Ends all flows: what is left of their streams is inspected.
    pub fn finish(&mut self, now_ns: u64, sink: &mut impl Sink) {
        while let Some(index) = self.track.flows.oldest() {
            self.end_flow(index, FlowEnd::Shutdown, now_ns, sink);
        }
    }

    fn end_flow(&mut self, index: usize, end: FlowEnd, now_ns: u64, sink: &mut impl Sink) {
        self.drain(index, now_ns, sink);
        sink.flow(&FlowView::new(self.track.flows.get(index)), end);
        let Track { flows, reassembly, windows, .. } = &mut self.track;
        flows.get_mut(index).session.forget(reassembly, windows);
        flows.end(index);
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            windows_evicted: self.track.windows.evicted,
            thresholds_evicted: self.track.thresholds.evicted(),
            host_bits_evicted: self.track.hosts.evicted(),
            tags_evicted: self.track.tags.evicted(),
            flows_now: self.track.flows.count as u64,
            flows: self.track.flows.counters,
            defrag: self.defrag.counters,
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

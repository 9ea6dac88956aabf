//! Owns: a packet's or chunk's way through the rules: which are chosen, tested, and what a match does.
//! Does not: prepare packets or streams, choose rules (`candidates.rs`) or test one (`conditions.rs`, `buffers.rs`).

use std::time::Instant;

use super::Detector;
use crate::alert::{Alert, FlowView, Origin, Sink};
use crate::decode::{Decoded, Transport};
use crate::program::Class;
use crate::rules::address_number;
use crate::rules::rule::Action;

/// What is in `work.chunk`: bytes of a stream in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// Position of the first byte in the stream.
    pub(super) base: u64,
    /// Bytes inspected before.
    pub(super) kept: usize,
    pub(super) len: usize,
    /// The packet's payload is in the stream, now or later.
    pub(super) added: bool,
}

impl Chunk {
    pub(super) fn has_new(self) -> bool {
        self.len > self.kept
    }
}

/// What the tests of one packet need to know.
pub(super) struct Context<'a> {
    pub(super) packet: &'a Decoded<'a>,
    /// Index of the flow, and who sent the packet (0: client).
    pub(super) flow: Option<(usize, usize)>,
    pub(super) chunk: Option<Chunk>,
    /// There is a packet, not only a stream's bytes.
    pub(super) is_packet: bool,
    pub(super) source: u128,
    pub(super) destination: u128,
    pub(super) now_ns: u64,
}

impl Context<'_> {
    /// Whether rules about streams look at the packet's payload instead.
    pub(super) fn stream_is_packet(&self) -> bool {
        self.is_packet && !self.chunk.is_some_and(|chunk| chunk.added)
    }

    pub(super) fn class(&self) -> Class {
        match &self.packet.transport {
            Transport::Tcp(_) => Class::Tcp,
            Transport::Udp(_) => Class::Udp,
            Transport::Icmpv4(_) => Class::Icmpv4,
            Transport::Icmpv6(_) => Class::Icmpv6,
            Transport::Sctp(_) => Class::Sctp,
            Transport::None if !self.is_packet => Class::Tcp,
            // One that could not be decoded still is of its protocol.
            Transport::None => match self.packet.protocol {
                _ if self.packet.fragment.is_some() => Class::Other,
                132 => Class::Sctp,
                _ => Class::Other,
            },
        }
    }
}

impl Detector {
    /// Looks at all rules that may match; returns whether one let the packet pass.
    pub(super) fn inspect(
        &mut self,
        packet: &Decoded<'_>,
        flow: Option<(usize, usize)>,
        chunk: Option<Chunk>,
        origin: Origin,
        now_ns: u64,
        sink: &mut impl Sink,
    ) -> bool {
        if flow.is_some_and(|(index, _)| self.track.flows.get(index).passed) {
            self.counters.passed += 1;
            return true;
        }
        let context = Context {
            packet,
            flow,
            chunk: chunk.filter(|chunk| chunk.added || chunk.has_new()),
            is_packet: matches!(origin, Origin::Packet | Origin::Fragments),
            source: address_number(packet.source),
            destination: address_number(packet.destination),
            now_ns,
        };
        // Before the rules: the packet that sets a tag is told by its alert.
        if context.is_packet {
            self.tell_tagged(&context, sink);
        }
        self.work.budget = self.limits.budget;
        self.work.choose(&self.program, &mut self.track, &context);
        if self.test_candidates(&context) {
            if let Some((index, _)) = flow {
                self.track.flows.get_mut(index).passed = true;
            }
            return true;
        }
        self.tell_matches(&context, origin, sink);
        false
    }

    fn tell_tagged(&mut self, context: &Context<'_>, sink: &mut impl Sink) {
        let Self { track, counters, .. } = self;
        let flow_id = context.flow.map(|(index, _)| track.flows.get(index).id);
        if let Some(by) = track.tags.take(context.packet, counters.packets, flow_id, context.now_ns) {
            counters.tagged += 1;
            let view = context.flow.map(|(index, _)| FlowView::new(track.flows.get(index)));
            sink.tagged(context.packet, view.as_ref(), by, context.now_ns);
        }
    }

    /// Tests the candidates in their order and keeps those that match; returns whether a pass rule is among them, behind which
    /// none is tested.
    fn test_candidates(&mut self, context: &Context<'_>) -> bool {
        let Self { program, track, work, counters, limits, .. } = self;
        let candidates = std::mem::take(&mut work.candidates);
        work.matched.clear();
        let mut passed = false;
        for &index in &candidates {
            let prepared = &program.rules[index as usize];
            let before = work.budget;
            let began = limits.timed.then(Instant::now);
            let found = work.test(prepared, track, context);
            let profile = &mut work.profile[index as usize];
            profile.checks += 1;
            profile.steps += u64::from(before - work.budget);
            profile.elapsed_ns += began.map_or(0, |began| began.elapsed().as_nanos() as u64);
            let Some(in_stream) = found else {
                if work.budget == 0 {
                    counters.budget_hits += 1;
                    break;
                }
                continue;
            };
            profile.matches += 1;
            track.write_bits(&prepared.rule, context);
            if prepared.rule.action == Action::Pass {
                passed = true;
                break;
            }
            if work.matched.len() == limits.alerts {
                counters.alerts_over += 1;
                continue;
            }
            work.matched.push((index, in_stream));
        }
        work.candidates = candidates;
        passed
    }

    /// What the rules that matched want done: thresholds, tags, alerts.
    fn tell_matches(&mut self, context: &Context<'_>, origin: Origin, sink: &mut impl Sink) {
        let Self { program, track, work, counters, .. } = self;
        let &Context { packet, flow, now_ns, .. } = context;
        let flow_id = flow.map(|(index, _)| track.flows.get(index).id);
        for &(index, in_stream) in &work.matched {
            let rule = &program.rules[index as usize].rule;
            if let Some(threshold) = &rule.threshold {
                // By sid, so that counts outlive a reload.
                if !track.thresholds.admits(rule.meta.sid, threshold, packet, flow_id, now_ns) {
                    counters.suppressed += 1;
                    continue;
                }
            }
            if let Some(tag) = &rule.tag {
                track.tags.set(tag, &rule.meta, packet, flow_id, now_ns);
            }
            if rule.silent {
                continue;
            }
            counters.alerts += 1;
            let view = flow.map(|(index, _)| {
                track.flows.get_mut(index).alerts += 1;
                FlowView::new(track.flows.get(index))
            });
            let to_server = flow.is_none_or(|(_, from)| from == 0);
            sink.alert(&Alert { rule, packet, flow: view, to_server, origin, in_stream, now_ns });
        }
    }
}

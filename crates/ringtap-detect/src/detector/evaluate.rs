//! Owns: a packet's or chunk's way through the rules: which are chosen, tested, and what a match does.
//! Does not: prepare packets or streams, choose rules (`candidates.rs`) or test one (`conditions.rs`, `buffers.rs`).

use std::time::Instant;

use super::{Detector, Track, records};
use crate::alert::{Alert, FlowView, Origin, Sink};
use crate::decode::{Decoded, Transport};
use crate::matching::inspect::READ_BYTES;
use crate::program::Class;
use crate::protocol::Stage;
use crate::protocol::dialog::ExchangeKey;
use crate::protocol::http::MessageKey;
use crate::rules::address_number;
use crate::rules::rule::{Action, Rule};

/// What is in `work.chunk`: bytes of a stream in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// Position of the first byte in the stream.
    pub(super) base: u64,
    /// Bytes inspected before.
    pub(super) kept: usize,
    /// From here on they were inspected before, too.
    pub(super) new_to: usize,
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
    /// The message that has come to a new stage; `None` where a packet or a stream is looked at.
    pub(super) message: Option<MessageKey>,
    /// It is a message, of which all of the chunk may be.
    pub(super) is_message: bool,
    /// The exchange that the message belongs to.
    pub(super) exchange: Option<ExchangeKey>,
    /// Bytes of the chunk before this place were read when the message came to its stage; the rest may be of its head.
    pub(super) read_to: usize,
}

impl<'a> Context<'a> {
    /// Of a packet, or of a stream's bytes.
    pub(super) fn new(
        packet: &'a Decoded<'a>,
        flow: Option<(usize, usize)>,
        chunk: Option<Chunk>,
        origin: Origin,
        now_ns: u64,
    ) -> Self {
        Self {
            packet,
            flow,
            chunk: chunk.filter(|chunk| chunk.added || chunk.has_new()),
            is_packet: matches!(origin, Origin::Packet | Origin::Fragments),
            source: address_number(packet.source),
            destination: address_number(packet.destination),
            now_ns,
            message: None,
            is_message: false,
            exchange: None,
            read_to: usize::MAX,
        }
    }

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
        let context = Context::new(packet, flow, chunk, origin, now_ns);
        // Before the rules: the packet that sets a tag is told by its alert.
        if context.is_packet {
            self.tell_tagged(&context, sink);
        }
        if !self.has_budget() {
            return false;
        }
        self.work.choose(&self.program, &mut self.track, &context);
        self.conclude(&context, origin, sink)
    }

    /// Looks at the rules of a stage about the values at hand; returns whether one let the flow pass.
    pub(super) fn inspect_values(
        &mut self,
        stage: Stage,
        context: &Context<'_>,
        origin: Origin,
        sink: &mut impl Sink,
    ) -> bool {
        // To put them together has cost something, too.
        self.work.budget.search(self.work.values.len(), READ_BYTES);
        if !self.has_budget() {
            return false;
        }
        self.work.choose_at(&self.program, stage);
        self.conclude(context, origin, sink)
    }

    /// Whether there is time to look at rules; where there is none it is counted.
    fn has_budget(&mut self) -> bool {
        let has_some = self.work.budget.left > 0;
        if !has_some {
            self.work.matched.clear();
            self.counters.budget_hits += 1;
        }
        has_some
    }

    /// Tests the candidates and tells of those that match; returns whether one let the flow pass, or a packet that is in no stream.
    fn conclude(&mut self, context: &Context<'_>, origin: Origin, sink: &mut impl Sink) -> bool {
        let kept = self.work.begin_look();
        let passed = self.test_candidates(context);
        self.work.budget.left += kept;
        if passed == Some(true) {
            if let Some((index, _)) = context.flow {
                self.track.flows.get_mut(index).passed = true;
            }
            return true;
        }
        self.tell_matches(context, origin, sink);
        passed.is_some() && context.chunk.is_none()
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

    /// Tests the candidates in their order and keeps those that match. Returns whether a pass rule matched, and whether that
    /// one is about the flow: behind it none is tested. Behind one about this packet alone, matches in its stream are kept.
    fn test_candidates(&mut self, context: &Context<'_>) -> Option<bool> {
        let Self { program, track, work, counters, limits, .. } = self;
        let candidates = std::mem::take(&mut work.candidates);
        work.matched.clear();
        let mut passed = None;
        for &index in &candidates {
            if work.told.contains(&index) {
                continue;
            }
            let prepared = &program.rules[index as usize];
            let before = work.budget.left;
            let began = limits.timed.then(Instant::now);
            let found = work.test(prepared, track, context);
            let profile = &mut work.profile[index as usize];
            profile.checks += 1;
            let used = before - work.budget.left;
            profile.steps += u64::from(used);
            profile.elapsed_ns += began.map_or(0, |began| began.elapsed().as_nanos() as u64);
            let Some(in_stream) = found else {
                counters.budget_hits += u64::from(used >= before.min(work.share));
                if work.budget.left == 0 {
                    break;
                }
                continue;
            };
            let sid = prepared.rule.meta.sid;
            if context.message.is_some_and(|key| !track.http.is_first_match(key, sid, prepared.is_of_file)) {
                continue;
            }
            if context.exchange.is_some_and(|key| !track.dialogs.is_first_match(key, sid)) {
                continue;
            }
            profile.matches += 1;
            track.write_bits(&prepared.rule, context);
            if prepared.rule.action == Action::Pass {
                passed = Some(prepared.is_of_flow || in_stream);
                if passed == Some(true) {
                    break;
                }
                continue;
            }
            // What lets a packet pass says nothing of the stream that it belongs to.
            if passed.is_some() && !in_stream {
                continue;
            }
            // Places are for what is told.
            if prepared.rule.silent {
                counters.suppressed += u64::from(!track.admits(&prepared.rule, context));
            } else if work.matched.len() == limits.alerts {
                counters.alerts_over += 1;
            } else {
                work.matched.push((index, in_stream));
            }
        }
        work.candidates = candidates;
        passed
    }

    /// What the rules that matched want done: thresholds, tags, alerts.
    fn tell_matches(&mut self, context: &Context<'_>, origin: Origin, sink: &mut impl Sink) {
        let Self { program, track, work, counters, .. } = self;
        let &Context { packet, flow, now_ns, .. } = context;
        if work.matched.is_empty() {
            return;
        }
        let stream = context.chunk.map_or(&[][..], |chunk| &work.chunk[..chunk.len]);
        let read_to =
            if context.message.is_some() { context.read_to } else { context.chunk.map_or(0, |chunk| chunk.kept) };
        let new = stream.get(read_to..).unwrap_or_default();
        let transaction = records::at_hand(track, context, &work.values, new, &mut work.heads);
        let file = records::file(&work.values).filter(|_| context.is_message);
        for &(index, in_stream) in &work.matched {
            let rule = &program.rules[index as usize].rule;
            if !track.admits(rule, context) {
                counters.suppressed += 1;
                continue;
            }
            counters.alerts += 1;
            let view = flow.map(|(index, _)| {
                track.flows.get_mut(index).alerts += 1;
                FlowView::new(track.flows.get(index))
            });
            let to_server = flow.is_none_or(|(_, from)| from == 0);
            sink.alert(&Alert {
                rule,
                packet,
                flow: view,
                to_server,
                origin,
                in_stream,
                file,
                transaction,
                stream,
                now_ns,
            });
        }
    }
}

impl Track {
    /// Whether a match gets past what keeps alerts of its rule in; what the rule tags is tagged then.
    fn admits(&mut self, rule: &Rule, context: &Context<'_>) -> bool {
        let &Context { packet, now_ns, .. } = context;
        let flow_id = context.flow.map(|(index, _)| self.flows.get(index).id);
        if rule.suppressed.iter().any(|list| list.has(context.source, context.destination)) {
            return false;
        }
        // By sid, so that counts outlive a reload.
        if let Some(rate) = &rule.rate
            && self.thresholds.is_over_rate(rule.meta.sid, rate, packet, now_ns)
        {
            return false;
        }
        if let Some(threshold) = &rule.threshold
            && !self.thresholds.admits(rule.meta.sid, threshold, packet, flow_id, now_ns)
        {
            return false;
        }
        if let Some(tag) = &rule.tag {
            self.tags.set(tag, &rule.meta, packet, flow_id, now_ns);
        }
        true
    }
}

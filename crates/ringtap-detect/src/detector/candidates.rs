//! Owns: which rules are looked at for a packet or a chunk of a stream.
//! Does not: test them.

use super::evaluate::Context;
use super::{Track, Work};
use crate::program::Program;
use crate::protocol::{AppBuffer, Stage};

impl Work {
    /// Puts the rules that may match among the candidates, each once, in their order.
    pub(super) fn choose(&mut self, program: &Program, track: &mut Track, context: &Context<'_>) {
        let packet = context.packet;
        self.round += 1;
        self.candidates.clear();
        let (round, stamps, candidates) = (self.round, &mut self.stamps, &mut self.candidates);
        // What is found is to be tested, too.
        let kept = self.budget.left / 4;
        self.budget.left -= kept;
        let budget = &mut self.budget;
        let mut add = |rule: u32| {
            let stamp = &mut stamps[rule as usize];
            if *stamp != round {
                *stamp = round;
                candidates.push(rule);
            }
        };
        for event in packet.events.iter().filter(|_| context.is_packet) {
            program.by_event[event as usize].iter().for_each(|&rule| add(rule));
        }
        if context.is_packet {
            program.any.iter().for_each(|&rule| add(rule));
        }
        if packet.ip.is_some() || !context.is_packet {
            let class = context.class();
            let (source, destination) = (context.source, context.destination);
            let stream = context.chunk.filter(|chunk| chunk.has_new()).map(|chunk| &self.chunk[..chunk.len]);
            for group in program.class(class).groups(packet.ports.0, packet.ports.1) {
                if context.is_packet {
                    group.plain.scan(source, destination, &mut add);
                    if let Some(patterns) = &group.packet {
                        patterns.scan(packet.payload, budget, &mut add);
                    }
                }
                if let Some(patterns) = &group.stream {
                    if context.stream_is_packet() {
                        patterns.scan(packet.payload, budget, &mut add);
                    }
                    if let Some(bytes) = stream {
                        patterns.scan(bytes, budget, &mut add);
                    }
                }
                // Rules about streams without a pattern.
                if !context.is_packet {
                    group.plain.scan(source, destination, |rule| {
                        if program.rules[rule as usize].in_stream {
                            add(rule);
                        }
                    });
                }
            }
            let addresses_now = context.is_packet
                && context.flow.is_none_or(|(index, from)| {
                    !std::mem::replace(&mut track.flows.get_mut(index).addresses_done[from], true)
                });
            if addresses_now {
                program.addresses[class as usize].scan(source, destination, &mut add);
            }
        }
        self.budget.left += kept;
        self.add_of_values(program, Stage::Start);
        self.candidates.sort_unstable();
    }

    /// The same for the rules that are looked at when a message has come to this stage.
    pub(super) fn choose_at(&mut self, program: &Program, stage: Stage) {
        self.round += 1;
        self.candidates.clear();
        self.add_of_values(program, stage);
        self.candidates.sort_unstable();
    }

    fn add_of_values(&mut self, program: &Program, stage: Stage) {
        let Self { values, stamps, candidates, round, budget, .. } = self;
        let kept = budget.left / 4;
        budget.left -= kept;
        let mut add = |rule: u32| {
            if std::mem::replace(&mut stamps[rule as usize], *round) != *round {
                candidates.push(rule);
            }
        };
        let of_stage = &program.stages[stage as usize];
        let mut walked: Option<(AppBuffer, &[u8])> = None;
        for (buffer, value) in values.iter() {
            let with = buffer.sought_with();
            // Two buffers of the same bytes follow each other.
            let is_walked = walked.is_some_and(|(by, bytes)| by == with && std::ptr::eq(bytes, value));
            if let Some(patterns) = of_stage.patterns[with.index()].as_ref().filter(|_| !is_walked) {
                patterns.scan(value, budget, &mut add);
                walked = Some((with, value));
            }
            of_stage.plain[buffer.index()].iter().for_each(|&rule| add(rule));
        }
        budget.left += kept;
    }
}

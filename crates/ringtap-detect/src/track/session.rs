//! Owns: TCP sessions: handshake, state, and what a segment does to both streams.
//! Does not: keep the flow, hold bytes (`stream.rs`), or say what a receiver takes (`receiver.rs`).

use ringtap_wire::tcp_flag;

pub(crate) use super::greeting::is_opening;
use super::greeting::{Greeting, Greetings};
use super::segment::Segment;
pub(crate) use super::stream::SegmentEffect;
use super::stream::{MOST_AHEAD, Stream, Turn};
use super::windows::Windows;
use crate::event::{Event, EventSet};
use crate::overlap::Newer;
use crate::reassembly::Reassembly;

/// How far a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// No handshake was seen: not followed.
    #[default]
    None,
    /// A SYN was seen.
    Opening,
    /// Both sides agreed.
    Established,
    /// One side has finished.
    Closing,
    /// Both have finished, or one reset.
    Closed,
}

impl State {
    /// EVE's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Opening => "syn_sent",
            Self::Established => "established",
            Self::Closing => "fin_wait1",
            Self::Closed => "closed",
        }
    }
}

/// A session, both ways; index 0 is the client's stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Session {
    pub(crate) state: State,
    pub(crate) streams: [Stream; 2],
    /// Flags seen of either side, for the flow record.
    pub(crate) flags: [u8; 2],
    greetings: [Greetings; 2],
    /// Segments carry MD5 signatures.
    pub(super) signed: bool,
    /// The side whose reset ended it.
    pub(super) reset_by: Option<u8>,
    /// It is followed without all of its handshake.
    pub(crate) is_picked_up: bool,
    /// A reset came in the name of this side, taken or not, and it has not said anything since.
    pub(super) reset_of: Option<u8>,
    /// SYNs in the middle of it, of each side: a new session if the other side answers one.
    anew: [Greetings; 2],
    /// When each side's last segment came.
    pub(super) heard_ms: [Option<u32>; 2],
}

/// The memory that all streams share.
pub(crate) struct Memory<'m> {
    pub(crate) reassembly: &'m mut Reassembly,
    pub(crate) windows: &'m mut Windows,
    /// It is for a stream inside a tunnel.
    pub(crate) is_tunnelled: bool,
    /// Sessions are followed without their handshake.
    pub(crate) midstream: bool,
}

impl Session {
    /// Takes a segment that side `from` (0: client) sent. Bytes of its stream that have come in order are put at the end
    /// of `out`, which has room for them. `newer` is asked for segments out of order.
    #[expect(clippy::too_many_arguments, reason = "one call; the segment, and the memory that the caller owns")]
    pub(crate) fn take(
        &mut self,
        from: usize,
        segment: &Segment<'_>,
        now_s: u32,
        memory: &mut Memory<'_>,
        events: &mut EventSet,
        newer: impl FnOnce() -> Newer,
        out: &mut Vec<u8>,
    ) -> SegmentEffect {
        self.flags[from] |= segment.flags;
        self.heard_ms[from] = Some(memory.reassembly.now_ms);
        let mut effect = SegmentEffect::default();
        if segment.has(tcp_flag::RST) {
            self.reset_of = Some(from as u8);
            self.reset(from, segment, events, &mut effect);
            return effect;
        }
        if segment.has(tcp_flag::SYN) {
            self.greet(from, segment, memory, events, &mut effect);
            let is_streams = self.streams[from].isn == Some(segment.sequence) && !effect.discarded;
            if is_streams && segment.options.fast_open && self.state == State::Opening && !segment.payload.is_empty() {
                self.streams[from].hold(segment.payload, memory.reassembly, events, newer, &mut effect);
            }
            return effect;
        }
        if self.state == State::None && !self.pick_up(from, segment, memory) {
            return effect;
        }
        let agrees = self.state != State::Opening || self.agree(from, segment, now_s, memory);
        if !agrees && !self.pick_up(from, segment, memory) {
            events.add(Event::StreamHandshakeWrongAck);
            effect.discarded = true;
            return effect;
        }
        self.settle_beginning(from, segment);
        let Some(position) = self.streams[from].position(segment.sequence) else { return effect };
        if let Some(fault) = self.fault(from, segment, position, now_s) {
            self.discard(from, segment, position, fault, &mut effect);
            events.add(fault);
            return effect;
        }
        // Who goes on after the other side's reset has not taken it.
        if self.reset_by == Some(1 - from as u8) {
            (self.reset_by, self.state) = (None, State::Established);
        }
        // Who had reset it would say no more.
        if !segment.payload.is_empty() && self.reset_of == Some(from as u8) {
            self.reset_of = None;
            events.add(Event::StreamSuspectedReset);
        }
        // Who says something has what it acknowledges: that is inspected first.
        self.acknowledge(from, segment, position, now_s);
        let has_said = self.streams[from].had();
        self.streams[1 - from].pass_acknowledged(has_said, memory.reassembly, events);
        if !segment.payload.is_empty() {
            let other = &self.streams[1 - from];
            let turn = Turn { after: other.had(), waits: other.is_behind() };
            let own = &mut self.streams[from];
            own.add(position, segment, turn, memory, events, newer, out, &mut effect);
            own.pass_acknowledged(turn.after, memory.reassembly, events);
        }
        if segment.has(tcp_flag::FIN) {
            let end = position + segment.payload.len() as i64;
            self.streams[from].end = u64::try_from(end).ok();
        }
        self.finish(&mut effect);
        effect
    }

    /// Whether a segment ends the handshake of a client that sent bytes with its SYN, and the server took them: they are to be
    /// inspected before what the segment brings.
    pub(crate) fn takes_beginning(
        &mut self,
        from: usize,
        segment: &Segment<'_>,
        now_s: u32,
        memory: &mut Memory<'_>,
    ) -> bool {
        let takes = self.state == State::Opening
            && !segment.has(tcp_flag::SYN | tcp_flag::RST)
            && self.streams[0].holds_beginning(memory.reassembly)
            && self.agree(from, segment, now_s, memory)
            && self.streams[0].holds_beginning(memory.reassembly);
        if takes {
            self.streams[0].note_due(memory.reassembly);
        }
        takes
    }

    /// Both sides have said that they send no more. A reset may have died on its way.
    pub(crate) fn has_finished(&self) -> bool {
        self.state == State::Closed && self.reset_by.is_none()
    }

    /// A SYN of this side was seen.
    pub(super) fn has_greeted(&self, side: usize) -> bool {
        self.greetings[side].iter().next().is_some()
    }

    /// The SYNs of both sides were seen.
    pub(crate) fn has_greeted_both(&self) -> bool {
        self.has_greeted(0) && self.has_greeted(1)
    }

    /// Both sides have agreed on it.
    pub(super) fn is_agreed(&self) -> bool {
        self.state >= State::Established
    }

    /// What a segment that its receiver discards still says.
    fn discard(&mut self, from: usize, segment: &Segment<'_>, position: i64, fault: Event, effect: &mut SegmentEffect) {
        effect.discarded = true;
        match fault {
            Event::StreamInvalidAck => {
                let other = &mut self.streams[1 - from];
                let acknowledged = other.position(segment.acknowledgment).unwrap_or(0);
                if acknowledged > other.edge as i64 {
                    other.beyond = acknowledged as u64;
                }
            }
            // The receiver may know of a window or a stamp what we don't.
            Event::StreamInvalidTimestamp | Event::StreamOutsideWindow => {
                effect.aside = self.streams[from].doubtful(position, segment.payload.len());
            }
            _ => {}
        }
    }

    /// A SYN.
    fn greet(
        &mut self,
        from: usize,
        segment: &Segment<'_>,
        memory: &mut Memory<'_>,
        events: &mut EventSet,
        effect: &mut SegmentEffect,
    ) {
        let Memory { reassembly, windows, .. } = memory;
        let opens = is_opening(segment);
        if !segment.payload.is_empty() && !segment.options.fast_open {
            events.add(Event::StreamSynData);
        }
        if !opens && self.is_picked_up && self.greetings[1 - from].answered_by(segment).is_some() {
            self.put_down(from, segment, reassembly, windows);
        }
        match self.state {
            // A SYN with ACK first: the beginning was not seen, and who is the client is not known.
            State::None if !opens => {}
            State::None | State::Opening if opens => {
                self.state = State::Opening;
                let partner = self.streams[1 - from].isn.unwrap_or(0);
                self.greetings[from].add(Greeting::new(segment, partner));
                let own = &mut self.streams[from];
                if own.isn.is_none() || own.seen == 0 {
                    own.begin(segment.sequence, reassembly, windows);
                }
            }
            State::None | State::Opening => match self.greetings[1 - from].answered_by(segment) {
                Some(answered) => {
                    self.greetings[from].add(Greeting::new(segment, answered.isn));
                    self.streams[1 - from].begin(answered.isn, reassembly, windows);
                    self.streams[from].begin(segment.sequence, reassembly, windows);
                }
                None => {
                    events.add(Event::StreamSynAckWrongAck);
                    effect.discarded = true;
                }
            },
            State::Established | State::Closing | State::Closed => {
                effect.discarded = true;
                events.add(if opens { Event::StreamSynAgain } else { Event::StreamSynAckAgain });
                let is_unheard = self.is_picked_up && !self.has_greeted(from);
                let is_other = is_unheard || self.streams[from].isn != Some(segment.sequence);
                if opens && (self.state == State::Closed || is_other) {
                    self.anew[from].add(Greeting::new(segment, 0));
                }
            }
        }
    }

    /// The SYN by which side `1 - from` began anew, if this segment of side `from` answers it.
    pub(crate) fn answers_anew(&self, from: usize, segment: &Segment<'_>) -> Option<Greeting> {
        const ANSWER: u8 = tcp_flag::SYN | tcp_flag::ACK;
        let (mut anew, own) = (self.anew[1 - from], self.streams[1 - from].isn);
        let answers = segment.flags & (ANSWER | tcp_flag::RST) == ANSWER;
        let is_anew = |greeting: &Greeting| Some(greeting.isn) != own || self.anew[1 - from].of(greeting.isn).is_some();
        anew.answered_by(segment).filter(is_anew).filter(|_| answers)
    }

    /// Begins with a SYN that came in the session before.
    pub(crate) fn open(&mut self, greeting: Greeting) {
        self.state = State::Opening;
        self.streams[0].isn = Some(greeting.isn);
        self.greetings[0].add(greeting);
    }

    /// Whether a segment ends the handshake: it acknowledges a SYN of the other side that answers one of its own.
    fn agree(&mut self, from: usize, segment: &Segment<'_>, now_s: u32, memory: &mut Memory<'_>) -> bool {
        if !segment.has(tcp_flag::ACK) {
            return false;
        }
        let seen = self.streams.map(|stream| stream.seen as u32);
        let fits = |greeting: &&Greeting| {
            let (server, client) = (greeting.isn.wrapping_add(1), greeting.partner.wrapping_add(1));
            let (sent, acknowledged) = if from == 0 { (client, server) } else { (server, client) };
            segment.acknowledgment.wrapping_sub(acknowledged) <= seen[1 - from]
                && u64::from(segment.sequence.wrapping_sub(sent)) <= MOST_AHEAD
        };
        // The server speaks only when it has agreed; which of several answers it means the client's word tells.
        let Some(&answer) = self.greetings[1].iter().find(fits) else { return false };
        if from == 1 && !self.greetings[1].is_single() {
            return false;
        }
        let Some(&opening) = self.greetings[0].of(answer.partner) else { return false };
        let Memory { reassembly, windows, .. } = memory;
        // The server has taken none of what came with the SYN: it comes again, and may be something else.
        if answer.taken == 0 && self.streams[0].isn == Some(opening.isn) && opening.carried > 0 {
            self.streams[0].begin_again(opening.isn, reassembly, windows);
        }
        for (stream, (own, other)) in self.streams.iter_mut().zip([(opening, answer), (answer, opening)]) {
            stream.begin(own.isn, reassembly, windows);
            stream.edge = stream.edge.max(other.window.into());
            stream.widest = other.window.into();
            stream.shift = if other.options.scale.is_some() { own.options.scale.unwrap_or(0) } else { 0 };
            stream.stamp = own.options.stamp.filter(|_| other.options.stamp.is_some()).map(|stamp| (stamp, now_s));
        }
        self.signed = answer.options.signed;
        self.reset_by = None;
        self.state = State::Established;
        true
    }

    /// What an accepted segment says of the other side's stream, and of its own time.
    fn acknowledge(&mut self, from: usize, segment: &Segment<'_>, position: i64, now_s: u32) {
        let window = u32::from(segment.window) << self.streams[from].shift;
        let other = &mut self.streams[1 - from];
        let Some(acknowledged) = other.position(segment.acknowledgment).and_then(|at| u64::try_from(at).ok()) else {
            return;
        };
        other.widest = other.widest.max(window);
        other.edge = other.edge.max(acknowledged + u64::from(window));
        let sent = acknowledged <= other.seen + 1;
        if sent {
            other.acknowledged = other.acknowledged.max(acknowledged.min(other.seen));
        }
        // As the receiver has it: only what begins no later than what it has acknowledged (RFC 7323 §4.3).
        let own = &mut self.streams[from];
        if let (Some((newest, came_s)), Some(stamp)) = (&mut own.stamp, segment.options.stamp)
            && sent
            && position <= own.acknowledged as i64
            && stamp.wrapping_sub(*newest) as i32 >= 0
        {
            (*newest, *came_s) = (stamp, now_s);
        }
    }

    fn reset(&mut self, from: usize, segment: &Segment<'_>, events: &mut EventSet, effect: &mut SegmentEffect) {
        if self.state == State::None || self.state == State::Closed {
            return;
        }
        if self.is_reset(from, segment) {
            // Who has not taken a reset goes on with the handshake.
            if self.state != State::Opening {
                self.state = State::Closed;
            }
            self.reset_by = Some(from as u8);
        } else {
            events.add(Event::StreamRstBadWindow);
            effect.discarded = true;
        }
    }

    fn finish(&mut self, effect: &mut SegmentEffect) {
        if matches!(self.state, State::Established | State::Closing) {
            let finished = self.streams.iter().filter(|stream| stream.is_finished()).count();
            effect.ended = finished == 2;
            self.state = [self.state, State::Closing, State::Closed][finished];
        }
    }

    /// Bytes of either side have come in order and wait to be inspected.
    pub(crate) fn is_behind(&self) -> bool {
        self.streams.iter().any(Stream::is_behind)
    }

    /// The side whose bytes are to be inspected next: those that came first of what waits.
    pub(crate) fn next_side(&self, reassembly: &Reassembly) -> Option<usize> {
        let is_behind = |side: usize| self.streams[side].is_behind();
        let may_go =
            |side: usize| is_behind(side) && reassembly.after(&self.streams[side].early) <= self.passed(1 - side);
        // A stream that has begun again has other positions than the ones that were noted: then neither may.
        (0..2).find(|&side| may_go(side)).or_else(|| (0..2).find(|&side| is_behind(side)))
    }

    /// How much of a side's bytes was inspected, of what was noted of them: all, if none waits.
    pub(crate) fn passed(&self, side: usize) -> u64 {
        let stream = &self.streams[side];
        if stream.is_behind() { stream.next } else { u64::MAX }
    }

    /// Puts bytes of a side that wait to be inspected at the end of `out`, up to `most`, as far as the other side said nothing
    /// between them that waits, too.
    pub(crate) fn follow(&mut self, of: usize, reassembly: &mut Reassembly, most: usize, out: &mut Vec<u8>) {
        // The first ones go in any case.
        let passed = self.passed(1 - of).max(reassembly.after(&self.streams[of].early));
        self.streams[of].follow(reassembly, most, passed, out);
    }

    /// Goes on behind a gap of this side's that its receiver has filled or nobody fills, once all before it was inspected; where the
    /// gap begins.
    pub(crate) fn cross(&mut self, of: usize, reassembly: &mut Reassembly) -> Option<u64> {
        self.streams[of].cross(reassembly)
    }

    /// At the end: goes on behind a side's next gap, if there is anything.
    pub(crate) fn pass_gap(&mut self, of: usize, reassembly: &mut Reassembly, windows: &mut Windows) {
        self.streams[of].pass_gap(reassembly, windows);
    }

    /// Gives all memory back.
    pub(crate) fn forget(&mut self, reassembly: &mut Reassembly, windows: &mut Windows) {
        for stream in &mut self.streams {
            stream.forget(reassembly, windows);
        }
    }
}

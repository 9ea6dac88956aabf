//! Owns: the state of one key of one rule, from event to incident.
//! Does not: judge which events match: they come as [`Filling`]s.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::entry::{Entry, Fill, Mark, Order, Waiting};
use super::preview::Reach;
use super::queue::Queue;
use super::window::Window;
use crate::IncidentId;
use crate::automaton::{Hash, Rule};
use crate::bytes::{Damaged, Reader, Writer};
use crate::matcher::Filling;
use crate::output::{Closed, Doubt, Extended, Hit, Member, Opened, Output};

/// Bytes of a state beside its window.
pub(crate) const STATE_BYTES: u64 = 1 + 34 + 37 + 8;
/// Format of the bytes.
const FORMAT: u8 = 1;
/// Event times are at most so far from 1970, ns (146 years): sums of times never overflow.
const FARTHEST: i64 = 1 << 62;

/// What is remembered of one key of one rule.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) window: Window,
    pub(super) waiting: Queue,
    applied: Option<Order>,
    /// Apart, as few states have one.
    pub(super) open: Option<Box<Open>>,
}

/// An open incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    id: IncidentId,
    at: i64,
    /// Members that were told.
    told: u32,
    /// Events that completed a match.
    matches: u64,
}

impl State {
    /// Nothing is remembered yet.
    #[must_use]
    pub fn new(rule: &Rule) -> Self {
        Self { window: Window::new(rule), waiting: Queue::default(), applied: None, open: None }
    }

    /// Takes an event, if there is one, and then applies all that has come up to the watermark. Outputs are appended.
    ///
    /// `watermark` promises that every event with a time up to it has been given; it never goes back. An event at or
    /// behind it is [`Output::Late`] and changes nothing. Returns the watermark at which the state has to be called
    /// again (without an event), or `None` when nothing is remembered and the state can be dropped.
    ///
    /// `key` is the key of the filling; it becomes part of ids and outputs.
    pub fn step(
        &mut self,
        rule: &Rule,
        key: &[u8],
        event: Option<&Filling>,
        watermark: i64,
        out: &mut Vec<Output>,
    ) -> Option<i64> {
        if let Some(event) = event {
            self.take(rule, key, Waiting::of(event), watermark, out);
        }
        self.go_on(rule, key, watermark, out)
    }

    /// As [`step`](Self::step) with an event that waited elsewhere.
    pub fn step_fill(
        &mut self,
        rule: &Rule,
        key: &[u8],
        (mark, fill): (Mark, Fill),
        watermark: i64,
        out: &mut Vec<Output>,
    ) -> Option<i64> {
        self.take(rule, key, fill.waiting(mark), watermark, out);
        self.go_on(rule, key, watermark, out)
    }

    /// The same as a step with an event under the watermark before, and then one under this, which has come to the event's
    /// time: the event need not be put aside in between. The watermark before was behind it.
    pub fn pass_fill(
        &mut self,
        rule: &Rule,
        key: &[u8],
        (mark, fill): (Mark, Fill),
        watermark: i64,
        out: &mut Vec<Output>,
    ) -> Option<i64> {
        let (event, time) = (fill.waiting(mark), mark.time_ns);
        let before = time.saturating_sub(1);
        if time > watermark || !self.waiting.is_empty() {
            self.take(rule, key, event, before, out);
        } else if let Some(event) = self.admitted(rule, event, before, out) {
            self.pass(rule, key, before, out);
            self.window.expire(rule, time);
            let mut matched = Vec::new();
            self.apply(rule, event, &mut matched, out);
            self.settle(rule, key, time, &mut matched, out);
        }
        self.go_on(rule, key, watermark, out)
    }

    /// Applies all that has come up to the watermark; the next one at which something has to be done.
    fn go_on(&mut self, rule: &Rule, key: &[u8], watermark: i64, out: &mut Vec<Output>) -> Option<i64> {
        while let Some(first) = self.waiting.peek()
            && first.time() <= watermark
        {
            let time = first.time();
            self.instant(rule, key, time, usize::MAX, out);
        }
        self.pass(rule, key, watermark, out);
        self.window.expire(rule, watermark);
        self.timer(rule)
    }

    /// Lets an event wait.
    fn take(&mut self, rule: &Rule, key: &[u8], event: Waiting, watermark: i64, out: &mut Vec<Output>) {
        let Some(event) = self.admitted(rule, event, watermark, out) else { return };
        self.waiting.push(event);
        if self.waiting.len() > rule.limits.waiting as usize
            && let Some(first) = self.waiting.peek()
        {
            out.push(Output::Forced { rule: rule.number, mark: first.entry().mark });
            let time = first.time();
            self.instant(rule, key, time, 1, out);
        }
    }

    /// An event that is to be judged, with the steps that the rule has. Of another one is said why not.
    fn admitted(&self, rule: &Rule, mut event: Waiting, watermark: i64, out: &mut Vec<Output>) -> Option<Waiting> {
        let (time, mark) = (event.time(), event.entry().mark);
        let far = !(-FARTHEST..=FARTHEST).contains(&time);
        event.places &= places(rule);
        let refused = if time <= watermark || far || event.places == 0 {
            Some(Output::Late { rule: rule.number, mark })
        } else {
            self.told_before(rule, &event)
        };
        match refused {
            None => Some(event),
            Some(output) => {
                out.push(output);
                None
            }
        }
    }

    /// What is to be said of an event that comes behind one that was applied.
    fn told_before(&self, rule: &Rule, event: &Waiting) -> Option<Output> {
        let (applied, mark) = (self.applied?, event.entry().mark);
        match event.order().cmp(&applied) {
            core::cmp::Ordering::Greater => None,
            core::cmp::Ordering::Equal => Some(Output::Duplicate { rule: rule.number, mark }),
            core::cmp::Ordering::Less => Some(Output::Late { rule: rule.number, mark }),
        }
    }

    /// Whether an event comes behind what was applied.
    pub(super) fn is_next(&self, event: &Waiting) -> bool {
        self.applied.is_none_or(|applied| event.order() > applied)
    }

    /// Applies the waiting events of one stamp, `most` of them.
    fn instant(&mut self, rule: &Rule, key: &[u8], time: i64, most: usize, out: &mut Vec<Output>) {
        self.pass(rule, key, time.saturating_sub(1), out);
        self.window.expire(rule, time);
        let (mut matched, mut taken) = (Vec::new(), 0);
        while taken < most
            && let Some(first) = self.waiting.peek()
            && first.time() == time
        {
            let Some(event) = self.waiting.pop() else { break };
            taken += 1;
            self.apply(rule, event, &mut matched, out);
        }
        self.settle(rule, key, time, &mut matched, out);
    }

    /// Applies one event.
    fn apply(&mut self, rule: &Rule, event: Waiting, matched: &mut Vec<Waiting>, out: &mut Vec<Output>) {
        if let Some(output) = self.told_before(rule, &event) {
            return out.push(output);
        }
        self.applied = Some(event.order());
        let completes = self.window.apply(rule, &event);
        // With an upper bound the stamp's last event decides.
        if completes || rule.is_bounded() {
            matched.push(event);
        }
    }

    /// Goes through the times up to `through` at which the condition can change because something grew too old.
    fn pass(&mut self, rule: &Rule, key: &[u8], through: i64, out: &mut Vec<Output>) {
        while self.open.is_some() || rule.is_bounded() {
            let Some(at) = self.window.turns(rule).map(|oldest| after(rule, oldest)).filter(|at| *at <= through) else {
                break;
            };
            self.window.expire(rule, at);
            self.settle(rule, key, at, &mut Vec::new(), out);
        }
    }

    /// Opens, extends or closes the incident by what holds at `at`.
    fn settle(&mut self, rule: &Rule, key: &[u8], at: i64, matched: &mut Vec<Waiting>, out: &mut Vec<Output>) {
        match (&mut self.open, self.window.start(rule)) {
            (None, None) => return,
            (None, Some(start)) => {
                // As many as an incident tells at all: it may open with each event of one who paces them so.
                let members = self.window.members(rule.limits.members as usize);
                let untold = self.window.count().saturating_sub(members.len());
                let id = id(rule, key, at, &members, untold);
                let told = members.len() as u32;
                self.open = Some(Box::new(Open { id, at, told, matches: matched.len() as u64 }));
                self.window.told();
                let doubt = Doubt::of(rule, &members);
                let members = members.into_iter().map(Member::of).collect();
                let key = key.into();
                out.push(Output::Opened(Opened {
                    id,
                    rule: rule.number,
                    key,
                    at_ns: at,
                    start_ns: start,
                    doubt,
                    members,
                }));
            }
            (Some(_), Some(_)) if matched.is_empty() => return,
            (Some(open), Some(_)) => {
                open.matches += matched.len() as u64;
                let room = rule.limits.members.saturating_sub(open.told) as usize;
                if room > 0 {
                    let mut members = self.window.further(matched);
                    members.truncate(room);
                    open.told += members.len() as u32;
                    self.window.told();
                    let members = members.into_iter().map(Member::of).collect();
                    out.push(Output::Extended(Extended { id: open.id, rule: rule.number, at_ns: at, members }));
                }
            }
            (Some(open), None) => {
                let Open { id, matches, .. } = **open;
                self.open = None;
                self.window.closed();
                return out.push(Output::Closed(Closed { id, rule: rule.number, at_ns: at, matches }));
            }
        }
        let Some(incident) = self.incident().filter(|_| rule.is_consumed()) else { return };
        if rule.is_bounded() {
            matched.drain(..matched.len().saturating_sub(1));
        }
        out.extend(matched.drain(..).map(|event| {
            let (mark, carry) = (event.entry().mark, event.into_carry());
            Output::Hit(Hit { rule: rule.number, mark, incident, carry })
        }));
    }

    /// The watermark at which something has to be done.
    fn timer(&self, rule: &Rule) -> Option<i64> {
        let waiting = self.waiting.peek().map(|first| first.time());
        let turns =
            if self.open.is_some() || rule.is_bounded() { self.window.turns(rule) } else { self.window.newest() };
        [waiting, turns.map(|oldest| after(rule, oldest))].into_iter().flatten().min()
    }

    /// The open incident.
    #[must_use]
    pub fn incident(&self) -> Option<IncidentId> {
        self.open.as_ref().map(|open| open.id)
    }

    /// How many members of the open incident were told, and how many events completed a match: what
    /// [`resume`](Self::resume) has to be given after a restart.
    #[must_use]
    pub fn progress(&self) -> Option<(u32, u64)> {
        self.open.as_ref().map(|open| (open.told, open.matches))
    }

    /// Bytes of memory that the state takes, near enough for a bound.
    #[must_use]
    pub fn weight(&self) -> usize {
        let open = self.open.as_ref().map_or(0, |_| size_of::<Open>());
        size_of::<Self>() + self.window.weight() + self.waiting.weight() + open
    }

    /// What is remembered, for whoever has to forget it or explain what is missing: the events of the last timespan that
    /// count, [`Limits::members`](crate::Limits::members) of them at most, or of steps the furthest that was reached. Events that wait are not among them.
    #[must_use]
    pub fn remembered(&self, rule: &Rule) -> Vec<Member> {
        self.window.remembered(rule.limits.members as usize).into_iter().map(Member::of).collect()
    }

    /// The watermark at which the window is empty if no further event comes; the key to forget first is that with the
    /// least. `None` when the window is empty.
    #[must_use]
    pub fn expires_ns(&self, rule: &Rule) -> Option<i64> {
        self.window.newest().map(|newest| after(rule, newest))
    }

    /// Whether nothing is remembered, so that the state can be dropped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.window.is_empty() && self.open.is_none()
    }

    /// How many events wait for the watermark.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// What has come of the condition, for [`Rule::could`]. It grows with events that are applied alone.
    #[must_use]
    pub fn reach(&self, rule: &Rule) -> Reach {
        if self.open.is_some() { Reach::TOLD } else { self.window.reach(rule) }
    }

    /// Whether as many wait as may: one more is [`Output::Forced`], or forces another.
    #[must_use]
    pub fn is_full(&self, rule: &Rule) -> bool {
        self.waiting.len() >= rule.limits.waiting as usize
    }

    /// Gives an incident that is open again after a state was rebuilt from a log the identity it had: a log that begins
    /// later than the incident opens it with another match, and so under another id. `told` members were told and
    /// `matches` counted. False when no incident is open.
    pub fn resume(&mut self, id: IncidentId, opened_at_ns: i64, told: u32, matches: u64) -> bool {
        let open = self.open.as_mut();
        open.map(|open| **open = Open { id, at: opened_at_ns, told, matches }).is_some()
    }

    /// The state as bytes: equal where states are, whatever the order in which waiting events came.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let mut w = Writer(into);
        w.u8(FORMAT);
        w.option(self.applied, |w, order| order.write(w));
        w.option(self.open.as_ref(), |w, open| {
            w.raw(&open.id.0);
            w.i64(open.at);
            w.u32(open.told);
            w.u64(open.matches);
        });
        self.window.write(&mut w);
        let mut waiting: Vec<_> = self.waiting.iter().collect();
        waiting.sort_unstable();
        w.list(&waiting, |w, event| event.write(w));
    }

    /// Reads what [`encode`](Self::encode) wrote for the same rule.
    ///
    /// # Errors
    /// Damaged bytes, or those of another kind of rule.
    pub fn decode(rule: &Rule, bytes: &[u8]) -> Result<Self, Damaged> {
        let mut r = Reader::new(bytes);
        if r.u8()? != FORMAT {
            return Err(Damaged { at: 0, expected: "a state of this version's format" });
        }
        let applied = r.option(Order::read)?;
        let open = r.option(|r| {
            let (id, at) = (IncidentId(r.array()?), r.i64()?);
            Ok(Box::new(Open { id, at, told: r.u32()?, matches: r.u64()? }))
        })?;
        let window = Window::read(rule, &mut r)?;
        let waiting = r.list(Waiting::read)?;
        r.end()?;
        let sound = waiting.iter().all(|event| {
            event.places != 0 && event.places & !places(rule) == 0 && event.time().unsigned_abs() <= FARTHEST as u64
        });
        if !sound || waiting.len() > rule.limits.waiting as usize + 1 || window.is_far(FARTHEST) {
            return Err(r.damaged("events of this rule"));
        }
        // Events are applied in their order: a window that is ahead of it would get older events behind newer ones.
        if window.latest() > applied.map(|order| order.time) {
            return Err(r.damaged("no event newer than the one applied last"));
        }
        // An incident is open where the condition held when the state was written.
        if open.is_some() != window.start(rule).is_some() {
            return Err(r.damaged("an incident where the condition holds, and none elsewhere"));
        }
        Ok(Self { window, waiting: waiting.into_iter().collect(), applied, open })
    }
}

/// The steps that a rule has.
fn places(rule: &Rule) -> u32 {
    u32::MAX >> (32 - u32::from(rule.places.clamp(1, 32)))
}

/// When an event is too old.
fn after(rule: &Rule, time: i64) -> i64 {
    time.saturating_add(rule.timespan_ns).saturating_add(1)
}

fn id(rule: &Rule, key: &[u8], at: i64, members: &[(u8, Entry)], untold: usize) -> IncidentId {
    let mut bytes = Vec::new();
    let mut w = Writer(&mut bytes);
    w.raw(&rule.version);
    w.bytes(key);
    w.i64(at);
    for (place, Entry { mark: Mark { time_ns, identity, .. }, via }) in members {
        w.u8(*place);
        w.i64(*time_ns);
        [identity.sensor, identity.epoch, identity.sequence].into_iter().for_each(|part| w.u64(part));
        w.option(*via, |w, via| w.raw(&via.0));
    }
    if untold > 0 {
        w.u64(untold as u64);
    }
    let mut hash = Hash::of("ringtap sigma incident 1");
    hash.add(&bytes);
    IncidentId(hash.part())
}

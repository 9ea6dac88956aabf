//! Owns: what is remembered of the last timespan, one form for each kind of correlation, and whether the condition holds.
//! Does not: know incidents or the watermark: events come here in their order, and time never goes back.

use alloc::vec::Vec;

use super::counts::{Stamps, Values};
use super::entry::{Digest, Entry, Waiting};
use super::ordered::Ordered;
use super::preview::Reach;
use super::together::Together;
use crate::automaton::{Rule, Shape};
use crate::bytes::{Damaged, Reader, Writer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Count(Stamps),
    Values(Values),
    Together(Together),
    Ordered(Ordered),
}

/// Values that grew too old since the watermark and are counted one by one, to tell a match early.
const LOOK_AT: usize = 64;

impl Window {
    pub(crate) fn new(rule: &Rule) -> Self {
        match &rule.shape {
            Shape::Count(_) => Self::Count(Stamps::default()),
            Shape::Values(_) => Self::Values(Values::default()),
            Shape::Together(_) => Self::Together(Together::new(rule.places)),
            Shape::Ordered => Self::Ordered(Ordered::new(rule.places)),
        }
    }

    /// Bytes of memory beside the window's own, near enough for a bound.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Count(stamps) => stamps.weight(),
            Self::Values(values) => values.weight(),
            Self::Together(together) => together.weight(),
            Self::Ordered(ordered) => ordered.weight(),
        }
    }

    /// Whether nothing is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.newest().is_none()
    }

    /// Forgets what is older than a timespan at `time`.
    pub(crate) fn expire(&mut self, rule: &Rule, time: i64) {
        let oldest = time.saturating_sub(rule.timespan_ns);
        match self {
            Self::Count(stamps) => stamps.expire(oldest),
            Self::Values(values) => values.expire(oldest),
            Self::Together(together) => together.expire(oldest),
            Self::Ordered(ordered) => ordered.expire(oldest),
        }
    }

    /// Applies an event; true if it is the last of a match.
    pub(crate) fn apply(&mut self, rule: &Rule, event: &Waiting) -> bool {
        match (self, &rule.shape) {
            (Self::Count(stamps), Shape::Count(range)) => {
                stamps.push(event.entry(), range.keep());
                range.holds(stamps.count())
            }
            (Self::Values(values), Shape::Values(range)) => {
                if let Some(value) = event.value() {
                    values.push(value, event.entry(), range.keep());
                }
                range.holds(values.count())
            }
            (Self::Together(together), Shape::Together(formula)) => {
                together.push(event.places, event.entry());
                together.start(formula).is_some()
            }
            (Self::Ordered(ordered), Shape::Ordered) => ordered.push(event.places, event.entry()),
            // A state is made, and decoded, for its rule.
            _ => false,
        }
    }

    /// When the oldest event that the condition rests on was, if it holds. What is too old must be forgotten before.
    pub(crate) fn start(&self, rule: &Rule) -> Option<i64> {
        match (self, &rule.shape) {
            (Self::Count(stamps), Shape::Count(range)) => stamps.oldest().filter(|_| range.holds(stamps.count())),
            (Self::Values(values), Shape::Values(range)) => values.oldest().filter(|_| range.holds(values.count())),
            (Self::Together(together), Shape::Together(formula)) => together.start(formula),
            (Self::Ordered(ordered), Shape::Ordered) => ordered.start(),
            _ => None,
        }
    }

    /// The event whose expiry is the next that can change whether the condition holds.
    pub(crate) fn turns(&self, rule: &Rule) -> Option<i64> {
        match self {
            Self::Count(stamps) => stamps.oldest(),
            Self::Values(values) => values.oldest(),
            Self::Together(_) | Self::Ordered(_) => self.start(rule),
        }
    }

    /// The event with which the last of what is remembered is forgotten.
    pub(crate) fn newest(&self) -> Option<i64> {
        match self {
            Self::Count(stamps) => stamps.newest(),
            Self::Values(values) => values.newest(),
            Self::Together(together) => together.newest(),
            Self::Ordered(ordered) => ordered.newest(),
        }
    }

    /// When the latest event was that is remembered.
    pub(crate) fn latest(&self) -> Option<i64> {
        match self {
            Self::Ordered(ordered) => ordered.latest(),
            _ => self.newest(),
        }
    }

    /// The events that the condition rests on, with their steps; of a count the first `most`.
    pub(crate) fn members(&self, most: usize) -> Vec<(u8, Entry)> {
        match self {
            Self::Count(stamps) => stamps.entries().take(most).map(|entry| (0, entry)).collect(),
            Self::Values(values) => values.entries().take(most).map(|entry| (0, entry)).collect(),
            Self::Together(together) => together.members(),
            Self::Ordered(ordered) => ordered.members(),
        }
    }

    /// How many events the condition rests on.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Count(stamps) => stamps.count() as usize,
            Self::Values(values) => values.count() as usize,
            Self::Together(together) => together.members().len(),
            Self::Ordered(ordered) => ordered.members().len(),
        }
    }

    /// The events that are there, whether the condition holds or not; of a count the first `most`.
    pub(crate) fn remembered(&self, most: usize) -> Vec<(u8, Entry)> {
        match self {
            Self::Ordered(ordered) => ordered.furthest(),
            _ => self.members(most),
        }
    }

    /// The first of these events, if they come next and in this order, that completes a match of a rule without an upper
    /// bound. It costs a constant for each; where that is not enough it finds none.
    pub(crate) fn completed_by(&self, rule: &Rule, events: &[Waiting]) -> Option<usize> {
        self.completed_from(rule, events, 0)
    }

    /// The same of the events from this one on.
    pub(crate) fn completed_from(&self, rule: &Rule, events: &[Waiting], from: usize) -> Option<usize> {
        let oldest = |event: &Waiting| event.time().saturating_sub(rule.timespan_ns);
        match (self, &rule.shape) {
            (Self::Count(stamps), Shape::Count(range)) => (from..events.len()).find(|&at| {
                let oldest = oldest(&events[at]);
                let coming = at + 1 - events.partition_point(|event| event.time() < oldest);
                stamps.since(oldest) + coming >= range.least as usize
            }),
            (Self::Values(values), Shape::Values(range)) => {
                // Values, when each comes last, and when the window has seen it.
                let mut coming: Vec<(Digest, i64, Option<i64>)> = Vec::new();
                for (at, event) in events.iter().enumerate() {
                    let (time, oldest) = (event.time(), oldest(event));
                    let Some(value) = event.value() else { continue };
                    match coming.iter_mut().find(|(known, ..)| *known == value) {
                        Some((_, last, _)) => *last = time,
                        None => coming.push((value, time, values.seen(&value))),
                    }
                    if at < from {
                        continue;
                    }
                    let is_new = |(_, last, seen): &&(Digest, i64, Option<i64>)| {
                        *last >= oldest && seen.is_none_or(|seen| seen < oldest)
                    };
                    let kept = values.since(oldest, LOOK_AT)?;
                    if kept + coming.iter().filter(is_new).count() >= range.least as usize {
                        return Some(at);
                    }
                }
                None
            }
            // A copy costs as much as the rule has steps.
            _ => {
                let mut window = self.clone();
                (0..events.len()).find(|&at| {
                    window.expire(rule, events[at].time());
                    window.apply(rule, &events[at]) && at >= from
                })
            }
        }
    }

    /// Members that later matches at an open incident have brought: `matched` are the last events of those matches.
    pub(crate) fn further(&mut self, matched: &[Waiting]) -> Vec<(u8, Entry)> {
        let mut members: Vec<_> = matched.iter().map(|event| (event.place(), event.entry())).collect();
        if let Self::Ordered(ordered) = self {
            ordered.further(&mut members);
        }
        members
    }

    /// The members were told.
    pub(crate) fn told(&mut self) {
        if let Self::Ordered(ordered) = self {
            ordered.told();
        }
    }

    /// The incident is over.
    pub(crate) fn closed(&mut self) {
        if let Self::Ordered(ordered) = self {
            ordered.closed();
        }
    }

    /// Whether an event lies farther from 1970 than any that is taken; only in bytes that this crate did not write.
    pub(crate) fn is_far(&self, farthest: i64) -> bool {
        let far = |time: i64| time.unsigned_abs() > farthest.unsigned_abs();
        match self {
            Self::Count(stamps) => stamps.entries().any(|entry| far(entry.time())),
            Self::Values(values) => values.entries().any(|entry| far(entry.time())),
            Self::Together(together) => together.members().iter().any(|(_, entry)| far(entry.time())),
            Self::Ordered(ordered) => ordered.starts().any(far),
        }
    }

    /// Whether the condition could hold if the given steps were filled now, and so many events came: a cheap no.
    pub(crate) fn could(&self, rule: &Rule, places: u32, events: u32) -> bool {
        match (self, &rule.shape) {
            (Self::Count(stamps), Shape::Count(range)) => stamps.count().saturating_add(events) >= range.least,
            (Self::Values(values), Shape::Values(range)) => values.count().saturating_add(events) >= range.least,
            (Self::Together(together), Shape::Together(formula)) => formula.holds(places | together.places()),
            (Self::Ordered(ordered), Shape::Ordered) => {
                (places | ordered.places()).count_ones() >= u32::from(rule.places)
            }
            _ => false,
        }
    }

    /// How far the condition has come.
    pub(crate) fn reach(&self, rule: &Rule) -> Reach {
        match self {
            Self::Count(stamps) => Reach::of_count(stamps.count()),
            Self::Values(values) => Reach::of_count(values.count()),
            Self::Together(together) => Reach::of_places(rule, together.places()),
            Self::Ordered(ordered) => Reach::of_places(rule, ordered.places()),
        }
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        match self {
            Self::Count(stamps) => stamps.write(w),
            Self::Values(values) => values.write(w),
            Self::Together(together) => together.write(w),
            Self::Ordered(ordered) => ordered.write(w),
        }
    }

    pub(crate) fn read(rule: &Rule, r: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(match &rule.shape {
            Shape::Count(range) => Self::Count(Stamps::read(r, range.keep())?),
            Shape::Values(range) => Self::Values(Values::read(r, range.keep())?),
            Shape::Together(_) => Self::Together(Together::read(r, rule.places)?),
            Shape::Ordered => Self::Ordered(Ordered::read(r, rule.places)?),
        })
    }
}

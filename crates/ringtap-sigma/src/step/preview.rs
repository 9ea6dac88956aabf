//! Owns: whether a match is certain before the watermark has come.
//! Does not: change the state. What it finds is never wrong, as further events only add to the matches of such rules; it
//! need not find all, and what it finds depends on the order of arrival: the state says the rest at the watermark.

use alloc::vec::Vec;

use super::entry::{Entry, Waiting};
use super::state::State;
use crate::automaton::{Rule, Shape};
use crate::matcher::Filling;
use crate::output::{Doubt, Hit, Member};
use crate::step::IncidentId;

/// Waiting events that are looked at: work per arriving event stays bounded in a flood.
const LOOK_AT: usize = 64;

/// A match that the watermark will confirm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certain {
    /// Its first event, ns.
    pub start_ns: i64,
    /// Its last event, ns: the incident that is open then is the one it belongs to.
    pub at_ns: i64,
    /// What is not proven of it.
    pub doubt: Doubt,
    /// Its events.
    pub members: Vec<Member>,
}

/// How far a condition has come, in two bytes that a host keeps where it needs no look at the state: the steps that are
/// filled, or how many events or values are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach(u16);

impl Reach {
    /// Nothing is there.
    pub const NOTHING: Self = Self(0);
    /// An incident is open, and was told.
    pub(super) const TOLD: Self = Self(u16::MAX);
    /// It may be anything.
    const UNKNOWN: Self = Self(u16::MAX - 1);
    /// What two bytes can say.
    const MOST: u32 = 15;

    pub(super) fn of_places(rule: &Rule, places: u32) -> Self {
        if u32::from(rule.places) <= Self::MOST { Self(places as u16) } else { Self::UNKNOWN }
    }

    pub(super) fn of_count(count: u32) -> Self {
        u16::try_from(count).map_or(Self::UNKNOWN, |count| Self(count.min(Self::UNKNOWN.0)))
    }
}

impl Rule {
    /// Whether a match could be [certain](State::preview) that was not told, if so many events came that together fill these
    /// steps: a cheap no.
    #[must_use]
    pub fn could(&self, reach: Reach, places: u32, events: u32) -> bool {
        if !self.monotone || reach == Reach::TOLD {
            return false;
        }
        let there = u32::from(reach.0);
        match &self.shape {
            _ if reach == Reach::UNKNOWN => true,
            Shape::Count(range) | Shape::Values(range) => there.saturating_add(events) >= range.least,
            Shape::Together(formula) => formula.holds(there | places),
            Shape::Ordered => (there | places).count_ones() >= u32::from(self.places),
        }
    }
}

impl State {
    /// A match that is certain by what was applied, what waits (64 events of it at most) and `arriving`, events of this
    /// key that the state has not been given. `None` while an incident is open: that one was told.
    #[must_use]
    pub fn preview(&self, rule: &Rule, arriving: &[Filling]) -> Option<Certain> {
        if !rule.monotone || self.open.is_some() {
            return None;
        }
        let events = self.coming(rule, arriving)?;
        let last = self.window.completed_by(rule, &events)?;
        // Once for each incident.
        let mut window = self.window.clone();
        for event in &events[..=last] {
            window.expire(rule, event.time());
            window.apply(rule, event);
        }
        let members = window.members(rule.limits.members as usize);
        Some(Certain {
            start_ns: window.start(rule)?,
            at_ns: events[last].time(),
            doubt: Doubt::of(rule, &members),
            members: members.into_iter().map(Member::of).collect(),
        })
    }

    /// The hit that `event` will be for the rules above, if that is certain: it was given to the state or is among `arriving`, events
    /// of this key that the state has not been given. Its incident is not known yet, and is zero.
    #[must_use]
    pub fn foresee(&self, rule: &Rule, arriving: &[Filling], event: &Filling) -> Option<Hit> {
        if !rule.monotone || !rule.is_consumed() {
            return None;
        }
        let mut events = self.coming(rule, arriving)?;
        let own = waiting(event);
        if !self.is_next(&own) {
            return None;
        }
        events.retain(|other| other.order() < own.order());
        events.push(own);
        let last = events.len() - 1;
        self.window.completed_from(rule, &events, last)?;
        let incident = IncidentId::default();
        Some(Hit { rule: rule.number, mark: event.mark, incident, carry: event.carry.clone() })
    }

    /// What waits, as far as it is looked at, and what arrives, in their order; `None`: the condition can't hold with these.
    fn coming(&self, rule: &Rule, arriving: &[Filling]) -> Option<Vec<Waiting>> {
        let there = || self.waiting.newest(LOOK_AT);
        let places = there().map(|event| event.places).chain(arriving.iter().map(|event| event.places));
        // One that is asked about may be neither.
        let most = (there().count() + arriving.len() + 1) as u32;
        if !self.window.could(rule, places.fold(0, |a, b| a | b), most) {
            return None;
        }
        // Without what they carry to the rules above.
        let copy = |event: &Waiting| Waiting::new(event.places, event.entry(), event.value(), &[]);
        let mut events: Vec<Waiting> = there().map(copy).collect();
        events.extend(arriving.iter().map(waiting));
        events.retain(|event| self.is_next(event));
        events.sort_unstable();
        events.dedup_by_key(|event| event.order());
        Some(events)
    }
}

/// An event as it waits, without what it carries.
fn waiting(event: &Filling) -> Waiting {
    let entry = Entry { mark: event.mark, via: event.via };
    Waiting::new(event.places, entry, event.value, &[])
}

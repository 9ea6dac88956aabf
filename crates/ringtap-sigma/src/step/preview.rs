//! Owns: whether a match is certain before the watermark has come.
//! Does not: change the state. What it finds is never wrong, as further events only add to the matches of such rules; it
//! need not find all, and what it finds depends on the order of arrival: the state says the rest at the watermark.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::entry::{Entry, Waiting};
use super::state::State;
use crate::automaton::Rule;
use crate::matcher::Filling;
use crate::output::{Doubt, Member};

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

impl State {
    /// A match that is certain by what was applied, what waits (64 events of it at most) and `arriving`, events of this
    /// key that the state has not been given. `None` while an incident is open: that one was told.
    #[must_use]
    pub fn preview(&self, rule: &Rule, arriving: &[Filling]) -> Option<Certain> {
        if !rule.monotone || self.open.is_some() {
            return None;
        }
        // The end of the heap's memory: mostly what came last.
        let waiting = self.waiting.as_slice();
        let waiting = &waiting[waiting.len().saturating_sub(LOOK_AT)..];
        let places = waiting.iter().map(|Reverse(event)| event.places).chain(arriving.iter().map(|event| event.places));
        if !self.window.could(rule, places.fold(0, |a, b| a | b), (waiting.len() + arriving.len()) as u32) {
            return None;
        }
        let mut events: Vec<Waiting> = waiting.iter().map(|Reverse(event)| event.clone()).collect();
        events.extend(arriving.iter().map(|event| {
            let entry = Entry { mark: event.mark, via: event.via };
            Waiting::new(event.places, entry, event.value, Vec::new())
        }));
        events.retain(|event| self.is_next(event));
        events.sort_unstable();
        events.dedup_by_key(|event| event.order);
        let mut window = self.window.clone();
        let last = events.iter().find(|event| {
            window.expire(rule, event.order.time);
            window.apply(rule, event)
        })?;
        let members = window.members();
        Some(Certain {
            start_ns: window.start(rule)?,
            at_ns: last.order.time,
            doubt: Doubt::of(rule, &members),
            members: members.into_iter().map(Member::of).collect(),
        })
    }
}

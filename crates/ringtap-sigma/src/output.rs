//! Owns: what a step says, and its one form as a line of JSON.
//! Does not: keep anything: members that were told are the host's to remember.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::automaton::{Automaton, Rule, Shape};
use crate::matcher::key_parts;
use crate::step::{Entry, Identity, IncidentId, Mark};

/// What a step says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The condition began to hold.
    Opened(Opened),
    /// A further match at an open incident.
    Extended(Extended),
    /// The condition no longer holds.
    Closed(Closed),
    /// A match of a rule that others rest on, to be handed to [`Automaton::rise`].
    Hit(Hit),
    /// An event at or behind the watermark, or with an impossible time. It was not judged.
    Late {
        /// Number of the rule.
        rule: u16,
        /// The event.
        mark: Mark,
    },
    /// More events wait for the watermark than are allowed; this one, the earliest, is judged before its time. What
    /// should have come before it will be late.
    Forced {
        /// Number of the rule.
        rule: u16,
        /// The event.
        mark: Mark,
    },
    /// An event that was there before. It was not judged again.
    Duplicate {
        /// Number of the rule.
        rule: u16,
        /// The event.
        mark: Mark,
    },
}

/// An incident opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its id.
    pub id: IncidentId,
    /// Number of the rule.
    pub rule: u16,
    /// Key; [`key_parts`] reads it.
    pub key: Vec<u8>,
    /// When, ns: the time of the event that completed the match, or that at which another grew too old.
    pub at_ns: i64,
    /// Time of the oldest event that the condition rests on, ns.
    pub start_ns: i64,
    /// What is not proven of it.
    pub doubt: Doubt,
    /// All events of the match, in the order of time; of a count at most [`Limits::members`](crate::Limits::members), the
    /// oldest ones.
    pub members: Vec<Member>,
}

/// A further match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    /// The incident.
    pub id: IncidentId,
    /// Number of the rule.
    pub rule: u16,
    /// Time of the event that completed it, ns.
    pub at_ns: i64,
    /// The events that were not told before. One that fills several steps of a chain may come once more, as an earlier step
    /// of a later chain. Once [`Limits::members`](crate::Limits::members) were told, matches are counted only.
    pub members: Vec<Member>,
}

/// An incident closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The incident.
    pub id: IncidentId,
    /// Number of the rule.
    pub rule: u16,
    /// When, ns: a timespan and 1 ns after the start of its last match, or, where the condition has an upper bound, the
    /// time of the event that exceeded it.
    pub at_ns: i64,
    /// How many events completed a match.
    pub matches: u64,
}

/// A match of a rule that others rest on: an event at the next level, with the time and the fields of its last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Number of the rule.
    pub rule: u16,
    /// Its last event.
    pub mark: Mark,
    /// The incident that is open.
    pub incident: IncidentId,
    pub(crate) carry: Vec<u8>,
}

/// An event of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The step that it fills, from 0.
    pub place: u8,
    /// Event time, ns.
    pub time_ns: i64,
    /// Which event; of a hit its last one.
    pub identity: Identity,
    /// The incident of the rule beneath, where it is a hit.
    pub via: Option<IncidentId>,
}

impl Member {
    pub(crate) fn of((place, Entry { mark, via }): (u8, Entry)) -> Self {
        Self { place, time_ns: mark.time_ns, identity: mark.identity, via }
    }
}

/// What clocks cannot prove of a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    /// Two events one after the other lie closer than the errors of their clocks, or one of these is unknown.
    pub order: bool,
    /// Events of several clocks, of which at least one has an unknown error: they may lie farther apart.
    pub timespan: bool,
}

impl Doubt {
    pub(crate) fn of(rule: &Rule, members: &[(u8, Entry)]) -> Self {
        let clock = |(_, entry): &(u8, Entry)| entry.mark.clock;
        let Some(first) = members.first().map(clock) else { return Self::default() };
        let several = members.iter().any(|member| clock(member).domain != first.domain);
        let unknown = members.iter().any(|member| clock(member).error_us.is_none());
        let unproven = |pair: &[(u8, Entry)]| {
            let (a, b) = (clock(&pair[0]), clock(&pair[1]));
            let gap = pair[1].1.time().abs_diff(pair[0].1.time());
            a.domain != b.domain
                && match (a.error_us, b.error_us) {
                    (Some(a), Some(b)) => gap < (u64::from(a) + u64::from(b)) * 1000,
                    _ => true,
                }
        };
        Self { order: rule.shape == Shape::Ordered && members.windows(2).any(unproven), timespan: several && unknown }
    }
}

impl Output {
    /// Appends one line of JSON without its line feed: the same bytes on every host.
    pub fn write_json(&self, automaton: &Automaton, into: &mut String) {
        // Writing to a text cannot fail.
        let _ = self.json(automaton, into);
    }

    fn json(&self, automaton: &Automaton, o: &mut String) -> core::fmt::Result {
        let open = |o: &mut String, kind: &str, number: u16| {
            write!(o, "{{\"output\":\"{kind}\",\"rule\":")?;
            let rule = automaton.rules.get(usize::from(number));
            quoted(o, rule.map_or("", |rule| rule.head.label()))
        };
        let event = |o: &mut String, kind: &str, rule: u16, mark: &Mark| {
            open(o, kind, rule)?;
            write!(o, ",\"time\":{}", mark.time_ns)?;
            identity(o, &mark.identity)
        };
        match self {
            Self::Opened(it) => {
                open(o, "opened", it.rule)?;
                write!(o, ",\"id\":\"{}\",\"at\":{},\"start\":{},\"key\":[", it.id, it.at_ns, it.start_ns)?;
                for (number, part) in key_parts(&it.key).enumerate() {
                    o.push_str(if number > 0 { "," } else { "" });
                    quoted(o, part)?;
                }
                let Doubt { order, timespan } = it.doubt;
                write!(o, "],\"order_proven\":{},\"timespan_proven\":{}", !order, !timespan)?;
                members(o, &it.members)?;
            }
            Self::Extended(it) => {
                open(o, "extended", it.rule)?;
                write!(o, ",\"id\":\"{}\",\"at\":{}", it.id, it.at_ns)?;
                members(o, &it.members)?;
            }
            Self::Closed(it) => {
                open(o, "closed", it.rule)?;
                write!(o, ",\"id\":\"{}\",\"at\":{},\"matches\":{}", it.id, it.at_ns, it.matches)?;
            }
            Self::Hit(it) => {
                event(o, "hit", it.rule, &it.mark)?;
                write!(o, ",\"id\":\"{}\"", it.incident)?;
            }
            Self::Late { rule, mark } => event(o, "late", *rule, mark)?,
            Self::Forced { rule, mark } => event(o, "forced", *rule, mark)?,
            Self::Duplicate { rule, mark } => event(o, "duplicate", *rule, mark)?,
        }
        o.push('}');
        Ok(())
    }
}

fn identity(o: &mut String, it: &Identity) -> core::fmt::Result {
    write!(o, ",\"sensor\":{},\"epoch\":{},\"sequence\":{}", it.sensor, it.epoch, it.sequence)
}

fn members(o: &mut String, members: &[Member]) -> core::fmt::Result {
    o.push_str(",\"members\":[");
    for (number, member) in members.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        write!(o, "{comma}{{\"step\":{},\"time\":{}", member.place, member.time_ns)?;
        identity(o, &member.identity)?;
        if let Some(via) = member.via {
            write!(o, ",\"via\":\"{via}\"")?;
        }
        o.push('}');
    }
    o.push(']');
    Ok(())
}

fn quoted(o: &mut String, text: &str) -> core::fmt::Result {
    o.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                o.push('\\');
                o.push(letter);
            }
            letter if letter.is_control() => write!(o, "\\u{:04x}", u32::from(letter))?,
            letter => o.push(letter),
        }
    }
    o.push('"');
    Ok(())
}

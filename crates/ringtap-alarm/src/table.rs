//! Alarms: conditions of objects, raised and cleared by notifications (terms of X.733, vocabulary of RFC 8632).
//!
//! Owns the table by key (resource, condition, object), counts, state, and the flap detection. Whatever is suppressed is
//! only the announcing of a change: state and counts follow every notification, and each gets a [`Judgement`] that says
//! what became of it. Correlation (windows, topology, root cause) is to come between judgement and announcement.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Perceived severity, least severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Not known.
    Indeterminate,
    /// Warning.
    Warning,
    /// Minor.
    Minor,
    /// Major.
    Major,
    /// Critical.
    Critical,
}

impl Severity {
    /// Its name in RFC 8632.
    pub fn name(self) -> &'static str {
        match self {
            Self::Indeterminate => "indeterminate",
            Self::Warning => "warning",
            Self::Minor => "minor",
            Self::Major => "major",
            Self::Critical => "critical",
        }
    }

    /// By its name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Indeterminate, Self::Warning, Self::Minor, Self::Major, Self::Critical]
            .into_iter()
            .find(|severity| severity.name() == name)
    }
}

/// What distinguishes alarms (RFC 8632 §3.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The node: its address, or a host name from syslog.
    pub resource: String,
    /// The condition: the name of the raising notification, or its OID.
    pub condition: String,
    /// The object within the node; empty: the node itself.
    pub object: String,
}

/// An alarm. Times are nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alarm {
    /// Its number; never used again.
    pub id: u64,
    /// What it is about.
    #[serde(flatten)]
    pub key: Key,
    /// Severity when it was last raised.
    pub severity: Severity,
    /// The condition is gone, or an operator has said so.
    pub cleared: bool,
    /// Notifications of it.
    pub count: u64,
    /// Times it went from cleared to raised or back.
    pub changes: u64,
    /// First notification.
    pub first_ns: u64,
    /// Latest notification.
    pub last_ns: u64,
    /// When it was last raised or cleared.
    pub changed_ns: u64,
    /// Number of the latest notification.
    pub last_notification: u64,
    /// Its changes are not announced while this lasts.
    pub flapping: bool,
    /// Penalty of its changes, and when that was reckoned (RFC 2439 §4.2).
    pub penalty: f64,
    /// Notifications whose change was not announced.
    pub suppressed: u64,
    /// What an operator wrote when clearing it.
    pub operator: Option<String>,
}

/// When an alarm flaps: each change adds one to a penalty that halves with time (RFC 2439).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlapPolicy {
    /// Penalty from which changes are not announced.
    pub suppress: f64,
    /// Penalty below which they are again.
    pub reuse: f64,
    /// Time in which the penalty halves, nanoseconds.
    pub half_life_ns: u64,
}

impl Default for FlapPolicy {
    fn default() -> Self {
        Self { suppress: 4.0, reuse: 1.0, half_life_ns: 15_000_000_000 }
    }
}

/// What became of a notification.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// A new alarm.
    New,
    /// The alarm's state changed, and that is announced.
    Changed,
    /// The alarm was in this state already.
    Repeated,
    /// The state changed and is not announced: the alarm flaps.
    Flapping {
        /// Its penalty.
        penalty: f64,
    },
    /// It cleared what was not there.
    ClearedNothing,
    /// The same inform came before.
    Retransmission,
    /// Syslog of lower severity than alarms are made of.
    BelowThreshold,
    /// There are as many alarms as may be.
    TableFull,
}

impl Judgement {
    /// Whether a change of state is to be told to the outside.
    pub fn is_announced(&self) -> bool {
        matches!(self, Self::New | Self::Changed)
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("new alarm"),
            Self::Changed => f.write_str("state changed"),
            Self::Repeated => f.write_str("suppressed: repeated, the alarm is in this state"),
            Self::Flapping { penalty } => write!(f, "suppressed: flapping, penalty {penalty:.1}"),
            Self::ClearedNothing => f.write_str("suppressed: nothing to clear"),
            Self::Retransmission => f.write_str("suppressed: inform sent again"),
            Self::BelowThreshold => f.write_str("no alarm: below the severity of alarms"),
            Self::TableFull => f.write_str("no alarm: the table of alarms is full"),
        }
    }
}

/// Alarms by key.
#[derive(Debug, Default)]
pub struct AlarmTable {
    alarms: Vec<Alarm>,
    by_key: HashMap<Key, usize>,
    raised: usize,
    policy: FlapPolicy,
    limit: usize,
    last_id: u64,
    /// Changed since the last [`AlarmTable::take_changed`], each once.
    dirty: Vec<usize>,
    is_dirty: Vec<bool>,
    /// Flapping ones.
    flapping: Vec<usize>,
    /// Where to look next for an alarm that can make room.
    hand: usize,
}

/// Alarms looked at, at most, to make room for one: a full table must not cost more than this per notification.
const LOOKS: usize = 64;

/// A notification as the table sees it.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    /// `Some(true)` raises, `Some(false)` clears, `None`: an event that nothing clears.
    pub raises: Option<bool>,
    /// Severity if it raises.
    pub severity: Severity,
    /// Arrival, nanoseconds since 1970.
    pub at_ns: u64,
    /// The notification's number.
    pub notification: u64,
}

impl AlarmTable {
    /// A table of at most `limit` alarms, beginning with those that the store has, by number.
    ///
    /// The store also has those that made room. Where one's condition came again, the newer alarm is the one that counts; and when there
    /// are more than `limit`, the oldest cleared ones stay in the store only.
    pub fn new(mut alarms: Vec<Alarm>, policy: FlapPolicy, limit: usize) -> Self {
        let last_id = alarms.iter().map(|alarm| alarm.id).max().unwrap_or(0);
        let newest: HashMap<Key, u64> = alarms.iter().map(|alarm| (alarm.key.clone(), alarm.id)).collect();
        let mut surplus = newest.len().saturating_sub(limit);
        alarms.retain(|alarm| {
            let is_newest = newest.get(&alarm.key) == Some(&alarm.id);
            let is_surplus = is_newest && alarm.cleared && surplus > 0;
            surplus -= usize::from(is_surplus);
            is_newest && !is_surplus
        });
        let by_key = alarms.iter().enumerate().map(|(index, alarm)| (alarm.key.clone(), index)).collect();
        Self {
            by_key,
            raised: alarms.iter().filter(|alarm| !alarm.cleared).count(),
            policy,
            limit,
            last_id,
            dirty: Vec::new(),
            is_dirty: vec![false; alarms.len()],
            flapping: alarms.iter().enumerate().filter(|(_, alarm)| alarm.flapping).map(|(index, _)| index).collect(),
            alarms,
            hand: 0,
        }
    }

    /// Alarms in the table, cleared ones included.
    pub fn len(&self) -> usize {
        self.alarms.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.alarms.is_empty()
    }

    /// Alarms that are raised.
    pub fn raised(&self) -> usize {
        self.raised
    }

    /// Enters a notification; gives what became of it and its alarm.
    pub fn report(&mut self, key: &Key, report: Report) -> (Judgement, Option<&Alarm>) {
        let raises = report.raises.unwrap_or(true);
        let Some(&index) = self.by_key.get(key) else {
            if !raises {
                return (Judgement::ClearedNothing, None);
            }
            let index = if self.alarms.len() < self.limit { Some(self.alarms.len()) } else { self.make_room() };
            return match index {
                Some(index) => (Judgement::New, Some(self.add(index, key, report))),
                None => (Judgement::TableFull, None),
            };
        };
        let policy = self.policy;
        let alarm = &mut self.alarms[index];
        alarm.count += 1;
        let since_ns = report.at_ns.saturating_sub(alarm.changed_ns);
        alarm.last_ns = alarm.last_ns.max(report.at_ns);
        alarm.last_notification = report.notification;
        let mut judgement = Judgement::Repeated;
        if alarm.cleared == raises {
            alarm.cleared = !raises;
            if raises {
                self.raised += 1;
            } else {
                self.raised -= 1;
            }
            alarm.operator = None;
            alarm.changes += 1;
            alarm.penalty = decayed(alarm.penalty, since_ns, policy) + 1.0;
            alarm.changed_ns = report.at_ns;
            if !alarm.flapping && alarm.penalty >= policy.suppress {
                alarm.flapping = true;
                self.flapping.push(index);
            }
            judgement =
                if alarm.flapping { Judgement::Flapping { penalty: alarm.penalty } } else { Judgement::Changed };
        }
        if raises {
            // A worse condition of the same object is news.
            if report.severity > alarm.severity && judgement == Judgement::Repeated {
                judgement = Judgement::Changed;
            }
            alarm.severity = report.severity;
        }
        alarm.suppressed += u64::from(!judgement.is_announced());
        self.touch(index);
        (judgement, Some(&self.alarms[index]))
    }

    /// The place of an alarm that is cleared, quiet and stored, which leaves the table for a new one (the store keeps it); `None` when
    /// there is none among those looked at.
    fn make_room(&mut self) -> Option<usize> {
        for _ in 0..LOOKS.min(self.alarms.len()) {
            let index = self.hand;
            self.hand = (index + 1) % self.alarms.len();
            let alarm = &self.alarms[index];
            if alarm.cleared && !alarm.flapping && !self.is_dirty[index] {
                self.by_key.remove(&alarm.key);
                return Some(index);
            }
        }
        None
    }

    /// Puts a new alarm at `index`: behind the last one, or in the place of one that made room.
    fn add(&mut self, index: usize, key: &Key, report: Report) -> &Alarm {
        self.last_id += 1;
        self.raised += 1;
        let alarm = Alarm {
            id: self.last_id,
            key: key.clone(),
            severity: report.severity,
            cleared: false,
            count: 1,
            changes: 0,
            first_ns: report.at_ns,
            last_ns: report.at_ns,
            changed_ns: report.at_ns,
            last_notification: report.notification,
            flapping: false,
            penalty: 0.0,
            suppressed: 0,
            operator: None,
        };
        match self.alarms.get_mut(index) {
            Some(place) => *place = alarm,
            None => {
                self.alarms.push(alarm);
                self.is_dirty.push(false);
            }
        }
        self.by_key.insert(key.clone(), index);
        self.touch(index);
        &self.alarms[index]
    }

    /// An operator clears an alarm; `None` when there is none with this number that is raised.
    pub fn clear(&mut self, id: u64, operator: &str, at_ns: u64) -> Option<&Alarm> {
        let index = self.alarms.iter().position(|alarm| alarm.id == id && !alarm.cleared)?;
        let alarm = &mut self.alarms[index];
        (alarm.cleared, alarm.changed_ns, alarm.operator) = (true, at_ns, Some(operator.to_owned()));
        alarm.changes += 1;
        self.raised -= 1;
        self.touch(index);
        self.alarms.get(index)
    }

    /// Ends the flapping of alarms that have been quiet; gives them, as their state may now be announced.
    pub fn settle(&mut self, now_ns: u64) -> Vec<Alarm> {
        let policy = self.policy;
        let mut settled = Vec::new();
        let mut still = std::mem::take(&mut self.flapping);
        still.retain(|&index| {
            let alarm = &mut self.alarms[index];
            // The clock was set back: else it would flap until that time comes again.
            alarm.changed_ns = alarm.changed_ns.min(now_ns);
            let penalty = decayed(alarm.penalty, now_ns.saturating_sub(alarm.changed_ns), policy);
            if penalty >= policy.reuse {
                return true;
            }
            alarm.flapping = false;
            settled.push(index);
            false
        });
        self.flapping = still;
        for &index in &settled {
            self.touch(index);
        }
        settled.into_iter().map(|index| self.alarms[index].clone()).collect()
    }

    /// Whether an alarm changed since the last [`AlarmTable::take_changed`].
    pub fn has_changes(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The alarms that changed since the last call, for the store.
    pub fn take_changed(&mut self) -> Vec<Alarm> {
        let mut dirty = std::mem::take(&mut self.dirty);
        // In the order of the store's table, whose pages are then each found and written once.
        dirty.sort_unstable();
        dirty
            .into_iter()
            .map(|index| {
                self.is_dirty[index] = false;
                self.alarms[index].clone()
            })
            .collect()
    }

    fn touch(&mut self, index: usize) {
        if !std::mem::replace(&mut self.is_dirty[index], true) {
            self.dirty.push(index);
        }
    }
}

fn decayed(penalty: f64, since_ns: u64, policy: FlapPolicy) -> f64 {
    penalty * 0.5f64.powf(since_ns as f64 / policy.half_life_ns.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn key(object: &str) -> Key {
        Key { resource: "192.0.2.1".to_owned(), condition: "linkDown".to_owned(), object: object.to_owned() }
    }

    fn table() -> AlarmTable {
        AlarmTable::new(Vec::new(), FlapPolicy::default(), 3)
    }

    fn report(raises: bool, at_ns: u64) -> Report {
        Report { raises: Some(raises), severity: Severity::Major, at_ns, notification: at_ns / S }
    }

    #[test]
    fn one_alarm_per_object_and_condition_with_count_and_state() {
        let mut table = table();
        let mut say = |raises, at: u64| {
            let (judgement, alarm) = table.report(&key("3"), report(raises, at * S));
            (judgement, alarm.map(|alarm| (alarm.count, alarm.cleared, alarm.changes)))
        };
        assert_eq!(say(false, 1), (Judgement::ClearedNothing, None));
        assert_eq!(say(true, 2), (Judgement::New, Some((1, false, 0))));
        assert_eq!(say(true, 3), (Judgement::Repeated, Some((2, false, 0))));
        assert_eq!(say(false, 4), (Judgement::Changed, Some((3, true, 1))));
        assert_eq!(say(false, 5), (Judgement::Repeated, Some((4, true, 1))));
        assert_eq!(say(true, 6), (Judgement::Changed, Some((5, false, 2))));
        let changed = table.take_changed();
        assert_eq!((changed.len(), changed[0].first_ns, changed[0].last_ns), (1, 2 * S, 6 * S));
        assert!(table.take_changed().is_empty());
        assert_eq!((table.len(), table.raised()), (1, 1));
    }

    #[test]
    fn flapping_is_announced_no_more_until_it_is_quiet_but_the_state_stays_true() {
        let mut table = table();
        let judged: Vec<Judgement> = (0..10).map(|at| table.report(&key("3"), report(at % 2 == 0, at * S)).0).collect();
        assert_eq!(judged[..2], [Judgement::New, Judgement::Changed]);
        assert!(matches!(judged[9], Judgement::Flapping { penalty } if penalty > 4.0), "{judged:?}");
        let announced = judged.iter().filter(|judgement| judgement.is_announced()).count();
        assert!((4..7).contains(&announced), "{judged:?}");
        let alarm = table.take_changed().remove(0);
        assert_eq!((alarm.cleared, alarm.changes, alarm.count, alarm.flapping), (true, 9, 10, true));
        assert_eq!(alarm.suppressed, 10 - announced as u64);
        assert!(table.settle(20 * S).is_empty());
        let settled = table.settle(100 * S);
        assert_eq!((settled.len(), settled[0].flapping, settled[0].cleared), (1, false, true));
        assert_eq!(table.report(&key("3"), report(true, 101 * S)).0, Judgement::Changed);
    }

    #[test]
    fn events_are_never_cleared_and_the_table_is_bounded() {
        let mut table = table();
        let event = Report { raises: None, ..report(true, S) };
        assert_eq!(table.report(&key("a"), event).0, Judgement::New);
        assert_eq!(table.report(&key("a"), event).0, Judgement::Repeated);
        table.report(&key("b"), event);
        table.report(&key("c"), event);
        assert_eq!(table.report(&key("d"), event).0, Judgement::TableFull);
        let worse = Report { severity: Severity::Critical, ..event };
        assert_eq!(table.report(&key("a"), worse).0, Judgement::Changed, "it got worse");
    }

    #[test]
    fn a_full_table_makes_room_where_an_alarm_is_cleared_and_stored() {
        let mut table = table();
        for object in ["a", "b", "c"] {
            table.report(&key(object), report(true, S));
        }
        assert_eq!(table.report(&key("d"), report(true, 2 * S)).0, Judgement::TableFull, "all are raised");
        assert_eq!(table.report(&key("b"), report(false, 3 * S)).0, Judgement::Changed);
        assert_eq!(
            table.report(&key("d"), report(true, 4 * S)).0,
            Judgement::TableFull,
            "the store has not seen it cleared"
        );
        assert_eq!(table.take_changed().len(), 3);
        let (judgement, alarm) = table.report(&key("d"), report(true, 5 * S));
        assert_eq!((judgement, alarm.unwrap().id), (Judgement::New, 4), "numbers are never used again");
        assert_eq!((table.len(), table.raised()), (3, 3));
        assert_eq!(table.report(&key("b"), report(false, 6 * S)).0, Judgement::ClearedNothing, "it has gone");
        assert_eq!(table.report(&key("c"), report(true, 6 * S)).0, Judgement::Repeated, "the others have not");
        let changed: Vec<u64> = table.take_changed().iter().map(|alarm| alarm.id).collect();
        assert_eq!(changed, [4, 3], "by place");
    }

    #[test]
    fn a_restart_takes_the_newest_alarm_of_each_condition_and_no_more_than_fit() {
        let mut table = table();
        for object in ["a", "b", "c"] {
            table.report(&key(object), report(true, S));
            table.report(&key(object), report(false, 2 * S));
        }
        let mut stored = table.take_changed();
        // "a" makes room and comes again, in the place of "b": the store has two of it.
        table.report(&key("d"), report(true, 3 * S));
        table.report(&key("a"), report(true, 4 * S));
        stored.extend(table.take_changed());
        stored.sort_by_key(|alarm| alarm.id);
        assert_eq!(stored.iter().map(|alarm| alarm.key.object.as_str()).collect::<String>(), "abcda");
        let mut later = AlarmTable::new(stored, FlapPolicy::default(), 3);
        assert_eq!((later.len(), later.raised()), (3, 2), "a, d, and one cleared one");
        assert_eq!(later.report(&key("a"), report(true, 5 * S)).1.unwrap().id, 5, "the newer one");
        assert_eq!(
            later.report(&key("b"), report(false, 5 * S)).0,
            Judgement::ClearedNothing,
            "the oldest cleared one"
        );
        later.take_changed();
        let (judgement, new) = later.report(&key("e"), report(true, 6 * S));
        assert_eq!((judgement, new.unwrap().id), (Judgement::New, 6), "\"c\" makes room");
        assert_eq!(later.report(&key("a"), report(true, 7 * S)).0, Judgement::Repeated, "and no other does");
    }

    #[test]
    fn an_operator_clears_and_a_restart_goes_on() {
        let mut table = table();
        let id = table.report(&key("a"), report(true, S)).1.unwrap().id;
        assert_eq!(table.clear(id, "bob", 2 * S).unwrap().operator.as_deref(), Some("bob"));
        assert!(table.clear(id, "bob", 2 * S).is_none());
        let mut later = AlarmTable::new(table.take_changed(), FlapPolicy::default(), 3);
        let (judgement, alarm) = later.report(&key("a"), report(true, 3 * S));
        assert_eq!((judgement, alarm.unwrap().operator.clone()), (Judgement::Changed, None));
        assert_eq!(later.report(&key("b"), report(true, 3 * S)).1.unwrap().id, id + 1);
    }
}

//! The table of alarms: which conditions are there, how often they were told, and which of them flap.
//!
//! Owns the alarms by key, counts, state, and the flap detection. Whatever is suppressed is only the announcing of a change: state and
//! counts follow every notification, and each gets a [`Judgement`] that says what became of it. Windows, topology and root cause will
//! stand behind it: a correlator takes judged notifications from [`AlarmTable::report`] before they are announced.

use std::collections::HashMap;

use crate::alarm::{Alarm, Classification, Judgement, Key, Severity};

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
pub struct Report<'a> {
    /// `Some(true)` raises, `Some(false)` clears, `None`: an event that nothing clears.
    pub raises: Option<bool>,
    /// Severity if it raises.
    pub severity: Severity,
    /// Event type and probable cause, where a rule knows them.
    pub classification: Option<&'a Classification>,
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
    pub fn report(&mut self, key: &Key, report: Report<'_>) -> (Judgement, Option<&Alarm>) {
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
            if let Some(classification) = report.classification
                && *classification != alarm.classification
            {
                alarm.classification.clone_from(classification);
            }
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
    fn add(&mut self, index: usize, key: &Key, report: Report<'_>) -> &Alarm {
        self.last_id += 1;
        self.raised += 1;
        let alarm = Alarm {
            id: self.last_id,
            key: key.clone(),
            severity: report.severity,
            classification: report.classification.cloned().unwrap_or_default(),
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

    fn report(raises: bool, at_ns: u64) -> Report<'static> {
        Report { raises: Some(raises), severity: Severity::Major, classification: None, at_ns, notification: at_ns / S }
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
    fn an_alarm_has_what_the_rule_that_raised_it_last_knows() {
        use crate::alarm::EventType;
        let cause = |name: &str| Classification {
            event_type: Some(EventType::CommunicationsAlarm),
            probable_cause: Some(name.to_owned()),
        };
        let (lost, failed) = (cause("lossOfSignal"), cause("communicationsSubsystemFailure"));
        let mut table = table();
        let mut say = |raises, classification| {
            let report = Report { classification, ..report(raises, S) };
            table.report(&key("3"), report).1.unwrap().classification.clone()
        };
        assert_eq!(say(true, None), Classification::default());
        assert_eq!(say(true, Some(&lost)), lost, "as after an upgrade");
        assert_eq!(say(false, Some(&failed)), lost, "what clears says nothing of why it was raised");
        assert_eq!(say(true, None), lost);
        assert_eq!(say(true, Some(&failed)), failed);
        for name in [
            "communicationsAlarm",
            "qualityOfServiceAlarm",
            "processingErrorAlarm",
            "equipmentAlarm",
            "environmentalAlarm",
        ] {
            let kind = EventType::from_name(name).unwrap();
            assert_eq!(serde_json::to_value(kind).unwrap(), name);
        }
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

//! The table of alarms: which conditions are there, how often they were told, and which of them flap.
//!
//! Owns the alarms by key, counts, state, and the flap detection. Whatever is suppressed is only the announcing of a change: state and
//! counts follow every notification, and each gets a [`Judgement`] that says what became of it. Root cause
//! stands behind it: it takes the changes before they are announced.

use std::collections::{HashMap, HashSet};

use crate::alarm::{Acknowledged, Alarm, Classification, Judgement, Key, Origin, Severity};
use crate::shares::Shares;

/// When an alarm flaps: each change adds one to a penalty that halves with time (RFC 2439).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlapPolicy {
    /// Penalty from which changes are not announced.
    pub suppress: f64,
    /// Penalty below which they are again.
    pub reuse: f64,
    /// Time in which the penalty halves, nanoseconds.
    pub half_life_ns: u64,
    /// The penalty never exceeds this, so that quiet ends the flapping in a bounded time, however many changes there were.
    pub ceiling: f64,
}

impl Default for FlapPolicy {
    fn default() -> Self {
        // A minute of quiet at most: four times halved.
        Self { suppress: 4.0, reuse: 1.0, half_life_ns: 15_000_000_000, ceiling: 16.0 }
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
    shares: Shares,
    last_id: u64,
    /// Changed since the last [`AlarmTable::take_changed`], each once.
    dirty: Vec<usize>,
    is_dirty: Vec<bool>,
    /// Flapping ones.
    flapping: Vec<usize>,
    /// Raised ones whose changes are not announced, as they are in maintenance.
    held: Vec<usize>,
    /// Where to look next for an alarm that has expired.
    expiry_hand: usize,
    /// Where to look next for an alarm that can make room.
    hand: usize,
}

/// Alarms looked at, at most, to make room for one: a full table must not cost more than this per notification.
const LOOKS: usize = 64;
/// Alarms looked at, at most, for those that have expired: each of a million is looked at within ten seconds, at five looks a second.
const LOOKS_FOR_EXPIRED: usize = 20_000;

/// Where an alarm is in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(usize);

/// A notification as the table sees it.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// `Some(true)` raises, `Some(false)` clears, `None`: an event that nothing clears.
    pub raises: Option<bool>,
    /// Severity if it raises.
    pub severity: Severity,
    /// Event type and probable cause, where a rule knows them.
    pub classification: Option<&'a Classification>,
    /// Who says it.
    pub origin: Origin,
    /// Arrival, nanoseconds since 1970.
    pub at_ns: u64,
    /// The notification's number.
    pub notification: u64,
    /// Its node is in maintenance: what it changes is not announced.
    pub in_maintenance: bool,
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
        let shares = Shares::of(&alarms, limit);
        Self {
            by_key,
            raised: alarms.iter().filter(|alarm| !alarm.cleared).count(),
            policy,
            limit,
            shares,
            last_id,
            dirty: Vec::new(),
            is_dirty: vec![false; alarms.len()],
            flapping: alarms.iter().enumerate().filter(|(_, alarm)| alarm.flapping).map(|(index, _)| index).collect(),
            held: alarms.iter().enumerate().filter(|(_, alarm)| alarm.maintenance).map(|(index, _)| index).collect(),
            alarms,
            hand: 0,
            expiry_hand: 0,
        }
    }

    /// Sees who raised alarms in another way.
    pub fn see_origins(&mut self, see: impl Fn(Origin) -> Origin) {
        for index in 0..self.alarms.len() {
            let alarm = &mut self.alarms[index];
            let seen = see(alarm.origin);
            if std::mem::replace(&mut alarm.origin, seen) != seen {
                self.touch(index);
            }
        }
        self.shares = Shares::of(&self.alarms, self.limit);
    }

    /// All alarms, cleared ones included.
    pub fn iter(&self) -> impl Iterator<Item = &Alarm> {
        self.alarms.iter()
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
            return match self.place_for(report.origin) {
                Ok(index) => {
                    self.add(index, key, report);
                    let judgement = self.held_or(Judgement::New, index, report.in_maintenance, false);
                    (judgement, Some(&self.alarms[index]))
                }
                Err(judgement) => (judgement, None),
            };
        };
        let (was_cleared, was) = (self.alarms[index].cleared, self.alarms[index].origin);
        if !was_cleared && !report.origin.is_as_authentic_as(was) {
            return (Judgement::NotAuthentic, Some(&self.alarms[index]));
        }
        if raises && was_cleared && !self.may_take(was, report.origin) {
            return (Judgement::ShareFull, Some(&self.alarms[index]));
        }
        let judgement = self.enter(index, report);
        let judgement = self.held_or(judgement, index, report.in_maintenance, !was_cleared);
        let alarm = &mut self.alarms[index];
        alarm.suppressed += u64::from(!judgement.is_announced());
        let (is_cleared, is) = (alarm.cleared, alarm.origin);
        self.account((was_cleared, was), (is_cleared, is));
        self.touch(index);
        (judgement, Some(&self.alarms[index]))
    }

    /// Enters a notification into its alarm.
    fn enter(&mut self, index: usize, report: Report<'_>) -> Judgement {
        let raises = report.raises.unwrap_or(true);
        let policy = self.policy;
        let alarm = &mut self.alarms[index];
        alarm.count += 1;
        let since_ns = report.at_ns.saturating_sub(alarm.changed_ns);
        alarm.last_ns = alarm.last_ns.max(report.at_ns);
        alarm.last_notification = report.notification;
        let is_better = raises && !alarm.origin.is_as_authentic_as(report.origin);
        let takes = raises && (alarm.cleared || is_better);
        // What less authentic ones said before, and how often, keeps no true alarm from being announced. (Whoever raised one of before
        // layout 4 may have been as authentic.) Not again within four half-lives: a device that says each change by v2c and by v3 is damped
        // as others are.
        let is_new_news = alarm.news_ns == 0 || report.at_ns.saturating_sub(alarm.news_ns) > 4 * policy.half_life_ns;
        let is_news = is_better && is_new_news && alarm.origin.source.is_some();
        if is_news {
            alarm.news_ns = report.at_ns;
            alarm.penalty = 0.0;
            if std::mem::take(&mut alarm.flapping) {
                self.flapping.retain(|&it| it != index);
            }
        }
        let mut judgement = if is_news { Judgement::Changed } else { Judgement::Repeated };
        if alarm.cleared == raises {
            alarm.cleared = !raises;
            if raises {
                self.raised += 1;
            } else {
                self.raised -= 1;
            }
            (alarm.operator, alarm.expired, alarm.acknowledged) = (None, false, None);
            alarm.changes += 1;
            alarm.penalty = (decayed(alarm.penalty, since_ns, policy) + 1.0).min(policy.ceiling);
            alarm.changed_ns = report.at_ns;
            if !alarm.flapping && alarm.penalty >= policy.suppress {
                alarm.flapping = true;
                self.flapping.push(index);
            }
            judgement =
                if alarm.flapping { Judgement::Flapping { penalty: alarm.penalty } } else { Judgement::Changed };
        }
        if raises {
            if takes {
                alarm.origin = report.origin;
            }
            // A worse condition of the same object is news, also to who takes care of it.
            if report.severity > alarm.severity {
                alarm.acknowledged = None;
                if judgement == Judgement::Repeated {
                    judgement = Judgement::Changed;
                }
            }
            alarm.severity = report.severity;
            if let Some(classification) = report.classification
                && *classification != alarm.classification
            {
                alarm.classification.clone_from(classification);
            }
        }
        judgement
    }

    /// What becomes of an announcement in maintenance; `was_told`: the outside knew of the alarm as raised before this change.
    fn held_or(&mut self, judgement: Judgement, index: usize, in_maintenance: bool, was_told: bool) -> Judgement {
        if !judgement.is_announced() || self.is_heard(index, in_maintenance, was_told) {
            return judgement;
        }
        Judgement::Maintenance
    }

    /// Whether a change is announced. In maintenance only the end of what the outside knows is; what is raised is marked and kept back.
    fn is_heard(&mut self, index: usize, in_maintenance: bool, was_told: bool) -> bool {
        let alarm = &mut self.alarms[index];
        let was_held = alarm.maintenance;
        let is_known = if was_held { alarm.is_told } else { was_told };
        alarm.maintenance = in_maintenance && !alarm.cleared;
        alarm.is_told = alarm.maintenance && is_known;
        let is_held = alarm.maintenance;
        if was_held && !is_held {
            self.held.retain(|&it| it != index);
        } else if is_held && !was_held {
            self.held.push(index);
        }
        !in_maintenance || !is_held && is_known
    }

    /// Whether the place of one origin may become this one's: a stranger needs a share for it.
    fn may_take(&self, was: Origin, origin: Origin) -> bool {
        let is_share_full = !origin.is_known && was.is_known && self.shares.are_full();
        self.shares.allow(origin) && !is_share_full
    }

    /// What an alarm has of strangers' shares goes from what it was to what it is.
    fn account(&mut self, (was_cleared, was): (bool, Origin), (is_cleared, is): (bool, Origin)) {
        if (was_cleared, was) == (is_cleared, is) {
            return;
        }
        if !was_cleared {
            self.shares.remove(was);
        }
        if !is_cleared {
            self.shares.add(is);
        }
        self.shares.places += usize::from(!is.is_known);
        self.shares.places -= usize::from(!was.is_known);
    }

    /// Where a new alarm of this origin goes: behind the last one, or where another makes room.
    fn place_for(&mut self, origin: Origin) -> Result<usize, Judgement> {
        if !self.shares.allow(origin) {
            return Err(Judgement::ShareFull);
        }
        let is_share_full = !origin.is_known && self.shares.are_full();
        if self.alarms.len() < self.limit && !is_share_full {
            return Ok(self.alarms.len());
        }
        self.make_room(origin.is_known).ok_or(if is_share_full { Judgement::ShareFull } else { Judgement::TableFull })
    }

    /// The place of an alarm that is cleared, quiet and stored, which leaves the table for a new one (the store keeps it); `None` when
    /// there is none among those looked at. What known senders raised leaves it only for such a one.
    fn make_room(&mut self, for_known: bool) -> Option<usize> {
        for _ in 0..LOOKS.min(self.alarms.len()) {
            let index = self.hand;
            self.hand = (index + 1) % self.alarms.len();
            let alarm = &self.alarms[index];
            let may_leave = for_known || !alarm.origin.is_known;
            if alarm.cleared && !alarm.flapping && !self.is_dirty[index] && may_leave {
                self.shares.places -= usize::from(!alarm.origin.is_known);
                self.by_key.remove(&alarm.key);
                return Some(index);
            }
        }
        None
    }

    /// Puts a new alarm at `index`: behind the last one, or in the place of one that made room.
    fn add(&mut self, index: usize, key: &Key, report: Report<'_>) {
        self.last_id += 1;
        self.raised += 1;
        self.shares.add(report.origin);
        self.shares.places += usize::from(!report.origin.is_known);
        let alarm = Alarm {
            id: self.last_id,
            key: key.clone(),
            severity: report.severity,
            classification: report.classification.cloned().unwrap_or_default(),
            origin: report.origin,
            cleared: false,
            count: 1,
            changes: 0,
            first_ns: report.at_ns,
            last_ns: report.at_ns,
            changed_ns: report.at_ns,
            last_notification: report.notification,
            flapping: false,
            news_ns: 0,
            penalty: 0.0,
            suppressed: 0,
            operator: None,
            expired: false,
            acknowledged: None,
            maintenance: false,
            is_told: false,
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
    }

    /// The places of alarms with these numbers, as far as they are in the table; valid until the next notification.
    pub fn places(&self, ids: impl IntoIterator<Item = u64>) -> HashMap<u64, Place> {
        let ids: HashSet<u64> = ids.into_iter().collect();
        let wanted = self.alarms.iter().enumerate().filter(|(_, alarm)| ids.contains(&alarm.id));
        wanted.map(|(index, alarm)| (alarm.id, Place(index))).collect()
    }

    /// Clears an alarm that no notification clears; whether that is to be announced.
    fn end(&mut self, index: usize, at_ns: u64) -> bool {
        let alarm = &mut self.alarms[index];
        // What was kept back in maintenance is told neither before nor after it.
        let in_maintenance = alarm.maintenance;
        (alarm.cleared, alarm.changed_ns, alarm.acknowledged) = (true, at_ns, None);
        alarm.changes += 1;
        self.raised -= 1;
        self.shares.remove(self.alarms[index].origin);
        self.touch(index);
        self.is_heard(index, in_maintenance, true)
    }

    /// An operator clears an alarm. Gives it if it was raised, and that it ends is to be announced.
    pub fn clear(&mut self, Place(index): Place, operator: &str, at_ns: u64) -> Option<&Alarm> {
        if self.alarms[index].cleared {
            return None;
        }
        self.alarms[index].operator = Some(operator.to_owned());
        self.end(index, at_ns).then(|| &self.alarms[index])
    }

    /// An operator takes care of a raised alarm, or with `None` nobody does any more.
    pub fn acknowledge(&mut self, Place(index): Place, operator: Option<&str>, at_ns: u64) {
        if self.alarms[index].cleared {
            return;
        }
        self.alarms[index].acknowledged = operator.map(|by| Acknowledged { by: by.to_owned(), at_ns });
        self.touch(index);
    }

    /// Clears raised alarms that nobody told of for as long as `after` (nanoseconds) says, and gives them; whether each is to be announced.
    /// A bounded number of alarms is looked at, the next time those behind them.
    pub fn expire(&mut self, now_ns: u64, after: impl Fn(&Alarm) -> Option<u64>) -> Vec<(Alarm, bool)> {
        let mut expired = Vec::new();
        for _ in 0..LOOKS_FOR_EXPIRED.min(self.alarms.len()) {
            let index = self.expiry_hand % self.alarms.len();
            self.expiry_hand = (index + 1) % self.alarms.len();
            let alarm = &self.alarms[index];
            let quiet_ns = now_ns.saturating_sub(alarm.last_ns);
            if alarm.cleared || after(alarm).is_none_or(|after| quiet_ns < after) {
                continue;
            }
            self.alarms[index].expired = true;
            let is_announced = self.end(index, now_ns);
            expired.push((self.alarms[index].clone(), is_announced));
        }
        expired
    }

    /// Alarms that are no longer in maintenance and still raised: what was kept back is to be announced.
    pub fn release(&mut self, is_in_maintenance: impl Fn(&Alarm) -> bool) -> Vec<Alarm> {
        let (still, over): (Vec<usize>, Vec<usize>) =
            std::mem::take(&mut self.held).into_iter().partition(|&index| is_in_maintenance(&self.alarms[index]));
        self.held = still;
        for &index in &over {
            (self.alarms[index].maintenance, self.alarms[index].is_told) = (false, false);
            self.touch(index);
        }
        // What flaps is told when that ends.
        over.into_iter()
            .map(|index| self.alarms[index].clone())
            .filter(|alarm| !alarm.flapping && !alarm.cleared)
            .collect()
    }

    /// Ends the flapping of alarms that have been quiet; gives those whose state may now be announced.
    pub fn settle(&mut self, now_ns: u64, is_in_maintenance: impl Fn(&Alarm) -> bool) -> Vec<Alarm> {
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
        let mut heard = Vec::new();
        for index in settled {
            self.touch(index);
            let in_maintenance = is_in_maintenance(&self.alarms[index]);
            // What the outside was told last, before it flapped, nobody noted: it may know of it.
            if self.is_heard(index, in_maintenance, true) {
                heard.push(self.alarms[index].clone());
            }
        }
        heard
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
mod tests;

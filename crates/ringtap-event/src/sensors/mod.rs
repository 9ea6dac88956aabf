//! Owns: what registered sensors promised, and so how far event time has come: heartbeats, sequences, epochs, silence.
//! Does not: look at a clock, read datagrams or check keys: whoever calls it has done that. What no key proves never
//! comes here.
//!
//! A heartbeat says *h: no alarm with an event time up to h follows*, and n, the last sequence before it. The watermark is
//! the least h of all sensors that are not left out: one that is silent is, by a record that says since when, and so is one
//! that speaks of the future. Lateness is never a reason.

mod epoch;
mod gaps;
mod ranges;
mod restart;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use epoch::{Epoch, Lost, Taken};
pub use gaps::Gaps;
use serde::{Deserialize, Serialize};

use crate::parse::is_from_the_future;

/// Epochs of one sensor that are remembered: what comes of them again is known.
const MOST_EPOCHS: usize = 16;
/// A sensor that goes on after another epoch of it has begun is a second one with the same id, ns. What is overtaken on the
/// way is not so late.
const OVERTAKEN_NS: i64 = 1_000_000_000;
/// Both clocks, read at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// Since 1970, ns; may be wrong, and set.
    pub wall_ns: i64,
    /// Since any start, ns; only goes on.
    pub monotonic_ns: i64,
}

/// How long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// For alarms that a heartbeat has counted and that are not here, ns.
    pub gap_wait_ns: i64,
    /// For a sensor's next heartbeat, ns.
    pub silence_ns: i64,
}

/// A sensor that is known by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The number that its alarms have as [`Identity::sensor`](ringtap_sigma::Identity::sensor).
    pub number: u64,
    /// What people call it.
    pub name: Arc<str>,
}

/// A heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Epoch of the sensor.
    pub epoch: u64,
    /// Sequence of the last alarm before it; 0: there was none.
    pub last: u64,
    /// No alarm with an event time up to this follows, ns; `None`: nothing is promised yet.
    pub h_ns: Option<i64>,
    /// When it was built, by the sensor's clock, ns.
    pub built_ns: i64,
    /// Error of that clock, µs; `None`: unknown.
    pub error_us: Option<u32>,
}

/// Which alarm, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Epoch of the sensor.
    pub epoch: u64,
    /// Number in it, from 1.
    pub sequence: u64,
    /// Event time, ns.
    pub time_ns: i64,
    /// When it was built, by the sensor's clock, ns.
    pub built_ns: i64,
    /// Error of that clock, µs; `None`: unknown.
    pub error_us: Option<u32>,
}

/// What becomes of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is to be judged.
    New,
    /// It was there before.
    Duplicate,
    /// It tells of the future, and is refused.
    Future,
    /// It is of an epoch that ended before all that are known: a copy of what was sent long ago. It is refused.
    Old,
}

/// Something that happened to a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Place of the sensor in the list of those that are registered.
    pub sensor: usize,
    /// What.
    pub what: What,
}

/// What happened. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// An epoch of it was heard for the first time.
    Began {
        /// Its number.
        epoch: u64,
    },
    /// No heartbeat came for the stated time: it is left out of the watermark.
    SilentSince {
        /// Its last promise; `None`: it made none.
        h_ns: Option<i64>,
    },
    /// It is heard again.
    Back {
        /// What it promises now.
        h_ns: Option<i64>,
    },
    /// It tells of the future: that is refused, and it is left out of the watermark.
    Quarantined {
        /// By how much.
        ahead_ns: i64,
    },
    /// It tells of the present again.
    Released,
    /// Two sensors have its id and key.
    Twice,
    /// Alarms of it were lost, or what it saw was.
    Missing {
        /// Alarms; 0: nobody knows how many.
        count: u64,
        /// What they told of lies behind this,
        from_ns: i64,
        /// and not behind that.
        to_ns: i64,
    },
}

/// What is counted of one sensor's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SensorState {
    /// The least that it promised, ns.
    pub h_ns: Option<i64>,
    /// Heartbeats that counted.
    pub beats: u64,
    /// Heartbeats that were copies, or overtaken.
    pub old_beats: u64,
    /// Alarms that came twice.
    pub duplicates: u64,
    /// Alarms that never came.
    pub lost: u64,
    /// Alarms and heartbeats of the future.
    pub future: u64,
    /// Alarms and heartbeats of epochs that ended long ago.
    pub old: u64,
    /// Times that it was silent.
    pub silences: u64,
    /// It is silent now.
    pub is_silent: bool,
    /// It is in quarantine now.
    pub is_quarantined: bool,
    /// Two sensors have its id now.
    pub is_twice: bool,
    /// It is registered no longer: nothing of it is waited for.
    pub is_removed: bool,
    /// What was lost was told of within this time, both ends within, ns.
    pub lost_within_ns: Option<(i64, i64)>,
}

/// How far the sensors have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Least {
    /// Somebody has promised nothing yet.
    Open,
    /// All that are not left out promised this, ns.
    At(i64),
    /// All are left out.
    Nobody,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sensor {
    /// When it was registered.
    since: Now,
    epochs: Vec<Epoch>,
    /// The epoch that began last, and one that goes on beside it.
    current: Option<u64>,
    beside: Option<u64>,
    /// The greatest promise of all its epochs.
    promised_ns: Option<i64>,
    counts: SensorState,
    /// Whether it was left out when the least was found.
    was_left_out: bool,
}

/// All registered sensors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sensors {
    timing: Timing,
    sensors: Vec<Sensor>,
    least: Least,
    notices: Vec<Notice>,
}

impl Sensors {
    /// So many sensors, of which nothing is known.
    pub fn new(count: usize, timing: Timing, now: Now) -> Self {
        let least = if count == 0 { Least::Nobody } else { Least::Open };
        Self { timing, sensors: vec![Sensor::new(now); count], least, notices: Vec::new() }
    }

    /// Goes on with these, by their places: more than before, some no longer, some again. Until a new one was heard, or the
    /// silence has passed, nothing more is certain.
    pub fn keep(&mut self, count: usize, is_registered: impl Fn(usize) -> bool, now: Now) {
        self.sensors.resize_with(count.max(self.sensors.len()), || Sensor::new(now));
        for (place, it) in self.sensors.iter_mut().enumerate() {
            let was_removed = std::mem::replace(&mut it.counts.is_removed, !is_registered(place));
            if was_removed && !it.counts.is_removed {
                // As if it had been silent: what it said meanwhile was refused.
                it.since = now;
                it.counts.is_silent = true;
            }
        }
        self.find_least();
    }

    /// Takes an alarm.
    pub fn alarm(&mut self, sensor: usize, alarm: &Numbered, now: Now) -> Arrival {
        let Numbered { epoch, sequence, time_ns, built_ns, error_us } = *alarm;
        let it = &mut self.sensors[sensor];
        if is_from_the_future(time_ns, error_us, now.wall_ns) {
            if it.is_copy(epoch, |epoch| epoch.has(sequence)) {
                it.counts.old += 1;
                return Arrival::Old;
            }
            self.quarantine(sensor, time_ns.saturating_sub(now.wall_ns));
            return Arrival::Future;
        }
        let Some(epoch) = it.epoch(epoch, built_ns) else {
            it.counts.old += 1;
            return Arrival::Old;
        };
        let (taken, lost) = epoch.alarm(sequence, now.wall_ns);
        let mut all: Vec<Lost> = lost.into_iter().collect();
        all.extend(epoch.settle(now.monotonic_ns));
        match taken {
            Taken::New => {}
            Taken::Recovered => it.counts.lost = it.counts.lost.saturating_sub(1),
            Taken::Duplicate => it.counts.duplicates += 1,
        }
        self.lost(sensor, &all);
        self.update(sensor);
        if taken == Taken::Duplicate { Arrival::Duplicate } else { Arrival::New }
    }

    /// Takes a heartbeat.
    pub fn beat(&mut self, sensor: usize, beat: &Beat, now: Now) {
        // The last one of a file promises that nothing at all follows. So far as it was built is enough: the sensor may
        // begin another file.
        let beat = &Beat { h_ns: beat.h_ns.map(|h| if h == i64::MAX { beat.built_ns } else { h }), ..*beat };
        let latest_ns = beat.h_ns.map_or(beat.built_ns, |h| h.max(beat.built_ns));
        let it = &mut self.sensors[sensor];
        if is_from_the_future(latest_ns, beat.error_us, now.wall_ns) {
            if it.is_copy(beat.epoch, |epoch| epoch.is_behind(beat)) {
                it.counts.old += 1;
                return;
            }
            return self.quarantine(sensor, latest_ns.saturating_sub(now.wall_ns));
        }
        let due_ns = now.monotonic_ns.saturating_add(self.timing.gap_wait_ns);
        let Some(epoch) = it.epoch(beat.epoch, beat.built_ns) else {
            it.counts.old += 1;
            return;
        };
        let is_first = epoch.began_ns.is_none();
        if !epoch.beat(beat, due_ns, now) {
            it.counts.old_beats += 1;
            return;
        }
        let lost = epoch.settle(now.monotonic_ns);
        it.counts.beats += 1;
        let was = (it.counts.is_silent, it.counts.is_quarantined);
        if is_first {
            self.began(sensor, beat, now);
        } else if it.current != Some(beat.epoch) {
            self.goes_on(sensor, beat, now);
        }
        let it = &self.sensors[sensor];
        let is_live = [it.current, it.beside].contains(&Some(beat.epoch));
        if is_live && (was.0 || was.1) {
            let from_ns = self.behind(sensor);
            let counts = &mut self.sensors[sensor].counts;
            (counts.is_silent, counts.is_quarantined) = (false, false);
            let what = [
                Some(What::Missing { count: 0, from_ns, to_ns: beat.h_ns.unwrap_or(now.wall_ns) }),
                was.0.then_some(What::Back { h_ns: beat.h_ns }),
                was.1.then_some(What::Released),
            ];
            self.notices.extend(what.into_iter().flatten().map(|what| Notice { sensor, what }));
        }
        self.lost(sensor, &lost);
        self.update(sensor);
    }

    /// Behind what a sensor promised: what it saw from there on is not known yet, ns.
    #[must_use]
    pub fn behind(&self, sensor: usize) -> i64 {
        let it = &self.sensors[sensor];
        it.promised_ns.map_or(it.since.wall_ns, |h| h.saturating_add(1))
    }

    /// An epoch is heard for the first time: the sensor, or its clock, was started again.
    fn began(&mut self, place: usize, beat: &Beat, now: Now) {
        let from_ns = self.behind(place);
        let it = &mut self.sensors[place];
        // Of the log alone, too, as when both were started again.
        let was_there = it.epochs.iter().any(|epoch| epoch.number != beat.epoch);
        if was_there && !it.is_left_out() {
            // What it saw between its last promise and this start nobody knows.
            let missing = What::Missing { count: 0, from_ns, to_ns: beat.h_ns.unwrap_or(now.wall_ns) };
            self.notices.push(Notice { sensor: place, what: missing });
        }
        it.current = Some(beat.epoch);
        it.beside = None;
        self.notices.push(Notice { sensor: place, what: What::Began { epoch: beat.epoch } });
    }

    /// An epoch goes on that is not the one which began last.
    fn goes_on(&mut self, place: usize, beat: &Beat, now: Now) {
        let it = &mut self.sensors[place];
        let current = it.current.and_then(|number| it.epochs.iter().find(|epoch| epoch.number == number));
        let began_ns = current.and_then(|current| current.began_ns);
        let epoch = beat.epoch;
        // What was held back on the way since before this start is no second sensor.
        if current.is_some_and(|current| beat.built_ns <= current.first_built_ns) {
            return;
        }
        if began_ns.is_some_and(|began| now.monotonic_ns.saturating_sub(began) < OVERTAKEN_NS) {
            return;
        }
        if began_ns.is_none() {
            it.current = Some(epoch);
        } else if it.beside != Some(epoch) {
            it.beside = Some(epoch);
            if !std::mem::replace(&mut it.counts.is_twice, true) {
                self.notices.push(Notice { sensor: place, what: What::Twice });
            }
        }
    }

    /// The same as [`tick_unless`](Self::tick_unless), with nothing that waits.
    pub fn tick(&mut self, now: Now) {
        self.tick_unless(now, || false);
    }

    /// What time alone changes: promises that are due, sensors that are silent. `waits`: whether something that came before
    /// was not taken yet.
    pub fn tick_unless(&mut self, now: Now, mut waits: impl FnMut() -> bool) {
        for place in 0..self.sensors.len() {
            let it = &mut self.sensors[place];
            let lost: Vec<Lost> = it.epochs.iter_mut().flat_map(|epoch| epoch.settle(now.monotonic_ns)).collect();
            self.lost(place, &lost);
            self.silence(place, now, &mut waits);
            self.update(place);
        }
    }

    /// Waits for the first heartbeat of each from now on.
    pub fn begin(&mut self, now: Now) {
        self.sensors.iter_mut().for_each(|it| it.since.monotonic_ns = now.monotonic_ns);
    }

    /// The way to all sensors is broken, or what comes is of the past: until now nobody was silent who was not before.
    pub fn hold(&mut self, now: Now) {
        for it in &mut self.sensors {
            it.since.monotonic_ns = now.monotonic_ns;
            for epoch in &mut it.epochs {
                epoch.heard_ns = epoch.heard_ns.map(|_| now.monotonic_ns);
            }
        }
    }

    fn silence(&mut self, place: usize, now: Now, waits: &mut impl FnMut() -> bool) {
        let it = &mut self.sensors[place];
        if it.counts.is_removed {
            return;
        }
        let heard = |number: Option<u64>| {
            let epoch = it.epochs.iter().find(|epoch| Some(epoch.number) == number)?;
            epoch.heard_ns
        };
        let since = |heard_ns: i64| now.monotonic_ns.saturating_sub(heard_ns);
        let is_over = |heard_ns: i64| since(heard_ns) >= self.timing.silence_ns;
        let (current, beside) = (heard(it.current), heard(it.beside));
        let beside_is_over = beside.is_none_or(is_over);
        if !is_over(current.unwrap_or(it.since.monotonic_ns)) {
            if beside_is_over {
                (it.beside, it.counts.is_twice) = (None, false);
            }
            return;
        }
        // Who has been held up hears first what was said meanwhile. A flood may keep that up for so long, and no longer.
        let is_long = since(current.unwrap_or(it.since.monotonic_ns)) / 2 >= self.timing.silence_ns;
        if !it.counts.is_silent && !is_long && waits() {
            return;
        }
        (it.beside, it.counts.is_twice) = (None, false);
        if !beside_is_over {
            it.current =
                it.epochs.iter().filter(|epoch| epoch.heard_ns == beside).map(|epoch| epoch.number).next_back();
            return;
        }
        self.leave_out(place);
    }

    fn leave_out(&mut self, place: usize) {
        let it = &mut self.sensors[place];
        if !std::mem::replace(&mut it.counts.is_silent, true) {
            it.counts.silences += 1;
            self.notices.push(Notice { sensor: place, what: What::SilentSince { h_ns: it.promised_ns } });
        }
    }

    /// Somebody says that a sensor is silent: it is left out until its next heartbeat.
    pub fn silent(&mut self, place: usize) {
        self.leave_out(place);
        self.update(place);
    }

    fn quarantine(&mut self, place: usize, ahead_ns: i64) {
        let counts = &mut self.sensors[place].counts;
        counts.future += 1;
        if !std::mem::replace(&mut counts.is_quarantined, true) {
            self.notices.push(Notice { sensor: place, what: What::Quarantined { ahead_ns } });
        }
        self.update(place);
    }

    fn lost(&mut self, place: usize, all: &[Lost]) {
        for Lost { count, from_ns, to_ns } in all.iter().copied() {
            let from_ns = if from_ns == i64::MIN { self.behind(place).min(to_ns) } else { from_ns };
            let counts = &mut self.sensors[place].counts;
            counts.lost = counts.lost.saturating_add(count);
            let (first, last) = counts.lost_within_ns.unwrap_or((from_ns, to_ns));
            counts.lost_within_ns = Some((first.min(from_ns), last.max(to_ns)));
            self.notices.push(Notice { sensor: place, what: What::Missing { count, from_ns, to_ns } });
        }
    }

    /// A sensor has come farther, was left out or taken in again.
    fn update(&mut self, place: usize) {
        let it = &mut self.sensors[place];
        let live = it.epochs.iter().filter(|epoch| [it.current, it.beside].contains(&Some(epoch.number)));
        let h_ns = live.map(Epoch::h_ns).min().flatten();
        if (it.counts.h_ns, it.was_left_out) == (h_ns, it.is_left_out()) {
            return;
        }
        (it.counts.h_ns, it.was_left_out) = (h_ns, it.is_left_out());
        it.promised_ns = it.promised_ns.max(h_ns);
        self.find_least();
    }

    fn find_least(&mut self) {
        let mut least = Least::Nobody;
        for it in self.sensors.iter().filter(|it| !it.is_left_out()) {
            least = match (least, it.counts.h_ns) {
                (Least::Open, _) | (_, None) => Least::Open,
                (Least::Nobody, Some(h)) => Least::At(h),
                (Least::At(before), Some(h)) => Least::At(before.min(h)),
            };
        }
        self.least = least;
    }

    /// How far they have come. It may go back, as when a sensor is heard again; the watermark does not.
    pub fn least(&self) -> Least {
        self.least
    }

    /// When something changes if nothing comes, monotonic ns.
    pub fn due_ns(&self) -> Option<i64> {
        self.sensors.iter().flat_map(|it| it.epochs.iter().filter_map(Epoch::due_ns)).min()
    }

    /// What happened since this was asked last.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// What was counted, in the order of the sensors.
    pub fn counts(&self) -> impl Iterator<Item = SensorState> {
        self.sensors.iter().map(|it| it.counts)
    }

    /// Whether a sensor that is left out now could have told of this time.
    pub fn are_blind(&self, to_ns: i64) -> bool {
        let is_blind = |it: &Sensor| it.is_left_out() && !it.counts.is_removed;
        (0..self.sensors.len()).any(|at| is_blind(&self.sensors[at]) && self.behind(at) <= to_ns)
    }
}

impl Sensor {
    fn new(since: Now) -> Self {
        Self {
            since,
            epochs: Vec::new(),
            current: None,
            beside: None,
            promised_ns: None,
            counts: SensorState::default(),
            was_left_out: false,
        }
    }

    fn is_left_out(&self) -> bool {
        self.counts.is_silent || self.counts.is_quarantined || self.counts.is_removed
    }

    /// Whether a message that tells of the future says nothing of the sensor now: it was here before (`has`), or is of an
    /// epoch before the newest. Nothing is remembered of it.
    fn is_copy(&self, number: u64, has: impl Fn(&Epoch) -> bool) -> bool {
        self.epochs.iter().any(|epoch| number < epoch.number || number == epoch.number && has(epoch))
    }

    /// An epoch of the log.
    fn noted(&mut self, number: u64, time_ns: i64) -> &mut Epoch {
        let at = self.epochs.iter().position(|epoch| epoch.number == number);
        let at = at.unwrap_or_else(|| self.insert(Epoch::noted(number, time_ns)));
        &mut self.epochs[at]
    }

    /// An epoch by its number; `None`: it is of long ago. `built_ns`: of the message that names it.
    ///
    /// Numbers grow with each start. One that is lower than those which are known, and of which nothing is remembered, is a
    /// second sensor's if it goes on now, else a copy. A new one of a sensor that was heard before begins with its first
    /// sequence.
    fn epoch(&mut self, number: u64, built_ns: i64) -> Option<&mut Epoch> {
        if let Some(at) = self.epochs.iter().position(|epoch| epoch.number == number) {
            let epoch = &mut self.epochs[at];
            epoch.heard(built_ns);
            return Some(epoch);
        }
        let newest = self.epochs.iter().max_by_key(|epoch| epoch.number);
        if let Some(newest) = newest
            && number < newest.number
            && built_ns <= newest.first_built_ns
        {
            return None;
        }
        let from_start = newest.is_some_and(|newest| newest.number < number);
        let at = self.insert(Epoch::new(number, from_start, built_ns));
        self.epochs.get_mut(at)
    }

    /// Adds an epoch, the oldest that is not live goes for it; its place.
    fn insert(&mut self, epoch: Epoch) -> usize {
        if self.epochs.len() == MOST_EPOCHS {
            // Two of sixteen are live at most.
            let is_live = |epoch: &Epoch| [self.current, self.beside].contains(&Some(epoch.number));
            let others = (0..self.epochs.len()).filter(|at| !is_live(&self.epochs[*at]));
            let forgotten = others.min_by_key(|at| self.epochs[*at].number);
            self.epochs.remove(forgotten.unwrap_or_default());
        }
        self.epochs.push(epoch);
        self.epochs.len() - 1
    }
}

//! Owns: a correlator without threads and clocks: events in, what became certain out; with a log and a store where there
//! is a folder for them.
//! Does not: read inputs, tell the outside, or look at a clock: whoever runs it says when it is time.

mod disk;
mod late;
mod rebuild;
mod registered;
#[cfg(test)]
mod registered_tests;
mod streams;
#[cfg(test)]
mod tests;
mod watermark;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use ringtap::Result;
use ringtap_sigma::{Automaton, Identity, IncidentId, Output, State};

use crate::engine::{Bounds, Engine, Finding, Forgotten, Provisional, Taken};
use crate::event::Event;
use crate::identity::Numbers;
use crate::log::Log;
use crate::sensors::{Gaps, Now, Registered, SensorState, Sensors, Timing, What};
use crate::store::{Batch, Judged, Retention, Store};
use disk::Disk;
pub use late::Late;
pub use ringtap_event::incident::Found;
use ringtap_event::incident::rests_on;
use ringtap_event::parse::is_from_the_future;
use streams::Streams;
use watermark::Watermark;

/// Events between two watermarks in the log, at most: what a restart lets wait at once.
const PER_WATERMARK: u32 = 4096;
/// Changes of incidents that wait for a store which can't be written.
const MAX_BATCH: usize = 1 << 16;
/// The log reaches so much farther back than any rule looks, so that late events and incidents can be looked at, ns.
const KEEP_NS: i64 = 24 * 3600 * 1_000_000_000;
/// Sensors that are told apart in counts; senders may make up any number.
const MAX_SENSORS: usize = 4096;

/// Bounds of a correlator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Events may come so much later than the latest, ns.
    pub disorder_ns: i64,
    /// Memory of all keys.
    pub bounds: Bounds,
    /// Events that may wait for the watermark, once for each key.
    pub waiting: usize,
    /// Tell certain matches before the watermark has come: events come as they happen.
    pub early: bool,
    /// Files may be given again that the log has from an earlier run.
    pub reads_again: bool,
    /// Sensors that are known by their keys.
    pub sensors: Vec<Registered>,
    /// How long is waited for them.
    pub timing: Timing,
    /// Bytes of the log beyond which its oldest segments go.
    pub log_bytes: u64,
    /// What the store keeps.
    pub retention: Retention,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            disorder_ns: 5_000_000_000,
            bounds: Bounds::default(),
            waiting: 1 << 20,
            early: false,
            reads_again: true,
            sensors: Vec::new(),
            timing: Timing { gap_wait_ns: 20_000_000, silence_ns: 10_000_000_000 },
            log_bytes: u64::MAX,
            retention: Retention::default(),
        }
    }
}

/// How an event came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From a file that is read from its beginning each time.
    File,
    /// From a stream that sends nothing twice.
    Stream,
}

/// What is counted of one sensor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SensorCounts {
    /// Its name.
    pub name: Arc<str>,
    /// Events accepted.
    pub events: u64,
    /// Those among them that came behind the watermark, or behind an event of their key that was judged before its time.
    pub late: u64,
    /// Events from the future, which were refused.
    pub future: u64,
    /// The greatest event time, ns.
    pub last_ns: i64,
}

impl SensorCounts {
    fn new(name: Arc<str>) -> Self {
        Self { name, last_ns: i64::MIN, ..Self::default() }
    }
}

/// What a correlator counted beside its engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that were given.
    pub events: u64,
    /// Those that the log had from an earlier run.
    pub known: u64,
    /// Those older than the log reaches back after a restart: nobody can say whether they were known.
    pub too_old: u64,
    /// Late events that were judged again over the log.
    pub judged_again: u64,
    /// Late events that could not be: there is no log, or too many came.
    pub not_judged: u64,
    /// Times at which the watermark went on early, as too many events waited.
    pub pushed: u64,
    /// Events of senders without a key that found no room: beside registered sensors, or with a stamp ahead of their
    /// receipt, of which too many of one key wait.
    pub no_room: u64,
    /// Events without a seal that named a registered sensor as theirs.
    pub unsealed: u64,
    /// Segments of the log that went for its size while a rule could still look back to them.
    pub log_cut: u64,
    /// Changes of incidents that are not in the store, as it could not be written for too long.
    pub not_stored: u64,
    /// Incidents that were closed as their rule is used no longer.
    pub removed: u64,
    /// How far the stored watermark was ahead of the clock, ns.
    pub set_back_ns: i64,
    /// By sensor; those beyond a number are counted together.
    pub sensors: BTreeMap<u64, SensorCounts>,
    /// Incidents that opened, by rule.
    pub incidents: Vec<u64>,
    /// Incidents that are told by themselves and open now, those of late events aside.
    pub open: u64,
}

/// An incident whose rule is used no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Its id.
    pub id: IncidentId,
    /// What others call the rule.
    pub rule: String,
    /// Whether it was told that the incident opened.
    pub announces: bool,
    /// When it closed, ns.
    pub at_ns: i64,
}

/// What is to be told to the outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// An incident opened, went on or closed.
    Incident(Output, Found),
    /// An open incident is closed, as its rule is used no longer.
    Removed(Removed),
    /// Something happened to a registered sensor, by its number.
    Sensor(u64, What),
    /// A detection that is told by itself matched; true: an event that came late.
    Match(Finding, bool),
    /// Certain, and not confirmed yet.
    Provisional(Provisional),
    /// A key had to be forgotten.
    Forgotten(Forgotten),
}

/// Rules at work, with what survives a crash.
pub struct Correlator {
    settings: Settings,
    engine: Engine,
    watermark: Watermark,
    numbers: Numbers,
    disk: Option<Disk>,
    /// Events that the log has from an earlier run, for files that are read again.
    in_log: HashSet<(i64, Identity)>,
    /// What is before this was not read from the log.
    log_begins: i64,
    /// The greatest time in it.
    log_ends: i64,
    /// Equal records of files up to there.
    read_again: Numbers,
    /// The time that was given last.
    now: Now,
    /// Registered sensors, where there are any, with their places by number.
    sensors: Option<Sensors>,
    places: HashMap<u64, usize>,
    streams: Streams,
    /// When an event of another input came last, monotonic ns.
    others_heard_ns: Option<i64>,
    /// What comes is of the past, or nothing can come: the clock says nothing.
    is_held: bool,
    gaps: Gaps,
    /// What is missing of registered sensors, to be told.
    lacking: BTreeMap<u64, registered::Lacking>,
    late: Late,
    findings: Vec<Finding>,
    batch: Batch,
    told: Vec<Report>,
    counts: Counts,
}

impl Correlator {
    /// Begins, or goes on from what `folder` holds.
    ///
    /// # Errors
    /// Log or store can't be read or written.
    pub fn open(automaton: Arc<Automaton>, settings: Settings, folder: Option<&Path>, now: Now) -> Result<Self> {
        let (rules, now_ns) = (automaton.rules().len(), now.wall_ns);
        let (registered, timing) = (settings.sensors.len(), settings.timing);
        // With names from the beginning, for what is told of one that never said anything.
        let named = settings.sensors.iter().map(|it| (it.number, SensorCounts::new(Arc::clone(&it.name))));
        let counts = Counts { incidents: vec![0; rules], sensors: named.collect(), ..Counts::default() };
        let places = settings.sensors.iter().enumerate().map(|(place, sensor)| (sensor.number, place)).collect();
        let mut this = Self {
            sensors: (registered > 0).then(|| Sensors::new(registered, timing, now)),
            places,
            streams: Streams::default(),
            others_heard_ns: None,
            is_held: false,
            gaps: Gaps::default(),
            lacking: BTreeMap::new(),
            engine: Engine::new(automaton, settings.bounds, settings.early),
            watermark: Watermark::new(settings.disorder_ns),
            settings,
            numbers: Numbers::default(),
            disk: None,
            in_log: HashSet::new(),
            log_begins: i64::MIN,
            log_ends: i64::MIN,
            read_again: Numbers::default(),
            now,
            late: Late::default(),
            findings: Vec::new(),
            batch: Batch::default(),
            told: Vec::new(),
            counts,
        };
        if let Some(folder) = folder {
            let store = Store::open(folder)?;
            let log = Log::open(folder)?;
            let judged = store.judged()?;
            let fresh = Judged { watermark: i64::MIN, late: log.place(), greatest_ns: i64::MIN };
            let mut judged = judged.unwrap_or(fresh);
            // The clock was ahead once. Whatever comes until then would be late.
            this.counts.set_back_ns = judged.watermark.saturating_sub(now_ns).max(0);
            judged.watermark = judged.watermark.min(now_ns);
            judged.greatest_ns = judged.greatest_ns.min(now_ns);
            this.disk = Some(Disk::new(log, store, judged));
            let named = this.settings.sensors.iter().map(|it| (it.number, Arc::clone(&it.name)));
            this.batch.sensors.extend(named);
            // Also without a mark of the store: a crash may have come before the first.
            this.rebuild()?;
        }
        Ok(this)
    }

    /// Whether there is a log to build windows from.
    #[must_use]
    pub fn has_store(&self) -> bool {
        self.disk.is_some()
    }

    /// The rules.
    #[must_use]
    pub fn automaton(&self) -> &Arc<Automaton> {
        self.engine.automaton()
    }

    /// The engine: its counts, keys and memory.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The greatest event time, ns; `None` before the first.
    #[must_use]
    pub fn greatest_ns(&self) -> Option<i64> {
        self.watermark.greatest_ns()
    }

    /// Bytes of the log, events that it could not take, segments found damaged.
    #[must_use]
    pub fn log(&self) -> Option<(u64, u64, u64)> {
        let log = &self.disk.as_ref()?.log;
        let (lost, damaged) = log.faults();
        Some((log.bytes(), lost, damaged))
    }

    /// What was counted of registered sensors, with their names.
    pub fn registered(&self) -> impl Iterator<Item = (&Registered, SensorState)> {
        self.settings.sensors.iter().zip(self.sensors.iter().flat_map(Sensors::counts))
    }

    /// Takes an event of an input without heartbeats, that came at `now_ns` since 1970.
    pub fn event(&mut self, mut event: Event, way: Way, now_ns: i64) {
        self.counts.events += 1;
        self.now.wall_ns = now_ns;
        let time = event.mark.time_ns;
        if self.places.contains_key(&event.mark.identity.sensor) {
            // Only its key proves that it is its.
            self.counts.unsealed += 1;
            return;
        }
        if is_from_the_future(time, event.mark.clock.error_us, now_ns) {
            self.sensor(&event).future += 1;
            return;
        }
        // Who has no key must not move the watermark of those who have one: half of the room is theirs alone.
        let most = if self.sensors.is_some() { self.settings.waiting / 2 } else { self.settings.waiting };
        let is_full = self.engine.waiting().max(self.numbers.len()) > most;
        // Nor let time pass for one of their keys.
        let would_force = time > now_ns && self.engine.would_force(&event);
        if would_force || is_full && self.sensors.is_some() {
            self.counts.no_room += 1;
            return;
        }
        if way == Way::File && time <= self.log_ends {
            if time < self.log_begins {
                self.counts.too_old += 1;
                return;
            }
            // Counted from the first on, as when it was read before.
            self.read_again.number(&mut event.mark, i64::MIN);
            if self.in_log.remove(&(time, event.mark.identity)) {
                self.counts.known += 1;
                return;
            }
        } else {
            self.numbers.number(&mut event.mark, self.engine.watermark());
        }
        self.others_heard_ns = Some(self.now.monotonic_ns);
        if self.accept(event) {
            // A sender whose clock is ahead, or who says so, must not make what others send late.
            self.watermark.event(time.min(now_ns));
        }
        self.go_on(self.reached());
        if is_full {
            self.push();
        }
    }

    /// Logs an event and gives it to the engine; false: it is late.
    fn accept(&mut self, event: Event) -> bool {
        let time = event.mark.time_ns;
        let taken = self.engine.event(&event);
        let is_late = taken == Taken::Late;
        let counts = self.sensor(&event);
        counts.events += 1;
        counts.late += u64::from(taken != Taken::InTime);
        counts.last_ns = counts.last_ns.max(time);
        if let Some(disk) = &mut self.disk {
            if let Some((stream, next)) = self.streams.coming() {
                disk.log.read_up_to(stream, next);
            }
            // One that was overtaken is in time for other rules: a restart finds out again.
            disk.log.event(&event, is_late);
            disk.since_watermark += 1;
        }
        if taken != Taken::InTime {
            self.told.extend(self.engine.take_late_matches().into_iter().map(|found| Report::Match(found, true)));
            let matters = self.engine.went_to_a_rule();
            if matters && (self.disk.is_none() || !self.late.push(event)) {
                self.counts.not_judged += 1;
            }
        }
        self.streams.taken();
        self.told.extend(self.engine.take_provisional().into_iter().map(Report::Provisional));
        !is_late
    }

    /// The log reaches back so far, ns.
    fn reach(&self) -> i64 {
        let horizon = self.engine.horizon_ns();
        self.engine.watermark().min(self.now.wall_ns).saturating_sub(horizon).saturating_sub(KEEP_NS)
    }

    fn sensor(&mut self, event: &Event) -> &mut SensorCounts {
        let sensors = &mut self.counts.sensors;
        let number = event.mark.identity.sensor;
        if sensors.contains_key(&number) {
            return sensors.entry(number).or_default();
        }
        let is_many = sensors.len() >= MAX_SENSORS;
        let (number, name) = match is_many {
            true => (0, Arc::from("others")),
            false => (number, Arc::clone(&event.sensor)),
        };
        if !is_many && self.disk.is_some() {
            self.batch.sensors.push((number, Arc::clone(&event.sensor)));
        }
        sensors.entry(number).or_insert_with(|| SensorCounts::new(name))
    }

    /// Too many events wait: the watermark goes on to where one of them is judged.
    fn push(&mut self) {
        self.counts.pushed += 1;
        // Beside registered sensors never ahead of the clock: what has no room there is forgotten with its key.
        let most = if self.sensors.is_some() { self.now.wall_ns } else { i64::MAX };
        if let Some(next) = [self.engine.next_ns(), self.numbers.first_ns()].into_iter().flatten().min() {
            let next = next.min(most);
            self.watermark.push(next);
            self.go_on(next);
        }
    }

    /// Moves the engine's watermark.
    fn go_on(&mut self, watermark: i64) {
        if watermark <= self.engine.watermark() {
            return;
        }
        self.engine.advance(watermark, &mut self.findings);
        self.numbers.advance(watermark);
        if let Some(disk) = &mut self.disk
            && disk.since_watermark >= PER_WATERMARK
        {
            disk.since_watermark = 0;
            disk.log.watermark(watermark);
        }
        self.collect();
    }

    /// Takes what the engine found.
    fn collect(&mut self) {
        for finding in std::mem::take(&mut self.findings) {
            match finding {
                Finding::Incident(output) => self.incident(output, false),
                found @ Finding::Match { .. } => self.told.push(Report::Match(found, false)),
            }
        }
        let forgotten = self.engine.take_forgotten();
        if !forgotten.is_empty() {
            let now = self.engine.watermark();
            self.gaps.add(now.saturating_sub(self.engine.horizon_ns()), now);
        }
        self.told.extend(forgotten.into_iter().map(Report::Forgotten));
    }

    /// Counts what is open, after states were built again.
    fn count_open(&mut self) {
        let rules = self.engine.automaton().rules();
        let is_open = |rule: u16, state: &State| rules[usize::from(rule)].announces && state.incident().is_some();
        self.counts.open = self.engine.states().filter(|(rule, _, state)| is_open(*rule, state)).count() as u64;
    }

    fn incident(&mut self, output: Output, late: bool) {
        if let Output::Opened(it) = &output {
            self.counts.incidents[usize::from(it.rule)] += 1;
        }
        let Some((rule, from_ns, at_ns)) = rests_on(&output, self.engine.automaton()) else { return };
        let incomplete = self.gaps.touch(from_ns, at_ns) || self.sensors.as_ref().is_some_and(|it| it.are_blind(at_ns));
        let found = Found { late, incomplete };
        if rule.announces {
            match &output {
                Output::Opened(_) if !late => self.counts.open += 1,
                Output::Closed(_) if !late => self.counts.open = self.counts.open.saturating_sub(1),
                _ => {}
            }
            self.told.push(Report::Incident(output.clone(), found));
        }
        if self.disk.is_some() {
            match self.batch.outputs.len() < MAX_BATCH {
                true => self.batch.outputs.push((output, found)),
                false => self.counts.not_stored += 1,
            }
        }
    }

    /// All inputs have been silent for so long, ns: the watermark goes on by the clock.
    pub fn silent_for(&mut self, elapsed_ns: i64) {
        if let Some(since_ns) = self.watermark.silent_for(elapsed_ns)
            && let Some(disk) = &mut self.disk
        {
            disk.log.silence(since_ns);
        }
        self.go_on(self.reached());
    }

    /// What is to be told since this was asked last. It is told before [`sync`](Self::sync), so that a crash in between
    /// tells it twice, with the same id, and never not at all.
    pub fn take_told(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.told)
    }

    /// The inputs have ended: nothing follows, and everything is certain.
    ///
    /// # Errors
    /// The disk is full or broken.
    pub fn end(&mut self) -> Result<()> {
        // What is found is told, whatever the disk says.
        let judged = self.judge_late(true);
        // A later run goes on from the last event, as if this one had not ended.
        let Some(greatest) = self.watermark.greatest_ns() else {
            return judged.and(self.write(self.engine.watermark()));
        };
        let resumes_at = greatest.max(self.engine.watermark());
        self.go_on(resumes_at);
        // What was overtaken waited for this.
        let judged = judged.and(self.judge_late(true));
        self.counts.not_judged += self.late.len() as u64;
        let written = self.write(resumes_at);
        self.go_on(i64::MAX);
        let last = self.write(resumes_at);
        judged.and(written).and(last)
    }

    /// Stops without saying that nothing follows: what waits is judged in a later run.
    ///
    /// # Errors
    /// The disk is full or broken.
    pub fn stop(&mut self) -> Result<()> {
        self.tell_lacking(true);
        self.sync()
    }
}

//! Owns: a correlator without threads and clocks: events in, what became certain out; with a log and a store where there
//! is a folder for them.
//! Does not: read inputs, tell the outside, or look at a clock: whoever runs it says when it is time.

mod late;
mod rebuild;
#[cfg(test)]
mod tests;
mod watermark;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use ringtap::Result;
use ringtap_sigma::{Automaton, Identity, Output};

use crate::engine::{Bounds, Engine, Finding, Forgotten, Provisional, Taken};
use crate::event::Event;
use crate::identity::Numbers;
use crate::log::Log;
use crate::store::{Batch, Judged, Store};
pub use late::Late;
use watermark::Watermark;

/// Events between two watermarks in the log, at most: what a restart lets wait at once.
const PER_WATERMARK: u32 = 4096;
/// The log reaches so much farther back than any rule looks, so that late events and incidents can be looked at, ns.
const KEEP_NS: i64 = 24 * 3600 * 1_000_000_000;
/// Sensors that are told apart in counts; senders may make up any number.
const MAX_SENSORS: usize = 4096;

/// Bounds of a correlator.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Events may come so much later than the latest, ns.
    pub disorder_ns: i64,
    /// Memory of all keys.
    pub bounds: Bounds,
    /// Events that may wait for the watermark, once for each key.
    pub waiting: usize,
    /// Tell certain matches before the watermark has come.
    pub early: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { disorder_ns: 5_000_000_000, bounds: Bounds::default(), waiting: 1 << 20, early: false }
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
    /// Events behind the watermark among them.
    pub late: u64,
    /// Events from the future, which were refused.
    pub future: u64,
    /// The greatest event time, ns.
    pub last_ns: i64,
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
    /// How far the stored watermark was ahead of the clock, ns.
    pub set_back_ns: i64,
    /// By sensor; those beyond a number are counted together.
    pub sensors: BTreeMap<u64, SensorCounts>,
    /// Incidents that opened, by rule.
    pub incidents: Vec<u64>,
}

/// What is to be told to the outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// An incident opened, went on or closed; true: found as a late event was judged again.
    Incident(Output, bool),
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
    /// The time that was given last, ns since 1970.
    now_ns: i64,
    late: Late,
    findings: Vec<Finding>,
    batch: Batch,
    told: Vec<Told>,
    counts: Counts,
}

/// Log and store.
struct Disk {
    log: Log,
    store: Store,
    since_watermark: u32,
    judged: Judged,
}

impl Correlator {
    /// Begins, or goes on from what `folder` holds, at `now_ns` since 1970.
    ///
    /// # Errors
    /// Log or store can't be read or written.
    pub fn open(automaton: Arc<Automaton>, settings: Settings, folder: Option<&Path>, now_ns: i64) -> Result<Self> {
        let rules = automaton.rules().len();
        let mut this = Self {
            engine: Engine::new(automaton, settings.bounds, settings.early),
            settings,
            watermark: Watermark::new(settings.disorder_ns),
            numbers: Numbers::default(),
            disk: None,
            in_log: HashSet::new(),
            log_begins: i64::MIN,
            log_ends: i64::MIN,
            read_again: Numbers::default(),
            now_ns,
            late: Late::default(),
            findings: Vec::new(),
            batch: Batch::default(),
            told: Vec::new(),
            counts: Counts { incidents: vec![0; rules], ..Counts::default() },
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
            this.disk = Some(Disk { log, store, since_watermark: 0, judged });
            // Also without a mark of the store: a crash may have come before the first.
            this.rebuild()?;
        }
        Ok(this)
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

    /// Takes an event that came at `now_ns` since 1970.
    pub fn event(&mut self, mut event: Event, way: Way, now_ns: i64) {
        self.counts.events += 1;
        self.now_ns = now_ns;
        let time = event.mark.time_ns;
        if watermark::is_from_the_future(&event.mark, now_ns) {
            self.sensor(&event).future += 1;
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
        let taken = self.engine.event(&event);
        let is_late = taken == Taken::Late;
        let counts = self.sensor(&event);
        counts.events += 1;
        counts.late += u64::from(is_late);
        counts.last_ns = counts.last_ns.max(time);
        if let Some(disk) = &mut self.disk {
            disk.log.event(&event, is_late);
            disk.since_watermark += 1;
        }
        if is_late {
            self.told.extend(self.engine.take_late_matches().into_iter().map(|found| Told::Match(found, true)));
            if self.disk.is_none() {
                self.counts.not_judged += u64::from(self.engine.went_to_a_rule());
            } else if self.engine.went_to_a_rule() && !self.late.push(event) {
                self.counts.not_judged += 1;
            }
            return;
        }
        // A sender whose clock is ahead, or who says so, must not make what others send late.
        self.watermark.event(time.min(now_ns));
        self.told.extend(self.engine.take_provisional().into_iter().map(Told::Provisional));
        self.go_on(self.watermark.now());
        if self.engine.waiting() > self.settings.waiting {
            self.push();
        }
    }

    fn sensor(&mut self, event: &Event) -> &mut SensorCounts {
        let sensors = &mut self.counts.sensors;
        let number = event.mark.identity.sensor;
        let is_new = !sensors.contains_key(&number);
        let (number, name) = match is_new && sensors.len() >= MAX_SENSORS {
            true => (0, Arc::from("others")),
            false => (number, Arc::clone(&event.sensor)),
        };
        if is_new && number == event.mark.identity.sensor && self.disk.is_some() {
            self.batch.sensors.push((number, Arc::clone(&event.sensor)));
        }
        sensors.entry(number).or_insert_with(|| SensorCounts { name, last_ns: i64::MIN, ..SensorCounts::default() })
    }

    /// Too many events wait: the watermark goes on to where one of them is judged.
    fn push(&mut self) {
        self.counts.pushed += 1;
        if let Some(next) = self.engine.next_ns() {
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
                found @ Finding::Match { .. } => self.told.push(Told::Match(found, false)),
            }
        }
        self.told.extend(self.engine.take_forgotten().into_iter().map(Told::Forgotten));
    }

    fn incident(&mut self, output: Output, late: bool) {
        let rule = match &output {
            Output::Opened(it) => {
                self.counts.incidents[usize::from(it.rule)] += 1;
                it.rule
            }
            Output::Extended(it) => it.rule,
            Output::Closed(it) => it.rule,
            Output::Hit(_) | Output::Late { .. } | Output::Forced { .. } | Output::Duplicate { .. } => return,
        };
        if self.engine.automaton().rules()[usize::from(rule)].announces {
            self.told.push(Told::Incident(output.clone(), late));
        }
        if self.disk.is_some() {
            self.batch.outputs.push((output, late));
        }
    }

    /// All inputs have been silent for so long, ns: the watermark goes on by the clock.
    pub fn silent_for(&mut self, elapsed_ns: i64) {
        if let Some(since_ns) = self.watermark.silent_for(elapsed_ns)
            && let Some(disk) = &mut self.disk
        {
            disk.log.silence(since_ns);
        }
        self.go_on(self.watermark.now());
    }

    /// What is to be told since this was asked last. It is told before [`sync`](Self::sync), so that a crash in between
    /// tells it twice, with the same id, and never not at all.
    pub fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// Judges late events again, and puts log and store on the disk: every 100 ms or so.
    ///
    /// # Errors
    /// The disk is full or broken. What was not stored is stored with the next call; it can go on.
    pub fn sync(&mut self) -> Result<()> {
        self.judge_late()?;
        let watermark = self.engine.watermark();
        self.write(watermark)
    }

    fn write(&mut self, watermark: i64) -> Result<()> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        if std::mem::take(&mut disk.since_watermark) > 0 {
            disk.log.watermark(watermark);
        }
        let logged = disk.log.sync();
        self.batch.progress = self.engine.take_progress();
        self.batch.incomplete = self.engine.counts().forgotten.iter().any(|count| *count > 0);
        // What was found is on the disk at once; else how far it went is enough now and then.
        let judged = Judged {
            watermark,
            late: if self.late.is_empty() { disk.log.place() } else { disk.judged.late },
            greatest_ns: self.watermark.greatest_ns().unwrap_or(i64::MIN),
        };
        let is_due = watermark.saturating_sub(disk.judged.watermark) > 60_000_000_000;
        if !self.batch.is_empty() || is_due {
            disk.store.write(self.engine.automaton(), &self.batch, judged)?;
            disk.judged = judged;
            self.batch = Batch::default();
            let horizon = self.engine.automaton().horizon_ns();
            disk.log.prune(watermark.min(self.now_ns).saturating_sub(horizon).saturating_sub(KEEP_NS));
        }
        logged
    }

    /// The inputs have ended: nothing follows, and everything is certain.
    ///
    /// # Errors
    /// The disk is full or broken.
    pub fn end(&mut self) -> Result<()> {
        self.judge_late()?;
        // A later run goes on from the last event, as if this one had not ended.
        let Some(greatest) = self.watermark.greatest_ns() else { return self.write(self.engine.watermark()) };
        let resumes_at = greatest.max(self.engine.watermark());
        self.go_on(resumes_at);
        self.write(resumes_at)?;
        self.go_on(i64::MAX);
        self.write(resumes_at)
    }

    /// Stops without saying that nothing follows: what waits is judged in a later run.
    ///
    /// # Errors
    /// The disk is full or broken.
    pub fn stop(&mut self) -> Result<()> {
        self.sync()
    }
}

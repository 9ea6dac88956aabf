//! Root cause in the station: announced changes of alarms go in, incidents come out, with a thread of their own.
//!
//! Owns that thread: the engine of `ringtap-rootcause`, its time, what is told of incidents and what of them goes into the store. It
//! explains and never drops, and judging never waits for it: an alarm that the engine, or what waits for the thread, has no room for is
//! announced by itself, as without a topology. A clear is told to the thread in any case, later if need be: its incident waits for it.

mod told;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap::{Error, Result, clock, sched};
use ringtap_output::Severity;
use ringtap_rootcause::{Engine, Incident, Output, Settings, State, Subject, Topology};
use ringtap_run::notes;

use crate::alarm::Alarm;
use crate::counts::StationCounts;
use crate::judge::Announcement;
use crate::outputs::Outputs;
use crate::store::{IncidentChanges, StoredIncident, StoredMember};
use crate::waker::Waker;

pub(crate) use told::{RULE, announcement, json, member};

/// Changes that wait for the thread.
const WAITING: usize = 65_536;
/// Of the thread: judging goes before explaining.
const NICE: i32 = 5;
/// How long what only grew may be newer than in the store.
const GATHER: Duration = Duration::from_secs(1);
/// How long what was told may be newer than what a restart goes on from, while more waits behind it.
const SAVE: Duration = Duration::from_millis(100);
/// Changes so much older than the state are known to it.
const SLACK_NS: u64 = 5_000_000_000;

/// A change of an alarm.
struct Change {
    announcement: Announcement,
    /// Nothing clears it.
    is_event: bool,
    /// The outside knows it already.
    is_told: bool,
}

/// What the thread is told.
enum Word {
    /// An alarm changed.
    Alarm(Box<Change>),
    /// Use this topology from now on.
    Topology(Box<Topology>),
}

/// What a station with a topology starts with.
pub(crate) struct Beginning {
    /// The network.
    pub(crate) topology: Topology,
    /// Where the one before ended.
    pub(crate) state: Option<String>,
    /// Alarms of the store, and whether nothing clears each.
    pub(crate) alarms: Vec<(Alarm, bool)>,
}

/// What the thread shares with the others.
#[derive(Clone)]
pub(crate) struct Around {
    /// To the outside.
    pub(crate) outputs: Arc<Outputs>,
    /// For the store.
    pub(crate) changes: Arc<Mutex<IncidentChanges>>,
    /// Wakes whoever takes them.
    pub(crate) waker: Arc<Waker>,
    /// Its counts.
    pub(crate) counts: Arc<StationCounts>,
}

/// The thread, from outside.
pub(crate) struct RootCause {
    words: SyncSender<Word>,
    thread: JoinHandle<()>,
    /// Clears for which there was no room, by alarm, in the order of numbers: of alarms that the thread has heard of.
    owed: BTreeMap<u64, Change>,
    /// Raised alarms for which there was no room, and which the outside knows by themselves until they end; whether the thread never
    /// heard of them.
    passed: HashMap<u64, bool>,
    /// The same of a topology; only the latest counts.
    topology: Option<Topology>,
    outputs: Arc<Outputs>,
    counts: Arc<StationCounts>,
}

impl RootCause {
    /// Starts it, going on where the store's state ended.
    ///
    /// # Errors
    /// The state can't be read, or the thread not be started.
    pub(crate) fn start(beginning: Beginning, around: Around) -> Result<Self> {
        let Beginning { topology, state, alarms } = beginning;
        let (outputs, counts) = (Arc::clone(&around.outputs), Arc::clone(&around.counts));
        let worker = Worker::new(topology, state.as_deref(), alarms, around)?;
        let (words, receiver) = sync_channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("ringtap-cause".to_owned())
            .spawn(move || worker.run(&receiver))
            .map_err(|error| Error::os("start the thread of", "root cause", &error))?;
        Ok(Self { words, thread, owed: BTreeMap::new(), passed: HashMap::new(), topology: None, outputs, counts })
    }

    /// An alarm changed. Without room in what waits it is announced here, unless it is a clear, which an incident may wait for.
    pub(crate) fn tell(&mut self, announcement: Announcement, is_event: bool) {
        self.catch_up();
        let (id, is_cleared) = (announcement.alarm.id, announcement.alarm.cleared);
        let mut change = Change { announcement, is_event, is_told: false };
        if let Some(&is_new) = self.passed.get(&id) {
            self.pass_by(change.announcement.clone());
            if !is_cleared {
                return;
            }
            self.passed.remove(&id);
            if is_new {
                return;
            }
            // An incident may have it, from before.
            change.is_told = true;
        }
        let refused = if self.owed.is_empty() { self.send(change) } else { Some(change) };
        let Some(change) = refused else { return };
        if is_cleared {
            self.owed.entry(id).or_insert(change);
        } else {
            self.passed.insert(id, change.announcement.alarm.count == 1);
            self.pass_by(change.announcement);
        }
    }

    /// Tells the outside of an alarm by itself.
    fn pass_by(&self, announcement: Announcement) {
        self.counts.passed_by.fetch_add(1, Ordering::Relaxed);
        self.outputs.tell(announcement);
    }

    /// The topology is another.
    pub(crate) fn replace(&mut self, topology: Topology) {
        self.topology = Some(topology);
        self.catch_up();
    }

    /// Tells what there was no room for, as far as there is now.
    pub(crate) fn catch_up(&mut self) {
        while let Some((id, change)) = self.owed.pop_first() {
            if let Some(refused) = self.send(change) {
                self.owed.insert(id, refused);
                return;
            }
        }
        if let Some(topology) = self.topology.take()
            && let Err(TrySendError::Full(Word::Topology(refused))) =
                self.words.try_send(Word::Topology(Box::new(topology)))
        {
            self.topology = Some(*refused);
        }
    }

    /// Gives back what there is no room for.
    fn send(&self, change: Change) -> Option<Change> {
        match self.words.try_send(Word::Alarm(Box::new(change))) {
            Err(TrySendError::Full(Word::Alarm(refused))) => Some(*refused),
            // It ends only when the channel does.
            _ => None,
        }
    }

    /// Waits until all that was told is explained or held in the state.
    pub(crate) fn finish(self) {
        for change in self.owed.into_values() {
            let _ = self.words.send(Word::Alarm(Box::new(change)));
        }
        drop(self.words);
        let _ = self.thread.join();
    }
}

/// Time that never goes back, whatever is done to the wall clock meanwhile.
struct Clock {
    base_ns: u64,
    started_ns: u64,
}

impl Clock {
    fn now_ns(&self) -> u64 {
        self.base_ns + clock::monotonic_ns().saturating_sub(self.started_ns)
    }
}

struct Worker {
    engine: Engine,
    clock: Clock,
    around: Around,
    /// Of alarms that the engine has.
    severities: HashMap<u64, Severity>,
    /// Open incidents as the store has them, and from what they were made.
    written: HashMap<u64, (Incident, StoredIncident)>,
    /// Incidents that have grown since the store was told.
    grown: BTreeSet<u64>,
    /// Alarms that the engine does not keep, as the incident that explains them is over.
    late: HashMap<u64, StoredMember>,
    /// Something was told since the store got the state.
    unsaved: bool,
    last_flush: Instant,
}

impl Worker {
    fn new(topology: Topology, state: Option<&str>, alarms: Vec<(Alarm, bool)>, around: Around) -> Result<Self> {
        let read = |text: &str| {
            serde_json::from_str::<State>(text).map_err(|error| {
                Error::failed("go on with", "root cause", format!("its state in the store can't be read: {error}"))
                    .way_out("use the version of Ringtap that wrote it, or a new --store")
            })
        };
        let is_first = state.is_none();
        let state = state.map(read).transpose()?.unwrap_or_default();
        let now = clock::realtime_ns().max(state.now_ns());
        let clock = Clock { base_ns: now, started_ns: clock::monotonic_ns() };
        // What was raised before there was a topology stays as it was announced.
        let known_ns = if is_first { now } else { state.now_ns().saturating_sub(SLACK_NS) };
        let engine = Engine::restore(topology, Settings::default(), state);
        let (severities, written, grown, late) = (HashMap::new(), HashMap::new(), BTreeSet::new(), HashMap::new());
        let last_flush = Instant::now();
        let mut this = Self { engine, clock, around, severities, written, grown, late, unsaved: false, last_flush };
        let mut missed: Vec<(Alarm, bool)> = Vec::new();
        for (alarm, is_event) in alarms {
            match this.engine.is_cleared(alarm.id) {
                Some(_) => {
                    this.severities.insert(alarm.id, alarm.severity);
                    missed.push((alarm, is_event));
                }
                None if !alarm.cleared && alarm.changed_ns >= known_ns => missed.push((alarm, is_event)),
                None => {}
            }
        }
        missed.sort_by_key(|(alarm, _)| (alarm.changed_ns, alarm.id));
        for (alarm, is_event) in missed {
            let announcement = Announcement { alarm, notification: 0 };
            this.alarm(&Change { announcement, is_event, is_told: true });
        }
        this.rewrite();
        Ok(this)
    }

    fn run(mut self, words: &Receiver<Word>) {
        let _ = sched::set_nice(0, NICE);
        self.tell();
        loop {
            match words.recv_timeout(self.longest_wait()) {
                Ok(word) => {
                    self.take(word);
                    // Time passes by the alarms' stamps while others wait behind them.
                    words.try_iter().take(WAITING).for_each(|word| self.take(word));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now_ns = self.clock.now_ns();
            if !self.grown.is_empty() && self.engine.next_timer().is_some_and(|at| at <= now_ns) {
                // What a timer ends is known whole.
                self.write_grown(None);
            }
            self.engine.advance(now_ns);
            self.tell();
        }
        self.flush(true);
    }

    fn longest_wait(&self) -> Duration {
        let timer = self.engine.next_timer().map(|at| at.saturating_sub(self.clock.now_ns()));
        Duration::from_nanos(timer.unwrap_or(u64::MAX)).min(GATHER)
    }

    fn take(&mut self, word: Word) {
        match word {
            Word::Alarm(change) => self.alarm(&change),
            Word::Topology(topology) => {
                self.tell();
                self.engine = Engine::restore(*topology, Settings::default(), self.engine.state().clone());
                self.rewrite();
            }
        }
    }

    fn alarm(&mut self, change: &Change) {
        let &Change { ref announcement, is_event, is_told } = change;
        let alarm = &announcement.alarm;
        let at_ns = alarm.changed_ns.max(if is_event { alarm.last_ns } else { 0 }).min(self.clock.now_ns());
        let is_taken = if alarm.cleared {
            self.tell_outputs();
            if self.unsaved && self.last_flush.elapsed() >= SAVE {
                self.flush(true);
            }
            if let Some(incident) = self.engine.incident_of(alarm.id) {
                self.write_grown(Some(incident));
            }
            let is_known = self.engine.is_cleared(alarm.id) == Some(false);
            self.engine.clear(alarm.id, at_ns);
            is_known
        } else {
            let key = &alarm.key;
            let subject = Subject {
                resource: key.resource.clone(),
                condition: key.condition.clone(),
                object: key.object.clone(),
            };
            self.severities.insert(alarm.id, alarm.severity);
            let is_taken = self.engine.raise(alarm.id, &subject, is_event, at_ns);
            if !alarm.origin.is_known {
                self.engine.doubt(alarm.id);
            }
            if is_taken && self.engine.is_cleared(alarm.id).is_none() {
                let Subject { resource, condition, object } = subject;
                let it =
                    StoredMember { alarm: alarm.id, since_ns: at_ns, resource, condition, object, path: Vec::new() };
                self.late.insert(alarm.id, it);
            }
            is_taken
        };
        if !is_taken && !is_told {
            self.around.outputs.tell(announcement.clone());
        }
    }

    /// Tells what became of incidents, and gives it to the store.
    fn tell(&mut self) {
        self.tell_outputs();
        if self.unsaved || (!self.grown.is_empty() && self.last_flush.elapsed() >= GATHER) {
            self.flush(self.unsaved);
        }
        let counts = self.engine.counts();
        let store = |count: &std::sync::atomic::AtomicU64, value: u64| count.store(value, Ordering::Relaxed);
        store(&self.around.counts.incidents, counts.incidents as u64);
        store(&self.around.counts.held, counts.held as u64);
        store(&self.around.counts.transients, counts.transients);
        store(&self.around.counts.unexamined, counts.untracked);
    }

    fn tell_outputs(&mut self) {
        let outputs = self.engine.take_outputs();
        let mut closed = Vec::new();
        for output in outputs {
            match output {
                Output::Opened(it) => {
                    self.unsaved = true;
                    self.announce("opened", &it);
                }
                Output::Revised(it) => {
                    self.unsaved = true;
                    self.announce("revised", &it);
                }
                Output::Joined { incident, alarm } => match self.late.remove(&alarm) {
                    Some(it) => lock(&self.around.changes).joined.push((incident, it)),
                    None => drop(self.grown.insert(incident)),
                },
                Output::Merged { incident, into } => {
                    self.grown.insert(into);
                    closed.push((incident, None, Some(into)));
                }
                Output::Resolved(it) => closed.push((it.id, Some(it), None)),
                Output::Exhausted { episode } => {
                    let what = "reached the bound of work: alarms without a cause so far are announced for themselves";
                    notes::say(&format!("root cause of episode {episode} {what}"));
                }
                Output::Storm { episode, alarms, began: true } => {
                    self.around.counts.storms.fetch_add(1, Ordering::Relaxed);
                    notes::say(&format!("a storm of alarms begins: {alarms} in episode {episode} so far"));
                }
                Output::Storm { episode, alarms, began: false } => {
                    notes::say(&format!("the storm of alarms is over: {alarms} in episode {episode}"));
                }
            }
        }
        self.unsaved |= !closed.is_empty();
        for (id, incident, into) in closed {
            self.close(id, incident, into);
        }
    }

    fn announce(&mut self, event: &str, it: &Incident) {
        // As it is now: it may have grown, or be over, since.
        let it = self.engine.incidents().get(&it.id).unwrap_or(it);
        let row = self.row(it);
        self.around.counts.incidents_told.fetch_add(1, Ordering::Relaxed);
        self.around.outputs.tell_incident(announcement(event, &row), Severity::from_level(&row.level));
        self.written.insert(row.id, (it.clone(), row.clone()));
        lock(&self.around.changes).rows.insert(row.id, row);
    }

    fn close(&mut self, id: u64, incident: Option<Incident>, into: Option<u64>) {
        let row = match (self.written.remove(&id), incident) {
            (Some((_, row)), _) => row,
            (None, Some(incident)) => self.row(&incident),
            (None, None) => return,
        };
        let row = StoredIncident { closed_ns: Some(self.clock.now_ns()), merged_into: into, ..row };
        self.around.outputs.tell_incident(announcement("closed", &row), None);
        lock(&self.around.changes).rows.insert(id, row);
    }

    /// Gives the store incidents that have grown: one, or all.
    fn write_grown(&mut self, only: Option<u64>) {
        let ids: Vec<u64> = match only {
            Some(id) => self.grown.take(&id).into_iter().collect(),
            None => std::mem::take(&mut self.grown).into_iter().collect(),
        };
        for id in ids {
            if let Some(it) = self.engine.incidents().get(&id).cloned() {
                self.write(it);
            }
        }
    }

    fn write(&mut self, it: Incident) {
        let row = self.row(&it);
        lock(&self.around.changes).rows.insert(row.id, row.clone());
        self.written.insert(row.id, (it, row));
    }

    /// An incident as the store has it.
    fn row(&self, it: &Incident) -> StoredIncident {
        let worst = it.members.iter().filter_map(|id| self.severities.get(id)).max();
        let member = |&alarm: &u64| {
            let (subject, since_ns, path) = self.engine.why(alarm)?;
            let Subject { resource, condition, object } = subject.clone();
            Some(StoredMember { alarm, since_ns, resource, condition, object, path })
        };
        let members = it.members.iter().filter_map(member).collect();
        told::stored(it, worst.copied().unwrap_or(Severity::Indeterminate).level(), members)
    }

    /// Gives the store what changed, and where a restart goes on if something was told since.
    fn flush(&mut self, with_state: bool) {
        let changed: Vec<Incident> = (self.engine.incidents().values())
            .filter(|it| self.written.get(&it.id).is_none_or(|(before, _)| before != *it))
            .cloned()
            .collect();
        changed.into_iter().for_each(|it| self.write(it));
        self.grown.clear();
        if with_state {
            self.unsaved = false;
            lock(&self.around.changes).state = serde_json::to_string(self.engine.state()).ok();
            if self.severities.len() > 2 * self.engine.counts().alarms + 1024 {
                let known: BTreeSet<u64> = self.engine.state().alarms().collect();
                self.severities.retain(|id, _| known.contains(id));
            }
        }
        self.last_flush = Instant::now();
        self.around.waker.wake();
    }

    /// All incidents anew, as their names or ways may be others.
    fn rewrite(&mut self) {
        self.written.clear();
        let all: Vec<Incident> = self.engine.incidents().values().cloned().collect();
        all.into_iter().for_each(|it| self.write(it));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use ringtap_output::announce::LineOutputs;
    use ringtap_snmp::names::Names;

    use super::*;
    use crate::alarm::{Key, Origin, SecurityLevel, Shown};
    use crate::outputs;
    use crate::table::{AlarmTable, FlapPolicy, Report};

    fn announcement(id: u64, cleared: bool) -> Announcement {
        let mut table = AlarmTable::new(Vec::new(), FlapPolicy::default(), 10);
        let key = Key { resource: "r".to_owned(), condition: "c".to_owned(), object: id.to_string() };
        let security = SecurityLevel::NoAuthNoPriv;
        let origin = Origin { source: None, security, shown: Shown::Certificate, is_known: true };
        let (raises, severity, classification) = (Some(true), Severity::Minor, None);
        table.report(
            &key,
            Report { raises, severity, classification, origin, at_ns: 5, notification: id, in_maintenance: false },
        );
        let alarm = table.take_changed().remove(0);
        Announcement { alarm: Alarm { id, cleared, ..alarm }, notification: 10 * id + u64::from(cleared) }
    }

    #[test]
    fn a_judge_goes_on_beside_a_thread_that_stands_still_and_clears_are_told_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("told.jsonl");
        let wanted = LineOutputs { file: Some(file.clone()), ..LineOutputs::default() };
        let names = Arc::new(Names::default());
        let outputs = Arc::new(outputs::start(&wanted, false, &names, Arc::new(AtomicBool::new(false))).unwrap());
        // Nobody takes what is told.
        let (words, told) = sync_channel(2);
        let counts = Arc::new(StationCounts::default());
        let mut it = RootCause {
            words,
            thread: std::thread::spawn(|| {}),
            owed: BTreeMap::new(),
            passed: HashMap::new(),
            topology: None,
            outputs: Arc::clone(&outputs),
            counts: Arc::clone(&counts),
        };
        let passed_by = || counts.passed_by.load(Ordering::Relaxed);
        (1..=5).for_each(|id| it.tell(announcement(id, false), false));
        assert_eq!(passed_by(), 3, "those that found no room");
        // An incident may wait for the first; of the third the outside alone knows that it was raised.
        it.tell(announcement(1, true), false);
        it.tell(announcement(3, true), false);
        assert_eq!((passed_by(), it.owed.len()), (4, 1));
        let mut again = announcement(1, false);
        again.alarm.count = 2;
        it.tell(again, false);
        it.tell(announcement(1, true), false);
        assert_eq!((passed_by(), it.owed.len()), (6, 1), "raised and cleared again meanwhile");
        let take = || {
            let words: Vec<(u64, bool)> = told
                .try_iter()
                .map(|word| match word {
                    Word::Alarm(it) => (it.announcement.alarm.id, it.announcement.alarm.cleared),
                    Word::Topology(_) => (0, false),
                })
                .collect();
            words
        };
        assert_eq!(take(), [(1, false), (2, false)]);
        it.catch_up();
        assert_eq!(take(), [(1, true)]);
        // There is room again: what the outside was told of it is told the end of, also by an operator.
        it.tell(announcement(5, false), false);
        it.tell(announcement(5, true), false);
        it.tell(Announcement { notification: 0, ..announcement(4, true) }, false);
        assert_eq!((take(), it.owed.len(), it.passed.len(), passed_by()), (vec![], 0, 0, 9));
        it.finish();
        Arc::into_inner(outputs).unwrap().finish().unwrap();
        let lines = std::fs::read_to_string(&file).unwrap();
        assert_eq!(lines.lines().count(), 9, "{lines}");
    }

    #[test]
    fn a_flood_of_clears_saves_the_state_a_few_times_a_second_and_tells_each_end() {
        const COUNT: u64 = 1000;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("told.jsonl");
        let wanted = LineOutputs { file: Some(file.clone()), ..LineOutputs::default() };
        let reopen = Arc::new(AtomicBool::new(false));
        let outputs = Arc::new(outputs::start(&wanted, false, &Arc::new(Names::default()), reopen).unwrap());
        let around = Around {
            outputs: Arc::clone(&outputs),
            changes: Arc::default(),
            waker: Arc::default(),
            counts: Arc::default(),
        };
        let changes = Arc::clone(&around.changes);
        let topology = ringtap_rootcause::topology::file::read("node = [{ name = 'a' }]").unwrap();
        let mut worker = Worker::new(topology, None, Vec::new(), around).unwrap();
        let start_ns = clock::realtime_ns() - 60_000_000_000;
        let change = |worker: &mut Worker, id: u64, cleared: bool, after_s: u64| {
            let mut it = announcement(id, cleared);
            it.alarm.key.resource = format!("node-{id}");
            it.alarm.changed_ns = start_ns + after_s * 1_000_000_000;
            worker.alarm(&Change { announcement: it, is_event: false, is_told: false });
        };
        (1..=COUNT).for_each(|id| change(&mut worker, id, false, 0));
        worker.engine.advance(start_ns + 10_000_000_000);
        worker.tell();
        assert_eq!((worker.engine.counts().incidents, worker.unsaved), (COUNT as usize, false));
        let (mut saved, since) = (0, Instant::now());
        for id in 1..=COUNT {
            change(&mut worker, id, true, 20);
            saved += u128::from(lock(&changes).state.take().is_some());
        }
        assert!(saved <= 1 + since.elapsed().as_millis() / SAVE.as_millis(), "saved {saved} times");
        worker.tell();
        assert!(lock(&changes).state.is_some() && !worker.unsaved);
        assert!(lock(&changes).rows.values().all(|row| row.closed_ns.is_some() && row.members.len() == 1));
        drop(worker);
        Arc::into_inner(outputs).unwrap().finish().unwrap();
        let told = std::fs::read_to_string(&file).unwrap();
        let of = |event: &str| told.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count();
        assert_eq!((of("opened"), of("closed")), (COUNT as usize, COUNT as usize));
    }
}

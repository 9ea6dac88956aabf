//! From spools to the disk: one thread decodes and judges, one writes.
//!
//! Owns the judging thread, and the two jobs that go round: while one is written, the other fills. When both are full, the spool
//! holds what comes, and beyond that the loss is counted where packets arrive. Answers leave after their job is durable.

mod writer;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap::clock;
use ringtap::{Error, Result};
use ringtap_rootcause::Topology;

use crate::counts::StationCounts;
use crate::judge::Judge;
use crate::outputs::Outputs;
use crate::receive::sockets::answer;
use crate::rootcause::{Around, Beginning, RootCause};
use crate::spool::SpoolConsumer;
use crate::store::{IncidentChanges, Job, Retention, Store};
use crate::waker::Waker;
use writer::Writer;

/// A job of this size waits for the disk.
const JOB_BYTES: usize = 32 << 20;
/// Without an inform that waits for its answer, a job goes to the writer this long after the one before, or when it has so many bytes: a
/// commit costs a sync, and an alarm is written once per commit however many notifications it got.
const GATHER: Duration = Duration::from_millis(100);
const GATHER_BYTES: usize = 4 << 20;
/// Longest sleep of the station: alarms stop flapping by time.
const TICK: Duration = Duration::from_millis(200);

/// What both threads and the main thread share.
#[derive(Default)]
struct Shared {
    /// The latest status, for the store.
    status: Mutex<Option<String>>,
    /// Alarms to clear, and by whom.
    requests: Mutex<Vec<(u64, String)>>,
    /// Incidents that changed, for the store.
    incidents: Arc<Mutex<IncidentChanges>>,
    /// The topology to use from now on.
    topology: Mutex<Option<Topology>>,
    /// What is wrong with the store.
    error: Arc<Mutex<Option<String>>>,
    /// The receiving side has ended, or soon will.
    ending: AtomicBool,
}

/// What the two threads work with.
pub(crate) struct Parts {
    /// Decoder, rules and alarms.
    pub(crate) judge: Judge,
    /// Where it all goes.
    pub(crate) store: Store,
    /// The spools' ends.
    pub(crate) consumers: Vec<SpoolConsumer>,
    /// By which answers leave.
    pub(crate) sockets: Vec<UdpSocket>,
    /// To the outside.
    pub(crate) outputs: Outputs,
    /// The network, where there is one whose root causes are to be found.
    pub(crate) topology: Option<Topology>,
    /// Wakes the judging thread.
    pub(crate) waker: Arc<Waker>,
    /// What the store keeps.
    pub(crate) retention: Retention,
}

/// The two threads.
pub(crate) struct Pipeline {
    shared: Arc<Shared>,
    counts: Arc<StationCounts>,
    not_told: Arc<AtomicU64>,
    station: JoinHandle<Arc<Outputs>>,
    store: JoinHandle<Result<()>>,
}

impl Pipeline {
    /// Starts both.
    pub(crate) fn start(parts: Parts) -> Result<Self> {
        let Parts { judge, store, consumers, sockets, outputs, topology, waker, retention } = parts;
        let shared = Arc::new(Shared::default());
        let counts = judge.counts();
        let not_told = outputs.not_told();
        let outputs = Arc::new(outputs);
        let beginning = |topology| {
            let alarms = judge.alarms().map(|(alarm, is_event)| (alarm.clone(), is_event)).collect();
            store.cause_state().map(|state| Beginning { topology, state, alarms })
        };
        let beginning = topology.map(beginning).transpose()?;
        let around = Around {
            outputs: Arc::clone(&outputs),
            changes: Arc::clone(&shared.incidents),
            waker: Arc::clone(&waker),
            counts: Arc::clone(&counts),
        };
        let root_cause = beginning.map(|beginning| RootCause::start(beginning, around)).transpose()?;
        let (jobs, incoming) = mpsc::sync_channel(1);
        let (give_back, empties) = mpsc::sync_channel(2);
        let _ = give_back.try_send(Job::default());
        let share = |socket: &UdpSocket| socket.try_clone().map_err(|e| Error::os("share", "a socket", &e));
        let station_sockets = sockets.iter().map(share).collect::<Result<Vec<_>>>()?;
        let failed = |error: std::io::Error| Error::os("start the threads of", "the station", &error);
        let writer = Writer {
            store,
            incoming,
            give_back,
            sockets,
            waker: Arc::clone(&waker),
            shared: Arc::clone(&shared),
            counts: Arc::clone(&counts),
            retention,
        };
        let store =
            std::thread::Builder::new().name("ringtap-store".to_owned()).spawn(move || writer.run()).map_err(failed)?;
        let decoder = Decoder {
            judge,
            consumers,
            jobs,
            empties,
            sockets: station_sockets,
            outputs,
            root_cause,
            waker,
            shared: Arc::clone(&shared),
            counts: Arc::clone(&counts),
            last_handed: Instant::now(),
        };
        let station = std::thread::Builder::new()
            .name("ringtap-station".to_owned())
            .spawn(move || decoder.run())
            .map_err(failed)?;
        Ok(Self { shared, counts, not_told, station, store })
    }

    pub(crate) fn counts(&self) -> Arc<StationCounts> {
        Arc::clone(&self.counts)
    }

    /// What is wrong with the store, while it is.
    pub(crate) fn error(&self) -> Arc<Mutex<Option<String>>> {
        Arc::clone(&self.shared.error)
    }

    /// Announcements that an output could not take.
    pub(crate) fn not_told(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.not_told)
    }

    /// Leaves the status for the store.
    pub(crate) fn publish(&self, status: String) {
        *lock(&self.shared.status) = Some(status);
    }

    /// Has root causes found in another topology from now on.
    pub(crate) fn replace_topology(&self, topology: Topology) {
        *lock(&self.shared.topology) = Some(topology);
    }

    /// Whether a thread ended that should not have.
    pub(crate) fn has_ended(&self) -> bool {
        self.station.is_finished() || self.store.is_finished()
    }

    /// Waits until all that was received is stored. The receiving side must have ended.
    pub(crate) fn finish(self) -> Result<()> {
        self.shared.ending.store(true, Ordering::Relaxed);
        let panicked = || Error::failed("run", "the station", "a thread panicked").way_out("report this as a bug");
        let outputs = self.station.join().map_err(|_| panicked());
        let stored = self.store.join().map_err(|_| panicked())?;
        let told = Arc::into_inner(outputs?).map_or(Ok(()), Outputs::finish);
        stored.and(told)
    }
}

struct Decoder {
    judge: Judge,
    consumers: Vec<SpoolConsumer>,
    jobs: SyncSender<Job>,
    empties: Receiver<Job>,
    sockets: Vec<UdpSocket>,
    outputs: Arc<Outputs>,
    /// With a topology: it announces what the judge would.
    root_cause: Option<RootCause>,
    waker: Arc<Waker>,
    shared: Arc<Shared>,
    counts: Arc<StationCounts>,
    last_handed: Instant,
}

impl Decoder {
    fn run(mut self) -> Arc<Outputs> {
        let mut job = Job::default();
        let mut last_tick = Instant::now();
        loop {
            let mut found = false;
            // A full job waits for the disk, and the spools for it.
            if job.size() < JOB_BYTES {
                for index in 0..self.consumers.len() {
                    found |= self.batch(index, &mut job);
                }
            }
            if last_tick.elapsed() >= TICK {
                last_tick = Instant::now();
                self.tick();
            }
            for announcement in self.judge.take_announcements() {
                match &mut self.root_cause {
                    Some(root_cause) => {
                        let is_event = self.judge.is_event(&announcement.alarm.key.condition);
                        root_cause.tell(announcement, is_event);
                    }
                    None => self.outputs.tell(announcement),
                }
            }
            let handed = self.hand_over(&mut job);
            if found || handed {
                continue;
            }
            if self.shared.ending.load(Ordering::Relaxed)
                && self.consumers.iter().all(SpoolConsumer::is_finished)
                && job.is_empty()
                && !self.judge.has_changes()
                && lock(&self.shared.incidents).is_empty()
            {
                if let Some(root_cause) = self.root_cause.take() {
                    // What it still has to say goes into one more job.
                    root_cause.finish();
                    continue;
                }
                // Dropping `jobs` ends the writer.
                return self.outputs;
            }
            let (consumers, full) = (&self.consumers, job.size() >= JOB_BYTES);
            let limit = if self.shared.ending.load(Ordering::Relaxed) { Duration::from_millis(5) } else { TICK };
            // When the writer comes back meanwhile, its ring is seen or the limit is soon over.
            let has_some = !job.is_empty() || !lock(&self.shared.incidents).is_empty();
            let limit = if has_some { limit.min(Duration::from_millis(20)) } else { limit };
            self.waker.sleep(limit, || full || consumers.iter().all(SpoolConsumer::is_empty));
        }
    }

    /// What comes by time alone: requests of operators, the end of flapping, clocks that were set.
    fn tick(&mut self) {
        for (alarm, operator) in std::mem::take(&mut *lock(&self.shared.requests)) {
            self.judge.clear(alarm, &operator, clock::realtime_ns());
        }
        if let Some(root_cause) = &mut self.root_cause {
            root_cause.catch_up();
            if let Some(topology) = lock(&self.shared.topology).take() {
                root_cause.replace(topology);
            }
        }
        if let Some(by_ns) = self.judge.tick(clock::realtime_ns(), clock::monotonic_ns()) {
            eprintln!("ringtap: the clock was set by {} ms", by_ns / 1_000_000);
        }
    }

    fn batch(&mut self, index: usize, job: &mut Job) -> bool {
        let Some(batch) = self.consumers[index].take() else { return false };
        let now_ns = clock::monotonic_ns();
        let rows = job.rows.len();
        // Where they lie, until the job is on the disk; with a slow disk they are copied, so that the spool stays free for what comes.
        let part = batch.keep().map(|kept| job.keep(kept));
        for (head, range) in batch.iter() {
            let datagram = &batch.bytes()[range.clone()];
            let kept = part.map(|part| part.place(range));
            if let Some(report) = self.judge.datagram(head, datagram, kept, now_ns, job) {
                answer(&self.sockets, &report, &self.counts.answered);
            }
        }
        if let Some(part) = part.filter(|_| job.rows.len() == rows) {
            job.give_back(part);
        }
        // Taken after the batch: each latency is at most this, never more flattering.
        let done_ns = clock::realtime_ns();
        for (head, _) in batch.iter() {
            self.counts.to_alarm.record(done_ns.saturating_sub(head.at_ns));
        }
        true
    }

    /// Gives the job to the writer when that has nothing to do.
    fn hand_over(&mut self, job: &mut Job) -> bool {
        if job.is_empty() && !self.judge.has_changes() && lock(&self.shared.incidents).is_empty() {
            return false;
        }
        let is_gathering = job.answers.is_empty()
            && job.size() < GATHER_BYTES
            && self.last_handed.elapsed() < GATHER
            && !self.shared.ending.load(Ordering::Relaxed);
        if is_gathering {
            return false;
        }
        let Ok(empty) = self.empties.try_recv() else { return false };
        self.judge.complete(job);
        job.incidents = std::mem::take(&mut *lock(&self.shared.incidents));
        self.last_handed = Instant::now();
        let full = std::mem::replace(job, empty);
        self.jobs.send(full).is_ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! From spools to the disk: one thread decodes and judges, one writes.
//!
//! Owns the two jobs that go round between them: while one is written, the other fills. When both are full, the spool
//! holds what comes, and beyond that the loss is counted where packets arrive. Answers leave after their job is durable.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap::sys::{clock, sched};
use ringtap::{Error, Result};
use ringtap_trap::spool::{Bell, SpoolConsumer};
use ringtap_trap::station::{Station, StationCounts};
use ringtap_trap::store::{Job, Now, Retention, Store};

use super::outputs::Outputs;
use super::sockets::answer;

/// A job of this size waits for the disk.
const JOB_BYTES: usize = 32 << 20;
/// Without an inform that waits for its answer, a job goes to the writer this long after the one before, or when it has so many bytes: a
/// commit costs a sync, and an alarm is written once per commit however many notifications it got.
const GATHER: Duration = Duration::from_millis(100);
const GATHER_BYTES: usize = 4 << 20;
/// Of the writing thread.
const NICE: i32 = 10;
/// How long a failed write waits before it is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How often the store's other work is done: requests, status, retention.
const CHORES: Duration = Duration::from_millis(500);
/// How long the end waits for a disk that takes nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest sleep of the station: alarms stop flapping by time.
const TICK: Duration = Duration::from_millis(200);

/// What both threads and the main thread share.
#[derive(Default)]
struct Shared {
    /// The latest status, for the store.
    status: Mutex<Option<String>>,
    /// Alarms to clear, and by whom.
    requests: Mutex<Vec<(u64, String)>>,
    /// What is wrong with the store.
    error: Arc<Mutex<Option<String>>>,
    /// The receiving side has ended, or soon will.
    ending: AtomicBool,
}

/// The two threads.
pub(super) struct Pipeline {
    shared: Arc<Shared>,
    counts: Arc<StationCounts>,
    not_told: Arc<AtomicU64>,
    station: JoinHandle<Outputs>,
    store: JoinHandle<Result<()>>,
}

impl Pipeline {
    /// Starts both.
    pub(super) fn start(
        station: Station,
        store: Store,
        consumers: Vec<SpoolConsumer>,
        sockets: Vec<UdpSocket>,
        outputs: Outputs,
        bell: Arc<Bell>,
        retention: Retention,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let counts = station.counts();
        let not_told = outputs.not_told();
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
            bell: Arc::clone(&bell),
            shared: Arc::clone(&shared),
            counts: Arc::clone(&counts),
            retention,
        };
        let store =
            std::thread::Builder::new().name("ringtap-store".to_owned()).spawn(move || writer.run()).map_err(failed)?;
        let decoder = Decoder {
            station,
            consumers,
            jobs,
            empties,
            sockets: station_sockets,
            outputs,
            bell,
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

    pub(super) fn counts(&self) -> Arc<StationCounts> {
        Arc::clone(&self.counts)
    }

    /// What is wrong with the store, while it is.
    pub(super) fn error(&self) -> Arc<Mutex<Option<String>>> {
        Arc::clone(&self.shared.error)
    }

    /// Announcements that an output could not take.
    pub(super) fn not_told(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.not_told)
    }

    /// Leaves the status for the store.
    pub(super) fn publish(&self, status: String) {
        *lock(&self.shared.status) = Some(status);
    }

    /// Whether a thread ended that should not have.
    pub(super) fn has_ended(&self) -> bool {
        self.station.is_finished() || self.store.is_finished()
    }

    /// Waits until all that was received is stored. The receiving side must have ended.
    pub(super) fn finish(self) -> Result<()> {
        self.shared.ending.store(true, Ordering::Relaxed);
        let panicked = || Error::failed("run", "the station", "a thread panicked").way_out("report this as a bug");
        let outputs = self.station.join().map_err(|_| panicked());
        let stored = self.store.join().map_err(|_| panicked())?;
        outputs?.finish();
        stored
    }
}

struct Decoder {
    station: Station,
    consumers: Vec<SpoolConsumer>,
    jobs: SyncSender<Job>,
    empties: Receiver<Job>,
    sockets: Vec<UdpSocket>,
    outputs: Outputs,
    bell: Arc<Bell>,
    shared: Arc<Shared>,
    counts: Arc<StationCounts>,
    last_handed: Instant,
}

impl Decoder {
    fn run(mut self) -> Outputs {
        let mut job = Job::default();
        let mut last_tick = Instant::now();
        loop {
            let mut found = false;
            // A full job waits for the disk, and the spools for it.
            if job.bytes.len() < JOB_BYTES {
                for index in 0..self.consumers.len() {
                    found |= self.batch(index, &mut job);
                }
            }
            if last_tick.elapsed() >= TICK {
                last_tick = Instant::now();
                for (alarm, operator) in std::mem::take(&mut *lock(&self.shared.requests)) {
                    self.station.clear(alarm, &operator, clock::realtime_ns());
                }
                if let Some(by_ns) = self.station.tick(clock::realtime_ns(), clock::monotonic_ns()) {
                    eprintln!("ringtap: the clock was set by {} ms", by_ns / 1_000_000);
                }
            }
            for announcement in self.station.take_announcements() {
                self.outputs.tell(announcement);
            }
            let handed = self.hand_over(&mut job);
            if found || handed {
                continue;
            }
            if self.shared.ending.load(Ordering::Relaxed)
                && self.consumers.iter().all(SpoolConsumer::is_finished)
                && job.is_empty()
                && !self.station.has_changes()
            {
                // Dropping `jobs` ends the writer.
                return self.outputs;
            }
            let (consumers, full) = (&self.consumers, job.bytes.len() >= JOB_BYTES);
            let limit = if self.shared.ending.load(Ordering::Relaxed) { Duration::from_millis(5) } else { TICK };
            // When the writer comes back meanwhile, its ring is seen or the limit is soon over.
            let limit = if job.is_empty() { limit } else { limit.min(Duration::from_millis(20)) };
            self.bell.sleep(limit, || full || consumers.iter().all(SpoolConsumer::is_empty));
        }
    }

    fn batch(&mut self, index: usize, job: &mut Job) -> bool {
        let Some(batch) = self.consumers[index].take() else { return false };
        let now_ns = clock::monotonic_ns();
        for (head, datagram) in batch.iter() {
            if let Some(report) = self.station.datagram(head, datagram, now_ns, job) {
                answer(&self.sockets, &report, &self.counts.answered);
            }
        }
        // Taken after the batch: each latency is at most this, never more flattering.
        let done_ns = clock::realtime_ns();
        for (head, _) in batch.iter() {
            self.counts.to_alarm.record(done_ns.saturating_sub(head.at_ns));
        }
        self.consumers[index].give_back(batch);
        true
    }

    /// Gives the job to the writer when that has nothing to do.
    fn hand_over(&mut self, job: &mut Job) -> bool {
        if job.is_empty() && !self.station.has_changes() {
            return false;
        }
        let is_gathering = job.answers.is_empty()
            && job.bytes.len() < GATHER_BYTES
            && self.last_handed.elapsed() < GATHER
            && !self.shared.ending.load(Ordering::Relaxed);
        if is_gathering {
            return false;
        }
        let Ok(empty) = self.empties.try_recv() else { return false };
        self.station.complete(job);
        self.last_handed = Instant::now();
        let full = std::mem::replace(job, empty);
        self.jobs.send(full).is_ok()
    }
}

struct Writer {
    store: Store,
    incoming: Receiver<Job>,
    give_back: SyncSender<Job>,
    sockets: Vec<UdpSocket>,
    bell: Arc<Bell>,
    shared: Arc<Shared>,
    counts: Arc<StationCounts>,
    retention: Retention,
}

impl Writer {
    fn run(mut self) -> Result<()> {
        // On a core of one's own judging goes before writing: what waits to be written is only more in one commit. Raising
        // one's nice value is always permitted.
        let _ = sched::set_nice(0, NICE);
        let mut last_chores = Instant::now();
        let mut outcome = Ok(());
        loop {
            match self.incoming.recv_timeout(CHORES) {
                Ok(mut job) => {
                    if let Err(error) = self.write(&job) {
                        self.counts.not_stored.fetch_add(job.rows.len() as u64, Ordering::Relaxed);
                        outcome = Err(error);
                    }
                    job.clear();
                    let _ = self.give_back.send(job);
                    self.bell.ring();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if last_chores.elapsed() >= CHORES {
                last_chores = Instant::now();
                if let Err(error) = self.chores() {
                    *lock(&self.shared.error) = Some(error.to_string());
                }
            }
        }
        let _ = self.chores();
        outcome
    }

    /// Writes until it succeeds; gives up only at the end, when the disk takes nothing for a while.
    fn write(&mut self, job: &Job) -> Result<()> {
        let mut ending = None;
        loop {
            match self.store.write(job) {
                Ok(()) => {
                    *lock(&self.shared.error) = None;
                    self.counts.stored.fetch_add(job.rows.len() as u64, Ordering::Relaxed);
                    for reply in &job.answers {
                        answer(&self.sockets, reply, &self.counts.answered);
                    }
                    if let Some(oldest) = job.rows.first() {
                        self.counts.to_disk.record(clock::realtime_ns().saturating_sub(oldest.at_ns));
                    }
                    return Ok(());
                }
                Err(error) => {
                    let text = error.to_string();
                    if lock(&self.shared.error).replace(text.clone()).as_ref() != Some(&text) {
                        eprintln!("ringtap: {text}; trying again");
                    }
                    if self.shared.ending.load(Ordering::Relaxed)
                        && ending.get_or_insert_with(Instant::now).elapsed() > PATIENCE
                    {
                        return Err(error);
                    }
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    fn chores(&mut self) -> Result<()> {
        let requests = self.store.take_requests()?;
        if !requests.is_empty() {
            lock(&self.shared.requests).extend(requests);
            self.bell.ring();
        }
        if let Some(status) = lock(&self.shared.status).take() {
            self.store.set_meta("status", &status)?;
        }
        let now = Now { wall_ns: clock::realtime_ns(), monotonic_ns: clock::monotonic_ns() };
        self.store.prune(self.retention, now)?;
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
use ringtap_snmp::names::Names;
use serde_json::Value as Json;

use crate::act::Request;
use crate::alarm::Alarm;
use crate::config::{AlertmanagerParts, Receivers};
use crate::counts::StationCounts;
use crate::forward::{self, ForwardCounters, Forwarding};
use crate::judge::Judge;
use crate::maintenance::Window;
use crate::outputs::Outputs;
use crate::posts::{Alertmanager, PostCounts, Posting, Webhook};
use crate::receive::sockets::answer;
use crate::render;
use crate::rootcause::{self, Around, Beginning, RootCause};
use crate::spool::SpoolConsumer;
use crate::store::{IncidentChanges, Job, Retention, Store};
use crate::terms::Terms;
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
    /// What operators ask for, with the store's numbers of it.
    requests: Mutex<Vec<(Option<u64>, Request)>>,
    /// The windows of maintenance to use from now on.
    windows: Mutex<Option<Vec<Window>>>,
    /// Incidents that changed, for the store.
    incidents: Arc<Mutex<IncidentChanges>>,
    /// The topology to use from now on.
    topology: Mutex<Option<Topology>>,
    /// What to judge by from now on.
    terms: Mutex<Option<Terms>>,
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
    /// Who gets what is announced by HTTP.
    pub(crate) receivers: Receivers,
    /// Who gets notifications as they came.
    pub(crate) forward: forward::Opened,
    /// For what receivers get of alarms that are raised already.
    pub(crate) names: Arc<Names>,
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
    posts: Vec<Posting>,
    forwarding: Option<Forwarding>,
    station: JoinHandle<Arc<Outputs>>,
    store: JoinHandle<Result<()>>,
}

impl Pipeline {
    /// Starts both.
    pub(crate) fn start(parts: Parts) -> Result<Self> {
        let Parts {
            mut judge,
            store,
            consumers,
            sockets,
            outputs,
            receivers,
            names,
            topology,
            waker,
            retention,
            forward,
        } = parts;
        let windows = store.windows(Some(clock::realtime_ns()))?;
        judge.replace_windows(windows.clone());
        topology.iter().for_each(|topology| judge.replace_nodes(topology));
        let (forwarding, forwarder) = forward.start()?.unzip();
        judge.forward_by(forwarder);
        let shared = Arc::new(Shared::default());
        let counts = judge.counts();
        let not_told = outputs.not_told();
        let outputs = Arc::new(outputs);
        let beginning = |topology| {
            // What is kept back in maintenance is no news yet.
            let is_news = |(alarm, _): &(&Alarm, bool)| !alarm.maintenance || alarm.is_told;
            let alarms = judge.alarms().filter(is_news).map(|(alarm, is_event)| (alarm.clone(), is_event)).collect();
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
        let posts = start_posts(receivers, &store, &judge, &names, root_cause.is_some())?;
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
            requested: 0,
            windows,
            windows_are_told: false,
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
        Ok(Self { shared, counts, not_told, posts, forwarding, station, store })
    }

    /// What is counted of each receiver of POSTs, by its name.
    pub(crate) fn posts(&self) -> Vec<(&'static str, Arc<PostCounts>)> {
        self.posts.iter().map(Posting::counts).collect()
    }

    /// What is counted of each manager that gets notifications, and what found no room in front of all.
    pub(crate) fn forwards(&self) -> Option<ForwardCounters> {
        self.forwarding.as_ref().map(Forwarding::counts)
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

    /// Has it judged by other terms from now on.
    pub(crate) fn replace_terms(&self, terms: Terms) {
        *lock(&self.shared.terms) = Some(terms);
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
        // With the judging thread its end of the queue has gone.
        let forwarded = self.forwarding.map_or(Ok(()), Forwarding::finish);
        // Now all that was announced is in the store.
        let posted = self.posts.into_iter().try_for_each(Posting::finish);
        let told = Arc::into_inner(outputs?).map_or(Ok(()), Outputs::finish);
        stored.and(told).and(posted).and(forwarded)
    }
}

/// Starts a thread for each receiver. An Alertmanager is told first what is raised: with a topology incidents, else alarms.
fn start_posts(
    receivers: Receivers,
    store: &Store,
    judge: &Judge,
    names: &Names,
    has_incidents: bool,
) -> Result<Vec<Posting>> {
    store.set_receivers(&receivers.names())?;
    let mut posts = Vec::new();
    if let Some(http) = receivers.webhook {
        posts.push(Posting::start(Store::open_beside(store.directory())?, Webhook(http))?);
    }
    if let Some(AlertmanagerParts { http, labels, resend }) = receivers.alertmanager {
        let raised: Vec<Json> = if has_incidents {
            let open = store.incidents()?.into_iter().filter(|it| it.closed_ns.is_none());
            open.map(|it| rootcause::announcement("opened", &it)).collect()
        } else {
            let is_told = |alarm: &&Alarm| !alarm.cleared && (!alarm.maintenance || alarm.is_told);
            let raised = judge.alarms().map(|(alarm, _)| alarm).filter(is_told);
            raised.map(|alarm| render::alarm(alarm, names)).collect()
        };
        let alertmanager = Alertmanager::new(http, labels, resend, raised.into_iter());
        posts.push(Posting::start(Store::open_beside(store.directory())?, alertmanager)?);
    }
    Ok(posts)
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
                && !self.outputs.has_posts()
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
            let has_some = !job.is_empty() || !lock(&self.shared.incidents).is_empty() || self.outputs.has_posts();
            let limit = if has_some { limit.min(Duration::from_millis(20)) } else { limit };
            self.waker.sleep(limit, || full || consumers.iter().all(SpoolConsumer::is_empty));
        }
    }

    /// What comes by time alone: requests of operators, the end of flapping, clocks that were set.
    fn tick(&mut self) {
        let requests = std::mem::take(&mut *lock(&self.shared.requests));
        if !requests.is_empty() {
            self.judge.operate(requests, clock::realtime_ns());
        }
        if let Some(windows) = lock(&self.shared.windows).take() {
            self.judge.replace_windows(windows);
        }
        if let Some(terms) = lock(&self.shared.terms).take() {
            self.judge.replace(terms);
        }
        if let Some(root_cause) = &mut self.root_cause {
            root_cause.catch_up();
            if let Some(topology) = lock(&self.shared.topology).take() {
                self.judge.replace_nodes(&topology);
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
        self.judge.wake_forwarder();
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
        let has_others = self.judge.has_changes() || self.outputs.has_posts();
        if job.is_empty() && !has_others && lock(&self.shared.incidents).is_empty() {
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
        job.told = self.outputs.take_posts();
        self.last_handed = Instant::now();
        let full = std::mem::replace(job, empty);
        self.jobs.send(full).is_ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

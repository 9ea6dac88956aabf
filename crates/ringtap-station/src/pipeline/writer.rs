//! The writing thread: jobs to the disk, then their answers, and the store's chores in between.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use ringtap::Result;
use ringtap::{clock, sched};

use super::{Shared, lock};
use crate::counts::StationCounts;
use crate::maintenance::Window;
use crate::receive::sockets::answer;
use crate::store::{Job, Now, Retention, Store};
use crate::waker::Waker;

/// Of the writing thread.
const NICE: i32 = 10;
/// How long a failed write waits before it is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How often the store's other work is done: requests, status, retention.
const CHORES: Duration = Duration::from_millis(500);
/// How often closed incidents are looked through for those that may go.
const INCIDENTS: Duration = Duration::from_secs(60);
/// How long the end waits for a disk that takes nothing.
const PATIENCE: Duration = Duration::from_secs(5);

/// The writing thread.
pub(super) struct Writer {
    pub(super) store: Store,
    pub(super) incoming: Receiver<Job>,
    pub(super) give_back: SyncSender<Job>,
    pub(super) sockets: Vec<UdpSocket>,
    pub(super) waker: Arc<Waker>,
    pub(super) shared: Arc<Shared>,
    pub(super) counts: Arc<StationCounts>,
    pub(super) retention: Retention,
    /// The latest request that was handed on; it is in the store until it is done.
    pub(super) requested: u64,
    /// The windows of maintenance that were handed on, and whether whoever made them was told that they are in use.
    pub(super) windows: Vec<Window>,
    pub(super) windows_are_told: bool,
}

impl Writer {
    /// Until there are no more jobs.
    pub(super) fn run(mut self) -> Result<()> {
        // On a core of one's own judging goes before writing: what waits to be written is only more in one commit. Raising
        // one's nice value is always permitted.
        let _ = sched::set_nice(0, NICE);
        let mut last_chores = Instant::now();
        let mut last_incidents = Instant::now();
        self.store.limit(self.retention);
        let mut did_fail = false;
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
                    self.waker.wake();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if last_chores.elapsed() >= CHORES {
                last_chores = Instant::now();
                let mut done = self.chores();
                if done.is_err() && self.store.make_room(self.retention, now()).unwrap_or(false) {
                    done = self.chores();
                }
                if self.retention.age.is_some() && last_incidents.elapsed() >= INCIDENTS {
                    last_incidents = Instant::now();
                    done = done.and_then(|()| self.store.prune_incidents());
                }
                // What they have failed in is over once they succeed; a write's failure is its own to take back.
                if did_fail || done.is_err() {
                    did_fail = done.is_err();
                    *lock(&self.shared.error) = done.err().map(|error| error.to_string());
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
                    // What it keeps too long or too much of may be all that the disk lacks.
                    if self.store.make_room(self.retention, now()).unwrap_or(false) {
                        continue;
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
        let requests = self.store.requests(self.requested)?;
        if let Some((last, _)) = requests.last() {
            self.requested = *last;
            lock(&self.shared.requests).extend(requests.into_iter().map(|(number, request)| (Some(number), request)));
            self.waker.wake();
        }
        self.look_at_windows()?;
        if let Some(status) = lock(&self.shared.status).take() {
            self.store.set_meta("status", &status)?;
        }
        self.store.prune(self.retention, now())?;
        if self.retention != Retention::default() {
            self.store.keep_reserve();
        }
        Ok(())
    }
}

impl Writer {
    /// Hands on windows of maintenance that operators have made or ended, and tells these when they are in use.
    fn look_at_windows(&mut self) -> Result<()> {
        let windows = self.store.windows(Some(clock::realtime_ns()))?;
        if windows != self.windows {
            self.windows.clone_from(&windows);
            self.windows_are_told = false;
            *lock(&self.shared.windows) = Some(windows);
            self.waker.wake();
        } else if !self.windows_are_told && lock(&self.shared.windows).is_none() {
            self.store.set_windows_in_use(&windows)?;
            self.windows_are_told = true;
        }
        Ok(())
    }
}

fn now() -> Now {
    Now { wall_ns: clock::realtime_ns(), monotonic_ns: clock::monotonic_ns() }
}

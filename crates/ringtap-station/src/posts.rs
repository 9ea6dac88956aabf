//! What is announced, posted: from the store to a receiver, in order, again until it is taken, and after a restart from where it was.
//!
//! Owns a thread for each receiver: its tries, pauses and cursor. What a POST says is the [`Receiver`]'s: `webhook`'s or `alertmanager`'s.
//! It only reads what the writing thread has stored, so a receiver that is slow or gone holds up nothing.

mod alertmanager;
mod webhook;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap::{Error, Result};
use ringtap_output::http::Posted;
use ringtap_run::notes;

pub(crate) use alertmanager::Alertmanager;
pub(crate) use webhook::Webhook;

use crate::store::Store;

/// Announcements in one POST.
const BATCH: usize = 500;
/// Pauses between tries: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often the store is looked at when there is nothing to post.
const LOOK: Duration = Duration::from_millis(200);
/// How old the cursor in the store may be.
const SAVE: Duration = Duration::from_secs(1);
/// How long the end may take while there is something to post and it is taken.
const LAST: Duration = Duration::from_secs(5);
/// From so many on it is said that a receiver is behind, and below a tenth of it that it has caught up.
const BEHIND: u64 = 10_000;

/// Who takes POSTs.
pub(crate) trait Receiver: Send + 'static {
    /// Its name in the store and in accounts.
    fn name(&self) -> &'static str;

    /// Where it is, for messages.
    fn place(&self) -> String;

    /// Posts announcements, each with its number.
    fn post(&mut self, batch: &[(u64, String)]) -> Posted;

    /// Does what is due without an announcement, if anything is; called whenever there is none.
    fn rest(&mut self) -> Option<Posted>;
}

/// What became of announcements.
#[derive(Debug, Default)]
pub(crate) struct PostCounts {
    /// Taken.
    pub(crate) posted: AtomicU64,
    /// Refused for good.
    pub(crate) refused: AtomicU64,
    /// Gone from the store before they were taken, as too many waited.
    pub(crate) lost: AtomicU64,
    /// Those that wait in the store.
    pub(crate) waiting: AtomicU64,
}

/// A thread that posts.
pub(crate) struct Posting {
    name: &'static str,
    counts: Arc<PostCounts>,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Posting {
    /// Starts it; `store` is open beside the one that writes.
    ///
    /// # Errors
    /// The store can't be read, or the thread not be started.
    pub(crate) fn start(store: Store, receiver: impl Receiver) -> Result<Self> {
        let name = receiver.name();
        let (counts, ending) = (Arc::<PostCounts>::default(), Arc::<AtomicBool>::default());
        let sent = store.cursor(name)?;
        let worker = Worker {
            store: store.relaxed()?,
            receiver,
            counts: Arc::clone(&counts),
            ending: Arc::clone(&ending),
            sent,
            saved: sent,
            last_save: Instant::now(),
            pause: FIRST_PAUSE,
            is_failing: false,
            is_behind: false,
            is_store_failing: false,
            singly: 0,
        };
        let thread = std::thread::Builder::new()
            .name("ringtap-post".to_owned())
            .spawn(move || worker.run())
            .map_err(|error| Error::os("start the thread of", name, &error))?;
        Ok(Self { name, counts, ending, thread })
    }

    /// What it counts, by its name.
    pub(crate) fn counts(&self) -> (&'static str, Arc<PostCounts>) {
        (self.name, Arc::clone(&self.counts))
    }

    /// Waits until all in the store is posted, or a little. What is not stays there. The writing thread must have ended.
    ///
    /// # Errors
    /// The thread panicked.
    pub(crate) fn finish(self) -> Result<()> {
        self.ending.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread
            .join()
            .map_err(|_| Error::failed("end", self.name, "its thread panicked").way_out("report this as a bug"))
    }
}

struct Worker<R> {
    store: Store,
    receiver: R,
    counts: Arc<PostCounts>,
    ending: Arc<AtomicBool>,
    /// The last one that was taken, or given up; and the same as the store has it.
    sent: u64,
    saved: u64,
    last_save: Instant,
    /// Before the next try.
    pause: Duration,
    is_failing: bool,
    is_behind: bool,
    is_store_failing: bool,
    /// So many are posted one by one: one of them was refused.
    singly: usize,
}

impl<R: Receiver> Worker<R> {
    fn run(mut self) {
        let mut until = None;
        loop {
            let is_ending = self.ending.load(Ordering::Relaxed);
            if is_ending && *until.get_or_insert_with(|| Instant::now() + LAST) <= Instant::now() {
                break;
            }
            let batch = self.next();
            if batch.is_empty() {
                if is_ending {
                    break;
                }
                self.rest();
            } else if !self.post(&batch) {
                // What is left is posted after the next start.
                if is_ending {
                    break;
                }
                self.wait();
            }
            self.save(SAVE);
        }
        self.save(Duration::ZERO);
    }

    /// What is posted next; how much waits in all.
    fn next(&mut self) -> Vec<(u64, String)> {
        let limit = if self.singly > 0 { 1 } else { BATCH };
        let read = self.store.outbox(self.sent, limit).and_then(|batch| Ok((batch, self.store.last_announcement()?)));
        let (batch, last) = self.checked(read).unwrap_or_default();
        let waiting = last.saturating_sub(self.sent);
        self.counts.waiting.store(waiting, Ordering::Relaxed);
        if !self.is_behind && waiting >= BEHIND {
            self.is_behind = true;
            self.say(&format!("it is behind: {waiting} announcements wait in the store"));
        } else if self.is_behind && waiting < BEHIND / 10 {
            self.is_behind = false;
            self.say("it has caught up");
        }
        batch
    }

    /// Posts; whether that is done with.
    fn post(&mut self, batch: &[(u64, String)]) -> bool {
        let (Some((first, _)), Some((last, _))) = (batch.first(), batch.last()) else { return true };
        let missing = first - self.sent - 1;
        if missing > 0 {
            self.counts.lost.fetch_add(missing, Ordering::Relaxed);
            self.say(&format!(
                "{missing} announcements are lost to it, as too many waited; `ringtap alarms` has the alarms"
            ));
            self.sent = first - 1;
        }
        match self.receiver.post(batch) {
            Posted::Taken => {
                self.counts.posted.fetch_add(batch.len() as u64, Ordering::Relaxed);
                self.goes_well();
            }
            Posted::Refused(_) if batch.len() > 1 => {
                self.singly = batch.len();
                return true;
            }
            Posted::Refused(cause) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                self.say(&format!("it refuses announcement {last}: {cause}"));
            }
            Posted::Failed(cause) => {
                self.fails(&cause);
                return false;
            }
        }
        self.singly = self.singly.saturating_sub(batch.len());
        self.sent = *last;
        true
    }

    /// There is nothing to post.
    fn rest(&mut self) {
        match self.receiver.rest() {
            Some(Posted::Taken) => self.goes_well(),
            Some(Posted::Refused(cause) | Posted::Failed(cause)) => {
                self.fails(&cause);
                return self.wait();
            }
            None => {}
        }
        std::thread::park_timeout(LOOK);
    }

    fn goes_well(&mut self) {
        self.pause = FIRST_PAUSE;
        if std::mem::take(&mut self.is_failing) {
            self.say("it takes announcements again");
        }
    }

    fn fails(&mut self, cause: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            self.say(&format!("{cause}; what it does not take waits in the store and is posted again"));
        }
    }

    /// Waits before the next try, each time twice as long, up to a minute.
    fn wait(&mut self) {
        let until = Instant::now() + self.pause;
        while Instant::now() < until && !self.ending.load(Ordering::Relaxed) {
            std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Writes the cursor if it is older than this.
    fn save(&mut self, age: Duration) {
        if self.saved == self.sent || self.last_save.elapsed() < age {
            return;
        }
        self.last_save = Instant::now();
        let done = self.store.set_cursor(self.receiver.name(), self.sent);
        if self.checked(done).is_some() {
            self.saved = self.sent;
        }
    }

    /// Says once that the store fails.
    fn checked<T>(&mut self, done: Result<T>) -> Option<T> {
        match done {
            Ok(value) => {
                self.is_store_failing = false;
                Some(value)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_store_failing, true) {
                    notes::say(&format!("{error}; it is tried again"));
                }
                None
            }
        }
    }

    fn say(&self, what: &str) {
        notes::say(&format!("{} at {}: {what}", self.receiver.name(), self.receiver.place()));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use super::*;

    /// Answers as it was told to, and then takes everything; keeps what it took.
    #[derive(Clone, Default)]
    struct Scripted {
        answers: Arc<Mutex<VecDeque<Posted>>>,
        taken: Arc<Mutex<Vec<u64>>>,
    }

    impl Receiver for Scripted {
        fn name(&self) -> &'static str {
            "webhook"
        }

        fn place(&self) -> String {
            "a test".to_owned()
        }

        fn post(&mut self, batch: &[(u64, String)]) -> Posted {
            if batch.iter().any(|(_, text)| text == "poison") {
                return Posted::Refused("it answered 400".to_owned());
            }
            let answer = self.answers.lock().unwrap().pop_front().unwrap_or(Posted::Taken);
            if answer == Posted::Taken {
                self.taken.lock().unwrap().extend(batch.iter().map(|(number, _)| number));
            }
            answer
        }

        fn rest(&mut self) -> Option<Posted> {
            None
        }
    }

    struct World {
        folder: tempfile::TempDir,
        store: Store,
        receiver: Scripted,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(folder.path()).unwrap();
            store.set_receivers(&["webhook"]).unwrap();
            Self { folder, store, receiver: Scripted::default() }
        }

        fn answers(&self, answers: &[Posted]) {
            self.receiver.answers.lock().unwrap().extend(answers.iter().cloned());
        }

        fn start(&self) -> Posting {
            Posting::start(Store::open_beside(self.folder.path()).unwrap(), self.receiver.clone()).unwrap()
        }

        fn taken(&self) -> Vec<u64> {
            self.receiver.taken.lock().unwrap().clone()
        }
    }

    fn read(count: &AtomicU64) -> u64 {
        count.load(Ordering::Relaxed)
    }

    #[test]
    fn what_fails_is_posted_again_in_order_and_a_restart_goes_on_there() {
        let world = World::new();
        world.store.announce(&["1", "2"]);
        let failed = Posted::Failed("it answered 503".to_owned());
        world.answers(&[failed.clone(), failed.clone(), Posted::Taken, failed.clone()]);
        let posting = world.start();
        let until = Instant::now() + Duration::from_secs(20);
        while world.taken().len() < 2 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        world.store.announce(&["3"]);
        let counts = posting.counts().1;
        // At the end one failure is enough, and what is left is not lost.
        while !world.receiver.answers.lock().unwrap().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        world.answers(&[failed]);
        posting.finish().unwrap();
        assert_eq!((world.taken(), read(&counts.posted), read(&counts.lost)), (vec![1, 2], 2, 0));
        assert_eq!(world.store.cursor("webhook").unwrap(), 2);
        world.receiver.answers.lock().unwrap().clear();
        let posting = world.start();
        posting.finish().unwrap();
        assert_eq!(world.taken(), [1, 2, 3]);
    }

    #[test]
    fn one_that_is_refused_takes_no_other_with_it() {
        let world = World::new();
        world.store.announce(&["1", "2", "poison", "4"]);
        let posting = world.start();
        let counts = posting.counts().1;
        posting.finish().unwrap();
        assert_eq!((world.taken(), read(&counts.posted), read(&counts.refused)), (vec![1, 2, 4], 3, 1));
    }

    #[test]
    fn what_had_no_room_in_the_store_is_counted() {
        let world = World::new();
        world.store.announce(&["1", "2", "3", "4"]);
        world.store.forget_announcements(2);
        let posting = world.start();
        let counts = posting.counts().1;
        posting.finish().unwrap();
        assert_eq!((world.taken(), read(&counts.lost), read(&counts.waiting)), (vec![3, 4], 2, 0));
    }
}

//! Owns: an output of lines to a topic: lines into the spool, the thread that sends them, what was taken and what was not.
//! Does not: talk to brokers (`producer`), or count for a whole program.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringtap::{Error, Result};

use crate::brokers::Brokers;
use crate::producer::{self, Producer, Shared};
use crate::security::Security;
use crate::spool::{self, Spool};

/// Bytes that are gathered before they are written.
const GATHERED: usize = 64 << 10;
/// At the end brokers are waited for so long; what is left is sent by the next start.
const LAST: Duration = Duration::from_secs(5);
/// Stack of the thread.
const STACK_BYTES: usize = 512 << 10;

/// Where lines go.
#[derive(Clone, Debug)]
pub struct Target {
    /// The cluster.
    pub brokers: Brokers,
    /// The topic, which has to be there.
    pub topic: String,
    /// Key of all lines: so they keep their order.
    pub key: String,
    /// Folder for what waits.
    pub spool: PathBuf,
    /// Bytes that may wait.
    pub spool_bytes: u64,
    /// How to talk to the brokers.
    pub security: Security,
}

/// An open output.
#[derive(Debug)]
pub struct Output {
    key: Vec<u8>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Records to be written, how many, and why they could not be the last time.
    gathered: Vec<u8>,
    lines: u64,
    failure: Option<io::Error>,
}

impl Output {
    /// Opens the spool and looks for the topic. A cluster that does not answer is waited for: that is said on standard error.
    ///
    /// # Errors
    /// The spool can't be used; a broker answers and has no such topic, or refuses us.
    pub fn open(target: Target) -> Result<Self> {
        let Target { brokers, topic, key, spool: folder, spool_bytes, security } = target;
        let (spool, slots, state) = Spool::open(&folder, spool_bytes, &topic)?;
        let shared = Arc::new(Shared::new(spool, state.done));
        let mut producer = Producer::new(brokers, security, topic, folder, (slots, state), Arc::clone(&shared));
        producer.begin()?;
        let thread = std::thread::Builder::new()
            .name("ringtap-kafka".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || producer.run())
            .map_err(|error| Error::os("start the thread of", "an output to Kafka", &error))?;
        let gathered = Vec::with_capacity(GATHERED);
        Ok(Self { key: key.into_bytes(), shared, thread: Some(thread), gathered, lines: 0, failure: None })
    }

    /// Takes a line, with or without its line feed; false: there is no room for it. It is in the spool after the next
    /// [`flush`](Self::flush).
    pub fn line(&mut self, line: &[u8]) -> bool {
        let value = line.strip_suffix(b"\n").unwrap_or(line);
        let time_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let before = self.gathered.len();
        if !spool::record(time_ms, &self.key, value, &mut self.gathered) {
            return false;
        }
        if !self.shared.spool().has_room(self.gathered.len()) {
            self.gathered.truncate(before);
            return false;
        }
        self.lines += 1;
        true
    }

    /// Whether so much is gathered that it should be flushed.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.gathered.len() >= GATHERED
    }

    /// Puts lines into the spool; how many it took, and how many it could not.
    pub fn flush(&mut self) -> (u64, u64) {
        let lines = std::mem::take(&mut self.lines);
        if lines == 0 {
            return (0, 0);
        }
        let appended = self.shared.spool().append(&self.gathered);
        self.gathered.clear();
        match appended {
            Ok(()) => {
                self.shared.changed.notify_all();
                (lines, 0)
            }
            Err(error) => {
                self.failure = Some(error);
                (0, lines)
            }
        }
    }

    /// Why the disk did not take lines, if that was why.
    #[must_use]
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Waits until brokers have all that was taken, for 5 s at most. What is left is said, and sent by the next start.
    fn end(&mut self) {
        self.flush();
        let until = Instant::now() + LAST;
        self.shared.end(until);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let bytes = self.shared.spool().waiting(*self.shared.done.lock().unwrap_or_else(PoisonError::into_inner));
        if bytes > 0 {
            producer::say(&format!("{bytes} bytes for Kafka wait in the spool: the next start sends them"));
        }
        let refused = self.shared.refused.load(Ordering::Relaxed);
        if refused > 0 {
            producer::say(&format!("Kafka refused {refused} records"));
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.end();
    }
}

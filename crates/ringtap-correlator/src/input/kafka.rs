//! Owns: topics of Kafka as an input: the thread that reads them, and what becomes of a record.
//! Does not: keep how far they were read: that is logged and stored with what came of each record, so that none is taken twice or lost.

use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringtap::{Error, Result};
use ringtap_datagram::line::Line;
use ringtap_event::silence::silence;
use ringtap_kafka::{Consumer, Fetched, Record, Source as Partition};
use ringtap_run::notes;

use super::channel::{self, Came, Receiver, Sender};
use super::counts::InputCounts;
use super::files::Next;
use super::keyring::Keyring;
use super::parse::{Bad, MAX_LINE, MAX_NAME, Parser, Wanted, hash};
use crate::correlator::Correlator;
use crate::options::{Brokers, Security};

/// Bytes that may wait.
const WAITING: usize = 64 << 20;
/// Records that are handed over at once.
const BATCH: usize = 256;
/// How long a broker waits for something to come.
const WAIT: Duration = Duration::from_millis(100);
/// A broker that has said for so long nothing of what is there may have something.
const FRESH: Duration = Duration::from_secs(1);

/// Topics that are read.
pub(crate) struct Topics {
    events: Receiver,
    heads: std::vec::IntoIter<Came>,
    counts: Arc<InputCounts>,
    looked: Arc<Looked>,
}

/// When a broker said last that there is nothing more, and all before it was handed over: nobody is silent whose words wait there.
#[derive(Default)]
struct Looked(Mutex<Option<Instant>>);

impl Looked {
    fn set(&self, at: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    fn is_fresh(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| at.elapsed() < FRESH)
    }
}

/// The number of a partition in log and store.
fn stream(partition: &Partition) -> u64 {
    hash(format!("kafka {}/{}", partition.topic, partition.partition).as_bytes())
}

impl Topics {
    /// Opens topics and goes on where `correlator` had come to.
    ///
    /// # Errors
    /// No broker answers, or one has no such topic, or refuses us; the thread can't be started.
    pub(crate) fn open(
        (brokers, security): (&Brokers, Security),
        topics: &[String],
        wanted: Wanted,
        keyring: &Arc<Keyring>,
        correlator: &Correlator,
    ) -> Result<Self> {
        let position = |partition: &Partition| correlator.read_up_to(stream(partition));
        let consumer = Consumer::open(brokers, security, topics.to_vec(), position)?;
        let (sender, events) = channel::channel(WAITING);
        let counts = InputCounts::new(&format!("kafka:{}", topics.join(",")));
        let looked = Arc::<Looked>::default();
        let work = Work {
            consumer,
            sender,
            counts: Arc::clone(&counts),
            keyring: Arc::clone(keyring),
            parser: Parser::new(wanted, "kafka"),
            of: None,
            wanted,
            brokers: brokers.to_string(),
            looked: Arc::clone(&looked),
        };
        std::thread::Builder::new()
            .name("ringtap-input".to_owned())
            .spawn(move || work.run())
            .map_err(|error| Error::os("start the thread of", "Kafka", &error))?;
        Ok(Self { events, heads: Vec::new().into_iter(), counts, looked })
    }

    /// What came next; waits for it.
    pub(crate) fn next(&mut self, wait: Duration) -> Next {
        loop {
            if let Some(came) = self.heads.next() {
                return Next::Came(Box::new(came), false);
            }
            match self.events.recv_timeout(wait) {
                Ok(batch) => self.heads = batch.into_iter(),
                Err(RecvTimeoutError::Timeout) => return Next::Nothing,
                Err(RecvTimeoutError::Disconnected) => return Next::End,
            }
        }
    }

    /// Whether all was taken that brokers have, as far as they said so just now.
    pub(crate) fn is_empty(&self) -> bool {
        self.looked.is_fresh()
    }

    pub(crate) fn counts(&self) -> Vec<Arc<InputCounts>> {
        vec![Arc::clone(&self.counts)]
    }
}

/// What the thread has.
struct Work {
    consumer: Consumer,
    sender: Sender,
    counts: Arc<InputCounts>,
    keyring: Arc<Keyring>,
    /// For records of one key, that of the last one.
    parser: Parser,
    of: Option<Vec<u8>>,
    wanted: Wanted,
    brokers: String,
    looked: Arc<Looked>,
}

impl Work {
    /// Reads until nobody takes anything any more.
    fn run(mut self) {
        let (mut is_away, mut was_current) = (false, false);
        loop {
            let fetched = self.consumer.fetch(WAIT);
            let looked = Instant::now();
            if !self.consumer.is_empty() {
                self.looked.set(None);
            }
            let streams: Vec<u64> = self.consumer.sources().map(stream).collect();
            let mut batch = self.deleted();
            self.count_skipped();
            while let Some(record) = self.consumer.next_record() {
                batch.push(Came::Read { stream: streams[record.source], next: record.next });
                batch.extend(self.understand(&record));
                if batch.len() >= BATCH && !self.sender.send(std::mem::take(&mut batch)) {
                    return;
                }
            }
            let is_current = match fetched {
                Fetched::Records { is_all } => {
                    if std::mem::take(&mut is_away) {
                        notes::say(&format!("Kafka at {} is read again", self.brokers));
                    }
                    is_all && self.consumer.is_empty()
                }
                Fetched::Away(why) => {
                    if !std::mem::replace(&mut is_away, true) {
                        self.counts.failed.fetch_add(1, Ordering::Relaxed);
                        let said =
                            format!("Kafka at {} gives nothing: {why}; it is tried again twice a second", self.brokers);
                        notes::say(&ringtap_output::printable(&said));
                    }
                    false
                }
            };
            if was_current != is_current {
                was_current = is_current;
                batch.push(Came::Current(is_current));
            }
            if !batch.is_empty() && !self.sender.send(batch) {
                return;
            }
            self.looked.set(is_current.then_some(looked));
        }
    }

    /// Partitions that go on elsewhere.
    fn deleted(&mut self) -> Vec<Came> {
        let deleted = self.consumer.take_deleted();
        let told = deleted.into_iter().map(|(partition, next, count)| {
            let Partition { topic, partition: number } = &partition;
            notes::say(&format!("{count} records of {topic}/{number} were deleted before they were read"));
            Came::BeginsAgain { stream: stream(&partition), next }
        });
        told.collect()
    }

    fn count_skipped(&mut self) {
        for _ in 0..self.consumer.take_skipped() {
            self.counts
                .bad(self.counts.lines.load(Ordering::Relaxed), &"a batch of records is damaged or larger than 16 MiB");
        }
    }

    /// What a record is: a message of a registered sensor, or an event of whoever its key names.
    fn understand(&mut self, record: &Record) -> Option<Came> {
        let number = self.counts.lines.fetch_add(1, Ordering::Relaxed) + 1;
        let line = record.value.trim_ascii();
        // What tells the job on Flink not to wait for a sensor is nothing here, where the clock finds out who is silent.
        if line.is_empty() || silence(line).is_some() {
            return None;
        }
        if Line::parse(line).is_ok() {
            return self.keyring.line(line);
        }
        if line.len() > MAX_LINE {
            self.counts.bad(number, &Bad::TooLong);
            return None;
        }
        if self.of != record.key {
            let name = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
            let name = name.filter(|name| !name.is_empty() && name.len() <= MAX_NAME).unwrap_or("kafka");
            self.parser = Parser::new(self.wanted, name);
            self.of.clone_from(&record.key);
        }
        match self.parser.event(line) {
            Ok(event) if event.is_like_a_sensor_s() => {
                self.counts.bad(number, &"it has a sensor's numbers, and is no line of one");
                None
            }
            Ok(event) => Some(Came::Event(event)),
            Err(bad) => {
                self.counts.bad(number, &bad);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_says_nothing_may_have_something() {
        let looked = Looked::default();
        assert!(!looked.is_fresh(), "nobody was asked yet");
        looked.set(Some(Instant::now()));
        assert!(looked.is_fresh());
        looked.set(Instant::now().checked_sub(FRESH));
        assert!(!looked.is_fresh(), "it was asked a while ago, and hangs");
        looked.set(None);
        assert!(!looked.is_fresh(), "what it said is not handed over yet");
    }
}

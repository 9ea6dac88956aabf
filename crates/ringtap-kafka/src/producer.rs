//! Owns: sending what waits in the spool: batches in their order, each numbered and sent until it was taken; what is said when brokers
//! go and come.
//! Does not: take lines.
//!
//! One batch of each partition is on its way at a time. Before it goes, what it will have as numbers is kept beside the spool; after a
//! crash the same batch goes with the same numbers, and a broker that had it already says so. So each record is there once, in order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringtap::{Error, Result};

use crate::brokers::Brokers;
use crate::cluster::{Cluster, Leaders};
use crate::connection::ANSWER_MS;
use crate::failure::{Code, Failure};
use crate::messages::{self, Api};
use crate::records::{Entry, Numbering, encode, partition_of};
use crate::security::Security;
use crate::spool::{Kept, Place, Reader, Slots, Spool, State};

/// Records of a batch, and their bytes, at most: a topic takes 1 MiB where it is not told otherwise.
const BATCH: usize = 4096;
const BATCH_BYTES: usize = 512 << 10;
/// Between two tries; each is twice the one before, up to the second.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long it takes until the end is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What the producer's thread and the output share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) spool: Mutex<Spool>,
    /// Something was appended, or the end has come.
    pub(crate) changed: Condvar,
    /// What was taken ends here.
    pub(crate) done: Mutex<Place>,
    /// Records that no broker takes.
    pub(crate) refused: AtomicU64,
    is_ending: AtomicBool,
    until: Mutex<Option<Instant>>,
}

impl Shared {
    pub(crate) fn new(spool: Spool, done: Place) -> Self {
        Self {
            spool: Mutex::new(spool),
            changed: Condvar::new(),
            done: Mutex::new(done),
            refused: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
            until: Mutex::new(None),
        }
    }

    pub(crate) fn spool(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is appended any more; what is there by then goes until this time.
    pub(crate) fn end(&self, until: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        let _spool = self.spool();
        self.is_ending.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() >= until)
    }
}

/// What sends.
pub(crate) struct Producer {
    cluster: Cluster,
    brokers: Brokers,
    topic: String,
    folder: PathBuf,
    slots: Slots,
    state: State,
    /// Who leads each partition, as far as is known.
    leaders: Option<Leaders>,
    shared: Arc<Shared>,
    most_bytes: usize,
    /// Since when nothing is taken, if that was said.
    away: Option<Instant>,
}

impl Producer {
    pub(crate) fn new(
        brokers: Brokers,
        security: Security,
        topic: String,
        folder: PathBuf,
        (slots, state): (Slots, State),
        shared: Arc<Shared>,
    ) -> Self {
        let cluster = Cluster::new(brokers.clone(), security);
        let most_bytes = BATCH_BYTES;
        Self { cluster, brokers, topic, folder, slots, state, leaders: None, shared, most_bytes, away: None }
    }

    /// Looks for the topic once. That nobody answers is said, and no error.
    pub(crate) fn begin(&mut self) -> Result<()> {
        match self.look() {
            Ok(()) => Ok(()),
            Err(Failure::Network(error)) => {
                self.stays_away(&Failure::Network(error));
                Ok(())
            }
            Err(failure) => {
                let way_out = match failure {
                    Failure::Refused(Code::UNKNOWN_TOPIC) => "make it (kafka-topics.sh --create), or name another one",
                    _ => "docs/kafka.md tells what a broker asks for",
                };
                let object = format!("the topic {} at {}", self.topic, self.brokers);
                Err(Error::failed("write to", object, failure).way_out(way_out))
            }
        }
    }

    fn look(&mut self) -> Result<(), Failure> {
        self.leaders = self.cluster.leaders(std::slice::from_ref(&self.topic))?.pop();
        Ok(())
    }

    /// Sends until the end.
    pub(crate) fn run(mut self) {
        while let Some(end) = self.wait() {
            let batch = match self.read(end) {
                Ok(batch) => batch,
                Err(error) => {
                    say(&format!("read what waits for Kafka in {}: {error}", self.folder.display()));
                    std::thread::sleep(LONGEST_PAUSE);
                    if self.shared.is_ending() { return } else { continue }
                }
            };
            let Some((records, end)) = batch else { continue };
            if !self.deliver(&records, end) {
                return;
            }
        }
    }

    /// Waits for something that was not sent; where the spool ends then. `None`: the end.
    fn wait(&self) -> Option<Place> {
        let mut spool = self.shared.spool();
        loop {
            let end = spool.end();
            if end > self.state.done {
                return (!self.shared.is_over()).then_some(end);
            }
            if self.shared.is_ending() {
                return None;
            }
            spool = self.shared.changed.wait_timeout(spool, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next records, which end at the place: those that were sent before a crash, or as many as fit.
    fn read(&mut self, end: Place) -> std::io::Result<Option<(Vec<Kept>, Place)>> {
        let until = self.state.sent.unwrap_or(end);
        let mut place = self.state.done;
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut reader = Reader::at(&self.folder, place)?;
        while place < until && records.len() < BATCH && bytes < self.most_bytes {
            let Some(kept) = reader.next()? else {
                // A file's end, or what is damaged there: the next file goes on.
                let Some(next) = self.shared.spool().after(place) else { break };
                if !records.is_empty() {
                    break;
                }
                self.state.done = next;
                (place, reader) = (next, Reader::at(&self.folder, next)?);
                continue;
            };
            let more = kept.key.len() + kept.value.len();
            if !records.is_empty() && self.state.sent.is_none() && bytes + more > self.most_bytes {
                break;
            }
            bytes += more;
            place.offset = reader.offset;
            records.push(kept);
        }
        if records.is_empty() {
            // Nothing that is whole: what was said to be on its way is not there.
            self.state.sent = None;
            self.finish(place.max(self.state.done));
            return Ok(None);
        }
        Ok(Some((records, place)))
    }

    /// Sends these until all are taken; false: the end came first.
    fn deliver(&mut self, records: &[Kept], end: Place) -> bool {
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match self.deliver_once(records, end) {
                Ok(Delivered::All) => {
                    self.is_back();
                    return true;
                }
                // Read again, in smaller batches.
                Ok(Delivered::Smaller) => return true,
                Err(failure) => failure,
            };
            self.leaders = None;
            self.stays_away(&failure);
            if self.shared.is_over() || self.shared.is_ending() && matches!(failure, Failure::Network(_)) {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn deliver_once(&mut self, records: &[Kept], end: Place) -> Result<Delivered, Failure> {
        self.prepare()?;
        let Numbered { batches, counts } = self.number(records);
        self.state.sent = Some(end);
        self.keep()?;
        let mut waiting = batches;
        while !waiting.is_empty() {
            let answers = self.send(&waiting)?;
            let mut again = None;
            for (partition, code) in answers {
                match Code(code) {
                    Code(0) | Code::DUPLICATE => {
                        waiting.remove(&partition);
                    }
                    refused @ (Code::MESSAGE_TOO_LARGE
                    | Code::RECORD_LIST_TOO_LARGE
                    | Code::INVALID_TIMESTAMP
                    | Code::INVALID_RECORD) => {
                        return self.make_smaller(refused, records, end, &counts, &waiting);
                    }
                    Code::OUT_OF_ORDER | Code::UNKNOWN_PRODUCER | Code::INVALID_PRODUCER_EPOCH => {
                        self.begin_anew()?;
                        return Err(Failure::Refused(Code(code)));
                    }
                    refused => again = Some(refused),
                }
            }
            if let Some(refused) = again {
                return Err(Failure::Refused(refused));
            }
        }
        self.count(&counts);
        self.finish(end);
        Ok(Delivered::All)
    }

    /// Knows the partitions, and has an identity.
    fn prepare(&mut self) -> Result<(), Failure> {
        if self.leaders.is_none() {
            self.look()?;
        }
        if self.state.producer.is_none() {
            let node =
                self.leaders.iter().flatten().flatten().next().copied().ok_or(Failure::Refused(Code::NO_LEADER))?;
            let (code, producer, epoch) = messages::producer_id(&self.cluster.ask(
                node,
                Api::INIT_PRODUCER_ID,
                &messages::init_producer_id(),
            )?)?;
            Code::check(code).map_err(Failure::Refused)?;
            self.state.producer = Some((producer, epoch));
            self.state.next = Vec::new();
        }
        let count = self.leaders.as_ref().map_or(0, Vec::len);
        if count < self.state.next.len() {
            // Another topic has the name now.
            self.begin_anew()?;
            return self.prepare();
        }
        // Partitions may be added; a batch that was cut before stays as it was.
        if self.state.sent.is_none() || self.state.next.is_empty() {
            self.state.next.resize(count, 0);
        }
        Ok(())
    }

    /// A batch for each partition, with its numbers.
    fn number(&self, records: &[Kept]) -> Numbered {
        let count = self.state.next.len() as i32;
        let mut parts: BTreeMap<i32, Vec<Entry<'_>>> = BTreeMap::new();
        for kept in records {
            let entry = Entry { time_ms: kept.time_ms, key: &kept.key, value: &kept.value };
            parts.entry(partition_of(&kept.key, count)).or_default().push(entry);
        }
        let (producer, epoch) = self.state.producer.unwrap_or((-1, -1));
        let numbering = |partition: i32| Numbering { producer, epoch, first: self.state.next[partition as usize] };
        let counts = parts.iter().map(|(partition, entries)| (*partition, entries.len() as i32)).collect();
        let batches = parts.iter().map(|(partition, entries)| (*partition, encode(entries, numbering(*partition))));
        Numbered { batches: batches.collect(), counts }
    }

    /// Sends batches to who leads their partitions; the answers of all.
    fn send(&mut self, batches: &BTreeMap<i32, Vec<u8>>) -> Result<Vec<(i32, i16)>, Failure> {
        let leaders = self.leaders.as_ref().ok_or(Failure::Refused(Code::NO_LEADER))?;
        let mut by_leader: BTreeMap<i32, Vec<(i32, &[u8])>> = BTreeMap::new();
        for (partition, batch) in batches {
            let leader =
                leaders.get(*partition as usize).copied().flatten().ok_or(Failure::Refused(Code::NO_LEADER))?;
            by_leader.entry(leader).or_default().push((*partition, batch));
        }
        let mut asked = Vec::new();
        for (leader, batches) in &by_leader {
            let body = messages::produce(&self.topic, batches, ANSWER_MS);
            asked.push((*leader, self.cluster.send(*leader, Api::PRODUCE, &body)?));
        }
        let mut answers = Vec::new();
        for (leader, number) in asked {
            answers.extend(messages::produced(&self.cluster.receive(leader, number)?)?);
        }
        let is_known = |(partition, _): &(i32, i16)| batches.contains_key(partition);
        if answers.iter().filter(|answer| is_known(answer)).count() < batches.len() {
            return Err(Failure::Other("the broker does not say what became of a batch".into()));
        }
        Ok(answers)
    }

    /// A batch is larger than the topic takes, or has a record that it does not take: none of it is there. It is cut, and the record
    /// that is alone then is given up.
    fn make_smaller(
        &mut self,
        refused: Code,
        records: &[Kept],
        end: Place,
        counts: &BTreeMap<i32, i32>,
        waiting: &BTreeMap<i32, Vec<u8>>,
    ) -> Result<Delivered, Failure> {
        if records.len() == 1 {
            if self.shared.refused.fetch_add(1, Ordering::Relaxed) == 0 {
                let bytes = records[0].value.len();
                say(&format!(
                    "Kafka's topic {} refuses a record of {bytes} bytes: {refused}; such are counted, and given up",
                    self.topic
                ));
            }
            self.most_bytes = BATCH_BYTES;
            self.finish(end);
            return Ok(Delivered::All);
        }
        if waiting.len() < counts.len() {
            // Others of the same turn were taken: cutting would send these twice. They go on as a new identity.
            self.begin_anew()?;
        }
        self.most_bytes = (self.most_bytes / 2).max(1);
        self.state.sent = None;
        self.keep()?;
        Ok(Delivered::Smaller)
    }

    /// The broker does not know our numbers (any more): another identity, and the batch once more. It may be there twice then.
    fn begin_anew(&mut self) -> Result<(), Failure> {
        say(&format!(
            "Kafka has lost count of what was written to {}: what is on its way may be there twice",
            self.topic
        ));
        (self.state.producer, self.state.sent) = (None, None);
        self.state.next.clear();
        self.keep()
    }

    fn count(&mut self, counts: &BTreeMap<i32, i32>) {
        for (partition, count) in counts {
            let next = &mut self.state.next[*partition as usize];
            // Numbers begin again at 0 after the greatest.
            *next = (next.cast_unsigned().wrapping_add(count.cast_unsigned()) & 0x7fff_ffff).cast_signed();
        }
    }

    /// All before this place was taken.
    fn finish(&mut self, end: Place) {
        self.state.sent = None;
        self.state.done = end;
        // Kept with the next batch: until then the numbers of this one are known to the broker.
        if let Err(failure) = self.keep() {
            say(&failure.to_string());
        }
        self.shared.spool().forget(end);
        *self.shared.done.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    fn keep(&mut self) -> Result<(), Failure> {
        self.slots
            .keep(&self.state)
            .map_err(|error| Failure::Other(format!("keep what was sent in {}: {error}", self.folder.display())))
    }

    fn stays_away(&mut self, failure: &Failure) {
        if self.away.is_none() {
            self.away = Some(Instant::now());
            say(&format!(
                "Kafka at {} takes nothing for {}: {failure}; lines wait in {}",
                self.brokers,
                self.topic,
                self.folder.display()
            ));
        }
    }

    fn is_back(&mut self) {
        if let Some(since) = self.away.take() {
            let seconds = since.elapsed().as_secs_f64();
            say(&format!("Kafka takes lines for {} again, after {seconds:.1} s", self.topic));
        }
    }
}

/// What became of a batch.
enum Delivered {
    All,
    Smaller,
}

struct Numbered {
    batches: BTreeMap<i32, Vec<u8>>,
    counts: BTreeMap<i32, i32>,
}

/// Said beside what the program prints.
pub(crate) fn say(line: &str) {
    eprintln!("ringtap: {}", ringtap::text::printable(line));
}

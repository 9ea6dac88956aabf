//! Owns: reading topics from given offsets on, all partitions together: what is to be asked for, what came, in the order of its time.
//! Does not: keep offsets, start a thread, or know what a record says.
//!
//! Partitions are merged by the time of their records: as long as one of them has more than was read, nothing later of another is handed
//! out. So who reads a backlog meets it in the order in which it was written, and no partition runs ahead.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use ringtap::{Error, Result};

use crate::brokers::Brokers;
use crate::cluster::Cluster;
use crate::failure::{Code, Failure, Malformed};
use crate::messages::{self, Api, EARLIEST};
use crate::records::{self, Decoded};
use crate::security::Security;

/// Bytes of one partition in one answer, and of all.
const PARTITION_BYTES: i32 = 1 << 20;
const ANSWER_BYTES: i32 = 16 << 20;
/// Of a partition with so many bytes in memory no more is asked for, nor taken; of many partitions each has less, so that all have
/// [`ENOUGH_OF_ALL`] or the least.
const ENOUGH: usize = 4 << 20;
const ENOUGH_OF_ALL: usize = 64 << 20;
const LEAST_ENOUGH: usize = 64 << 10;
/// How often partitions are looked for that were added, where nothing else is a reason to look.
const LOOK: Duration = Duration::from_secs(10);
/// How long it is waited at the start for leaders that are still being chosen: of brokers that begin, or topics that were just made.
const CHOICE: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Which partition of which topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The topic.
    pub topic: String,
    /// Number of the partition.
    pub partition: i32,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Place in the list of [`Consumer::sources`].
    pub source: usize,
    /// Offset of the one behind it: where to go on once it was made something of.
    pub next: i64,
    /// Milliseconds since 1970, by who wrote it or by the broker.
    pub time_ms: i64,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// What it says; empty where it has nothing.
    pub value: Vec<u8>,
}

/// What a look at the brokers brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Fetched {
    /// All went well; whether everything was read that is there.
    Records {
        /// Nothing is behind what was read.
        is_all: bool,
    },
    /// Brokers are away, or refuse: why. It is tried again at the next call, which waits.
    Away(String),
}

struct Partition {
    source: Source,
    leader: Option<i32>,
    next: i64,
    /// What may be read ends here, as far as is known.
    end: Option<i64>,
    waiting: VecDeque<Record>,
    bytes: usize,
}

/// Of each topic, what is asked of one broker: partitions, and the offset of each.
type Wanted<'a> = BTreeMap<&'a str, Vec<(i32, i64)>>;

/// A reader.
pub struct Consumer {
    cluster: Cluster,
    topics: Vec<String>,
    partitions: Vec<Partition>,
    /// When it was asked last who leads which partition; `None`: it is to be asked again.
    looked: Option<Instant>,
    /// Records that were deleted before they were read, to be told.
    deleted: Vec<(Source, i64, i64)>,
    /// Batches that could not be read, since they were asked for.
    skipped: u64,
}

impl Consumer {
    /// Opens topics; `position` says where each partition is gone on with, `None`: from its beginning.
    ///
    /// # Errors
    /// No broker answers, or one has no such topic, or refuses us.
    pub fn open(
        brokers: &Brokers,
        security: Security,
        topics: Vec<String>,
        position: impl Fn(&Source) -> Option<i64>,
    ) -> Result<Self> {
        let names = topics.join(", ");
        let cluster = Cluster::new(brokers.clone(), security);
        let mut this = Self { cluster, topics, partitions: Vec::new(), looked: None, deleted: Vec::new(), skipped: 0 };
        let until = Instant::now() + CHOICE;
        let begun = loop {
            match this.begin(&position) {
                Err(Failure::Refused(Code::NO_LEADER | Code::NOT_LEADER)) if Instant::now() < until => {
                    std::thread::sleep(PAUSE);
                }
                begun => break begun,
            }
        };
        begun.map_err(|failure| {
            let way_out = match &failure {
                Failure::Refused(Code::UNKNOWN_TOPIC) => "make it (kafka-topics.sh --create), or name another one",
                Failure::Network(_) => "is the address right, and does it run?",
                _ => "docs/kafka.md tells what a broker asks for",
            };
            Error::failed("read", format!("the topic {names} at {brokers}"), failure).way_out(way_out)
        })?;
        Ok(this)
    }

    fn begin(&mut self, position: impl Fn(&Source) -> Option<i64>) -> Result<(), Failure> {
        self.look()?;
        for partition in &mut self.partitions {
            partition.next = position(&partition.source).unwrap_or(-1);
        }
        self.find_beginnings()
    }

    /// Asks where partitions begin that have no place yet.
    fn find_beginnings(&mut self) -> Result<(), Failure> {
        let wanted = |it: &Partition| (it.next < 0).then(|| (it.source.clone(), it.leader));
        for (source, leader) in self.partitions.iter().filter_map(wanted).collect::<Vec<_>>() {
            let first = self.first(&source, leader)?;
            if let Some(it) = self.partitions.iter_mut().find(|it| it.source == source) {
                it.next = first;
            }
        }
        Ok(())
    }

    /// The first offset of a partition.
    fn first(&mut self, source: &Source, leader: Option<i32>) -> Result<i64, Failure> {
        let body = messages::list_offsets(&source.topic, &[source.partition], EARLIEST);
        let answer = self.cluster.ask(leader.ok_or(Failure::Refused(Code::NO_LEADER))?, Api::LIST_OFFSETS, &body)?;
        let found = messages::offsets(&answer)?.into_iter().find(|(partition, ..)| *partition == source.partition);
        let (_, code, offset) = found.ok_or(Malformed("an offset is missing"))?;
        Code::check(code).map_err(Failure::Refused)?;
        Ok(offset.max(0))
    }

    /// Asks who leads which partition; new ones are read from their beginning.
    fn look(&mut self) -> Result<(), Failure> {
        let all = self.cluster.leaders(&self.topics)?;
        for (topic, leaders) in self.topics.iter().zip(all) {
            for (number, leader) in leaders.into_iter().enumerate() {
                let source = Source { topic: topic.clone(), partition: number as i32 };
                match self.partitions.iter_mut().find(|it| it.source == source) {
                    Some(it) => it.leader = leader,
                    None => self.partitions.push(Partition {
                        source,
                        leader,
                        next: -1,
                        end: None,
                        waiting: VecDeque::new(),
                        bytes: 0,
                    }),
                }
            }
        }
        self.looked = Some(Instant::now());
        Ok(())
    }

    /// All partitions, in the order that [`Record::source`] counts in.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.partitions.iter().map(|it| &it.source)
    }

    /// Partitions of which records were deleted before they were read, the offset they go on with, and how many are gone (0: it had been
    /// read farther than it goes now), since the last call.
    pub fn take_deleted(&mut self) -> Vec<(Source, i64, i64)> {
        std::mem::take(&mut self.deleted)
    }

    /// Batches that whoever wrote them made wrong or too large, since the last call: they were passed over.
    pub fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }

    /// Asks brokers for more, and waits for so long where there is none.
    pub fn fetch(&mut self, wait: Duration) -> Fetched {
        match self.try_fetch(wait) {
            Ok(()) => {
                Fetched::Records { is_all: self.partitions.iter().all(|it| it.end.is_some_and(|end| it.next >= end)) }
            }
            Err(failure) => {
                self.looked = None;
                std::thread::sleep(PAUSE);
                Fetched::Away(failure.to_string())
            }
        }
    }

    fn try_fetch(&mut self, wait: Duration) -> Result<(), Failure> {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK) {
            let was_known = self.looked.is_some();
            let found = self.look().and_then(|()| self.find_beginnings());
            // While all goes well, what is not told of new partitions is no reason to stop.
            if !was_known {
                found?;
            }
            self.looked = Some(Instant::now());
        }
        let mut by_leader: BTreeMap<i32, Wanted<'_>> = BTreeMap::new();
        let enough = self.enough();
        for it in self.partitions.iter().filter(|it| it.next >= 0 && it.bytes < enough) {
            let leader = it.leader.ok_or(Failure::Refused(Code::NO_LEADER))?;
            let topics = by_leader.entry(leader).or_default();
            topics.entry(&it.source.topic).or_default().push((it.source.partition, it.next));
        }
        let is_waiting = self.partitions.iter().any(|it| !it.waiting.is_empty());
        let wait_ms = if is_waiting { 0 } else { wait.as_millis().min(10_000) as i32 };
        let mut asked = Vec::new();
        for (leader, topics) in by_leader {
            let topics: Vec<_> = topics.into_iter().collect();
            let body = messages::fetch(&topics, wait_ms, PARTITION_BYTES, ANSWER_BYTES);
            asked.push((leader, self.cluster.send(leader, Api::FETCH, &body)?));
        }
        // All are waited for at once, and each answers: what one has is not lost with another's failure.
        let mut failed = None;
        for (leader, number) in asked {
            let answer = self.cluster.receive(leader, number).and_then(|answer| self.take(&answer));
            failed = failed.or(answer.err());
        }
        failed.map_or(Ok(()), Err)
    }

    /// Bytes of each partition that may wait in memory; a record more is taken, however large.
    fn enough(&self) -> usize {
        (ENOUGH_OF_ALL / self.partitions.len().max(1)).clamp(LEAST_ENOUGH, ENOUGH)
    }

    /// Takes an answer, as far as there is room: the rest is asked for again.
    fn take(&mut self, answer: &[u8]) -> Result<(), Failure> {
        let (code, partitions) = messages::fetched(answer)?;
        Code::check(code).map_err(Failure::Refused)?;
        let enough = self.enough();
        for it in partitions {
            let found = |of: &Partition| of.source.topic == it.topic && of.source.partition == it.number;
            let Some(place) = self.partitions.iter().position(found) else { continue };
            match Code(it.code) {
                Code(0) => {}
                Code::OFFSET_OUT_OF_RANGE => {
                    self.begin_again(place)?;
                    continue;
                }
                refused => return Err(Failure::Refused(refused)),
            }
            let partition = &mut self.partitions[place];
            partition.end = Some(it.last_stable);
            let (waiting, bytes) = (&mut partition.waiting, &mut partition.bytes);
            let take = |record: Decoded<'_>| {
                let record = Record {
                    source: place,
                    next: record.offset + 1,
                    time_ms: record.time_ms,
                    key: record.key.map(<[u8]>::to_vec),
                    value: record.value.unwrap_or_default().to_vec(),
                };
                *bytes += weight(&record);
                waiting.push_back(record);
                *bytes < enough
            };
            match records::decode(it.records, &it.aborted, partition.next, take) {
                Ok(done) => {
                    partition.next = done.next;
                    self.skipped += done.skipped;
                }
                Err((next, malformed)) => {
                    partition.next = next;
                    let Source { topic, partition } = &partition.source;
                    return Err(Failure::Other(format!("{topic}/{partition} at offset {next}: {}", malformed.0)));
                }
            }
        }
        Ok(())
    }

    /// What was to be read next is not there: it was deleted, or another topic has the name.
    fn begin_again(&mut self, place: usize) -> Result<(), Failure> {
        let Partition { source, leader, next, .. } = &self.partitions[place];
        let (source, leader, next) = (source.clone(), *leader, *next);
        let first = self.first(&source, leader)?;
        self.deleted.push((source, first, (first - next).max(0)));
        self.partitions[place].next = first;
        Ok(())
    }

    /// The next record by time; `None`: there is none, or what another partition has still to bring may be earlier.
    pub fn next_record(&mut self) -> Option<Record> {
        let mut earliest: Option<(i64, usize)> = None;
        for (place, it) in self.partitions.iter().enumerate() {
            match it.waiting.front() {
                Some(head) if earliest.is_none_or(|(time, _)| head.time_ms < time) => {
                    earliest = Some((head.time_ms, place))
                }
                Some(_) => {}
                None if it.next < 0 || it.end.is_some_and(|end| it.next >= end) => {}
                None => return None,
            }
        }
        let it = &mut self.partitions[earliest?.1];
        let record = it.waiting.pop_front()?;
        it.bytes -= weight(&record);
        Some(record)
    }

    /// Whether nothing waits to be handed out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partitions.iter().all(|it| it.waiting.is_empty())
    }
}

fn weight(record: &Record) -> usize {
    size_of::<Record>() + record.value.len() + record.key.as_ref().map_or(0, Vec::len)
}

//! The bounded way from a receiving thread to the station: batches of datagrams in memory that was set aside at the start.
//!
//! Owns the pool of batches, the count of what does not fit, and the waking of the station's thread. On the receiving side
//! no allocation, no lock, and a system call only to wake a sleeper. A batch goes over when it is full, or at the end of a
//! cycle when the station has nothing else to do: so few packets wait alone and a storm fills memory densely.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use ringtap::{Error, Result};
use rtrb::{Consumer, Producer, RingBuffer};

/// Bytes of one batch.
pub const BATCH_BYTES: usize = 256 << 10;
/// Datagrams of one batch.
const BATCH_DATAGRAMS: usize = 2048;

/// How a datagram came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// SNMP notifications.
    Snmp,
    /// Syslog.
    Syslog,
}

/// What is known of a datagram beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Arrival, nanoseconds since 1970.
    pub at_ns: u64,
    /// Its sender.
    pub source: SocketAddr,
    /// The address of ours that it was sent to, if that is known: an answer leaves from there.
    pub to: Option<IpAddr>,
    /// What it is taken for.
    pub service: Service,
    /// The socket that answers it: a number of the receiving side.
    pub socket: u8,
}

/// Datagrams on their way.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    heads: Vec<(Head, u32)>,
}

impl Batch {
    fn new() -> Box<Self> {
        let mut bytes = vec![1; BATCH_BYTES];
        bytes.clear();
        Box::new(Self { bytes, heads: Vec::with_capacity(BATCH_DATAGRAMS) })
    }

    fn has_room(&self, len: usize) -> bool {
        self.heads.len() < BATCH_DATAGRAMS && self.bytes.len() + len <= BATCH_BYTES
    }

    /// The datagrams in order.
    pub fn iter(&self) -> impl Iterator<Item = (Head, &[u8])> {
        let mut start = 0;
        self.heads.iter().map(move |&(head, len)| {
            let end = start + len as usize;
            let datagram = &self.bytes[start..end];
            start = end;
            (head, datagram)
        })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }
}

/// Tells whether the station's thread sleeps, and wakes it.
#[derive(Debug, Default)]
pub struct Bell {
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Bell {
    /// Wakes the sleeper, if there is one.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.thread.get().inspect(|thread| thread.unpark());
        }
    }

    /// The calling thread, always the same, sleeps up to `limit` unless `is_idle` says no on the last look.
    ///
    /// Announce, fence, look again: who rings stores, fences and looks at the announcement, so one sees the other.
    pub fn sleep(&self, limit: Duration, is_idle: impl FnOnce() -> bool) {
        self.thread.get_or_init(std::thread::current);
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if is_idle() {
            std::thread::park_timeout(limit);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }
}

/// Datagrams and bytes that did not fit. One thread writes.
#[derive(Debug, Default)]
pub struct Lost {
    datagrams: AtomicU64,
    bytes: AtomicU64,
}

impl Lost {
    /// Datagrams and bytes.
    pub fn read(&self) -> (u64, u64) {
        (self.datagrams.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// The receiving thread's end.
#[derive(Debug)]
pub struct SpoolProducer {
    full: Producer<Box<Batch>>,
    free: Consumer<Box<Batch>>,
    current: Option<Box<Batch>>,
    lost: Arc<Lost>,
    bell: Arc<Bell>,
}

/// The station's end.
#[derive(Debug)]
pub struct SpoolConsumer {
    full: Consumer<Box<Batch>>,
    free: Producer<Box<Batch>>,
}

/// A spool of about `bytes` bytes, every page touched; `bell` wakes the station.
///
/// # Errors
/// Less than two batches.
pub fn spool(bytes: usize, bell: Arc<Bell>) -> Result<(SpoolProducer, SpoolConsumer)> {
    let batches = bytes / BATCH_BYTES;
    if batches < 2 {
        return Err(Error::usage("set up", "the spool", format!("{bytes} bytes are too few"))
            .way_out(format!("give at least {} KiB", 2 * BATCH_BYTES / 1024)));
    }
    let (full, station_full) = RingBuffer::new(batches);
    let (mut station_free, free) = RingBuffer::new(batches);
    for _ in 0..batches {
        // There is room for as many.
        let _ = station_free.push(Batch::new());
    }
    let producer = SpoolProducer { full, free, current: None, lost: Arc::default(), bell };
    Ok((producer, SpoolConsumer { full: station_full, free: station_free }))
}

impl SpoolProducer {
    /// Copies a datagram into the spool. `false`: it did not fit and was counted.
    pub fn push(&mut self, head: Head, datagram: &[u8]) -> bool {
        if self.current.as_ref().is_none_or(|batch| !batch.has_room(datagram.len())) {
            self.hand_over();
            if self.current.is_none() {
                self.current = self.free.pop().ok();
            }
        }
        match self.current.as_mut().filter(|batch| batch.has_room(datagram.len())) {
            Some(batch) => {
                batch.bytes.extend_from_slice(datagram);
                batch.heads.push((head, datagram.len() as u32));
                true
            }
            None => {
                // One writer: plain loads and stores will do.
                let (datagrams, bytes) = self.lost.read();
                self.lost.datagrams.store(datagrams + 1, Ordering::Relaxed);
                self.lost.bytes.store(bytes + datagram.len() as u64, Ordering::Relaxed);
                false
            }
        }
    }

    /// The receiving side found nothing more: what there is goes over, unless the station is busy with more.
    pub fn cycle_end(&mut self) {
        if self.current.as_ref().is_some_and(|batch| !batch.is_empty())
            && self.full.slots() == self.full.buffer().capacity()
        {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if let Some(batch) = self.current.take_if(|batch| !batch.is_empty()) {
            // As many slots as batches: it always fits.
            let _ = self.full.push(batch);
        }
        self.bell.ring();
    }

    /// Counts of what did not fit.
    pub fn lost(&self) -> Arc<Lost> {
        Arc::clone(&self.lost)
    }
}

impl Drop for SpoolProducer {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl SpoolConsumer {
    /// The next batch; give it back with [`SpoolConsumer::give_back`].
    pub fn take(&mut self) -> Option<Box<Batch>> {
        self.full.pop().ok()
    }

    /// Empties a batch and returns it to the receiving side.
    pub fn give_back(&mut self, mut batch: Box<Batch>) {
        batch.bytes.clear();
        batch.heads.clear();
        let _ = self.free.push(batch);
    }

    /// Whether nothing waits here.
    pub fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// Whether the receiving side has gone and nothing waits.
    pub fn is_finished(&self) -> bool {
        // The order matters: what was pushed before the end is seen after it.
        self.full.is_abandoned() && self.full.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(at_ns: u64) -> Head {
        Head { at_ns, source: "192.0.2.1:162".parse().unwrap(), to: None, service: Service::Snmp, socket: 0 }
    }

    #[test]
    fn what_goes_in_comes_out_and_what_does_not_fit_is_counted() {
        let (mut producer, mut consumer) = spool(2 * BATCH_BYTES, Arc::default()).unwrap();
        let datagram = vec![7; 1000];
        let mut taken = 0;
        while producer.push(head(taken), &datagram) {
            taken += 1;
        }
        assert_eq!(taken, 2 * (BATCH_BYTES as u64 / 1000));
        assert_eq!(producer.lost().read(), (1, 1000));
        let batch = consumer.take().unwrap();
        assert!(batch.iter().enumerate().all(|(at, (head, bytes))| head.at_ns == at as u64 && bytes == datagram));
        consumer.give_back(batch);
        assert!(producer.push(head(0), &datagram), "room again");
        assert!(!producer.push(head(0), &vec![0; BATCH_BYTES + 1]));
        assert_eq!(producer.lost().read().0, 2);
    }

    #[test]
    fn a_cycle_ends_with_a_batch_only_when_the_station_is_idle() {
        let (mut producer, mut consumer) = spool(4 * BATCH_BYTES, Arc::default()).unwrap();
        producer.cycle_end();
        assert!(consumer.is_empty());
        for at in 0..3 {
            assert!(producer.push(head(at), b"x"));
            producer.cycle_end();
        }
        assert_eq!(consumer.take().unwrap().len(), 1);
        assert!(consumer.take().is_none(), "the others wait together");
        producer.cycle_end();
        assert_eq!(consumer.take().unwrap().len(), 2);
        assert!(producer.push(head(9), b"x"));
        assert!(!consumer.is_finished());
        drop(producer);
        assert!(!consumer.is_finished());
        assert_eq!(consumer.take().unwrap().len(), 1);
        assert!(consumer.is_finished());
    }

    #[test]
    fn sleepers_are_woken() {
        let bell = Arc::new(Bell::default());
        let (mut producer, mut consumer) = spool(2 * BATCH_BYTES, Arc::clone(&bell)).unwrap();
        let station = std::thread::spawn(move || {
            let mut seen = 0;
            while !consumer.is_finished() {
                match consumer.take() {
                    Some(batch) => {
                        seen += batch.len();
                        consumer.give_back(batch);
                    }
                    None => bell.sleep(Duration::from_secs(1), || consumer.is_empty() && !consumer.is_finished()),
                }
            }
            seen
        });
        for at in 0..1000 {
            // On a busy machine the other thread may not have had its turn yet.
            while !producer.push(head(at), b"datagram") {
                std::thread::sleep(Duration::from_millis(1));
            }
            producer.cycle_end();
            if at % 100 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(producer);
        assert_eq!(station.join().unwrap(), 1000);
    }
}

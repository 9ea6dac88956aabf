//! Owns: what inputs hand to the correlator, and the way there: batches in a channel that is bounded in bytes.
//! Does not: read or judge.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::event::Event;
use crate::sensors::Beat;

/// What comes in.
#[derive(Debug)]
pub enum Came {
    /// An event of somebody without a key.
    Event(Event),
    /// An alarm of a registered sensor, by its place in the list.
    Alarm {
        /// The sensor.
        sensor: usize,
        /// It.
        event: Event,
        /// When it was built, by the sensor's clock, ns.
        built_ns: i64,
    },
    /// A heartbeat of a registered sensor.
    Beat {
        /// The sensor.
        sensor: usize,
        /// It.
        beat: Beat,
    },
    /// What comes next was read from a stream that can be read again, by its number; it goes on with this offset.
    Read {
        /// The stream.
        stream: u64,
        /// The offset.
        next: i64,
    },
    /// A stream goes on elsewhere than it had come to.
    BeginsAgain {
        /// The stream.
        stream: u64,
        /// The offset.
        next: i64,
    },
    /// Whether the input has brought all that is there; else what comes is of the past, or its source is away.
    Current(bool),
}

impl Came {
    /// Bytes that it takes, near enough.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Event(event) | Self::Alarm { event, .. } => size_of::<Self>() - size_of::<Event>() + event.weight(),
            Self::Beat { .. } | Self::Read { .. } | Self::BeginsAgain { .. } | Self::Current(_) => size_of::<Self>(),
        }
    }
}

/// How much may wait.
#[derive(Debug)]
struct Room {
    /// Bytes that wait; `None` when nobody takes them any more.
    used: Mutex<Option<usize>>,
    freed: Condvar,
    most: usize,
}

/// The end of one or several threads that read.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    batches: mpsc::Sender<(Vec<Came>, usize)>,
    room: Arc<Room>,
}

/// The end of who takes it.
#[derive(Debug)]
pub(super) struct Receiver {
    batches: mpsc::Receiver<(Vec<Came>, usize)>,
    room: Arc<Room>,
}

/// A channel in which so many bytes may wait, and a batch more.
pub(super) fn channel(most: usize) -> (Sender, Receiver) {
    let (sender, receiver) = mpsc::channel();
    let room = Arc::new(Room { used: Mutex::new(Some(0)), freed: Condvar::new(), most });
    (Sender { batches: sender, room: Arc::clone(&room) }, Receiver { batches: receiver, room })
}

impl Sender {
    /// Hands a batch over once there is room; false: nobody takes it any more.
    pub(super) fn send(&self, batch: Vec<Came>) -> bool {
        let bytes = batch.iter().map(Came::weight).sum();
        let used = self.room.used.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |used: &mut Option<usize>| used.is_some_and(|used| used > 0 && used + bytes > self.room.most);
        let mut used = self.room.freed.wait_while(used, waits).unwrap_or_else(PoisonError::into_inner);
        let Some(used) = &mut *used else { return false };
        *used += bytes;
        self.batches.send((batch, bytes)).is_ok()
    }

    /// Hands a batch over if there is room for it now; else it comes back.
    pub(super) fn offer(&self, batch: Vec<Came>) -> Result<(), Vec<Came>> {
        let bytes: usize = batch.iter().map(Came::weight).sum();
        let mut used = self.room.used.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *used {
            Some(used) if *used == 0 || *used + bytes <= self.room.most => *used += bytes,
            _ => return Err(batch),
        }
        self.batches.send((batch, bytes)).map_err(|error| error.0.0)
    }
}

impl Receiver {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.room.used.lock().unwrap_or_else(PoisonError::into_inner).is_none_or(|used| used == 0)
    }

    /// The next batch.
    pub(super) fn recv_timeout(&self, wait: Duration) -> Result<Vec<Came>, RecvTimeoutError> {
        let (batch, bytes) = self.batches.recv_timeout(wait)?;
        let mut used = self.room.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.map(|used| used - bytes);
        self.room.freed.notify_all();
        Ok(batch)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        *self.room.used.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.room.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::input::parse::{Parser, Wanted};

    fn batch(bytes: usize) -> Vec<Came> {
        let line = format!(r#"{{"time":1,"text":"{}"}}"#, "x".repeat(bytes));
        vec![Came::Event(Parser::new(Wanted::Json, "in").event(line.as_bytes()).unwrap())]
    }

    #[test]
    fn long_lines_wait_in_few_bytes() {
        let (sender, receiver) = channel(100_000);
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let thread = std::thread::spawn(move || {
            // One beyond the bound goes alone.
            for bytes in [500_000, 10_000, 10_000, 10_000, 10_000, 10_000] {
                assert!(sender.send(batch(bytes)));
                counter.fetch_add(1, Ordering::SeqCst);
            }
            assert!(!sender.send(batch(10_000)) || !sender.send(batch(100_000)), "nobody is there");
        });
        let mut taken = 0;
        while taken < 6 {
            let batch = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
            taken += batch.len();
            let waiting = sent.load(Ordering::SeqCst).saturating_sub(taken);
            assert!(waiting <= 3, "{waiting}");
        }
        drop(receiver);
        thread.join().unwrap();
    }
}

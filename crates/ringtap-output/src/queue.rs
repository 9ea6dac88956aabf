//! Owns: the bounded queue between the data path and the thread that writes, and that thread.
//! Does not: know what is in the queue; the [`Work`] does.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap::{Error, Result};

/// How long the thread sleeps when there is nothing: nobody has to wake it, so the data path makes no system call.
const NAP: Duration = Duration::from_millis(2);
/// Outputs are looked after so often at least, also when there is always something.
const CARE: Duration = Duration::from_millis(100);
/// Most records of one producer before the next one's turn.
const TURN: usize = 256;
/// Stack of the thread that writes: a sensor locks all its memory, what nobody uses too.
const STACK_BYTES: usize = 512 << 10;

/// What the thread does with records.
pub trait Work<R>: Send + 'static {
    /// One record.
    fn record(&mut self, record: R);
    /// Nothing is there for the moment, or for 100 ms there was always something: time to flush, and to look at what others ask.
    fn idle(&mut self);
}

/// The end that the data path holds: one per engine.
#[derive(Debug)]
pub struct Producer<R> {
    queue: rtrb::Producer<R>,
    lost: Arc<AtomicU64>,
    /// Records pushed, as long as they are fewer than the queue has slots: these were used at least once.
    pushed: usize,
    used: Arc<AtomicUsize>,
}

impl<R> Producer<R> {
    /// Puts a record into the queue; if it is full, the record is lost and counted. Never waits.
    #[inline]
    pub fn push(&mut self, record: R) -> bool {
        let done = self.queue.push(record).is_ok();
        if !done {
            self.lost.store(self.lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else if self.pushed < self.queue.buffer().capacity() {
            self.pushed += 1;
            self.used.store(self.pushed, Ordering::Relaxed);
        }
        done
    }

    /// Shows the slots of a queue that was not used yet, and where it tells how many of them it has used at least once.
    pub fn show_spare(&mut self, show: impl FnOnce(&mut [MaybeUninit<R>], &Arc<AtomicUsize>)) {
        let slots = self.queue.slots();
        if let Ok(mut unused) = self.queue.write_chunk_uninit(slots) {
            let (memory, _) = unused.as_mut_slices();
            show(memory, &self.used);
        }
    }

    /// Puts a record into the queue and waits for room: for files, which can wait. If the thread has gone it is lost.
    pub fn push_waiting(&mut self, mut record: R) {
        while let Err(rtrb::PushError::Full(back)) = self.queue.push(record) {
            if self.queue.is_abandoned() {
                self.lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
            record = back;
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Where the records that were lost are counted.
    #[must_use]
    pub fn lost(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.lost)
    }
}

/// The thread that writes.
#[derive(Debug)]
pub struct Queue<W> {
    thread: JoinHandle<W>,
    stop: Arc<AtomicBool>,
}

impl<W> Queue<W> {
    /// Starts the thread, with `producers` ends of `slots` records each.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn start<R: Send + 'static>(producers: usize, slots: usize, mut work: W) -> Result<(Self, Vec<Producer<R>>)>
    where
        W: Work<R>,
    {
        let (mut ends, mut queues) = (Vec::new(), Vec::new());
        for _ in 0..producers {
            let (queue, consumer) = rtrb::RingBuffer::new(slots.max(1));
            ends.push(Producer { queue, lost: Arc::default(), pushed: 0, used: Arc::default() });
            queues.push(consumer);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("ringtap-output".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let mut cared_at = Instant::now();
                loop {
                    // Read before the queues: what was pushed before the stop is taken.
                    let last = stopped.load(Ordering::Acquire);
                    let mut any = false;
                    for queue in &mut queues {
                        for _ in 0..TURN {
                            let Ok(record) = queue.pop() else { break };
                            any = true;
                            work.record(record);
                        }
                    }
                    if any && cared_at.elapsed() < CARE {
                        continue;
                    }
                    work.idle();
                    cared_at = Instant::now();
                    if any {
                        continue;
                    }
                    if last {
                        return work;
                    }
                    std::thread::sleep(NAP);
                }
            })
            .map_err(|error| Error::os("start", "output thread", &error))?;
        Ok((Self { thread, stop }, ends))
    }

    /// Ends the thread once everything in the queues is written.
    ///
    /// # Errors
    /// It panicked.
    pub fn finish(self) -> Result<W> {
        self.stop.store(true, Ordering::Release);
        self.thread
            .join()
            .map_err(|_| Error::failed("end", "output thread", "it panicked").way_out("report this as a bug"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Collect(Vec<u32>, bool);

    impl Work<u32> for Collect {
        fn record(&mut self, record: u32) {
            if self.1 {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.0.push(record);
        }

        fn idle(&mut self) {}
    }

    #[test]
    fn everything_arrives_or_is_counted() {
        let (queue, mut ends) = Queue::start(1, 4, Collect(Vec::new(), true)).unwrap();
        let mut pushed = 0;
        for record in 0..100 {
            pushed += u64::from(ends[0].push(record));
        }
        let lost = ends[0].lost().load(Ordering::Relaxed);
        let work = queue.finish().unwrap();
        assert_eq!((work.0.len() as u64, pushed + lost), (pushed, 100));
        assert!(lost > 0);
    }

    /// Says how often it was idle, and takes its time.
    struct Busy(Arc<AtomicU64>);

    impl Work<u32> for Busy {
        fn record(&mut self, _: u32) {
            std::thread::sleep(Duration::from_millis(1));
        }

        fn idle(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn outputs_are_looked_after_though_the_queue_is_never_empty() {
        let idle = Arc::<AtomicU64>::default();
        let (queue, mut ends) = Queue::start(1, 4096, Busy(Arc::clone(&idle))).unwrap();
        // Room for a second's work: as long as some of it is left, the queue was never empty since the first record.
        (0..4096).for_each(|record| ends[0].push_waiting(record));
        let before = idle.load(Ordering::Relaxed);
        while idle.load(Ordering::Relaxed) == before {
            assert!(ends[0].queue.slots() < 4096, "all is written, and nothing was flushed in between");
            std::thread::sleep(Duration::from_millis(1));
        }
        queue.finish().unwrap();
    }

    #[test]
    fn waiting_loses_nothing() {
        let (queue, mut ends) = Queue::start(1, 4, Collect(Vec::new(), false)).unwrap();
        (0..1000).for_each(|record| ends[0].push_waiting(record));
        assert_eq!(queue.finish().unwrap().0, (0..1000).collect::<Vec<_>>());
    }
}

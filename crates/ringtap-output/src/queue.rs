//! Owns: the bounded queues between the data path and the thread that writes, and that thread. A record has a fixed size; bytes that go
//! with it have a ring beside the queue.
//! Does not: know what is in the queue; the [`Work`] does.
//!
//! The thread sleeps until it is woken: at the end of the data path's cycle in which records were pushed, by an atomic swap where it
//! is awake and one futex(2) call where it sleeps. (A thread that looked every 2 ms instead took 8 ms of CPU a second all the time.)

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use ringtap::{Error, Result};

/// Outputs are looked after so often at least, whether there is nothing or always something.
const CARE: Duration = Duration::from_millis(100);
/// Most records of one producer before the next one's turn; one with bytes counts as one more for each [`RECORD_BYTES`] of them.
const TURN: usize = 256;
const RECORD_BYTES: usize = 256;
/// Stack of the thread that writes: a sensor locks all its memory, what nobody uses too.
const STACK_BYTES: usize = 512 << 10;

/// What the thread does with records.
pub trait Work<R>: Send + 'static {
    /// One record, and the bytes that were pushed with it, one part behind the other.
    fn record(&mut self, record: R, bytes: &[u8]);
    /// Nothing is there for the moment, or for 100 ms there was always something: time to flush, and to look at what others ask.
    fn idle(&mut self);
}

/// How much may wait in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Records.
    pub slots: usize,
    /// Bytes that go with all of them.
    pub bytes: usize,
}

/// A record, and how many bytes go with it.
pub type Slot<R> = (R, u32);

/// The end that the data path holds.
#[derive(Debug)]
pub struct Producer<R> {
    queue: rtrb::Producer<Slot<R>>,
    bytes: rtrb::Producer<u8>,
    lost: Arc<AtomicU64>,
    /// Records and bytes pushed, as long as they are fewer than there is memory for: so much of it was used at least once.
    used: [Arc<AtomicUsize>; 2],
    /// Something was pushed since the last wake.
    pushed: bool,
    /// The thread that writes, once it runs.
    writer: Arc<OnceLock<Thread>>,
}

/// The end of the thread that writes.
struct Consumer<R> {
    queue: rtrb::Consumer<Slot<R>>,
    bytes: rtrb::Consumer<u8>,
    /// Bytes of a record in one piece.
    gathered: Vec<u8>,
}

impl<R> Producer<R> {
    /// Puts a record and its bytes into the queue; if there is no room for both, the record is lost and counted. Never waits and never
    /// calls the kernel: [`Producer::wake`] does, when the cycle ends.
    #[inline]
    pub fn push(&mut self, record: R, parts: &[&[u8]]) -> bool {
        let done = self.put(record, parts).is_ok();
        if !done {
            self.lost.store(self.lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        done
    }

    /// Whether so many bytes have room beside the records.
    #[must_use]
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes.slots() >= bytes
    }

    /// Gives the record back where there is no room.
    fn put(&mut self, record: R, parts: &[&[u8]]) -> Result<(), R> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let Ok(count) = u32::try_from(len) else { return Err(record) };
        if self.queue.is_full() {
            return Err(record);
        }
        if len > 0 {
            let Ok(mut chunk) = self.bytes.write_chunk(len) else { return Err(record) };
            let (mut first, mut second) = chunk.as_mut_slices();
            for part in parts {
                let (head, tail) = part.split_at(part.len().min(first.len()));
                let filled = std::mem::take(&mut first).split_at_mut(head.len());
                filled.0.copy_from_slice(head);
                first = filled.1;
                let filled = std::mem::take(&mut second).split_at_mut(tail.len());
                filled.0.copy_from_slice(tail);
                second = filled.1;
            }
            chunk.commit_all();
        }
        let Self { queue, bytes, used, .. } = self;
        for (used, (new, capacity)) in
            used.iter().zip([(1, queue.buffer().capacity()), (len, bytes.buffer().capacity())])
        {
            let now = used.load(Ordering::Relaxed);
            if now < capacity {
                used.store((now + new).min(capacity), Ordering::Relaxed);
            }
        }
        self.pushed = true;
        // Only we push, and there was room.
        queue.push((record, count)).map_err(|rtrb::PushError::Full((record, _))| record)
    }

    /// Shows the slots of a queue that was not used yet, and where it tells how many of them it has used at least once.
    pub fn show_spare_slots(&mut self, show: impl FnOnce(&mut [MaybeUninit<Slot<R>>], &Arc<AtomicUsize>)) {
        let slots = self.queue.slots();
        if let Ok(mut unused) = self.queue.write_chunk_uninit(slots) {
            show(unused.as_mut_slices().0, &self.used[0]);
        }
    }

    /// The same of the memory for bytes.
    pub fn show_spare_bytes(&mut self, show: impl FnOnce(&mut [MaybeUninit<u8>], &Arc<AtomicUsize>)) {
        let slots = self.bytes.slots();
        if let Ok(mut unused) = self.bytes.write_chunk_uninit(slots) {
            show(unused.as_mut_slices().0, &self.used[1]);
        }
    }

    /// Puts a record and its bytes into the queue and waits for room: for files, which can wait. If the thread has gone, or the queue
    /// could never hold it, it is lost.
    pub fn push_waiting(&mut self, mut record: R, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        while let Err(back) = self.put(record, parts) {
            if self.queue.is_abandoned() || len > self.bytes.buffer().capacity() {
                self.lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
            record = back;
            self.wake();
            std::thread::sleep(Duration::from_micros(100));
        }
        self.wake();
    }

    /// Wakes the thread that writes if something was pushed since: to be called at the end of each cycle, and in long ones now and then.
    /// What is pushed before the thread is there is found by its first look.
    pub fn wake(&mut self) {
        if std::mem::take(&mut self.pushed)
            && let Some(writer) = self.writer.get()
        {
            writer.unpark();
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
    /// Starts the thread, with a producer for each of these `rooms`.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn start<R: Send + 'static>(rooms: &[Room], work: W) -> Result<(Self, Vec<Producer<R>>)>
    where
        W: Work<R>,
    {
        let writer = Arc::default();
        let (ends, queues) = rooms.iter().map(|&room| ends(room, &writer)).unzip();
        Ok((Self::run(queues, None, &writer, work)?, ends))
    }

    /// As [`Queue::start`], with one more end for `marks` records, each of which comes after all that is in the others when it is put in.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn start_marked<R: Send + 'static>(
        rooms: &[Room],
        marks: usize,
        work: W,
    ) -> Result<(Self, Vec<Producer<R>>, Producer<R>)>
    where
        W: Work<R>,
    {
        let writer = Arc::default();
        let (all, queues) = rooms.iter().map(|&room| ends(room, &writer)).unzip();
        let (mark, marks) = ends(Room { slots: marks, bytes: 0 }, &writer);
        Ok((Self::run(queues, Some(marks), &writer, work)?, all, mark))
    }

    fn run<R: Send + 'static>(
        mut queues: Vec<Consumer<R>>,
        mut marks: Option<Consumer<R>>,
        writer: &OnceLock<Thread>,
        mut work: W,
    ) -> Result<Self>
    where
        W: Work<R>,
    {
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
                    let any = turn(&mut queues, marks.as_mut(), &mut work);
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
                    std::thread::park_timeout(CARE);
                }
            })
            .map_err(|error| Error::os("start", "output thread", &error))?;
        writer.get_or_init(|| thread.thread().clone());
        Ok(Self { thread, stop })
    }

    /// Ends the thread once everything in the queues is written.
    ///
    /// # Errors
    /// It panicked.
    pub fn finish(self) -> Result<W> {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread
            .join()
            .map_err(|_| Error::failed("end", "output thread", "it panicked").way_out("report this as a bug"))
    }
}

/// Both ends of a queue.
fn ends<R>(room: Room, writer: &Arc<OnceLock<Thread>>) -> (Producer<R>, Consumer<R>) {
    let (queue, records) = rtrb::RingBuffer::new(room.slots.max(1));
    let (bytes, read) = rtrb::RingBuffer::new(room.bytes);
    let (lost, used, writer) = (Arc::default(), Default::default(), Arc::clone(writer));
    let producer = Producer { queue, bytes, lost, used, pushed: false, writer };
    (producer, Consumer { queue: records, bytes: read, gathered: Vec::new() })
}

impl<R> Consumer<R> {
    /// Hands on the next record, if there is one; how many bytes went with it.
    fn next(&mut self, work: &mut impl Work<R>) -> Option<usize> {
        let (record, len) = self.queue.pop().ok()?;
        // They were put in before the record.
        let Some(chunk) = (len > 0).then(|| self.bytes.read_chunk(len as usize).ok()).flatten() else {
            work.record(record, &[]);
            return Some(0);
        };
        let (first, second) = chunk.as_slices();
        if second.is_empty() {
            work.record(record, first);
        } else {
            self.gathered.clear();
            self.gathered.extend_from_slice(first);
            self.gathered.extend_from_slice(second);
            work.record(record, &self.gathered);
        }
        chunk.commit_all();
        Some(len as usize)
    }

    /// Hands on what is in the queue, a turn at most; how much of it there was.
    fn take_turn(&mut self, work: &mut impl Work<R>) -> usize {
        let mut taken = 0;
        while taken < TURN
            && let Some(bytes) = self.next(work)
        {
            taken += 1 + bytes / RECORD_BYTES;
        }
        taken
    }
}

/// Hands on some of what is in each queue, and a mark after all that came before it; whether anything was.
fn turn<R, W: Work<R>>(queues: &mut [Consumer<R>], marks: Option<&mut Consumer<R>>, work: &mut W) -> bool {
    let taken: usize = queues.iter_mut().map(|queue| queue.take_turn(work)).sum();
    let Some((mark, _)) = marks.and_then(|marks| marks.queue.pop().ok()) else { return taken > 0 };
    for queue in queues {
        let there = queue.queue.slots();
        (0..there).map_while(|_| queue.next(work)).for_each(drop);
    }
    work.record(mark, &[]);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Room = Room { slots: 4, bytes: 0 };
    const LARGE: Room = Room { slots: 4096, bytes: 0 };

    struct Collect(Vec<u32>, bool);

    impl Work<u32> for Collect {
        fn record(&mut self, record: u32, _: &[u8]) {
            if self.1 {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.0.push(record);
        }

        fn idle(&mut self) {}
    }

    #[test]
    fn everything_arrives_or_is_counted() {
        let (queue, mut ends) = Queue::start(&[SMALL], Collect(Vec::new(), true)).unwrap();
        let mut pushed = 0;
        for record in 0..100 {
            pushed += u64::from(ends[0].push(record, &[]));
        }
        let lost = ends[0].lost().load(Ordering::Relaxed);
        let work = queue.finish().unwrap();
        assert_eq!((work.0.len() as u64, pushed + lost), (pushed, 100));
        assert!(lost > 0);
    }

    /// Says how often it was idle, and takes its time.
    struct Busy(Arc<AtomicU64>);

    impl Work<u32> for Busy {
        fn record(&mut self, _: u32, _: &[u8]) {
            std::thread::sleep(Duration::from_millis(1));
        }

        fn idle(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that come one by one, each after the thread went to sleep: a lost wake-up would take them 100 ms each. Counted,
    /// not timed: the thread looks after its outputs once for each record, and hardly ever without one.
    #[test]
    fn the_thread_sleeps_until_a_record_comes() {
        struct Counted(Arc<AtomicU64>, Arc<AtomicU64>);
        impl Work<u32> for Counted {
            fn record(&mut self, _: u32, _: &[u8]) {
                self.0.fetch_add(1, Ordering::Release);
            }

            fn idle(&mut self) {
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (taken, idle) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (queue, mut ends) = Queue::start(&[SMALL], Counted(Arc::clone(&taken), Arc::clone(&idle))).unwrap();
        let began = Instant::now();
        for number in 1..=200 {
            assert!(ends[0].push(number, &[]));
            ends[0].wake();
            while taken.load(Ordering::Acquire) < number.into() {
                std::thread::yield_now();
            }
        }
        // Looks without a record: what the time that it took allows, and one for each wake-up that came late.
        let unasked = began.elapsed().as_millis() / CARE.as_millis();
        queue.finish().unwrap();
        let looks = u128::from(idle.load(Ordering::Relaxed));
        assert!(looks <= 2 * 200 + unasked + 2, "{looks} looks, {unasked} of them unasked");
        // Each lost wake-up would be a whole nap: 200 of them 20 s.
        assert!(unasked < 100, "{unasked} naps for 200 records");
    }

    #[test]
    fn outputs_are_looked_after_though_the_queue_is_never_empty() {
        let idle = Arc::<AtomicU64>::default();
        let (queue, mut ends) = Queue::start(&[LARGE], Busy(Arc::clone(&idle))).unwrap();
        // Room for a second's work: as long as some of it is left, the queue was never empty since the first record.
        (0..4096).for_each(|record| ends[0].push_waiting(record, &[]));
        let before = idle.load(Ordering::Relaxed);
        while idle.load(Ordering::Relaxed) == before {
            assert!(ends[0].queue.slots() < 4096, "all is written, and nothing was flushed in between");
            std::thread::sleep(Duration::from_millis(1));
        }
        queue.finish().unwrap();
    }

    /// A few large records of one producer must not make the others wait for hundreds of them.
    #[test]
    fn a_turn_counts_what_goes_with_records() {
        const BYTES: usize = 4096;
        let writer = Arc::default();
        let (mut large, mut logs) = ends(Room { slots: 512, bytes: 512 * BYTES }, &writer);
        let (mut small, mut alerts) = ends(LARGE, &writer);
        (0..512).for_each(|_| assert!(large.push(0, &[&[b'.'; BYTES]])));
        (0..512).for_each(|_| assert!(small.push(1, &[])));
        let mut work = Collect(Vec::new(), false);
        assert!(logs.take_turn(&mut work) >= TURN && alerts.take_turn(&mut work) >= TURN);
        let of_large = work.0.iter().filter(|record| **record == 0).count();
        assert_eq!((of_large, work.0.len() - of_large), (TURN.div_ceil(1 + BYTES / RECORD_BYTES), TURN));
    }

    #[test]
    fn a_mark_comes_after_what_was_there_before() {
        let (queue, mut ends, mut marks) = Queue::start_marked(&[LARGE; 2], 4096, Collect(Vec::new(), false)).unwrap();
        for round in 0..200 {
            // More than a turn, so that some of it is left when the mark's turn comes.
            for number in 0..600 {
                ends[number % 2].push_waiting(round * 2, &[]);
            }
            marks.push_waiting(round * 2 + 1, &[]);
        }
        let got = queue.finish().unwrap().0;
        assert_eq!(got.len(), 200 * 601);
        for (at, odd) in got.iter().enumerate().filter(|(_, number)| **number % 2 == 1) {
            assert!(got[at..].iter().all(|later| *later > *odd || later % 2 == 1), "{odd} came too early");
        }
    }

    #[test]
    fn waiting_loses_nothing() {
        let (queue, mut ends) = Queue::start(&[SMALL], Collect(Vec::new(), false)).unwrap();
        (0..1000).for_each(|record| ends[0].push_waiting(record, &[]));
        assert_eq!(queue.finish().unwrap().0, (0..1000).collect::<Vec<_>>());
    }

    /// Holds each record against its bytes.
    struct Held(u64);

    impl Work<u32> for Held {
        fn record(&mut self, record: u32, bytes: &[u8]) {
            assert_eq!(bytes, vec![record as u8; record as usize % 50], "{record}");
            self.0 += 1;
        }

        fn idle(&mut self) {}
    }

    #[test]
    fn bytes_go_with_their_records_round_the_ring() {
        let room = Room { slots: 8, bytes: 101 };
        let (queue, mut ends) = Queue::start(&[room], Held(0)).unwrap();
        for record in 0..2000u32 {
            let bytes = vec![record as u8; record as usize % 50];
            let (first, second) = bytes.split_at(bytes.len() / 3);
            ends[0].push_waiting(record, &[first, second]);
        }
        // More than there will ever be room for.
        ends[0].push_waiting(1, &[&[0; 102]]);
        assert_eq!((queue.finish().unwrap().0, ends[0].lost().load(Ordering::Relaxed)), (2000, 1));
    }

    #[test]
    fn a_record_whose_bytes_find_no_room_is_lost_alone() {
        let slow = Collect(Vec::new(), true);
        let (queue, mut ends) = Queue::start(&[Room { slots: 64, bytes: 10 }], slow).unwrap();
        assert!(!ends[0].push(1, &[b"eleven bytes"]) && ends[0].push(2, &[b"two"]) && ends[0].push(3, &[]));
        assert_eq!((queue.finish().unwrap().0, ends[0].lost().load(Ordering::Relaxed)), (vec![2, 3], 1));
    }
}

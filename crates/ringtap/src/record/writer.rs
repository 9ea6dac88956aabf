//! The writer thread: takes packets from the spools, gives them wall-clock stamps, and hands them to the output.
//!
//! Owns the recording's thread, its rhythm, and the order across spools. It decides nothing about files.
//!
//! **Rhythm.** While packets come, the thread naps 40 ms between passes and everything is written by the end of each, so
//! that a reader sees packets within about 0.1 s and the thread wakes at most 50 times a second. After a pass
//! that found nothing it sleeps until an engine's [`SpoolProducer::wake`]: an idle recording wakes nobody.
//!
//! **Order.** The order of each spool is kept. Across spools the packet with the earliest stamp goes first, and the newest
//! 10 ms wait for the next pass, since another engine thread may yet deliver something older. Packets that come later than
//! that, or while a spool is more than half full, may be out of order; readers sort them by their stamps.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::clients::{Clients, ClientsSeen};
use super::output::{Output, Progress};
use super::spool::{Head, Refused, Rest, Spool, SpoolConsumer, SpoolProducer};
use super::{FinalCounts, InterfaceInfo, Lost, RecordConfig, RecordSummary};
use crate::error::{Error, Result};
use crate::source::StampClock;
use crate::sys::{available, clock, disk, sched};

/// Distance between passes while packets come.
const NAP: Duration = Duration::from_millis(40);

/// How long a packet waits for older ones from other spools.
const SETTLE_NS: u64 = 10_000_000;

/// Difference between two readings of the clocks' offset below which it is the reading's own error.
const OFFSET_NOISE_NS: u64 = 1000;

/// What the writer thread leaves behind.
type Ending = (Vec<std::path::PathBuf>, u64, Option<Error>);

/// A running recording. Dropping it ends it as [`Recorder::finish`] does, without a word.
#[derive(Debug)]
pub struct Recorder {
    thread: Option<JoinHandle<Ending>>,
    rest: Arc<Rest>,
    refused: Vec<Arc<Refused>>,
    progress: Arc<Progress>,
    clients: Option<ClientsSeen>,
}

impl Recorder {
    /// Creates the first file and starts the writer thread (`ringtap-writer`). Returns a spool for each engine thread.
    ///
    /// The thread inherits scheduling policy and CPUs of the caller: start recordings before going real-time.
    ///
    /// # Errors
    /// A configuration that makes no sense, too little memory for the spools, a target that cannot be written, a CPU that
    /// this process may not use.
    pub fn start(config: RecordConfig, interfaces: Vec<InterfaceInfo>) -> Result<(Self, Vec<SpoolProducer>)> {
        config.check(&interfaces)?;
        check_memory(&config)?;
        disk::outlive_size_limit();
        if let Some(cpu) = config.cpu
            && !sched::allowed_cpus().contains(&cpu)
        {
            return Err(Error::usage("bind the writer thread to", format!("CPU {cpu}"), "this process may not use it")
                .way_out(format!("choose among {}", sched::listed(&sched::allowed_cpus()))));
        }
        let clocks: Vec<StampClock> = interfaces.iter().map(|interface| interface.stamp_clock).collect();
        let count = interfaces.len() as u16;
        // Taken before a file is created: an address that is in use leaves no trace.
        let (link_type, snaplen) = (interfaces[0].link_type, interfaces.iter().map(|interface| interface.snaplen));
        let snaplen = if snaplen.clone().any(|snaplen| snaplen == 0) { 0 } else { snaplen.max().unwrap_or(0) };
        let clients = config.serve.map(|address| Clients::listen(address, link_type, snaplen)).transpose()?;
        let seen = clients.as_ref().map(Clients::seen);
        let output = Output::create(&config, interfaces)?;
        let (spools, consumers): (Vec<Spool>, Vec<SpoolConsumer>) =
            (0..config.spools).map(|_| Spool::new(config.spool_bytes)).unzip();
        let refused = spools.iter().map(Spool::refused).collect();
        let rest = Arc::new(Rest::default());
        let progress = output.progress();
        let writer = Writer {
            spools: consumers,
            output,
            clients,
            clocks,
            offset_ns: clock::monotonic_to_realtime_ns(),
            rest: Arc::clone(&rest),
        };
        let cpu = config.cpu;
        let thread = std::thread::Builder::new()
            .name("ringtap-writer".to_owned())
            .spawn(move || {
                if let Some(cpu) = cpu {
                    // The CPU was there a moment ago; should it have gone offline, any other will do.
                    let _ = sched::set_affinity(0, cpu);
                }
                writer.run()
            })
            .map_err(|error| Error::os("start", "the writer thread", &error).way_out("raise the limit of threads"))?;
        let producers = spools.into_iter().map(|spool| spool.into_producer(&rest, thread.thread(), count)).collect();
        Ok((Self { thread: Some(thread), rest, refused, progress, clients: seen }, producers))
    }

    /// What could not be recorded so far. Readable at any time, from any thread that has the recorder.
    pub fn lost(&self) -> Lost {
        let (spool_packets, spool_bytes) = self
            .refused
            .iter()
            .map(|refused| refused.read())
            .fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
        Lost {
            spool_packets,
            spool_bytes,
            output_packets: self.progress.lost_packets.load(Ordering::Relaxed),
            output_bytes: self.progress.lost_bytes.load(Ordering::Relaxed),
        }
    }

    /// Packets that each spool could not take so far, in the order of the spools.
    pub fn lost_by_spool(&self) -> Vec<u64> {
        self.refused.iter().map(|refused| refused.read().0).collect()
    }

    /// Packets written so far.
    pub fn packets(&self) -> u64 {
        self.progress.packets.load(Ordering::Relaxed)
    }

    /// Bytes written so far, headers included.
    pub fn bytes(&self) -> u64 {
        self.progress.bytes.load(Ordering::Relaxed)
    }

    /// Path of the file being written (the last one, after a failure), or `standard output`.
    pub fn file(&self) -> Option<String> {
        self.progress.file()
    }

    /// Why writing ended, if it did; the recording goes on counting.
    pub fn error(&self) -> Option<Error> {
        self.progress.error()
    }

    /// Whether the file being written is no longer at its path: moved away, as logrotate(8) does, or deleted.
    pub fn has_moved(&self) -> bool {
        self.progress.has_moved()
    }

    /// Finishes a file that was moved away and begins a new one at its path, with its own headers. A file that is still
    /// there is left alone.
    pub fn reopen(&self) {
        self.progress.ask_reopen();
        if let Some(thread) = &self.thread {
            self.rest.stir(thread.thread());
        }
    }

    /// Gives the counts so far, for the statistics blocks of files that rotation closes.
    pub fn set_counts(&self, counts: Vec<FinalCounts>) {
        self.progress.set_counts(counts);
    }

    /// Writes what was pushed until now, closes the file with `counts`, and ends the thread.
    ///
    /// What the producers push from now on is written nowhere. Blocks as long as the disk, or the reader of a pipe, does.
    ///
    /// # Errors
    /// The writer thread panicked. A failed write is no error here: see [`RecordSummary::error`].
    pub fn finish(mut self, counts: Vec<FinalCounts>) -> Result<RecordSummary> {
        self.set_counts(counts);
        let (files, deleted, undeleted) = self.end().ok_or_else(|| {
            Error::failed("record", "", "the writer thread panicked")
                .way_out("the file is readable up to its last block")
        })?;
        Ok(RecordSummary {
            files,
            deleted,
            packets: self.packets(),
            bytes: self.bytes(),
            plain_bytes: self.progress.plain_bytes.load(Ordering::Relaxed),
            lost: self.lost(),
            clients: self.clients.as_ref().map(ClientsSeen::counts),
            error: self.error().or(undeleted),
        })
    }

    fn end(&mut self) -> Option<Ending> {
        let thread = self.thread.take()?;
        self.rest.finish(thread.thread());
        thread.join().ok()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.end();
    }
}

/// Overcommit would let the allocation succeed and touching it bring in the OOM killer.
fn check_memory(config: &RecordConfig) -> Result<()> {
    let wanted = config.spools as u64 * config.spool_bytes as u64;
    match available::available_memory_bytes() {
        Some(available) if wanted > available => Err(Error::failed(
            "set aside",
            "memory for spools",
            format!("{} MiB asked for, {} MiB available", wanted >> 20, available >> 20),
        )
        .way_out("use a smaller spool")),
        _ => Ok(()),
    }
}

struct Writer {
    spools: Vec<SpoolConsumer>,
    output: Output,
    clients: Option<Clients>,
    /// Of each interface.
    clocks: Vec<StampClock>,
    /// What makes a monotonic stamp a wall-clock one.
    offset_ns: i64,
    rest: Arc<Rest>,
}

impl Writer {
    fn run(mut self) -> Ending {
        loop {
            // Asked before the pass: what was pushed before the recording was ended is in the spools by now.
            let finishing = self.rest.is_finishing();
            let moved = self.pass(finishing);
            self.output.flush();
            self.clients.iter_mut().for_each(Clients::flush);
            self.output.reopen_if_asked();
            if finishing {
                // Also before the disk has all.
                drop(self.clients.take());
                return self.output.finish();
            }
            let is_idle = || self.spools.iter().all(SpoolConsumer::is_empty);
            let nap = (moved || !is_idle()).then_some(NAP);
            if !self.spools.iter().any(SpoolConsumer::is_pressed) {
                self.rest.sleep(nap, is_idle);
            }
        }
    }

    /// Writes what is in the spools, the earliest first; returns whether there was anything.
    fn pass(&mut self, finishing: bool) -> bool {
        self.sample_offset();
        let now = clock::realtime_ns();
        let settles = self.spools.len() > 1 && !finishing && !self.spools.iter().any(SpoolConsumer::is_pressed);
        self.spools.iter_mut().for_each(SpoolConsumer::begin_pass);
        let mut moved = false;
        while let Some((index, head, stamp_ns)) = self.earliest() {
            // A stamp far from the present comes of a clock that was set: nothing would be gained by waiting.
            if settles && self.clock(head) != StampClock::Recorded && stamp_ns.abs_diff(now) < SETTLE_NS {
                break;
            }
            let stamp_ns = if stamp_ns == 0 && self.clock(head) != StampClock::Recorded { now } else { stamp_ns };
            let (output, clients) = (&mut self.output, &mut self.clients);
            self.spools[index].take(head, |first, second| {
                output.packet(head.interface, stamp_ns, head.wire_len, (first, second));
                clients.iter_mut().for_each(|it| it.packet(stamp_ns, head.wire_len, (first, second)));
            });
            moved = true;
        }
        moved
    }

    /// The spool whose next packet has the earliest stamp, with that stamp as wall-clock time; without a stamp: 0.
    fn earliest(&mut self) -> Option<(usize, Head, u64)> {
        let mut earliest: Option<(usize, Head, u64)> = None;
        for index in 0..self.spools.len() {
            let Some(head) = self.spools[index].peek() else { continue };
            let stamp_ns = self.wall_ns(head);
            if earliest.is_none_or(|(_, _, other)| stamp_ns < other) {
                earliest = Some((index, head, stamp_ns));
            }
        }
        earliest
    }

    fn clock(&self, head: Head) -> StampClock {
        // `push` refused other numbers.
        self.clocks.get(usize::from(head.interface)).copied().unwrap_or(StampClock::Realtime)
    }

    fn wall_ns(&self, head: Head) -> u64 {
        match self.clock(head) {
            StampClock::Monotonic if head.arrival_ns != 0 => head.arrival_ns.saturating_add_signed(self.offset_ns),
            _ => head.arrival_ns,
        }
    }

    /// Follows the wall clock as it is adjusted, but not the error of reading it, which would disorder stamps.
    fn sample_offset(&mut self) {
        let offset_ns = clock::monotonic_to_realtime_ns();
        if offset_ns.abs_diff(self.offset_ns) > OFFSET_NOISE_NS {
            self.offset_ns = offset_ns;
        }
    }
}

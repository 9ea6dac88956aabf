//! The last packets of one engine: kept in memory, and written when that is asked for (`--keep`).
//!
//! Owns when they are let go and when they go to the writer: a step in each of the engine's turns, as far as the spool has room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringtap::clock;
use ringtap::record::{Recent, RecentPacket, SpoolProducer};
use ringtap::source::StampClock;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepLast {
    /// So old a packet is when it is let go.
    pub age: Duration,
    /// Memory of each engine, bytes.
    pub bytes: usize,
    /// What is in memory at the end is written, too.
    pub at_end: bool,
}

/// Bytes that go to the writer in one turn: some tenths of a millisecond.
const STEP: usize = 1 << 20;
/// How soon an engine without packets sees that it is asked, and how soon it goes on.
const SOON: Duration = Duration::from_millis(50);
const AGAIN: Duration = Duration::from_millis(1);

/// How many packets the engines' memories have let go and hold. Written by one engine each, read by anyone.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) packets: AtomicU64,
    pub(crate) aged: AtomicU64,
    pub(crate) pushed_out: AtomicU64,
}

/// How often writing was asked for, by the main thread.
#[derive(Debug, Default)]
pub(crate) struct Asked(AtomicU64);

impl Asked {
    pub(crate) fn ask(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// One engine's.
pub(crate) struct Last {
    recent: Recent,
    age_ns: u64,
    stamps: StampClock,
    asked: Arc<Asked>,
    /// Times that were answered.
    answered: u64,
    /// Of the packets there were then, so many are to be written; 0: none.
    due: u64,
    held: Arc<Held>,
}

impl Last {
    pub(crate) fn new(recent: Recent, age: Duration, stamps: StampClock, asked: Arc<Asked>) -> Self {
        let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        Self { recent, age_ns, stamps, asked, answered: 0, due: 0, held: Arc::default() }
    }

    pub(crate) fn held(&self) -> Arc<Held> {
        Arc::clone(&self.held)
    }

    fn now_ns(&self) -> u64 {
        match self.stamps {
            StampClock::Monotonic => clock::monotonic_ns(),
            _ => clock::realtime_ns(),
        }
    }

    /// Keeps a packet.
    pub(crate) fn push(&mut self, packet: RecentPacket<'_>) {
        let arrival_ns = if packet.arrival_ns == 0 { self.now_ns() } else { packet.arrival_ns };
        // What is to be written is not let go meanwhile, unless there is no room.
        if self.due == 0 {
            self.recent.let_go_before(arrival_ns.saturating_sub(self.age_ns));
        }
        let before = self.recent.counts().pushed_out;
        self.recent.push(RecentPacket { arrival_ns, ..packet });
        self.due = self.due.saturating_sub(self.recent.counts().pushed_out - before);
    }

    /// A turn: sees whether it is asked, and writes on; tells what is held.
    pub(crate) fn turn(&mut self, spool: &mut SpoolProducer) {
        let asked = self.asked.0.load(Ordering::Relaxed);
        if asked != self.answered {
            self.answered = asked;
            self.recent.let_go_before(self.now_ns().saturating_sub(self.age_ns));
            self.due = self.recent.len();
        }
        let mut bytes = 0;
        while self.due > 0 && bytes < STEP {
            let Some(oldest) = self.recent.oldest() else { break };
            let len = oldest.data.0.len() + oldest.data.1.len();
            if !spool.has_room(len) && spool.will_have_room(len) {
                break;
            }
            bytes += len;
            // What never fits, or nobody writes any more, is counted as lost here.
            spool.push_recent(oldest);
            self.recent.take();
            self.due -= 1;
        }
        let counts = self.recent.counts();
        self.held.packets.store(self.recent.len(), Ordering::Relaxed);
        self.held.aged.store(counts.aged, Ordering::Relaxed);
        self.held.pushed_out.store(counts.pushed_out, Ordering::Relaxed);
    }

    /// The engine has ended: writes what was asked for before, or, if `all`, what there is, and waits for room.
    pub(crate) fn finish(&mut self, spool: &mut SpoolProducer, all: bool) {
        if all {
            self.asked.ask();
        }
        self.turn(spool);
        while self.due > 0 {
            spool.wake();
            std::thread::sleep(AGAIN);
            self.turn(spool);
        }
    }

    /// When the engine is to have a turn without packets.
    pub(crate) fn next_turn(&self) -> Duration {
        if self.due > 0 { AGAIN } else { SOON }
    }
}

#[cfg(test)]
mod tests {
    use ringtap::record::{InterfaceInfo, RecordConfig, Recorder};

    use super::*;

    /// What an empty spool could not hold either is counted as lost and keeps nothing behind it from the file.
    #[test]
    fn a_packet_that_never_fits_ends_neither_the_rest_nor_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let config = RecordConfig { spool_bytes: 64 << 10, ..RecordConfig::new(folder.path().join("last.pcapng")) };
        let (recorder, mut spools) =
            Recorder::start(config, vec![InterfaceInfo::ethernet("memory", StampClock::Realtime)]).unwrap();
        let age = Duration::from_secs(60);
        let mut last = Last::new(Recent::new(1 << 20).unwrap(), age, StampClock::Realtime, Arc::default());
        for len in [100, 100_000, 200] {
            let data = vec![b'.'; len];
            last.push(RecentPacket { interface: 0, arrival_ns: 0, wire_len: len as u32, tag: 0, data: (&data, &[]) });
        }
        last.finish(&mut spools[0], true);
        assert_eq!((last.due, last.recent.len()), (0, 0));
        assert_eq!(spools[0].lost(), (1, 100_000));
        drop(spools);
        assert_eq!(recorder.finish(Vec::new()).unwrap().packets, 2);
    }
}

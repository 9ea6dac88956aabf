//! What the engine's thread does with each packet: count it, cut it, copy it into the spool, or into the memory of the last ones.
//!
//! Owns the innermost handler; the filter is around it. No allocation, lock, or system call, except one futex when a limit
//! is reached or the writer has to be woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::record::{RecentPacket, SpoolProducer};
use ringtap::transmit::Outbox;

use crate::accounts::{Counts, add};
use crate::last::Last;
use crate::supervise::EngineEvents;
use ringtap_run::filter::Filtered;

/// The whole handler of a capture.
pub(crate) type Whole = Filtered<Keep>;

/// What to do with packets the filter let through.
pub(crate) struct Keep {
    /// Number of the device in the file.
    pub(crate) interface: u16,
    /// Bytes to keep of each.
    pub(crate) snaplen: usize,
    /// Where they go, if anywhere.
    pub(crate) spool: Option<SpoolProducer>,
    /// They go there only when that is asked for; until then they are in memory.
    pub(crate) last: Option<Last>,
    /// The packets are a file's, which can wait for room in the spool.
    pub(crate) from_file: bool,
    pub(crate) counts: Arc<Counts>,
    pub(crate) limit: Option<Arc<Limit>>,
    /// Tells the main thread when this one panics.
    pub(crate) _watch: PanicWatch,
}

/// The number of packets all engines together may keep.
pub(crate) struct Limit {
    most: u64,
    taken: AtomicU64,
    events: Arc<EngineEvents>,
}

impl Limit {
    pub(crate) fn new(most: u64, events: Arc<EngineEvents>) -> Self {
        Self { most, taken: AtomicU64::new(0), events }
    }

    /// Whether one more may be kept; the one that fills the number tells the main thread.
    fn take(&self) -> bool {
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        if before + 1 == self.most {
            self.events.limit_reached();
        }
        before < self.most
    }
}

/// Tells the main thread when the engine that owns it panics.
pub(crate) struct PanicWatch(pub(crate) Arc<EngineEvents>);

impl Drop for PanicWatch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.engine_panicked();
        }
    }
}

impl Keep {
    /// The engine has ended: what was asked for of the memory is written, or, if `all`, what is in it.
    pub(crate) fn finish_last(&mut self, all: bool) {
        if let (Some(spool), Some(last)) = (&mut self.spool, &mut self.last) {
            last.finish(spool, all);
        }
    }
}

impl Handler for Keep {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        if self.limit.as_ref().is_some_and(|limit| !limit.take()) {
            add(&self.counts.over_limit, 1);
            return;
        }
        add(&self.counts.packets, 1);
        add(&self.counts.bytes, packet.wire_len.into());
        let data = &packet.data[..packet.data.len().min(self.snaplen)];
        // What does not fit is counted by the spool.
        let is_kept = match (&mut self.spool, &mut self.last) {
            (Some(_), Some(last)) => {
                let (arrival_ns, wire_len) = (packet.arrival_ns, packet.wire_len);
                last.push(RecentPacket { interface: self.interface, arrival_ns, wire_len, tag: 0, data: (data, &[]) });
                true
            }
            (Some(spool), None) if self.from_file => {
                spool.push_blocking(self.interface, packet.arrival_ns, packet.wire_len, data)
            }
            (Some(spool), None) => spool.push(self.interface, packet.arrival_ns, packet.wire_len, data),
            (None, _) => true,
        };
        if data.len() < packet.wire_len as usize && is_kept {
            add(&self.counts.cut, 1);
            if self.from_file && packet.data.len() < packet.wire_len as usize {
                add(&self.counts.cut_before, 1);
            }
        }
    }

    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {
        if let Some(spool) = &mut self.spool {
            if let Some(last) = &mut self.last {
                last.turn(spool);
            }
            spool.wake();
        }
    }

    fn next_turn(&self) -> Option<Duration> {
        self.last.as_ref().map(Last::next_turn)
    }
}

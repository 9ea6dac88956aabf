//! The bounded way from a receiving thread to the one that judges: datagrams in memory that was set aside at the start.
//!
//! Owns the blocks of memory, who may still look into them, and the count of what does not fit. A datagram is copied once, into the block
//! that is being filled; from there on batches, and rows that wait for the disk, look at it where it lies, and a block is filled again when
//! nobody looks into it any more. On the receiving side no allocation, no lock, and a system call only to wake a sleeper.
//!
//! A batch goes over when its block is full, or at the end of a cycle when nothing else waits: so few packets wait alone and a storm fills
//! memory densely.
//!
//! ```text
//!  receiving thread                 judging thread                writing thread
//!  block ◀─ datagram (copied)
//!    │ split: bytes so far ──▶ Batch ── keep ──▶ Kept, in a job ──▶ on the disk: dropped
//!  used blocks ◀──────────────── nobody looks into them any more ────────┘
//! ```

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ringtap::{Error, Result};
use rtrb::chunks::ReadChunk;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::waker::Waker;

/// Bytes of one block.
pub const BLOCK_BYTES: usize = 256 << 10;
/// Datagrams for which there is room, for each block.
const BLOCK_DATAGRAMS: usize = 2048;

/// How soon the receiving side looks again whether what it holds can go over.
pub(crate) const AGAIN: Duration = Duration::from_millis(1);

/// How a datagram came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// SNMP notifications.
    Snmp,
    /// Syslog.
    Syslog,
    /// Syslog of a peer that showed a certificate which was asked for.
    CertifiedSyslog,
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

/// A head, and how many bytes follow those of the one before.
type Entry = (Head, u32);

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

    /// One writer: plain loads and stores will do.
    fn add(&self, len: usize) {
        let (datagrams, bytes) = self.read();
        self.datagrams.store(datagrams + 1, Ordering::Relaxed);
        self.bytes.store(bytes + len as u64, Ordering::Relaxed);
    }
}

/// What both sides know of the blocks.
#[derive(Debug, Default)]
struct Use {
    /// Bytes in [`Kept`]s.
    kept: AtomicUsize,
    /// Batches and [`Kept`]s that have gone: a block may be free that was not.
    gone: AtomicUsize,
}

/// The receiving thread's end.
#[derive(Debug)]
pub struct SpoolProducer {
    /// Being filled; what of it went over is split off.
    block: BytesMut,
    /// All others, the one that was used longest ago first.
    used: VecDeque<BytesMut>,
    /// [`Use::gone`] when no block was found free.
    gone_when_full: Option<usize>,
    heads: Producer<Entry>,
    batches: Producer<(Bytes, u32)>,
    /// Datagrams in `heads` that no batch has yet.
    unsent: u32,
    lost: Arc<Lost>,
    in_use: Arc<Use>,
    waker: Arc<Waker>,
}

/// The judging thread's end.
#[derive(Debug)]
pub struct SpoolConsumer {
    heads: Consumer<Entry>,
    batches: Consumer<(Bytes, u32)>,
    in_use: Arc<Use>,
    /// Most bytes that may be kept: the receiving side needs the rest.
    keepable: usize,
}

/// A spool of about `bytes` bytes, every page touched; `waker` wakes the thread that judges.
///
/// # Errors
/// Less than two blocks.
pub fn spool(bytes: usize, waker: Arc<Waker>) -> Result<(SpoolProducer, SpoolConsumer)> {
    let blocks = bytes / BLOCK_BYTES;
    if blocks < 2 {
        return Err(Error::usage("set up", "the spool", format!("{bytes} bytes are too few"))
            .way_out(format!("give at least {} KiB", 2 * BLOCK_BYTES / 1024)));
    }
    let (heads, station_heads) = RingBuffer::new(blocks * BLOCK_DATAGRAMS);
    // Each full block is a batch, and one more goes over when none waits.
    let (batches, station_batches) = RingBuffer::new(blocks + 1);
    let in_use = Arc::new(Use::default());
    let mut used: VecDeque<BytesMut> = (0..blocks).map(|_| block()).collect();
    let producer = SpoolProducer {
        block: used.pop_front().unwrap_or_default(),
        used,
        gone_when_full: None,
        heads,
        batches,
        unsent: 0,
        lost: Arc::default(),
        in_use: Arc::clone(&in_use),
        waker,
    };
    let keepable = blocks / 4 * BLOCK_BYTES;
    Ok((producer, SpoolConsumer { heads: station_heads, batches: station_batches, in_use, keepable }))
}

/// An empty block whose pages are there.
fn block() -> BytesMut {
    let mut block = BytesMut::with_capacity(BLOCK_BYTES);
    block.resize(BLOCK_BYTES, 1);
    block.clear();
    // What counts those who look into it is allocated at the first split: now, not while packets come.
    drop(block.split_to(0));
    block
}

impl SpoolProducer {
    /// Copies a datagram into the spool. `false`: it did not fit and was counted.
    pub fn push(&mut self, head: Head, datagram: &[u8]) -> bool {
        let len = datagram.len();
        if !self.has_room(len) {
            self.make_room(len);
        }
        if !self.has_room(len) || self.heads.push((head, len as u32)).is_err() {
            self.lost.add(len);
            return false;
        }
        self.block.extend_from_slice(datagram);
        self.unsent += 1;
        true
    }

    /// The receiving side found nothing more: what there is goes over, unless the judging thread is busy with more.
    pub fn cycle_end(&mut self) {
        if self.batches.slots() == self.batches.buffer().capacity() {
            self.hand_over();
        }
    }

    /// After a cycle's end: how long the receiving side may wait at most until the next one. What has not gone over must not wait for
    /// the next datagram. `None`: as long as none comes.
    pub fn next_turn(&self) -> Option<Duration> {
        (self.unsent > 0).then_some(AGAIN)
    }

    fn has_room(&self, len: usize) -> bool {
        self.block.capacity() - self.block.len() >= len && !self.heads.is_full()
    }

    /// Begins another block, if one is free; else what there is goes over as at a cycle's end. Smaller datagrams may still fit behind one
    /// that did not, and each would make a batch otherwise: more of them than there is room for.
    fn make_room(&mut self, len: usize) {
        if len <= BLOCK_BYTES
            && !self.heads.is_full()
            && !self.batches.is_full()
            && let Some(free) = self.free_block()
        {
            self.hand_over();
            self.used.push_back(std::mem::replace(&mut self.block, free));
        } else {
            self.cycle_end();
        }
    }

    /// A batch is made when a block is full and another one free, or when none waits: so there are never more of them than blocks, and
    /// one, for which there is room.
    fn hand_over(&mut self) {
        if self.unsent > 0 && !self.batches.is_full() {
            let _ = self.batches.push((self.block.split().freeze(), std::mem::take(&mut self.unsent)));
            self.waker.wake();
        }
    }

    /// A block that nobody looks into any more.
    fn free_block(&mut self) -> Option<BytesMut> {
        let gone = self.in_use.gone.load(Ordering::Acquire);
        if self.gone_when_full == Some(gone) {
            // Nobody has gone since none was free.
            return None;
        }
        for _ in 0..self.used.len() {
            let mut block = self.used.pop_front()?;
            // With nobody else there it is the whole block again; else it stays as it is.
            if block.try_reclaim(BLOCK_BYTES) {
                self.gone_when_full = None;
                return Some(block);
            }
            self.used.push_back(block);
        }
        self.gone_when_full = Some(gone);
        None
    }

    /// Counts of what did not fit.
    pub fn lost(&self) -> Arc<Lost> {
        Arc::clone(&self.lost)
    }
}

impl Drop for SpoolProducer {
    fn drop(&mut self) {
        self.hand_over();
        self.waker.wake();
    }
}

impl SpoolConsumer {
    /// The next batch.
    pub fn take(&mut self) -> Option<Batch<'_>> {
        let (bytes, datagrams) = self.batches.pop().ok()?;
        // They were pushed before their batch.
        let heads = self.heads.read_chunk(datagrams as usize).ok();
        Some(Batch { heads, bytes, in_use: &self.in_use, keepable: self.keepable })
    }

    /// Whether nothing waits here.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether the receiving side has gone and nothing waits.
    pub fn is_finished(&self) -> bool {
        // The order matters: what was pushed before the end is seen after it.
        self.batches.is_abandoned() && self.batches.is_empty()
    }
}

/// Datagrams that lie one behind the other.
#[derive(Debug)]
pub struct Batch<'a> {
    heads: Option<ReadChunk<'a, Entry>>,
    bytes: Bytes,
    in_use: &'a Arc<Use>,
    keepable: usize,
}

impl Batch<'_> {
    /// The datagrams in order, each with its place in [`Batch::bytes`].
    pub fn iter(&self) -> impl Iterator<Item = (Head, Range<usize>)> {
        let (first, second) = self.heads.as_ref().map_or((&[][..], &[][..]), ReadChunk::as_slices);
        let mut start = 0;
        first.iter().chain(second).map(move |&(head, len)| {
            let end = start + len as usize;
            (head, std::mem::replace(&mut start, end)..end)
        })
    }

    /// Their bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.heads.as_ref().map_or(0, ReadChunk::len)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their bytes beyond the batch, where they lie. `None`: so much is kept already that the receiving side would lack room; what is still
    /// needed is to be copied.
    pub fn keep(&self) -> Option<Kept> {
        let len = self.bytes.len();
        // Only this thread adds.
        if self.in_use.kept.load(Ordering::Relaxed) + len > self.keepable {
            return None;
        }
        self.in_use.kept.fetch_add(len, Ordering::Relaxed);
        Some(Kept { bytes: self.bytes.clone(), in_use: Arc::clone(self.in_use) })
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if let Some(heads) = self.heads.take() {
            heads.commit_all();
        }
        self.bytes = Bytes::new();
        self.in_use.gone.fetch_add(1, Ordering::Release);
    }
}

/// The bytes of a batch, kept in the spool.
#[derive(Debug)]
pub struct Kept {
    bytes: Bytes,
    in_use: Arc<Use>,
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let len = std::mem::take(&mut self.bytes).len();
        self.in_use.kept.fetch_sub(len, Ordering::Relaxed);
        self.in_use.gone.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;

//! The packets that came last, in memory of fixed size: the newest push out the oldest.
//!
//! Owns the layout and the counting of what was let go. One thread has it: an engine's. It writes nothing anywhere, and does not
//! know how long packets are to be kept.

use super::spool::{HEADER_LEN, Head};
use crate::error::{Error, Result};
use crate::sys::available;

/// Length of what stands before each packet's bytes here: as in a spool, and its tag.
const HEAD_LEN: usize = HEADER_LEN + 8;
/// Fewest bytes: as of a spool.
const LEAST_BYTES: usize = super::LEAST_SPOOL_BYTES;

/// What became of the packets that were put in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecentCounts {
    /// Let go as they had become older than was asked for.
    pub aged: u64,
    /// Let go before that, as the memory was too small; packets longer than all of it among them.
    pub pushed_out: u64,
    /// Taken out.
    pub taken: u64,
}

/// The last packets of one engine.
#[derive(Debug)]
pub struct Recent {
    bytes: Box<[u8]>,
    /// Positions of the oldest packet and behind the newest one; they never go back, and the memory is their remainder.
    start: u64,
    end: u64,
    packets: u64,
    counts: RecentCounts,
}

/// A packet as it is put in and taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentPacket<'a> {
    /// Number of the interface.
    pub interface: u16,
    /// Arrival stamp in the interface's clock, nanoseconds; 0 for none.
    pub arrival_ns: u64,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// What its owner knows it by; written nowhere.
    pub tag: u64,
    /// Captured bytes, in two parts where they wrap.
    pub data: (&'a [u8], &'a [u8]),
}

impl Recent {
    /// Memory of `bytes` bytes, every page touched.
    ///
    /// # Errors
    /// Fewer bytes than a large packet may have, or more than are available.
    pub fn new(bytes: usize) -> Result<Self> {
        let refuse = |cause: String, way_out: &str| {
            Err(Error::usage("set aside", "memory for the last packets", cause).way_out(way_out))
        };
        if bytes < LEAST_BYTES {
            return refuse(format!("{bytes} bytes hold no large packet"), "give it at least 64 KiB");
        }
        if let Some(available) = available::available_memory_bytes().filter(|&available| bytes as u64 > available) {
            let cause = format!("{} MiB asked for, {} MiB available", bytes >> 20, available >> 20);
            return refuse(cause, "keep less");
        }
        // Other bytes than zeros have to be written, which brings the pages in now.
        let bytes = vec![1; bytes].into();
        Ok(Self { bytes, start: 0, end: 0, packets: 0, counts: RecentCounts::default() })
    }

    /// Puts a packet in; what is in its way goes. No allocation, no system call.
    pub fn push(&mut self, packet: RecentPacket<'_>) {
        let (first, second) = packet.data;
        let needed = HEAD_LEN as u64 + (first.len() + second.len()) as u64;
        if needed > self.bytes.len() as u64 {
            self.counts.pushed_out += 1;
            return;
        }
        while self.end + needed - self.start > self.bytes.len() as u64 {
            self.drop_oldest();
            self.counts.pushed_out += 1;
        }
        let len = (first.len() + second.len()) as u32;
        let RecentPacket { interface, arrival_ns, wire_len, tag, .. } = packet;
        self.write(&Head { arrival_ns, len, wire_len: wire_len.max(len), interface }.encode());
        self.write(&tag.to_ne_bytes());
        self.write(first);
        self.write(second);
        self.packets += 1;
    }

    /// Whether a packet of so many captured bytes finds room without another one's going.
    #[must_use]
    pub fn has_room(&self, captured: usize) -> bool {
        self.end + (HEAD_LEN + captured) as u64 - self.start <= self.bytes.len() as u64
    }

    /// Lets go of the packets that came before this time, the oldest first, up to the first that did not.
    pub fn let_go_before(&mut self, arrival_ns: u64) {
        while self.oldest().is_some_and(|oldest| oldest.arrival_ns < arrival_ns) {
            self.drop_oldest();
            self.counts.aged += 1;
        }
    }

    /// The oldest packet.
    #[must_use]
    pub fn oldest(&self) -> Option<RecentPacket<'_>> {
        if self.packets == 0 {
            return None;
        }
        let head = self.head();
        let tag = u64::from_ne_bytes(self.array(self.start + HEADER_LEN as u64));
        let data = self.part(self.start + HEAD_LEN as u64, head.len as usize);
        Some(RecentPacket {
            interface: head.interface,
            arrival_ns: head.arrival_ns,
            wire_len: head.wire_len,
            tag,
            data,
        })
    }

    /// Takes the oldest packet out: it was written elsewhere.
    pub fn take(&mut self) {
        if self.packets > 0 {
            self.drop_oldest();
            self.counts.taken += 1;
        }
    }

    /// Packets that are in it.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.packets
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// What became of the others.
    #[must_use]
    pub fn counts(&self) -> RecentCounts {
        self.counts
    }

    fn head(&self) -> Head {
        Head::decode(self.array(self.start))
    }

    /// The bytes from this position on.
    fn array<const LEN: usize>(&self, from: u64) -> [u8; LEN] {
        let (first, second) = self.part(from, LEN);
        let mut bytes = [0; LEN];
        bytes[..first.len()].copy_from_slice(first);
        bytes[first.len()..].copy_from_slice(second);
        bytes
    }

    fn drop_oldest(&mut self) {
        self.start += HEAD_LEN as u64 + u64::from(self.head().len);
        self.packets -= 1;
    }

    /// So many bytes from this position on.
    fn part(&self, from: u64, len: usize) -> (&[u8], &[u8]) {
        let at = (from % self.bytes.len() as u64) as usize;
        let first = len.min(self.bytes.len() - at);
        (&self.bytes[at..at + first], &self.bytes[..len - first])
    }

    fn write(&mut self, bytes: &[u8]) {
        let at = (self.end % self.bytes.len() as u64) as usize;
        let (first, second) = bytes.split_at(bytes.len().min(self.bytes.len() - at));
        self.bytes[at..at + first.len()].copy_from_slice(first);
        self.bytes[..second.len()].copy_from_slice(second);
        self.end += bytes.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn packet(arrival_ns: u64, data: &[u8]) -> RecentPacket<'_> {
        RecentPacket { interface: 1, arrival_ns, wire_len: data.len() as u32 + 4, tag: !arrival_ns, data: (data, &[]) }
    }

    proptest! {
        /// Against a list of packets.
        #[test]
        fn the_last_packets_are_there(steps in prop::collection::vec((0u64..40, 0usize..9000, 0usize..3), 1..200)) {
            const BYTES: usize = LEAST_BYTES;
            let (mut recent, mut list) = (Recent::new(BYTES).unwrap(), VecDeque::<(u64, Vec<u8>)>::new());
            let (mut now, mut counts) = (0, RecentCounts::default());
            let size = |list: &VecDeque<(u64, Vec<u8>)>| list.iter().map(|(_, data)| HEAD_LEN + data.len()).sum::<usize>();
            for (number, (step, len, taken)) in steps.into_iter().enumerate() {
                now += step;
                let data = vec![number as u8; len];
                recent.let_go_before(now.saturating_sub(100));
                let has_room = recent.has_room(len);
                let pushed_out = recent.counts().pushed_out;
                recent.push(packet(now, &data));
                prop_assert_eq!(has_room, recent.counts().pushed_out == pushed_out);
                while list.front().is_some_and(|(at, _)| *at + 100 < now) {
                    list.pop_front();
                    counts.aged += 1;
                }
                list.push_back((now, data));
                while size(&list) > BYTES {
                    list.pop_front();
                    counts.pushed_out += 1;
                }
                for _ in 0..taken.min(list.len()) {
                    recent.take();
                    list.pop_front();
                    counts.taken += 1;
                }
                prop_assert_eq!((recent.len(), recent.counts()), (list.len() as u64, counts));
                prop_assert!(recent.oldest().is_none_or(|found| found.tag == !found.arrival_ns));
                let oldest = recent.oldest().map(|found| (found.arrival_ns, found.wire_len, [found.data.0, found.data.1].concat()));
                let expected = list.front().map(|(at, data)| (*at, data.len() as u32 + 4, data.clone()));
                prop_assert_eq!(oldest, expected);
            }
        }
    }

    #[test]
    fn what_never_fits_is_counted() {
        let mut recent = Recent::new(LEAST_BYTES).unwrap();
        recent.push(packet(1, &[7; 100]));
        recent.push(packet(2, &vec![7; LEAST_BYTES]));
        assert_eq!((recent.len(), recent.counts().pushed_out), (1, 1));
        assert!(Recent::new(100).is_err());
    }
}

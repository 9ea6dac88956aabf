//! Owns: gaps between pieces: since when one is waited for, and how far the pieces reach where gaps do not count.
//! Does not: decide which are to be passed (`track/stream.rs` does).

use super::{NONE, Pending, Reassembly};

impl Reassembly {
    /// Where the first piece begins that lies behind a gap at `from` or further on, and when the first of those came that lie behind it
    /// and came later than `since`, both in milliseconds.
    pub(crate) fn behind(&mut self, list: &Pending, from: u64, since: Option<u32>) -> Option<(u64, u32)> {
        let (mut here, mut start, mut came) = (list.head, None, None);
        while here != NONE {
            self.steps += 1;
            let node = self.nodes[here as usize];
            here = node.next;
            if node.start <= from {
                continue;
            }
            start = start.or(Some(node.start));
            let ms = node.came.ms;
            let is_later = since.is_none_or(|since| ms.wrapping_sub(since) as i32 > 0);
            if is_later && came.is_none_or(|came: u32| (ms.wrapping_sub(came) as i32) < 0) {
                came = Some(ms);
            }
        }
        start.zip(came)
    }

    /// How far the pieces reach from `from` on, where gaps do not count that lie before `to`. What follows such a gap counts as having
    /// come now, when there was so much of the other owner's. And whether there was any.
    pub(crate) fn pass(&mut self, list: &Pending, from: u64, to: u64, after: u64) -> (u64, bool) {
        let (mut at, mut here, mut has_passed) = (from, list.head, false);
        while here != NONE {
            self.steps += 1;
            let node = &mut self.nodes[here as usize];
            if node.start > at {
                if node.start > to {
                    break;
                }
                node.came.after = node.came.after.max(after);
                has_passed = true;
            }
            at = at.max(node.end);
            here = node.next;
        }
        (at, has_passed)
    }
}

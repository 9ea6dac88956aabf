//! Owns: memory for bytes that arrive out of order: fixed blocks, and per owner a list of pieces sorted by position.
//! Does not: know packets or streams, or whose bytes count where pieces overlap (`overlap.rs`). All memory is taken at start; what
//! does not fit is refused and told.

mod gaps;
mod join;

use crate::fixed_vec::{FixedVec, SpareVisitor};
use crate::overlap::Newer;

/// Bytes of one block.
const BLOCK: usize = 512;
/// Blocks of what a packet of 64 KiB brings.
const MOST_GIVEN_BACK: u32 = (64 << 10) / BLOCK as u32;
/// Once half of the memory is used, an owner may have so small a part of what is left.
const SHARE: usize = 64;
/// "No block", "no piece".
const NONE: u32 = u32::MAX;

/// What a piece was when it came.
#[derive(Clone, Copy)]
struct Came {
    /// Its range: policies compare these.
    whole: (u64, u64),
    /// So much of another owner's came before it.
    after: u64,
    /// Its time.
    ms: u32,
}

#[derive(Clone, Copy)]
struct Node {
    start: u64,
    end: u64,
    came: Came,
    /// First block, and bytes to skip in it.
    block: u32,
    skip: u32,
    next: u32,
}

/// The pieces of one owner: of a stream, or of a fragmented packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    head: u32,
    /// Number of pieces.
    pub(crate) count: u16,
    /// Their blocks.
    blocks: u32,
    /// They are on their way out.
    is_draining: bool,
    /// Blocks that it has given back since they are, up to [`MOST_GIVEN_BACK`]: so many it may take again without leaving room to
    /// others.
    given_back: u32,
}

impl Pending {
    /// Whether the pieces are on their way out.
    pub(crate) fn drains(&mut self, is_draining: bool) {
        self.is_draining = is_draining;
        if !is_draining {
            self.given_back = 0;
        }
    }
}

impl Default for Pending {
    fn default() -> Self {
        Self { head: NONE, count: 0, blocks: 0, is_draining: false, given_back: 0 }
    }
}

/// What became of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inserted {
    /// It covered something that was there.
    pub(crate) overlap: bool,
    /// And with other bytes.
    pub(crate) different: bool,
    /// Part of it was lost: the memory or the owner's number of pieces was used up.
    pub(crate) refused: bool,
    /// Pieces became one, between which something of the other owner's came.
    pub(crate) disordered: bool,
}

/// Memory for all owners.
pub(crate) struct Reassembly {
    /// Blocks and nodes that there can be.
    capacity: usize,
    /// Those of all blocks ever used.
    bytes: FixedVec<u8>,
    /// Of each of them the one behind it, in its piece or in the list of free ones.
    next_block: FixedVec<u32>,
    free_block: u32,
    nodes: FixedVec<Node>,
    free_node: u32,
    /// Blocks in use.
    pub(crate) blocks_used: usize,
    /// Most pieces one owner may have: bounds the walk.
    most: u16,
    /// Blocks for owners that have none yet.
    reserve: usize,
    /// Time of the packet at hand, milliseconds; goes round.
    pub(crate) now_ms: u32,
    /// Pieces and blocks that were gone over to put new ones in their places, since it was asked last.
    steps: u32,
}

impl Reassembly {
    /// Memory for `bytes` bytes; one owner has at most `most` pieces.
    pub(crate) fn new(bytes: usize, most: u16) -> Self {
        let blocks = (bytes / BLOCK).max(1);
        Self {
            capacity: blocks,
            bytes: FixedVec::with_capacity(blocks * BLOCK),
            next_block: FixedVec::with_capacity(blocks),
            free_block: NONE,
            nodes: FixedVec::with_capacity(blocks),
            free_node: NONE,
            blocks_used: 0,
            most,
            reserve: 0,
            now_ms: 0,
            steps: 0,
        }
    }

    /// The same, where those that have something leave a quarter to those that have nothing, and beyond half of it no owner has more
    /// than a small share: few with much hinder none that brings its first pieces, however long they keep it.
    pub(crate) fn with_reserve(bytes: usize, most: u16) -> Self {
        let this = Self::new(bytes, most);
        Self { reserve: this.capacity / 4, ..this }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.bytes.show_spare(to);
        self.next_block.show_spare(to);
        self.nodes.show_spare(to);
    }

    /// Adds `data` at `start`. When there is no room for another piece, pieces side by side become one (policies then compare
    /// with what they are together), and after that what lies furthest away gives way to what is nearer. `after` is how much of
    /// another owner's came before it ([`Reassembly::after`]).
    pub(crate) fn insert(&mut self, list: &mut Pending, start: u64, data: &[u8], newer: Newer, after: u64) -> Inserted {
        let needed = data.len().div_ceil(BLOCK);
        let (mut dropped, mut disordered) = (false, false);
        if self.is_full(list, needed) {
            // The order of pieces that are on their way out is given up before any of them is.
            let used = self.blocks_used;
            disordered = self.join(list, !list.is_draining);
            if self.is_full(list, needed) && list.is_draining {
                disordered = self.join(list, true);
            }
            list.blocks -= (used - self.blocks_used) as u32;
            while self.is_full(list, needed) && self.drop_last(list, start) {
                dropped = true;
            }
        }
        let inserted = self.place(list, start, data, newer, after);
        Inserted { refused: inserted.refused || dropped, disordered: disordered && list.is_draining, ..inserted }
    }

    /// Whether an owner finds room for so many bytes more without another piece's loss.
    pub(crate) fn takes(&self, list: &Pending, bytes: usize) -> bool {
        !self.is_full(list, bytes.div_ceil(BLOCK))
    }

    /// How much of another owner's came before the first piece; 0 without a piece.
    pub(crate) fn after(&self, list: &Pending) -> u64 {
        if list.head == NONE { 0 } else { self.nodes[list.head as usize].came.after }
    }

    /// How many pieces and blocks were gone over since this was asked last.
    pub(crate) fn take_steps(&mut self) -> u32 {
        std::mem::take(&mut self.steps)
    }

    /// Bytes of the blocks in use.
    pub(crate) fn bytes_used(&self) -> usize {
        self.blocks_used * BLOCK
    }

    /// Whether there is memory for so many bytes more.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.blocks_used + bytes.div_ceil(BLOCK) <= self.capacity
    }

    /// Whether those who have proven nothing, and those inside tunnels, may take so many bytes more: a quarter of the memory is
    /// theirs at most.
    pub(crate) fn has_spare(&self, bytes: usize) -> bool {
        (self.blocks_used + bytes.div_ceil(BLOCK)) * 4 <= self.capacity
    }

    fn is_full(&self, list: &Pending, needed: usize) -> bool {
        list.count >= self.most || self.lacks(list, needed)
    }

    /// Whether there are too few free blocks for so many more.
    fn lacks(&self, list: &Pending, needed: usize) -> bool {
        let is_free = list.head == NONE || needed <= list.given_back as usize;
        let reserve = if is_free { 0 } else { self.reserve };
        let is_scarce = self.reserve > 0 && (self.blocks_used + needed) * 2 > self.capacity;
        let share = (self.capacity - self.blocks_used) / SHARE;
        self.blocks_used + needed + reserve > self.capacity
            || (is_scarce && !is_free && list.blocks as usize + needed > share)
    }

    /// Gives up the last piece if it lies behind `start`; whether it did.
    fn drop_last(&mut self, list: &mut Pending, start: u64) -> bool {
        let (mut previous, mut here) = (NONE, list.head);
        if here == NONE {
            return false;
        }
        while self.nodes[here as usize].next != NONE {
            self.steps += 1;
            (previous, here) = (here, self.nodes[here as usize].next);
        }
        let is_behind = self.nodes[here as usize].start > start;
        if is_behind {
            self.remove(list, previous, here);
        }
        is_behind
    }

    fn place(&mut self, list: &mut Pending, start: u64, data: &[u8], newer: Newer, after: u64) -> Inserted {
        let mut inserted = Inserted::default();
        let whole = (start, start + data.len() as u64);
        let came = Came { whole, after, ms: self.now_ms };
        // Where the next part of the new piece begins; and the link to the node behind it.
        let (mut at, mut previous, mut here) = (start, NONE, list.head);
        while at < whole.1 && here != NONE {
            let node = self.nodes[here as usize];
            self.steps += 1;
            if node.end <= at {
                (previous, here) = (here, node.next);
                continue;
            }
            if node.start >= whole.1 {
                break;
            }
            inserted.overlap = true;
            let (from, to) = (node.start.max(whole.0), node.end.min(whole.1));
            inserted.different |= self.differs(here, from, &data[(from - start) as usize..(to - start) as usize]);
            if newer.wins(node.came.whole, whole) {
                // What stands out to the left stays; what stands out to the right becomes a piece of its own.
                let right = node.end > whole.1;
                if right {
                    inserted.refused |= !self.split(list, here, whole.1);
                }
                if node.start < whole.0 {
                    self.cut_end(here, whole.0);
                    (previous, here) = (here, self.nodes[here as usize].next);
                } else {
                    let next = self.nodes[here as usize].next;
                    self.remove(list, previous, here);
                    here = next;
                }
            } else {
                if at < node.start {
                    let part = &data[(at - start) as usize..(node.start - start) as usize];
                    match self.link(list, previous, here, at, came, part) {
                        Some(_) => {}
                        None => inserted.refused = true,
                    }
                }
                at = node.end;
                (previous, here) = (here, node.next);
            }
        }
        if at < whole.1 {
            // Up to the next piece, which begins behind the end.
            let part = &data[(at - start) as usize..];
            inserted.refused |= self.link(list, previous, here, at, came, part).is_none();
        }
        inserted
    }

    /// Whether the bytes of `node` from position `from` on differ from `data`.
    fn differs(&self, node: u32, from: u64, data: &[u8]) -> bool {
        let mut at = 0;
        let mut same = true;
        self.visit(node, from, data.len(), |part| {
            same &= part == &data[at..at + part.len()];
            at += part.len();
        });
        !same
    }

    /// Shows `len` bytes of a node from position `from` on, block by block.
    fn visit(&self, node: u32, from: u64, len: usize, mut show: impl FnMut(&[u8])) {
        let node = self.nodes[node as usize];
        let mut skip = node.skip as usize + (from - node.start) as usize;
        let (mut block, mut left) = (node.block, len);
        while skip >= BLOCK && block != NONE {
            block = self.next_block[block as usize];
            skip -= BLOCK;
        }
        while left > 0 && block != NONE {
            let part = left.min(BLOCK - skip);
            let base = block as usize * BLOCK + skip;
            show(&self.bytes[base..base + part]);
            (left, skip) = (left - part, 0);
            block = self.next_block[block as usize];
        }
    }

    /// A new node with a copy of `data` between two others.
    fn link(
        &mut self,
        list: &mut Pending,
        previous: u32,
        next: u32,
        start: u64,
        came: Came,
        data: &[u8],
    ) -> Option<u32> {
        if !self.has_node(list) || self.lacks(list, data.len().div_ceil(BLOCK)) {
            return None;
        }
        let block = self.store(data)?;
        let needed = data.len().div_ceil(BLOCK) as u32;
        list.given_back = list.given_back.saturating_sub(needed);
        list.blocks += needed;
        Some(self.link_node(list, previous, Node { start, end: start + data.len() as u64, came, block, skip: 0, next }))
    }

    /// Whether the owner may have another piece, and there is a node for it.
    fn has_node(&self, list: &Pending) -> bool {
        list.count < self.most && (self.free_node != NONE || self.nodes.len() < self.capacity)
    }

    fn link_node(&mut self, list: &mut Pending, previous: u32, new: Node) -> u32 {
        let node = self.free_node;
        let node = if node == NONE {
            self.nodes.push(new);
            self.nodes.len() as u32 - 1
        } else {
            self.free_node = self.nodes[node as usize].next;
            self.nodes[node as usize] = new;
            node
        };
        match previous {
            NONE => list.head = node,
            _ => self.nodes[previous as usize].next = node,
        }
        list.count += 1;
        node
    }

    /// What `here` has from `at` on, which lies within it, becomes a node of its own behind it. Its blocks go along; of the one that both
    /// have a part of, each has a copy.
    fn split(&mut self, list: &mut Pending, here: u32, at: u64) -> bool {
        let node = self.nodes[here as usize];
        let offset = node.skip as usize + (at - node.start) as usize;
        let (mut before, mut block) = (NONE, node.block);
        for _ in 0..offset / BLOCK {
            self.steps += 1;
            (before, block) = (block, self.next_block[block as usize]);
        }
        self.cut_end(here, at);
        let skip = offset % BLOCK;
        if !self.has_node(list) || (skip > 0 && self.lacks(list, 1)) {
            return false;
        }
        let first = if skip == 0 {
            self.next_block[before as usize] = NONE;
            block
        } else {
            let Some(own) = self.take_block() else { return false };
            list.given_back = list.given_back.saturating_sub(1);
            list.blocks += 1;
            let mut copy = [0; BLOCK];
            copy.copy_from_slice(&self.bytes[block as usize * BLOCK..][..BLOCK]);
            self.bytes[own as usize * BLOCK..][..BLOCK].copy_from_slice(&copy);
            self.next_block[own as usize] = std::mem::replace(&mut self.next_block[block as usize], NONE);
            own
        };
        self.link_node(list, here, Node { start: at, block: first, skip: skip as u32, ..node });
        true
    }

    fn cut_end(&mut self, node: u32, end: u64) {
        self.nodes[node as usize].end = end;
    }

    /// Gives up what a node has before `start`, with its blocks.
    fn cut_start(&mut self, node: u32, start: u64) {
        let Node { start: old, mut block, skip, .. } = self.nodes[node as usize];
        let mut skip = skip as usize + (start - old) as usize;
        while skip >= BLOCK {
            let next = std::mem::replace(&mut self.next_block[block as usize], NONE);
            self.free(block);
            (block, skip) = (next, skip - BLOCK);
        }
        let node = &mut self.nodes[node as usize];
        (node.start, node.block, node.skip) = (start, block, skip as u32);
    }

    fn remove(&mut self, list: &mut Pending, previous: u32, here: u32) {
        let node = self.nodes[here as usize];
        match previous {
            NONE => list.head = node.next,
            _ => self.nodes[previous as usize].next = node.next,
        }
        let used = self.blocks_used;
        self.free(node.block);
        list.blocks -= (used - self.blocks_used) as u32;
        self.nodes[here as usize].next = self.free_node;
        self.free_node = here;
        list.count -= 1;
    }

    fn store(&mut self, data: &[u8]) -> Option<u32> {
        let (mut first, mut last) = (NONE, NONE);
        for part in data.chunks(BLOCK) {
            let Some(block) = self.take_block() else {
                self.free(first);
                return None;
            };
            let base = block as usize * BLOCK;
            self.bytes[base..base + part.len()].copy_from_slice(part);
            match last {
                NONE => first = block,
                _ => self.next_block[last as usize] = block,
            }
            last = block;
        }
        Some(first)
    }

    fn take_block(&mut self) -> Option<u32> {
        let mut block = self.free_block;
        if block != NONE {
            self.free_block = self.next_block[block as usize];
            self.next_block[block as usize] = NONE;
        } else if self.next_block.len() < self.capacity {
            block = self.next_block.len() as u32;
            self.next_block.push(NONE);
            self.bytes.reach(self.next_block.len() * BLOCK, 0);
        } else {
            return None;
        }
        self.blocks_used += 1;
        Some(block)
    }

    fn free(&mut self, mut block: u32) {
        while block != NONE {
            let next = self.next_block[block as usize];
            self.next_block[block as usize] = self.free_block;
            self.free_block = block;
            self.blocks_used -= 1;
            block = next;
        }
    }

    /// Start of the first piece.
    pub(crate) fn first(&self, list: &Pending) -> Option<u64> {
        (list.head != NONE).then(|| self.nodes[list.head as usize].start)
    }

    /// Moves what there is at `from` and behind it without a gap to the end of `out`, up to `most` bytes and as far as `out` has
    /// capacity, and not what came behind more of another owner's than `passed`; drops what lies before `from`. Returns the position
    /// behind it. The memory of what was moved is free again.
    pub(crate) fn take(
        &mut self,
        list: &mut Pending,
        mut from: u64,
        most: usize,
        passed: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let (mut room, used) = (most.min(out.capacity() - out.len()), self.blocks_used);
        while list.head != NONE {
            let node = self.nodes[list.head as usize];
            if node.end <= from {
                self.remove(list, NONE, list.head);
                continue;
            }
            let len = ((node.end - from) as usize).min(room);
            if node.start > from || len == 0 || node.came.after > passed {
                break;
            }
            self.visit(list.head, from, len, |part| out.extend_from_slice(part));
            (from, room) = (from + len as u64, room - len);
            if from == node.end {
                self.remove(list, NONE, list.head);
            } else {
                let used = self.blocks_used;
                self.cut_start(list.head, from);
                list.blocks -= (used - self.blocks_used) as u32;
            }
        }
        if list.is_draining {
            list.given_back = (list.given_back + (used - self.blocks_used) as u32).min(MOST_GIVEN_BACK);
        }
        from
    }

    /// Whether the pieces have the same bytes from position `from` on, which they all cover.
    pub(crate) fn has(&self, list: &Pending, mut from: u64, mut data: &[u8]) -> bool {
        let mut here = list.head;
        while here != NONE && !data.is_empty() {
            let node = self.nodes[here as usize];
            if node.start <= from && from < node.end {
                let (part, rest) = data.split_at(data.len().min((node.end - from) as usize));
                if self.differs(here, from, part) {
                    return false;
                }
                (from, data) = (node.end, rest);
            }
            here = node.next;
        }
        true
    }

    /// Puts the bytes from position `from` to `to`, which the pieces all cover, at the end of `out`, as far as that has room.
    pub(crate) fn copy(&self, list: &Pending, mut from: u64, to: u64, out: &mut Vec<u8>) {
        let mut here = list.head;
        while here != NONE && from < to {
            let node = self.nodes[here as usize];
            if node.start <= from && from < node.end {
                let len = ((node.end.min(to) - from) as usize).min(out.capacity() - out.len());
                self.visit(here, from, len, |part| out.extend_from_slice(part));
                from = node.end;
            }
            here = node.next;
        }
    }

    /// Up to where there is no gap behind `from`.
    pub(crate) fn reach(&mut self, list: &Pending, from: u64) -> u64 {
        let (mut at, mut here) = (from, list.head);
        while here != NONE {
            let node = self.nodes[here as usize];
            if node.start > at {
                break;
            }
            self.steps += 1;
            at = at.max(node.end);
            here = node.next;
        }
        at
    }

    /// Whether the pieces cover everything from 0 to `end`.
    pub(crate) fn covers(&mut self, list: &Pending, end: u64) -> bool {
        self.reach(list, 0) >= end
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, list: &mut Pending) {
        while list.head != NONE {
            self.remove(list, NONE, list.head);
        }
    }
}

#[cfg(test)]
mod tests;

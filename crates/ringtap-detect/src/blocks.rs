//! Owns: memory for bytes that are kept until enough of them are there: fixed blocks, and per owner a chain of them.
//! Does not: know what the bytes are. All memory is taken at start; what does not fit is refused and told.

use crate::fixed_vec::{FixedVec, SpareVisitor};

/// Bytes of one block.
const BLOCK: usize = 512;
/// "No block".
const NONE: u32 = u32::MAX;

/// The bytes of one owner, in the order in which they were added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    first: u32,
    last: u32,
    len: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }
}

impl Chain {
    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Memory for all owners.
pub(crate) struct Blocks {
    capacity: usize,
    bytes: FixedVec<u8>,
    /// Of each block the one behind it, in its chain or in the list of free ones.
    next: FixedVec<u32>,
    free: u32,
    /// Blocks in use.
    pub(crate) used: usize,
}

impl Blocks {
    /// Memory for `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let capacity = (bytes / BLOCK).clamp(1, NONE as usize - 1);
        Self {
            capacity,
            bytes: FixedVec::with_capacity(capacity * BLOCK),
            next: FixedVec::with_capacity(capacity),
            free: NONE,
            used: 0,
        }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.bytes.show_spare(to);
        self.next.show_spare(to);
    }

    /// Whether there is memory for so many bytes more, of one chain.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.used + bytes.div_ceil(BLOCK) <= self.capacity
    }

    /// Adds bytes at the end; returns how many there was room for.
    pub(crate) fn append(&mut self, chain: &mut Chain, data: &[u8]) -> usize {
        let mut rest = data;
        while !rest.is_empty() {
            let filled = chain.len as usize % BLOCK;
            if filled == 0 {
                let Some(block) = self.take() else { break };
                match chain.last {
                    NONE => chain.first = block,
                    last => self.next[last as usize] = block,
                }
                chain.last = block;
            }
            let part = rest.len().min(BLOCK - filled);
            let base = chain.last as usize * BLOCK + filled;
            self.bytes[base..base + part].copy_from_slice(&rest[..part]);
            chain.len += part as u32;
            rest = &rest[part..];
        }
        data.len() - rest.len()
    }

    /// Shows the bytes from `from` on, block by block.
    pub(crate) fn visit(&self, chain: &Chain, from: usize, mut show: impl FnMut(&[u8])) {
        let (mut block, mut left, mut skip) = (chain.first, chain.len as usize, from);
        while left > 0 && block != NONE {
            let here = left.min(BLOCK);
            if skip < here {
                let base = block as usize * BLOCK;
                show(&self.bytes[base + skip..base + here]);
            }
            skip = skip.saturating_sub(here);
            left -= here;
            block = self.next[block as usize];
        }
    }

    /// Puts all of the bytes at the end of `out`, as far as it has room.
    pub(crate) fn copy(&self, chain: &Chain, out: &mut Vec<u8>) {
        self.visit(chain, 0, |part| {
            let room = out.capacity() - out.len();
            out.extend_from_slice(&part[..part.len().min(room)]);
        });
    }

    /// Forgets the bytes.
    pub(crate) fn free(&mut self, chain: &mut Chain) {
        let mut block = chain.first;
        while block != NONE {
            let next = self.next[block as usize];
            self.next[block as usize] = self.free;
            self.free = block;
            self.used -= 1;
            block = next;
        }
        *chain = Chain::default();
    }

    fn take(&mut self) -> Option<u32> {
        let mut block = self.free;
        if block != NONE {
            self.free = self.next[block as usize];
            self.next[block as usize] = NONE;
        } else if self.next.len() < self.capacity {
            block = self.next.len() as u32;
            self.next.push(NONE);
            self.bytes.reach(self.next.len() * BLOCK, 0);
        } else {
            return None;
        }
        self.used += 1;
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn chains_keep_what_they_are_given(adds in prop::collection::vec((0usize..3, 0usize..5000), 1..20)) {
            let mut blocks = Blocks::new(1 << 20);
            let (mut chains, mut expected) = ([Chain::default(); 3], [const { Vec::new() }; 3]);
            for (number, &(owner, len)) in adds.iter().enumerate() {
                let data = vec![number as u8; len];
                prop_assert_eq!(blocks.append(&mut chains[owner], &data), len);
                expected[owner].extend_from_slice(&data);
            }
            for (chain, expected) in chains.iter_mut().zip(&expected) {
                let mut out = Vec::with_capacity(1 << 17);
                blocks.copy(chain, &mut out);
                prop_assert_eq!(&out, expected);
                let (from, mut rest) = (expected.len() / 3, Vec::new());
                blocks.visit(chain, from, |part| rest.extend_from_slice(part));
                prop_assert_eq!(&rest, &expected[from..]);
                blocks.free(chain);
            }
            prop_assert_eq!(blocks.used, 0);
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let mut blocks = Blocks::new(2 * BLOCK);
        let (mut one, mut other) = (Chain::default(), Chain::default());
        assert_eq!(blocks.append(&mut one, &[1; BLOCK + 1]), BLOCK + 1);
        assert_eq!(blocks.append(&mut other, b"x"), 0);
        assert_eq!((blocks.append(&mut one, &[1; BLOCK]), one.len()), (BLOCK - 1, 2 * BLOCK));
        blocks.free(&mut one);
        assert_eq!((blocks.append(&mut other, b"x"), one.is_empty()), (1, true));
    }
}

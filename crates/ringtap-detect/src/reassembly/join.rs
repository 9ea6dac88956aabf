//! Owns: making one piece of several that lie side by side, where there is no room for more pieces.
//! Does not: decide when, or add any.

use super::{BLOCK, NONE, Node, Pending, Reassembly};

/// Longest piece that several become: its blocks are gone over for each that is joined to it.
const MOST_JOINED: u64 = 64 << 10;

impl Reassembly {
    /// Makes one piece of those that lie side by side: of all of them, or of those between which nothing of the other owner's came.
    /// Whether something had come between any.
    pub(super) fn join(&mut self, list: &mut Pending, all: bool) -> bool {
        let (mut here, mut disordered) = (list.head, false);
        while here != NONE {
            let mut tail_of_run = None;
            loop {
                self.steps += 1;
                let Node { start, end, came, next, .. } = self.nodes[here as usize];
                let is_later = next != NONE && self.nodes[next as usize].came.after > came.after;
                let lie_apart = next == NONE
                    || self.nodes[next as usize].start != end
                    || self.nodes[next as usize].end - start > MOST_JOINED;
                if lie_apart || (is_later && !all) {
                    here = next;
                    break;
                }
                disordered |= is_later;
                let behind = self.nodes[next as usize];
                let (mut tail, mut filled) = tail_of_run.unwrap_or_else(|| self.tail(here));
                self.move_bytes(&behind, &mut tail, &mut filled);
                tail_of_run = Some((tail, filled));
                let node = &mut self.nodes[here as usize];
                (node.end, node.next, node.came.whole) = (behind.end, behind.next, (start, behind.end));
                self.nodes[next as usize].next = self.free_node;
                self.free_node = next;
                list.count -= 1;
            }
        }
        disordered
    }

    /// The last block of a node that has some of its bytes, and up to where it is filled; what is behind is free again.
    fn tail(&mut self, node: u32) -> (u32, usize) {
        let node = self.nodes[node as usize];
        let (mut block, mut filled) = (node.block, node.skip as usize + (node.end - node.start) as usize);
        while filled > BLOCK {
            self.steps += 1;
            block = self.next_block[block as usize];
            filled -= BLOCK;
        }
        let rest = std::mem::replace(&mut self.next_block[block as usize], NONE);
        self.free(rest);
        (block, filled)
    }

    /// Moves a node's bytes to the end of another's, block by block: each is free before its bytes need room.
    fn move_bytes(&mut self, node: &Node, tail: &mut u32, filled: &mut usize) {
        let (mut block, mut skip, mut left) = (node.block, node.skip as usize, (node.end - node.start) as usize);
        while block != NONE {
            self.steps += 1;
            let mut copy = [0; BLOCK];
            let from = skip.min(BLOCK);
            let len = left.min(BLOCK - from);
            copy[..len].copy_from_slice(&self.bytes[block as usize * BLOCK + from..][..len]);
            let next = std::mem::replace(&mut self.next_block[block as usize], NONE);
            self.free(block);
            (block, skip, left) = (next, skip - from, left - len);
            let mut bytes = &copy[..len];
            while !bytes.is_empty() {
                if *filled == BLOCK {
                    let Some(new) = self.take_block() else { return };
                    self.next_block[*tail as usize] = new;
                    (*tail, *filled) = (new, 0);
                }
                let (part, rest) = bytes.split_at(bytes.len().min(BLOCK - *filled));
                self.bytes[*tail as usize * BLOCK + *filled..][..part.len()].copy_from_slice(part);
                *filled += part.len();
                bytes = rest;
            }
        }
    }
}

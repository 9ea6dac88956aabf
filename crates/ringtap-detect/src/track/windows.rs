//! Owns: the last bytes of each stream that was inspected, in a fixed number of windows; a full pool lets go of one as `UseOrder` says.
//! Does not: know streams; they keep the number and stamp of their window.

use crate::fixed_vec::{FixedVec, SpareVisitor};
use crate::use_order::UseOrder;

/// A stream's hold on a window: valid as long as nobody else was given it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    index: u32,
    stamp: u64,
}

pub(crate) struct Windows {
    /// Those of all windows ever used, which come in order.
    bytes: FixedVec<u8>,
    /// Given back, the last one first.
    free: Vec<u32>,
    lens: Vec<u32>,
    /// Stamp of the owner; 0: free.
    stamps: Vec<u64>,
    order: UseOrder,
    size: usize,
    next_stamp: u64,
    /// Windows taken from streams that still had them.
    pub(crate) evicted: u64,
}

impl Windows {
    /// `count` windows of `size` bytes.
    pub(crate) fn new(count: usize, size: usize) -> Self {
        let count = count.max(1);
        Self {
            bytes: FixedVec::with_capacity(count * size),
            free: Vec::with_capacity(count),
            lens: vec![0; count],
            stamps: vec![0; count],
            order: UseOrder::new(count),
            size,
            next_stamp: 1,
            evicted: 0,
        }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.bytes.show_spare(to);
        self.order.show_spare(to);
    }

    /// The bytes in a window; empty when it is lost.
    pub(crate) fn bytes(&mut self, window: Window) -> &[u8] {
        let index = window.index as usize;
        if window.stamp == 0 || self.stamps[index] != window.stamp {
            return &[];
        }
        self.order.touch(window.index);
        &self.bytes[index * self.size..index * self.size + self.lens[index] as usize]
    }

    /// Keeps the last bytes of `data`; whether the window is one of those that go first: of a stream inside a tunnel, or beside one.
    pub(crate) fn keep(&mut self, window: &mut Window, data: &[u8], goes_first: bool) {
        if window.stamp == 0 || self.stamps[window.index as usize] != window.stamp {
            *window = self.take();
        }
        self.order.add(window.index, goes_first);
        let index = window.index as usize;
        let tail = &data[data.len().saturating_sub(self.size)..];
        self.bytes[index * self.size..index * self.size + tail.len()].copy_from_slice(tail);
        self.lens[index] = tail.len() as u32;
    }

    /// Gives a window back.
    pub(crate) fn free(&mut self, window: &mut Window) {
        let index = window.index as usize;
        if window.stamp != 0 && self.stamps[index] == window.stamp {
            self.stamps[index] = 0;
            self.order.remove(window.index);
            self.free.push(window.index);
        }
        *window = Window::default();
    }

    /// A free window, or another stream's.
    fn take(&mut self) -> Window {
        let ever_used = self.bytes.len() / self.size.max(1);
        let index = match self.free.pop() {
            Some(index) => index as usize,
            None if ever_used < self.stamps.len() => ever_used,
            None => {
                self.evicted += 1;
                self.order.to_give_up(None).unwrap_or(0) as usize
            }
        };
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        self.stamps[index] = stamp;
        self.lens[index] = 0;
        self.bytes.reach((index + 1) * self.size, 0);
        Window { index: index as u32, stamp }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_used_before_anything_new_and_before_another_s() {
        let mut windows = Windows::new(3, 4);
        let mut owners = [Window::default(); 4];
        windows.keep(&mut owners[0], b"first", false);
        windows.free(&mut owners[0]);
        windows.keep(&mut owners[0], b"0", false);
        assert_eq!(windows.bytes.len(), 4, "the same again");
        windows.keep(&mut owners[1], b"1", false);
        windows.keep(&mut owners[2], b"2", false);
        assert_eq!((windows.bytes.len(), windows.evicted), (12, 0));
        windows.free(&mut owners[1]);
        windows.keep(&mut owners[3], b"third", false);
        assert_eq!(windows.evicted, 0);
        assert_eq!(owners.map(|owner| windows.bytes(owner).to_vec()), [&b"0"[..], b"", b"2", b"hird"]);
        windows.keep(&mut owners[1], b"4", false);
        assert_eq!(windows.evicted, 1);
        assert_eq!(owners.iter().filter(|owner| windows.bytes(**owner).is_empty()).count(), 1);
    }
}

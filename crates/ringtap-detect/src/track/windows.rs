//! Owns: the last bytes of each stream that was inspected, in a fixed number of windows; the one used longest ago goes.
//! Does not: know streams; they keep the number and stamp of their window.

/// A stream's hold on a window: valid as long as nobody else was given it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    index: u32,
    stamp: u64,
}

pub(crate) struct Windows {
    bytes: Vec<u8>,
    lens: Vec<u32>,
    /// Stamp of the owner; 0: free.
    stamps: Vec<u64>,
    /// Used since the hand came by.
    used: Vec<bool>,
    hand: usize,
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
            bytes: vec![0; count * size],
            lens: vec![0; count],
            stamps: vec![0; count],
            used: vec![false; count],
            hand: 0,
            size,
            next_stamp: 1,
            evicted: 0,
        }
    }

    /// The bytes in a window; empty when it is lost.
    pub(crate) fn bytes(&mut self, window: Window) -> &[u8] {
        let index = window.index as usize;
        if window.stamp == 0 || self.stamps[index] != window.stamp {
            return &[];
        }
        self.used[index] = true;
        &self.bytes[index * self.size..index * self.size + self.lens[index] as usize]
    }

    /// Keeps the last bytes of `data`.
    pub(crate) fn keep(&mut self, window: &mut Window, data: &[u8]) {
        if window.stamp == 0 || self.stamps[window.index as usize] != window.stamp {
            *window = self.take();
        }
        let index = window.index as usize;
        let tail = &data[data.len().saturating_sub(self.size)..];
        self.bytes[index * self.size..index * self.size + tail.len()].copy_from_slice(tail);
        self.lens[index] = tail.len() as u32;
        self.used[index] = true;
    }

    /// Gives a window back.
    pub(crate) fn free(&mut self, window: &mut Window) {
        let index = window.index as usize;
        if window.stamp != 0 && self.stamps[index] == window.stamp {
            self.stamps[index] = 0;
            self.used[index] = false;
        }
        *window = Window::default();
    }

    /// A free window, or the first the hand finds that was not used since it last came by.
    fn take(&mut self) -> Window {
        // Twice round at most: the first round clears the marks.
        while self.stamps[self.hand] != 0 && self.used[self.hand] {
            self.used[self.hand] = false;
            self.hand = (self.hand + 1) % self.stamps.len();
        }
        let index = self.hand;
        self.hand = (self.hand + 1) % self.stamps.len();
        self.evicted += u64::from(self.stamps[index] != 0);
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        self.stamps[index] = stamp;
        self.lens[index] = 0;
        Window { index: index as u32, stamp }
    }
}

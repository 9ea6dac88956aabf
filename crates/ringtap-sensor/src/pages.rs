//! The thread that gives the detectors' tables their pages, a little ahead of use.
//!
//! Owns when to look; how it is done is `ringtap::SparePages`.

use std::mem::MaybeUninit;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use ringtap::{Error, Result, SparePages};
use ringtap_detect::{FillLevel, SpareVisitor};

/// Stack of a thread that does little: all of the process's memory is locked, what nobody uses too.
const STACK_BYTES: usize = 128 << 10;
/// The reserve of a table for 65,536 flows holds 4,000: 40,000 new flows a second find their pages in place.
const LOOK: Duration = Duration::from_millis(100);

/// The tables whose pages are not all there.
#[derive(Default)]
pub(crate) struct Tables {
    filling: Vec<(SparePages, FillLevel)>,
    /// Bytes of those that have all their pages by now.
    late: usize,
}

impl SpareVisitor for Tables {
    fn spare<T>(&mut self, memory: &mut [MaybeUninit<T>], filled: &FillLevel) {
        self.filling.extend(SparePages::over(memory).map(|pages| (pages, filled.clone())));
    }
}

impl Tables {
    fn follow(&mut self) {
        let late = &mut self.late;
        self.filling.retain_mut(|(pages, filled)| {
            pages.follow(filled.elements());
            let rest = pages.empty_bytes() > 0;
            *late += if rest { 0 } else { pages.late_bytes() };
            rest
        });
    }

    /// Follows them on a thread of its own. They must be those of detectors that have seen no packet.
    pub(crate) fn watched(mut self) -> Result<Watched> {
        let (stop, told) = mpsc::channel();
        let work = move || {
            while !self.filling.is_empty() && told.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                self.follow();
            }
            self.follow();
            (self.late + self.filling.iter().map(|(pages, _)| pages.late_bytes()).sum::<usize>()) as u64
        };
        let thread = std::thread::Builder::new()
            .name("ringtap-pages".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(work)
            .map_err(|error| Error::os("start", "the thread for the tables' pages", &error))?;
        Ok(Watched { stop, thread })
    }
}

/// That thread.
pub(crate) struct Watched {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<u64>,
}

impl Watched {
    /// Bytes that the engines used before they had their pages, each at the cost of a page fault.
    pub(crate) fn finish(self) -> u64 {
        drop(self.stop);
        self.thread.join().unwrap_or(0)
    }
}

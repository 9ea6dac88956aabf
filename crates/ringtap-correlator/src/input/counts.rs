//! Owns: what is counted of one input, by the thread that reads it.
//! Does not: count what became of its events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bad lines of one input, and failures, that are told one by one.
const TOLD: u64 = 10;

/// What one input counted; one thread writes, any reads.
#[derive(Debug, Default)]
pub struct InputCounts {
    /// Its name.
    pub name: String,
    /// Lines.
    pub lines: AtomicU64,
    /// Lines that were no event, among them.
    pub bad: AtomicU64,
    /// Times that reading failed.
    pub failed: AtomicU64,
    /// Datagrams that the kernel dropped for want of room.
    pub dropped: AtomicU64,
}

impl InputCounts {
    /// For an input of this name.
    #[must_use]
    pub fn new(name: &str) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), ..Self::default() })
    }

    /// Counts that reading failed; the first times are told. Who connects can do it as often as it wants.
    pub(super) fn failed(&self, error: &std::io::Error) {
        if self.failed.fetch_add(1, Ordering::Relaxed) < TOLD {
            ringtap_run::notes::say(&format!("read {}: {error}", self.name));
        }
    }

    /// Counts a bad line; the first are told, with their number.
    pub(super) fn bad(&self, line: u64, why: &dyn std::fmt::Display) {
        let before = self.bad.fetch_add(1, Ordering::Relaxed);
        if before < TOLD {
            ringtap_run::notes::say(&ringtap_output::printable(&format!("{}:{line}: {why}", self.name)));
        } else if before == TOLD {
            ringtap_run::notes::say(&ringtap_output::printable(&format!(
                "{}: further bad lines are counted only",
                self.name
            )));
        }
    }
}

//! Waking the thread that judges, when it sleeps.
//!
//! Owns the handshake of one sleeper and many who wake it. A system call only when somebody really sleeps.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::Thread;
use std::time::Duration;

/// Tells whether a thread sleeps, and wakes it.
#[derive(Debug, Default)]
pub struct Waker {
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Waker {
    /// Wakes the sleeper, if there is one.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.thread.get().inspect(|thread| thread.unpark());
        }
    }

    /// The calling thread, always the same, sleeps up to `limit` unless `is_idle` says no on the last look.
    ///
    /// Announce, fence, look again: who wakes stores, fences and looks at the announcement, so one sees the other.
    pub fn sleep(&self, limit: Duration, is_idle: impl FnOnce() -> bool) {
        self.thread.get_or_init(std::thread::current);
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if is_idle() {
            std::thread::park_timeout(limit);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }
}

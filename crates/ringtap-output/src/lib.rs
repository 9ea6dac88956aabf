//! Outputs that take lines of any kind: a file, a Unix socket, syslog; and a webhook, which takes batches of JSON texts. Each
//! failure is counted and the next line tried.
//!
//! Queues and threads are [`Queue`]'s, for the records of a data path, and [`announce`]'s, for what a program has to tell.

#![forbid(unsafe_code)]

pub mod announce;
mod file;
mod log_server;
mod queue;
mod reconnecting;
mod severity;
mod socket;
mod syslog;
pub mod time;
mod webhook;

use std::sync::atomic::{AtomicU64, Ordering};

pub use file::FileOutput;
pub use log_server::LogServer;
pub use queue::{Producer, Queue, Work};
pub use severity::Severity;
pub use socket::UnixOutput;
pub use syslog::{Protocol, SyslogOutput};
pub use webhook::Webhook;

/// What became of lines; written by the output thread, read by any.
#[derive(Debug, Default)]
pub struct Counts {
    /// Lines that an output took.
    pub written: AtomicU64,
    /// Lines that could not be written: full disk, dead socket.
    pub failed: AtomicU64,
}

impl Counts {
    fn count(&self, done: bool) {
        if done { &self.written } else { &self.failed }.fetch_add(1, Ordering::Relaxed);
    }
}

/// One output.
#[derive(Debug)]
pub enum Output {
    /// A file, or standard output.
    File(FileOutput),
    /// A Unix socket.
    Unix(UnixOutput),
    /// Syslog.
    Syslog(SyslogOutput),
}

impl Output {
    /// Writes one line, which ends with its line feed. `None`: it tells of nothing wrong, or of a condition that is gone.
    pub fn line(&mut self, line: &[u8], severity: Option<Severity>, counts: &Counts) {
        counts.count(match self {
            Self::File(file) => file.line(line),
            Self::Unix(socket) => socket.line(line),
            Self::Syslog(syslog) => syslog.line(line, severity),
        });
    }

    /// Hands on what is buffered; called when the queue was found empty, and at the end. A line that was counted as
    /// written and now is not is counted as failed.
    pub fn flush(&mut self, counts: &Counts) {
        if let Self::File(file) = self
            && let Some(lost) = file.flush()
        {
            counts.failed.fetch_add(lost, Ordering::Relaxed);
            counts.written.fetch_sub(lost, Ordering::Relaxed);
        }
    }

    /// Opens files again: they were moved away.
    pub fn reopen(&mut self) {
        if let Self::File(file) = self {
            file.reopen();
        }
    }
}

/// Text for a terminal: what came from the network must not steer it, nor turn its lines around.
#[must_use]
pub fn printable(text: &str) -> String {
    let steers = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect()
}

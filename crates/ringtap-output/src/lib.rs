//! Outputs that take lines of any kind: a file, a Unix or TCP socket, syslog, a topic of Kafka; and a webhook, which takes batches of JSON texts. Each
//! failure is counted and the next line tried.
//!
//! Queues and threads are [`Queue`]'s, for the records of a data path, and [`announce`]'s, for what a program has to tell.

#![forbid(unsafe_code)]

pub mod announce;
mod file;
pub mod http;
mod log_server;
pub mod metrics;
mod output;
mod queue;
mod reconnecting;
mod severity;
mod socket;
mod syslog;
mod tcp;
pub mod time;
mod webhook;

use std::sync::atomic::{AtomicU64, Ordering};

pub use ringtap::text::printable;
use ringtap::text::steers;

pub use log_server::LogServer;
pub use output::{Announced, Output, Taken};
pub use queue::{Producer, Queue, Room, Work};
pub use ringtap_kafka::{Target as KafkaTarget, topic as kafka_topic};
pub use severity::Severity;
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
    /// Adds these.
    pub fn add(&self, taken: Taken) {
        self.written.fetch_add(taken.written, Ordering::Relaxed);
        self.failed.fetch_add(taken.failed, Ordering::Relaxed);
    }
}

/// A JSON object on one line for a terminal: what would steer it is escaped, so that the object means the same.
#[must_use]
pub fn printable_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // All of them have four digits at most.
        match steers(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_steers_no_terminal_and_means_the_same() {
        let text = r#"{"a":"b"}"#.replace('b', "x\u{9b}2J\u{202e}\u{7f}\u{e9}");
        let shown = printable_json(&text);
        assert_eq!(shown, "{\"a\":\"x\\u009b2J\\u202e\\u007f\u{e9}\"}");
    }
}

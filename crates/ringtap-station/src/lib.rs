//! The management station as a library: SNMP notifications and syslog become alarms, in a store that survives a crash.
//!
//! [`station::run`] is all of it; the parts between receiving and telling have no thread, socket or clock of their own and can be used alone.
//! Not here: SNMP itself (`ringtap-snmp`), how lines are written to outputs (`ringtap-output`), arguments and their text (the command).
//!
//! # A trap's walk, file by file
//!
//! 1. `receive/sockets.rs` (or `receive/ring.rs`, `receive/stream.rs`): the datagram is found, and copied once, into
//! 2. [`spool`], where it stays until it is on the disk.
//! 3. `pipeline.rs`, one thread: takes batches, keeps them where they lie, and hands each datagram to
//! 4. [`judge`]: decode ([`ringtap_snmp::decode`], [`syslog`]), find the rule,
//! 5. [`rules`], which names condition, object and effect,
//! 6. [`table`]: which alarm it is and what became of it; a row of the job ([`store::Job`]) is the result.
//! 7. `pipeline/writer.rs`, another thread: the job goes to
//! 8. [`store`], in one transaction; an inform's answer leaves after it, announcements left after step 6 by `outputs.rs`.
//!
//! The one copy is that of step 1. When the disk is slow and a quarter of the spool waits for it, step 3 has what is stored copied out of the
//! spool into the job, so that what arrives still has room.
#![forbid(unsafe_code)]

pub mod act;
pub mod admission;
pub mod alarm;
pub mod cause;
pub mod config;
pub mod counts;
pub mod discover;
pub mod expiry;
pub mod filter;
pub mod forward;
mod incidents;
pub mod judge;
pub mod listing;
pub mod maintenance;
mod metrics;
pub mod mibs;
pub mod operations;
pub mod options;
pub(crate) mod outputs;
pub mod pattern;
mod pipeline;
mod posts;
pub mod question;
mod receive;
pub mod render;
mod resume;
mod rootcause;
pub mod rules;
mod shares;
pub mod spool;
pub mod station;
pub mod status;
pub mod store;
pub mod syslog;
pub mod table;
pub mod terms;
mod text;
mod tls;
pub mod top;
pub mod topology;
mod view;
pub mod waker;

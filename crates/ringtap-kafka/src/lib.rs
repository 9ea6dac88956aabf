//! Kafka without an async runtime and without C++: lines written to a topic, and topics that are read.
//!
//! A line's way out: [`Output::line`] → `spool` (files, so that a broker may be away) → `producer`, a thread: batches in their
//! order, numbered, so that the broker takes each once → `cluster` → `connection` (TLS, SASL) → `messages`. Records that come in:
//! [`Consumer`] → `cluster` → `records`. The layouts are Kafka's own (`wire`, `messages`, `records`), of versions that brokers from
//! 2.1 on speak.
//!
//! Owns the protocol, the spool and its bound, and what is said when a broker goes and comes. Does not: know what a line says, read a
//! command line, or keep the positions of a reader: who reads keeps them with what it made of the records.
#![forbid(unsafe_code)]

mod brokers;
mod cluster;
mod compression;
mod connection;
mod consumer;
mod failure;
#[doc(hidden)]
pub mod messages;
mod output;
mod producer;
#[doc(hidden)]
pub mod records;
mod scram;
mod security;
mod spool;
#[doc(hidden)]
pub mod wire;

pub use brokers::{Brokers, topic};
pub use consumer::{Consumer, Fetched, Record, Source};
pub use output::{Output, Target};
pub use security::{Mechanism, Sasl, Security};

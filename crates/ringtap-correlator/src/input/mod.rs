//! Inputs: what comes in, as events and heartbeats.
//!
//! `lines` cuts bytes into lines, `parse` makes events of them, `keyring` opens what registered sensors have sealed, `reader`
//! goes through one input; [`files`] and [`listen`] open inputs and have the threads that read, `datagrams` and `connections`
//! are their sockets, `ears` knows whether something waits there, and all hand over by `channel`.

mod channel;
mod connections;
pub mod counts;
mod datagrams;
mod ears;
pub mod files;
pub(crate) mod kafka;
pub mod keyring;
pub mod lines;
pub mod listen;
pub mod own;
mod reader;
pub(crate) mod source;

pub use channel::Came;
pub use ringtap_event::parse;

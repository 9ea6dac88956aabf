//! Ringtap's capture core: one real-time thread per queue, one shared pinned ring, hybrid waiting.
//!
//! A program that counts packets, whole (`examples/count.rs`; `examples/record.rs` writes them into a file):
//!
//! ```no_run
#![doc = include_str!("../examples/count.rs")]
//! ```
//!
//! A packet's way: device → ring → [`Source::receive`] → [`Burst`] → [`Engine::run`] → [`Handler::packet`] → the burst is
//! dropped and its frames go back. ARCHITECTURE.md tells the whole path.
//!
//! A new application is a new [`Handler`]. A new kind of device is a new [`Source`], which may be another crate's:
//! [`PacketBuffer`] shows one. Both are tested without root over [`testing`].

mod accounts;
pub mod arrival;
pub mod burst;
pub mod calibrate;
pub mod clock;
pub mod core_use;
pub mod engine;
pub mod error;
pub mod hand_over;
pub mod histogram;
pub mod host_use;
pub mod interface;
pub mod ledger;
pub mod meters;
pub mod napi;
pub mod pacer;
pub mod realtime;
pub mod receiver;
pub mod record;
pub mod settings;
pub mod source;
pub mod steer;
pub(crate) mod sys;
pub mod testing;
pub mod text;
pub mod transmit;

pub use burst::{Burst, Packet, PacketBuffer};
pub use engine::{End, Engine, Handler};
pub use error::{Error, Result};
pub use hand_over::HandOver;
pub use ledger::{Cause, Ledger};
pub use pacer::{Hybrid, Pacer, Policy};
pub use receiver::{Backend, Outcome, Queues, Receiver, ReceiverConfig, Running};
pub use source::Source;
pub use sys::available::available_memory_bytes;
pub use sys::event::{Event, PollEnd, Stop};
pub use sys::spare_pages::SparePages;
pub use sys::{cycles, keeper, local, netdev, netlink, perf, prefer_huge_pages, privileges, sched};
pub use transmit::Outbox;

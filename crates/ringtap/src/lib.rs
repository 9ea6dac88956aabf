//! Ringtap's capture core: one real-time thread per queue, one shared pinned ring, hybrid waiting.
//!
//! A packet's way: device → ring → [`source::Source::receive`] → [`burst::Burst`] → [`engine::Engine::run`] →
//! [`engine::Handler::packet`] → the burst is dropped and its frames go back. ARCHITECTURE.md tells the whole path.

mod accounts;
pub mod arrival;
pub mod burst;
pub mod calibrate;
pub mod core_use;
pub mod engine;
pub mod error;
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
pub mod sys;
pub mod transmit;

pub use error::{Error, Result};

//! Storms with a truth: a network, what breaks in it, and what its nodes then say, when, and who hears it.
//!
//! Owns a simulator for tests and studies of root cause. It shares nothing with the engine that is tested but the topology file, which it
//! writes as text, and the names of elements: `link:A:1-B:2`, `card:A/1`, `node:A`, `power:P`, `process:A/bgp`.

mod file;
mod network;
mod play;
mod text;
mod traps;

pub use network::{Network, Shape};
pub use play::{Event, Fault, Noise, Played, Story};

//! Inputs: what comes in, as events.
//!
//! `lines` cuts bytes into lines, `parse` makes events of them, `reader` does both for one input; [`files`] and [`listen`]
//! open inputs and have the threads that read.

pub mod counts;
pub mod files;
pub mod lines;
pub mod listen;
pub mod parse;
mod reader;

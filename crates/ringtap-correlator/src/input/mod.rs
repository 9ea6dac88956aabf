//! Inputs: what comes in, as events.
//!
//! `lines` cuts bytes into lines, `parse` makes events of them, `files` and `listen` have the threads that read.

pub mod files;
pub mod lines;
pub mod listen;
pub mod parse;

//! Where the kernel's contracts live: mappings, rings shared with the kernel, sockets, scheduling, clocks.
//!
//! The only module of this crate that may use `unsafe`; each block says why it holds. Everything above it is safe code.
#![allow(unsafe_code)]

pub mod clock;
pub mod event;
pub(crate) mod memory;
pub mod perf;
pub mod sched;

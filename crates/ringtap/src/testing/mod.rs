//! What stands in for the kernel and its devices, so that what is built on this crate can be tested without root.

pub mod rings;

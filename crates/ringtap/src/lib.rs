//! The capture core.
pub mod pacer;

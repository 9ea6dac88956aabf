//! The correlator as a library: events of many sensors become incidents, by event time.
#![forbid(unsafe_code)]

pub mod correlator;
pub mod engine;
pub mod event;
pub mod fields;
pub mod identity;
pub mod input;
pub mod log;
pub mod logsource;
pub mod store;

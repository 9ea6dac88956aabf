//! `ringtap bench`: the seven criteria of capture (\[1] §6.1), for every way Ringtap can wait, its ablations and real peers,
//! in one interleaved run on the same core of a private testbed; and sensor, station and libpcap beside theirs. [`demo`] is the
//! short proof of the main job.
//!
//! Owns which runs are made, what is kept of them ([`book`]), the models fitted to them and the report. How packets are
//! made, received and counted belongs to `ringtap-testbed` and `ringtap`.

pub mod advice;
pub mod bench;
pub mod book;
pub mod catalogue;
pub mod cost_model;
pub mod definition;
pub mod demo;
mod packet_cost;
pub mod plots;
mod programs;
mod record;
pub mod report;
mod resume;
pub mod run;
pub mod scale;
mod soak;
mod softirq;
mod staged;
mod storm;
mod study;
mod work;

pub use bench::{Bench, Beside, Progress, Wanted};
pub use definition::Definitions;
pub use scale::Scale;
pub use soak::soak;
pub use study::Study;

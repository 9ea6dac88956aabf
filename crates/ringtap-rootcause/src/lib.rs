//! Root cause: which element broke, found from the storm of alarms that it made.
//!
//! **Owns:** the topology and its file, the codebook (which symptoms each cause has), the choice of the causes of least cost, and the
//! engine that turns alarms and their clears into incidents: held until decided, revised, merged, resolved.
//! **Does not:** read files, keep a clock, receive notifications, store incidents, or drop an alarm. It has no floats and no order of
//! hashes: the same input gives the same output on every host.
//!
//! The engine **explains and never drops**: every alarm belongs to an incident once it is decided, and to at most one at a time. What is
//! held back is the announcement.
#![forbid(unsafe_code)]

mod candidates;
pub mod engine;
mod episode;
mod explain;
pub mod incident;
mod predict;
mod problem;
pub mod symptom;
pub mod topology;
mod why;

pub use engine::{Engine, Settings, State};
pub use incident::{Incident, Output, Root};
pub use problem::Element;
pub use symptom::Subject;
pub use topology::Topology;
pub use why::Step;

//! Alarms: what they are, which are there, and their way out.
//!
//! **Owns:** the station's alarms ([`model`], [`table`]: key, severity, state, counts, flapping); the sensor's [`Record`]s (fixed size,
//! made on the data path without allocation), [`eve`], [`datagram`]; and [`output`], which both use: files, Unix sockets and syslog behind
//! a bounded queue. The outputs take lines and know no record.
//! **Does not:** find anything, decode notifications, store, or own rings: alarms in the transmit ring are written by whoever owns it.
#![forbid(unsafe_code)]

mod catalogue;
mod community;
pub mod datagram;
pub mod eve;
pub mod model;
pub mod output;
mod record;
pub mod table;
mod time;

pub use catalogue::{Catalogue, RuleText};
pub use community::community_id;
pub use record::{Alarm, AnomalyRecord, FlowFacts, FlowRecord, Place, Record, RuleKey, TaggedRecord};

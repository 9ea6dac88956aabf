//! Alarms on their way out: the sensor's record, its form as EVE JSON, as a datagram and as syslog, and outputs that take
//! any line from a thread of their own.
//!
//! **Owns:** [`Record`]s (fixed size, made on the data path without allocation), [`eve`], [`datagram`], and [`output`]:
//! files, Unix sockets and syslog behind a bounded queue. The outputs take lines and know no record.
//! **Does not:** find anything, or own rings: alarms in the transmit ring are written by whoever owns it.
#![forbid(unsafe_code)]

mod catalogue;
mod community;
pub mod datagram;
pub mod eve;
pub mod output;
mod record;
mod time;

pub use catalogue::{Catalogue, RuleText};
pub use community::community_id;
pub use record::{Alarm, AnomalyRecord, FlowFacts, FlowRecord, Place, Record, RuleKey};

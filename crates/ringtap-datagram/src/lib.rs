//! What a sensor tells a correlator: alerts, and heartbeats that say up to which time nothing more will come.
//!
//! The same [`Message`] has two forms, both sealed with a [`Key`]: a datagram ([`datagram`]) and a JSON line ([`mod@line`]). One in the
//! sensor's own process is told by neither, but as a [`Listener`].
//!
//! ```
//! use ringtap_datagram::{Heartbeat, Key, MAX_LEN, Message, Origin, Clock, datagram::Sealed};
//!
//! let key: Key = "7:000102030405060708090a0b0c0d0e0f".parse()?;
//! let origin = Origin { sensor: "north.1".parse()?, boot_id: [9; 16], clock: Clock::Host, epoch: 3 };
//! let beat = Heartbeat { origin, last_sequence: 12, horizon_ns: 5_000, sent_ns: 6_000, error_ns: None };
//! let mut payload = [0; MAX_LEN];
//! let len = Message::Heartbeat(beat).encode(&key, &mut payload).ok_or("no room")?;
//! let sealed = Sealed::parse(&payload[..len])?;
//! assert_eq!((sealed.sensor().as_str(), sealed.key_id()), ("north.1", 7));
//! assert_eq!(sealed.open(&key)?, Message::Heartbeat(beat));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Owns the layouts and the seal. No I/O, clock, thread or allocation in [`Message::encode`] and [`datagram`]. Does not: know
//! which sensors there are, keep numbers apart, or judge times; the receiver does.
#![forbid(unsafe_code)]

mod beside;
pub mod datagram;
mod key;
pub mod line;
mod message;
mod names;
mod refused;

pub use beside::{Listener, Stamps};
pub use datagram::{ALERT_LEN, HEARTBEAT_LEN, MAX_LEN};
pub use key::{Key, KeyError, TAG_LEN};
pub use message::{Action, Alert, Clock, Direction, Ends, Heartbeat, IdError, Message, Origin, Rule, SensorId};
pub use names::protocol_name;
pub use refused::Refused;

//! The management station: SNMP notifications and syslog to alarms, and a store that survives a crash. No sockets.
//!
//! A datagram's way: [`spool`] (bounded, from the receiving thread) → [`station::Station`] ([`decode`], [`syslog`]) →
//! [`AlarmTable`](ringtap_alarm::table::AlarmTable) → [`store::Store`], batch by batch; an inform's answer leaves after its batch is durable.

pub mod ber;
pub mod cause;
pub mod decode;
pub mod encode;
pub mod known;
pub mod names;
pub mod notification;
pub mod oid;
pub mod render;
pub mod snmp;
pub mod spool;
pub mod station;
pub mod store;
pub mod storm;
pub mod syslog;
mod text;
pub mod usm;

//! SNMP without sockets: BER, messages of v1, v2c and v3, the user-based security model, notifications, names of objects, encoding.
//!
//! Owns what the RFCs say about bytes. It is pure: it opens nothing, waits for nothing and reads no clock; times are given by the caller.
//! Reading MIB files and sending datagrams is for its users.
//!
//! An agent is asked by [`walk`]. A notification's way in: [`decode`] ([`message`], [`ber`], [`usm`]) → [`notification`]; its way out: [`encode`] ([`usm::Sealer`]).
#![forbid(unsafe_code)]

pub mod ber;
pub mod config;
pub mod decode;
pub mod encode;
pub mod message;
pub mod names;
pub mod notification;
pub mod oid;
pub mod rate;
pub mod refusal;
pub mod translate;
pub mod usm;
pub mod varbind;
pub mod walk;

/// The examples of the README are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! Events as every input of a correlator gives them, and incidents as every correlator tells them.
//!
//! **Owns:** a line or a sealed alarm into an event ([`parse`], [`alarm`]), its number among equals ([`identity`]), where
//! the fields of rules are in it ([`fields`], [`logsource`], [`scopes`]), how far registered sensors have come and what they
//! could not tell ([`sensors`]), and the JSON of what rules find ([`incident`]).
//! **Does not:** read inputs, keep a clock or a thread, judge. It is the same on a host of its own and, as wasm, on a
//! cluster, so that both take and tell the same.
#![forbid(unsafe_code)]

pub mod alarm;
pub mod event;
pub mod fields;
pub mod identity;
pub mod incident;
pub mod logsource;
pub mod parse;
pub mod scopes;
pub mod sensors;
pub mod silence;

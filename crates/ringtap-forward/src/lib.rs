//! Sends packets on. [`split`] distributes the packets of one interface over several outputs.
//!
//! Owns what is done with packets between two rings, and the account of each. Does not: read arguments, choose an exit code, know how
//! a receiver is set up (`ringtap-run`), or look into packets further than to tell where they go.

#![forbid(unsafe_code)]

pub mod split;

//! Sends packets on. [`split`] distributes the packets of one interface over several outputs, [`forward`] makes a wire of two interfaces.
//!
//! Owns what is done with packets between two rings, and the account of each: `port` sends and `counts` counts for both, `loops` refuses
//! what would come back, `health` hears of links. Does not: read arguments, choose an exit code, know how a receiver is set up
//! (`ringtap-run`), or look into packets further than to tell where they go.

#![forbid(unsafe_code)]

mod counts;
pub mod forward;
mod health;
mod loops;
mod port;
pub mod split;

//! Owns: the step function: one event, or the watermark, for one rule and one key.
//! Does not: find the key's state, keep timers, or read a clock: all that is the host's.

mod counts;
mod entry;
mod ordered;
mod preview;
mod queue;
mod state;
mod together;
mod window;

pub use entry::{Clock, Digest, Fill, Identity, IncidentId, Mark};
pub(crate) use entry::{ENTRY_BYTES, Entry, VALUE_BYTES, VIA_BYTES};
pub use preview::{Certain, Reach};
pub(crate) use state::STATE_BYTES;
pub use state::State;

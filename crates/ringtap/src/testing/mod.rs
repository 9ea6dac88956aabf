//! What stands in for card, kernel and time, so that engines and what is built on them can be tested without root.
//!
//! Ordinary parts of the crate and no feature: they bring no dependency, and what is not called is not linked. Owns the list.
//! A whole [`Receiver`](crate::Receiver) runs over such a source as well: [`given::give`](crate::source::given::give), then
//! [`Backend::Given`](crate::Backend::Given).
//!
//! Here a packet's latency is exact, as the engine's own loop runs in simulated time:
//!
//! ```
//! use ringtap::testing::{self, Arrival, MemorySource, Script, SimulatedClock};
//! use ringtap::{End, Engine, Handler, Outbox, Packet, Pacer, Policy};
//!
//! struct Ignore;
//!
//! impl Handler for Ignore {
//!     fn packet(&mut self, _packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {}
//! }
//!
//! let clock = SimulatedClock::at(1_000_000);
//! let script = Script::of([Arrival::at(1_030_000, b"first"), Arrival::at(1_070_000, b"second")]);
//! let source = MemorySource::new("example", clock.clone(), script)?;
//! // Looks every 100 µs.
//! let pacer = Pacer::new(&Policy::Timer { period_ns: 100_000 })?;
//! let mut engine = Engine { pacer, packet_limit: Some(2), ..testing::engine(source, Ignore)? };
//! assert_eq!(engine.run_by(&clock, |_, _| {}), End::Limit);
//! let latency = engine.meters.snapshot().latency;
//! assert_eq!((latency.count(), latency.max_ns()), (2, 70_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod clock;
pub mod memory;
pub mod rings;

pub use clock::{SimulatedClock, WakeCosts};
pub use memory::{Arrival, Ending, MemorySource, Script};

use std::sync::Arc;

use crate::meters::EngineMeters;
use crate::{Engine, Error, Handler, Pacer, Policy, Result, Source, Stop};

/// An engine over `source` that waits for each packet, with nothing around it: no transmit ring, no limit, nobody who stops it.
///
/// # Errors
/// There is no descriptor left for [`Stop`].
pub fn engine<S: Source, H: Handler>(source: S, handler: H) -> Result<Engine<S, H>> {
    Ok(Engine {
        source,
        handler,
        pacer: Pacer::new(&Policy::Interrupt).map_err(|error| Error::usage("wait by", "interrupts", error))?,
        transmit: None,
        stop: Arc::new(Stop::new()?),
        meters: Arc::new(EngineMeters::default()),
        packet_limit: None,
    })
}

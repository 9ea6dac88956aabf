//! What stands in for card, kernel and time, so that engines and what is built on them can be tested without root.
//!
//! Ordinary parts of the crate and no feature: they bring no dependency, and what is not called is not linked. Owns the list.
//! A whole [`Receiver`](crate::Receiver) runs over such a source as well: [`given::give`](crate::source::given::give), then
//! [`Backend::Given`](crate::Backend::Given).
//!
//! Here a packet's latency is exact, as the engine's own loop runs in simulated time:
//!
//! ```
//! use std::sync::Arc;
//!
//! use ringtap::meters::EngineMeters;
//! use ringtap::testing::{Arrival, MemorySource, Script, SimulatedClock};
//! use ringtap::{End, Engine, Handler, Outbox, Packet, Pacer, Policy, Stop};
//!
//! struct Ignore;
//!
//! impl Handler for Ignore {
//!     fn packet(&mut self, _packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {}
//! }
//!
//! let clock = SimulatedClock::at(1_000_000);
//! let script = Script::of([Arrival::at(1_030_000, b"first"), Arrival::at(1_070_000, b"second")]);
//! let mut engine = Engine {
//!     source: MemorySource::new("example", clock.clone(), script)?,
//!     handler: Ignore,
//!     // Looks every 100 µs.
//!     pacer: Pacer::new(&Policy::Timer { period_ns: 100_000 })?,
//!     transmit: None,
//!     stop: Arc::new(Stop::new()?),
//!     meters: Arc::new(EngineMeters::default()),
//!     packet_limit: Some(2),
//! };
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

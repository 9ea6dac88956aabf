//! Ringtap's testbed: private hosts, a paced generator that numbers its packets, a checker of the numbers, and meters.
//!
//! [`Testbed::new`] makes two hosts joined by a wire; [`Testbed::generate`] sends stamped packets over it; the receiver hands
//! each packet's [`Stamp`] to a [`SequenceChecker`]; [`CoreUse`] and [`WireCounters`] tell what it cost and where packets
//! were lost. Everything lives in anonymous namespaces and vanishes with the process, however that ends.
//!
//! ```no_run
//! use std::time::Duration;
//! use ringtap_testbed::{CoreUse, GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig, WireCounters};
//!
//! # fn main() -> ringtap::Result<()> {
//! let testbed = Testbed::new(TestbedConfig::default())?;
//! testbed.enable_receiver_napi()?; // or attach an XDP program to testbed.receiver().interface()
//! let before = WireCounters::read(&testbed)?;
//! let core = CoreUse::start(testbed.config().receiver_core)?;
//! let profile = Profile::lasting(Pattern::Constant { pps: 148e3 }, Duration::from_secs(1));
//! let generator = testbed.generate(GeneratorConfig::for_testbed(&testbed, 64, profile))?;
//! // … receive inside testbed.receiver().spawn("receiver", || …), Stamp::from_frame, SequenceChecker::see …
//! let report = generator.join()?;
//! println!("{report}\n{}\n{:?}", core.finish()?, WireCounters::read(&testbed)?.drops_since(&before));
//! # Ok(())
//! # }
//! ```

mod drops;
mod far_host;
mod folder;
pub mod generate;
mod host;
pub mod meter;
mod namespace;
mod napi;
mod outputs;
pub mod peer;
mod redirect;
pub mod sequence;
pub mod stamp;
pub mod storm;
mod testbed;
mod tools;
pub mod trial;

pub use drops::{DeviceCounters, DeviceDrops, WireCounters};
pub use far_host::FarHost;
pub use folder::Folder;
pub use generate::{FrameSpec, Generator, GeneratorBackend, GeneratorConfig, GeneratorReport, Pattern, Profile};
pub use host::{Host, Link, RunningProgram};
pub use meter::{CoreUse, CoreUseReport, SoakerCalibration};
pub use napi::NAPI_PRIORITY;
pub use outputs::{InnerWire, OutputWire};
pub use redirect::{KernelForwarder, RunningForwarder};
pub use sequence::{LossBurst, SequenceChecker, SequenceReport};
pub use stamp::Stamp;
pub use testbed::{NAMESPACE_MARK, Testbed, TestbedConfig, Topology, in_testbed_namespace};

//! Ringtap's testbed: private hosts, a paced generator that numbers its packets, a checker of the numbers, and meters.

mod drops;
pub mod generate;
mod host;
mod namespace;
mod napi;
pub mod stamp;
mod testbed;
mod tools;

pub use drops::{DeviceCounters, DeviceDrops, WireCounters};
pub use generate::{FrameSpec, Generator, GeneratorConfig, GeneratorReport, Pattern, Profile};
pub use host::{Host, Link, RunningProgram};
pub use napi::NAPI_PRIORITY;
pub use stamp::Stamp;
pub use testbed::{NAMESPACE_MARK, Testbed, TestbedConfig, Topology, in_testbed_namespace};

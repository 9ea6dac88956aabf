//! The command over third-party data: detection cases, and captures that are replayed.

mod cases;
mod replay;

#[path = "../net_generate_cli/replays.rs"]
mod replays;
#[path = "../sensor_support/mod.rs"]
mod sensor_support;
#[allow(dead_code, reason = "the tests of the generator use all of it")]
#[path = "../net_generate_cli/support.rs"]
mod support;

//! `ringtap generate --traps`: the options of a storm. What is said when, its frames and sending are the testbed crate's.

use std::path::PathBuf;

use clap::ValueEnum;
use ringtap::{Error, Result, clock};
use ringtap_station::config::Config;
use ringtap_testbed::generate::Prepared;
use ringtap_testbed::storm::form::{Engines, Form};
use ringtap_testbed::storm::{Script, Storm};
use ringtap_testbed::{FrameSpec, Generator};

use super::Args;

/// The port of SNMP notifications.
pub(super) const TRAP_PORT: u16 = 162;

/// Options about traps.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Traps")]
pub(super) struct TrapArgs {
    /// Send SNMP traps instead: the profile core-router-fails, or a file with one trap a line
    #[arg(long, value_name = "FILE|PROFILE", requires = "count", group = "notifications",
        conflicts_with_all = ["replay", "size", "pattern", "burst_length", "burst_rate", "ramp_to", "pace", "passes", "from", "from_port",
            "flows", "stream", "backend"])]
    traps: Option<String>,
    /// Version of the traps
    #[arg(long, value_name = "VERSION", value_enum, default_value = "v2c", requires = "notifications")]
    trap_version: Version,
    /// Source addresses of the traps, from 10.64.0.1 or 2001:2:0:64::1 on (1 to 65000)
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=65_000), requires = "traps")]
    nodes: u32,
    /// Community of v1 and v2c
    #[arg(long, value_name = "NAME", default_value = "public", requires = "notifications")]
    community: String,
    /// For v3: the first [[trap.user]] of this configuration, as ringtap trap reads it, is who sends
    #[arg(long, value_name = "FILE", required_if_eq("trap_version", "v3"), requires = "notifications")]
    config: Option<PathBuf>,
}

/// Versions of SNMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Version {
    /// SNMPv1
    V1,
    /// SNMPv2c
    V2c,
    /// SNMPv3, each node an engine of its own; each trap is sealed when it is sent
    V3,
}

/// What is to be sent, if traps are.
pub(super) fn read(args: &Args) -> Result<Option<Storm>> {
    let Some(traps) = &args.trap.traps else { return Ok(None) };
    let nodes = args.trap.nodes;
    let form = form(&args.trap)?;
    // The family is the destination's, which is known when the interface is.
    Ok(Some(Storm { script: Script::read(traps)?, nodes, count: args.count.unwrap_or(0), form, ipv6: false }))
}

/// The version of the traps, and what it needs.
pub(super) fn form(args: &TrapArgs) -> Result<Form> {
    let community = args.community.clone();
    Ok(match (args.trap_version, &args.config) {
        (Version::V1 | Version::V2c, Some(_)) => {
            let cause = "only traps of v3 have a user, whom it names";
            return Err(Error::usage("use", "--config", cause).way_out("leave it out, or add --trap-version v3"));
        }
        (Version::V1, _) => Form::V1 { community },
        (Version::V2c, _) => Form::V2c { community },
        (Version::V3, Some(path)) => {
            // Each storm is a later boot of its engines.
            let boots = (clock::realtime_ns() / 1_000_000_000).min(0x7fff_fffe) as u32;
            Form::V3(Engines::new(&Config::read(path)?.first_user()?, args.nodes, boots))
        }
        // The option is required then.
        (Version::V3, None) => return Err(Error::usage("use", "--trap-version v3", "--config is missing")),
    })
}

/// Starts sending.
pub(super) fn start(args: &Args, storm: Storm, frame: FrameSpec) -> Result<Generator> {
    Prepared {
        interface: args.interface.clone(),
        pps: args.rate,
        count: storm.count,
        make: storm.frames(frame, args.port.unwrap_or(TRAP_PORT)),
        core: args.cpu,
        priority: args.real_time(),
        anywhere: args.yes_really,
    }
    .start()
}

//! Options that the station and the correlator share: how they run, and where they announce what they found.
//!
//! Owns their spelling; the outputs themselves are `ringtap_output::announce`'s.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ringtap_output::LogServer;
use ringtap_output::announce::LineOutputs;
use ringtap_run::units;

/// Reads the size at which a file of lines is begun anew.
pub fn rotate() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    units::size_from(4 << 10, "would begin a new file with each line or two")
}

/// How it runs.
#[derive(Debug, clap::Args)]
pub struct ServiceArgs {
    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Once all is set up, go on as this user; the store is made with that user's rights
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Keep all privileges: no Landlock, no seccomp, all capabilities (docs/privileges.md)
    #[arg(long)]
    pub no_sandbox: bool,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Duration>,
}

/// Where it announces.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Outputs")]
pub struct OutputArgs {
    /// Append what is announced to this file, one JSON object a line; SIGHUP opens it again
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Begin a new file when this one is so large; the old ones are FILE.1 (the newest), FILE.2 …
    #[arg(long, value_name = "SIZE", value_parser = rotate(), requires = "output")]
    output_rotate: Option<u64>,
    /// Old files that are kept
    #[arg(long, value_name = "N", default_value_t = 5, requires = "output_rotate")]
    output_keep: u32,
    /// What is announced to this Unix stream socket, one JSON object a line
    #[arg(long, value_name = "PATH")]
    output_socket: Option<PathBuf>,
    /// What is announced to a syslog server (RFC 5424), udp:ADDRESS:PORT or tcp:ADDRESS:PORT
    #[arg(long, value_name = "SERVER", value_parser = LogServer::parse)]
    output_syslog: Option<LogServer>,
}

impl From<OutputArgs> for LineOutputs {
    fn from(args: OutputArgs) -> Self {
        Self {
            file: args.output,
            rotate: args.output_rotate.map(|size| (size, args.output_keep)),
            socket: args.output_socket,
            syslog: args.output_syslog,
        }
    }
}

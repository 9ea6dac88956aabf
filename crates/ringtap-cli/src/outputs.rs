//! Options that the station and the correlator share: how they run, and where they announce what they found.
//!
//! Owns their spelling; the outputs themselves are `ringtap_output::announce`'s.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringtap::Result;
use ringtap_correlator::options::Brokers;
use ringtap_output::announce::LineOutputs;
use ringtap_output::{LogServer, kafka_topic};
use ringtap_run::units;
use ringtap_web::{PageAt, Places};

use crate::kafka;
use crate::words;

/// Reads the size at which a file of lines is begun anew.
pub fn rotate() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    units::size_from(4 << 10, "would begin a new file with each line or two")
}

/// Reads the size at which a file of packets is begun anew.
pub fn rotate_packets() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    units::size_from(4 << 10, "would begin a new file with each packet or two")
}

/// Where a running program may be looked at.
#[derive(Debug, Clone, clap::Args)]
pub struct PlacesArgs {
    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT", help_heading = "Being looked at")]
    metrics: Option<SocketAddr>,
    /// Serve a page for people, and the metrics, at http://ADDR:PORT/: an address of loopback, or one beyond it with --web-token
    #[arg(long, value_name = "ADDR:PORT", help_heading = "Being looked at")]
    web: Option<SocketAddr>,
    /// The page opens for who has the token in this file, which nobody else may read
    #[arg(long, value_name = "FILE", requires = "web", help_heading = "Being looked at")]
    web_token: Option<PathBuf>,
}

impl From<PlacesArgs> for Places {
    fn from(args: PlacesArgs) -> Self {
        let token = args.web_token;
        Self { metrics: args.metrics, page: args.web.map(|address| PageAt { address, token }) }
    }
}

/// How it runs.
#[derive(Debug, clap::Args)]
pub struct ServiceArgs {
    #[command(flatten)]
    pub places: PlacesArgs,
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
    /// What is announced to Kafka, by some of its brokers; with this host's name as the key (docs/kafka.md)
    #[arg(long, value_name = "HOST:PORT[,…]", requires = "output_kafka_topic")]
    output_kafka: Option<Brokers>,
    /// Topic for it, which has to be there
    #[arg(long, value_name = "TOPIC", value_parser = kafka_topic, requires = "output_kafka")]
    output_kafka_topic: Option<String>,
    /// What waits for Kafka is in this directory [default: kafka/TOPIC in $STATE_DIRECTORY or /var/lib/ringtap]
    #[arg(long, value_name = "DIR", requires = "output_kafka")]
    output_kafka_spool: Option<PathBuf>,
    /// So much may wait there; what comes then is lost, and counted
    #[arg(long, value_name = "SIZE", default_value = words::size(kafka::SPOOL_SIZE), value_parser = kafka::spool_size(), requires = "output_kafka")]
    output_kafka_spool_size: u64,
}

impl OutputArgs {
    /// What they mean beside this configuration.
    ///
    /// # Errors
    /// As of [`kafka::target`].
    pub fn lines(self, config: Option<&Path>) -> Result<LineOutputs> {
        let target = |(brokers, topic)| {
            let (spool, size) = (self.output_kafka_spool, self.output_kafka_spool_size);
            kafka::target((brokers, topic), spool, size, kafka::host_name()?, config)
        };
        Ok(LineOutputs {
            file: self.output,
            rotate: self.output_rotate.map(|size| (size, self.output_keep)),
            socket: self.output_socket,
            syslog: self.output_syslog,
            kafka: self.output_kafka.zip(self.output_kafka_topic).map(target).transpose()?,
        })
    }
}

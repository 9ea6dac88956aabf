//! What a station is asked to do.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ringtap::receiver::Backend;
use ringtap_run::dpdk::DpdkOptions;
use ringtap_web::Places;

use crate::store::Retention;
pub use ringtap_output::announce::LineOutputs;

/// Everything that is decided before a station starts; secrets, users and rules are in [`Options::config`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Take packets from these interfaces by rings, beside the sockets.
    pub interfaces: Vec<String>,
    /// How the ring takes packets: `Auto`, `Xdp`, `Packet`, `Dpdk`, or `Given` by the program.
    pub backend: Backend,
    /// For [`Backend::Dpdk`] alone.
    pub dpdk: DpdkOptions,
    /// Addresses for SNMP.
    pub snmp: Vec<SocketAddr>,
    /// Addresses for syslog over UDP.
    pub syslog: Vec<SocketAddr>,
    /// Addresses for syslog over TCP.
    pub syslog_tcp: Vec<SocketAddr>,
    /// Addresses for syslog within TLS.
    pub syslog_tls: Vec<SocketAddr>,
    /// Directory of the store; made when it is not there.
    pub store: PathBuf,
    /// Configuration: communities, users, rules, webhook.
    pub config: Option<PathBuf>,
    /// Directories with MIB files, beside those of the configuration.
    pub mibs: Vec<PathBuf>,
    /// Topology file: root causes are found and announced instead of alarms. Goes before the configuration's.
    pub topology: Option<PathBuf>,
    /// Announced alarms as lines.
    pub outputs: LineOutputs,
    /// Managers that get every notification as it came, beside those of the configuration.
    pub forward_to: Vec<SocketAddr>,
    /// Bytes of memory between receiving and the disk; at least 512 KiB.
    pub spool: u64,
    /// Bytes of each socket's receive buffer, or of each ring.
    pub buffer: u64,
    /// What the store keeps.
    pub retention: Retention,
    /// What is shown, and where.
    pub places: Places,
    /// Go on as this user once all is set up.
    pub user: Option<String>,
    /// Keep all privileges.
    pub keeps_privileges: bool,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Tell the ledger this often.
    pub stats: Option<Duration>,
}

impl Options {
    /// Addresses for SNMP and syslog when none is given: all of this host, ports 162 and 514.
    pub fn default_addresses() -> (Vec<SocketAddr>, Vec<SocketAddr>) {
        let any = |port: u16| vec![SocketAddr::from(([0, 0, 0, 0], port)), SocketAddr::from(([0u16; 8], port))];
        (any(162), any(514))
    }
}

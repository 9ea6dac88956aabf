//! Options for Kafka that several commands share.
//!
//! Owns what is usual: topic, spool and its size. How brokers are talked to is `[kafka]`'s in ringtap.toml (`ringtap_run::kafka`).

use std::path::{Path, PathBuf};

use ringtap::{Error, Result};
use ringtap_correlator::options::Brokers;
use ringtap_output::KafkaTarget;
use ringtap_run::{kafka, service_manager, units};

/// Where sensors write to unless told otherwise.
pub const ALARMS: &str = "ringtap-alarms";
/// Bytes of a spool unless told otherwise.
pub const SPOOL_SIZE: u64 = 1 << 30;

/// Reads a bound of a spool.
pub fn spool_size() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    units::size_from(64 << 20, "has no room for some minutes without a broker")
}

/// What an output to Kafka is told; lines have `key`.
///
/// # Errors
/// The configuration can't be read, or `[kafka]` in it makes no sense.
pub fn target(
    (brokers, topic): (Brokers, String),
    spool: Option<PathBuf>,
    spool_bytes: u64,
    key: String,
    config: Option<&Path>,
) -> Result<KafkaTarget> {
    // One for each topic.
    let spool = spool.unwrap_or_else(|| service_manager::state_folder().join("kafka").join(&topic));
    Ok(KafkaTarget { brokers, topic, key, spool, spool_bytes, security: kafka::security(config)? })
}

/// This host's name: the key of what a program announces.
///
/// # Errors
/// The kernel does not say it.
pub fn host_name() -> Result<String> {
    const NAME: &str = "/proc/sys/kernel/hostname";
    let name = std::fs::read_to_string(NAME).map_err(|error| Error::os("read", NAME, &error))?;
    Ok(name.trim().to_owned())
}

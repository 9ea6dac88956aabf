//! What a correlator is asked to do.

use ringtap_web::Places;
use std::path::PathBuf;
use std::time::Duration;

pub use ringtap_output::announce::LineOutputs;

pub use ringtap_kafka::{Brokers, Security};

use crate::input::listen::Place;
use crate::input::parse::Wanted;
pub use crate::store::Retention;

/// [`Options::disorder`] unless told otherwise.
pub const DISORDER: Duration = Duration::from_secs(5);
/// [`Options::silence`] unless told otherwise.
pub const SILENCE: Duration = Duration::from_secs(10);
/// [`Options::gap_wait`] unless told otherwise.
pub const GAP_WAIT: Duration = Duration::from_millis(20);
/// [`Options::memory`] unless told otherwise.
pub const MEMORY: u64 = 512 << 20;
/// [`Options::log_size`] unless told otherwise.
pub const LOG_SIZE: u64 = 8 << 30;

/// Where events come from.
#[derive(Clone, Debug)]
pub enum Inputs {
    /// Files and pipes, to their end; `-` is standard input.
    Read(Vec<PathBuf>),
    /// Sockets, until a signal.
    Listen {
        /// Where anybody's JSON lines come.
        lines: Vec<Place>,
        /// Where what registered sensors have sealed comes.
        sensors: Vec<Place>,
    },
    /// Topics of Kafka, until a signal: JSON lines, and what registered sensors have sealed.
    Kafka {
        /// The cluster.
        brokers: Brokers,
        /// Its topics.
        topics: Vec<String>,
        /// How to talk to it.
        security: Security,
    },
}

/// Everything that is decided before a correlator starts.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder of rules, or one file.
    pub rules: PathBuf,
    /// Where events come from.
    pub inputs: Inputs,
    /// How their lines are to be understood.
    pub format: Wanted,
    /// Folder of log and store; without one, nothing survives the end.
    pub store: Option<PathBuf>,
    /// Events may come so much later than the latest.
    pub disorder: Duration,
    /// Sockets are silent after so long without an event, and a registered sensor without a heartbeat: the clock then moves
    /// the watermark, and the sensor is left out of it.
    pub silence: Duration,
    /// Alarms that a heartbeat has counted are waited for so long.
    pub gap_wait: Duration,
    /// Bytes for what is remembered of keys.
    pub memory: u64,
    /// Bytes of the log beyond which its oldest part goes.
    pub log_size: u64,
    /// What the store keeps.
    pub retention: Retention,
    /// Configuration: a webhook, and registered sensors.
    pub config: Option<PathBuf>,
    /// What is shown, and where.
    pub places: Places,
    /// Announcements as lines.
    pub outputs: LineOutputs,
    /// Go on as this user once all is set up.
    pub user: Option<String>,
    /// Keep all privileges.
    pub keeps_privileges: bool,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Tell how far it is this often.
    pub stats: Option<Duration>,
    /// Tell each second how far it is, in a line that the next one replaces.
    pub progress: bool,
    /// Tell near misses.
    pub explain: bool,
}

impl Options {
    /// The usual bounds, and nothing that is asked for beside rules and inputs.
    #[must_use]
    pub fn new(rules: PathBuf, inputs: Inputs) -> Self {
        Self {
            rules,
            inputs,
            format: Wanted::Auto,
            store: None,
            disorder: DISORDER,
            silence: SILENCE,
            gap_wait: GAP_WAIT,
            memory: MEMORY,
            log_size: LOG_SIZE,
            retention: Retention::default(),
            config: None,
            places: Places::default(),
            outputs: LineOutputs::default(),
            user: None,
            keeps_privileges: false,
            duration: None,
            stats: None,
            progress: false,
            explain: false,
        }
    }
}

//! What a correlator is asked to do.

use std::path::PathBuf;
use std::time::Duration;

pub use ringtap_output::announce::LineOutputs;

use crate::input::listen::Place;
use crate::input::parse::Wanted;

/// Where events come from.
#[derive(Clone, Debug)]
pub enum Inputs {
    /// Files and pipes, to their end; `-` is standard input.
    Read(Vec<PathBuf>),
    /// Sockets, until a signal.
    Listen(Vec<Place>),
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
    /// Sockets are silent after so long without an event: the clock then moves the watermark.
    pub silence: Duration,
    /// Bytes for what is remembered of keys.
    pub memory: u64,
    /// Configuration: a webhook.
    pub config: Option<PathBuf>,
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
    /// Tell near misses.
    pub explain: bool,
}

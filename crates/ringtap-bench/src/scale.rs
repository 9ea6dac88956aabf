//! How much is measured: rates, durations and repetitions of one size of the benchmark.
//!
//! Owns the shape; the numbers are in `definitions.toml`, what they are used for is in `study`.

use serde::Deserialize;

/// Numbers of one size.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scale {
    /// Rates of the sweep, packets per second.
    pub rates: Vec<f64>,
    /// Repetitions, interleaved.
    pub rounds: u32,
    /// How many of them have also those receivers of the sweep that are only there to compare with.
    pub other_rounds: u32,
    /// Length of a run, seconds.
    pub seconds: f64,
    /// Packets of a trial of the capacity search.
    pub trial_packets: u64,
    /// Trials in a row that must be without loss.
    pub trials: u32,
    /// The capacity search ends when the interval is this part of its middle.
    pub resolution: f64,
    /// Frame lengths without frame check sequence, bytes.
    pub sizes: Vec<usize>,
    /// Each point of the sweep is run a second time, with core use by the soaker (\[1] §6).
    pub soaker: bool,
    /// How often the host is calibrated at most, until it is calm.
    pub calibrations: u32,
    /// Greatest rate the generator is asked for, packets per second.
    pub greatest_pps: f64,
    /// Rates of the studies of whole programs, packets per second; none: as each is defined.
    #[serde(default)]
    pub program_rates: Vec<f64>,
    /// Length of their runs, seconds; `None`: as each is defined.
    pub program_seconds: Option<f64>,
}

impl Scale {
    /// The rates of a study of whole programs that is defined with `own`.
    pub(crate) fn rates_of(&self, own: &[f64]) -> Vec<f64> {
        if self.program_rates.is_empty() { own.to_vec() } else { self.program_rates.clone() }
    }

    /// The length of its runs.
    pub(crate) fn seconds_of(&self, own: f64) -> f64 {
        self.program_seconds.unwrap_or(own)
    }
}

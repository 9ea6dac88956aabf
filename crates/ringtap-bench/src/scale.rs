//! How much is measured: three sizes of the same benchmark.
//!
//! Owns rates, durations and repetitions. What they are used for is in `study`.

/// Every rate the sweep knows, packets per second.
const RATES: [f64; 12] = [1e3, 2e3, 5e3, 10e3, 20e3, 50e3, 100e3, 148e3, 300e3, 500e3, 750e3, 1e6];

/// Longest frame of an MTU of 1,500, bytes without its frame check sequence: 1,518 with it.
const LONGEST: usize = 1514;

/// Numbers of one size.
#[derive(Debug, Clone, PartialEq)]
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
    /// Each point of the sweep is run a second time, with core use by the soaker (spec row S15).
    pub soaker: bool,
    /// How often the host is calibrated at most, until it is calm.
    pub calibrations: u32,
    /// Greatest rate the generator is asked for, packets per second.
    pub greatest_pps: f64,
}

impl Scale {
    /// For CI: one short run of everybody; three minutes at most.
    pub fn quick() -> Self {
        Self {
            rates: vec![50e3],
            rounds: 1,
            other_rounds: 1,
            seconds: 0.2,
            trial_packets: 20_000,
            trials: 1,
            resolution: 0.5,
            sizes: vec![64, LONGEST],
            soaker: false,
            calibrations: 1,
            greatest_pps: 500e3,
        }
    }

    /// For a first answer: about an hour with all peers.
    pub fn usual() -> Self {
        Self {
            rates: RATES.to_vec(),
            rounds: 3,
            other_rounds: 3,
            seconds: 1.0,
            trial_packets: 500_000,
            trials: 2,
            resolution: 0.1,
            sizes: vec![64, 128, 256, 512, 1024, LONGEST],
            soaker: false,
            calibrations: 20,
            greatest_pps: 1.5e6,
        }
    }

    /// For the record: RFC 2544's trials of 10⁶ packets and five rounds; many hours.
    pub fn full() -> Self {
        Self {
            rounds: 5,
            other_rounds: 5,
            seconds: 2.0,
            trial_packets: 1_000_000,
            trials: 3,
            resolution: 0.05,
            soaker: true,
            ..Self::usual()
        }
    }
}

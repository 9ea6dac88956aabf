//! `ringtap demo --staged`: attacks of two stages, each seen by another sensor, under a flood of one of them: what a correlator in
//! event time finds of them, when each part of the way was passed, and what Suricata and syslog find in the same place.
//!
//! Owns the demo's traffic and its two acts. Runs are `crate::staged`'s, what is shown is in `report`.

mod report;

use std::time::{Duration, Instant};

use ringtap::calibrate::Calibration;
use ringtap::error::ErrorKind;
use ringtap::{Error, Result};
use ringtap_testbed::TestbedConfig;
use ringtap_testbed::peer::PeerKind;
use serde_json::Value;

use crate::staged::chain::Setting;
use crate::staged::evidence::Evidence;
use crate::staged::plant::Plan;
use crate::staged::{self, ChainRun, Peers, Traffic};

/// Between the stages of an attack.
const GAP: Duration = Duration::from_millis(1);
/// Attacks begin so often.
const PER_SECOND: u32 = 10;
/// What is asked of the two ways to join alarms, and of the correlator's rules.
const WINDOWS: [Duration; 4] =
    [Duration::from_millis(2), Duration::from_millis(5), Duration::from_millis(10), Duration::from_millis(50)];
/// Attacks that may be asked for: a minute, together with the rest.
pub const MOST_ATTACKS: u32 = 150;

/// What is asked of the demo.
#[derive(Debug, Clone)]
pub struct Options {
    /// Attacks of two stages, 1 to [`MOST_ATTACKS`].
    pub attacks: u32,
    /// Packets per second of the flood.
    pub flood_pps: f64,
}

/// A demo that has run.
#[derive(Debug)]
pub struct Outcome {
    options: Options,
    ours: ChainRun,
    evidence: Evidence,
    peers: std::result::Result<(Peers, Evidence, String), String>,
    lasted: Duration,
}

impl Outcome {
    /// Every attack whose packets both sensors handled, and saw within the window, was found; all packets are accounted for.
    pub fn is_proven(&self) -> bool {
        self.evidence.missed() == 0 && self.evidence.due() > 0 && self.ours.unaccounted() == Some(0)
    }

    /// For machines: one object.
    pub fn to_json(&self) -> Value {
        report::json(self)
    }
}

/// Runs both acts. `say` gets their text as they end, `progress` lines about a calibration that has to be made.
///
/// # Errors
/// No private network can be made (it needs root), or a part of our own chain does not come up. Suricata may be missing.
pub fn run(options: &Options, say: &mut dyn FnMut(&str), progress: &mut dyn FnMut(&str)) -> Result<Outcome> {
    let began = Instant::now();
    let ringtap = std::env::current_exe().map_err(|error| Error::os("find", "this program", &error))?;
    // The programs read it then, instead of measuring one after the other.
    Calibration::load_or_measure(TestbedConfig::default().receiver_core, progress)?;
    let setting = Setting { ringtap: &ringtap, options: &[], windows: &WINDOWS, both_flooded: false };
    let over = Duration::from_secs(1) * options.attacks / PER_SECOND;
    let plan = Plan { gaps: vec![GAP], each: options.attacks, over };
    let traffic = Traffic { plan, flood_pps: options.flood_pps };
    say(&report::opening(options));

    let ours = staged::ours(&setting, &traffic)?;
    let evidence = Evidence::of(&ours.traces, &WINDOWS, &ours.losses());
    say(&report::ours(&ours, &evidence));
    let peers = peers(&setting, &traffic)?;
    say(&report::peers(&peers));
    let outcome = Outcome { options: options.clone(), ours, evidence, peers, lasted: began.elapsed() };
    say(&report::found(&outcome));
    Ok(outcome)
}

/// The reason where Suricata can't be had.
fn peers(setting: &Setting<'_>, traffic: &Traffic) -> Result<std::result::Result<(Peers, Evidence, String), String>> {
    let version = match PeerKind::SuricataAfPacket.version() {
        Ok(version) => version,
        Err(error) => return Ok(Err(error.to_string())),
    };
    match staged::peers(setting, traffic) {
        Ok(peers) => {
            let evidence = Evidence::of_log(&peers.traces, &WINDOWS, peers.wires);
            Ok(Ok((peers, evidence, version)))
        }
        Err(error) if error.kind() == ErrorKind::Usage => Err(error),
        Err(error) => Ok(Err(error.to_string())),
    }
}

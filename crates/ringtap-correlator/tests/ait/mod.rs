//! Four recorded attacks among 1.2 million alerts of three products (AIT Alert Data Set): run and judged.

pub mod convert;
pub mod judge;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringtap_correlator::correlator::{Correlator, Settings, Way};
use ringtap_correlator::input::Came;
use ringtap_correlator::input::files::{Files, Next};
use ringtap_correlator::input::parse::Wanted;
use ringtap_correlator::listing::Listing;
use ringtap_correlator::sensors::Now;
use ringtap_samples::conformance;
use ringtap_sigma::Automaton;
use serde_json::Value as Json;

use convert::Recorded;
use judge::{Phases, Verdict};

/// Events between two writes to the disk.
const SYNC: u64 = 50_000;

/// A network of the data set.
pub struct Network {
    recorded: Recorded,
    phases: Phases,
    folder: tempfile::TempDir,
}

impl Network {
    pub fn read(test: &str, name: &str) -> Self {
        let data = conformance::data(test, "alerts/ait");
        let folder = tempfile::tempdir().unwrap();
        let recorded =
            Recorded::convert(&data.join(format!("{name}_alerts.csv.xz")), &folder.path().join("alerts")).unwrap();
        let phases: Json = serde_json::from_slice(&std::fs::read(data.join("phases.json")).unwrap()).unwrap();
        let phases = serde_json::from_value(phases[name].clone()).unwrap();
        Self { recorded, phases, folder }
    }

    /// What `ringtap correlate --read` with a store makes of it, and `ringtap alarms list --incidents` shows then.
    pub fn judge(&self, automaton: &Arc<Automaton>) -> Verdict {
        let store = tempfile::tempdir_in(self.folder.path()).unwrap();
        correlate(automaton, &self.recorded, store.path());
        let mut lines = Vec::new();
        Listing::read(store.path()).unwrap().export(&mut lines).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let incidents: Vec<Json> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Verdict::of(&self.recorded, &self.phases, &incidents)
    }
}

fn correlate(automaton: &Arc<Automaton>, recorded: &Recorded, store: &Path) {
    let now = Now { wall_ns: i64::MAX, monotonic_ns: 0 };
    let mut correlator = Correlator::open(Arc::clone(automaton), Settings::default(), Some(store), now).unwrap();
    let mut files = Files::open(&recorded.files, Wanted::Json).unwrap();
    loop {
        match files.next(Duration::from_secs(60)) {
            Next::Came(came, _) => {
                let Came::Event(event) = *came else { panic!("files hold events without a key") };
                correlator.event(event, Way::File, now.wall_ns);
            }
            Next::Nothing => panic!("a file does not end"),
            Next::End => break,
        }
        if correlator.counts().events.is_multiple_of(SYNC) {
            correlator.sync().unwrap();
        }
        correlator.take_told();
    }
    correlator.end().unwrap();
    let counts = correlator.counts();
    assert_eq!(counts.events, recorded.rows.len() as u64);
    assert_eq!(counts.sensors.values().map(|sensor| sensor.late).sum::<u64>(), 0, "each file is in order");
}

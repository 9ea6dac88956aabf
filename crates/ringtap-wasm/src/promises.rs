//! Owns: how far the registered sensors of one instance have come, and so its watermark; what they could not tell.
//! Does not: decide that a sensor is silent. That is a record in its partition, so that every run reads the same.

use std::collections::BTreeMap;

use ringtap_event::parse::hash;
use ringtap_event::sensors::{Arrival, Beat, Least, Notice, Now, Numbered, Sensors, Timing, What};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::frames::{Frames, Kind};
use crate::losses::Missing;

/// A partition keeps a sensor's order: what a heartbeat has counted and is not here will not come. Silence is said.
const TIMING: Timing = Timing { gap_wait_ns: 0, silence_ns: i64::MAX / 4 };

/// What is known of one sensor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Sensor {
    /// It sends heartbeats; `None`: it was not heard yet. Its place is 0.
    Beats(Option<Box<Sensors>>),
    /// It sends none.
    Events {
        /// No event up to it follows, ns; `None`: it was not heard yet.
        h_ns: Option<i64>,
        /// It is left out.
        is_silent: bool,
    },
}

impl Sensor {
    fn new(has_beats: bool) -> Self {
        if has_beats { Self::Beats(None) } else { Self::Events { h_ns: None, is_silent: false } }
    }

    fn has_beats(&self) -> bool {
        matches!(self, Self::Beats(_))
    }

    fn least(&self) -> Least {
        match self {
            Self::Beats(Some(it)) => it.least(),
            Self::Beats(None) | Self::Events { h_ns: None, is_silent: false } => Least::Open,
            Self::Events { is_silent: true, .. } => Least::Nobody,
            Self::Events { h_ns: Some(h_ns), is_silent: false } => Least::At(*h_ns),
        }
    }
}

/// The sensors of one instance.
#[derive(Debug, Default)]
pub struct Promises {
    sensors: BTreeMap<String, Sensor>,
    /// What was said last: a watermark, or (`None`) that nobody is waited for.
    said: Option<i64>,
    /// Somebody may have come farther since it was said.
    is_due: bool,
    /// Of an instance that is gone: its sensors may be anybody's now.
    restored: BTreeMap<String, Sensor>,
}

fn at(received_ns: i64) -> Now {
    Now { wall_ns: received_ns, monotonic_ns: received_ns }
}

impl Promises {
    /// Waits for these of all that are `registered` from now on (a number: it sends no heartbeats).
    pub fn wait_for<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        registered: &BTreeMap<String, Option<i64>>,
        out: &mut Frames,
    ) {
        let mut known = std::mem::take(&mut self.sensors);
        for name in names {
            let has_beats = registered.get(name).is_none_or(Option::is_none);
            let sensor = known.remove(name).or_else(|| self.restored.get(name).cloned());
            let sensor = sensor.filter(|sensor| {
                let is_same = sensor.has_beats() == has_beats;
                if !is_same {
                    // It begins anew, and what was open of it has no end.
                    Missing::nothing(hash(name.as_bytes())).tell(out);
                }
                is_same
            });
            self.sensors.insert(name.to_owned(), sensor.unwrap_or_else(|| Sensor::new(has_beats)));
        }
        // What one that is registered no longer could tell is nobody's lack.
        for name in known.keys().chain(self.restored.keys()).filter(|name| !registered.contains_key(*name)) {
            Missing::nothing(hash(name.as_bytes())).tell(out);
        }
    }

    fn with_beats(&mut self, name: &str, received_ns: i64) -> Option<&mut Sensors> {
        match self.sensors.get_mut(name)? {
            Sensor::Beats(it) => Some(it.get_or_insert_with(|| Sensors::new(1, TIMING, at(received_ns)).into())),
            Sensor::Events { .. } => None,
        }
    }

    /// What a numbered alarm is; `None`: its sensor is none of those that send heartbeats here.
    pub fn alarm(&mut self, name: &str, alarm: &Numbered, received_ns: i64, out: &mut Frames) -> Option<Arrival> {
        let it = self.with_beats(name, received_ns)?;
        let arrival = it.alarm(0, alarm, at(received_ns));
        self.is_due |= tell(it, name, out);
        Some(arrival)
    }

    /// A heartbeat.
    pub fn beat(&mut self, name: &str, beat: &Beat, received_ns: i64, out: &mut Frames) {
        let Some(it) = self.with_beats(name, received_ns) else { return };
        it.beat(0, beat, at(received_ns));
        tell(it, name, out);
        self.is_due = true;
    }

    /// A sensor without heartbeats has come so far; one that was silent is back.
    pub fn come(&mut self, name: &str, to_ns: i64, out: &mut Frames) {
        if let Some(Sensor::Events { h_ns, is_silent }) = self.sensors.get_mut(name) {
            if std::mem::take(is_silent) {
                // Time went on without it, whatever it brings first.
                let to_ns = self.said.map_or(to_ns, |said| said.max(to_ns));
                Missing { from_ns: behind(*h_ns), to_ns, sensor: hash(name.as_bytes()) }.tell(out);
            }
            *h_ns = (*h_ns).max(Some(to_ns));
            self.is_due = true;
        }
    }

    /// A sensor is left out until it promises again.
    pub fn silent(&mut self, name: &str, received_ns: i64, out: &mut Frames) {
        if let Some(it) = self.with_beats(name, received_ns) {
            it.silent(0);
            tell(it, name, out);
        } else if let Some(Sensor::Events { h_ns, is_silent }) = self.sensors.get_mut(name)
            && !std::mem::replace(is_silent, true)
        {
            Missing { from_ns: behind(*h_ns), to_ns: Missing::OPEN, sensor: hash(name.as_bytes()) }.tell(out);
        }
        self.is_due = true;
    }

    /// The watermark that was said last.
    #[must_use]
    pub fn watermark(&self) -> i64 {
        self.said.unwrap_or(i64::MIN)
    }

    /// Says what has changed. `first`: also what has not.
    pub fn tell(&mut self, first: bool, out: &mut Frames) {
        if !std::mem::take(&mut self.is_due) && !first {
            return;
        }
        let mut least = None;
        for sensor in self.sensors.values() {
            let h_ns = match sensor.least() {
                Least::Nobody => continue,
                Least::Open => i64::MIN,
                Least::At(h_ns) => h_ns,
            };
            least = Some(least.map_or(h_ns, |least: i64| least.min(h_ns)));
        }
        let Some(least) = least else {
            if first || self.said.take().is_some() {
                out.push(Kind::Idle, &[]);
            }
            return;
        };
        // The host goes on from where it was; a new sensor can't bring it back.
        if self.said.is_none_or(|said| said < least) || first {
            self.said = Some(least);
            out.push(Kind::Watermark, &least.to_le_bytes());
        }
    }

    /// All sensors, for [`restore`](Self::restore).
    #[must_use]
    pub fn sensors(&self) -> &BTreeMap<String, Sensor> {
        &self.sensors
    }

    /// Notes what another run knew, before [`wait_for`](Self::wait_for).
    pub fn restore(&mut self, sensors: BTreeMap<String, Sensor>) {
        self.restored.extend(sensors);
    }
}

/// Where the time begins of which a sensor without heartbeats has told nothing yet.
fn behind(h_ns: Option<i64>) -> i64 {
    h_ns.map_or(i64::MIN, |h_ns| h_ns.saturating_add(1))
}

/// Tells what a sensor lost, or could not tell, to all that run rules; true: it is taken in or left out.
fn tell(it: &mut Sensors, name: &str, out: &mut Frames) -> bool {
    let notices = it.take_notices();
    let sensor = hash(name.as_bytes());
    for Notice { what, .. } in &notices {
        match *what {
            What::Missing { count, from_ns, to_ns } => {
                Missing { from_ns, to_ns, sensor }.tell(out);
                if count > 0 {
                    let lost = json!({"event": "aside", "why": "lost", "sensor": name, "alarms": count,
                        "from_ns": from_ns, "to_ns": to_ns});
                    out.push(Kind::Aside, lost.to_string().as_bytes());
                }
            }
            What::SilentSince { .. } | What::Quarantined { .. } => {
                Missing { from_ns: it.behind(0), to_ns: Missing::OPEN, sensor }.tell(out);
            }
            What::Twice => {
                let twice = json!({"event": "aside", "why": "two sensors have this name", "sensor": name});
                out.push(Kind::Aside, twice.to_string().as_bytes());
            }
            What::Began { .. } | What::Back { .. } | What::Released => {}
        }
    }
    !notices.is_empty()
}

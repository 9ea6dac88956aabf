//! Owns: how far the registered sensors of one instance have come, and so its watermark.
//! Does not: decide that a sensor is silent. That is a record in its partition, so that every run reads the same.

use std::collections::BTreeMap;

use crate::frames::{Frames, Kind};

/// What is known of one sensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sensor {
    /// No event up to it follows, ns; `None`: nothing was promised yet, and everybody waits.
    h_ns: Option<i64>,
    is_silent: bool,
}

/// The sensors of one instance.
#[derive(Debug, Default)]
pub struct Promises {
    sensors: BTreeMap<String, Sensor>,
    /// What was said last: a watermark, or (`None`) that nobody is waited for.
    said: Option<i64>,
    /// Of an instance that is gone: its sensors may be anybody's now.
    restored: BTreeMap<String, Sensor>,
}

impl Promises {
    /// Waits for these from now on.
    pub fn wait_for<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        let mut known = std::mem::take(&mut self.sensors);
        let Self { sensors, restored, .. } = self;
        sensors.extend(names.map(|name| {
            let sensor = known.remove(name).or_else(|| restored.get(name).copied());
            (name.to_owned(), sensor.unwrap_or_default())
        }));
    }

    /// A sensor promises that no event up to `h_ns` follows; one that was silent is back.
    pub fn promise(&mut self, name: &str, h_ns: Option<i64>) {
        if let Some(sensor) = self.sensors.get_mut(name) {
            *sensor = Sensor { h_ns: sensor.h_ns.max(h_ns), is_silent: false };
        }
    }

    /// A sensor is left out until it promises again.
    pub fn silent(&mut self, name: &str) {
        if let Some(sensor) = self.sensors.get_mut(name) {
            sensor.is_silent = true;
        }
    }

    /// The watermark that was said last.
    #[must_use]
    pub fn watermark(&self) -> i64 {
        self.said.unwrap_or(i64::MIN)
    }

    /// Says what has changed. `first`: also what has not.
    pub fn tell(&mut self, first: bool, out: &mut Frames) {
        let heard = self.sensors.values().filter(|sensor| !sensor.is_silent);
        let Some(least) = heard.map(|sensor| sensor.h_ns.unwrap_or(i64::MIN)).min() else {
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

    /// As bytes, for [`restore`](Self::restore).
    pub fn snapshot(&self, into: &mut Vec<u8>) {
        let plain: BTreeMap<&String, (Option<i64>, bool)> =
            self.sensors.iter().map(|(name, sensor)| (name, (sensor.h_ns, sensor.is_silent))).collect();
        // Into memory, of types that all have a form in JSON: no reason to fail.
        let _ = serde_json::to_writer(into, &plain);
    }

    /// Notes what another run knew, before [`wait_for`](Self::wait_for).
    ///
    /// # Errors
    /// The bytes are none of [`snapshot`](Self::snapshot)'s.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), String> {
        let plain: BTreeMap<String, (Option<i64>, bool)> =
            serde_json::from_slice(bytes).map_err(|error| format!("promises of sensors in the checkpoint: {error}"))?;
        self.restored.extend(plain.into_iter().map(|(name, (h_ns, is_silent))| (name, Sensor { h_ns, is_silent })));
        Ok(())
    }
}

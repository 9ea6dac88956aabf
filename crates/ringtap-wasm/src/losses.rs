//! Owns: the times of which sensors could not tell all, at those who run rules.
//! Does not: find them: [`promises`](crate::promises) does, where a sensor's records are.
//!
//! Each is told before the watermark that the same heartbeat brings, and begins behind the sensor's promise before it: so
//! whoever tells an incident at a time knows all of them that begin up to that time, in every run.

use std::collections::BTreeMap;

use ringtap_event::sensors::Gaps;
use serde::{Deserialize, Serialize};

use crate::frames::{Frames, Kind, number};

/// One time of one sensor, both ends within, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub from_ns: i64,
    /// [`OPEN`](Self::OPEN): until it is told otherwise.
    pub to_ns: i64,
    pub sensor: u64,
}

impl Missing {
    pub const OPEN: i64 = i64::MAX;

    /// An empty time: what was open is forgotten.
    pub fn nothing(sensor: u64) -> Self {
        Self { from_ns: 1, to_ns: 0, sensor }
    }

    pub fn tell(&self, out: &mut Frames) {
        let Self { from_ns, to_ns, sensor } = self;
        out.push_of(Kind::Missing, &[&from_ns.to_le_bytes(), &to_ns.to_le_bytes(), &sensor.to_le_bytes()]);
    }

    fn read(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        Some(Self { from_ns: number(bytes)?, to_ns: number(bytes)?, sensor: number(bytes)?.cast_unsigned() })
    }
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    gaps: Gaps,
    /// Sensors that are left out, by what they promised last.
    blind: BTreeMap<u64, i64>,
}

impl Losses {
    /// Takes one.
    ///
    /// # Errors
    /// The bytes are none of [`Missing::tell`]'s.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Missing { from_ns, to_ns, sensor } =
            Missing::read(bytes).ok_or("a missing time of another version of this module")?;
        if to_ns == Missing::OPEN {
            self.blind.insert(sensor, from_ns);
        } else {
            self.blind.remove(&sensor);
            self.gaps.add(from_ns, to_ns);
        }
        Ok(())
    }

    /// Whether something may be missing in this time, both ends within, ns.
    #[must_use]
    pub fn touch(&self, from_ns: i64, to_ns: i64) -> bool {
        self.gaps.touch(from_ns, to_ns) || self.blind.values().any(|behind| *behind <= to_ns)
    }

    /// Adds what another instance kept.
    pub fn restore(&mut self, other: Self) {
        self.gaps.extend(&other.gaps);
        self.blind.extend(other.blind);
    }

    /// Forgets what ends before this, ns.
    pub fn forget(&mut self, before_ns: i64) {
        self.gaps.forget(before_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::frames;

    #[test]
    fn a_sensor_is_blind_until_it_is_back() {
        let mut losses = Losses::default();
        let tell = |losses: &mut Losses, missing: Missing| {
            let mut out = Frames::default();
            missing.tell(&mut out);
            frames(out.bytes()).for_each(|(_, bytes)| losses.add(bytes).expect("whole"));
        };
        tell(&mut losses, Missing { from_ns: 10, to_ns: Missing::OPEN, sensor: u64::MAX });
        assert!(!losses.touch(0, 9) && losses.touch(0, 10) && losses.touch(1000, 2000));
        let mut again = Losses::default();
        again.restore(losses.clone());
        again.restore(losses.clone());
        assert_eq!(again, losses);
        tell(&mut losses, Missing { from_ns: 10, to_ns: 20, sensor: u64::MAX });
        assert!(losses.touch(15, 15) && !losses.touch(21, 30));
        losses.forget(21);
        assert_eq!(losses, Losses::default());
        tell(&mut again, Missing::nothing(u64::MAX));
        assert_eq!(again, Losses::default());
        assert!(losses.add(&[0; 23]).is_err());
    }
}

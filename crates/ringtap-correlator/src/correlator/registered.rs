//! Owns: registered sensors at the correlator: their alarms and heartbeats, what they bring the watermark to, what is told
//! and logged of them.
//! Does not: check seals: whoever calls it has.

use std::sync::Arc;

use super::{Correlator, Report, SensorCounts};
use crate::event::Event;
use crate::sensors::{Arrival, Beat, Least, Notice, Now, Numbered, Registered, What};

/// What is missing is told of one sensor this often at most, ns: who loses much says no more than who loses little.
const TOLD_NS: i64 = 1_000_000_000;

/// What one sensor could not tell, as far as that was not told yet.
#[derive(Debug, Default)]
pub(super) struct Lacking {
    /// Alarms that were lost by number, and the time that they told of.
    lost: Option<(u64, i64, i64)>,
    /// A time of which it is not known what there was: 0 alarms.
    unknown: Option<(u64, i64, i64)>,
    /// When it was told last, monotonic ns.
    told_ns: Option<i64>,
}

impl Lacking {
    fn add(&mut self, count: u64, from_ns: i64, to_ns: i64) {
        let untold = if count == 0 { &mut self.unknown } else { &mut self.lost };
        let (before, first, last) = untold.unwrap_or((0, from_ns, to_ns));
        *untold = Some((before.saturating_add(count), first.min(from_ns), last.max(to_ns)));
    }

    fn take(&mut self, now_ns: i64, all: bool) -> impl Iterator<Item = What> {
        let is_due = all || self.told_ns.is_none_or(|told| now_ns.saturating_sub(told) >= TOLD_NS);
        let due = [&mut self.unknown, &mut self.lost].map(|untold| untold.take_if(|_| is_due));
        if due.iter().any(Option::is_some) {
            self.told_ns = Some(now_ns);
        }
        due.into_iter().flatten().map(|(count, from_ns, to_ns)| What::Missing { count, from_ns, to_ns })
    }
}

impl Correlator {
    /// Begins to take what comes: what reading the log took is nobody's silence.
    pub fn begin(&mut self, now: Now) {
        if let Some(sensors) = &mut self.sensors {
            sensors.begin(now);
        }
    }

    /// Takes an alarm of a registered sensor, by its place in the settings; `built_ns`: when it was built, by the sensor's
    /// clock.
    pub fn alarm(&mut self, sensor: usize, event: Event, built_ns: i64, now: Now) {
        let Some(sensors) = &mut self.sensors else { return };
        self.counts.events += 1;
        self.now = now;
        let mark = event.mark;
        let numbered = Numbered {
            epoch: mark.identity.epoch,
            sequence: mark.identity.sequence,
            time_ns: mark.time_ns,
            built_ns,
            error_us: mark.clock.error_us,
        };
        let arrival = sensors.alarm(sensor, &numbered, now);
        match arrival {
            // What the log no longer reaches may have been there before: nobody can say.
            Arrival::New if self.disk.is_some() && mark.time_ns < self.reach() => self.counts.too_old += 1,
            // First it, then what its coming lets count.
            Arrival::New => {
                self.accept(event);
            }
            Arrival::Future => self.sensor(&event).future += 1,
            Arrival::Duplicate | Arrival::Old => {}
        }
        self.heard();
        // A copy brings nothing, and moves nothing.
        if arrival == Arrival::New && self.engine.waiting() > self.settings.waiting {
            self.push();
        }
    }

    /// Takes a heartbeat of a registered sensor.
    pub fn beat(&mut self, sensor: usize, beat: &Beat, now: Now) {
        let Some(sensors) = &mut self.sensors else { return };
        self.now = now;
        sensors.beat(sensor, beat, now);
        self.heard();
    }

    /// Says what time it is: alarms that were waited for are given up, silent sensors are left out.
    pub fn tick(&mut self, now: Now) {
        self.tick_unless(now, || false);
    }

    /// The same; where a sensor would be left out and `waits`, something that came before was not taken yet, which may be
    /// its word: it is left out after twice the time.
    pub fn tick_unless(&mut self, now: Now, waits: impl FnMut() -> bool) {
        self.now = now;
        if let Some(sensors) = &mut self.sensors {
            sensors.tick_unless(now, waits);
            self.heard();
        }
    }

    /// Inputs are broken, or still bring what is of the past: nobody is silent until now, and the clock decides nothing until
    /// [`let_go`](Self::let_go).
    pub fn hold(&mut self, now: Now) {
        self.now = now;
        self.is_held = true;
        if let Some(sensors) = &mut self.sensors {
            sensors.hold(now);
        }
        self.others_heard_ns = self.others_heard_ns.map(|_| now.monotonic_ns);
    }

    /// Inputs bring what happens now: the clock counts.
    pub fn let_go(&mut self) {
        self.is_held = false;
    }

    /// Whether there are registered sensors.
    #[must_use]
    pub fn has_sensors(&self) -> bool {
        self.sensors.is_some()
    }

    /// When [`tick`](Self::tick) would change something if nothing came, monotonic ns.
    #[must_use]
    pub fn due_ns(&self) -> Option<i64> {
        self.sensors.as_ref()?.due_ns()
    }

    fn heard(&mut self) {
        let notices = self.sensors.as_mut().map(super::Sensors::take_notices).unwrap_or_default();
        for Notice { sensor, what } in notices {
            let number = self.settings.sensors[sensor].number;
            if let Some(disk) = &mut self.disk {
                disk.log.sensor(number, what);
            }
            match what {
                What::Missing { count, from_ns, to_ns } => {
                    self.gaps.add(from_ns, to_ns);
                    self.lacking.entry(number).or_default().add(count, from_ns, to_ns);
                }
                what => self.told.push(Report::Sensor(number, what)),
            }
        }
        self.tell_lacking(false);
        self.go_on(self.reached());
    }

    /// Tells what is missing, of each sensor once a second at most; `all`: what is not told yet.
    pub(super) fn tell_lacking(&mut self, all: bool) {
        let now_ns = self.now.monotonic_ns;
        for (number, lacking) in &mut self.lacking {
            self.told.extend(lacking.take(now_ns, all).map(|what| Report::Sensor(*number, what)));
        }
    }

    /// Goes on with these sensors, in their places: the first ones are those there were. `is_registered`: by place, whether
    /// it still is.
    pub fn register(&mut self, sensors: Vec<Registered>, is_registered: impl Fn(usize) -> bool, now: Now) {
        let Some(known) = &mut self.sensors else { return };
        self.now = now;
        for (place, sensor) in sensors.iter().enumerate().skip(self.settings.sensors.len()) {
            self.places.insert(sensor.number, place);
            let name = Arc::clone(&sensor.name);
            self.counts.sensors.entry(sensor.number).or_insert_with(|| SensorCounts::new(Arc::clone(&name)));
            if self.disk.is_some() {
                self.batch.sensors.push((sensor.number, name));
            }
        }
        known.keep(sensors.len(), is_registered, now);
        self.settings.sensors = sensors;
        self.heard();
    }

    /// How far event time has come: the least that registered sensors promised and other inputs came to. Who has no key
    /// holds it back no longer than disorder and silence allow.
    pub(super) fn reached(&self) -> i64 {
        let Some(sensors) = &self.sensors else { return self.watermark.now() };
        let Now { wall_ns, monotonic_ns } = self.now;
        let silence_ns = self.settings.timing.silence_ns;
        let by_clock = match self.is_held {
            true => i64::MIN,
            false => wall_ns.saturating_sub(silence_ns).saturating_sub(self.settings.disorder_ns),
        };
        let is_heard = self.others_heard_ns.is_some_and(|heard| monotonic_ns.saturating_sub(heard) < silence_ns);
        let others = is_heard.then(|| self.watermark.now().max(by_clock));
        let least = match sensors.least() {
            Least::Open => i64::MIN,
            Least::At(h) => others.map_or(h, |others| others.min(h)),
            Least::Nobody => others.unwrap_or(by_clock),
        };
        least.max(self.watermark.pushed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_and_what_is_unknown_are_told_apart_and_not_too_often() {
        let mut lacking = Lacking::default();
        let missing = |count, from_ns, to_ns| What::Missing { count, from_ns, to_ns };
        lacking.add(0, 10, 20);
        lacking.add(1, 15, 16);
        lacking.add(2, 17, 30);
        assert_eq!(lacking.take(5, false).collect::<Vec<_>>(), [missing(0, 10, 20), missing(3, 15, 30)]);
        lacking.add(1, 40, 41);
        assert_eq!(lacking.take(TOLD_NS, false).count(), 0);
        assert_eq!(lacking.take(TOLD_NS + 5, false).collect::<Vec<_>>(), [missing(1, 40, 41)]);
        lacking.add(0, 50, 51);
        assert_eq!(lacking.take(TOLD_NS + 6, true).count(), 1);
    }
}

//! Owns: log and store of a correlator: when they are written, and what goes of them.
//! Does not: say what an event or an incident is on the disk (`log`, `store`).

use ringtap::Result;

use super::Correlator;
use crate::log::Log;
use crate::sensors::{Registered, Sensors};
use crate::store::{Batch, Judged, Store};

/// Writes of the store between two looks at what may go.
const PER_RETENTION: u32 = 32;

/// Log and store.
pub(super) struct Disk {
    pub(super) log: Log,
    pub(super) store: Store,
    pub(super) since_watermark: u32,
    pub(super) judged: Judged,
    /// Writes since the store was last looked at for what may go.
    since_retention: u32,
    /// The segment that says of itself who was left out when it began.
    said_in: u64,
}

impl Disk {
    pub(super) fn new(log: Log, store: Store, judged: Judged) -> Self {
        let said_in = log.place().segment;
        Self { log, store, since_watermark: 0, judged, since_retention: 0, said_in }
    }

    /// A new segment of the log says who is left out of the watermark: a restart may pass over those before it.
    fn say_left_out(&mut self, sensors: Option<&Sensors>, registered: &[Registered]) {
        let segment = self.log.place().segment;
        if std::mem::replace(&mut self.said_in, segment) == segment {
            return;
        }
        for (place, what) in sensors.into_iter().flat_map(Sensors::left_out) {
            self.log.sensor(registered[place].number, what);
        }
    }
}

impl Correlator {
    /// Judges late events again, and puts log and store on the disk: every 100 ms or so.
    ///
    /// # Errors
    /// The disk is full or broken. What was not stored is stored with the next call; it can go on.
    pub fn sync(&mut self) -> Result<()> {
        self.judge_late(!self.settings.early)?;
        let watermark = self.engine.watermark();
        self.write(watermark)
    }

    pub(super) fn write(&mut self, watermark: i64) -> Result<()> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        if std::mem::take(&mut disk.since_watermark) > 0 {
            disk.log.watermark(watermark);
        }
        let logged = disk.log.sync();
        if logged.is_ok() {
            self.streams.are_logged();
        }
        disk.say_left_out(self.sensors.as_ref(), &self.settings.sensors);
        self.batch
            .progress
            .extend(self.engine.take_progress().into_iter().map(|(id, told, matches)| (id, (told, matches))));
        // What was found is on the disk at once; else how far it went is enough now and then.
        let judged = Judged {
            watermark,
            late: if self.late.is_empty() { disk.log.place() } else { disk.judged.late },
            greatest_ns: self.watermark.greatest_ns().unwrap_or(i64::MIN),
        };
        // A segment that is full may be passed over by its events' times: how far streams were read must not be in it alone.
        let is_new_segment = !self.streams.next().is_empty() && disk.log.place().segment > disk.judged.late.segment;
        let is_due = is_new_segment || watermark.saturating_sub(disk.judged.watermark) > 60_000_000_000;
        if !self.batch.is_empty() || is_due {
            disk.store.write(self.engine.automaton(), &self.batch, judged, self.streams.logged())?;
            disk.judged = judged;
            self.batch = Batch::default();
            self.retain()?;
        }
        logged
    }

    /// Lets go of what is too old, or too much.
    fn retain(&mut self) -> Result<()> {
        let (reach, wall_ns) = (self.reach(), self.now.wall_ns);
        let horizon = self.engine.automaton().horizon_ns();
        let Some(disk) = &mut self.disk else { return Ok(()) };
        self.counts.log_cut += disk.log.prune(reach, self.settings.log_bytes);
        disk.since_retention += 1;
        if disk.since_retention >= PER_RETENTION {
            disk.since_retention = 0;
            // What may still be told again keeps its id.
            let known_ns = disk.judged.watermark.min(wall_ns).saturating_sub(horizon);
            disk.store.retain(self.settings.retention, wall_ns, known_ns)?;
        }
        Ok(())
    }
}

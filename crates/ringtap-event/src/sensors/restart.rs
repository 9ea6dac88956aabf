//! Owns: what an earlier run has logged of sensors, noted again after a restart.
//! Does not: read a log, or tell anything: it was told when it happened.

use super::{Sensor, Sensors, What};

impl Sensors {
    /// Notes an alarm of the log, after a restart, or that an epoch was heard (no sequence); `time_ns`: not later than when
    /// its first message was built, as far as the log can say.
    pub fn note(&mut self, sensor: usize, epoch: u64, sequence: Option<u64>, time_ns: i64) {
        let epoch = self.sensors[sensor].noted(epoch, time_ns);
        if let Some(sequence) = sequence {
            epoch.note(sequence);
        }
    }

    /// Notes that a sensor was left out then, or taken in again: who was silent is not waited for once more.
    pub fn note_left_out(&mut self, sensor: usize, what: What) {
        let it = &mut self.sensors[sensor];
        match what {
            What::SilentSince { h_ns } => {
                it.counts.is_silent = true;
                it.promised_ns = it.promised_ns.max(h_ns);
            }
            What::Quarantined { .. } => it.counts.is_quarantined = true,
            // One heartbeat ends both.
            What::Back { .. } | What::Released => (it.counts.is_silent, it.counts.is_quarantined) = (false, false),
            What::Began { .. } | What::Twice | What::Missing { .. } => {}
        }
        self.update(sensor);
    }

    /// Sensors that are left out now, by place, as a log should say it that begins here.
    pub fn left_out(&self) -> impl Iterator<Item = (usize, What)> {
        let is_out = |(_, it): &(usize, &Sensor)| it.is_left_out() && !it.counts.is_removed;
        let out = self.sensors.iter().enumerate().filter(is_out);
        out.map(|(place, it)| (place, What::SilentSince { h_ns: it.promised_ns }))
    }

    /// Goes on where an earlier run had come to: what a sensor saw from there on may be missing; of one that was left out by then,
    /// what it saw since its last promise.
    pub fn go_on_from(&mut self, watermark_ns: i64) {
        for it in self.sensors.iter_mut().filter(|it| !it.is_left_out() || it.promised_ns.is_none()) {
            it.promised_ns = it.promised_ns.max(Some(watermark_ns));
        }
    }
}

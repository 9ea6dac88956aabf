//! Announced alarms as the outside is told of them.
//!
//! Owns their text, with names, made by the thread that writes. Outputs and their threads are `ringtap_output::announce`'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use ringtap::Result;
use ringtap_output::Severity;
use ringtap_output::announce::{self, Announced, LineOutputs};
use ringtap_snmp::names::Names;

use crate::judge::Announcement;
use crate::render;

/// The outputs of a station.
pub(crate) struct Outputs {
    outputs: announce::Outputs<Named>,
    names: Arc<Names>,
}

/// An announcement, and the names for its text.
struct Named {
    announcement: Announcement,
    names: Arc<Names>,
}

impl announce::Announcement for Named {
    fn line(&self) -> String {
        render::announcement(&self.announcement, &self.names).to_string()
    }

    fn severity(&self) -> Option<Severity> {
        let alarm = &self.announcement.alarm;
        (!alarm.cleared).then_some(alarm.severity)
    }
}

/// Opens the outputs, `webhook` being a URL; when `reopen` becomes true, files are opened again.
pub(crate) fn start(
    wanted: &LineOutputs,
    webhook: Option<&str>,
    names: &Arc<Names>,
    reopen: Arc<AtomicBool>,
) -> Result<Outputs> {
    let announced = Announced { what: "alarms", kept_by: "ringtap alarms" };
    let outputs = announce::start(wanted, webhook, announced, reopen)?;
    Ok(Outputs { outputs, names: Arc::clone(names) })
}

impl Outputs {
    /// Announcements that an output could not take.
    pub(crate) fn not_told(&self) -> Arc<AtomicU64> {
        self.outputs.not_told()
    }

    /// Tells all outputs, without waiting.
    pub(crate) fn tell(&self, announcement: Announcement) {
        self.outputs.tell(Named { announcement, names: Arc::clone(&self.names) });
    }

    /// Waits until all that was told is out, or given up.
    pub(crate) fn finish(self) {
        self.outputs.finish();
    }
}

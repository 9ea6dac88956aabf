//! Announced alarms as the outside is told of them.
//!
//! Owns their text, with names, made by the thread that writes. Outputs and their threads are `ringtap_output::announce`'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use ringtap::Result;
use ringtap_output::announce::{self, LineOutputs};
use ringtap_output::{Announced, Severity};
use ringtap_snmp::names::Names;
use serde_json::Value as Json;

use crate::judge::Announcement;
use crate::render;

/// The outputs of a station.
pub(crate) struct Outputs {
    outputs: announce::Outputs<Told>,
    names: Arc<Names>,
}

/// What is announced.
enum Told {
    /// A change of an alarm, and the names for its text.
    Alarm(Box<Announcement>, Arc<Names>),
    /// What became of an incident; how severe it is while it is there.
    Incident(Json, Option<Severity>),
}

impl announce::Announcement for Told {
    fn line(&self) -> String {
        match self {
            Self::Alarm(announcement, names) => render::announcement(announcement, names).to_string(),
            Self::Incident(object, _) => object.to_string(),
        }
    }

    fn severity(&self) -> Option<Severity> {
        match self {
            Self::Alarm(told, _) => (!told.alarm.cleared).then_some(told.alarm.severity),
            Self::Incident(_, severity) => *severity,
        }
    }
}

/// Opens the outputs, `webhook` being a URL; when `reopen` becomes true, files are opened again.
pub(crate) fn start(
    wanted: &LineOutputs,
    webhook: Option<&str>,
    names: &Arc<Names>,
    reopen: Arc<AtomicBool>,
) -> Result<Outputs> {
    let announced = Announced { what: "alarms", kept_by: Some("ringtap alarms") };
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
        self.outputs.tell(Told::Alarm(Box::new(announcement), Arc::clone(&self.names)));
    }

    /// The same of an incident; without a severity it tells of nothing wrong.
    pub(crate) fn tell_incident(&self, incident: Json, severity: Option<Severity>) {
        self.outputs.tell(Told::Incident(incident, severity));
    }

    /// Waits until all that was told is out, or given up.
    ///
    /// # Errors
    /// Not all alarms are in the file.
    pub(crate) fn finish(self) -> Result<()> {
        self.outputs.finish()
    }
}

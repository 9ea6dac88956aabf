//! Announced alarms as the outside is told of them.
//!
//! Owns their text, with names, made by the thread that writes. Outputs of lines and their threads are `ringtap_output::announce`'s; what is
//! posted goes into the store first, and from there by `posts`.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use ringtap::Result;
use ringtap_output::announce::{self, LineOutputs};
use ringtap_output::{Announced, Severity};
use ringtap_snmp::names::Names;
use serde_json::Value as Json;

use crate::judge::Announcement;
use crate::render;

/// The outputs of a station.
pub(crate) struct Outputs {
    outputs: announce::Outputs<News>,
    names: Arc<Names>,
    /// What is to be posted and not in a job yet; nothing where nothing is posted.
    posts: Option<Mutex<Vec<News>>>,
}

/// What is announced.
#[derive(Debug, Clone)]
pub enum News {
    /// A change of an alarm, and the names for its text.
    Alarm(Arc<Announcement>, Arc<Names>),
    /// What became of an incident; how severe it is while it is there.
    Incident(Arc<Json>, Option<Severity>),
}

impl announce::Announcement for News {
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

/// Opens the outputs; `posts`: what is told is kept for the store, too. When `reopen` becomes true, files are opened again.
pub(crate) fn start(wanted: &LineOutputs, posts: bool, names: &Arc<Names>, reopen: Arc<AtomicBool>) -> Result<Outputs> {
    let announced = Announced { what: "alarms", kept_by: Some("ringtap alarms") };
    let outputs = announce::start(wanted, None, announced, reopen)?;
    Ok(Outputs { outputs, names: Arc::clone(names), posts: posts.then(Mutex::default) })
}

impl Outputs {
    /// Announcements that an output could not take.
    pub(crate) fn not_told(&self) -> Arc<AtomicU64> {
        self.outputs.not_told()
    }

    /// Tells all outputs, without waiting.
    pub(crate) fn tell(&self, announcement: Announcement) {
        self.tell_all(News::Alarm(Arc::new(announcement), Arc::clone(&self.names)));
    }

    /// The same of an incident; without a severity it tells of nothing wrong.
    pub(crate) fn tell_incident(&self, incident: Json, severity: Option<Severity>) {
        self.tell_all(News::Incident(Arc::new(incident), severity));
    }

    fn tell_all(&self, told: News) {
        if let Some(posts) = &self.posts {
            posts.lock().unwrap_or_else(PoisonError::into_inner).push(told.clone());
        }
        self.outputs.tell(told);
    }

    /// What is to be posted since the last call, for the store.
    pub(crate) fn take_posts(&self) -> Vec<News> {
        let posts = self.posts.as_ref().map(|posts| posts.lock().unwrap_or_else(PoisonError::into_inner));
        posts.map(|mut posts| std::mem::take(&mut *posts)).unwrap_or_default()
    }

    /// Whether there is any.
    pub(crate) fn has_posts(&self) -> bool {
        let is_some = |posts: &Mutex<Vec<News>>| !posts.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        self.posts.as_ref().is_some_and(is_some)
    }

    /// Waits until all that was told is out, or given up.
    ///
    /// # Errors
    /// Not all alarms are in the file.
    pub(crate) fn finish(self) -> Result<()> {
        self.outputs.finish()
    }
}

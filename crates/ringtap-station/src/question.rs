//! What `ringtap alarms` is asked, and its answer from the store.
//!
//! Owns which list answers what, and what is said beside it; the lists are `listing`'s.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ringtap::{Result, clock};
use ringtap_run::notes;
use ringtap_snmp::names::Names;

use crate::alarm::Severity;
use crate::filter::Filter;
use crate::listing::{self, Form};
use crate::maintenance::Window;
use crate::operations::{self, Operation};
use crate::store::Store;
use crate::{incidents, mibs};

/// A question about alarms.
#[derive(Debug, Clone, Copy)]
pub enum Question<'a> {
    /// Those of which this is true.
    List(&'a Filter),
    /// One, what was done with it, and its latest notifications.
    Show {
        /// Its number.
        id: u64,
        /// Notifications, at most.
        count: u64,
    },
    /// Something that an operator does.
    Operate(Operation<'a>),
    /// A window of maintenance more.
    AddWindow(&'a Window),
    /// The windows that are not over.
    Windows {
        /// Those that are over, too.
        all: bool,
    },
    /// A window is to be over.
    EndWindow {
        /// Its number.
        id: u64,
        /// Who ends it.
        operator: &'a str,
    },
    /// Incidents that are open.
    Incidents {
        /// Those that are over, too.
        all: bool,
        /// Only this severity and worse.
        least: Option<Severity>,
    },
    /// One incident, by its number, as a tree.
    Incident(&'a str),
    /// Every incident with its alarms, or one.
    ExportIncidents(Option<&'a str>),
    /// Every notification from this number on.
    Export(u64),
}

/// How answers are shown.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    /// MIB files, or folders of them, for the names of objects.
    pub mibs: &'a [PathBuf],
    /// One JSON object a line.
    pub json: bool,
    /// Notifications' bytes too; they hold the communities.
    pub raw: bool,
}

impl Question<'_> {
    /// Answers it from the store in this folder; what `out` took is the inner result.
    ///
    /// # Errors
    /// There is no store, no such alarm, or it can't be read or written; MIB files can't be read.
    pub fn answer(self, folder: &Path, shape: Shape<'_>, out: &mut impl Write) -> Result<io::Result<()>> {
        let names = if shape.mibs.is_empty() { Names::default() } else { mibs::load(shape.mibs, None)? };
        for warning in names.warnings() {
            notes::say(warning);
        }
        let store = Store::open_beside(folder)?;
        let form = Form { names: &names, json: shape.json, raw: shape.raw };
        match self {
            Self::List(filter) => {
                let mut alarms = store.alarms()?;
                let now_ns = clock::realtime_ns();
                alarms.retain(|alarm| filter.matches(alarm, &names, now_ns));
                if alarms.is_empty() && !shape.json {
                    notes::say("there are none");
                }
                Ok(listing::list(out, alarms.iter(), &names, shape.json))
            }
            Self::Show { id, count } => listing::show(out, &store, id, count, form),
            Self::Operate(operation) => operation.run(folder, &store, &names).map(Ok),
            Self::AddWindow(window) => operations::add_window(folder, &store, window).map(Ok),
            Self::Windows { all } => operations::list_windows(out, &store, all, shape.json),
            Self::EndWindow { id, operator } => operations::end_window(folder, &store, id, operator).map(Ok),
            Self::Incidents { all, least } => Ok(incidents::list(out, &store, all, least, shape.json)?.map(|count| {
                if count == 0 && !shape.json {
                    let such = least.map_or(String::new(), |least| format!(" of severity {} or worse", least.name()));
                    let open = if all { "" } else { " that are open; --all has those that are over" };
                    notes::say(&format!("there are none{such}{open}"));
                }
            })),
            Self::Incident(id) => incidents::show(out, &store, id, shape.json),
            Self::ExportIncidents(id) => incidents::export(out, &store, id),
            Self::Export(from) => listing::export(out, &store, from, form),
        }
    }
}

//! Owns: which detections are for an event, by its format and type; and where each format has the fields.
//! Does not: match.

use std::collections::HashMap;
use std::sync::Arc;

use ringtap_sigma::{Automaton, Scope};
use serde_json::Value as Json;

use crate::alarm::EVENT_TYPE;
use crate::event::{Event, Format, Said};
use crate::fields::Columns;
use crate::logsource::belongs;

/// Types of EVE events whose scope is kept: senders may make up any number.
const MAX_TYPES: usize = 256;

/// Scopes and columns of one automaton.
pub struct Scopes {
    columns: [Columns; 3],
    eve: HashMap<Box<str>, Arc<Scope>>,
    /// Of sealed alarms, which are EVE's alerts.
    alert: Arc<Scope>,
    alarm: Arc<Scope>,
    json: Arc<Scope>,
}

impl Scopes {
    /// Of this one.
    #[must_use]
    pub fn new(automaton: &Automaton) -> Self {
        let scope = |format| Arc::new(automaton.scope(|logsource| belongs(logsource, format, "")));
        let alert = automaton.scope(|logsource| belongs(logsource, Format::Eve, EVENT_TYPE));
        Self {
            columns: Format::ALL.map(|format| Columns::of(automaton, format)),
            eve: HashMap::new(),
            alert: Arc::new(alert),
            alarm: scope(Format::Alarm),
            json: scope(Format::Json),
        }
    }

    /// Where events of a format have the fields.
    #[must_use]
    pub fn columns(&self, format: Format) -> &Columns {
        &self.columns[format as usize - 1]
    }

    /// The detections for an event. `automaton` must be the one that this was made from.
    pub fn of(&mut self, automaton: &Automaton, event: &Event) -> Arc<Scope> {
        let Said::Line { content, .. } = &event.said else { return Arc::clone(&self.alert) };
        match event.format {
            Format::Alarm => Arc::clone(&self.alarm),
            Format::Json => Arc::clone(&self.json),
            Format::Eve => {
                let kind = content.get("event_type").and_then(Json::as_str).unwrap_or_default();
                if let Some(scope) = self.eve.get(kind) {
                    return Arc::clone(scope);
                }
                let scope = Arc::new(automaton.scope(|logsource| belongs(logsource, Format::Eve, kind)));
                if self.eve.len() < MAX_TYPES {
                    self.eve.insert(kind.into(), Arc::clone(&scope));
                }
                scope
            }
        }
    }
}

//! Owns: which detections are for an event, by its format and type; and where each format has the fields.
//! Does not: match.

use std::collections::HashMap;
use std::sync::Arc;

use ringtap_sigma::{Automaton, Scope};
use serde_json::Value as Json;

use crate::event::{Event, Format};
use crate::fields::Columns;
use crate::logsource::belongs;

/// Types of EVE events whose scope is kept: senders may make up any number.
const MAX_TYPES: usize = 256;

/// Scopes and columns of one automaton.
pub(super) struct Scopes {
    columns: [Columns; 3],
    eve: HashMap<Box<str>, Arc<Scope>>,
    alarm: Arc<Scope>,
    json: Arc<Scope>,
}

impl Scopes {
    pub(super) fn new(automaton: &Automaton) -> Self {
        let scope = |format| Arc::new(automaton.scope(|logsource| belongs(logsource, format, "")));
        Self {
            columns: Format::ALL.map(|format| Columns::new(automaton.fields(), format)),
            eve: HashMap::new(),
            alarm: scope(Format::Alarm),
            json: scope(Format::Json),
        }
    }

    pub(super) fn columns(&self, format: Format) -> &Columns {
        &self.columns[format as usize - 1]
    }

    pub(super) fn of(&mut self, automaton: &Automaton, event: &Event) -> Arc<Scope> {
        match event.format {
            Format::Alarm => Arc::clone(&self.alarm),
            Format::Json => Arc::clone(&self.json),
            Format::Eve => {
                let kind = event.content.get("event_type").and_then(Json::as_str).unwrap_or_default();
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

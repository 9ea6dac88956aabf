//! Owns: what all who look share: the parts of the page, made at most once a second, and the events that tell of parts that changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::content::Table;
use crate::figures::Figures;
use crate::history::History;
use crate::http::Stream;
use crate::page::{self, Section};
use crate::serve::View;

/// How often the parts are made, and looked at by whoever watches.
const EVERY: Duration = Duration::from_secs(1);
/// Lists are made again after so many times as long as it took: a large store is not read all of the time.
const REST: u32 = 10;

/// A program's page.
pub(crate) struct Live {
    view: Arc<dyn View>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    history: History,
    made: Option<Instant>,
    lists: Vec<Table>,
    /// When they are made again.
    next_lists: Option<Instant>,
    sections: Arc<Vec<Section>>,
}

impl Live {
    pub(crate) fn new(view: Arc<dyn View>) -> Self {
        Self { view, state: Mutex::default() }
    }

    pub(crate) fn view(&self) -> &dyn View {
        &*self.view
    }

    /// The parts as they are now, a second old at most.
    fn sections(&self) -> Arc<Vec<Section>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // A little less, or who looks each second would see each second one.
        if state.made.is_none_or(|made| now.duration_since(made) >= EVERY - EVERY / 10) {
            let figures = Figures::read(&self.view.metrics(), self.view.program());
            state.history.add(now, figures);
            if state.next_lists.is_none_or(|next| now >= next) {
                state.lists = self.view.lists();
                state.next_lists = Some(Instant::now() + now.elapsed() * REST);
            }
            state.sections = Arc::new(page::sections(self.view(), &state.history, &state.lists));
            state.made = Some(now);
        }
        Arc::clone(&state.sections)
    }

    /// What a program needs to show the same: names, what is wrong, and the lists.
    pub(crate) fn object(&self) -> String {
        self.sections();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let faults = state.history.now().map(|figures| self.view.faults(figures)).unwrap_or_default();
        let lists: Vec<Value> = state.lists.iter().map(Table::json).collect();
        json!({
            "program": self.view.program(), "object": self.view.object(), "faults": faults, "lists": lists,
        })
        .to_string()
    }

    pub(crate) fn page(&self) -> String {
        page::whole(self.view(), &self.sections())
    }

    /// Events (HTML, server-sent events) of parts that changed, beginning with those that differ from the page a second later.
    pub(crate) fn stream(self: &Arc<Self>) -> Stream {
        let this = Arc::clone(self);
        let mut told: HashMap<&'static str, String> = HashMap::new();
        Box::new(move || {
            std::thread::sleep(EVERY);
            let mut out = String::new();
            for section in &*this.sections() {
                if told.get(section.id) != Some(&section.html) {
                    told.insert(section.id, section.html.clone());
                    // JSON has no line feeds.
                    let part = json!({"id": section.id, "html": section.html});
                    out.push_str(&format!("event: section\ndata: {part}\n\n"));
                }
            }
            // A comment, or nobody would notice that the reader has gone.
            Some(if out.is_empty() { ":\n\n".to_owned() } else { out })
        })
    }
}

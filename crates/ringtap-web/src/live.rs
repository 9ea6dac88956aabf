//! Owns: what all who look share: the parts of the page, made at most once a second, and the events that tell of parts that changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::account::Account;
use crate::content::{Item, Table};
use crate::history::History;
use crate::http::Stream;
use crate::page::{self, Section};
use crate::serve::View;

/// How often the parts are made, and looked at by whoever watches.
const EVERY: Duration = Duration::from_secs(1);
/// Lists, and pages of items, are made again after so many times as long as it took: a large store is not read all of the time.
const REST: u32 = 10;
/// How long an item's page is waited for, while others are made.
const PATIENCE: Duration = Duration::from_secs(3);

/// A program's page.
pub(crate) struct Live {
    view: Arc<dyn View>,
    state: Mutex<State>,
    /// From when on the next item's page may be made.
    items: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct State {
    history: History,
    made: Option<Instant>,
    account: Account,
    lists: Vec<Table>,
    /// When they are made again.
    next_lists: Option<Instant>,
    sections: Arc<Vec<Section>>,
}

/// Others are served first.
pub(crate) struct Busy;

impl Live {
    pub(crate) fn new(view: Arc<dyn View>) -> Self {
        Self { view, state: Mutex::default(), items: Mutex::default() }
    }

    pub(crate) fn view(&self) -> &dyn View {
        &*self.view
    }

    /// All of it as it is now, a second old at most.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // A little less, or who looks each second would see each second one.
        if guard.made.is_none_or(|made| now.duration_since(made) >= EVERY - EVERY / 10) {
            let state = &mut *guard;
            state.history.add(now, self.view.now());
            if state.next_lists.is_none_or(|next| now >= next) {
                let began = Instant::now();
                state.lists = self.view.lists();
                state.next_lists = Some(Instant::now() + began.elapsed() * REST);
            }
            state.account = Account::of(&state.history);
            state.sections = Arc::new(page::sections(&state.account, &state.lists));
            state.made = Some(now);
        }
        guard
    }

    /// What a program needs to show the same: names, account and lists.
    pub(crate) fn object(&self) -> String {
        let state = self.state();
        let lists: Vec<Value> = state.lists.iter().map(Table::json).collect();
        json!({
            "program": self.view.program(), "object": self.view.object(), "account": state.account.json(), "lists": lists,
        })
        .to_string()
    }

    pub(crate) fn page(&self) -> String {
        let sections = Arc::clone(&self.state().sections);
        page::whole(self.view(), &sections)
    }

    /// What a row leads to, one at a time and with rests, however many ask.
    pub(crate) fn item(&self, kind: &str, id: &str) -> Result<Option<Item>, Busy> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(mut next) = self.items.try_lock()
                && next.is_none_or(|next| Instant::now() >= next)
            {
                let began = Instant::now();
                let item = self.view.item(kind, id);
                *next = Some(Instant::now() + began.elapsed() * REST);
                return Ok(item);
            }
            if Instant::now() >= until {
                return Err(Busy);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Events (HTML, server-sent events) of parts that changed; at first all of them.
    pub(crate) fn stream(self: &Arc<Self>) -> Stream {
        let this = Arc::clone(self);
        // The parts that were told, which are shared.
        let mut told: HashMap<&'static str, Arc<str>> = HashMap::new();
        Box::new(move || {
            std::thread::sleep(EVERY);
            let sections = Arc::clone(&this.state().sections);
            let mut out = String::new();
            for section in &*sections {
                if told.get(section.id) != Some(&section.html) {
                    told.insert(section.id, Arc::clone(&section.html));
                    // JSON has no line feeds.
                    let part = json!({"id": section.id, "html": &*section.html});
                    out.push_str(&format!("event: section\ndata: {part}\n\n"));
                }
            }
            // A comment, or nobody would notice that the reader has gone.
            Some(if out.is_empty() { ":\n\n".to_owned() } else { out })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::content::Now;

    /// Counts how often it is asked for lists and items, which take a while.
    #[derive(Default)]
    struct Slow(AtomicU64, AtomicU64);

    impl View for Slow {
        fn program(&self) -> &'static str {
            "test"
        }

        fn object(&self) -> String {
            String::new()
        }

        fn metrics(&self) -> String {
            String::new()
        }

        fn now(&self) -> Now {
            Now { what: "Packets", ..Now::default() }
        }

        fn lists(&self) -> Vec<Table> {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(500));
            Vec::new()
        }

        fn item(&self, _: &str, _: &str) -> Option<Item> {
            self.1.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(400));
            None
        }
    }

    #[test]
    fn what_is_slow_to_read_is_not_read_all_of_the_time() {
        let view = Arc::new(Slow::default());
        let live = Live::new(Arc::clone(&view) as Arc<dyn View>);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(2600) {
            live.page();
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(view.0.load(Ordering::Relaxed), 1, "half a second of reading, five of rest");
        let refused = std::thread::scope(|scope| {
            let all: Vec<_> = (0..16).map(|_| scope.spawn(|| live.item("a", "b").is_err())).collect();
            all.into_iter().filter_map(|one| one.join().unwrap().then_some(())).count()
        });
        assert_eq!((view.1.load(Ordering::Relaxed), refused), (1, 15), "one at a time, and a rest of four seconds");
    }
}

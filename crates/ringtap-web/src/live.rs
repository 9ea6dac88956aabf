//! Owns: what all who look share: the parts of the page, made at most once a second, and the events that tell of parts that changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
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
/// The longest such rest of items: somebody waits.
const LONGEST_REST: Duration = Duration::from_secs(2);
/// How long an item's page is waited for, while others are made, and how many wait at most.
const PATIENCE: Duration = Duration::from_secs(3);
const WAITING: usize = 4;
/// Lists that are older say so.
const OLD: Duration = Duration::from_secs(3);

/// A program's page.
pub(crate) struct Live {
    view: Arc<dyn View>,
    state: Mutex<State>,
    lists: Mutex<Lists>,
    /// From when on the next item's page may be made; and how many wait for it.
    items: Mutex<Option<Instant>>,
    waiting: AtomicUsize,
}

#[derive(Default)]
struct State {
    history: History,
    made: Option<Instant>,
    /// For programs.
    object: Arc<str>,
    sections: Arc<Vec<Section>>,
    /// The newest lists, and when they were read.
    lists: Option<(Instant, Arc<Vec<Table>>)>,
}

/// When lists are read again. Whoever holds it reads them.
#[derive(Default)]
struct Lists {
    next: Option<Instant>,
}

/// Others are served first.
pub(crate) struct Busy;

/// What is behind it holds after a panic as well.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, unless somebody else has it.
fn tried<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Live {
    pub(crate) fn new(view: Arc<dyn View>) -> Self {
        let (state, lists, items) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { view, state, lists, items, waiting: AtomicUsize::new(0) }
    }

    pub(crate) fn view(&self) -> &dyn View {
        &*self.view
    }

    /// Reads the lists, if it is time and nobody else does. All but the first go on with the old ones meanwhile.
    fn read_lists(&self) {
        let is_first = locked(&self.state).lists.is_none();
        let reader = if is_first { Some(locked(&self.lists)) } else { tried(&self.lists) };
        let Some(mut reader) = reader else { return };
        let began = Instant::now();
        if reader.next.is_none_or(|next| began >= next) {
            let lists = Arc::new(self.view.lists());
            reader.next = Some(Instant::now() + began.elapsed() * REST);
            locked(&self.state).lists = Some((began, lists));
        }
    }

    /// All of it as it is now, a second old at most.
    fn state(&self) -> MutexGuard<'_, State> {
        self.read_lists();
        let mut guard = locked(&self.state);
        let now = Instant::now();
        // A little less, or who looks each second would see each second one.
        if guard.made.is_none_or(|made| now.duration_since(made) >= EVERY - EVERY / 10) {
            let state = &mut *guard;
            state.history.add(now, self.view.now());
            let account = Account::of(&state.history);
            let lists = state.lists.as_ref().map(|(read, lists)| dated(lists, now.saturating_duration_since(*read)));
            let lists = lists.unwrap_or_default();
            state.sections = Arc::new(page::sections(&account, &lists));
            let listed: Vec<Value> = lists.iter().map(Table::json).collect();
            let object = json!({
                "program": self.view.program(), "object": self.view.object(), "account": account.json(), "lists": listed,
            });
            state.object = object.to_string().into();
            state.made = Some(now);
        }
        guard
    }

    /// What a program needs to show the same: names, account and lists.
    pub(crate) fn object(&self) -> Arc<str> {
        Arc::clone(&self.state().object)
    }

    pub(crate) fn page(&self) -> String {
        let sections = Arc::clone(&self.state().sections);
        page::whole(self.view(), &sections)
    }

    /// What a row leads to, one at a time and with rests, however many ask; within: it can't be read.
    pub(crate) fn item(&self, kind: &str, id: &str) -> Result<ringtap::Result<Option<Item>>, Busy> {
        let until = Instant::now() + PATIENCE;
        let _place = Place::take(&self.waiting).ok_or(Busy)?;
        loop {
            if let Some(mut next) = tried(&self.items)
                && next.is_none_or(|next| Instant::now() >= next)
            {
                let began = Instant::now();
                let item = self.view.item(kind, id);
                *next = Some(Instant::now() + (began.elapsed() * REST).min(LONGEST_REST));
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
            // So that the reader notices when nothing comes any more, and this end when the reader has gone.
            out.push_str("event: tick\ndata:\n\n");
            Some(out)
        })
    }
}

/// One of those who wait for an item.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize) -> Option<Self> {
        let free = |count: usize| (count < WAITING).then_some(count + 1);
        waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok().map(|_| Self(waiting))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lists that say how old they are, if they are.
fn dated(lists: &[Table], age: Duration) -> Vec<Table> {
    let mut lists = lists.to_vec();
    if age > OLD {
        for list in &mut lists {
            let note = list.note.take().map_or_else(String::new, |note| format!("{note}; "));
            list.note = Some(format!("{note}as of {} s ago", age.as_secs()));
        }
    }
    lists
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

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
            Now { at: Some(Instant::now()), what: "Packets", ..Now::default() }
        }

        fn lists(&self) -> Vec<Table> {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(500));
            Vec::new()
        }

        fn item(&self, _: &str, _: &str) -> ringtap::Result<Option<Item>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(700));
            Ok(None)
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
        let began = Instant::now();
        let served = std::thread::scope(|scope| {
            let all: Vec<_> = (0..32).map(|_| scope.spawn(|| live.item("a", "b").is_ok())).collect();
            all.into_iter().filter_map(|one| one.join().unwrap().then_some(())).count()
        });
        // One at a time, a rest of two seconds after each, and four who wait.
        assert!((1..=4).contains(&served), "{served}");
        assert_eq!(view.1.load(Ordering::Relaxed), served as u64);
        assert!(began.elapsed() >= Duration::from_millis(700) + Duration::from_millis(2700) * (served as u32 - 1));
    }

    #[test]
    fn while_lists_are_read_the_account_goes_on() {
        let view = Arc::new(Slow::default());
        let live = Live::new(Arc::clone(&view) as Arc<dyn View>);
        live.page();
        locked(&live.lists).next = None;
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| live.read_lists());
            while live.lists.try_lock().is_ok() && !reader.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            live.page();
            assert!(!reader.is_finished(), "the page waited for the lists");
        });
        let told = dated(&[Table { note: Some("none".to_owned()), ..Table::default() }], Duration::from_secs(7));
        assert_eq!(told[0].note.as_deref(), Some("none; as of 7 s ago"));
    }
}

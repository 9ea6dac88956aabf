//! Owns: what a running station shows to whoever looks at its page: its account, incidents and alarms, as its store has them.
//! Does not: serve it, or draw it (`ringtap-web`); change anything. It reads beside the station and never delays it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ringtap::{Error, Result, clock};
use ringtap_output::Severity;
use ringtap_run::units::{grouped, shown_age, shown_time};
use ringtap_snmp::names::Names;
use ringtap_web::{Branch, Cell, Item, Now, Part, Table, View};

use crate::alarm::Alarm;
use crate::incidents::Tree;
use crate::status::Sources;
use crate::store::{Store, StoredIncident};
use crate::{metrics, render};

/// Rows of each list.
const ROWS: u64 = 200;
/// Of this many notifications, up to an alarm's last one, those of the alarm are looked for: there is no index over them.
const LOOKED_AT: u64 = 100_000;
/// Notifications on an alarm's page.
const NOTIFICATIONS: u64 = 20;

/// A running station's page.
pub(crate) struct Page {
    pub(crate) sources: Arc<Sources>,
    pub(crate) places: String,
    pub(crate) names: Arc<Names>,
    pub(crate) folder: PathBuf,
    /// Open as long as it can be read; of lists, and of pages of items: neither waits for the other.
    pub(crate) store: [Mutex<Option<Store>>; 2],
}

impl Page {
    fn read<T>(&self, ask: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        self.read_by(0, ask)
    }

    fn read_by<T>(&self, which: usize, ask: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        let mut open = self.store[which].lock().unwrap_or_else(PoisonError::into_inner);
        let store = match open.take() {
            Some(store) => store,
            None => Store::open_beside(&self.folder)?,
        };
        let answer = ask(&store)?;
        *open = Some(store);
        Ok(answer)
    }

    fn alarms(&self, store: &Store) -> Result<Table> {
        let (alarms, all) = (store.raised_alarms(ROWS)?, store.raised_count()?);
        let now_ns = clock::realtime_ns();
        let row = |alarm: &Alarm| {
            vec![
                Cell::from(alarm.id.to_string()).to(format!("/alarm/{}", alarm.id)),
                alarm.severity.into(),
                Cell::from(alarm.key.resource.clone()),
                format!("{} {}", render::condition(alarm, &self.names), alarm.key.object).into(),
                grouped(alarm.count).into(),
                shown_time(alarm.changed_ns).into(),
                shown_age(alarm.last_ns, now_ns).into(),
                alarm.acknowledged.as_ref().map_or_else(String::new, |it| format!("acknowledged by {}", it.by)).into(),
            ]
        };
        Ok(Table {
            id: "alarms",
            title: "Raised alarms, the gravest first".to_owned(),
            columns: &["Alarm", "Severity", "Source", "What", "Count", "Since", "Last seen", ""],
            rows: alarms.iter().map(row).collect(),
            note: note(alarms.len(), all, "ringtap alarms list"),
        })
    }

    fn incidents(store: &Store) -> Result<Table> {
        let (incidents, all) = store.open_incidents(ROWS)?;
        let row = |(it, alarms): &(StoredIncident, u64)| {
            vec![
                Cell::from(it.id.to_string()).to(format!("/incident/{}", it.id)),
                level(&it.level),
                it.title.clone().into(),
                grouped(*alarms).into(),
                shown_time(it.opened_ns).into(),
            ]
        };
        Ok(Table {
            id: "incidents",
            title: "Open incidents: what broke".to_owned(),
            columns: &["Incident", "Level", "What", "Alarms", "Since"],
            rows: incidents.iter().map(row).collect(),
            note: note(incidents.len(), all, "ringtap alarms list --incidents"),
        })
    }

    fn alarm(&self, store: &Store, id: u64) -> Result<Option<Item>> {
        let Some(alarm) = store.alarm(id)? else { return Ok(None) };
        let state = if alarm.cleared { "cleared" } else { "raised" };
        let mut facts = vec![
            ("State", Cell::from(if alarm.flapping { format!("{state}, flapping") } else { state.to_owned() })),
            ("Severity", alarm.severity.into()),
            ("Source", alarm.key.resource.clone().into()),
            ("Condition", render::condition(&alarm, &self.names).into()),
            ("Object", alarm.key.object.clone().into()),
            ("Notifications", grouped(alarm.count).into()),
            ("First", shown_time(alarm.first_ns).into()),
            ("Changed", shown_time(alarm.changed_ns).into()),
            ("Last seen", shown_time(alarm.last_ns).into()),
        ];
        if let Some(incident) = store.incident_of(id)? {
            facts.push(("Belongs to", Cell::from(format!("incident {incident}")).to(format!("/incident/{incident}"))));
        }
        if let Some(it) = &alarm.acknowledged {
            facts.push(("Acknowledged by", it.by.clone().into()));
        }
        if alarm.maintenance {
            facts.push(("Maintenance", "its source is in a maintenance window".into()));
        }
        let acts = store.history(id)?.into_iter().rev().take(ROWS as usize).map(|entry| {
            let what = serde_json::to_value(entry.act).ok().and_then(|act| act.as_str().map(str::to_owned));
            vec![
                Cell::from(shown_time(entry.at_ns)),
                what.unwrap_or_default().into(),
                entry.operator.unwrap_or_else(|| "by time".to_owned()).into(),
                entry.comment.unwrap_or_default().into(),
            ]
        });
        let history = Table {
            id: "history",
            title: format!("What was done, the latest first, {ROWS} at most"),
            columns: &["Time", "What", "By", "Comment"],
            rows: acts.collect(),
            note: None,
        };
        let latest = store.latest_within(id, NOTIFICATIONS, alarm.last_notification, LOOKED_AT)?;
        let is_cut = (latest.len() as u64) < alarm.count.min(NOTIFICATIONS);
        let told = latest.into_iter().rev().map(|stored| {
            let said = render::notification(&stored, &self.names, false);
            vec![Cell::from(shown_time(stored.at_ns)), stored.source.into(), said.to_string().into()]
        });
        let told = Table {
            id: "notifications",
            title: format!("Latest notifications, {NOTIFICATIONS} at most"),
            columns: &["Time", "From", "What it says"],
            rows: told.collect(),
            note: is_cut.then(|| "older ones are gone, or not looked for".to_owned()),
        };
        let parts = [history, told].into_iter().filter(|table| !table.rows.is_empty()).map(Part::Table).collect();
        Ok(Some(Item { title: format!("Alarm {id}"), facts, parts }))
    }

    fn incident(store: &Store, id: u64) -> Result<Option<Item>> {
        let Some((it, all)) = store.incident_with(id, ROWS)? else { return Ok(None) };
        let cause = &it.cause;
        let state = match (it.closed_ns, it.merged_into) {
            (None, _) => "open".into(),
            (Some(at), None) => Cell::from(format!("over since {}", shown_time(at))),
            (Some(_), Some(into)) => {
                Cell::from(format!("its alarms belong to incident {into}")).to(format!("/incident/{into}"))
            }
        };
        let mut facts = vec![
            ("State", state),
            ("Level", level(&it.level)),
            ("Since", shown_time(it.opened_ns).into()),
            ("Alarms", grouped(all).into()),
        ];
        if cause.class.is_empty() {
            facts.push(("Cause", "nothing in the topology explains it".into()));
        } else {
            facts.push(("Symptoms", format!("{} seen of {} expected", cause.seen, cause.expected).into()));
            facts.push(("Confidence", format!("{:.3}", f64::from(cause.confidence) / 1000.0).into()));
        }
        if cause.revisions > 0 {
            facts.push(("Revised", format!("{} times", cause.revisions).into()));
        }
        let tree: Vec<Branch> = Tree::of(&it).branches();
        let heading = if all > ROWS { "What explains what (of the first 200 alarms)" } else { "What explains what" };
        let parts = vec![Part::Tree(heading, tree)];
        Ok(Some(Item { title: format!("Incident {id}: {}", it.title), facts, parts }))
    }
}

impl View for Page {
    fn program(&self) -> &'static str {
        "trap"
    }

    fn object(&self) -> String {
        self.places.clone()
    }

    fn metrics(&self) -> String {
        metrics::text(&self.sources.status())
    }

    fn now(&self) -> Now {
        let status = self.sources.status();
        let failing = status.error.iter().map(|error| format!("The store can't be written: {error}"));
        let missed = [
            (status.refused, "datagrams became no notification"),
            (status.table_full, "notifications found no room in the table of alarms"),
            (status.share_full, "notifications of strangers who had all alarms that they may"),
            (status.not_told, "announcements that an output could not take"),
            (status.forward_lost, "notifications for other managers found no room"),
        ];
        let missed = missed.into_iter().filter(|(count, _)| *count > 0);
        let missed = missed.map(|(count, what)| format!("{} {what}.", grouped(count)));
        Now {
            at: Some(Instant::now()),
            lost_behind: Vec::new(),
            what: "Datagrams",
            count: status.ledger.offered.unwrap_or(status.ledger.delivered + status.ledger.lost()),
            latencies: vec![("judged", status.to_alarm), ("on the disk", status.to_disk)],
            engine_cpu: None,
            faults: self.sources.interface_faults().into_iter().chain(failing).chain(missed).collect(),
            facts: vec![
                ("Raised alarms", grouped(status.raised)),
                ("Open incidents", grouped(status.root_cause.incidents)),
                ("Stored", grouped(status.stored)),
                ("Waiting", grouped(status.waiting)),
            ],
            ledger: Some(status.ledger),
        }
    }

    fn lists(&self) -> Vec<Table> {
        let failed = |id, title: &str, error: &Error| Table {
            id,
            title: title.to_owned(),
            note: Some(error.to_string()),
            ..Table::default()
        };
        let incidents = self.read(Self::incidents);
        let alarms = self.read(|store| self.alarms(store));
        vec![
            incidents.unwrap_or_else(|error| failed("incidents", "Open incidents", &error)),
            alarms.unwrap_or_else(|error| failed("alarms", "Raised alarms", &error)),
        ]
    }

    fn item(&self, kind: &str, id: &str) -> Result<Option<Item>> {
        let Some(id) = id.parse::<i64>().ok().and_then(|id| u64::try_from(id).ok()) else { return Ok(None) };
        let read = |store: &Store| match kind {
            "alarm" => self.alarm(store, id),
            "incident" => Self::incident(store, id),
            _ => Ok(None),
        };
        self.read_by(1, read)
    }
}

fn level(level: &str) -> Cell {
    Cell { severity: Severity::from_level(level), ..level.into() }
}

fn note(shown: usize, all: u64, command: &str) -> Option<String> {
    match all {
        0 => Some("none".to_owned()),
        all if all > shown as u64 => Some(format!("{shown} of {}; all of them: {command}", grouped(all))),
        _ => None,
    }
}

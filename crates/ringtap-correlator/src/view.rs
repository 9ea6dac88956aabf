//! Owns: what a running correlator shows to whoever looks at its page: its account, its sensors, open incidents and their timelines.
//! Does not: serve it, or draw it (`ringtap-web`). It reads beside the correlator and never delays it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ringtap::Result;
use ringtap_output::Severity;
use ringtap_run::units::{grouped, shown_size};
use ringtap_sigma::IncidentId;
use ringtap_web::{Cell, Item, Now, Part, Table, View};

use crate::listing::{events, shown, whose};
use crate::metrics;
use crate::render::{shown_span, shown_time};
use crate::status::Status;
use crate::store::{Incident, MemberRow, Store};

/// Incidents and events of one that are shown.
const ROWS: usize = 200;

/// Lines of what went wrong that are shown.
const MOST_FAULTS: usize = 50;

/// The account, and when it was taken.
pub(crate) type Dated = Mutex<(Instant, Arc<Status>)>;

/// A running correlator's page.
pub(crate) struct Page {
    /// As of the last second. Whoever reads it holds up nobody.
    pub(crate) status: Arc<Dated>,
    /// Folder of the incidents; `None`: none are kept.
    pub(crate) store: Option<PathBuf>,
}

impl Page {
    fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status.lock().unwrap_or_else(PoisonError::into_inner).1)
    }

    fn sensors(&self) -> Table {
        let status = self.status();
        let row = |(name, it): &(Arc<str>, crate::sensors::SensorState)| {
            let (state, severity) = match (it.is_removed, it.is_silent, it.is_quarantined, it.h_ns) {
                (true, ..) => ("no longer registered", Some(Severity::Indeterminate)),
                (_, _, true, _) => ("in quarantine", Some(Severity::Major)),
                (_, true, ..) => ("silent", Some(Severity::Major)),
                (.., None) => ("not heard yet", Some(Severity::Warning)),
                _ => ("heard", None),
            };
            vec![
                Cell::from(name.to_string()),
                Cell { severity, ..state.into() },
                grouped(it.beats).into(),
                grouped(it.lost).into(),
                grouped(it.silences).into(),
            ]
        };
        let rows: Vec<Vec<Cell>> = status.registered.iter().take(ROWS).map(row).collect();
        let left = status.registered.len() - rows.len();
        let note = match (rows.len(), left) {
            (0, _) => Some("none is registered".to_owned()),
            (_, 0) => None,
            (_, left) => Some(format!("{left} more")),
        };
        Table {
            id: "sensors",
            title: "Sensors".to_owned(),
            columns: &["Sensor", "State", "Heartbeats", "Alarms lost", "Silences"],
            rows,
            note,
        }
    }

    fn incidents(&self) -> Table {
        let table = Table { id: "incidents", title: "Open incidents".to_owned(), columns: COLUMNS, ..Table::default() };
        let Some(folder) = &self.store else {
            return Table { note: Some("none are kept: name a --store".to_owned()), ..table };
        };
        match Store::open_beside(folder).and_then(|store| store.open_incidents(ROWS)) {
            Err(error) => Table { note: Some(error.to_string()), ..table },
            Ok((incidents, all)) => {
                let note = match incidents.len() as u64 {
                    0 => Some("none".to_owned()),
                    shown if shown < all => {
                        Some(format!("{shown} of {}; all of them: ringtap alarms list --incidents", grouped(all)))
                    }
                    _ => None,
                };
                Table { rows: incidents.iter().map(|(it, members)| row(it, *members)).collect(), note, ..table }
            }
        }
    }
}

const COLUMNS: &[&str] = &["Incident", "Since", "Level", "What", "Whose", "Events"];

fn row(it: &Incident, members: u64) -> Vec<Cell> {
    let id = it.id.to_string();
    vec![
        Cell::from(&id[..12]).to(format!("/incident/{id}")),
        shown_time(it.opened_ns).into(),
        level(it),
        it.title.clone().into(),
        whose(it).into(),
        grouped(members).into(),
    ]
}

fn level(it: &Incident) -> Cell {
    Cell { severity: Severity::from_level(&it.level), ..it.level.clone().into() }
}

/// What an incident is made of.
struct Inside {
    /// Its first events and those of the incidents beneath it, in the order of time, each with the place of its incident below.
    events: Vec<(usize, MemberRow)>,
    /// Itself, and those beneath it, as far as they were looked at.
    incidents: Vec<Incident>,
    /// There is more.
    is_cut: bool,
}

impl Inside {
    fn of(store: &Store, top: Incident) -> Result<Self> {
        let (mut events, mut incidents, mut is_cut, mut at) = (Vec::new(), vec![top], false, 0);
        while at < incidents.len() {
            let rows = store.first_members(incidents[at].id, ROWS + 1)?;
            is_cut |= rows.len() > ROWS;
            for row in rows.into_iter().take(ROWS) {
                // Its own members say more than that it was hit.
                match row.via {
                    None => events.push((at, row)),
                    Some(via) if incidents.iter().any(|it| it.id == via) => {}
                    Some(_) if incidents.len() >= ROWS => is_cut = true,
                    Some(via) => match store.incident(via)? {
                        Some(below) => incidents.push(below),
                        None => events.push((at, row)),
                    },
                }
            }
            at += 1;
        }
        events.sort_by_key(|(of, row)| (row.time_ns, *row, *of));
        is_cut |= events.len() > ROWS;
        events.truncate(ROWS);
        Ok(Self { events, incidents, is_cut })
    }
}

/// One incident with its timeline.
fn item(folder: &Path, id: &str) -> Result<Option<Item>> {
    let bytes = data_encoding::HEXLOWER.decode(id.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    let Some(id) = bytes.map(IncidentId) else { return Ok(None) };
    let store = Store::open_beside(folder)?;
    let Some(it) = store.incident(id)? else { return Ok(None) };
    let (inside, sensors) = (Inside::of(&store, it)?, store.sensors()?);
    let texts = events(folder, &inside.events)?;
    let start_ns = inside.events.first().map_or(0, |(_, row)| row.time_ns);
    let line = |(of, row): &(usize, MemberRow)| {
        let event = texts.get(&(row.time_ns, row.identity));
        let step = format!("{} {}", inside.incidents[*of].rule, row.step + 1);
        vec![
            Cell::from(shown_time(row.time_ns)),
            format!("+{}", shown_span(row.time_ns.saturating_sub(start_ns))).into(),
            step.into(),
            sensors.get(&row.identity.sensor).cloned().unwrap_or_default().into(),
            event.map_or_else(|| "no longer in the log".to_owned(), |event| shown(&event.line())).into(),
        ]
    };
    let timeline = Table {
        id: "timeline",
        title: "Timeline".to_owned(),
        columns: &["Time", "Since the first", "Step", "Sensor", "Event"],
        rows: inside.events.iter().map(line).collect(),
        note: inside
            .is_cut
            .then(|| format!("the first ones; all: ringtap alarms show {} --incidents", &id.to_string()[..12])),
    };
    let below = inside.incidents[1..].iter().map(|it| Ok(row(it, store.member_count(it.id)?)));
    let beneath = Table {
        id: "beneath",
        title: "Incidents beneath it".to_owned(),
        columns: COLUMNS,
        rows: below.collect::<Result<_>>()?,
        note: None,
    };
    let it = &inside.incidents[0];
    let parts = [timeline, beneath].into_iter().filter(|table| !table.rows.is_empty()).map(Part::Table).collect();
    Ok(Some(Item { title: it.title.clone(), facts: facts(it), parts }))
}

fn facts(it: &Incident) -> Vec<(&'static str, Cell)> {
    let proven = match (it.order_proven, it.timespan_proven) {
        (true, true) => "order and timespan are proven by the clocks",
        (false, _) => "the clocks do not prove the order",
        (true, false) => "the clocks do not prove that it lies within the timespan",
    };
    let closed = it.closed_ns.map_or_else(|| "open".to_owned(), |at| format!("closed {}", shown_time(at)));
    let mut facts = vec![
        ("Rule", Cell::from(it.rule.clone())),
        ("Level", level(it)),
        ("Whose", whose(it).into()),
        ("Since", shown_time(it.opened_ns).into()),
        ("State", closed.into()),
        ("Matches", grouped(it.matches).into()),
        ("Proof", proven.into()),
    ];
    if it.late {
        facts.push(("Late", "found when a late event was judged again".into()));
    }
    if it.incomplete {
        facts.push(("Incomplete", "events may be missing".into()));
    }
    facts
}

impl View for Page {
    fn program(&self) -> &'static str {
        "correlate"
    }

    fn object(&self) -> String {
        let status = self.status();
        status.inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn metrics(&self) -> String {
        metrics::text(&self.status())
    }

    fn now(&self) -> Now {
        let status = self.status();
        let at = self.status.lock().unwrap_or_else(PoisonError::into_inner).0;
        let not_told = (status.not_told > 0)
            .then(|| format!("{} announcements that an output could not take", grouped(status.not_told)));
        let (keys, bytes, waiting) = status.now;
        let facts = vec![
            ("Open incidents", grouped(status.counts.open)),
            ("Keys", format!("{} in {}", grouped(keys as u64), shown_size(bytes as u64))),
            ("Waiting", grouped(waiting as u64)),
        ];
        let mut faults: Vec<String> = not_told.into_iter().chain(status.could_not_have_seen()).collect();
        let left = faults.len().saturating_sub(MOST_FAULTS);
        faults.truncate(MOST_FAULTS);
        if left > 0 {
            faults.push(format!("and {left} more; all of them are in its summary"));
        }
        Now {
            at: Some(at),
            ledger: None,
            lost_behind: Vec::new(),
            what: "Events",
            count: status.counts.events,
            latencies: Vec::new(),
            engine_cpu: None,
            faults,
            facts,
        }
    }

    fn lists(&self) -> Vec<Table> {
        vec![self.incidents(), self.sensors()]
    }

    fn item(&self, kind: &str, id: &str) -> Result<Option<Item>> {
        match self.store.as_deref().filter(|_| kind == "incident") {
            Some(folder) => item(folder, id),
            None => Ok(None),
        }
    }
}

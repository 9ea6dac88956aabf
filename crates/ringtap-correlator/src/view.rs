//! Owns: what a running correlator shows to whoever looks at its page: its account, its sensors, open incidents and their timelines.
//! Does not: serve it, or draw it (`ringtap-web`). It reads beside the correlator and never delays it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ringtap_output::Severity;
use ringtap_run::units::grouped;
use ringtap_web::{Cell, Figures, Item, Part, Table, View};

use crate::listing::Listing;
use crate::metrics;
use crate::render::{shown_span, shown_time};
use crate::status::Status;

/// Incidents and events of one that are shown.
const ROWS: usize = 200;

/// A running correlator's page.
pub(crate) struct Page {
    /// As of the last second.
    pub(crate) status: Arc<Mutex<Status>>,
    /// Folder of the incidents; `None`: none are kept.
    pub(crate) store: Option<PathBuf>,
}

impl Page {
    fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn sensors(&self) -> Table {
        let status = self.status();
        let row = |(name, it): &(Arc<str>, crate::sensors::SensorState)| {
            let (state, severity) = match (it.is_silent, it.is_quarantined) {
                (_, true) => ("in quarantine", Some(Severity::Major)),
                (true, false) => ("silent", Some(Severity::Major)),
                (false, false) => ("heard", None),
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
        let (id, title) = ("incidents", "Open incidents".to_owned());
        let columns = &["Incident", "Since", "Level", "What", "Whose", "Events"];
        let Some(folder) = &self.store else {
            return Table { id, title, note: Some("none are kept: name a --store".to_owned()), ..Table::default() };
        };
        match Listing::read(folder) {
            Err(error) => Table { id, title, note: Some(error.to_string()), ..Table::default() },
            Ok(listing) => {
                let (rows, all) = listing.open_rows(ROWS);
                let note = match (rows.len(), all) {
                    (_, 0) => Some("none".to_owned()),
                    (shown, all) if shown < all => Some(format!(
                        "{shown} of {}; all of them: ringtap alarms list --incidents",
                        grouped(all as u64)
                    )),
                    _ => None,
                };
                Table { id, title, columns, rows, note }
            }
        }
    }
}

impl View for Page {
    fn program(&self) -> &'static str {
        "correlate"
    }

    fn object(&self) -> String {
        let inputs: Vec<String> = self.status().inputs.into_iter().map(|input| input.name).collect();
        inputs.join(", ")
    }

    fn metrics(&self) -> String {
        metrics::text(&self.status.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn counter(&self) -> &'static str {
        "events"
    }

    fn faults(&self, figures: &Figures) -> Vec<String> {
        let above = |name: &str| figures.sum(name).filter(|value| *value > 0.0).map(|value| value as u64);
        let says = [
            above("sensors_left_out").map(|count| format!("{count} sensors are silent or in quarantine.")),
            above("sensor_lost").map(|count| format!("{} alarms of sensors never came.", grouped(count))),
            above("forgotten").map(|count| format!("{} keys were forgotten for want of memory.", grouped(count))),
            above("not_stored").map(|count| format!("{} changes of incidents are not stored.", grouped(count))),
        ];
        says.into_iter().flatten().collect()
    }

    fn lists(&self) -> Vec<Table> {
        vec![self.incidents(), self.sensors()]
    }

    fn item(&self, kind: &str, id: &str) -> Option<Item> {
        let folder = self.store.as_deref().filter(|_| kind == "incident")?;
        let listing = Listing::read(folder).ok()?;
        listing.item(folder, listing.find(id).ok()?, ROWS).ok()
    }
}

impl Listing {
    /// The latest open incidents that are told by themselves, each with those beneath it; at most so many rows; and how many there are.
    fn open_rows(&self, most: usize) -> (Vec<Vec<Cell>>, usize) {
        let is_told = |at: &usize| {
            let it = &self.listed[*at].0;
            self.parents[*at].is_none() && it.announces && it.closed_ns.is_none()
        };
        let tops: Vec<usize> = (0..self.listed.len()).rev().filter(is_told).collect();
        let rows = tops.iter().take(most).map(|&at| self.row(at)).collect();
        (rows, tops.len())
    }

    fn row(&self, at: usize) -> Vec<Cell> {
        let (it, members) = &self.listed[at];
        let id = it.id.to_string();
        vec![
            Cell::from(&id[..12]).to(format!("/incident/{id}")),
            shown_time(it.opened_ns).into(),
            Cell { severity: Severity::from_level(&it.level), ..it.level.clone().into() },
            it.title.clone().into(),
            self.whose(at).into(),
            grouped(members.len() as u64).into(),
        ]
    }

    /// One incident with its timeline, at most so many events of it.
    fn item(&self, folder: &std::path::Path, at: usize, most: usize) -> ringtap::Result<Item> {
        let it = &self.listed[at].0;
        let proven = match (it.order_proven, it.timespan_proven) {
            (true, true) => "order and timespan are proven by the clocks",
            (false, _) => "the clocks do not prove the order",
            (true, false) => "the clocks do not prove that it lies within the timespan",
        };
        let mut facts = vec![
            ("Rule", Cell::from(it.rule.clone())),
            ("Level", Cell { severity: Severity::from_level(&it.level), ..it.level.clone().into() }),
            ("Whose", self.whose(at).into()),
            ("Since", shown_time(it.opened_ns).into()),
            ("State", it.closed_ns.map_or_else(|| "open".to_owned(), |at| format!("closed {}", shown_time(at))).into()),
            ("Matches", grouped(it.matches).into()),
            ("Proof", proven.into()),
        ];
        if it.late {
            facts.push(("Late", "found when a late event was judged again".into()));
        }
        if it.incomplete {
            facts.push(("Incomplete", "events may be missing".into()));
        }
        let below = (0..self.listed.len()).filter(|below| self.parents[*below] == Some(at)).take(most);
        let below: Vec<Vec<Cell>> = below.map(|below| self.row(below)).collect();
        let (lines, all) = self.timeline_lines(folder, at, most)?;
        let rows = lines.into_iter().map(|line| {
            vec![
                Cell::from(shown_time(line.time_ns)),
                format!("+{}", shown_span(line.since_start_ns)).into(),
                line.step.into(),
                line.sensor.into(),
                line.text.into(),
            ]
        });
        let timeline = Table {
            id: "timeline",
            title: "Timeline".to_owned(),
            columns: &["Time", "Since the first", "Step", "Sensor", "Event"],
            rows: rows.collect(),
            note: (all > most).then(|| format!("the first {most} of {}", grouped(all as u64))),
        };
        let beneath = Table {
            id: "beneath",
            title: "Incidents beneath it".to_owned(),
            columns: &["Incident", "Since", "Level", "What", "Whose", "Events"],
            rows: below,
            note: None,
        };
        let parts = [timeline, beneath].into_iter().filter(|table| !table.rows.is_empty()).map(Part::Table).collect();
        Ok(Item { title: it.title.clone(), facts, parts })
    }
}

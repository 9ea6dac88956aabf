//! Owns: what a program hands to the page: its account, tables, trees, and what a row leads to.
//! Does not: know markup; texts are texts.

use std::time::{Duration, Instant};

use ringtap::histogram::HistogramSnapshot;
use ringtap::interface::InterfaceState;
use ringtap::ledger::Ledger;
use ringtap_output::Severity;
use serde_json::{Value, json};

/// A program's account as of now.
#[derive(Debug, Clone, Default)]
pub struct Now {
    /// When it was taken; `None`: it was not yet.
    pub at: Option<Instant>,
    /// Where packets went; `None`: it gets none.
    pub ledger: Option<Ledger>,
    /// Packets that were lost behind the ledger's end: cause, and how many; `None`: not known.
    pub lost_behind: Vec<(String, Option<u64>)>,
    /// What comes to it: `Packets`, `Events`.
    pub what: &'static str,
    /// How many came.
    pub count: u64,
    /// Latencies, the most important first: what is done that long after arrival (`handled`), and how long.
    pub latencies: Vec<(&'static str, HistogramSnapshot)>,
    /// CPU time of all engines; `None`: it can't be read, or there are none.
    pub engine_cpu: Option<Duration>,
    /// What went wrong, or could not be looked at: a sentence each.
    pub faults: Vec<String>,
    /// What else is told first: name and value.
    pub facts: Vec<(&'static str, String)>,
}

/// What is wrong with a program's interfaces, a sentence each. `states` are of those that have not ended.
pub fn interface_faults(names: &[String], states: &[(&str, InterfaceState)]) -> Vec<String> {
    let fault = |name: &String| match states.iter().find(|(known, _)| known == name) {
        None => Some(format!("{name} has ended: nothing is taken from it any more.")),
        Some((_, InterfaceState::Down)) => Some(format!("{name} is down.")),
        Some((_, InterfaceState::Gone)) => Some(format!("{name} is gone.")),
        Some(_) => None,
    };
    names.iter().filter_map(fault).collect()
}

/// A list, and what was left out of it.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Its name within the page: small letters.
    pub id: &'static str,
    /// Its heading.
    pub title: String,
    /// Headings of the columns.
    pub columns: &'static [&'static str],
    /// As many cells each as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// Said below it: what is not shown, or why there is nothing.
    pub note: Option<String>,
}

impl Table {
    /// As an object.
    pub(crate) fn json(&self) -> Value {
        let cell = |cell: &Cell| {
            let mut object = json!({"text": cell.text});
            if let Some(severity) = cell.severity {
                object["severity"] = severity.name().into();
            }
            object
        };
        let rows: Vec<Vec<Value>> = self.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        json!({"id": self.id, "title": self.title, "columns": self.columns, "rows": rows, "note": self.note})
    }
}

/// A text in a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// Path within the page that it leads to.
    pub link: Option<String>,
    /// How grave what it says is.
    pub severity: Option<Severity>,
}

impl Cell {
    /// It leads to this path, such as `/alarm/7`.
    #[must_use]
    pub fn to(mut self, path: String) -> Self {
        self.link = Some(path);
        self
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Severity> for Cell {
    fn from(severity: Severity) -> Self {
        Self { severity: Some(severity), ..severity.name().into() }
    }
}

/// An element of a tree.
#[derive(Debug, Clone, Default)]
pub struct Branch {
    /// What it is.
    pub what: Cell,
    /// What follows from it.
    pub below: Vec<Branch>,
}

/// What a row leads to: a page of its own.
#[derive(Debug, Clone, Default)]
pub struct Item {
    /// Its heading.
    pub title: String,
    /// What is known of it: name and value.
    pub facts: Vec<(&'static str, Cell)>,
    /// What follows.
    pub parts: Vec<Part>,
}

/// A part of such a page.
#[derive(Debug, Clone)]
pub enum Part {
    /// A tree below a heading.
    Tree(&'static str, Vec<Branch>),
    /// A table, or a timeline.
    Table(Table),
}

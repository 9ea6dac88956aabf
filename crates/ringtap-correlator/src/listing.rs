//! What a store of incidents holds, for people and programs: lists, one incident with its timeline, everything.
//!
//! Owns the shape of lists. A store that a correlator writes to is read beside it.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use ringtap::{Error, Result};
use ringtap_sigma::{Identity, IncidentId};
use serde_json::{Value as Json, json};

use crate::event::Event;
use crate::log::{self, Record};
use crate::nesting::{Listed, parents};
use crate::render::{event, shown_span, shown_time};
use crate::store::{Incident, MemberRow, Store};
use ringtap_output::{Severity, printable, printable_json};

/// What an event says, in a timeline, characters.
const SHOWN: usize = 160;

/// A store as it is read.
pub struct Listing {
    listed: Listed,
    parents: Vec<Option<usize>>,
    sensors: HashMap<u64, String>,
}

impl Listing {
    /// Reads the store of this folder.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn read(folder: &Path) -> Result<Self> {
        let store = Store::open_beside(folder)?;
        let with_members = |it: Incident| store.members(it.id).map(|members| (it, members));
        let listed = store.incidents()?.into_iter().map(with_members).collect::<Result<Listed>>()?;
        let parents = parents(&listed);
        Ok(Self { listed, parents, sensors: store.sensors()? })
    }

    /// Incidents as a tree, those that are told by themselves at the top; `all`: closed ones too; `least`: only those of this
    /// severity and worse. Returns how many.
    ///
    /// # Errors
    /// `out` takes no more.
    pub fn list(&self, out: &mut impl Write, all: bool, least: Option<Severity>, json: bool) -> io::Result<usize> {
        let is_grave =
            |incident: &Incident| least.is_none_or(|least| Severity::from_level(&incident.level) >= Some(least));
        let wanted = |at: &usize| {
            let incident = &self.listed[*at].0;
            let is_open = incident.closed_ns.is_none();
            self.parents[*at].is_none() && incident.announces && (all || is_open) && is_grave(incident)
        };
        let tops: Vec<usize> = (0..self.listed.len()).filter(wanted).collect();
        if !json && !tops.is_empty() {
            writeln!(out, "{:<12} {:<20} {:<6} {:<13} {:>6} WHAT, WHOSE", "ID", "SINCE", "STATE", "LEVEL", "EVENTS")?;
        }
        for &top in &tops {
            if json {
                writeln!(out, "{}", printable_json(&self.object(top).to_string()))?;
            } else {
                self.tree(out, top, 0)?;
            }
        }
        Ok(tops.len())
    }

    fn tree(&self, out: &mut impl Write, at: usize, depth: usize) -> io::Result<()> {
        let (it, members) = &self.listed[at];
        let state = if it.closed_ns.is_some() { "closed" } else { "open" };
        let what = format!("{}{} {}", "  ".repeat(depth), it.title, whose(it));
        let (id, since, count) = (&it.id.to_string()[..12], shown_time(it.opened_ns), members.len());
        writeln!(out, "{id} {since:<20} {state:<6} {:<13} {count:>6} {}", it.level, printable(what.trim_end()))?;
        if depth >= 8 {
            return Ok(());
        }
        (0..self.listed.len())
            .filter(|below| self.parents[*below] == Some(at))
            .try_for_each(|below| self.tree(out, below, depth + 1))
    }

    /// The incident whose id begins like this.
    ///
    /// # Errors
    /// There is none, or several.
    pub fn find(&self, prefix: &str) -> Result<usize> {
        let prefix = prefix.to_ascii_lowercase();
        let mut found = (0..self.listed.len()).filter(|at| self.listed[*at].0.id.to_string().starts_with(&prefix));
        match (found.next().filter(|_| !prefix.is_empty()), found.next()) {
            (Some(at), None) => Ok(at),
            (first, _) => {
                let cause = if first.is_some() { "several begin like this" } else { "there is none with this id" };
                Err(Error::failed("find", format!("incident {prefix}"), cause)
                    .way_out("`ringtap alarms list --incidents --all` shows the ids"))
            }
        }
    }

    /// One incident with the timeline of its members and of those beneath it; events are read from the log in `folder`.
    ///
    /// # Errors
    /// The log can't be read; within: `out` takes no more.
    pub fn show(&self, out: &mut impl Write, folder: &Path, at: usize, json: bool) -> Result<io::Result<()>> {
        let rows = self.timeline(at);
        let texts = events(folder, &rows)?;
        Ok(self.print(out, at, &rows, &texts, json))
    }

    fn print(
        &self,
        out: &mut impl Write,
        at: usize,
        rows: &[(usize, MemberRow)],
        texts: &HashMap<(i64, Identity), Event>,
        json: bool,
    ) -> io::Result<()> {
        let it = &self.listed[at].0;
        let find = |row: &MemberRow| texts.get(&(row.time_ns, row.identity));
        if json {
            let mut object = self.object(at);
            let members = rows.iter().map(|(of, row)| {
                let mut member = self.member(row);
                member["incident"] = self.listed[*of].0.id.to_string().into();
                member["content"] = find(row).map_or(Json::Null, |event| event.content().into_owned());
                member
            });
            object["members"] = members.collect();
            return writeln!(out, "{}", printable_json(&object.to_string()));
        }
        self.tree(out, at, 0)?;
        let doubt = match (it.order_proven, it.timespan_proven) {
            (true, true) => "",
            (false, _) => "; the clocks do not prove the order",
            (true, false) => "; the clocks do not prove that it lies within the timespan",
        };
        let closed = it.closed_ns.map_or_else(|| "still open".to_owned(), |at| format!("closed {}", shown_time(at)));
        let late = if it.late { "; found late" } else { "" };
        let lacks = if it.incomplete { "; events may be missing" } else { "" };
        writeln!(
            out,
            "id {}, rule {}, {closed}, {} matches{doubt}{late}{lacks}",
            it.id,
            printable(&it.rule),
            it.matches
        )?;
        let start = rows.first().map_or(0, |(_, row)| row.time_ns);
        for (of, row) in rows {
            let since = shown_span(row.time_ns.saturating_sub(start));
            let text = find(row).map_or_else(|| "no longer in the log".to_owned(), |event| shown(&event.line()));
            let sensor = self.sensors.get(&row.identity.sensor).map_or("", String::as_str);
            let rule = &self.listed[*of].0.rule;
            let step = format!("{rule} {}", row.step + 1);
            writeln!(
                out,
                "  {} +{since:<10} {:<24} {}: {text}",
                shown_time(row.time_ns),
                printable(&step),
                printable(sensor)
            )?;
        }
        out.flush()
    }

    /// The members of an incident and of those beneath it, each event once, in the order of time.
    fn timeline(&self, at: usize) -> Vec<(usize, MemberRow)> {
        let places: HashMap<IncidentId, usize> =
            self.listed.iter().enumerate().map(|(at, (it, _))| (it.id, at)).collect();
        let (mut rows, mut todo, mut done) = (Vec::new(), vec![at], vec![at]);
        while let Some(at) = todo.pop() {
            for row in &self.listed[at].1 {
                match row.via.and_then(|via| places.get(&via)) {
                    // Its own members say more than that it was hit.
                    Some(&below) => {
                        if !done.contains(&below) {
                            done.push(below);
                            todo.push(below);
                        }
                    }
                    None => rows.push((at, *row)),
                }
            }
        }
        rows.sort_by_key(|(of, row)| (row.time_ns, *row, *of));
        rows
    }

    /// The events of an incident and of those beneath it, as far as the log in `folder` still has them.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn events(&self, folder: &Path, at: usize) -> Result<Vec<Event>> {
        Ok(events(folder, &self.timeline(at))?.into_values().collect())
    }

    /// Every incident with its members, one JSON object a line.
    ///
    /// # Errors
    /// `out` takes no more.
    pub fn export(&self, out: &mut impl Write) -> io::Result<()> {
        (0..self.listed.len()).try_for_each(|at| writeln!(out, "{}", printable_json(&self.object(at).to_string())))?;
        out.flush()
    }

    fn object(&self, at: usize) -> Json {
        let (it, members) = &self.listed[at];
        json!({
            "id": it.id.to_string(), "rule": it.rule, "title": it.title, "level": it.level, "key": it.key,
            "announces": it.announces, "opened_ns": it.opened_ns, "start_ns": it.start_ns, "closed_ns": it.closed_ns,
            "order_proven": it.order_proven, "timespan_proven": it.timespan_proven, "late": it.late,
            "incomplete": it.incomplete, "matches": it.matches,
            "beneath": self.parents[at].map(|above| self.listed[above].0.id.to_string()),
            "members": members.iter().map(|row| self.member(row)).collect::<Vec<_>>(),
        })
    }

    fn member(&self, row: &MemberRow) -> Json {
        let mut object = event(&row.identity, &self.sensors);
        object.insert("time_ns".into(), row.time_ns.into());
        object.insert("step".into(), (row.step + 1).into());
        object.insert("via".into(), row.via.map(|via| via.to_string()).into());
        object.into()
    }
}

/// The names and values of an incident's key.
pub(crate) fn whose(it: &Incident) -> String {
    let keys = it.key.iter().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
    keys.collect::<Vec<_>>().join(" ")
}

/// The events of a timeline, as far as the log still has them. It is read until all are found.
pub(crate) fn events(folder: &Path, rows: &[(usize, MemberRow)]) -> Result<HashMap<(i64, Identity), Event>> {
    let mut wanted: HashMap<(i64, Identity), Option<Event>> =
        rows.iter().map(|(_, row)| ((row.time_ns, row.identity), None)).collect();
    let mut missing = wanted.len();
    if missing == 0 {
        return Ok(HashMap::new());
    }
    for (_, record) in log::read_beside(folder)? {
        if let Record::Event { event, .. } = record
            && let Some(place) = wanted.get_mut(&(event.mark.time_ns, event.mark.identity))
        {
            missing -= usize::from(place.is_none());
            *place = Some(event);
            if missing == 0 {
                break;
            }
        }
    }
    Ok(wanted.into_iter().filter_map(|(key, event)| Some((key, event?))).collect())
}

pub(crate) fn shown(line: &str) -> String {
    let whole = printable(line);
    let mut text: String = whole.chars().take(SHOWN).collect();
    if text.len() < whole.len() {
        text.push('…');
    }
    text
}

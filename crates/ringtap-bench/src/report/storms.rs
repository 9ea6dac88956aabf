//! Robustness: what was lost while storms of disk, fork, page-fault and timer work ran beside (\[1] §7.2.5, Table 7.7).

use std::collections::BTreeMap;

use crate::book::{Book, Sample, Topology};

use super::look::Looks;
use super::number::{NONE, count, percent_text, plain};
use super::plot::Axis;
use super::rows::{Dot, Row, Rows};
use super::scale::Kind;
use super::spread::{Spread, percent};
use super::table::Table;
use super::{Drawing, Figure, Section, topology_name};

fn samples(book: &Book, topology: Topology) -> impl Iterator<Item = &Sample> {
    book.samples.iter().filter(move |sample| sample.study == "storms" && sample.topology == topology)
}

/// The storm, and whether events were processed meanwhile.
fn condition(sample: &Sample) -> String {
    let storm = sample.beside.as_deref().unwrap_or("no storm");
    if sample.load_ns > 0.0 { format!("{storm}, with added load") } else { storm.into() }
}

/// Runs of one receiver by condition.
fn by_condition<'a>(samples: impl Iterator<Item = &'a Sample>, receiver: &str) -> BTreeMap<String, Vec<&'a Sample>> {
    let mut conditions: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
    for sample in samples.filter(|sample| sample.receiver == receiver) {
        conditions.entry(condition(sample)).or_default().push(sample);
    }
    conditions
}

fn lost_percent(sample: &Sample) -> Option<f64> {
    percent(sample.lost, sample.sent)
}

/// `8 of 8`, or how many and the worst loss.
pub fn verdict(book: &Book, receiver: &str, topology: Topology) -> String {
    let storms = samples(book, topology).filter(|sample| sample.beside.is_some());
    let conditions = by_condition(storms, receiver);
    if conditions.is_empty() {
        return NONE.into();
    }
    let passed = conditions.values().filter(|samples| samples.iter().all(|sample| sample.lost == 0)).count();
    let verdict = format!("{passed} of {}", conditions.len());
    match Spread::of(conditions.values().flatten().filter_map(|sample| lost_percent(sample))) {
        Some(lost) if lost.max > 0.0 => format!("{verdict}; worst {} lost", percent_text(lost.max)),
        _ => verdict,
    }
}

/// The table of passes and losses, and the losses drawn where there are any.
pub fn section(book: &Book, looks: &Looks, topology: Topology) -> Section {
    let name = topology_name(topology);
    let mut section = Section::new(format!("{name}-storms"), format!("{name}: storms"));
    let mut kinds: Vec<String> = samples(book, topology).map(condition).collect();
    kinds.sort();
    kinds.dedup();
    if kinds.is_empty() {
        return section;
    }
    section.text.push(
        "Other work on the machine while packets come at the greatest rate: a receiver passes when its worst round lost \
         nothing ([1] Table 7.7)."
            .into(),
    );
    let mut verdicts = Table::new("Packets lost beside each storm, worst round", ["receiver"]);
    verdicts.head.extend(kinds.iter().cloned());
    let nothing_lost = samples(book, topology).all(|sample| sample.lost == 0);
    let title = if nothing_lost { "Core use" } else { "core use" };
    let mut core_use = Table::new(format!("{title} beside each storm, % of one core"), ["receiver"]);
    core_use.head.extend(kinds.iter().cloned());
    let mut rows = Vec::new();
    for receiver in looks.names() {
        let conditions = by_condition(samples(book, topology), receiver);
        if conditions.is_empty() {
            continue;
        }
        let of = |kind: &String| conditions.get(kind).map(Vec::as_slice).unwrap_or_default();
        verdicts
            .rows
            .push([receiver.clone()].into_iter().chain(kinds.iter().map(|kind| worst_loss(of(kind)))).collect());
        let uses = |kind| Spread::or_none(Spread::of(of(kind).iter().map(|sample| sample.core_use_percent)), plain);
        core_use.rows.push([receiver.clone()].into_iter().chain(kinds.iter().map(uses)).collect());
        let dot = |(kind, samples): (usize, &[&Sample])| {
            let value = Spread::of(samples.iter().filter_map(|sample| lost_percent(sample)))?;
            Some(Dot { kind, value, at_least: false })
        };
        let dots: Vec<Dot> = kinds.iter().map(of).enumerate().filter_map(dot).collect();
        if !dots.is_empty() {
            rows.push(Row { name: receiver.clone(), look: looks.look(receiver), dots });
        }
    }
    section.tables.push(verdicts);
    if nothing_lost {
        // A drawing of nothing says nothing.
        section.tables.push(core_use);
    } else if !rows.is_empty() {
        let x = Axis::new("lost, % of sent", Kind::LogAndZero, plain);
        section.figures.push(Figure {
            id: format!("{name}-storm-loss"),
            title: "Loss beside storms".into(),
            caption: "Share lost while a storm ran; bars reach from the least to the greatest round.".into(),
            drawing: Drawing::Rows(Rows { x, kinds, rows }),
            table: core_use,
        });
    }
    section
}

fn worst_loss(samples: &[&Sample]) -> String {
    match samples.iter().max_by_key(|sample| sample.lost) {
        None => NONE.into(),
        Some(worst) if worst.lost == 0 => "none".into(),
        Some(worst) => {
            format!("{} ({})", count(worst.lost), lost_percent(worst).map_or_else(|| NONE.into(), percent_text))
        }
    }
}

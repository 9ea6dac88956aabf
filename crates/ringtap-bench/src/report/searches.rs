//! What searches found, drawn: capacity, greatest load, least ring beside the buffer memory as run.

use crate::book::{Book, Finding, Topology};

use super::look::Looks;
use super::number::{bytes, or_none, plain, si};
use super::plot::Axis;
use super::rows::{Dot, Row, Rows};
use super::scale::Kind;
use super::spread::Spread;
use super::sweep;
use super::table::Table;
use super::{Drawing, Figure, topology_name};

/// What a search found, one row per receiver.
pub struct Found {
    quantity: &'static str,
    key: &'static str,
    title: &'static str,
    caption: &'static str,
    label: &'static str,
    kind: Kind,
    write: fn(f64) -> String,
}

/// Criterion (i) of \[1] §6.1.
pub const CAPACITY: Found = Found {
    quantity: "no_loss_capacity_pps",
    key: "capacity",
    title: "No-loss capacity",
    caption: "Greatest rate at which every repetition lost nothing, searched in the manner of RFC 2544; an arrow: the generator gave no more ([1] Table 7.2).",
    label: "no-loss capacity, packets/s",
    kind: Kind::Log,
    write: si,
};

/// Criterion (vi) of \[1] §6.1.
pub const GREATEST_LOAD: Found = Found {
    quantity: "greatest_load_percent",
    key: "greatest-load",
    title: "Greatest added load carried without loss",
    caption: "Event processing added to each packet, as a share of the core, until packets were lost ([1] Table 7.6).",
    label: "added load, % of one core",
    kind: Kind::Linear,
    write: plain,
};

fn findings<'a>(book: &'a Book, topology: Topology, quantity: &str) -> Vec<&'a Finding> {
    let of = |finding: &&Finding| finding.topology == topology && finding.quantity == quantity;
    book.findings.iter().filter(of).collect()
}

/// The finding's median with the extremes of its repetitions.
fn spread(finding: &Finding) -> Option<Spread> {
    let around = Spread::of(finding.values.iter().copied().chain([finding.value]))?;
    let rounds = finding.values.len().max(1);
    finding.value.is_finite().then_some(Spread { median: finding.value, rounds, ..around })
}

/// One row per receiver with such a finding.
pub fn found(book: &Book, looks: &Looks, topology: Topology, what: &Found) -> Option<Figure> {
    let findings = findings(book, topology, what.quantity);
    let mut table = Table::new(what.label, ["receiver", "median (least–greatest)", "repetitions", "how"]);
    let mut rows = Vec::new();
    for receiver in looks.names() {
        for finding in findings.iter().filter(|finding| finding.receiver == *receiver) {
            let Some(value) = spread(finding) else { continue };
            let written = if finding.at_least { "≥ " } else { "" }.to_owned() + &value.text(what.write);
            table.rows.push(vec![receiver.clone(), written, value.rounds.to_string(), finding.note.clone()]);
            let dots = vec![Dot { kind: 0, value, at_least: finding.at_least }];
            rows.push(Row { name: receiver.clone(), look: looks.look(receiver), dots });
        }
    }
    let including = (what.kind == Kind::Linear).then_some((0.0, 100.0));
    let x = Axis { including, ..Axis::new(what.label, what.kind, what.write) };
    (!rows.is_empty()).then(|| Figure {
        id: format!("{}-{}", topology_name(topology), what.key),
        title: what.title.into(),
        caption: what.caption.into(),
        drawing: Drawing::Rows(Rows { x, kinds: vec![what.title.into()], rows }),
        table,
    })
}

/// Buffer memory as it was set, and the least that lost nothing.
pub fn memory(book: &Book, looks: &Looks, topology: Topology) -> Option<Figure> {
    let samples = sweep::samples(book, topology);
    let rate = sweep::reference_rate(&samples);
    let least = findings(book, topology, "least_ring_bytes");
    let slots = findings(book, topology, "least_ring_slots");
    let mut table =
        Table::new("buffer memory", ["receiver", "as run", "ring, slots", "least ring without loss", "slots"]);
    let mut rows = Vec::new();
    for receiver in looks.names() {
        let own = samples.iter().filter(|sample| sample.receiver == *receiver && Some(sample.offered_pps) == rate);
        let set = Spread::of(own.clone().filter_map(|sample| sample.memory_bytes).map(|bytes| bytes as f64));
        let ring = Spread::of(own.filter_map(|sample| sample.ring_slots).map(|slots| slots as f64));
        let of = |findings: &[&Finding]| {
            findings.iter().find(|finding| finding.receiver == *receiver).and_then(|finding| spread(finding))
        };
        let (least, slots) = (of(&least), of(&slots));
        let dots = [set, least].into_iter().enumerate();
        let dots: Vec<Dot> =
            dots.filter_map(|(kind, value)| Some(Dot { kind, value: value?, at_least: false })).collect();
        if dots.is_empty() {
            continue;
        }
        table.rows.push(vec![
            receiver.clone(),
            Spread::or_none(set, bytes),
            Spread::or_none(ring, plain),
            Spread::or_none(least, bytes),
            Spread::or_none(slots, plain),
        ]);
        rows.push(Row { name: receiver.clone(), look: looks.look(receiver), dots });
    }
    let x = Axis::new("buffer memory, bytes", Kind::Log2, bytes);
    (!rows.is_empty()).then(|| Figure {
        id: format!("{}-memory", topology_name(topology)),
        title: "Buffer memory".into(),
        caption: format!("Rings with their frames and socket buffers at {} packets/s, as each receiver was set, and the least ring that lost nothing ([1] Table 7.5).", or_none(rate, si)),
        drawing: Drawing::Rows(Rows { x, kinds: vec!["as run".into(), "least ring without loss".into()], rows }),
        table,
    })
}

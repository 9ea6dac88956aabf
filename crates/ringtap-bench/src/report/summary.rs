//! The seven criteria of \[1] §6.1, one table per topology, receivers as rows.

use crate::book::{Book, Delays, Finding, Sample, Topology};

use super::look::Looks;
use super::number::{NONE, bytes, or_none, percent_text, plain, si};
use super::spread::{Spread, percent};
use super::table::Table;
use super::{Section, storms, sweep, topology_name};

/// The tables.
pub fn section(book: &Book, looks: &Looks) -> Section {
    let mut section = Section::new("summary", "Seven criteria");
    for topology in [Topology::Nic, Topology::Host] {
        let table = table(book, looks, topology);
        if !table.rows.is_empty() {
            section.tables.push(table);
        }
    }
    section.text = vec![
        "nic: the kernel's receive work (NAPI) runs on the generator's core, which so stands for the card's DMA engine; what is left on the \
         receiver's core is the receiver's own cost. host: NAPI is a thread on the receiver's core, so that the whole cost of receiving lies on one core."
            .into(),
        "Medians over rounds, in brackets least and greatest round; the worst latency is that of all rounds. ≥: the search ended at the generator's limit.".into(),
    ];
    section
}

fn table(book: &Book, looks: &Looks, topology: Topology) -> Table {
    let samples = sweep::samples(book, topology);
    let rate = sweep::reference_rate(&samples);
    let at = or_none(rate, si);
    let mut table = Table::new(
        format!("{}: the seven criteria of capture", topology_name(topology)),
        [
            "receiver",
            "no-loss capacity, packets/s",
            "delivered at the greatest rate; lost",
            &format!("core use at {at}, %"),
            &format!("delivery latency at {at}, µs: p50 / p99 / p99.9 / worst"),
            "buffer memory; least ring without loss",
            "greatest added load, %",
            "storms without loss",
        ],
    );
    for receiver in looks.names() {
        let own: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.receiver == *receiver).collect();
        let at_rate: Vec<&Sample> = own.iter().copied().filter(|sample| Some(sample.offered_pps) == rate).collect();
        let found = |quantity: &str, write: fn(f64) -> String| finding(book, receiver, topology, quantity, write);
        let row = vec![
            receiver.clone(),
            found("no_loss_capacity_pps", si),
            beyond(&own),
            Spread::or_none(median(&at_rate, |sample| Some(sample.core_use_percent)), plain),
            delivery(&at_rate),
            memory(if at_rate.is_empty() { &own } else { &at_rate }, &found("least_ring_bytes", bytes)),
            found("greatest_load_percent", plain),
            storms::verdict(book, receiver, topology),
        ];
        if row[1..].iter().any(|cell| cell != NONE) {
            table.rows.push(row);
        }
    }
    table
}

fn median(samples: &[&Sample], value: impl Fn(&Sample) -> Option<f64>) -> Option<Spread> {
    Spread::of(samples.iter().filter_map(|sample| value(sample)))
}

/// At the receiver's greatest rate: `816 k of 1.5 M; 45.5 %`.
fn beyond(samples: &[&Sample]) -> String {
    let greatest = samples.iter().map(|sample| sample.offered_pps).fold(f64::NEG_INFINITY, f64::max);
    let there: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.offered_pps == greatest).collect();
    let lost = median(&there, |sample| percent(sample.lost, sample.sent));
    match (median(&there, sweep::delivered_pps), lost) {
        (Some(delivered), Some(lost)) => {
            format!("{} of {}; {}", si(delivered.median), si(greatest), lost.text(percent_text))
        }
        _ => NONE.into(),
    }
}

/// Medians of the quantiles, and the worst of all rounds.
fn delivery(samples: &[&Sample]) -> String {
    let of = |value: fn(&Delays) -> f64| median(samples, |sample| sample.delivery.as_ref().map(value));
    let Some(worst) = of(|delays| delays.max) else { return NONE.into() };
    let quantiles: [fn(&Delays) -> f64; 3] = [|delays| delays.p50, |delays| delays.p99, |delays| delays.p999];
    let quantiles = quantiles.map(|value| or_none(of(value), |spread| plain(spread.median)));
    format!("{} / {}", quantiles.join(" / "), plain(worst.max))
}

/// As it was set, and what a search found to be enough.
fn memory(samples: &[&Sample], least: &str) -> String {
    let set = median(samples, |sample| sample.memory_bytes.map(|bytes| bytes as f64));
    match (set, least) {
        (None, NONE) => NONE.into(),
        (set, NONE) => or_none(set, |set| bytes(set.median)),
        (set, least) => format!("{}; {least}", or_none(set, |set| bytes(set.median))),
    }
}

/// Its median; the section of findings has each repetition.
fn finding(book: &Book, receiver: &str, topology: Topology, quantity: &str, write: fn(f64) -> String) -> String {
    let of = |finding: &&Finding| {
        finding.receiver == receiver
            && finding.topology == topology
            && finding.quantity == quantity
            && finding.value.is_finite()
    };
    or_none(book.findings.iter().find(of), |finding| {
        let value = write(finding.value);
        if finding.at_least { format!("≥ {value}") } else { value }
    })
}

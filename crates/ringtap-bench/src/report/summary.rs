//! The seven criteria of 000 §6.1, one table per topology, receivers as rows.

use crate::book::{Book, Finding, Sample, Topology};

use super::look::Looks;
use super::number::{NONE, bytes, or_none, plain, si};
use super::spread::{Spread, percent, percent_text};
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
        "Medians over rounds, in brackets least and greatest round. ≥: the search ended at the generator's limit.".into(),
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
            "at the greatest rate: delivered, packets/s",
            "lost there",
            &format!("core use at {at}, %"),
            &format!("delivery at {at}, µs: p50"),
            "p99",
            "p99.9",
            "worst",
            "buffer memory",
            "least ring without loss",
            "greatest added load, % of the core",
            "robustness: storms without loss",
        ],
    );
    for receiver in looks.names() {
        let own: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.receiver == *receiver).collect();
        let at_rate: Vec<&Sample> = own.iter().copied().filter(|sample| Some(sample.offered_pps) == rate).collect();
        let greatest = own.iter().map(|sample| sample.offered_pps).fold(f64::NEG_INFINITY, f64::max);
        let beyond: Vec<&Sample> = own.iter().copied().filter(|sample| sample.offered_pps == greatest).collect();
        let median = |samples: &[&Sample], value: &dyn Fn(&Sample) -> Option<f64>| {
            Spread::of(samples.iter().filter_map(|sample| value(sample)))
        };
        let delay = |value: fn(&crate::book::Delays) -> f64| {
            let spread = median(&at_rate, &|sample| sample.delivery.as_ref().map(value));
            or_none(spread, |spread| plain(spread.median))
        };
        let worst = median(&at_rate, &|sample| sample.delivery.as_ref().map(|delays| delays.max));
        let memory = median(if at_rate.is_empty() { &own } else { &at_rate }, &|sample| {
            sample.memory_bytes.map(|bytes| bytes as f64)
        });
        let found = |quantity: &str, write: fn(f64) -> String| finding(book, receiver, topology, quantity, write);
        let row = vec![
            receiver.clone(),
            found("no_loss_capacity_pps", si),
            match median(&beyond, &sweep::delivered_pps) {
                Some(delivered) => format!("{} of {}", si(delivered.median), si(greatest)),
                None => NONE.into(),
            },
            or_none(median(&beyond, &|sample| percent(sample.lost, sample.sent)), |lost| percent_text(lost.median)),
            Spread::or_none(median(&at_rate, &|sample| Some(sample.core_use_percent)), plain),
            delay(|delays| delays.p50),
            delay(|delays| delays.p99),
            delay(|delays| delays.p999),
            or_none(worst, |worst| plain(worst.max)),
            or_none(memory, |memory| bytes(memory.median)),
            found("least_ring_bytes", bytes),
            found("greatest_load_percent", plain),
            storms::verdict(book, receiver, topology),
        ];
        if row[1..].iter().any(|cell| cell != NONE) {
            table.rows.push(row);
        }
    }
    table
}

fn finding(book: &Book, receiver: &str, topology: Topology, quantity: &str, write: fn(f64) -> String) -> String {
    let of = |finding: &&Finding| {
        finding.receiver == receiver
            && finding.topology == topology
            && finding.quantity == quantity
            && finding.value.is_finite()
    };
    or_none(book.findings.iter().find(of), |finding| {
        let spread = Spread::of(finding.values.iter().copied()).filter(|spread| spread.max > spread.min);
        let value = match spread {
            Some(spread) => format!("{} ({}–{})", write(finding.value), write(spread.min), write(spread.max)),
            None => write(finding.value),
        };
        if finding.at_least { format!("≥ {value}") } else { value }
    })
}

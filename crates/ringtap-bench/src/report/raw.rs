//! Everything else as it is: what searches found in every repetition, what is missing, all samples.

use crate::book::{Book, Delays, Sample};

use super::number::{NONE, bytes, count, or_none, plain, si, whole};
use super::table::Table;
use super::{Section, topology_name};

/// The section that a record leaves to `bench.json`.
pub const SECTION: &str = "samples";

/// Each finding with each repetition.
pub fn findings(book: &Book) -> Section {
    let mut section = Section::new("findings", "Findings");
    let mut table = Table::new(
        "What searches found, with every repetition",
        ["receiver", "topology", "study", "quantity", "median", "repetitions", "how, and what limits it"],
    );
    for finding in &book.findings {
        let write = write(&finding.quantity);
        let repetitions: Vec<String> = finding.values.iter().map(|value| write(*value)).collect();
        table.rows.push(vec![
            finding.receiver.clone(),
            topology_name(finding.topology).into(),
            finding.study.clone(),
            finding.quantity.clone(),
            if finding.at_least { "≥ " } else { "" }.to_owned() + &write(finding.value),
            repetitions.join("; "),
            finding.note.clone(),
        ]);
    }
    if !table.rows.is_empty() {
        section.tables.push(table);
    }
    section
}

/// By the unit at the end of a quantity's name.
fn write(quantity: &str) -> fn(f64) -> String {
    // "held_pps (v2c)": what is in brackets is no unit.
    let quantity = quantity.split(" (").next().unwrap_or(quantity);
    if quantity.ends_with("_pps") {
        si
    } else if quantity.ends_with("_bytes") {
        bytes
    } else {
        plain
    }
}

/// What could not be had.
pub fn missing(book: &Book) -> Section {
    let mut section = Section::new("missing", "What is missing");
    let mut table = Table::new("Asked for, and not here", ["what", "why, and how to get it"]);
    table.rows = book.missing.iter().map(|missing| vec![missing.what.clone(), missing.why.clone()]).collect();
    if !table.rows.is_empty() {
        section.tables.push(table);
    }
    section
}

const HEAD: [&str; 24] = [
    "receiver",
    "study",
    "topology",
    "round",
    "bytes",
    "arrivals",
    "offered, pps",
    "reached, pps",
    "sent",
    "received",
    "lost",
    "unaccounted",
    "twice / reordered",
    "drops by cause",
    "core use, %",
    "steal, %",
    "delivery p50 / p99 / p99.9 / worst, µs",
    "arrival p99 / worst, µs",
    "polls",
    "wakes: timer / interrupt",
    "mode switches",
    "core interrupts",
    "load, ns",
    "beside",
];

/// Every run.
pub fn samples(book: &Book) -> Section {
    let mut section = Section::new(SECTION, "All samples");
    let mut table = Table::new(format!("{} runs, in the order they were made", count(book.samples.len() as u64)), HEAD);
    table.rows = book.samples.iter().map(row).collect();
    if !table.rows.is_empty() {
        section.folded.push(table);
    }
    section
}

fn row(sample: &Sample) -> Vec<String> {
    let delays = |delays: &Option<Delays>, values: fn(&Delays) -> Vec<f64>| match delays {
        None => NONE.into(),
        Some(delays) => values(delays).into_iter().map(plain).collect::<Vec<_>>().join(" / "),
    };
    let drops: Vec<String> = sample
        .drops
        .iter()
        .filter(|(_, packets)| **packets != Some(0))
        .map(|(cause, packets)| format!("{cause} {}", or_none(*packets, count)))
        .collect();
    vec![
        sample.receiver.clone(),
        sample.study.clone(),
        topology_name(sample.topology).into(),
        sample.round.to_string(),
        sample.frame_bytes.to_string(),
        sample.arrivals.clone(),
        whole(sample.offered_pps),
        whole(sample.sent_pps),
        sample.sent.to_string(),
        sample.received.to_string(),
        sample.lost.to_string(),
        or_none(sample.unaccounted, |packets| packets.to_string()),
        format!("{} / {}", sample.duplicates, sample.reordered),
        drops.join(", "),
        plain(sample.core_use_percent),
        or_none(sample.steal_percent, plain),
        delays(&sample.delivery, |delays| vec![delays.p50, delays.p99, delays.p999, delays.max]),
        delays(&sample.arrival, |delays| vec![delays.p99, delays.max]),
        or_none(sample.polls, |polls| polls.to_string()),
        format!(
            "{} / {}",
            or_none(sample.timer_wakes, |wakes| wakes.to_string()),
            or_none(sample.interrupt_wakes, |wakes| wakes.to_string())
        ),
        or_none(sample.mode_switches, |switches| switches.to_string()),
        or_none(sample.core_interrupts, |interrupts| interrupts.to_string()),
        plain(sample.load_ns),
        sample.beside.clone().unwrap_or_default(),
    ]
}

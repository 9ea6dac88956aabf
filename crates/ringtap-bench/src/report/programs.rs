//! Sensor, station and clients of libpcap beside their peers: one table of medians each, and the rates without loss.

use std::collections::{BTreeMap, BTreeSet};

use crate::book::{Book, Delays, Sample};

use super::number::{NONE, bytes, count, or_none, percent_text, plain, si};
use super::spread::{Spread, percent};
use super::table::Table;
use super::{Section, topology_name};

/// Study, heading, what its workload is.
const STUDIES: [(&str, &str, &str); 3] = [
    ("sensor", "The sensor beside its peers", "rules"),
    ("station", "The station beside its peers", "messages"),
    ("pcap", "Clients of libpcap on both libraries", "client"),
];
/// Loss that counts as none in the second column of rates, percent.
const TOLERANCE_PERCENT: f64 = 0.1;

/// One section for each study that has samples.
pub fn sections(book: &Book) -> Vec<Section> {
    STUDIES.into_iter().map(|(study, title, workload)| section(book, study, title, workload)).collect()
}

/// Runs of one receiver under one traffic.
type Points<'b> = BTreeMap<(&'b str, &'static str, &'b str, u64), Vec<&'b Sample>>;

fn section(book: &Book, study: &str, title: &str, workload: &str) -> Section {
    let mut section = Section::new(format!("programs-{study}"), title);
    let mut points: Points<'_> = BTreeMap::new();
    for sample in book.samples.iter().filter(|sample| sample.study == study && sample.offered_pps >= 0.0) {
        // Bits of positive floats are in the order of the floats.
        let rate = (sample.offered_pps + 0.0).to_bits();
        let key = (sample.workload.as_str(), topology_name(sample.topology), sample.receiver.as_str(), rate);
        points.entry(key).or_default().push(sample);
    }
    if points.is_empty() {
        return section;
    }
    section.text.push(
        "Medians over runs, in brackets least and greatest; losses are added over all runs of a point. Received is what a program \
         handled, by numbers in the packets where it hands them out, else by its own count."
            .into(),
    );
    section.tables.push(medians(&points, workload));
    section.tables.push(without_loss(&points, workload));
    section
}

fn medians(points: &Points<'_>, workload: &str) -> Table {
    let measures: BTreeSet<&String> = points.values().flatten().flat_map(|sample| sample.measures.keys()).collect();
    let mut table = Table::new(
        "Every point",
        [
            "receiver",
            workload,
            "topology",
            "packets/s asked",
            "packets/s sent",
            "runs",
            "lost, of all sent",
            "lost, worst run",
            "says: dropped",
            "core use, %",
            "steal, worst run, %",
            "p99 / worst delay, µs",
        ],
    );
    table.head.extend(measures.iter().map(|name| name.replace('_', " ")));
    for ((work, topology, receiver, rate), samples) in points {
        let of = |value: &dyn Fn(&Sample) -> Option<f64>| Spread::of(samples.iter().filter_map(|sample| value(sample)));
        let added =
            |value: fn(&Sample) -> u64| samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(value(sample)));
        let (sent, lost) = (added(|sample| sample.sent), added(|sample| sample.lost));
        let claims: Option<u64> = samples.iter().filter_map(|sample| sample.claims.dropped).reduce(u64::saturating_add);
        let delay = |value: fn(&Delays) -> f64| of(&|sample| sample.arrival.as_ref().map(value));
        let worst_us = delay(|delays| delays.max).map(|spread| spread.max);
        let share = percent(lost, sent).map_or_else(String::new, |share| format!(" ({})", percent_text(share)));
        let mut row = vec![
            (*receiver).to_owned(),
            (*work).to_owned(),
            (*topology).to_owned(),
            si(f64::from_bits(*rate)),
            or_none(of(&|sample| Some(sample.sent_pps)), |spread| si(spread.median)),
            samples.len().to_string(),
            format!("{}{share}", count(lost)),
            count(samples.iter().map(|sample| sample.lost).max().unwrap_or_default()),
            or_none(claims, count),
            Spread::or_none(of(&|sample| Some(sample.core_use_percent)), plain),
            or_none(of(&|sample| sample.steal_percent), |spread| plain(spread.max)),
            match (delay(|delays| delays.p99), worst_us) {
                (Some(p99), Some(worst)) => format!("{} / {}", plain(p99.median), plain(worst)),
                _ => NONE.into(),
            },
        ];
        row.extend(measures.iter().map(|name| {
            let write = if name.ends_with("_bytes") { bytes } else { plain };
            Spread::or_none(of(&|sample| sample.measures.get(*name).copied()), write)
        }));
        table.rows.push(row);
    }
    table
}

/// The median run of a rate decides; a rate above one at which more was lost does not count.
fn without_loss(points: &Points<'_>, workload: &str) -> Table {
    let mut table = Table::new(
        "Greatest rate sent without a loss, and with at most 0.1 % lost, in the median run, packets/s",
        ["receiver", workload, "topology", "no loss", "at most 0.1 %"],
    );
    let mut seen = BTreeSet::new();
    for (work, topology, receiver, _) in points.keys() {
        if !seen.insert((work, topology, receiver)) {
            continue;
        }
        let best = [0.0, TOLERANCE_PERCENT].map(|tolerance| {
            let own = points.iter().filter(|((w, t, r, _), _)| (w, t, r) == (work, topology, receiver));
            let kept = own.map(|(_, samples)| samples).take_while(|samples| {
                let lost = Spread::of(samples.iter().filter_map(|sample| percent(sample.lost, sample.sent)));
                lost.is_some_and(|lost| lost.median <= tolerance)
            });
            kept.filter_map(|samples| Spread::of(samples.iter().map(|sample| sample.sent_pps)))
                .map(|spread| spread.median)
                .reduce(f64::max)
        });
        let mut row = vec![(*receiver).to_owned(), (*work).to_owned(), (*topology).to_owned()];
        row.extend(best.map(|pps| or_none(pps, si)));
        table.rows.push(row);
    }
    table
}

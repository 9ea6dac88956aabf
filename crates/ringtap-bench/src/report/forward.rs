//! The forwarder beside its peers: core use and delay at given rates, and the rate without loss, by frame length.

use std::collections::{BTreeMap, BTreeSet};

use crate::book::{Book, Delays, Finding, Sample};
use crate::programs::forward::{CAPACITY, STUDY};

use super::number::{NONE, count, or_none, plain, si};
use super::spread::Spread;
use super::table::Table;
use super::{Section, topology_name};

/// What is compared with: it spins, so that its core use is a core.
const SPINS: &str = "testpmd-io af_packet";

/// Runs of one forwarder with one traffic: workload, frame length, rate, name.
type Points<'b> = BTreeMap<(&'b str, usize, u64, &'b str), Vec<&'b Sample>>;

pub fn section(book: &Book) -> Section {
    let mut section = Section::new("forward", "The forwarder beside its peers");
    let mut points: Points<'_> = BTreeMap::new();
    for sample in book.samples.iter().filter(|sample| sample.study == STUDY && sample.offered_pps >= 0.0) {
        let key = (sample.workload.as_str(), sample.frame_bytes, sample.offered_pps.round() as u64, &*sample.receiver);
        points.entry(key).or_default().push(sample);
    }
    let found: Vec<&Finding> = book
        .findings
        .iter()
        .filter(|finding| finding.study == STUDY && finding.quantity.starts_with(CAPACITY))
        .collect();
    if points.is_empty() && found.is_empty() {
        return section;
    }
    section.text.push(
        "Sender, forwarder, far host: what comes by one interface leaves by the other, counted and timed at the far end by numbers and stamps \
         in the frames (the source's setup, [4] §9). testpmd spins, one forwarding core; bridge, mirred and XDP redirect are the kernel's, in \
         the receiving device's NAPI, which in topology host is on the measured core for all. Where both ways are used both generators \
         share a core, and what they reached stands beside what was asked for."
            .into(),
    );
    if !points.is_empty() {
        section.tables.push(at_rates(&points));
    }
    section.tables.extend(capacities(&found));
    section
}

fn at_rates(points: &Points<'_>) -> Table {
    let mut table = Table::new(
        "At given rates: medians, in brackets least and greatest",
        [
            "forwarder",
            "ways",
            "bytes",
            "packets/s asked",
            "sent",
            "lost, all runs",
            "core use, %",
            "× of testpmd io's",
            "delay p50, µs",
            "p99, µs",
            "p99.9, µs",
        ],
    );
    for ((workload, bytes, rate, receiver), samples) in points {
        let of = |value: &dyn Fn(&Sample) -> Option<f64>| Spread::of(samples.iter().filter_map(|sample| value(sample)));
        let used = |samples: &[&Sample]| Spread::of(samples.iter().map(|sample| sample.core_use_percent));
        let spinning = points.get(&(*workload, *bytes, *rate, SPINS)).and_then(|samples| used(samples));
        let ratio = used(samples).zip(spinning).filter(|(_, peer)| peer.median > 0.0);
        let delay =
            |value: fn(&Delays) -> f64| Spread::or_none(of(&|sample| sample.delivery.as_ref().map(value)), plain);
        let lost = samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(sample.lost));
        table.rows.push(vec![
            (*receiver).to_owned(),
            (*workload).to_owned(),
            bytes.to_string(),
            si(*rate as f64),
            or_none(of(&|sample| Some(sample.sent_pps)), |spread| si(spread.median)),
            count(lost),
            Spread::or_none(used(samples), plain),
            or_none(ratio, |(own, peer)| plain(own.median / peer.median)),
            delay(|delays| delays.p50),
            delay(|delays| delays.p99),
            delay(|delays| delays.p999),
        ]);
    }
    table
}

/// A column for each quantity, which names ways and frame length.
fn capacities(found: &[&Finding]) -> Option<Table> {
    let quantities: Vec<&str> = found.iter().fold(Vec::new(), |mut names, finding| {
        if !names.contains(&finding.quantity.as_str()) {
            names.push(&finding.quantity);
        }
        names
    });
    let receivers: BTreeSet<(&str, &str)> =
        found.iter().map(|finding| (finding.receiver.as_str(), topology_name(finding.topology))).collect();
    let mut table = Table::new("Greatest rate without loss, packets/s each way", ["forwarder", "topology"]);
    table.head.extend(quantities.iter().map(|quantity| {
        quantity.trim_start_matches(CAPACITY).trim().trim_start_matches('(').trim_end_matches(')').to_owned()
    }));
    for (receiver, topology) in receivers {
        let mut row = vec![receiver.to_owned(), topology.to_owned()];
        row.extend(quantities.iter().map(|quantity| {
            let of = |finding: &&&Finding| {
                finding.receiver == receiver
                    && topology_name(finding.topology) == topology
                    && finding.quantity == *quantity
            };
            match found.iter().find(of) {
                Some(finding) => format!("{}{}", if finding.at_least { "≥ " } else { "" }, si(finding.value)),
                None => NONE.into(),
            }
        }));
        table.rows.push(row);
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Topology;

    #[test]
    fn each_length_is_compared_with_the_one_that_spins() {
        let sample = |receiver: &str, frame_bytes, core_use_percent| Sample {
            study: STUDY.to_owned(),
            workload: "one way".to_owned(),
            receiver: receiver.to_owned(),
            topology: Topology::Host,
            frame_bytes,
            offered_pps: 148e3,
            core_use_percent,
            ..Sample::default()
        };
        let finding = |receiver: &str, value, at_least| Finding {
            study: STUDY.to_owned(),
            receiver: receiver.to_owned(),
            topology: Topology::Host,
            quantity: format!("{CAPACITY} (one way, 64 B)"),
            value,
            values: vec![value],
            at_least,
            note: String::new(),
        };
        let book = Book {
            samples: vec![sample("ringtap-xdp", 64, 30.0), sample(SPINS, 64, 100.0), sample("ringtap-xdp", 128, 31.0)],
            findings: vec![finding("ringtap-xdp", 8e5, true), finding("bridge", 5e5, false)],
            ..Book::default()
        };
        let section = section(&book);
        let rows = &section.tables[0].rows;
        let ratio = |receiver: &str, bytes: &str| {
            rows.iter().find(|row| row[0] == receiver && row[2] == bytes).map(|row| row[7].clone())
        };
        assert_eq!(ratio("ringtap-xdp", "64").as_deref(), Some("0.3"));
        assert_eq!(ratio("ringtap-xdp", "128").as_deref(), Some(NONE));
        let capacities = &section.tables[1];
        assert_eq!(capacities.head[2], "one way, 64 B");
        assert_eq!(capacities.rows[0][0], "bridge");
        assert!(capacities.rows[1][2].starts_with('≥'), "{capacities:?}");
        assert!(super::section(&Book::default()).is_empty());
    }
}

//! Sensor, station, clients of libpcap and splitter beside their peers: one table of medians each, and the rates without loss.

use std::collections::{BTreeMap, BTreeSet};

use crate::book::{Book, Delays, Sample};

use super::number::{NONE, bytes, count, or_none, percent_text, plain, si};
use super::promises::Seen;
use super::spread::{Spread, percent};
use super::table::Table;
use super::{Section, topology_name};

/// Study, heading, what its workload is.
const STUDIES: [(&str, &str, &str); 5] = [
    ("sensor", "The sensor beside its peers", "rules"),
    ("station", "The station beside its peers", "messages"),
    ("pcap", "Clients of libpcap on both libraries", "client"),
    (SPLIT, "The splitter beside tc mirred", "outputs"),
    ("staged", "Staged attacks: runs", "flooded"),
];
const SPLIT: &str = "split";
/// What the splitter is compared with.
const MIRRED: &str = "tc-mirred";
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
    if study == SPLIT {
        section.tables.push(ratios(&points));
    }
    section.tables.push(without_loss(&points, workload));
    section
}

/// Core use beside that of the kernel's own splitting, of the same traffic.
fn ratios(points: &Points<'_>) -> Table {
    let mut table = Table::new(
        format!("Core use as a share of {MIRRED}'s, of the same traffic"),
        ["receiver", "outputs", "topology", "packets/s", "core use, %", "× of mirred's"],
    );
    for ((work, topology, receiver, rate), samples) in points.iter().filter(|((.., name, _), _)| *name != MIRRED) {
        let used = |samples: &[&Sample]| Spread::of(samples.iter().map(|sample| sample.core_use_percent));
        let peer = points.get(&(*work, *topology, MIRRED, *rate)).and_then(|samples| used(samples));
        let Some((own, peer)) = used(samples).zip(peer).filter(|(_, peer)| peer.median > 0.0) else { continue };
        table.rows.push(vec![
            (*receiver).to_owned(),
            (*work).to_owned(),
            (*topology).to_owned(),
            si(f64::from_bits(*rate)),
            own.text(plain),
            plain(own.median / peer.median),
        ]);
    }
    table
}

/// "148 k packets/s, each to one of two outputs: nothing lost of 10⁷, half of mirred's core", by AF_XDP and, beside it, packet rings.
pub(super) fn split_promises(book: &Book) -> Vec<Seen> {
    const LONG_RUN: u64 = 10_000_000;
    const MOST: f64 = 0.5;
    let long: Vec<&Sample> =
        book.samples.iter().filter(|sample| sample.study == SPLIT && sample.sent >= LONG_RUN).collect();
    let of = |receiver: &str| long.iter().filter(|sample| sample.receiver == receiver).copied().collect::<Vec<_>>();
    let core = |samples: &[&Sample]| Spread::of(samples.iter().map(|sample| sample.core_use_percent));
    let mut seen = Vec::new();
    for (receiver, is_promised) in [("ringtap-xdp", true), ("ringtap-packet", false)] {
        let own = of(receiver);
        let (Some(used), Some(peer)) = (core(&own), core(&of(MIRRED)).filter(|peer| peer.median > 0.0)) else {
            continue;
        };
        let (sent, lost) = own.iter().fold((0_u64, 0_u64), |(sent, lost), sample| {
            (sent.saturating_add(sample.sent), lost.saturating_add(sample.lost))
        });
        let ratio = used.median / peer.median;
        let promise = if is_promised {
            format!("nothing lost of 10⁷, at most {} × of tc mirred's core", plain(MOST))
        } else {
            "nothing lost of 10⁷; the core is stated".to_owned()
        };
        seen.push(Seen {
            promise: format!("{receiver}, each packet to one of two outputs: {promise}"),
            topology: Some(own[0].topology),
            seen: format!(
                "{} of {} lost; {} × ({} against {})",
                count(lost),
                count(sent),
                plain(ratio),
                percent_text(used.median),
                percent_text(peer.median)
            ),
            is_kept: lost == 0 && (!is_promised || ratio <= MOST),
        });
    }
    seen
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

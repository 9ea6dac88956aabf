//! Attacks of two stages under a flood: who finds them within which window, and where the time goes.
//!
//! Owns what of the study's evidence is shown. Pairs of all rounds are added up; quantiles of hops are medians over rounds.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::book::{Book, Delays, Sample};
use crate::programs::staged::{EVIDENCE, STUDY};
use crate::staged::evidence::{Cell, Evidence, TO_FINAL, TO_PROVISIONAL};

use super::distribution::exceedance;
use super::look::{Group, Look, Mark};
use super::number::{NONE, count, percent_text, plain, si};
use super::plot::{Axis, Join, Line, Plot, Size};
use super::promises::Seen;
use super::scale::Kind;
use super::spread::{Point, Spread, percent};
use super::table::Table;
use super::{Drawing, Figure, Section};

/// The rate at which delays are promised and drawn, packets/s to each flooded sensor.
const STANDARD_PPS: f64 = 148e3;
/// Windows of the lines against the flood, µs.
const DRAWN_US: [u64; 2] = [2000, 10_000];
/// From the last packet: to what is told at once; and to what is certain: heartbeat, waiting for gaps and 10 ms.
const PROVISIONAL_US: f64 = 5000.0;
const FINAL_US: f64 = 100_000.0 + 20_000.0 + 10_000.0;

/// How pairs are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Event,
    Arrival,
    Log,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Event => "event time",
            Self::Arrival => "the same alarms by arrival",
            Self::Log => "Suricata and syslog by arrival",
        }
    }

    fn colour(self) -> &'static str {
        ["h0", "w1", "p0"][self as usize]
    }

    fn found(self, cell: &Cell) -> u64 {
        if self == Self::Event { cell.by_event.unwrap_or(0) } else { cell.by_arrival }
    }
}

/// A run with what came of it.
struct Run<'b> {
    sample: &'b Sample,
    evidence: Evidence,
}

impl Run<'_> {
    fn ways(&self) -> &'static [Way] {
        let in_event_time = self.evidence.cells.iter().any(|cell| cell.by_event.is_some());
        if in_event_time { &[Way::Event, Way::Arrival] } else { &[Way::Log] }
    }

    fn condition(&self) -> (&str, u64) {
        // Bits of positive floats are in the order of the floats.
        (&self.sample.workload, (self.sample.offered_pps + 0.0).to_bits())
    }
}

fn runs(book: &Book) -> Vec<Run<'_>> {
    let of = |sample: &'_ Sample| Evidence::deserialize(sample.reported.as_ref()?.get(EVIDENCE)?).ok();
    let own = book.samples.iter().filter(|sample| sample.study == STUDY);
    let own = own.filter(|sample| sample.offered_pps.is_finite() && sample.offered_pps >= 0.0);
    own.filter_map(|sample| Some(Run { sample, evidence: of(sample)? })).collect()
}

/// Of pairs with a gap below the window: found, and sent, in all rounds.
type Counts<'b> = BTreeMap<(&'b str, u64, Way, u64), (u64, u64)>;

fn counts<'b>(runs: &'b [Run<'b>]) -> Counts<'b> {
    let mut counts = Counts::new();
    for run in runs {
        let (workload, flood) = run.condition();
        for way in run.ways() {
            for cell in run.evidence.cells.iter().filter(|cell| cell.gap_us < cell.window_us) {
                let (found, sent) = counts.entry((workload, flood, *way, cell.window_us)).or_default();
                *found = found.saturating_add(way.found(cell));
                *sent = sent.saturating_add(cell.pairs);
            }
        }
    }
    counts
}

/// What is found, when, and what of the promises is kept.
pub fn section(book: &Book) -> Section {
    let mut section = Section::new("staged", "A staged attack under a flood");
    let runs = runs(book);
    if runs.is_empty() {
        return section;
    }
    section.text.push(
        "Pairs of packets with a gap between them, one to each of two sensors behind a splitter, while a flood goes to the first \
         sensor or to both ([2] Fig. 2). A pair is found when a correlator with a rule of that window tells it. In event time that \
         is the distance of the packets at the sensors; by arrival it is the distance of their alarms where they are put together, \
         of the same run. Suricata stands behind the same splitter, and its lines of syslog are joined by their arrival; which \
         packets it handled its log can't say. What the testbed's own wires lost stands apart: a pair lost there never came to a \
         sensor."
            .into(),
    );
    let counts = counts(&runs);
    section.tables.push(missed_table(&counts));
    section.tables.push(ledger_table(&runs));
    section.figures.extend(missed_figure(&counts));
    section.figures.extend(hops_figure(&runs));
    section.folded.push(gaps_table(&runs));
    section
}

fn missed_table(counts: &Counts<'_>) -> Table {
    let mut windows: Vec<u64> = counts.keys().map(|(.., window)| *window).collect();
    windows.sort_unstable();
    windows.dedup();
    let mut table = Table::new(
        "Missed of the pairs whose gap is below the window, by window; losses of packets included",
        ["joined by", "flooded", "packets/s"],
    );
    table.head.extend(windows.iter().map(|window| window_name(*window)));
    let mut rows: Vec<(&str, u64, Way)> =
        counts.keys().map(|(workload, flood, way, _)| (*workload, *flood, *way)).collect();
    rows.dedup();
    for (workload, flood, way) in rows {
        let mut row = vec![way.name().to_owned(), workload.to_owned(), si(f64::from_bits(flood))];
        row.extend(windows.iter().map(|window| match counts.get(&(workload, flood, way, *window)) {
            Some((found, sent)) if found == sent => "none".to_owned(),
            Some((found, sent)) => {
                let missed = sent.saturating_sub(*found);
                format!("{} ({})", count(missed), percent(missed, *sent).map_or_else(|| NONE.into(), percent_text))
            }
            None => NONE.into(),
        }));
        table.rows.push(row);
    }
    table
}

/// What must be found and was not, and what was lost on the way.
fn ledger_table(runs: &[Run<'_>]) -> Table {
    let mut table = Table::new(
        "In event time: pairs that both sensors handled and saw within the window, all windows; from the last packet to what is told, p99, ms",
        [
            "flooded",
            "packets/s",
            "runs",
            "had to be found",
            "missed",
            "packets of pairs not handled",
            "of them lost on a wire",
            "lost on wires in all",
            "provisional",
            "final",
        ],
    );
    let mut points: BTreeMap<(&str, u64), Vec<&Run<'_>>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.ways()[0] == Way::Event) {
        points.entry(run.condition()).or_default().push(run);
    }
    for ((workload, flood), runs) in points {
        let added =
            |of: fn(&Evidence) -> u64| count(runs.iter().map(|run| of(&run.evidence)).fold(0, u64::saturating_add));
        let p99 = |hop: &str| {
            let all = runs.iter().filter_map(|run| run.evidence.hops.get(hop)).map(|delays| delays.p99 / 1e3);
            Spread::or_none(Spread::of(all), plain)
        };
        table.rows.push(vec![
            workload.to_owned(),
            si(f64::from_bits(flood)),
            runs.len().to_string(),
            added(Evidence::due),
            added(Evidence::missed),
            added(|evidence| evidence.not_handled),
            added(|evidence| evidence.lost_on_wires),
            on_wires(&runs),
            p99(TO_PROVISIONAL),
            p99(TO_FINAL),
        ]);
    }
    table
}

/// Packets, of pairs and flood, that the testbed's wires lost; unknown where one run's are.
fn on_wires(runs: &[&Run<'_>]) -> String {
    let all = runs.iter().map(|run| run.evidence.wires.total());
    all.sum::<Option<u64>>().map_or_else(|| NONE.into(), count)
}

fn missed_figure(counts: &Counts<'_>) -> Option<Figure> {
    let (workload, ..) = *counts.keys().next_back()?;
    let mut lines: BTreeMap<(Way, u64), Vec<Point>> = BTreeMap::new();
    for ((of, flood, way, window), (found, sent)) in counts {
        let missed = percent(sent.saturating_sub(*found), *sent).and_then(|missed| Spread::of([missed]));
        if *of == workload && DRAWN_US.contains(window) {
            let points = lines.entry((*way, *window)).or_default();
            points.extend(missed.map(|y| Point { x: f64::from_bits(*flood) / 1e3, y }));
        }
    }
    let mut table = Table::new(
        format!("pairs missed, % of those whose gap is below the window; flooded: {workload}"),
        ["joined by", "window", "kpackets/s: missed"],
    );
    let named: Vec<Line> = lines
        .into_iter()
        .map(|((way, window), points)| {
            let cells: Vec<String> =
                points.iter().map(|point| format!("{}: {}", plain(point.x), plain(point.y.median))).collect();
            table.rows.push(vec![way.name().to_owned(), window_name(window), cells.join(", ")]);
            let place = DRAWN_US.iter().position(|drawn| *drawn == window).unwrap_or(0);
            let group = if way == Way::Event { Group::Hybrid } else { Group::Peer };
            let look = Look { group, colour: way.colour(), mark: Mark::nth(place), dash: ["", "7 3"][place] };
            Line { name: format!("{}, {}", short(way), window_name(window)), look, points, hollow: Vec::new() }
        })
        .collect();
    let plot = Plot {
        x: Axis::new("flood, kpackets/s", Kind::Linear, plain),
        y: Axis { including: Some((0.0, 10.0)), ..Axis::new("pairs missed, %", Kind::Linear, plain) },
        join: Join::Straight,
        lines: named,
        rules: Vec::new(),
        size: Size::REPORT,
    };
    (!plot.is_empty()).then(|| Figure {
        id: "staged-missed".into(),
        title: "Pairs missed against the flood".into(),
        caption: format!("Share of the pairs that should meet within the window and did not, losses included; flooded: {workload} ([2] Fig. 2)."),
        drawing: Drawing::Plot(plot),
        table,
    })
}

fn short(way: Way) -> &'static str {
    match way {
        Way::Event => "event time",
        Way::Arrival => "by arrival",
        Way::Log => "syslog",
    }
}

/// Of the condition with the most flooded sensors at the standard rate, or what comes nearest below it.
fn hops_figure(runs: &[Run<'_>]) -> Option<Figure> {
    let ours = || runs.iter().filter(|run| run.ways()[0] == Way::Event && run.sample.offered_pps <= STANDARD_PPS);
    let flood = ours().map(|run| run.sample.offered_pps).max_by(f64::total_cmp)?;
    let workload = ours().filter(|run| run.sample.offered_pps == flood).map(|run| &run.sample.workload).min()?;
    let chosen: Vec<&Run<'_>> =
        ours().filter(|run| run.sample.offered_pps == flood && run.sample.workload == *workload).collect();
    let mut names: Vec<&String> = chosen.iter().flat_map(|run| run.evidence.hops.keys()).collect();
    // The way's parts first, then what is told.
    names.sort_by_key(|name| (name.starts_with("last"), *name));
    names.dedup();
    let mut table = Table::new(
        format!(
            "parts of the way at {} packets/s (flooded: {workload}), µs, median over rounds; worst of all rounds",
            si(flood)
        ),
        ["part", "pairs", "p50", "p99", "worst"],
    );
    let mut lines = Vec::new();
    for (place, name) in names.into_iter().enumerate() {
        let delays: Vec<&Delays> = chosen.iter().filter_map(|run| run.evidence.hops.get(name)).collect();
        let of = |value: fn(&Delays) -> f64| Spread::of(delays.iter().map(|delays| value(delays)));
        let median = |value| of(value).map_or_else(|| NONE.into(), |spread| plain(spread.median));
        table.rows.push(vec![
            name.clone(),
            count(delays.iter().map(|delays| delays.count).fold(0, u64::saturating_add)),
            median(|delays| delays.p50),
            median(|delays| delays.p99),
            of(|delays| delays.max).map_or_else(|| NONE.into(), |spread| plain(spread.max)),
        ]);
        const COLOURS: [&str; 4] = ["h0", "h1", "h2", "w1"];
        let look = Look {
            group: if name.starts_with("last") { Group::Hybrid } else { Group::Peer },
            colour: COLOURS[place / 2 % COLOURS.len()],
            mark: Mark::nth(place),
            dash: ["", "7 3"][place % 2],
        };
        lines.push(Line { name: name.clone(), look, points: exceedance(&delays), hollow: Vec::new() });
    }
    let plot = Plot {
        x: Axis::new("time, µs", Kind::Log, plain),
        y: Axis::new("share of pairs that took longer", Kind::Log, plain),
        join: Join::Steps,
        lines,
        rules: Vec::new(),
        size: Size::REPORT,
    };
    (!plot.is_empty()).then(|| Figure {
        id: "staged-hops".into(),
        title: format!("Where the time goes, at {} packets/s", si(flood)),
        caption: format!(
            "Share of pairs whose packets or alarms took longer than the abscissa on each part of the way; flooded: {workload}. The final \
             incident waits for the next heartbeat of both sensors."
        ),
        drawing: Drawing::Plot(plot),
        table,
    })
}

fn gaps_table(runs: &[Run<'_>]) -> Table {
    let mut table = Table::new(
        "Every gap and window: pairs found of those sent, all rounds",
        ["joined by", "flooded", "packets/s", "gap", "window", "sent", "handled by both sensors", "found"],
    );
    let mut cells: BTreeMap<_, [Option<u64>; 3]> = BTreeMap::new();
    for run in runs {
        let (workload, flood) = run.condition();
        for (way, cell) in run.ways().iter().flat_map(|way| run.evidence.cells.iter().map(move |cell| (*way, cell))) {
            let sums = cells.entry((workload, flood, way, cell.gap_us, cell.window_us)).or_insert([Some(0); 3]);
            // Earlier books give a log's lines as packets handled.
            let handled = cell.delivered.filter(|_| way != Way::Log);
            for (sum, value) in sums.iter_mut().zip([Some(cell.pairs), handled, Some(way.found(cell))]) {
                *sum = sum.zip(value).map(|(sum, value)| sum.saturating_add(value));
            }
        }
    }
    for ((workload, flood, way, gap, window), sums) in cells {
        let mut row = vec![way.name().to_owned(), workload.to_owned(), si(f64::from_bits(flood))];
        row.extend([window_name(gap), window_name(window)]);
        row.extend(sums.map(|sum| sum.map_or_else(|| NONE.into(), count)));
        table.rows.push(row);
    }
    table
}

fn window_name(us: u64) -> String {
    if us >= 1000 || us == 0 { format!("{} ms", plain(us as f64 / 1e3)) } else { format!("{us} µs") }
}

/// No pair is missed in event time; what is told comes in time, at the standard rate to each sensor.
pub(super) fn promises(book: &Book) -> Vec<Seen> {
    let runs = runs(book);
    let ours: Vec<&Run<'_>> = runs.iter().filter(|run| run.ways()[0] == Way::Event).collect();
    let added = |of: fn(&Evidence) -> u64| ours.iter().map(|run| of(&run.evidence)).fold(0, u64::saturating_add);
    let (due, missed) = (added(Evidence::due), added(Evidence::missed));
    if due == 0 && missed == 0 {
        return Vec::new();
    }
    let topology = ours.first().map(|run| run.sample.topology);
    let mut seen = vec![Seen {
        promise: "staged attacks: no pair is missed in event time whose packets both sensors handled, within the window by their stamps"
            .to_owned(),
        topology,
        seen: format!("{} of {} missed in {} runs", count(missed), count(due), ours.len()),
        is_kept: missed == 0,
    }];
    for (what, hop, most_us) in [("provisional", TO_PROVISIONAL, PROVISIONAL_US), ("final", TO_FINAL, FINAL_US)] {
        let at_standard = ours.iter().filter(|run| run.sample.offered_pps == STANDARD_PPS);
        let p99 = at_standard.filter_map(|run| Some(run.evidence.hops.get(hop)?.p99));
        seen.extend(Spread::of(p99).map(|p99| Seen {
            promise: format!(
                "staged attacks at {} packets/s to a flooded sensor: 99 of 100 {what} incidents within {} ms of the last packet",
                si(STANDARD_PPS),
                plain(most_us / 1e3)
            ),
            topology,
            seen: format!("{} ms", p99.text(|us| plain(us / 1e3))),
            is_kept: p99.median <= most_us,
        }));
    }
    seen
}

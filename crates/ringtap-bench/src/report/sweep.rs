//! What depends on the offered rate: core use, delivery, loss, interrupts, polls, latency (000 Fig. 7.1–7.15, 001 Fig. 7).

use std::collections::BTreeMap;

use crate::book::{Book, Delays, Sample, Topology};

use super::look::{Look, Looks};
use super::number::{NONE, plain, si};
use super::plot::{Axis, Join, Line, Plot, Rule};
use super::scale::Kind;
use super::spread::{Point, Spread, lines, percent};
use super::table::Table;
use super::{Drawing, Figure, Section, topology_name};

/// The source's greatest rate: 64 bytes at 100 Mb/s. Figures "at one rate" are at the measured rate nearest to it.
const REFERENCE_PPS: f64 = 148_000.0;
/// A table with more columns than this is set with one line per value.
const MOST_COLUMNS: usize = 20;

/// One quantity against the rate.
struct Quantity {
    key: &'static str,
    title: &'static str,
    caption: &'static str,
    /// With unit.
    label: &'static str,
    kind: Kind,
    write: fn(f64) -> String,
    value: fn(&Sample) -> Option<f64>,
    including: Option<(f64, f64)>,
}

const QUANTITIES: [Quantity; 15] = [
    Quantity {
        key: "core-use",
        title: "Core use against offered rate",
        caption: "The receiver's core, all that ran on it; the rest is left to the analysis (000 Fig. 7.3, 001 Fig. 7f).",
        label: "core use, % of one core",
        kind: Kind::Linear,
        write: plain,
        value: |sample| Some(sample.core_use_percent),
        including: Some((0.0, 100.0)),
    },
    Quantity {
        key: "core-use-log",
        title: "Core use, small shares",
        caption: "The same on a logarithmic axis, where a factor is a distance (000 Fig. 7.4).",
        label: "core use, % of one core (log)",
        kind: Kind::Log,
        write: plain,
        value: |sample| Some(sample.core_use_percent),
        including: None,
    },
    Quantity {
        key: "delivered",
        title: "Delivered against offered rate",
        caption: "What reached the handler; the thin line is all of it. A curve that falls is livelock (000 Fig. 7.2, 001 Fig. 7a).",
        label: "delivered, packets/s (log)",
        kind: Kind::Log,
        write: si,
        value: delivered_pps,
        including: None,
    },
    Quantity {
        key: "loss",
        title: "Loss against offered rate",
        caption: "Share of the packets sent that never reached the handler; 0 has its own place below the decades (000 Fig. 7.1, 001 Fig. 7b).",
        label: "lost, % of sent (log, and 0)",
        kind: Kind::LogAndZero,
        write: plain,
        value: |sample| percent(sample.lost, sample.sent),
        including: None,
    },
    Quantity {
        key: "core-interrupts",
        title: "Interrupts per packet",
        caption: "Interrupts of every kind on the receiver's core, timer and rescheduling included, per packet received (000 Fig. 7.15, 001 Fig. 7e).",
        label: "interrupts per packet (log, and 0)",
        kind: Kind::LogAndZero,
        write: plain,
        value: |sample| per_packet(sample, sample.core_interrupts),
        including: None,
    },
    Quantity {
        key: "interrupt-wakes",
        title: "Wake-ups by interrupt per packet",
        caption: "Ringtap's own: 1 while every packet comes with an interrupt, 0 once the timer has taken over (000 Fig. 7.14).",
        label: "wake-ups per packet (log, and 0)",
        kind: Kind::LogAndZero,
        write: plain,
        value: |sample| per_packet(sample, sample.interrupt_wakes),
        including: None,
    },
    Quantity {
        key: "packets-per-poll",
        title: "Packets per poll",
        caption: "Packets found by one look at the ring that found any: what the cost of a wake-up is spread over (000 Table 7.8).",
        label: "packets per poll (log)",
        kind: Kind::Log,
        write: plain,
        value: |sample| Some(sample.received as f64 / sample.polls.filter(|polls| *polls > 0)? as f64),
        including: None,
    },
    Quantity {
        key: "delivery-p50",
        title: "Delivery latency, median",
        caption: "From the generator's transmit stamp to the handler (000 Table 7.4, 001 Fig. 7c).",
        label: "delivery latency p50, µs (log)",
        kind: Kind::Log,
        write: plain,
        value: |sample| delay(&sample.delivery, |delays| delays.p50),
        including: None,
    },
    Quantity {
        key: "delivery-p99",
        title: "Delivery latency, 99th percentile",
        caption: "From the generator's transmit stamp to the handler (000 Table 7.4).",
        label: "delivery latency p99, µs (log)",
        kind: Kind::Log,
        write: plain,
        value: |sample| delay(&sample.delivery, |delays| delays.p99),
        including: None,
    },
    Quantity {
        key: "arrival-p99",
        title: "Arrival to handler, 99th percentile",
        caption: "What the latency bound promises: from the arrival stamp to the handler. Only Ringtap stamps arrivals.",
        label: "arrival to handler p99, µs (log)",
        kind: Kind::Log,
        write: plain,
        value: |sample| delay(&sample.arrival, |delays| delays.p99),
        including: None,
    },
    Quantity {
        key: "poll-period-p99",
        title: "Poll period, 99th percentile",
        caption: "Between two looks at the ring in timer mode (000 Fig. 7.12).",
        label: "poll period p99, µs (log)",
        kind: Kind::Log,
        write: plain,
        value: |sample| delay(&sample.poll_period, |delays| delays.p99),
        including: None,
    },
    Quantity {
        key: "mode-switches",
        title: "Mode switches",
        caption: "Changes between interrupt and timer; many of them in a narrow band around the threshold are the price of changing (000 §7.3.1).",
        label: "mode switches per second (log, and 0)",
        kind: Kind::LogAndZero,
        write: plain,
        value: |sample| Some(sample.mode_switches? as f64 / Some(sample.seconds).filter(|seconds| *seconds > 0.0)?),
        including: None,
    },
    Quantity {
        key: "cycles",
        title: "Cycles per packet",
        caption: "Unhalted cycles of the receiver's core per packet received.",
        label: "cycles per packet (log)",
        kind: Kind::Log,
        write: plain,
        value: |sample| sample.cycles_per_packet,
        including: None,
    },
    Quantity {
        key: "cache-misses",
        title: "Cache misses per packet",
        caption: "Last-level cache misses of the receiver's core per packet received.",
        label: "cache misses per packet (log)",
        kind: Kind::Log,
        write: plain,
        value: |sample| sample.cache_misses_per_packet,
        including: None,
    },
    Quantity {
        key: "steal",
        title: "Steal",
        caption: "Taken from the receiver's core by the hypervisor: where this is not small, the other figures are the hypervisor's too.",
        label: "steal, % of one core (log, and 0)",
        kind: Kind::LogAndZero,
        write: plain,
        value: |sample| sample.steal_percent,
        including: None,
    },
];

fn per_packet(sample: &Sample, what: Option<u64>) -> Option<f64> {
    (sample.received > 0).then_some(what? as f64 / sample.received as f64)
}

fn delay(delays: &Option<Delays>, value: fn(&Delays) -> f64) -> Option<f64> {
    delays.as_ref().filter(|delays| delays.count > 0).map(value)
}

/// The share received of the rate reached.
pub fn delivered_pps(sample: &Sample) -> Option<f64> {
    Some(sample.sent_pps * (percent(sample.received, sample.sent)? / 100.0))
}

/// Samples of the sweep: studies `rates` and `beyond`, without load or storm, of the commonest length and arrivals.
pub fn samples(book: &Book, topology: Topology) -> Vec<&Sample> {
    let swept = |sample: &&Sample| {
        matches!(sample.study.as_str(), "rates" | "beyond")
            && sample.topology == topology
            && sample.load_ns == 0.0
            && sample.beside.is_none()
    };
    let samples: Vec<&Sample> = book.samples.iter().filter(swept).collect();
    let mut traffics: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for sample in &samples {
        *traffics.entry((sample.frame_bytes, &sample.arrivals)).or_default() += 1;
    }
    // Of equally common ones the first, the shortest.
    let commonest = traffics.iter().rev().max_by_key(|(_, samples)| **samples).map(|(traffic, _)| *traffic);
    samples.into_iter().filter(|sample| Some((sample.frame_bytes, sample.arrivals.as_str())) == commonest).collect()
}

/// The rate of `samples` nearest to 148 kpps by ratio.
pub fn reference_rate(samples: &[&Sample]) -> Option<f64> {
    let distance = |rate: f64| (rate / REFERENCE_PPS).ln().abs();
    let rates = samples.iter().map(|sample| sample.offered_pps).filter(|rate| rate.is_finite() && *rate > 0.0);
    rates.min_by(|a, b| distance(*a).total_cmp(&distance(*b)))
}

/// `64 bytes (60 without FCS), constant arrivals`.
pub fn traffic(samples: &[&Sample]) -> String {
    samples.first().map_or_else(String::new, |sample| {
        format!("Frames of {} bytes without FCS, arrivals {}.", sample.frame_bytes, sample.arrivals)
    })
}

/// All plots against the rate, and the distribution of delays at one rate.
pub fn section(book: &Book, looks: &Looks, topology: Topology) -> Section {
    let name = topology_name(topology);
    let mut section = Section::new(format!("{name}-rates"), format!("{name}: by offered rate"));
    let samples = samples(book, topology);
    section.text.push(traffic(&samples));
    section.figures = quantities(&samples, looks, name);
    section.figures.extend(distribution(&samples, looks, name));
    section
}

/// One figure for each quantity that `samples` have.
pub fn quantities(samples: &[&Sample], looks: &Looks, prefix: &str) -> Vec<Figure> {
    QUANTITIES.iter().filter_map(|quantity| figure(quantity, samples, looks, prefix)).collect()
}

fn figure(quantity: &Quantity, samples: &[&Sample], looks: &Looks, prefix: &str) -> Option<Figure> {
    let lines = lines(samples.iter().copied(), looks.names(), |sample| sample.offered_pps, quantity.value);
    let x = Axis::new("offered rate, packets/s (log)", Kind::Log, si);
    let y = Axis { including: quantity.including, ..Axis::new(quantity.label, quantity.kind, quantity.write) };
    let mut rules = Vec::new();
    if quantity.key == "delivered" {
        let mut rates: Vec<f64> = lines.iter().flat_map(|(_, points)| points).map(|point| point.x).collect();
        rates.sort_by(f64::total_cmp);
        rules.push(Rule { name: "all delivered".into(), points: rates.iter().map(|rate| (*rate, *rate)).collect() });
    }
    let table = line_table(quantity.label, "offered, packets/s", &lines, si, quantity.write);
    let plot = Plot { x, y, join: Join::Straight, lines: drawn(lines, looks), rules };
    (!plot.is_empty()).then(|| Figure {
        id: format!("{prefix}-{}", quantity.key),
        title: quantity.title.into(),
        caption: quantity.caption.into(),
        drawing: Drawing::Plot(plot),
        table,
    })
}

/// Lines as they are drawn.
pub fn drawn(lines: Vec<(String, Vec<Point>)>, looks: &Looks) -> Vec<Line> {
    let line = |(name, points): (String, Vec<Point>)| {
        let look: Look = looks.look(&name);
        Line { name, look, points, hollow: Vec::new() }
    };
    lines.into_iter().map(line).collect()
}

/// Receivers as rows and abscissae as columns; with too many columns, a row for each value.
pub fn line_table(
    caption: &str,
    x_name: &str,
    lines: &[(String, Vec<Point>)],
    write_x: fn(f64) -> String,
    write_y: fn(f64) -> String,
) -> Table {
    let mut columns: Vec<f64> = lines.iter().flat_map(|(_, points)| points).map(|point| point.x).collect();
    columns.sort_by(f64::total_cmp);
    columns.dedup();
    if columns.len() > MOST_COLUMNS {
        let mut table = Table::new(caption, ["receiver", x_name, "median (least–greatest)", "rounds"]);
        for (name, points) in lines {
            table.rows.extend(
                points.iter().map(|point| {
                    vec![name.clone(), write_x(point.x), point.y.text(write_y), point.y.rounds.to_string()]
                }),
            );
        }
        return table;
    }
    let mut table = Table::new(format!("{caption}, by {x_name}"), ["receiver"]);
    table.head.extend(columns.iter().map(|x| write_x(*x)));
    for (name, points) in lines {
        let mut row = vec![name.clone()];
        row.extend(columns.iter().map(|x| {
            points.iter().find(|point| point.x == *x).map_or_else(|| NONE.into(), |point| point.y.text(write_y))
        }));
        table.rows.push(row);
    }
    table
}

/// Share of packets that took longer, at the reference rate, all rounds together.
fn distribution(samples: &[&Sample], looks: &Looks, prefix: &str) -> Option<Figure> {
    let with_delivery: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.delivery.is_some()).collect();
    let rate = reference_rate(&with_delivery)?;
    let mut lines = Vec::new();
    let mut table = Table::new(
        format!("delivery latency at {} packets/s, µs, median over rounds; worst of all rounds", si(rate)),
        ["receiver", "packets", "mean", "p50", "p98", "p99", "p99.9", "worst"],
    );
    for receiver in looks.names() {
        let delays: Vec<&Delays> = with_delivery
            .iter()
            .filter(|sample| sample.receiver == *receiver && sample.offered_pps == rate)
            .filter_map(|sample| sample.delivery.as_ref())
            .collect();
        let points = exceedance(&delays);
        if points.is_empty() {
            continue;
        }
        let median = |value: fn(&Delays) -> f64| Spread::of(delays.iter().map(|delays| value(delays)));
        let mut row = vec![
            receiver.clone(),
            super::number::count(delays.iter().map(|delays| delays.count).fold(0, u64::saturating_add)),
        ];
        let quantiles: [fn(&Delays) -> f64; 5] = [|d| d.mean, |d| d.p50, |d| d.p98, |d| d.p99, |d| d.p999];
        row.extend(quantiles.map(|value| median(value).map_or_else(|| NONE.into(), |spread| plain(spread.median))));
        row.push(median(|delays| delays.max).map_or_else(|| NONE.into(), |spread| plain(spread.max)));
        table.rows.push(row);
        lines.push((receiver.clone(), points));
    }
    let plot = Plot {
        x: Axis::new("delivery latency, µs (log)", Kind::Log, plain),
        y: Axis::new("share of packets that took longer (log)", Kind::Log, plain),
        join: Join::Steps,
        lines: drawn(lines, looks),
        rules: Vec::new(),
    };
    (!plot.is_empty()).then(|| Figure {
        id: format!("{prefix}-delivery-distribution"),
        title: format!("Delivery latency, distribution at {} packets/s", si(rate)),
        caption: "Share of packets that took longer than the abscissa, all rounds together: the tail is what a time bound is about (000 Fig. 7.5–7.11).".into(),
        drawing: Drawing::Plot(plot),
        table,
    })
}

/// From histograms of the same kind of delay: (upper edge, share above it), until nothing is above.
fn exceedance(delays: &[&Delays]) -> Vec<Point> {
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    for (edge, count) in delays.iter().flat_map(|delays| &delays.histogram) {
        if edge.is_finite() && *edge > 0.0 {
            let bucket = buckets.entry(edge.to_bits()).or_default();
            *bucket = bucket.saturating_add(*count);
        }
    }
    let total = buckets.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let mut above = total;
    let mut points = Vec::new();
    let point = |x, share| Spread::of([share]).map(|y| Point { x, y });
    for (edge, count) in &buckets {
        let edge = f64::from_bits(*edge);
        if points.is_empty() {
            points.extend(point(edge, 1.0));
        }
        above = above.saturating_sub(*count);
        if above > 0 {
            points.extend(point(edge, above as f64 / total as f64));
        } else {
            // The last packets: the line ends where the slowest was.
            points.extend(points.last().copied().and_then(|last: Point| point(edge, last.y.median)));
            break;
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceedance_falls_from_one() {
        let delays = Delays { histogram: vec![(1.0, 90), (2.0, 9), (4.0, 1)], ..Delays::default() };
        let points: Vec<(f64, f64)> = exceedance(&[&delays, &delays]).iter().map(|p| (p.x, p.y.median)).collect();
        assert_eq!(points, [(1.0, 1.0), (1.0, 0.1), (2.0, 0.01), (4.0, 0.01)]);
        assert!(exceedance(&[]).is_empty());
    }
}

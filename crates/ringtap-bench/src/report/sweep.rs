//! What depends on the offered rate: core use, delivery, loss, interrupts, polls, latency (\[1] Fig. 7.1–7.15, \[3] Fig. 7).

use std::collections::BTreeMap;

use crate::book::{Book, Delays, Sample, Topology};

use super::look::{Look, Looks};
use super::number::{NONE, plain, si};
use super::plot::{Axis, Join, Line, Plot, Rule, Size};
use super::scale::Kind;
use super::spread::{Point, lines, percent};
use super::table::Table;
use super::{Drawing, Figure, Section, distribution, topology_name};

/// The source's greatest rate: 64 bytes at 100 Mb/s. Figures "at one rate" are at the measured rate nearest to it.
const REFERENCE_PPS: f64 = 148_000.0;
/// A table with more columns than this is set with one line per value.
const MOST_COLUMNS: usize = 20;

/// One quantity against the rate.
struct Quantity {
    key: &'static str,
    title: &'static str,
    caption: &'static str,
    /// Of the rate.
    x_kind: Kind,
    /// With unit.
    label: &'static str,
    kind: Kind,
    write: fn(f64) -> String,
    value: fn(&Sample) -> Option<f64>,
    including: Option<(f64, f64)>,
}

/// Of the study `soaker`.
const SOAKED: Quantity = Quantity {
    key: "core-use-soaker",
    title: "Core use by the soaker",
    caption: "What a lowest-priority thread on the same core could not do, in runs of their own between the others ([1] §6). It contains steal and slower clocks, and \
              the core never idles, so that a wake-up costs less.",
    x_kind: Kind::Log,
    label: "work not done, % of one core",
    kind: Kind::Linear,
    write: plain,
    value: |sample| Some(sample.core_use_percent),
    including: Some((0.0, 100.0)),
};

const QUANTITIES: [Quantity; 16] = [
    Quantity {
        key: "core-use",
        title: "Core use against offered rate",
        caption: "The receiver's core, all that ran on it; the rest is left to the analysis ([1] Fig. 7.3, [3] Fig. 7f).",
        x_kind: Kind::Log,
        label: "core use, % of one core",
        kind: Kind::Linear,
        write: plain,
        value: |sample| Some(sample.core_use_percent),
        including: Some((0.0, 100.0)),
    },
    Quantity {
        key: "core-use-log",
        title: "Core use, small shares",
        caption: "The same on a logarithmic axis, where a factor is a distance ([1] Fig. 7.4).",
        x_kind: Kind::Log,
        label: "core use, % of one core",
        kind: Kind::Log,
        write: plain,
        value: |sample| Some(sample.core_use_percent),
        including: None,
    },
    Quantity {
        key: "delivered",
        title: "Delivered against offered rate",
        caption: "What reached the handler; the thin line is all of it. A curve that falls is livelock.",
        x_kind: Kind::Log,
        label: "delivered, packets/s",
        kind: Kind::Log,
        write: si,
        value: delivered_pps,
        including: None,
    },
    Quantity {
        key: "delivered-linear",
        title: "Delivered past saturation",
        caption: "The same on linear axes, where the greatest rates can be told apart ([1] Fig. 7.2, [3] Fig. 7a).",
        x_kind: Kind::Linear,
        label: "delivered, packets/s",
        kind: Kind::Linear,
        write: si,
        value: delivered_pps,
        including: None,
    },
    Quantity {
        key: "loss",
        title: "Loss against offered rate",
        caption: "Share of the packets sent that never reached the handler; 0 has its own place below the decades ([1] Fig. 7.1, [3] Fig. 7b).",
        x_kind: Kind::Log,
        label: "lost, % of sent",
        kind: Kind::LogAndZero,
        write: plain,
        value: |sample| percent(sample.lost, sample.sent),
        including: None,
    },
    Quantity {
        key: "core-interrupts",
        title: "Interrupts per packet",
        caption: "Interrupts of every kind on the receiver's core, timer and rescheduling included, per packet received ([1] Fig. 7.15, [3] Fig. 7e).",
        x_kind: Kind::Log,
        label: "interrupts per packet",
        kind: Kind::LogAndZero,
        write: plain,
        value: |sample| per_packet(sample, sample.core_interrupts),
        including: None,
    },
    Quantity {
        key: "interrupt-wakes",
        title: "Wake-ups by interrupt per packet",
        caption: "Ringtap's own: 1 while every packet comes with an interrupt, 0 once the timer has taken over ([1] Fig. 7.14).",
        x_kind: Kind::Log,
        label: "wake-ups per packet",
        kind: Kind::LogAndZero,
        write: plain,
        value: |sample| per_packet(sample, sample.interrupt_wakes),
        including: None,
    },
    Quantity {
        key: "packets-per-poll",
        title: "Packets per poll",
        caption: "Packets found by one look at the ring that found any: what the cost of a wake-up is spread over ([1] Table 7.8).",
        x_kind: Kind::Log,
        label: "packets per poll",
        kind: Kind::Log,
        write: plain,
        value: |sample| Some(sample.received as f64 / sample.polls.filter(|polls| *polls > 0)? as f64),
        including: None,
    },
    Quantity {
        key: "delivery-p50",
        title: "Delivery latency, median",
        caption: "From the generator's transmit stamp to the handler ([1] Table 7.4, [3] Fig. 7c).",
        x_kind: Kind::Log,
        label: "delivery latency p50, µs",
        kind: Kind::Log,
        write: plain,
        value: |sample| delay(&sample.delivery, |delays| delays.p50),
        including: None,
    },
    Quantity {
        key: "delivery-p99",
        title: "Delivery latency, 99th percentile",
        caption: "From the generator's transmit stamp to the handler ([1] Table 7.4).",
        x_kind: Kind::Log,
        label: "delivery latency p99, µs",
        kind: Kind::Log,
        write: plain,
        value: delivery_p99,
        including: None,
    },
    Quantity {
        key: "arrival-p99",
        title: "Arrival to handler, 99th percentile",
        caption: "What the latency bound promises: from the arrival stamp to the handler. Only Ringtap stamps arrivals.",
        x_kind: Kind::Log,
        label: "arrival to handler p99, µs",
        kind: Kind::Log,
        write: plain,
        value: |sample| delay(&sample.arrival, |delays| delays.p99),
        including: None,
    },
    Quantity {
        key: "poll-period-p99",
        title: "Poll period, 99th percentile",
        caption: "Between two looks at the ring in timer mode ([1] Fig. 7.12).",
        x_kind: Kind::Log,
        label: "poll period p99, µs",
        kind: Kind::Log,
        write: plain,
        value: |sample| delay(&sample.poll_period, |delays| delays.p99),
        including: None,
    },
    Quantity {
        key: "mode-switches",
        title: "Mode switches",
        caption: "Changes between interrupt and timer; many of them in a narrow band around the threshold are the price of changing ([1] §7.3.1).",
        x_kind: Kind::Log,
        label: "mode switches per second",
        kind: Kind::LogAndZero,
        write: plain,
        value: |sample| Some(sample.mode_switches? as f64 / Some(sample.seconds).filter(|seconds| *seconds > 0.0)?),
        including: None,
    },
    Quantity {
        key: "cycles",
        title: "Cycles per packet",
        caption: "Unhalted cycles of the receiver's core per packet received.",
        x_kind: Kind::Log,
        label: "cycles per packet",
        kind: Kind::Log,
        write: si,
        value: |sample| sample.cycles_per_packet,
        including: None,
    },
    Quantity {
        key: "cache-misses",
        title: "Cache misses per packet",
        caption: "Last-level cache misses of the receiver's core per packet received.",
        x_kind: Kind::Log,
        label: "cache misses per packet",
        kind: Kind::Log,
        write: plain,
        value: |sample| sample.cache_misses_per_packet,
        including: None,
    },
    Quantity {
        key: "steal",
        title: "Steal",
        caption: "Taken from the receiver's core by the hypervisor: where this is not small, the other figures are the hypervisor's too.",
        x_kind: Kind::Log,
        label: "steal, % of one core",
        kind: Kind::Linear,
        write: plain,
        value: |sample| sample.steal_percent,
        including: None,
    },
];

fn per_packet(sample: &Sample, what: Option<u64>) -> Option<f64> {
    (sample.received > 0).then_some(what? as f64 / sample.received as f64)
}

/// From the sender's stamp to the handler, 99 of 100 packets, µs.
pub fn delivery_p99(sample: &Sample) -> Option<f64> {
    delay(&sample.delivery, |delays| delays.p99)
}

fn delay(delays: &Option<Delays>, value: fn(&Delays) -> f64) -> Option<f64> {
    delays.as_ref().filter(|delays| delays.count > 0).map(value)
}

/// The share received of the rate reached.
pub fn delivered_pps(sample: &Sample) -> Option<f64> {
    Some(sample.sent_pps * (percent(sample.received, sample.sent)? / 100.0))
}

/// All runs of the studies `rates` and `beyond` without load or storm.
fn swept(book: &Book, topology: Topology) -> Vec<&Sample> {
    let swept = |sample: &&Sample| {
        matches!(sample.study.as_str(), "rates" | "beyond")
            && sample.topology == topology
            && sample.load_ns == 0.0
            && sample.beside.is_none()
    };
    book.samples.iter().filter(swept).collect()
}

/// Samples of the sweep, those of the commonest length and arrivals.
pub fn samples(book: &Book, topology: Topology) -> Vec<&Sample> {
    let mut samples = swept(book, topology);
    let mut traffics: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for sample in &samples {
        *traffics.entry((sample.frame_bytes, &sample.arrivals)).or_default() += 1;
    }
    // Of equally common ones the first, the shortest.
    let commonest = traffics.iter().rev().max_by_key(|(_, samples)| **samples).map(|(traffic, _)| *traffic);
    samples.retain(|sample| Some((sample.frame_bytes, sample.arrivals.as_str())) == commonest);
    samples
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
    let others = swept(book, topology).len() - samples.len();
    if others > 0 {
        section
            .text
            .push(format!("{others} runs of other lengths or arrivals are not drawn; they are among the samples."));
    }
    let keys = QUANTITIES.map(|quantity| quantity.key);
    section.figures = quantities(&samples, looks, name, &keys);
    let soaked: Vec<&Sample> =
        book.samples.iter().filter(|sample| sample.study == "soaker" && sample.topology == topology).collect();
    section.figures.extend(figure(&SOAKED, &soaked, looks, name));
    section.figures.extend(distribution::figure(&samples, looks, name));
    section
}

/// One figure for each quantity that `samples` have, of those with these keys.
pub fn quantities(samples: &[&Sample], looks: &Looks, prefix: &str, keys: &[&str]) -> Vec<Figure> {
    let chosen = QUANTITIES.iter().filter(|quantity| keys.contains(&quantity.key));
    chosen.filter_map(|quantity| figure(quantity, samples, looks, prefix)).collect()
}

fn figure(quantity: &Quantity, samples: &[&Sample], looks: &Looks, prefix: &str) -> Option<Figure> {
    let lines = lines(samples.iter().copied(), looks.names(), |sample| sample.offered_pps, quantity.value);
    let x = Axis::new("offered rate, packets/s", quantity.x_kind, si);
    let y = Axis { including: quantity.including, ..Axis::new(quantity.label, quantity.kind, quantity.write) };
    let mut rules = Vec::new();
    if quantity.key.starts_with("delivered") {
        let mut rates: Vec<f64> = lines.iter().flat_map(|(_, points)| points).map(|point| point.x).collect();
        rates.sort_by(f64::total_cmp);
        rules.push(Rule { name: "all delivered".into(), points: rates.iter().map(|rate| (*rate, *rate)).collect() });
    }
    let table = line_table(quantity.label, "offered, packets/s", &lines, si, quantity.write);
    let plot = Plot { x, y, join: Join::Straight, lines: drawn(lines, looks), rules, size: Size::REPORT };
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

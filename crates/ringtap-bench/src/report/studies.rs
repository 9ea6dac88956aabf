//! The studies beside the sweep of rates: bursts of loss, added load, ring size, frame sizes, arrivals, NAPI, soak.

use std::collections::BTreeMap;

use crate::book::{Book, POLLS_PER_SECOND, Sample, Topology};

use super::look::Looks;
use super::number::{NONE, count, or_none, percent_text, plain, si};
use super::plot::{Axis, Join, Plot, Size};
use super::rows::{Dot, Row, Rows};
use super::scale::Kind;
use super::spread::{Point, Spread, lines, percent};
use super::sweep::{self, drawn, line_table};
use super::table::Table;
use super::{Drawing, Figure, Section, searches, storms, topology_name};

/// All of one topology.
pub fn sections(book: &Book, looks: &Looks, topology: Topology) -> Vec<Section> {
    let name = topology_name(topology);
    let mut criteria = Section::new(format!("{name}-studies"), format!("{name}: capacity, load, memory, traffic"));
    criteria.figures = [
        searches::found(book, looks, topology, &searches::CAPACITY),
        bursts(book, looks, topology),
        searches::found(book, looks, topology, &searches::GREATEST_LOAD),
        against(book, looks, topology, &LOAD),
        searches::memory(book, looks, topology),
        against(book, looks, topology, &RING),
        against(book, looks, topology, &SIZES),
        against(book, looks, topology, &POLLS),
        against(book, looks, topology, &POLLS_P99),
        against(book, looks, topology, &POLLS_MADE),
        arrivals(book, looks, topology),
    ]
    .into_iter()
    .flatten()
    .collect();
    criteria.tables.extend(slopes(book, looks, topology, &PER_BYTE));
    criteria.tables.extend(slopes(book, looks, topology, &PER_LOOK));
    vec![criteria, storms::section(book, looks, topology), napi(book, topology)]
}

/// Samples of one study, those at the rate nearest to the reference only.
fn study<'a>(book: &'a Book, topology: Topology, name: &str) -> (Vec<&'a Sample>, Option<f64>) {
    let mut samples: Vec<&Sample> =
        book.samples.iter().filter(|sample| sample.study == name && sample.topology == topology).collect();
    let rate = sweep::reference_rate(&samples);
    samples.retain(|sample| Some(sample.offered_pps) == rate);
    (samples, rate)
}

/// Runs of consecutive losses at least so long, at each receiver's greatest rate of the sweep.
fn bursts(book: &Book, looks: &Looks, topology: Topology) -> Option<Figure> {
    let samples = sweep::samples(book, topology);
    let mut table = Table::new(
        "runs of consecutive losses at each receiver's greatest rate, all rounds together",
        ["receiver", "offered, packets/s", "lost", "runs", "packets a run, mean", "longest run"],
    );
    let mut lines = Vec::new();
    for receiver in looks.names() {
        let own = samples.iter().filter(|sample| sample.receiver == *receiver && sample.loss_bursts.is_some());
        let greatest = own.clone().map(|sample| sample.offered_pps).fold(f64::NEG_INFINITY, f64::max);
        let own: Vec<&Sample> = own.copied().filter(|sample| sample.offered_pps == greatest).collect();
        let mut lengths: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut runs, mut longest, mut lost) = (0_u64, 0_u64, 0_u64);
        for sample in &own {
            let Some(bursts) = &sample.loss_bursts else { continue };
            runs = runs.saturating_add(bursts.count);
            longest = longest.max(bursts.longest);
            lost = lost.saturating_add(sample.lost);
            for (length, count) in &bursts.by_length {
                let sum = lengths.entry(*length).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        if runs == 0 {
            continue;
        }
        let mean = plain(lost as f64 / runs as f64);
        table.rows.push(vec![receiver.clone(), si(greatest), count(lost), count(runs), mean, count(longest)]);
        let mut at_least = lengths.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let mut points = Vec::new();
        for (length, count) in lengths {
            points.extend(Spread::of([at_least as f64]).map(|y| Point { x: length as f64, y }));
            at_least = at_least.saturating_sub(count);
        }
        lines.push((receiver.clone(), points));
    }
    let plot = Plot {
        x: Axis::new("length of a run, packets", Kind::Log, si),
        y: Axis::new("runs at least so long, all rounds", Kind::Log, si),
        join: Join::Straight,
        lines: drawn(lines, looks),
        rules: Vec::new(),
        size: Size::REPORT,
    };
    (!plot.is_empty()).then(|| Figure {
        id: format!("{}-bursts", topology_name(topology)),
        title: "Runs of lost packets".into(),
        caption: "How losses cluster: runs of consecutive packets lost that are at least as long as the abscissa, at each receiver's greatest rate ([1] §6.2.1).".into(),
        drawing: Drawing::Plot(plot),
        table,
    })
}

/// A study with one abscissa of its own, at one rate.
struct Against {
    study: &'static str,
    key: &'static str,
    title: &'static str,
    caption: &'static str,
    x_name: &'static str,
    x_kind: Kind,
    y_name: &'static str,
    y_kind: Kind,
    write_x: fn(f64) -> String,
    x: fn(&Sample) -> f64,
    y: fn(&Sample) -> Option<f64>,
}

const LOAD: Against = Against {
    study: "load",
    key: "load-loss",
    title: "Loss against added load",
    caption: "Event processing added to every packet takes this share of the core; where the curve leaves 0, the core is spent.",
    x_name: "added load, % of one core",
    x_kind: Kind::Linear,
    y_name: "lost, % of sent",
    y_kind: Kind::LogAndZero,
    write_x: plain,
    // Nanoseconds a packet times packets per second are nanoseconds per second; 1 % is 10⁷ of them.
    x: |sample| sample.load_ns * sample.offered_pps / 1e7,
    y: |sample| percent(sample.lost, sample.sent),
};

const RING: Against = Against {
    study: "ring",
    key: "ring-loss",
    title: "Loss against ring size",
    caption: "The ring holds what comes while the receiver is late: slots ≥ worst poll period × rate ([1] §2, §5.7, §7.3).",
    x_name: "receive ring, slots",
    x_kind: Kind::Log2,
    y_name: "lost, % of sent",
    y_kind: Kind::LogAndZero,
    write_x: plain,
    x: |sample| sample.ring_slots.unwrap_or(0) as f64,
    y: |sample| percent(sample.lost, sample.sent).filter(|_| sample.ring_slots.is_some()),
};

const SIZES: Against = Against {
    study: "sizes",
    key: "sizes",
    title: "Core use against frame size",
    caption: "Level where packets stay in place; rising where each byte is copied ([1] §7.3.3).",
    x_name: "frame without FCS, bytes",
    x_kind: Kind::Linear,
    y_name: "core use, % of one core",
    y_kind: Kind::Linear,
    write_x: plain,
    x: |sample| sample.frame_bytes as f64,
    y: |sample| Some(sample.core_use_percent),
};

const POLLS: Against = Against {
    study: "polls",
    key: "polls",
    title: "Core use against poll rate",
    caption: "A timer alone: each look costs the same, so core use rises by a straight line ([1] Fig. 7.16, Eqn. 7.1).",
    x_name: "looks at the ring a second, asked for",
    x_kind: Kind::Log,
    y_name: "core use, % of one core",
    y_kind: Kind::Log,
    write_x: si,
    x: polls_per_second,
    y: |sample| Some(sample.core_use_percent),
};

const POLLS_P99: Against = Against {
    key: "polls-p99",
    title: "Latency against poll rate",
    caption: "99 of 100 packets wait a period at most, and what the host's timer is late by.",
    y_name: "arrival to handler, p99, µs",
    y: |sample| Some(sample.arrival.as_ref()?.p99),
    ..POLLS
};

const POLLS_MADE: Against = Against {
    key: "polls-made",
    title: "Looks made against looks asked for",
    caption: "A tick that has passed is skipped, so fewer are made where a wake-up takes as long as a period.",
    y_name: "wake-ups by the timer a second",
    y: wakes_per_second,
    ..POLLS
};

fn wakes_per_second(sample: &Sample) -> Option<f64> {
    Some(sample.timer_wakes? as f64 / sample.seconds).filter(|wakes| wakes.is_finite())
}

fn polls_per_second(sample: &Sample) -> f64 {
    sample.measures.get(POLLS_PER_SECOND).copied().unwrap_or_default()
}

fn against(book: &Book, looks: &Looks, topology: Topology, what: &Against) -> Option<Figure> {
    let (samples, rate) = study(book, topology, what.study);
    let lines = lines(samples, looks.names(), what.x, what.y);
    let table = line_table(what.y_name, what.x_name, &lines, what.write_x, plain);
    let plot = Plot {
        x: Axis::new(what.x_name, what.x_kind, what.write_x),
        y: Axis::new(what.y_name, what.y_kind, plain),
        join: Join::Straight,
        lines: drawn(lines, looks),
        rules: Vec::new(),
        size: Size::REPORT,
    };
    (!plot.is_empty()).then(|| Figure {
        id: format!("{}-{}", topology_name(topology), what.key),
        title: what.title.into(),
        caption: format!("{} At {} packets/s.", what.caption, or_none(rate, si)),
        drawing: Drawing::Plot(plot),
        table,
    })
}

/// What one more of an abscissa costs.
struct Slopes {
    of: &'static Against,
    /// What there is one more of.
    along: fn(&Sample) -> Option<f64>,
    title: &'static str,
    unit: &'static str,
    /// From percent of a core for one more to the unit, at this rate of packets.
    scale: fn(f64) -> f64,
}

// 1 % of a core is 10⁷ ns a second.
const PER_BYTE: Slopes = Slopes {
    of: &SIZES,
    along: |sample| Some(sample.frame_bytes as f64),
    title: "Cost per byte: slope of core use over frame size",
    unit: "ns/byte",
    scale: |rate| 1e7 / rate,
};
const PER_LOOK: Slopes = Slopes {
    of: &POLLS,
    along: wakes_per_second,
    title: "Cost of a look and its wake-up: slope of core use over poll rate",
    unit: "µs",
    scale: |_| 1e4,
};

/// By least squares over the medians.
fn slopes(book: &Book, looks: &Looks, topology: Topology, what: &Slopes) -> Option<Table> {
    let (samples, rate) = study(book, topology, what.of.study);
    let rate = rate?;
    let mut table = Table::new(
        format!("{}, at {} packets/s", what.title, si(rate)),
        ["receiver", what.unit, "core use, % of one core, least", "greatest"],
    );
    let along = lines(samples.clone(), looks.names(), what.of.x, what.along);
    for (receiver, points) in lines(samples, looks.names(), what.of.x, what.of.y) {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let own = along.iter().find(|(name, _)| *name == receiver).map_or(&[][..], |(_, points)| points);
        // Medians of both where the abscissa is the same.
        let pair = |point: &Point| Some((own.iter().find(|at| at.x == point.x)?.y.median, point.y.median));
        let pairs: Vec<(f64, f64)> = points.iter().filter_map(pair).collect();
        let number = pairs.len() as f64;
        let (mean_x, mean_y) = pairs.iter().fold((0.0, 0.0), |(x, y), pair| (x + pair.0 / number, y + pair.1 / number));
        let covariance: f64 = pairs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        let variance: f64 = pairs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        if variance > 0.0 {
            let slope = covariance / variance * (what.scale)(rate);
            table.rows.push(vec![receiver, plain(slope), first.y.text(plain), last.y.text(plain)]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn arrivals(book: &Book, looks: &Looks, topology: Topology) -> Option<Figure> {
    let (samples, rate) = study(book, topology, "arrivals");
    let mut kinds: Vec<String> = Vec::new();
    for sample in &samples {
        if !kinds.contains(&sample.arrivals) {
            kinds.push(sample.arrivals.clone());
        }
    }
    let mut table = Table::new(
        "by arrival pattern",
        ["receiver", "arrivals", "core use, %", "lost, %", "delivery p50, µs", "p99, µs", "packets per poll"],
    );
    let mut rows = Vec::new();
    for receiver in looks.names() {
        let mut dots = Vec::new();
        for (kind, pattern) in kinds.iter().enumerate() {
            let own = samples.iter().filter(|sample| sample.receiver == *receiver && sample.arrivals == *pattern);
            let spread =
                |value: &dyn Fn(&Sample) -> Option<f64>| Spread::of(own.clone().filter_map(|sample| value(sample)));
            let Some(value) = spread(&|sample| Some(sample.core_use_percent)) else { continue };
            dots.push(Dot { kind, value, at_least: false });
            table.rows.push(vec![
                receiver.clone(),
                pattern.clone(),
                value.text(plain),
                Spread::or_none(spread(&|sample| percent(sample.lost, sample.sent)), plain),
                Spread::or_none(spread(&|sample| Some(sample.delivery.as_ref()?.p50)), plain),
                Spread::or_none(spread(&|sample| Some(sample.delivery.as_ref()?.p99)), plain),
                Spread::or_none(
                    spread(&|sample| Some(sample.received as f64 / sample.polls.filter(|polls| *polls > 0)? as f64)),
                    plain,
                ),
            ]);
        }
        if !dots.is_empty() {
            rows.push(Row { name: receiver.clone(), look: looks.look(receiver), dots });
        }
    }
    let x = Axis::new("core use, % of one core", Kind::Log, plain);
    (!rows.is_empty()).then(|| Figure {
        id: format!("{}-arrivals", topology_name(topology)),
        title: "Core use by arrival pattern".into(),
        caption: format!(
            "The same average rate, {} packets/s, arriving evenly, at random, in bursts, or rising.",
            or_none(rate, si)
        ),
        drawing: Drawing::Rows(Rows { x, kinds, rows }),
        table,
    })
}

/// Budget and weight: each setting a line of its own (\[3] Fig. 6).
fn napi(book: &Book, topology: Topology) -> Section {
    let name = topology_name(topology);
    let mut section = Section::new(format!("{name}-napi"), format!("{name}: NAPI budget and weight"));
    let of = |sample: &&Sample| sample.study == "napi" && sample.topology == topology;
    let named = |sample: &Sample| {
        let setting = sample.beside.as_deref().map(short_setting).unwrap_or_default();
        Sample { receiver: format!("{} {setting}", sample.receiver), ..sample.clone() }
    };
    let settings = Book { samples: book.samples.iter().filter(of).map(named).collect(), ..Book::default() };
    let samples: Vec<&Sample> = settings.samples.iter().collect();
    section.text.push(format!(
        "{} Receivers with the budget and the weight of the kernel's receive softirq behind their names: packets in one turn of \
         the softirq, and from one device in it (net.core.netdev_budget and dev_weight; [3] Fig. 6).",
        sweep::traffic(&samples)
    ));
    let keys =
        ["core-use", "delivered", "delivered-linear", "loss", "packets-per-poll", "delivery-p50", "delivery-p99"];
    section.figures = sweep::quantities(&samples, &Looks::of(&settings), &format!("{name}-napi"), &keys);
    let pings = || book.findings.iter().filter(|finding| finding.study == "napi" && finding.topology == topology);
    let mut quantities: Vec<&str> = Vec::new();
    for finding in pings() {
        if !quantities.contains(&finding.quantity.as_str()) {
            quantities.push(&finding.quantity);
        }
    }
    let mut table = Table::new(
        "Mean round trip of pings, µs",
        ["setting"].into_iter().chain(quantities.iter().map(|name| pinged(name))),
    );
    let mut settings: Vec<&str> = Vec::new();
    for finding in pings() {
        if !settings.contains(&finding.receiver.as_str()) {
            settings.push(&finding.receiver);
        }
    }
    for setting in settings {
        let of = |quantity: &&str| {
            let found = pings().find(|finding| finding.receiver == setting && finding.quantity == **quantity);
            or_none(found, |finding| plain(finding.value))
        };
        table.rows.push(std::iter::once(setting.to_owned()).chain(quantities.iter().map(of)).collect());
    }
    if !table.rows.is_empty() {
        section.tables.push(table);
    }
    section
}

/// `300/64` of `budget 300, weight 64`: legends are narrow.
fn short_setting(setting: &str) -> String {
    setting.replace("budget ", "").replace(", weight ", "/")
}

/// `100 per s` of `round_trip_us (100 per s)`.
fn pinged(quantity: &str) -> &str {
    quantity.split_once('(').map_or(quantity, |(_, rate)| rate.trim_end_matches(')'))
}

/// Long runs: what was lost, of how many.
pub fn soak(book: &Book) -> Section {
    let mut section = Section::new("soak", "Soak");
    let mut table = Table::new(
        "Long runs",
        [
            "receiver",
            "topology",
            "sent",
            "lost",
            "runs of losses",
            "longest",
            "rate, packets/s",
            "seconds",
            "core use, %",
            "delivery, worst, µs",
        ],
    );
    for sample in book.samples.iter().filter(|sample| sample.study == "soak") {
        let lost = percent(sample.lost, sample.sent).filter(|lost| *lost > 0.0).map(percent_text);
        table.rows.push(vec![
            sample.receiver.clone(),
            topology_name(sample.topology).into(),
            count(sample.sent),
            lost.map_or_else(|| count(sample.lost), |percent| format!("{} ({percent})", count(sample.lost))),
            or_none(sample.loss_bursts.as_ref(), |bursts| count(bursts.count)),
            or_none(sample.loss_bursts.as_ref(), |bursts| count(bursts.longest)),
            si(sample.sent_pps),
            plain(sample.seconds),
            plain(sample.core_use_percent),
            sample.delivery.as_ref().map_or_else(|| NONE.into(), |delays| plain(delays.max)),
        ]);
    }
    if !table.rows.is_empty() {
        section.tables.push(table);
    }
    section
}

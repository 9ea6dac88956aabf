//! Owns: what metrics of all programs share, as text for Prometheus.
//! Does not: know any program's metrics, or serve them (`ringtap-web`).

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use ringtap::histogram::HistogramSnapshot;
use ringtap::ledger::Ledger;
use ringtap::meters::EngineSnapshot;

/// Upper edges of the buckets of latencies, nanoseconds; one more is open.
const EDGES_NS: [u64; 9] =
    [100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 50_000_000, 1_000_000_000];

/// A latency as a histogram of Prometheus's.
#[derive(Debug)]
pub struct Latency(pub HistogramSnapshot);

impl EncodeMetric for Latency {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let edges = EDGES_NS.iter().map(|&edge| edge as f64 / 1e9).chain([f64::INFINITY]);
        let mut buckets: Vec<(f64, u64)> = edges.map(|edge| (edge, 0)).collect();
        for (upper_ns, count) in self.0.buckets() {
            // A value is known to 1/32: the finer bucket counts where its upper edge lies.
            buckets[EDGES_NS.partition_point(|&edge| edge < upper_ns)].1 += count;
        }
        let quantiles = self.0.quantiles_us();
        let sum = quantiles.mean * quantiles.count as f64 / 1e6;
        encoder.encode_histogram::<NoLabelSet>(sum, quantiles.count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Labels of a metric and their values.
pub type Labels = Vec<(String, String)>;

/// These labels with these values.
#[must_use]
pub fn labels<const N: usize>(pairs: [(&str, &str); N]) -> Labels {
    pairs.map(|(label, value)| (label.to_owned(), value.to_owned())).into()
}

/// Counters by their labels.
pub type Labelled = Family<Labels, Counter>;

/// Counters with these labels and values.
pub fn labelled(values: impl Iterator<Item = (Labels, u64)>) -> Labelled {
    let family = Labelled::default();
    values.for_each(|(labels, count)| {
        family.get_or_create(&labels).inc_by(count);
    });
    family
}

/// A counter of the engines: its name, what it counts, and where it is.
type Row = (&'static str, &'static str, fn(&EngineSnapshot) -> u64);

const ENGINES: &[Row] = &[
    ("cycles", "Looks at the rings that found packets", |counters| counters.cycles),
    ("interrupt_wakes", "Wake-ups by a device", |counters| counters.interrupt_wakes),
    ("timer_wakes", "Wake-ups by the timer", |counters| counters.timer_wakes),
    ("empty_wakes", "Wake-ups that found no packet", |counters| counters.empty_wakes),
    ("mode_switches", "Changes between interrupt and timer", |counters| counters.mode_switches),
];

/// What all engines together did, and the CPU time of each one's thread; one that can't be read is left out.
pub fn engines(registry: &mut Registry, counters: &EngineSnapshot, cpu: &[Option<Duration>]) {
    for (name, help, of) in ENGINES {
        registry.register(*name, *help, ConstCounter::new(of(counters)));
    }
    let in_timer_mode = ConstGauge::new(i64::from(counters.timer_mode));
    registry.register("timer_mode", "1 while an engine waits by timer", in_timer_mode);
    let used = Family::<Labels, Counter<f64, AtomicU64>>::default();
    for (engine, time) in cpu.iter().enumerate() {
        if let Some(time) = time {
            used.get_or_create(&labels([("engine", &engine.to_string())])).inc_by(time.as_secs_f64());
        }
    }
    registry.register_with_unit("engine_cpu", "CPU time of each engine's thread", Unit::Seconds, used);
    let help = "From a packet's arrival to its handling";
    registry.register_with_unit("to_handling", help, Unit::Seconds, Latency(counters.latency.clone()));
}

/// `offered` and the losses of ledgers, as `lost`, each with the labels of what it is of. What can't be read is left out.
pub fn ledgers<'a>(registry: &mut Registry, lost: &str, all: impl Iterator<Item = (Labels, &'a Ledger)> + Clone) {
    let offered = all.clone().filter_map(|(of, ledger)| Some((of, ledger.offered?)));
    registry.register("offered", "Packets that came, by the kernel's counters; left out while they can't be read", {
        labelled(offered)
    });
    let by_cause = all.flat_map(|(of, ledger)| {
        let with = move |cause: &str| [of.clone(), labels([("cause", cause)])].concat();
        ledger.drops.iter().filter_map(move |(cause, count)| Some((with(cause.name()), (*count)?)))
    });
    let help = "Packets lost before they were received, by cause; one that can't be read is left out";
    registry.register(lost, help, labelled(by_cause));
}

/// The text of all metrics.
#[must_use]
pub fn encoded(registry: &Registry) -> String {
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = encode(&mut out, registry);
    out
}

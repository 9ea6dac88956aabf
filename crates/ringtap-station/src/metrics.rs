//! `/metrics`: the account for Prometheus, in OpenMetrics text.
//!
//! Owns the names of metrics and one small HTTP thread. Meant for loopback; who binds it elsewhere shows the account to whoever asks.

use std::net::SocketAddr;
use std::sync::Arc;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use ringtap::histogram::HistogramSnapshot;
use ringtap::ledger::Ledger;
use ringtap::{Error, Result};

use crate::status::{Sources, Status};

/// A listening HTTP server.
pub(crate) struct Listener(tiny_http::Server);

/// Listens.
pub(crate) fn bind(address: SocketAddr) -> Result<Listener> {
    let server = tiny_http::Server::http(address)
        .map_err(|error| Error::failed("serve metrics at", address.to_string(), error))?;
    if !address.ip().is_loopback() {
        eprintln!("ringtap: metrics at {address} are open to whoever can reach this address");
    }
    Ok(Listener(server))
}

/// Starts the thread; it ends with the process.
pub(crate) fn start(listener: Listener, sources: Arc<Sources>) -> Result<()> {
    let serve = move || {
        for request in listener.0.incoming_requests() {
            let path = request.url().split('?').next().unwrap_or_default();
            let response = if path == "/metrics" {
                tiny_http::Response::from_string(text(&sources.status()))
            } else {
                tiny_http::Response::from_string("the metrics are at /metrics\n").with_status_code(404)
            };
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            let header = tiny_http::Header::from_bytes("Content-Type", kind);
            let response = match header {
                Ok(header) if path == "/metrics" => response.with_header(header),
                _ => response,
            };
            // Whoever asked may have gone.
            let _ = request.respond(response);
        }
    };
    std::thread::Builder::new()
        .name("ringtap-metrics".to_owned())
        .spawn(serve)
        .map(drop)
        .map_err(|error| Error::os("start the thread of", "the metrics", &error))
}

type Labelled = Family<Vec<(String, String)>, Counter>;

/// Upper edges of the buckets of latencies, nanoseconds; one more is open.
const EDGES_NS: [u64; 9] =
    [100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 50_000_000, 1_000_000_000];

/// A latency as a histogram of Prometheus's.
#[derive(Debug)]
struct Latency(HistogramSnapshot);

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

fn text(status: &Status) -> String {
    let mut registry = Registry::with_prefix("ringtap_trap");
    let mut counter = |name: &str, help: &str, value: u64| registry.register(name, help, ConstCounter::new(value));
    counter("delivered", "Datagrams that reached the station", status.ledger.delivered);
    counter("damaged", "Notifications whose varbinds could not all be read", status.damaged);
    counter("informs", "Informs among the notifications", status.informs);
    counter("stored", "Notifications on the disk", status.stored);
    counter("answered", "Answers and Reports sent", status.answered);
    counter("reports_withheld", "Reports due and not sent, as there were too many", status.reports_withheld);
    counter("table_full", "Notifications of conditions for which the table of alarms had no room", status.table_full);
    counter("clock_jumps", "Times the wall clock was set", status.clock_jumps);
    counter("announced", "Changes of alarms announced", status.announced);
    counter("not_told", "Announcements that an output could not take", status.not_told);
    if let Some(offered) = status.ledger.offered {
        counter("offered", "Datagrams that came for the station", offered);
    }
    if let Some(filtered) = status.ledger.filtered {
        counter("filtered", "Packets that nobody asked for", filtered);
    }
    let mut gauge = |name: &str, help: &str, value: i64| registry.register(name, help, ConstGauge::new(value));
    gauge("alarms", "Alarms in the table", status.alarms as i64);
    gauge("raised", "Alarms that are raised", status.raised as i64);
    gauge("waiting", "Datagrams received and not looked at yet", status.waiting as i64);
    gauge("not_stored_yet", "Notifications not in the store yet", status.not_stored_yet as i64);
    gauge("store_failing", "1 while the store can't be written", status.error.is_some().into());
    if let Some(unaccounted) = status.unaccounted() {
        gauge("unaccounted", "Datagrams that no counter explains", unaccounted);
    }
    by_interface(&mut registry, status);
    let mut family = |name: &str, help: &str, label: &str, values: Vec<(&str, u64)>| {
        let labelled = values.into_iter().map(|(value, count)| (vec![(label.to_owned(), value.to_owned())], count));
        registry.register(name, help, of_labels(labelled));
    };
    let drops = status.ledger.drops.iter().filter_map(|(cause, count)| Some((cause.name(), (*count)?))).collect();
    family("dropped", "Datagrams lost, by cause; one that can't be read is left out", "cause", drops);
    family("refused", "Datagrams that became no notification, by cause", "cause", status.causes.clone());
    let [v1, v2c, v3] = status.snmp;
    let kinds = vec![("snmp_v1", v1), ("snmp_v2c", v2c), ("snmp_v3", v3), ("syslog", status.syslog)];
    family("notifications", "Notifications taken, by kind", "kind", kinds);
    let mut histogram = |name: &str, help: &str, values: &HistogramSnapshot| {
        registry.register_with_unit(name, help, Unit::Seconds, Latency(values.clone()));
    };
    histogram("to_alarm", "From a notification's arrival to its alarm", &status.to_alarm);
    histogram("to_disk", "From arrival to the disk, of each commit's oldest notification", &status.to_disk);
    if let Some(bytes) = status.rss_bytes {
        registry.register_with_unit(
            "most_resident",
            "Most resident memory so far",
            Unit::Bytes,
            ConstGauge::new(bytes as i64),
        );
    }
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = encode(&mut out, &registry);
    out
}

fn of_labels(values: impl Iterator<Item = (Vec<(String, String)>, u64)>) -> Labelled {
    let family = Labelled::default();
    values.for_each(|(labels, count)| {
        family.get_or_create(&labels).inc_by(count);
    });
    family
}

/// What came by the interfaces whose packets a ring takes.
fn by_interface(registry: &mut Registry, status: &Status) {
    if status.interfaces.is_empty() {
        return;
    }
    let mut family = |name: &str, help: &str, of: fn(&Ledger) -> Option<u64>| {
        let known = status
            .interfaces
            .iter()
            .filter_map(|(name, ledger)| Some((vec![("interface".to_owned(), name.clone())], of(ledger)?)));
        registry.register(name, help, of_labels(known));
    };
    family("interface_offered", "Packets that came by an interface for the station", |ledger| ledger.offered);
    family("interface_delivered", "Of these, datagrams that reached the station", |ledger| Some(ledger.delivered));
    family("interface_filtered", "Of these, packets that nobody asked for", |ledger| ledger.filtered);
    let drops = status.interfaces.iter().flat_map(|(name, ledger)| {
        ledger.drops.iter().filter_map(move |(cause, count)| {
            let labels = vec![("interface".to_owned(), name.clone()), ("cause".to_owned(), cause.name().to_owned())];
            Some((labels, (*count)?))
        })
    });
    registry.register("interface_dropped", "Packets lost, by interface and cause", of_labels(drops));
}

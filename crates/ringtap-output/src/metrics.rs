//! Owns: `/metrics` for Prometheus: one small HTTP thread, and what metrics of all programs share.
//! Does not: know any program's metrics. Meant for loopback; who binds it elsewhere shows the account to whoever asks.

use std::net::SocketAddr;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use ringtap::histogram::HistogramSnapshot;
use ringtap::{Error, Result};

/// A listening HTTP server.
pub struct Listener(tiny_http::Server);

/// Listens.
///
/// # Errors
/// The address is taken or not ours.
pub fn bind(address: SocketAddr) -> Result<Listener> {
    let server = tiny_http::Server::http(address).map_err(|error| match error.downcast_ref::<std::io::Error>() {
        Some(error) => Error::os("serve metrics at", address.to_string(), error),
        None => Error::failed("serve metrics at", address.to_string(), error),
    })?;
    if !address.ip().is_loopback() {
        eprintln!("ringtap: metrics at {address} are open to whoever can reach this address");
    }
    Ok(Listener(server))
}

/// Starts the thread, which asks for the `text` of each answer; it ends with the process.
///
/// # Errors
/// There is no thread to be had.
pub fn start(listener: Listener, text: impl Fn() -> String + Send + 'static) -> Result<()> {
    let serve = move || {
        for request in listener.0.incoming_requests() {
            let path = request.url().split('?').next().unwrap_or_default();
            let response = if path == "/metrics" {
                tiny_http::Response::from_string(text())
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

/// Counters by their labels.
pub type Labelled = Family<Vec<(String, String)>, Counter>;

/// Counters with these labels and values.
pub fn labelled(values: impl Iterator<Item = (Vec<(String, String)>, u64)>) -> Labelled {
    let family = Labelled::default();
    values.for_each(|(labels, count)| {
        family.get_or_create(&labels).inc_by(count);
    });
    family
}

/// The text of all metrics.
#[must_use]
pub fn encoded(registry: &Registry) -> String {
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = encode(&mut out, registry);
    out
}

//! The account for Prometheus, in OpenMetrics text.
//!
//! Owns the names of the sensor's metrics; `ringtap-web` serves them.

use std::sync::PoisonError;

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use ringtap::histogram::HistogramSnapshot;
use ringtap_detect::Counters;
use ringtap_output::metrics::{Latency, encoded, labelled};

use crate::account::Shown;

/// Where a counter of the detectors is.
type Of = fn(&Counters) -> u64;

/// Such a counter: its name, what it counts, and where it is.
type Row = (&'static str, &'static str, Of);

/// The detectors' counters, all engines together.
const COUNTERS: &[Row] = &[
    ("packets", "Packets looked at", |counters| counters.packets),
    ("bytes", "Their bytes on the wire", |counters| counters.bytes),
    ("invalid", "Packets that could not be decoded to the end", |counters| counters.invalid),
    ("tunnelled", "Packets inside tunnels", |counters| counters.tunnelled),
    ("shed", "Packets not looked at, as others went first", |counters| counters.shed),
    ("passed", "Packets of flows that a pass rule let go", |counters| counters.passed),
    ("alerts", "Alerts", |counters| counters.alerts),
    ("suppressed", "Matches that a threshold or suppression kept in", |counters| counters.suppressed),
    ("alerts_over_bound", "Alerts beyond the bound of one packet", |counters| counters.alerts_over),
    ("budget_hits", "Times that rules were left out, as a packet had used its budget", |counters| counters.budget_hits),
    ("bad_checksums", "Segments with a wrong checksum", |counters| counters.bad_checksums),
    ("segments_discarded", "Segments that their receiver discards", |counters| counters.segments_discarded),
    ("segments_refused", "Segments for which there was no memory", |counters| counters.segments_refused),
    ("segments_disordered", "Segments looked at before what the other side had said before them", |counters| {
        counters.disordered
    }),
    ("early_steps", "Steps of the budget to put early segments and fragments in their places", |counters| {
        counters.early_steps
    }),
    ("waited_bytes", "Bytes of streams looked at behind the packet that brought them in order", |counters| {
        counters.waited_bytes
    }),
    ("backlog_pushes", "Times that what waits was given time though packets left none", |counters| {
        counters.backlog_pushes
    }),
    ("stream_gaps", "Gaps in streams", |counters| counters.gaps),
    ("stream_chunks", "Pieces of streams looked at", |counters| counters.chunks),
    ("side_chunks", "Pieces beside streams looked at", |counters| counters.side_chunks),
    ("flows_begun", "Flows begun", |counters| counters.flows.begun),
    ("flows_timed_out", "Flows ended by their time-out", |counters| counters.flows.timed_out),
    ("flows_without_handshake", "TCP flows that ended of whose handshake not all was seen", |counters| {
        counters.flows_without_handshake
    }),
    ("flows_one_sided", "TCP flows that ended of which one direction alone was seen", |counters| {
        counters.flows_one_sided
    }),
    ("values_left_out", "Values and records of messages for which there was no room", |counters| {
        counters.values_left_out
    }),
    ("fragments", "Fragments", |counters| counters.defrag.fragments),
    ("fragments_no_memory", "Fragments for which there was no memory", |counters| counters.defrag.no_memory),
    ("http_transactions", "HTTP requests with their responses", |counters| counters.http.transactions),
    ("http_refused_bytes", "Bytes of HTTP that were not kept", |counters| counters.http.refused_bytes),
    ("http_not_decoded", "Contents of HTTP whose coding was not decoded", |counters| counters.http.not_decoded),
];

/// What gave its place to another, by table.
const EVICTIONS: &[(&str, Of)] = &[
    ("flows", |counters| counters.flows.evicted),
    ("windows", |counters| counters.windows_evicted),
    ("fragmented", |counters| counters.defrag.evicted),
    ("http", |counters| counters.http.evicted),
    ("thresholds", |counters| counters.thresholds_evicted),
    ("host_bits", |counters| counters.host_bits_evicted),
    ("flow_ints", |counters| counters.flow_ints_evicted),
    ("datasets", |counters| counters.datasets_evicted),
    ("dialogs", |counters| counters.dialogs_evicted),
    ("handshakes", |counters| counters.handshakes_evicted),
    ("announced", |counters| counters.announced_evicted),
    ("tags", |counters| counters.tags_evicted),
];

pub(crate) fn text(shown: &Shown) -> String {
    let account = shown.account.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut registry = Registry::with_prefix("ringtap_sensor");
    let mut counter = |name: &str, help: &str, value: u64| registry.register(name, help, ConstCounter::new(value));
    for (name, help, of) in COUNTERS {
        counter(name, help, account.sum(of));
    }
    counter("records_lost", "Events lost because the queue to the outputs was full", account.records_lost);
    counter("lines_written", "Lines and notifications written", account.written);
    counter("lines_failed", "Lines and notifications that could not be written", account.failed);
    counter("reloads", "Times that rules were loaded again", account.reloads);
    if let Some(log) = &account.pcap_log {
        counter("pcap_log_packets", "Packets of flows with alerts written to the capture file", log.packets);
        counter("pcap_log_lost", "Packets of flows with alerts that could not be written", log.lost);
    }
    if let Some(ledger) = &account.ledger {
        counter("delivered", "Packets that reached a detector", ledger.delivered);
        ledger.offered.into_iter().for_each(|offered| counter("offered", "Packets that came for the sensor", offered));
        ledger.filtered.into_iter().for_each(|count| counter("filtered", "Packets that nobody asked for", count));
    }
    let mut gauge = |name: &str, help: &str, value: i64| registry.register(name, help, ConstGauge::new(value));
    gauge("flows", "Flows now", account.sum(|counters| counters.flows_now) as i64);
    let behind = account.sum(|counters| counters.flows_behind) as i64;
    gauge("flows_behind", "Flows now of which something waits to be looked at", behind);
    let early = account.sum(|counters| counters.early_bytes_now) as i64;
    gauge("early_bytes", "Bytes of early segments held now, in whole blocks", early);
    if let Some(rules) = account.rules {
        gauge("rules", "Rules in use", rules.rules as i64);
        gauge("rules_left_out", "Rules that are not used", rules.left_out as i64);
    }
    if let Some(unaccounted) = account.ledger.as_ref().and_then(ringtap::ledger::Ledger::unaccounted) {
        gauge("unaccounted", "Packets that no counter explains", unaccounted);
    }
    let one = |label: &str, value: &str| vec![(label.to_owned(), value.to_owned())];
    let evictions = EVICTIONS.iter().map(|(table, of)| (one("table", table), account.sum(of)));
    registry.register("evicted", "Entries of full tables that gave their place to others", labelled(evictions));
    if let Some(ledger) = &account.ledger {
        let drops = ledger.drops.iter().filter_map(|(cause, count)| Some((one("cause", cause.name()), (*count)?)));
        registry.register("dropped", "Packets lost, by cause; one that can't be read is left out", labelled(drops));
    }
    let (rules, others) = shown.by_rule.all();
    let rules = rules.into_iter().map(|(rule, count)| {
        (vec![("gid".to_owned(), rule.gid.to_string()), ("sid".to_owned(), rule.sid.to_string())], count)
    });
    registry.register("rule_alerts", "Alerts told, by rule: of the first thousand that had any", labelled(rules));
    registry.register("other_rule_alerts", "Alerts told of all other rules", ConstCounter::new(others));
    let blinded = prometheus_client::metrics::family::Family::<
        Vec<(String, String)>,
        prometheus_client::metrics::gauge::Gauge,
    >::default();
    for (condition, is_raised) in &account.conditions {
        blinded.get_or_create(&one("condition", condition)).set(i64::from(*is_raised));
    }
    registry.register("blinded", "1 while the sensor is being blinded in this way", blinded);
    let mut histogram = |name: &str, help: &str, values: &Option<HistogramSnapshot>| {
        if let Some(values) = values {
            registry.register_with_unit(name, help, Unit::Seconds, Latency(values.clone()));
        }
    };
    histogram("to_handling", "From a packet's arrival to its handling", &account.latency);
    histogram("to_alert", "From a packet's arrival to its alert", &account.detection);
    encoded(&registry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RuleKey;

    #[test]
    fn engines_are_summed_and_each_metric_has_one_type() {
        let shown = Shown::default();
        let engine = Counters { packets: 3, bad_checksums: 2, ..Counters::default() };
        {
            let mut account = shown.account.lock().unwrap();
            account.engines = vec![engine, engine];
            account.conditions = vec![("shed", true), ("lost", false)];
        }
        shown.by_rule.count(RuleKey { gid: 1, sid: 77, rev: 1 });
        let text = text(&shown);
        for line in [
            "ringtap_sensor_packets_total 6",
            "ringtap_sensor_bad_checksums_total 4",
            "ringtap_sensor_rule_alerts_total{gid=\"1\",sid=\"77\"} 1",
            "ringtap_sensor_blinded{condition=\"shed\"} 1",
            "ringtap_sensor_blinded{condition=\"lost\"} 0",
            "ringtap_sensor_evicted_total{table=\"flows\"} 0",
        ] {
            assert!(text.lines().any(|of| of == line), "{line}\n{text}");
        }
        let mut types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let count = types.len();
        types.sort_unstable();
        types.dedup();
        assert!(types.len() == count && text.ends_with("# EOF\n"), "{text}");
    }
}

//! The account for Prometheus, in OpenMetrics text.
//!
//! Owns the names of the forwarder's metrics; `ringtap-web` serves them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use ringtap::histogram::HistogramSnapshot;
use ringtap::ledger::Ledger;
use ringtap::meters::{EngineMeters, EngineSnapshot};
use ringtap_output::metrics::{Labels, Latency, encoded, engines, labelled, labels, ledgers};
use ringtap_run::units::grouped;
use ringtap_web::View;

use super::report::{Facts, Look};
use crate::counts::Cause;

/// What was seen last, for whoever asks.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) facts: Facts,
    now: Mutex<Option<Arc<Now>>>,
}

/// One look.
#[derive(Debug)]
pub(crate) struct Now {
    pub(crate) look: Look,
    pub(crate) at: Instant,
    /// What each engine's thread has used; `None`: can't be read.
    pub(crate) engine_cpu: Vec<Option<Duration>>,
}

impl Shown {
    pub(crate) fn new(facts: Facts) -> Self {
        Self { facts, now: Mutex::default() }
    }

    pub(crate) fn show(&self, now: Now) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(now));
    }

    /// Whoever reads it holds up nobody.
    fn latest(&self) -> Option<Arc<Now>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl View for Shown {
    fn program(&self) -> &'static str {
        "forward"
    }

    fn object(&self) -> String {
        self.facts.wire()
    }

    fn now(&self) -> ringtap_web::Now {
        let Some(now) = self.latest() else { return ringtap_web::Now { what: "Packets", ..Default::default() } };
        let look = &now.look;
        let down = self.facts.names.iter().zip(look.up).filter(|(_, is_up)| *is_up == Some(false));
        let down = down.map(|(name, _)| format!("{name} is down."));
        // What was received and not sent; the ledger is of the reception.
        let unsent = look.tallies.iter().enumerate().flat_map(|(at, tally)| {
            let (from, to) = self.facts.ends(at);
            let causes = Cause::ALL.iter().map(|(cause, name)| (name, tally.output.lost_by(*cause)));
            causes
                .filter(|(_, count)| *count > 0)
                .map(move |(name, count)| (format!("{from} → {to}: {name}"), Some(count)))
        });
        let of_devices = self.facts.names.iter().zip(look.device_dropped);
        let of_devices = of_devices.filter_map(|(name, count)| Some((name, count.filter(|count| *count > 0)?)));
        let of_devices = of_devices.map(|(name, count)| {
            format!("{name} dropped {} packets on the way out, by whomever they were sent.", grouped(count))
        });
        let sent = look.tallies.iter().map(|tally| tally.output.packets).sum();
        let inside = look.tallies.iter().map(|tally| tally.inside.clone()).reduce(|all, one| all.merged(&one));
        let latencies = [("handled", Some(look.latency())), ("sent", inside)];
        ringtap_web::Now {
            at: Some(now.at),
            what: "Packets",
            count: look.received(),
            latencies: latencies.into_iter().filter_map(|(name, values)| Some((name, values?))).collect(),
            engine_cpu: now.engine_cpu.iter().copied().sum::<Option<Duration>>(),
            faults: down.chain(of_devices).collect(),
            lost_behind: unsent.collect(),
            facts: vec![("Sent", grouped(sent))],
            ledger: look.ledgers.iter().cloned().reduce(Ledger::plus),
        }
    }

    fn metrics(&self) -> String {
        let mut registry = Registry::with_prefix("ringtap_forward");
        if let Some(now) = self.latest() {
            directions(&mut registry, &self.facts, &now.look);
            ports(&mut registry, &self.facts, &now.look);
            let counters = EngineSnapshot::sum(&now.look.counters);
            engines(&mut registry, &counters.unwrap_or_else(|| EngineMeters::default().snapshot()), &now.engine_cpu);
        }
        encoded(&registry)
    }
}

fn directions(registry: &mut Registry, facts: &Facts, look: &Look) {
    let wire = |direction: usize| {
        let (from, to) = facts.ends(direction);
        labels([("from", from), ("to", to)])
    };
    let with = |direction: usize, cause: &str| [wire(direction), labels([("cause", cause)])].concat();
    let each = || look.tallies.iter().enumerate();
    let mut counter = |name: &str, help: &str, values: &mut dyn Iterator<Item = (Labels, u64)>| {
        registry.register(name, help, labelled(values));
    };
    counter("received", "Packets that came by an interface", &mut each().map(|(at, tally)| (wire(at), tally.received)));
    counter("received_bytes", "Their bytes on the wire", &mut each().map(|(at, tally)| (wire(at), tally.bytes)));
    let forwarded = each().map(|(at, tally)| (wire(at), tally.output.packets));
    counter("forwarded", "Packets handed to the other interface's device", &mut { forwarded });
    // No file is written.
    let causes = Cause::ALL.iter().filter(|(cause, _)| !matches!(cause, Cause::SlowOutput | Cause::OutputFailed));
    let dropped = each()
        .flat_map(|(at, tally)| causes.clone().map(move |(cause, name)| (at, *name, tally.output.lost_by(*cause))));
    let dropped = dropped.map(|(at, name, count)| (with(at, name), count));
    counter("dropped", "Packets received and not forwarded, by cause", &mut { dropped });
    let beyond = each().map(|(at, tally)| (wire(at), tally.beyond));
    counter("beyond_count", "Packets that came when as many as asked for had been forwarded", &mut { beyond });
    let completed = each().map(|(at, tally)| (wire(at), tally.output.completed));
    counter("checksums_completed", "Packets whose checksum was completed", &mut { completed });
    let invalid = each().map(|(at, _)| (wire(at), look.invalid_completions(at)));
    counter("invalid_completions", "Frames given back as sent that were not out", &mut { invalid });
    ledgers(registry, "lost_before", look.ledgers.iter().enumerate().map(|(at, ledger)| (wire(at), ledger)));
    let inside = each().map(|(at, tally)| (wire(at), tally.inside.clone())).collect();
    let help = "From a packet's arrival until the system call that handed it over has returned";
    registry.register_with_unit("time_inside", help, Unit::Seconds, LatencyBy(inside));
}

fn ports(registry: &mut Registry, facts: &Facts, look: &Look) {
    let name = |port: usize| labels([("interface", &facts.names[port])]);
    let up = Family::<Labels, Gauge>::default();
    for (port, is_up) in look.up.into_iter().enumerate() {
        let Some(is_up) = is_up else { continue };
        up.get_or_create(&name(port)).set(i64::from(is_up));
    }
    registry.register("up", "1 while an interface is up and has a carrier", up);
    let dropped = look.device_dropped.iter().enumerate();
    let dropped = dropped.filter_map(|(port, count)| Some((name(port), (*count)?)));
    registry.register(
        "device_dropped",
        "What a device dropped on the way out, by whomever it was sent",
        labelled(dropped),
    );
}

/// A latency for each set of labels.
#[derive(Debug)]
struct LatencyBy(Vec<(Labels, HistogramSnapshot)>);

impl EncodeMetric for LatencyBy {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(labels, values)| Latency(values.clone()).encode(encoder.encode_family(labels)?))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use ringtap::ledger::Cause as InputCause;

    use super::*;
    use crate::forward::accounts::{LaneCounts, Tally};

    #[test]
    fn each_direction_and_cause_is_told_and_each_metric_has_one_type() {
        let lanes = [LaneCounts::default(), LaneCounts::default()];
        lanes[0].port.forward(1, 60);
        lanes[1].port.drop(Cause::RingFull);
        lanes[1].inside.record(300_000);
        let mut ledger = Ledger { offered: Some(7), ..Ledger::default() };
        ledger.drop(InputCause::Nic, None);
        ledger.drop(InputCause::RingFull, Some(4));
        let look = Look {
            elapsed: Duration::from_secs(1),
            tallies: lanes.iter().map(|lane| Tally::of([lane])).collect(),
            ledgers: vec![ledger, Ledger::default()],
            counters: vec![EngineMeters::default().snapshot(), EngineMeters::default().snapshot()],
            device_dropped: [Some(3), None],
            up: [Some(true), Some(false)],
        };
        let names = ["a0".to_owned(), "b0".to_owned()];
        let shown = Shown::new(Facts { names, directions: 2, lends: true, sources: Vec::new() });
        assert_eq!(shown.metrics(), "# EOF\n", "nothing was seen yet");
        shown.show(Now { at: Instant::now(), look, engine_cpu: vec![Some(Duration::from_millis(1500)), None] });
        let text = shown.metrics();
        for line in [
            "ringtap_forward_forwarded_total{from=\"a0\",to=\"b0\"} 1",
            "ringtap_forward_dropped_total{from=\"b0\",to=\"a0\",cause=\"ring_full\"} 1",
            "ringtap_forward_lost_before_total{from=\"a0\",to=\"b0\",cause=\"ring_full\"} 4",
            "ringtap_forward_offered_total{from=\"a0\",to=\"b0\"} 7",
            "ringtap_forward_device_dropped_total{interface=\"a0\"} 3",
            "ringtap_forward_up{interface=\"b0\"} 0",
            "ringtap_forward_engine_cpu_seconds_total{engine=\"0\"} 1.5",
            "ringtap_forward_time_inside_seconds_count{from=\"b0\",to=\"a0\"} 1",
            "ringtap_forward_time_inside_seconds_bucket{le=\"0.0005\",from=\"b0\",to=\"a0\"} 1",
        ] {
            assert!(text.lines().any(|of| of == line), "{line}\n{text}");
        }
        for unknown in
            ["cause=\"nic\"", "device_dropped_total{interface=\"b0\"", "engine=\"1\"", "offered_total{from=\"b0\""]
        {
            assert!(!text.contains(unknown), "{unknown}\n{text}");
        }
        let mut types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let count = types.len();
        types.sort_unstable();
        types.dedup();
        assert!(types.len() == count && text.ends_with("# EOF\n"), "{text}");
    }
}

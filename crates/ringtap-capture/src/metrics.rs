//! The account for Prometheus, in OpenMetrics text.
//!
//! Owns the names of the capture's metrics; `ringtap-web` serves them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use ringtap::interface::InterfaceState;
use ringtap::ledger::Ledger;
use ringtap_output::metrics::{Labels, encoded, engines, labelled, labels, ledgers};
use ringtap_run::units::grouped;
use ringtap_web::{View, interface_faults};

use crate::accounts::Tally;
use crate::supervise::Look;

/// How often what is shown is looked at.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// What was seen last, for whoever asks.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Of the interfaces.
    names: Vec<String>,
    now: Mutex<Option<Arc<Now>>>,
}

/// One look.
#[derive(Debug)]
struct Now {
    look: Look,
    /// What each engine's thread has used; `None`: can't be read.
    engine_cpu: Vec<Option<Duration>>,
    /// Interfaces that are up.
    up: Vec<bool>,
    /// What is wrong with interfaces.
    faults: Vec<String>,
}

impl Shown {
    /// Nothing yet of these interfaces.
    pub(crate) fn new(names: &[String]) -> Self {
        Self { names: names.to_vec(), now: Mutex::default() }
    }

    /// Shows a look; `states` are of the interfaces that have not ended.
    pub(crate) fn show(&self, look: Look, engine_cpu: Vec<Option<Duration>>, states: &[(&str, InterfaceState)]) {
        let is_up = |name: &String| states.iter().any(|(known, state)| known == name && *state == InterfaceState::Up);
        let up = self.names.iter().map(is_up).collect();
        let faults = interface_faults(&self.names, states);
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(Now { look, engine_cpu, up, faults }));
    }

    /// Whoever reads it holds up nobody.
    fn latest(&self) -> Option<Arc<Now>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn interfaces(&self, registry: &mut Registry, now: &Now) {
        let of = |name: &String| labels([("interface", name)]);
        let each = || self.names.iter().zip(&now.look.devices);
        let mut counter = |name: &str, help: &str, value: fn(&(Tally, Ledger)) -> Option<u64>| {
            let values = each().filter_map(|(name, device)| Some((of(name), value(device)?)));
            registry.register(name, help, labelled(values));
        };
        counter("delivered", "Packets that were handled", |(_, ledger)| Some(ledger.delivered));
        counter("bytes", "Their bytes on the wire", |(tally, _)| Some(tally.bytes));
        counter("filtered", "Packets that the filter left out; left out where that is not known", |(_, ledger)| {
            ledger.filtered
        });
        counter("cut", "Packets that came shorter than on the wire", |(_, ledger)| Some(ledger.cut));
        ledgers(registry, "dropped", each().map(|(name, (_, ledger))| (of(name), ledger)));
        let (up, unaccounted) = (Family::<Labels, Gauge>::default(), Family::<Labels, Gauge>::default());
        for ((name, (_, ledger)), is_up) in each().zip(&now.up) {
            up.get_or_create(&of(name)).set(i64::from(*is_up));
            if let Some(count) = ledger.unaccounted() {
                unaccounted.get_or_create(&of(name)).set(count);
            }
        }
        registry.register("up", "1 while an interface is up and has a carrier", up);
        let help = "Offered packets that are neither handled nor lost by a known cause; below 0: more were handled";
        registry.register("unaccounted", help, unaccounted);
    }
}

impl View for Shown {
    fn program(&self) -> &'static str {
        "capture"
    }

    fn object(&self) -> String {
        self.names.join(", ")
    }

    fn metrics(&self) -> String {
        let mut registry = Registry::with_prefix("ringtap_capture");
        if let Some(now) = self.latest() {
            self.interfaces(&mut registry, &now);
            recording(&mut registry, &now.look);
            engines(&mut registry, &now.look.counters, &now.engine_cpu);
        }
        encoded(&registry)
    }

    fn now(&self) -> ringtap_web::Now {
        let Some(now) = self.latest() else { return ringtap_web::Now { what: "Packets", ..Default::default() } };
        let written = now.look.written.map(|(packets, _)| ("Written", grouped(packets)));
        ringtap_web::Now {
            at: Some(now.look.at),
            lost_behind: Vec::new(),
            what: "Packets",
            count: now.look.ledger.offered.unwrap_or(now.look.ledger.delivered + now.look.ledger.lost()),
            latencies: vec![("handled", now.look.counters.latency.clone())],
            engine_cpu: now.engine_cpu.iter().copied().sum::<Option<Duration>>(),
            faults: now.faults.clone(),
            facts: written.into_iter().collect(),
            ledger: Some(now.look.ledger.clone()),
        }
    }
}

fn recording(registry: &mut Registry, look: &Look) {
    let Some((packets, bytes)) = look.written else { return };
    registry.register("written", "Packets written to the recording", ConstCounter::new(packets));
    registry.register("written_bytes", "Bytes written to the recording", ConstCounter::new(bytes));
}

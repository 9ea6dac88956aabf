//! Owns: what a running sensor shows to whoever looks at its page: its account, and the latest alerts.
//! Does not: serve it, or draw it (`ringtap-web`).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ringtap_output::Severity;
use ringtap_run::units::{grouped, shown_time};
use ringtap_web::{Cell, Figures, Table, View};

use crate::account::Shown;
use crate::catalogue::Catalogue;
use crate::metrics;
use crate::outputs::severity;
use crate::record::{AlertRecord, RuleKey};

/// Alerts that are kept for the page.
const KEPT: usize = 200;

/// The latest alerts.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    /// Nothing is kept until somebody may look.
    is_wanted: bool,
    alerts: Mutex<(VecDeque<Alert>, u64)>,
}

/// What the page says of an alert.
#[derive(Debug)]
struct Alert {
    time_ns: u64,
    rule: RuleKey,
    severity: Severity,
    signature: String,
    from: SocketAddr,
    to: SocketAddr,
    protocol: u8,
}

impl Latest {
    pub(crate) fn wanted(is_wanted: bool) -> Self {
        Self { is_wanted, ..Self::default() }
    }

    /// Keeps one: by the output thread alone.
    pub(crate) fn keep(&self, alert: &AlertRecord, catalogue: &Catalogue) {
        if !self.is_wanted {
            return;
        }
        let place = &alert.place;
        let kept = Alert {
            time_ns: alert.time_ns,
            rule: alert.rule,
            severity: severity(alert.severity),
            signature: catalogue.find(alert.rule).map(|text| text.signature.clone()).unwrap_or_default(),
            from: SocketAddr::new(place.source, place.ports.0),
            to: SocketAddr::new(place.destination, place.ports.1),
            protocol: place.protocol,
        };
        let (alerts, all) = &mut *self.alerts.lock().unwrap_or_else(PoisonError::into_inner);
        *all += 1;
        alerts.truncate(KEPT - 1);
        alerts.push_front(kept);
    }

    fn table(&self) -> Table {
        let (alerts, all) = &*self.alerts.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |alert: &Alert| {
            let RuleKey { gid, sid, rev } = alert.rule;
            // Without ports where the protocol has none.
            let end = |end: &SocketAddr| if end.port() == 0 { end.ip().to_string() } else { end.to_string() };
            let name = match alert.protocol {
                1 => "ICMP".to_owned(),
                6 => "TCP".to_owned(),
                17 => "UDP".to_owned(),
                58 => "ICMPv6".to_owned(),
                other => format!("IP {other}"),
            };
            vec![
                shown_time(alert.time_ns).into(),
                alert.severity.into(),
                Cell::from(alert.signature.clone()),
                format!("{} → {}", end(&alert.from), end(&alert.to)).into(),
                name.into(),
                format!("{gid}:{sid}:{rev}").into(),
            ]
        };
        let note = match all {
            0 => Some("none so far".to_owned()),
            all if *all > KEPT as u64 => Some(format!("the latest {KEPT} of {}", grouped(*all))),
            _ => None,
        };
        Table {
            id: "alerts",
            title: "Latest alerts".to_owned(),
            columns: &["Time", "Severity", "Signature", "From, to", "Protocol", "Rule"],
            rows: alerts.iter().map(row).collect(),
            note,
        }
    }
}

/// A running sensor's page.
pub(crate) struct Page {
    pub(crate) shown: Arc<Shown>,
    pub(crate) interfaces: String,
}

impl View for Page {
    fn program(&self) -> &'static str {
        "sensor"
    }

    fn object(&self) -> String {
        self.interfaces.clone()
    }

    fn metrics(&self) -> String {
        metrics::text(&self.shown)
    }

    fn faults(&self, figures: &Figures) -> Vec<String> {
        let conditions = figures.family("blinded").into_iter().flat_map(|family| &family.samples);
        let raised = conditions.filter(|sample| sample.value > 0.0);
        let named = raised.flat_map(|sample| &sample.labels).map(|(_, condition)| condition);
        named.map(|condition| format!("The sensor is being blinded: {condition}.")).collect()
    }

    fn lists(&self) -> Vec<Table> {
        vec![self.shown.latest.table()]
    }
}

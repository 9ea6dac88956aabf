//! Owns: what a running sensor shows to whoever looks at its page: its account, and the latest alerts.
//! Does not: serve it, or draw it (`ringtap-web`).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ringtap_output::Severity;
use ringtap_run::units::{grouped, shown_time};
use ringtap_web::{Cell, Now, Table, View};

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
    /// Nobody may look: nothing is kept.
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

    fn now(&self) -> Now {
        let account = self.shown.account.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let blinded = account.conditions.iter().filter(|(_, is_raised)| *is_raised);
        let blinded = blinded.map(|(condition, _)| format!("The sensor is being blinded: {condition}."));
        let lost = [
            (account.records_lost, "events were lost, as the queue to the outputs was full"),
            (account.failed, "lines and notifications could not be written"),
            (account.pcap_log.as_ref().map_or(0, |log| log.lost), "packets of flows with alerts could not be written"),
        ];
        let lost = lost.into_iter().filter(|(count, _)| *count > 0);
        let lost = lost.map(|(count, what)| format!("{} {what}.", grouped(count)));
        let latencies = [("handled", &account.latency), ("alert told", &account.detection)];
        Now {
            at: account.at,
            lost_behind: Vec::new(),
            what: "Packets",
            count: account
                .ledger
                .as_ref()
                .map_or(0, |ledger| ledger.offered.unwrap_or(ledger.delivered + ledger.lost())),
            latencies: latencies.into_iter().filter_map(|(name, values)| Some((name, values.clone()?))).collect(),
            engine_cpu: None,
            faults: account.faults.iter().cloned().chain(blinded).chain(lost).collect(),
            facts: vec![
                ("Alerts", grouped(account.sum(|counters| counters.alerts))),
                ("Flows", grouped(account.sum(|counters| counters.flows_now))),
            ],
            ledger: account.ledger,
        }
    }

    fn lists(&self) -> Vec<Table> {
        vec![self.shown.latest.table()]
    }
}

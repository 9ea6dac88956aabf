//! The account for Prometheus, in OpenMetrics text.
//!
//! Owns the names of the station's metrics; `ringtap-web` serves them.

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use ringtap::histogram::HistogramSnapshot;
use ringtap::ledger::Ledger;
use ringtap_output::metrics::{Latency, encoded, labelled};

use crate::status::{Forward, Posts, Status};

pub(crate) fn text(status: &Status) -> String {
    let mut registry = Registry::with_prefix("ringtap_trap");
    let mut counter = |name: &str, help: &str, value: u64| registry.register(name, help, ConstCounter::new(value));
    counter("delivered", "Datagrams that reached the station", status.ledger.delivered);
    counter("damaged", "Notifications whose varbinds could not all be read", status.damaged);
    counter("informs", "Informs among the notifications", status.informs);
    counter("stored", "Notifications on the disk", status.stored);
    counter("answered", "Answers and Reports sent", status.answered);
    counter("reports_withheld", "Reports due and not sent, as there were too many", status.reports_withheld);
    counter("table_full", "Notifications of conditions for which the table of alarms had no room", status.table_full);
    counter("share_full", "Notifications of strangers who had all alarms that they may", status.share_full);
    counter("not_authentic", "Notifications of alarms that something more authentic raised", status.not_authentic);
    counter("clock_jumps", "Times the wall clock was set", status.clock_jumps);
    counter("forward_lost", "Notifications for other managers that found no room", status.forward_lost);
    counter("announced", "Changes of alarms announced", status.announced);
    counter("not_told", "Announcements that an output could not take", status.not_told);
    let causes = &status.root_cause;
    counter("incidents_announced", "Incidents of root cause announced, revisions counted", causes.told);
    counter("transients", "Alarms cleared while they were held, and so never announced", causes.transients);
    counter("unexamined", "Alarms that root cause had no room for; announced by themselves", causes.unexamined);
    counter("storms", "Storms of alarms", causes.storms);
    if let Some(offered) = status.ledger.offered {
        counter("offered", "Datagrams that came for the station", offered);
    }
    if let Some(filtered) = status.ledger.filtered {
        counter("filtered", "Packets that nobody asked for", filtered);
    }
    counter("not_ours", "Packets of rings for other hosts, or in fragments", status.not_ours);
    let mut gauge = |name: &str, help: &str, value: i64| registry.register(name, help, ConstGauge::new(value));
    gauge("alarms", "Alarms in the table", status.alarms as i64);
    gauge("incidents", "Open incidents of root cause", causes.incidents as i64);
    gauge("held", "Alarms held until their cause is decided", causes.held as i64);
    gauge("raised", "Alarms that are raised", status.raised as i64);
    gauge("waiting", "Datagrams received and not looked at yet", status.waiting as i64);
    gauge("not_stored_yet", "Notifications not in the store yet", status.not_stored_yet as i64);
    gauge("store_failing", "1 while the store can't be written", status.error.is_some().into());
    if let Some(unaccounted) = status.unaccounted() {
        gauge("unaccounted", "Datagrams that no counter explains", unaccounted);
    }
    by_interface(&mut registry, status);
    let mut family = |name: &str, help: &str, label: &str, values: Vec<(&str, u64)>| {
        let values = values.into_iter().map(|(value, count)| (vec![(label.to_owned(), value.to_owned())], count));
        registry.register(name, help, labelled(values));
    };
    let drops = status.ledger.drops.iter().filter_map(|(cause, count)| Some((cause.name(), (*count)?))).collect();
    family("dropped", "Datagrams lost, by cause; one that can't be read is left out", "cause", drops);
    family("refused", "Datagrams that became no notification, by cause", "cause", status.causes.clone());
    let [v1, v2c, v3] = status.snmp;
    let kinds = vec![("snmp_v1", v1), ("snmp_v2c", v2c), ("snmp_v3", v3), ("syslog", status.syslog)];
    family("notifications", "Notifications taken, by kind", "kind", kinds);
    sent_on(&mut registry, status);
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
    encoded(&registry)
}

/// What others got by POST and as notifications.
fn sent_on(registry: &mut Registry, status: &Status) {
    let mut family = |name: &str, help: &str, label: &str, values: Vec<(&str, u64)>| {
        let values = values.into_iter().map(|(value, count)| (vec![(label.to_owned(), value.to_owned())], count));
        registry.register(name, help, labelled(values));
    };
    if !status.forwards.is_empty() {
        let to: Vec<String> = status.forwards.iter().map(|it| it.to.to_string()).collect();
        let mut forwards = |name: &str, help: &str, of: fn(&Forward) -> u64| {
            let values = to.iter().zip(&status.forwards).map(|(to, it)| (to.as_str(), of(it))).collect();
            family(name, help, "to", values);
        };
        forwards("forwarded", "Notifications sent on to another manager", |it| it.sent);
        forwards("forward_failed", "Notifications for another manager that the kernel did not send", |it| it.failed);
    }
    let mut posts = |name: &str, help: &str, of: fn(&Posts) -> u64| {
        family(name, help, "receiver", status.posts.iter().map(|(receiver, it)| (*receiver, of(it))).collect());
    };
    if !status.posts.is_empty() {
        posts("posted", "Announcements that a receiver took", |it| it.posted);
        posts("post_refused", "Announcements that a receiver refused for good", |it| it.refused);
        posts("post_lost", "Announcements gone from the store before a receiver took them", |it| it.lost);
    }
    for (receiver, it) in &status.posts {
        let help = format!("Announcements in the store that {receiver} has not taken yet");
        registry.register(format!("{receiver}_waiting"), help, ConstGauge::new(it.waiting as i64));
    }
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
        registry.register(name, help, labelled(known));
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
    registry.register("interface_dropped", "Packets lost, by interface and cause", labelled(drops));
}

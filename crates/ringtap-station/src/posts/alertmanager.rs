//! Alarms and incidents as alerts of Prometheus' Alertmanager (its API version 2, `POST /api/v2/alerts`).
//!
//! Owns what an alarm is there: its labels, and when it begins and ends. Alertmanager takes an alert as over when nobody tells of it for a
//! while, so those that are raised are told again and again; each says until when it counts, four times as long as between two tellings
//! (as Prometheus does), so one that was missed, or a station that is gone, does no harm.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use ringtap::clock;
use ringtap_output::http::{Http, Posted};
use ringtap_output::time::utc_micros;
use serde_json::{Value as Json, json};

use super::{BATCH, Receiver};

/// So many tellings may be missed before an alert is over.
const MISSED: u32 = 4;
/// Alerts that are told again, at most: some 1 KB each.
const MOST: usize = 100_000;

/// Labels of an alert: what it is known by.
type Labels = BTreeMap<String, String>;

/// An alert that is not over.
#[derive(Debug, Clone, PartialEq)]
struct Alert {
    labels: Labels,
    annotations: Labels,
    since_ns: u64,
}

/// What an alert is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Alarm(u64),
    Incident(u64),
}

/// An Alertmanager.
pub(crate) struct Alertmanager {
    http: Http,
    /// Labels that each alert gets.
    labels: Labels,
    resend: Duration,
    active: HashMap<Of, Alert>,
    /// When all that is not over was told last, and what is left of this time's.
    last: Option<Instant>,
    to_tell: Vec<Of>,
}

impl Alertmanager {
    /// Beginning with what is raised: announcements of it, as JSON.
    pub(crate) fn new(http: Http, labels: Labels, resend: Duration, raised: impl Iterator<Item = Json>) -> Self {
        let mut this = Self { http, labels, resend, active: HashMap::new(), last: None, to_tell: Vec::new() };
        for announcement in raised {
            this.enter(&announcement);
        }
        this
    }

    /// Where to post of the Alertmanager at this URL.
    pub(crate) fn url(base: &str) -> String {
        format!("{}/api/v2/alerts", base.trim_end_matches('/'))
    }

    /// Enters an announcement; gives what is to be posted of it.
    fn enter(&mut self, announcement: &Json) -> Vec<Json> {
        let Some((of, alert, ended_ns)) = read(announcement, &self.labels) else { return Vec::new() };
        let before = self.active.remove(&of);
        let mut posts = Vec::new();
        // It is another alert then: its severity or its cause is another one.
        if let Some(before) = before.filter(|before| before.labels != alert.labels) {
            posts.push(told(&before, clock::realtime_ns().max(before.since_ns)));
        }
        match ended_ns {
            Some(at_ns) => posts.push(told(&alert, at_ns.max(alert.since_ns))),
            None => {
                posts.push(told(&alert, self.until_ns()));
                if self.active.len() < MOST {
                    self.active.insert(of, alert);
                }
            }
        }
        posts
    }

    /// Until when what is told now counts.
    fn until_ns(&self) -> u64 {
        clock::realtime_ns().saturating_add((self.resend * MISSED).as_nanos() as u64)
    }

    fn send(&self, alerts: &[Json]) -> Posted {
        if alerts.is_empty() {
            return Posted::Taken;
        }
        self.http.post(&Json::from(alerts).to_string())
    }
}

impl Receiver for Alertmanager {
    fn name(&self) -> &'static str {
        "alertmanager"
    }

    fn place(&self) -> String {
        self.http.name()
    }

    fn post(&mut self, batch: &[(u64, String)]) -> Posted {
        let mut alerts = Vec::new();
        for (_, text) in batch {
            let announcement: Json = serde_json::from_str(text).unwrap_or_default();
            alerts.extend(self.enter(&announcement));
        }
        self.send(&alerts)
    }

    fn rest(&mut self) -> Option<Posted> {
        if self.to_tell.is_empty() && self.last.is_none_or(|last| last.elapsed() >= self.resend) {
            self.to_tell = self.active.keys().copied().collect();
            self.last = Some(Instant::now());
        }
        let first = self.to_tell.len().saturating_sub(BATCH);
        let until_ns = self.until_ns();
        let alerts: Vec<Json> =
            self.to_tell[first..].iter().filter_map(|of| Some(told(self.active.get(of)?, until_ns))).collect();
        if alerts.is_empty() {
            self.to_tell.clear();
            return None;
        }
        let posted = self.send(&alerts);
        if posted == Posted::Taken {
            self.to_tell.truncate(first);
        }
        Some(posted)
    }
}

/// An alert that counts until then, as Alertmanager takes it.
fn told(alert: &Alert, until_ns: u64) -> Json {
    let time = |ns: u64| format!("{}Z", utc_micros(ns));
    json!({
        "labels": alert.labels, "annotations": alert.annotations,
        "startsAt": time(alert.since_ns), "endsAt": time(until_ns),
    })
}

/// What an announcement says; with when it was over, if it is.
fn read(announcement: &Json, labels: &Labels) -> Option<(Of, Alert, Option<u64>)> {
    let text = |name: &str| announcement[name].as_str().filter(|text| !text.is_empty());
    let number = |name: &str| announcement[name].as_u64();
    let mut alert = Alert { labels: labels.clone(), annotations: Labels::new(), since_ns: 0 };
    let mut label = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            alert.labels.insert(name.to_owned(), value.to_owned());
        }
    };
    // An incident's number is a text, as the correlator's are.
    if let Some(event) = text("event") {
        let id = text("id")?.parse().ok()?;
        let root = announcement["class"][0].as_str();
        label("alertname", text("rule"));
        label("instance", root);
        label("severity", text("level"));
        label("incident", text("id"));
        alert.annotations.insert("summary".to_owned(), text("title").unwrap_or_default().to_owned());
        alert.annotations.insert("alarms".to_owned(), number("matches").unwrap_or(0).to_string());
        alert.since_ns = number("opened_ns")?;
        let ended_ns = (event == "closed").then(|| number("closed_ns").unwrap_or_else(clock::realtime_ns));
        return Some((Of::Incident(id), alert, ended_ns));
    }
    let condition = text("condition_name").or(text("condition"))?;
    label("alertname", Some(condition));
    label("instance", text("resource"));
    label("object", text("object"));
    label("severity", text("severity"));
    let of = text("object").map_or(String::new(), |object| format!(" {object}"));
    let summary = format!("{condition}{of} of {}", text("resource").unwrap_or_default());
    alert.annotations.insert("summary".to_owned(), summary);
    for name in ["event_type", "probable_cause"] {
        alert.annotations.extend(text(name).map(|value| (name.to_owned(), value.to_owned())));
    }
    alert.annotations.insert("alarm".to_owned(), number("id")?.to_string());
    let changed_ns = number("changed_ns")?;
    let is_over = announcement["cleared"].as_bool()?;
    alert.since_ns = if is_over { number("first_ns")?.min(changed_ns) } else { changed_ns };
    Some((Of::Alarm(number("id")?), alert, is_over.then_some(changed_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn alertmanager(raised: Vec<Json>) -> Alertmanager {
        let http = Http::new("http://127.0.0.1:9/", None, None).unwrap();
        let labels = Labels::from([("site".to_owned(), "north".to_owned())]);
        Alertmanager::new(http, labels, Duration::from_secs(60), raised.into_iter())
    }

    fn alarm(severity: &str, cleared: bool, changed_ns: u64) -> Json {
        json!({
            "id": 7, "resource": "192.0.2.1", "condition": "linkDown", "object": "3", "severity": severity, "cleared": cleared,
            "event_type": "communicationsAlarm", "probable_cause": null, "first_ns": 5 * S, "changed_ns": changed_ns,
        })
    }

    #[test]
    fn an_alarm_is_an_alert_from_when_it_was_raised_until_it_is_cleared() {
        let mut it = alertmanager(Vec::new());
        let posts = it.enter(&alarm("major", false, 5 * S));
        let labels = json!({
            "alertname": "linkDown", "instance": "192.0.2.1", "object": "3", "severity": "major", "site": "north",
        });
        assert_eq!((posts.len(), &posts[0]["labels"]), (1, &labels));
        assert_eq!(posts[0]["startsAt"], "1970-01-01T00:00:05.000000Z");
        assert_eq!(posts[0]["annotations"]["summary"], "linkDown 3 of 192.0.2.1");
        assert!(posts[0]["endsAt"].as_str().unwrap() > "2020", "it counts for a while: {}", posts[0]);
        let over = it.enter(&alarm("major", true, 9 * S));
        assert_eq!((over.len(), &over[0]["labels"]), (1, &labels));
        assert_eq!(over[0]["endsAt"], "1970-01-01T00:00:09.000000Z");
        assert!(it.active.is_empty());
    }

    #[test]
    fn another_severity_is_another_alert_and_the_one_before_is_over() {
        let mut it = alertmanager(vec![alarm("major", false, 5 * S)]);
        let posts = it.enter(&alarm("critical", false, 6 * S));
        let severities: Vec<&str> = posts.iter().map(|post| post["labels"]["severity"].as_str().unwrap()).collect();
        assert_eq!((severities, it.active.len()), (vec!["major", "critical"], 1));
        assert!(posts[0]["endsAt"].as_str() < posts[1]["endsAt"].as_str());
    }

    #[test]
    fn an_incident_is_an_alert_too() {
        let mut it = alertmanager(Vec::new());
        let incident = |event: &str, closed: Option<u64>| {
            json!({
                "event": event, "id": "5", "rule": "root-cause", "title": "node a failed", "level": "high", "class": ["node:a"],
                "opened_ns": 5 * S, "closed_ns": closed, "matches": 12,
            })
        };
        let posts = it.enter(&incident("opened", None));
        assert_eq!(
            (&posts[0]["labels"]["instance"], &posts[0]["labels"]["alertname"]),
            (&"node:a".into(), &"root-cause".into())
        );
        assert_eq!((posts[0]["annotations"]["summary"].as_str(), it.active.len()), (Some("node a failed"), 1));
        let over = it.enter(&incident("closed", Some(9 * S)));
        assert_eq!((over.len(), it.active.len(), &over[0]["endsAt"]), (1, 0, &"1970-01-01T00:00:09.000000Z".into()));
    }

    #[test]
    fn what_is_no_announcement_is_no_alert() {
        let mut it = alertmanager(Vec::new());
        for other in [Json::Null, json!({"id": 7}), json!({"event": "opened", "id": "x"}), json!([])] {
            assert!(it.enter(&other).is_empty(), "{other}");
        }
    }
}

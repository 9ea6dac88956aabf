//! The station: datagrams in, judged notifications and changed alarms out, ready for the store.
//!
//! Owns the order of steps for one datagram and the counts. It has no thread, socket or clock of its own.

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringtap::histogram::Histogram;
use ringtap_alarm::model::{Alarm, Judgement, Key, Severity};
use ringtap_alarm::table::{AlarmTable, Report};

use crate::cause::{Cause, CauseCounts};
use crate::decode::SnmpDecoder;
use crate::known::Rules;
use crate::oid::Oid;
use crate::snmp::Version;
use crate::spool::{Head, Service};
use crate::store::{Answer, Job, Kind, Row};
use crate::{syslog, text};

/// What the station counted; one thread writes, any reads.
#[derive(Debug, Default)]
pub struct StationCounts {
    /// Datagrams and TCP messages looked at.
    pub seen: AtomicU64,
    /// SNMP notifications among them, by version: v1, v2c, v3.
    pub snmp: [AtomicU64; 3],
    /// Syslog messages among them.
    pub syslog: AtomicU64,
    /// Informs among the notifications.
    pub informs: AtomicU64,
    /// Changes of alarms that were announced.
    pub announced: AtomicU64,
    /// Notifications whose varbinds could not all be read.
    pub damaged: AtomicU64,
    /// Notifications of conditions for which the table of alarms had no room; they are stored.
    pub table_full: AtomicU64,
    /// Why others became no notification.
    pub causes: CauseCounts,
    /// Alarms in the table.
    pub alarms: AtomicU64,
    /// Alarms raised.
    pub raised: AtomicU64,
    /// Notifications in the store.
    pub stored: AtomicU64,
    /// Notifications that could not be stored before the end.
    pub not_stored: AtomicU64,
    /// Answers and Reports sent.
    pub answered: AtomicU64,
    /// Reports that were due and not sent, as there were too many.
    pub reports_withheld: AtomicU64,
    /// Times the wall clock was set by more than a second.
    pub clock_jumps: AtomicU64,
    /// From arrival to the alarm, nanoseconds.
    pub to_alarm: Histogram,
    /// From arrival to the disk, nanoseconds; one value per batch: its oldest notification.
    pub to_disk: Histogram,
}

impl StationCounts {
    /// Notifications taken.
    pub fn notifications(&self) -> u64 {
        self.snmp.iter().chain([&self.syslog]).map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// An alarm whose change is to be told to the outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Announcement {
    /// The alarm as it is after the change.
    pub alarm: Alarm,
    /// The notification that changed it; 0: none, the flapping ended or an operator cleared it.
    pub notification: u64,
}

/// What a station is told.
#[derive(Debug)]
pub struct StationConfig {
    /// Who may send.
    pub decoder: SnmpDecoder,
    /// What notifications mean.
    pub rules: Rules,
    /// Alarms so far.
    pub alarms: AlarmTable,
    /// The number of the latest notification in the store.
    pub last_id: u64,
    /// Syslog of this severity or worse (0–7, lower is worse) becomes an alarm.
    pub syslog_severity: u8,
}

/// Decoder, rules and alarms.
#[derive(Debug)]
pub struct Station {
    config: StationConfig,
    counts: Arc<StationCounts>,
    key: Key,
    announcements: Vec<Announcement>,
    /// Wall clock less monotonic clock when both were last seen, nanoseconds.
    offset_ns: Option<i64>,
}

impl Station {
    /// A station that has seen nothing yet.
    pub fn new(config: StationConfig) -> Self {
        let key = Key { resource: String::new(), condition: String::new(), object: String::new() };
        let this = Self { config, counts: Arc::default(), key, announcements: Vec::new(), offset_ns: None };
        this.count_alarms();
        this
    }

    /// What it counts.
    pub fn counts(&self) -> Arc<StationCounts> {
        Arc::clone(&self.counts)
    }

    /// Takes one datagram: adds what is to be stored to `job`, and gives what is to be answered at once.
    /// `now_ns` is monotonic.
    pub fn datagram(&mut self, head: Head, datagram: &[u8], now_ns: u64, job: &mut Job) -> Option<Answer> {
        self.counts.seen.fetch_add(1, Ordering::Relaxed);
        match head.service {
            Service::Snmp => self.snmp(head, datagram, now_ns, job),
            Service::Syslog => {
                self.syslog(head, datagram, job);
                None
            }
        }
    }

    fn snmp(&mut self, head: Head, datagram: &[u8], now_ns: u64, job: &mut Job) -> Option<Answer> {
        let received = match self.config.decoder.decode(head.source, datagram, now_ns) {
            Ok(received) => received,
            Err(refused) => {
                self.counts.causes.add(refused.cause);
                self.counts.reports_withheld.store(self.config.decoder.reports_withheld(), Ordering::Relaxed);
                return refused.report.map(|bytes| Answer::to(head, bytes));
            }
        };
        let notification = &received.notification;
        let (kind, version) = match notification.version {
            Version::V1 => (Kind::V1, 0),
            Version::V2c => (Kind::V2c, 1),
            Version::V3 => (Kind::V3, 2),
        };
        self.counts.snmp[version].fetch_add(1, Ordering::Relaxed);
        if notification.inform {
            self.counts.informs.fetch_add(1, Ordering::Relaxed);
        }
        if notification.damaged {
            self.counts.damaged.fetch_add(1, Ordering::Relaxed);
        }
        self.config.last_id += 1;
        let id = self.config.last_id;
        let (judgement, alarm) = if received.again {
            (Judgement::Retransmission, None)
        } else {
            let key = &mut self.key;
            key.resource.clear();
            let agent = notification.agent.map_or(head.source.ip().to_canonical(), IpAddr::V4);
            text::push_ip(&mut key.resource, agent);
            key.condition.clear();
            key.object.clear();
            let mut report = Report {
                raises: None,
                severity: Severity::Indeterminate,
                classification: None,
                at_ns: head.at_ns,
                notification: id,
            };
            match self.config.rules.find(&notification.trap_oid) {
                Some(rule) => {
                    key.condition.push_str(&rule.condition);
                    rule.object(notification.varbinds, &mut key.object);
                    report.raises = rule.raises(notification.varbinds);
                    report.severity = rule.severity;
                    report.classification = Some(&rule.classification);
                }
                None => {
                    let oid = Oid::new(&notification.trap_oid).unwrap_or_default();
                    let _ = write!(key.condition, "{oid}");
                }
            }
            judge(&mut self.config.alarms, key, report, &mut self.announcements, &self.counts)
        };
        let start = job.bytes.len();
        job.bytes.extend_from_slice(datagram);
        let raw = start..job.bytes.len();
        let decrypted = received.decrypted.map(|plain| {
            let start = job.bytes.len();
            job.bytes.extend_from_slice(plain);
            start..job.bytes.len()
        });
        if let Some(bytes) = received.answer {
            job.answers.push(Answer::to(head, bytes));
        }
        job.rows.push(Row { id, at_ns: head.at_ns, source: head.source, kind, alarm, judgement, raw, decrypted });
        None
    }

    fn syslog(&mut self, head: Head, datagram: &[u8], job: &mut Job) {
        let Some(message) = syslog::parse(datagram) else {
            self.counts.causes.add(Cause::EmptySyslog);
            return;
        };
        self.counts.syslog.fetch_add(1, Ordering::Relaxed);
        self.config.last_id += 1;
        let id = self.config.last_id;
        let (judgement, alarm) = if message.severity > self.config.syslog_severity {
            (Judgement::BelowThreshold, None)
        } else {
            let key = &mut self.key;
            key.resource.clear();
            match &message.host {
                Some(host) => key.resource.push_str(host),
                None => text::push_ip(&mut key.resource, head.source.ip().to_canonical()),
            }
            key.condition.clear();
            let _ = write!(key.condition, "syslog:{}", message.app.as_deref().unwrap_or("-"));
            key.object.clear();
            template(&message.text, &mut key.object);
            let severity = match message.severity {
                0..=2 => Severity::Critical,
                3 => Severity::Major,
                4 => Severity::Minor,
                5 => Severity::Warning,
                _ => Severity::Indeterminate,
            };
            let report = Report { raises: None, severity, classification: None, at_ns: head.at_ns, notification: id };
            judge(&mut self.config.alarms, key, report, &mut self.announcements, &self.counts)
        };
        let start = job.bytes.len();
        job.bytes.extend_from_slice(datagram);
        let raw = start..job.bytes.len();
        job.rows.push(Row {
            id,
            at_ns: head.at_ns,
            source: head.source,
            kind: Kind::Syslog,
            alarm,
            judgement,
            raw,
            decrypted: None,
        });
    }

    /// An operator clears an alarm.
    pub fn clear(&mut self, alarm: u64, operator: &str, at_ns: u64) {
        if let Some(alarm) = self.config.alarms.clear(alarm, operator, at_ns) {
            self.announcements.push(Announcement { alarm: alarm.clone(), notification: 0 });
        }
    }

    /// What time alone changes: alarms that have stopped flapping. `now_ns` is since 1970, `monotonic_ns` tells when that was set; gives
    /// by how many nanoseconds, if by more than a second.
    pub fn tick(&mut self, now_ns: u64, monotonic_ns: u64) -> Option<i64> {
        const JUMP_NS: i64 = 1_000_000_000;
        let offset_ns = now_ns.wrapping_sub(monotonic_ns) as i64;
        let before = self.offset_ns.replace(offset_ns).unwrap_or(offset_ns);
        let jump = Some(offset_ns.saturating_sub(before)).filter(|by| by.abs() > JUMP_NS);
        if jump.is_some() {
            self.counts.clock_jumps.fetch_add(1, Ordering::Relaxed);
        }
        for alarm in self.config.alarms.settle(now_ns) {
            self.announcements.push(Announcement { alarm, notification: 0 });
        }
        self.count_alarms();
        jump
    }

    fn count_alarms(&self) {
        self.counts.alarms.store(self.config.alarms.len() as u64, Ordering::Relaxed);
        self.counts.raised.store(self.config.alarms.raised() as u64, Ordering::Relaxed);
    }

    /// The changes to tell since the last call.
    pub fn take_announcements(&mut self) -> Vec<Announcement> {
        self.counts.announced.fetch_add(self.announcements.len() as u64, Ordering::Relaxed);
        std::mem::take(&mut self.announcements)
    }

    /// Whether alarms changed since the last [`Station::complete`].
    pub fn has_changes(&self) -> bool {
        self.config.alarms.has_changes()
    }

    /// Moves the alarms that changed into a job that goes to the store now.
    pub fn complete(&mut self, job: &mut Job) {
        job.alarms = self.config.alarms.take_changed();
        self.count_alarms();
    }
}

fn judge(
    alarms: &mut AlarmTable,
    key: &Key,
    report: Report<'_>,
    announcements: &mut Vec<Announcement>,
    counts: &StationCounts,
) -> (Judgement, Option<u64>) {
    let (judgement, alarm) = alarms.report(key, report);
    if judgement == Judgement::TableFull {
        counts.table_full.fetch_add(1, Ordering::Relaxed);
    }
    let number = alarm.map(|alarm| alarm.id);
    if judgement.is_announced()
        && let Some(alarm) = alarm
    {
        announcements.push(Announcement { alarm: alarm.clone(), notification: report.notification });
    }
    (judgement, number)
}

/// What stays the same in messages of one kind: numbers become `#`. Cut to a length that tells kinds apart.
fn template(text: &str, out: &mut String) {
    const MOST: usize = 120;
    let mut in_number = false;
    for c in text.chars() {
        if out.len() >= MOST {
            return;
        }
        if c.is_ascii_digit() {
            if !std::mem::replace(&mut in_number, true) {
                out.push('#');
            }
        } else {
            in_number = false;
            out.push(if c.is_control() { ' ' } else { c });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Item, Trap};
    use crate::usm::{LocalEngine, Usm};
    use ringtap_alarm::table::FlapPolicy;

    fn station() -> Station {
        let local = LocalEngine { id: b"\x80station".to_vec(), boots: 1, started_ns: 0 };
        Station::new(StationConfig {
            decoder: SnmpDecoder::new(Vec::new(), Usm::new(local, Vec::new(), 1)),
            rules: Rules::standard(),
            alarms: AlarmTable::new(Vec::new(), FlapPolicy::default(), 100),
            last_id: 41,
            syslog_severity: 4,
        })
    }

    fn head(source: &str, service: Service) -> Head {
        Head { at_ns: 5, source: source.parse().unwrap(), to: Some([192, 0, 2, 200].into()), service, socket: 2 }
    }

    #[test]
    fn each_datagram_is_a_row_or_a_cause() {
        let mut station = station();
        let mut job = Job::default();
        let down =
            Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).with(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 1, 3], Item::Integer(3));
        let snmp = head("[::ffff:192.0.2.1]:999", Service::Snmp);
        assert_eq!(station.datagram(snmp, &down.v2c(b"x", 1), 1, &mut job), None);
        assert_eq!(station.datagram(snmp, &down.inform(b"x", 2), 1, &mut job), None);
        station.datagram(snmp, &down.inform(b"x", 2), 1, &mut job);
        station.datagram(snmp, &Trap::new(&[1, 3, 6, 1, 4, 1, 5, 0, 9], 1).v2c(b"x", 1), 1, &mut job);
        station.datagram(snmp, b"junk", 1, &mut job);
        station.complete(&mut job);
        let judged: Vec<String> = job.rows.iter().map(|row| row.judgement.to_string()).collect();
        assert_eq!(judged[0], "new alarm");
        assert!(judged[1].contains("repeated") && judged[2].contains("sent again"), "{judged:?}");
        assert_eq!(job.rows.iter().map(|row| row.id).collect::<Vec<_>>(), [42, 43, 44, 45]);
        assert_eq!(job.answers.len(), 2, "the inform and its repetition");
        let answer = &job.answers[0];
        assert_eq!((answer.socket, answer.to, answer.from), (2, snmp.source, snmp.to));
        let keys: Vec<&Key> = job.alarms.iter().map(|alarm| &alarm.key).collect();
        assert_eq!(
            (keys[0].resource.as_str(), keys[0].condition.as_str(), keys[0].object.as_str()),
            ("192.0.2.1", "linkDown", "3")
        );
        assert_eq!(keys[1].condition, "1.3.6.1.4.1.5.0.9", "a trap without a name is an alarm too");
        assert_eq!(station.take_announcements().len(), 2);
        let counts = station.counts();
        assert_eq!(counts.seen.load(Ordering::Relaxed), counts.notifications() + counts.causes.total());
    }

    #[test]
    fn a_clock_that_is_set_is_noticed_and_flapping_ends_all_the_same() {
        const S: u64 = 1_000_000_000;
        let mut station = station();
        let mut job = Job::default();
        let now = 1_000_000 * S;
        assert_eq!(station.tick(now, 5 * S), None);
        assert_eq!(station.tick(now + S + S / 2, 6 * S), None, "a clock that is slewed");
        for number in 0..20u32 {
            let trap = [1, 3, 6, 1, 6, 3, 1, 1, 5, 3 + number % 2];
            let head = Head { at_ns: now + S, ..head("192.0.2.1:9", Service::Snmp) };
            station.datagram(head, &Trap::new(&trap, 1).v2c(b"x", 1), 6 * S, &mut job);
        }
        station.take_announcements();
        // An hour back: the last change lies in the future.
        assert_eq!(station.tick(now - 3600 * S, 7 * S), Some(-(3602 * S as i64 + S as i64 / 2)));
        assert!(station.take_announcements().is_empty(), "it flapped a moment ago");
        assert_eq!(station.tick(now - 3500 * S, 107 * S), None);
        let settled = station.take_announcements();
        assert_eq!((settled.len(), settled[0].alarm.flapping, settled[0].alarm.cleared), (1, false, true));
        assert_eq!(station.tick(now, 108 * S), Some(3499 * S as i64));
        assert_eq!(station.counts().clock_jumps.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn syslog_of_one_kind_is_one_alarm_and_mild_ones_are_only_kept() {
        let mut station = station();
        let mut job = Job::default();
        let syslog = head("192.0.2.1:514", Service::Syslog);
        for text in [
            "<11>Oct 11 22:14:15 core1 bgpd[7]: peer 10.0.0.1 down, 3 routes",
            "<11>Oct 11 22:14:16 core1 bgpd[7]: peer 10.0.0.25 down, 44 routes",
            "<14>Oct 11 22:14:16 core1 bgpd[7]: fine",
            "<13>",
        ] {
            station.datagram(syslog, text.as_bytes(), 1, &mut job);
        }
        station.complete(&mut job);
        assert_eq!((job.rows.len(), job.alarms.len()), (3, 1));
        let alarm = &job.alarms[0];
        assert_eq!(
            (alarm.key.resource.as_str(), alarm.key.condition.as_str(), alarm.count),
            ("core1", "syslog:bgpd", 2)
        );
        assert_eq!((alarm.key.object.as_str(), alarm.severity), ("peer #.#.#.# down, # routes", Severity::Major));
        assert_eq!(job.rows[2].judgement, Judgement::BelowThreshold);
        assert_eq!(station.counts().causes.read(Cause::EmptySyslog), 1);
    }
}

//! Judging: datagrams in, notifications with what became of them and changed alarms out, ready for the store.
//!
//! Owns the order of steps for one datagram: decode, find the rule, report to the table of alarms, make a row of it. It has no thread,
//! socket or clock of its own.

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringtap_snmp::decode::{Received, SnmpDecoder};
use ringtap_snmp::message::Version;
use ringtap_snmp::oid::Oid;

use crate::admission::Admission;
use crate::alarm::{Alarm, Judgement, Key, Origin, SecurityLevel, Severity, Shown};
use crate::cause::Cause;
use crate::counts::StationCounts;
use crate::rules::Rules;
use crate::spool::{Head, Service};
use crate::store::{Answer, Job, Kind, Place, Row};
use crate::table::{AlarmTable, Report};
use crate::{syslog, text};

/// An alarm whose change is to be told to the outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Announcement {
    /// The alarm as it is after the change.
    pub alarm: Alarm,
    /// The notification that changed it; 0: none, the flapping ended or an operator cleared it.
    pub notification: u64,
}

/// What is judged by.
#[derive(Debug)]
pub struct JudgeConfig {
    /// From where.
    pub admission: Admission,
    /// Who may send SNMP.
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
pub struct Judge {
    config: JudgeConfig,
    counts: Arc<StationCounts>,
    key: Key,
    announcements: Vec<Announcement>,
    /// Wall clock less monotonic clock when both were last seen, nanoseconds.
    offset_ns: Option<i64>,
}

impl Judge {
    /// A judge that has seen nothing yet.
    pub fn new(config: JudgeConfig) -> Self {
        let key = Key { resource: String::new(), condition: String::new(), object: String::new() };
        let this = Self { config, counts: Arc::default(), key, announcements: Vec::new(), offset_ns: None };
        this.count_alarms();
        this
    }

    /// What it counts.
    pub fn counts(&self) -> Arc<StationCounts> {
        Arc::clone(&self.counts)
    }

    /// Takes one datagram: adds what is to be stored to `job`, and gives what is to be answered at once. `kept` is where the datagram lies in
    /// the job already; without it, what is stored is copied. `now_ns` is monotonic.
    pub fn datagram(
        &mut self,
        head: Head,
        datagram: &[u8],
        kept: Option<Place>,
        now_ns: u64,
        job: &mut Job,
    ) -> Option<Answer> {
        self.counts.seen.fetch_add(1, Ordering::Relaxed);
        let is_certified = head.service == Service::CertifiedSyslog;
        let is_known = match self.config.admission.admit(head.source.ip(), is_certified, now_ns) {
            Ok(is_known) => is_known,
            Err(cause) => {
                self.counts.causes.add(cause);
                return None;
            }
        };
        let shown = if is_certified { Shown::Certificate } else { Shown::Nothing };
        let (source, security) = (Some(head.source.ip().to_canonical()), SecurityLevel::NoAuthNoPriv);
        let origin = Origin { source, security, shown, is_known };
        match head.service {
            Service::Snmp => self.snmp((head, origin), datagram, kept, now_ns, job),
            Service::Syslog | Service::CertifiedSyslog => {
                self.syslog((head, origin), datagram, kept, job);
                None
            }
        }
    }

    fn snmp(
        &mut self,
        (head, mut origin): (Head, Origin),
        datagram: &[u8],
        kept: Option<Place>,
        now_ns: u64,
        job: &mut Job,
    ) -> Option<Answer> {
        let asks_for_community = self.config.decoder.asks_for_community();
        let received = match self.config.decoder.decode(head.source, datagram, now_ns) {
            Ok(received) => received,
            Err(refused) => {
                self.counts.causes.add(refused.cause.into());
                self.counts.reports_withheld.store(self.config.decoder.reports_withheld(), Ordering::Relaxed);
                return refused.report.map(|bytes| Answer::to(head, bytes));
            }
        };
        let kind = count_snmp(&self.counts, &received);
        origin.security = received.level;
        if kind != Kind::V3 && asks_for_community {
            origin.shown = Shown::Community;
        }
        origin.is_known |= received.level > SecurityLevel::NoAuthNoPriv || origin.shown != Shown::Nothing;
        self.config.last_id += 1;
        let id = self.config.last_id;
        let (judgement, alarm) = if received.again {
            (Judgement::Retransmission, None)
        } else {
            let report = snmp_report(&self.config.rules, &received, (head, origin), id, &mut self.key);
            report_to(&mut self.config.alarms, &self.key, report, &mut self.announcements, &self.counts)
        };
        let raw = kept.unwrap_or_else(|| job.copy(datagram));
        let decrypted = received.decrypted.map(|plain| job.copy(plain));
        if let Some(bytes) = received.answer {
            job.answers.push(Answer::to(head, bytes));
        }
        job.rows.push(Row { id, at_ns: head.at_ns, source: head.source, kind, alarm, judgement, raw, decrypted });
        None
    }

    fn syslog(&mut self, (head, origin): (Head, Origin), datagram: &[u8], kept: Option<Place>, job: &mut Job) {
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
            let report = syslog_report(&message, (head, origin), id, &mut self.key);
            report_to(&mut self.config.alarms, &self.key, report, &mut self.announcements, &self.counts)
        };
        let raw = kept.unwrap_or_else(|| job.copy(datagram));
        let (at_ns, source) = (head.at_ns, head.source);
        job.rows.push(Row { id, at_ns, source, kind: Kind::Syslog, alarm, judgement, raw, decrypted: None });
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

    /// All alarms, and whether nothing clears each.
    pub fn alarms(&self) -> impl Iterator<Item = (&Alarm, bool)> {
        self.config.alarms.iter().map(|alarm| (alarm, self.is_event(&alarm.key.condition)))
    }

    /// Whether no notification clears alarms of this condition.
    pub fn is_event(&self, condition: &str) -> bool {
        !self.config.rules.clears(condition)
    }

    /// Whether alarms changed since the last [`Judge::complete`].
    pub fn has_changes(&self) -> bool {
        self.config.alarms.has_changes()
    }

    /// Moves the alarms that changed into a job that goes to the store now.
    pub fn complete(&mut self, job: &mut Job) {
        job.alarms = self.config.alarms.take_changed();
        job.clocks = self.config.decoder.usm().take_clocks();
        self.count_alarms();
    }
}

/// Counts a notification of SNMP; gives its kind.
fn count_snmp(counts: &StationCounts, received: &Received<'_>) -> Kind {
    let (kind, version) = match received.notification.version {
        Version::V1 => (Kind::V1, 0),
        Version::V2c => (Kind::V2c, 1),
        Version::V3 => (Kind::V3, 2),
    };
    counts.snmp[version].fetch_add(1, Ordering::Relaxed);
    if received.notification.inform {
        counts.informs.fetch_add(1, Ordering::Relaxed);
    }
    if received.notification.damaged {
        counts.damaged.fetch_add(1, Ordering::Relaxed);
    }
    kind
}

/// What a notification of SNMP says of which alarm; `key` is written anew, so that nothing is allocated for each.
fn snmp_report<'r>(
    rules: &'r Rules,
    received: &Received<'_>,
    (head, origin): (Head, Origin),
    id: u64,
    key: &mut Key,
) -> Report<'r> {
    let notification = &received.notification;
    key.resource.clear();
    let agent = notification.agent.map_or(head.source.ip().to_canonical(), IpAddr::V4);
    text::push_ip(&mut key.resource, agent);
    key.condition.clear();
    key.object.clear();
    let mut report = Report {
        raises: None,
        severity: Severity::Indeterminate,
        classification: None,
        origin,
        at_ns: head.at_ns,
        notification: id,
    };
    match rules.find(&notification.trap_oid) {
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
    bound(key);
    report
}

/// Most bytes of an alarm's object, and of its condition: longer ones are cut, so that what strangers write is bounded.
const MOST: usize = 120;
/// Most bytes of a node's name.
const MOST_NAME: usize = 128;

/// Cuts the parts of a key to what an alarm may have.
fn bound(key: &mut Key) {
    text::cut(&mut key.resource, MOST_NAME);
    text::cut(&mut key.condition, MOST);
    text::cut(&mut key.object, MOST);
}

/// What a syslog message says of which alarm; `key` is written anew.
fn syslog_report(message: &syslog::Syslog, (head, origin): (Head, Origin), id: u64, key: &mut Key) -> Report<'static> {
    key.resource.clear();
    match &message.host {
        Some(host) => key.resource.push_str(host),
        None => text::push_ip(&mut key.resource, head.source.ip().to_canonical()),
    }
    key.condition.clear();
    let _ = write!(key.condition, "syslog:{}", message.app.as_deref().unwrap_or("-"));
    key.object.clear();
    template(&message.text, &mut key.object);
    bound(key);
    let severity = match message.severity {
        0..=2 => Severity::Critical,
        3 => Severity::Major,
        4 => Severity::Minor,
        5 => Severity::Warning,
        _ => Severity::Indeterminate,
    };
    Report { raises: None, severity, classification: None, origin, at_ns: head.at_ns, notification: id }
}

/// Enters a report into the table; what is to be told to the outside is an announcement.
fn report_to(
    alarms: &mut AlarmTable,
    key: &Key,
    report: Report<'_>,
    announcements: &mut Vec<Announcement>,
    counts: &StationCounts,
) -> (Judgement, Option<u64>) {
    let (judgement, alarm) = alarms.report(key, report);
    let count = match judgement {
        Judgement::TableFull => Some(&counts.table_full),
        Judgement::ShareFull => Some(&counts.share_full),
        Judgement::NotAuthentic => Some(&counts.not_authentic),
        _ => None,
    };
    if let Some(count) = count {
        count.fetch_add(1, Ordering::Relaxed);
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
    let mut in_number = false;
    for c in text.chars() {
        if out.len() + c.len_utf8() > MOST {
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
    use crate::table::FlapPolicy;
    use ringtap_snmp::encode::{Item, Trap};
    use ringtap_snmp::usm::{LocalEngine, Usm};

    fn judge() -> Judge {
        let local = LocalEngine { id: b"\x80station".to_vec(), boots: 1, started_ns: 0 };
        Judge::new(JudgeConfig {
            admission: Admission::default(),
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
        let mut judge = judge();
        let mut job = Job::default();
        let down =
            Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).with(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 1, 3], Item::Integer(3));
        let snmp = head("[::ffff:192.0.2.1]:999", Service::Snmp);
        assert_eq!(judge.datagram(snmp, &down.v2c(b"x", 1), None, 1, &mut job), None);
        assert_eq!(judge.datagram(snmp, &down.inform(b"x", 2), None, 1, &mut job), None);
        judge.datagram(snmp, &down.inform(b"x", 2), None, 1, &mut job);
        judge.datagram(snmp, &Trap::new(&[1, 3, 6, 1, 4, 1, 5, 0, 9], 1).v2c(b"x", 1), None, 1, &mut job);
        judge.datagram(snmp, b"junk", None, 1, &mut job);
        judge.complete(&mut job);
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
        assert_eq!(judge.take_announcements().len(), 2);
        let counts = judge.counts();
        assert_eq!(counts.seen.load(Ordering::Relaxed), counts.notifications() + counts.causes.total());
    }

    #[test]
    fn a_clock_that_is_set_is_noticed_and_flapping_ends_all_the_same() {
        const S: u64 = 1_000_000_000;
        let mut judge = judge();
        let mut job = Job::default();
        let now = 1_000_000 * S;
        assert_eq!(judge.tick(now, 5 * S), None);
        assert_eq!(judge.tick(now + S + S / 2, 6 * S), None, "a clock that is slewed");
        for number in 0..20u32 {
            let trap = [1, 3, 6, 1, 6, 3, 1, 1, 5, 3 + number % 2];
            let head = Head { at_ns: now + S, ..head("192.0.2.1:9", Service::Snmp) };
            judge.datagram(head, &Trap::new(&trap, 1).v2c(b"x", 1), None, 6 * S, &mut job);
        }
        judge.take_announcements();
        // An hour back: the last change lies in the future.
        assert_eq!(judge.tick(now - 3600 * S, 7 * S), Some(-(3602 * S as i64 + S as i64 / 2)));
        assert!(judge.take_announcements().is_empty(), "it flapped a moment ago");
        assert_eq!(judge.tick(now - 3500 * S, 107 * S), None);
        let settled = judge.take_announcements();
        assert_eq!((settled.len(), settled[0].alarm.flapping, settled[0].alarm.cleared), (1, false, true));
        assert_eq!(judge.tick(now, 108 * S), Some(3499 * S as i64));
        assert_eq!(judge.counts().clock_jumps.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn syslog_of_one_kind_is_one_alarm_and_mild_ones_are_only_kept() {
        let mut judge = judge();
        let mut job = Job::default();
        let syslog = head("192.0.2.1:514", Service::Syslog);
        for text in [
            "<11>Oct 11 22:14:15 core1 bgpd[7]: peer 10.0.0.1 down, 3 routes",
            "<11>Oct 11 22:14:16 core1 bgpd[7]: peer 10.0.0.25 down, 44 routes",
            "<14>Oct 11 22:14:16 core1 bgpd[7]: fine",
            "<13>",
        ] {
            judge.datagram(syslog, text.as_bytes(), None, 1, &mut job);
        }
        judge.complete(&mut job);
        assert_eq!((job.rows.len(), job.alarms.len()), (3, 1));
        let alarm = &job.alarms[0];
        assert_eq!(
            (alarm.key.resource.as_str(), alarm.key.condition.as_str(), alarm.count),
            ("core1", "syslog:bgpd", 2)
        );
        assert_eq!((alarm.key.object.as_str(), alarm.severity), ("peer #.#.#.# down, # routes", Severity::Major));
        assert_eq!(job.rows[2].judgement, Judgement::BelowThreshold);
        assert_eq!(judge.counts().causes.read(Cause::EmptySyslog), 1);
    }

    #[test]
    fn who_showed_a_certificate_is_no_stranger() {
        let mut judge = judge();
        let mut job = Job::default();
        let mut say = |service, severity: u8| {
            let text = format!("<{severity}>Oct 11 22:14:15 core1 bgpd[7]: down");
            judge.datagram(head("192.0.2.1:514", service), text.as_bytes(), None, 1, &mut job);
            judge.complete(&mut job);
            (job.rows.last().unwrap().judgement.clone(), job.alarms.first().map(|alarm| alarm.origin))
        };
        let (source, security) = (Some([192, 0, 2, 1].into()), SecurityLevel::NoAuthNoPriv);
        let certified = Origin { source, security, shown: Shown::Certificate, is_known: true };
        let stranger = Origin { shown: Shown::Nothing, is_known: false, ..certified };
        assert_eq!(say(Service::Syslog, 10), (Judgement::New, Some(stranger)));
        assert_eq!(say(Service::CertifiedSyslog, 11), (Judgement::Changed, Some(certified)));
        assert_eq!(say(Service::Syslog, 8), (Judgement::NotAuthentic, None));
    }
}

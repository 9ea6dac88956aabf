//! Judging: datagrams in, notifications with what became of them and changed alarms out, ready for the store.
//!
//! Owns the order of steps for one datagram: decode, find the rule, report to the table of alarms, make a row of it. It has no thread,
//! socket or clock of its own.

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringtap_rootcause::Topology;
use ringtap_snmp::decode::{Received, SnmpDecoder};
use ringtap_snmp::message::Version;
use ringtap_snmp::oid::Oid;

use crate::act::{self, Act, Entry, Request};
use crate::admission::Admission;
use crate::alarm::{Alarm, Judgement, Key, Origin, SecurityLevel, Severity, Shown};
use crate::cause::Cause;
use crate::counts::StationCounts;
use crate::expiry::Expiry;
use crate::forward::Forwarder;
use crate::maintenance::{Window, Windows};
use crate::rules::Rules;
use crate::spool::{Head, Service};
use crate::store::{Answer, Job, Kind, Place, Row};
use crate::table::{AlarmTable, Report};
use crate::terms::Terms;
use crate::{syslog, text};

/// An alarm whose change is to be told to the outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Announcement {
    /// The alarm as it is after the change.
    pub alarm: Alarm,
    /// The notification that changed it; 0: none, time or an operator did.
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
    /// When alarms expire.
    pub expiry: Expiry,
}

/// Decoder, rules and alarms.
#[derive(Debug)]
pub struct Judge {
    config: JudgeConfig,
    counts: Arc<StationCounts>,
    key: Key,
    announcements: Vec<Announcement>,
    windows: Windows,
    /// Where notifications go on to, if anywhere.
    forwarder: Option<Forwarder>,
    /// What was done with alarms since the last [`Judge::complete`].
    history: Vec<Entry>,
    /// Wall clock less monotonic clock when both were last seen, nanoseconds.
    offset_ns: Option<i64>,
}

impl Judge {
    /// A judge that has seen nothing yet.
    pub fn new(config: JudgeConfig) -> Self {
        let key = Key { resource: String::new(), condition: String::new(), object: String::new() };
        let this = Self {
            config,
            counts: Arc::default(),
            key,
            announcements: Vec::new(),
            windows: Windows::default(),
            forwarder: None,
            history: Vec::new(),
            offset_ns: None,
        };
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
            if let Some(forwarder) = &mut self.forwarder {
                forwarder.offer(&received.notification, head.source, datagram);
            }
            let report = snmp_report(&self.config.rules, &received, (head, origin), id, &mut self.key);
            let in_maintenance = self.windows.cover(&self.key.resource, origin.source, head.at_ns);
            let report = Report { in_maintenance, ..report };
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
            let in_maintenance = self.windows.cover(&self.key.resource, origin.source, head.at_ns);
            let report = Report { in_maintenance, ..report };
            report_to(&mut self.config.alarms, &self.key, report, &mut self.announcements, &self.counts)
        };
        let raw = kept.unwrap_or_else(|| job.copy(datagram));
        let (at_ns, source) = (head.at_ns, head.source);
        job.rows.push(Row { id, at_ns, source, kind: Kind::Syslog, alarm, judgement, raw, decrypted: None });
    }

    /// Judges by these terms from now on; alarms, and what was learnt of SNMP engines, stay.
    pub fn replace(&mut self, terms: Terms) {
        self.config.alarms.see_origins(|origin| terms.see(origin));
        self.config.admission.replace(terms.senders);
        let decoder = &mut self.config.decoder;
        decoder.replace_communities(terms.communities);
        decoder.take_v1_v2c(terms.takes_v1_v2c);
        decoder.usm().replace_users(terms.users);
        self.config.rules = terms.rules;
        self.config.syslog_severity = terms.syslog_severity;
        self.config.expiry = terms.expiry;
    }

    /// Operators do something with alarms; each request has its number in the store.
    pub fn operate(&mut self, requests: Vec<(Option<u64>, Request)>, at_ns: u64) {
        let done = act::apply(&mut self.config.alarms, requests, at_ns);
        self.history.extend(done.entries);
        self.announcements.extend(done.changed.into_iter().map(|alarm| Announcement { alarm, notification: 0 }));
    }

    /// Leaves notifications that are taken there, too.
    pub fn forward_by(&mut self, forwarder: Option<Forwarder>) {
        self.forwarder = forwarder;
    }

    /// Has what was left for other managers sent; to be called after a batch.
    pub fn wake_forwarder(&mut self) {
        if let Some(forwarder) = &mut self.forwarder {
            forwarder.wake();
        }
    }

    /// Other windows of maintenance from now on.
    pub fn replace_windows(&mut self, windows: Vec<Window>) {
        self.windows.replace(windows);
    }

    /// Another topology from now on, by whose names windows of maintenance may call nodes.
    pub fn replace_nodes(&mut self, topology: &Topology) {
        self.windows.replace_nodes(topology);
    }

    /// Clears alarms that have expired, and announces what a window of maintenance kept back that is over.
    fn pass_time(&mut self, now_ns: u64) {
        let JudgeConfig { alarms, expiry, .. } = &mut self.config;
        let windows = &self.windows;
        let is_covered = |alarm: &Alarm| windows.cover(&alarm.key.resource, alarm.origin.source, now_ns);
        let mut changed = alarms.settle(now_ns, is_covered);
        changed.extend(alarms.release(is_covered));
        if !expiry.is_never() {
            for (alarm, is_announced) in alarms.expire(now_ns, |alarm| expiry.of(&alarm.key.condition)) {
                let (alarm_id, act) = (alarm.id, Act::Expired);
                let entry = Entry { alarm: alarm_id, at_ns: now_ns, act, operator: None, comment: None, request: None };
                self.history.push(entry);
                changed.extend(is_announced.then_some(alarm));
            }
        }
        self.announcements.extend(changed.into_iter().map(|alarm| Announcement { alarm, notification: 0 }));
    }

    /// What time alone changes: alarms that have stopped flapping or expired, windows of maintenance that are over. `now_ns` is since
    /// 1970, `monotonic_ns` tells when that was set; gives by how many nanoseconds, if by more than a second.
    pub fn tick(&mut self, now_ns: u64, monotonic_ns: u64) -> Option<i64> {
        const JUMP_NS: i64 = 1_000_000_000;
        let offset_ns = now_ns.wrapping_sub(monotonic_ns) as i64;
        let before = self.offset_ns.replace(offset_ns).unwrap_or(offset_ns);
        let jump = Some(offset_ns.saturating_sub(before)).filter(|by| by.abs() > JUMP_NS);
        if jump.is_some() {
            self.counts.clock_jumps.fetch_add(1, Ordering::Relaxed);
        }
        self.pass_time(now_ns);
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
        self.config.alarms.has_changes() || !self.history.is_empty()
    }

    /// Moves the alarms that changed into a job that goes to the store now.
    pub fn complete(&mut self, job: &mut Job) {
        job.alarms = self.config.alarms.take_changed();
        job.history.append(&mut self.history);
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
        in_maintenance: false,
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
    let at_ns = head.at_ns;
    Report { raises: None, severity, classification: None, origin, at_ns, notification: id, in_maintenance: false }
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
mod tests;

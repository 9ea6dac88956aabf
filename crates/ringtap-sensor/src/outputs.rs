//! Owns: the output thread's work: records into lines and notifications, and these into the outputs asked for.
//! Does not: make records.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ringtap::Result;
use ringtap::clock;
use ringtap_datagram::{Listener, Message, Stamps};
use ringtap_output::{Announced, Counts, KafkaTarget, Output, Severity, Work};

use crate::account::Shown;
use crate::alarms::{self, Plain};
use crate::blinding::Change;
use crate::catalogue::Catalogue;
use crate::eve::Writer;
use crate::identity::Who;
use crate::notifications::{Notifier, Table};
use crate::options::{AlarmOptions, Event, LineTarget, OutputOptions};
use crate::record::{AlertRecord, Record};
use crate::statistics;

/// What lines of EVE tell, and lines for a correlator.
const EVENTS: Announced = Announced { what: "events", kept_by: None };
const ALARMS: Announced = Announced { what: "alarms", kept_by: None };

/// What other threads ask of the output thread.
#[derive(Default)]
pub(crate) struct Wishes {
    /// Something below was asked for: looked at before each record.
    asked: AtomicBool,
    /// Open files again.
    reopen: AtomicBool,
    /// Texts after a reload.
    catalogue: Mutex<Option<Catalogue>>,
    /// Ways to be blinded that have begun or ended: to be told.
    changes: Mutex<Vec<Change>>,
}

impl Wishes {
    /// Files are opened again.
    pub(crate) fn reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
        self.asked.store(true, Ordering::Release);
    }

    /// Records that come from now on are told with these texts.
    pub(crate) fn use_catalogue(&self, catalogue: Catalogue) {
        if let Ok(mut wish) = self.catalogue.lock() {
            *wish = Some(catalogue);
        }
        self.asked.store(true, Ordering::Release);
    }

    /// These changes are told.
    pub(crate) fn tell(&self, changes: Vec<Change>) {
        if let Ok(mut wish) = self.changes.lock() {
            wish.extend(changes);
        }
        self.asked.store(true, Ordering::Release);
    }
}

/// What a correlator is told from here: alerts, and heartbeats behind all alerts that came before.
pub(crate) struct ToCorrelator {
    who: Arc<Who>,
    lines: Vec<Output>,
    counts: Arc<Counts>,
    plain: Option<Plain>,
    line: Vec<u8>,
}

impl ToCorrelator {
    /// As lines to where `options` say, and as datagrams by `plain`.
    ///
    /// # Errors
    /// As of [`Output::kafka`].
    pub(crate) fn open(
        who: Arc<Who>,
        options: &AlarmOptions,
        plain: Option<Plain>,
        counts: Arc<Counts>,
    ) -> Result<Self> {
        let output = |target: &LineTarget| match target {
            LineTarget::Unix(path) => Output::unix(path, ALARMS),
            LineTarget::Tcp(address) => Output::tcp(*address, ALARMS),
        };
        let mut lines: Vec<Output> = options.lines.iter().map(output).collect();
        if let Some(target) = &options.kafka {
            let target = KafkaTarget { key: who.sensor.to_string(), ..target.clone() };
            lines.push(Output::kafka(target, ALARMS)?);
        }
        Ok(Self { who, lines, counts, plain, line: Vec::with_capacity(1024) })
    }

    fn tell(&mut self, message: &Message) {
        if let Some(plain) = &self.plain {
            plain.send(message);
        }
        if !self.lines.is_empty() {
            self.line.clear();
            message.write_line(self.who.key.as_ref(), &mut self.line);
        }
        for output in &mut self.lines {
            output.line(&self.line, None);
            self.counts.add(output.flush());
        }
    }
}

/// The outputs.
pub(crate) struct Outputs {
    writer: Writer,
    /// For lines of all events.
    lines: Vec<Output>,
    /// Whether alerts are among these.
    writes_alerts: bool,
    /// For alerts alone.
    alerts: Vec<Output>,
    notifier: Option<Notifier>,
    to_correlator: Option<ToCorrelator>,
    /// A correlator in this process.
    own: Option<Box<dyn Listener>>,
    line: Vec<u8>,
    counts: Arc<Counts>,
    wishes: Arc<Wishes>,
    shown: Arc<Shown>,
    started: Instant,
    /// Records taken from the queue.
    pub(crate) taken: u64,
}

impl Outputs {
    /// Opens the outputs; `snmp` is a table of notifications and the name of its file.
    ///
    /// # Errors
    /// One can't be opened.
    pub(crate) fn open(
        options: &OutputOptions,
        snmp: Option<&(Table, String)>,
        writer: Writer,
        (to_correlator, own): (Option<ToCorrelator>, Option<Box<dyn Listener>>),
        counts: Arc<Counts>,
        wishes: Arc<Wishes>,
        shown: Arc<Shown>,
    ) -> Result<Self> {
        let (mut lines, mut alerts) = (Vec::new(), Vec::new());
        if let Some(path) = &options.eve {
            lines.push(Output::file(path, options.eve_rotate, EVENTS)?);
        }
        if let Some(path) = &options.eve_socket {
            lines.push(Output::unix(path, EVENTS));
        }
        if let Some(syslog) = options.syslog {
            alerts.push(Output::syslog(syslog, EVENTS)?);
        }
        let notifier = snmp.map(|(table, file)| Notifier::new(table, file, writer.interface.as_deref())).transpose()?;
        Ok(Self {
            writer,
            lines,
            writes_alerts: options.wants(Event::Alert),
            alerts,
            notifier,
            to_correlator,
            own,
            line: Vec::with_capacity(4096),
            counts,
            wishes,
            shown,
            started: Instant::now(),
            taken: 0,
        })
    }

    /// Waits for answers that are still to come.
    ///
    /// # Errors
    /// Not all events are in the file.
    pub(crate) fn finish(&mut self) -> Result<()> {
        // What was asked for last.
        self.look_at_wishes();
        self.flush();
        if let Some(notifier) = &mut self.notifier {
            notifier.finish(&self.counts);
        }
        self.lines.iter().find_map(Output::error).map_or(Ok(()), Err)
    }

    fn flush(&mut self) {
        self.lines.iter_mut().chain(&mut self.alerts).for_each(|output| self.counts.add(output.flush()));
    }

    /// Tells that the sensor is being blinded, or is not any more, whatever events are written.
    fn tell_change(&mut self, change: &Change) {
        self.line.clear();
        self.writer.write_change(clock::realtime_ns(), change, &mut self.line);
        let severity = Some(if change.is_raised { Severity::Major } else { Severity::Indeterminate });
        for output in self.lines.iter_mut().chain(&mut self.alerts) {
            output.line(&self.line, severity);
        }
        if let Some(notifier) = &mut self.notifier {
            notifier.change(change, &self.counts);
        }
    }

    fn look_at_wishes(&mut self) {
        if !self.wishes.asked.load(Ordering::Relaxed) || !self.wishes.asked.swap(false, Ordering::Acquire) {
            return;
        }
        if self.wishes.reopen.swap(false, Ordering::Relaxed) {
            self.lines.iter_mut().for_each(Output::reopen);
        }
        if let Some(catalogue) = self.wishes.catalogue.lock().ok().and_then(|mut wish| wish.take()) {
            self.writer.catalogue = catalogue;
        }
        let changes = self.wishes.changes.lock().map(|mut changes| std::mem::take(&mut *changes)).unwrap_or_default();
        changes.iter().for_each(|change| self.tell_change(change));
    }
}

impl Work<Record> for Outputs {
    fn record(&mut self, record: Record, bytes: &[u8]) {
        self.look_at_wishes();
        if let Record::Heartbeat(beat) = record {
            if let Some(to) = &mut self.to_correlator {
                to.tell(&Message::Heartbeat(beat));
            }
            if let Some(own) = &mut self.own {
                own.beat(&beat);
            }
            return;
        }
        self.line.clear();
        self.taken += 1;
        let severity = match &record {
            Record::Statistics(counters) => {
                let uptime = self.started.elapsed().as_secs();
                self.writer.write_stats(clock::realtime_ns(), uptime, &statistics::object(counters), &mut self.line);
                None
            }
            event => {
                self.writer.write(event, bytes, &mut self.line);
                if let Record::Alert(alert) = event { Some(severity(alert.severity)) } else { None }
            }
        };
        if self.writes_alerts || severity.is_none() {
            // A record may be told by several.
            for line in self.line.split_inclusive(|&byte| byte == b'\n') {
                self.lines.iter_mut().for_each(|output| output.line(line, severity));
            }
        }
        if let Record::Alert(alert) = &record {
            self.shown.by_rule.count(alert.rule);
            self.shown.latest.keep(alert, &self.writer.catalogue);
            if let Some(to) = &mut self.to_correlator {
                to.tell(&alarms::message(alert, &to.who));
            }
            if let Some(own) = &mut self.own {
                let AlertRecord { time_ns, built_ns, error_ns, sequence, .. } = *alert;
                let origin = self.writer.who.as_ref().map(|who| who.origin(alert.epoch));
                own.alarm(&self.line, &Stamps { time_ns, built_ns, error_ns, sequence }, origin.as_ref());
            }
            for output in &mut self.alerts {
                output.line(&self.line, severity);
            }
            if let Some(notifier) = &mut self.notifier {
                notifier.alert(alert, self.writer.catalogue.find(alert.rule), &self.counts);
            }
        }
    }

    fn idle(&mut self) {
        self.look_at_wishes();
        self.flush();
        if let Some(notifier) = &mut self.notifier {
            notifier.idle(&self.counts);
        }
    }
}

/// A rule's priority as a severity.
pub(crate) fn severity(priority: u8) -> Severity {
    match priority {
        0 | 1 => Severity::Critical,
        2 => Severity::Major,
        3 => Severity::Warning,
        _ => Severity::Indeterminate,
    }
}

//! Owns: the output thread's work: records into lines and notifications, and these into the outputs asked for.
//! Does not: make records.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ringtap::Result;
use ringtap::clock;
use ringtap_output::{Counts, FileOutput, Output, Severity, UnixOutput, Work};

use crate::catalogue::Catalogue;
use crate::eve::Writer;
use crate::notifications::{Notifier, Table};
use crate::options::{Event, OutputOptions};
use crate::record::Record;
use crate::statistics;

/// What other threads ask of the output thread.
#[derive(Default)]
pub(crate) struct Wishes {
    /// Open files again.
    pub(crate) reopen: AtomicBool,
    /// Texts after a reload.
    pub(crate) catalogue: Mutex<Option<Catalogue>>,
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
    line: Vec<u8>,
    counts: Arc<Counts>,
    wishes: Arc<Wishes>,
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
        counts: Arc<Counts>,
        wishes: Arc<Wishes>,
    ) -> Result<Self> {
        let (mut lines, mut alerts) = (Vec::new(), Vec::new());
        if let Some(path) = &options.eve {
            lines.push(Output::File(FileOutput::open(path, options.eve_rotate)?));
        }
        if let Some(path) = &options.eve_socket {
            lines.push(Output::Unix(UnixOutput::new(path)));
        }
        if let Some(syslog) = options.syslog {
            alerts.push(Output::Syslog(syslog.open()?));
        }
        let notifier = snmp.map(|(table, file)| Notifier::new(table, file)).transpose()?;
        Ok(Self {
            writer,
            lines,
            writes_alerts: options.wants(Event::Alert),
            alerts,
            notifier,
            line: Vec::with_capacity(4096),
            counts,
            wishes,
            started: Instant::now(),
            taken: 0,
        })
    }

    /// Waits for answers that are still to come.
    pub(crate) fn finish(&mut self) {
        if let Some(notifier) = &mut self.notifier {
            notifier.finish(&self.counts);
        }
    }

    fn look_at_wishes(&mut self) {
        if self.wishes.reopen.swap(false, Ordering::Relaxed) {
            self.lines.iter_mut().for_each(Output::reopen);
        }
        if let Some(catalogue) = self.wishes.catalogue.lock().ok().and_then(|mut wish| wish.take()) {
            self.writer.catalogue = catalogue;
        }
    }
}

impl Work<Record> for Outputs {
    fn record(&mut self, record: Record) {
        self.line.clear();
        self.taken += 1;
        let severity = match &record {
            Record::Statistics(counters) => {
                let uptime = self.started.elapsed().as_secs();
                self.writer.write_stats(clock::realtime_ns(), uptime, &statistics::object(counters), &mut self.line);
                None
            }
            event => {
                self.writer.write(event, &mut self.line);
                if let Record::Alert(alert) = event { Some(severity(alert.severity)) } else { None }
            }
        };
        if self.writes_alerts || severity.is_none() {
            for output in &mut self.lines {
                output.line(&self.line, severity, &self.counts);
            }
        }
        if let Record::Alert(alert) = &record {
            for output in &mut self.alerts {
                output.line(&self.line, severity, &self.counts);
            }
            if let Some(notifier) = &mut self.notifier {
                notifier.alert(alert, self.writer.catalogue.find(alert.rule), &self.counts);
            }
        }
    }

    fn idle(&mut self) {
        self.look_at_wishes();
        for output in self.lines.iter_mut().chain(&mut self.alerts) {
            output.flush(&self.counts);
        }
        if let Some(notifier) = &mut self.notifier {
            notifier.idle(&self.counts);
        }
    }
}

/// A rule's priority as a severity.
fn severity(priority: u8) -> Severity {
    match priority {
        0 | 1 => Severity::Critical,
        2 => Severity::Major,
        3 => Severity::Warning,
        _ => Severity::Indeterminate,
    }
}

//! Owns: the output thread's work: records into lines, lines into the outputs asked for; and the counters' form in EVE.
//! Does not: make records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ringtap::Result;
use ringtap::sys::clock;
use ringtap_alarm::eve::Writer;
use ringtap_alarm::output::{Counts, FileOutput, Output, Severity, UnixOutput, Work};
use ringtap_alarm::{Catalogue, Record};
use ringtap_detect::Counters;
use serde_json::{Value, json};

use super::config::Config;
use super::handler::Wanted;
use super::snmp::SnmpOutput;
use super::{Args, Event};

/// What goes through the queue.
#[derive(Clone, Copy)]
pub(super) enum Item {
    Record(Record),
    /// An engine's counters, and at the end of a replay their time.
    Stats(Counters),
}

/// What other threads ask of the output thread.
#[derive(Default)]
pub(super) struct Wishes {
    /// Open files again.
    pub(super) reopen: AtomicBool,
    /// Texts after a reload.
    pub(super) catalogue: std::sync::Mutex<Option<Catalogue>>,
}

/// The output thread's work.
pub(super) struct Writing {
    writer: Writer,
    /// Lines of all events.
    lines: Vec<Output>,
    /// Whether alarms are among these.
    writes_alarms: bool,
    /// Alarms alone.
    alarms: Vec<Output>,
    snmp: Option<SnmpOutput>,
    line: Vec<u8>,
    counts: Arc<Counts>,
    wishes: Arc<Wishes>,
    started: Instant,
    /// Records and statistics taken from the queue.
    pub(super) taken: u64,
}

impl Writing {
    /// Opens the outputs.
    ///
    /// # Errors
    /// One can't be opened.
    pub(super) fn new(
        args: &Args,
        config: &Config,
        writer: Writer,
        counts: Arc<Counts>,
        wishes: Arc<Wishes>,
    ) -> Result<Self> {
        let (mut lines, mut alarms) = (Vec::new(), Vec::new());
        if let Some(path) = &args.eve {
            let rotate = args.eve_rotate.map(|size| (size, args.eve_keep));
            lines.push(Output::File(FileOutput::open(path, rotate)?));
        }
        if let Some(path) = &args.eve_socket {
            lines.push(Output::Unix(UnixOutput::new(path)));
        }
        if let Some(syslog) = args.syslog {
            alarms.push(Output::Syslog(syslog.open()?));
        }
        let snmp = config.snmp.as_ref().map(|(table, file)| SnmpOutput::new(table, file)).transpose()?;
        Ok(Self {
            writer,
            lines,
            writes_alarms: wants(args, Event::Alert),
            alarms,
            snmp,
            line: Vec::with_capacity(4096),
            counts,
            wishes,
            started: Instant::now(),
            taken: 0,
        })
    }

    /// Waits for answers that are still to come.
    pub(super) fn finish(&mut self) {
        if let Some(snmp) = &mut self.snmp {
            snmp.finish(&self.counts);
        }
    }

    fn send(&mut self, severity: Severity, is_alarm: bool) {
        if self.writes_alarms || !is_alarm {
            for output in &mut self.lines {
                output.line(&self.line, severity, &self.counts);
            }
        }
        if is_alarm {
            for output in &mut self.alarms {
                output.line(&self.line, severity, &self.counts);
            }
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

impl Work<Item> for Writing {
    fn record(&mut self, item: Item) {
        self.line.clear();
        self.taken += 1;
        match item {
            Item::Record(record) => {
                self.writer.write(&record, &mut self.line);
                let severity = match &record {
                    Record::Alarm(alarm) => severity(alarm.severity),
                    Record::Flow(_) | Record::Anomaly(_) | Record::Tagged(_) => Severity::Informational,
                };
                self.send(severity, matches!(record, Record::Alarm(_)));
                if let (Record::Alarm(alarm), Some(snmp)) = (&record, &mut self.snmp) {
                    snmp.alarm(alarm, self.writer.catalogue.find(alarm.rule), &self.counts);
                }
            }
            Item::Stats(counters) => {
                let uptime = self.started.elapsed().as_secs();
                self.writer.write_stats(clock::realtime_ns(), uptime, &stats(&counters), &mut self.line);
                self.send(Severity::Informational, false);
            }
        }
    }

    fn idle(&mut self) {
        self.look_at_wishes();
        for output in self.lines.iter_mut().chain(&mut self.alarms) {
            output.flush(&self.counts);
        }
        if let Some(snmp) = &mut self.snmp {
            snmp.idle(&self.counts);
        }
    }
}

/// A rule's priority as syslog's severity.
fn severity(priority: u8) -> Severity {
    match priority {
        0 | 1 => Severity::Alert,
        2 => Severity::Critical,
        3 => Severity::Warning,
        _ => Severity::Notice,
    }
}

/// Counters by the names of Suricata's schema where it has the same, else under `ringtap`.
pub(super) fn stats(counters: &Counters) -> Value {
    json!({
        "decoder": { "pkts": counters.packets, "bytes": counters.bytes, "invalid": counters.invalid },
        "defrag": { "ipv4": { "fragments": counters.defrag.fragments, "reassembled": counters.defrag.reassembled } },
        "flow": {
            "total": counters.flows.begun,
            "active": counters.flows_now,
            "emerg_mode_entered": counters.flows.emergencies,
        },
        "tcp": {
            "invalid_checksum": counters.bad_checksums,
            "reassembly_gap": counters.gaps,
            "segment_memcap_drop": counters.segments_refused,
        },
        "detect": { "alert": counters.alerts, "alerts_suppressed": counters.suppressed, "alert_queue_overflow": counters.alerts_over },
        "ringtap": {
            "budget_hits": counters.budget_hits,
            "passed": counters.passed,
            "shed": counters.shed,
            "tunnelled": counters.tunnelled,
            "stream_chunks": counters.chunks,
            "windows_evicted": counters.windows_evicted,
            "flows_evicted": counters.flows.evicted,
            "flows_timed_out": counters.flows.timed_out,
            "fragments_no_memory": counters.defrag.no_memory,
            "fragmented_evicted": counters.defrag.evicted,
            "fragmented_timed_out": counters.defrag.timed_out,
            "thresholds_evicted": counters.thresholds_evicted,
            "host_bits_evicted": counters.host_bits_evicted,
            "tagged": counters.tagged,
            "tags_evicted": counters.tags_evicted,
        },
    })
}

/// Which records the outputs take: alarms for syslog and SNMP too, whatever `--events` has written.
pub(super) fn wanted(args: &Args, config: &Config) -> Wanted {
    let writes = args.eve.is_some() || args.eve_socket.is_some();
    Wanted {
        alerts: (wants(args, Event::Alert) && writes) || args.syslog.is_some() || config.snmp.is_some(),
        flows: wants(args, Event::Flow) && writes,
        anomalies: wants(args, Event::Anomaly) && writes,
        packets: wants(args, Event::Packet) && writes,
    }
}

/// Whether an event is asked for.
pub(super) fn wants(args: &Args, event: Event) -> bool {
    args.events.contains(&event)
}

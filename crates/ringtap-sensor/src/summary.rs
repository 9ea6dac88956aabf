//! Owns: the end of a run, and what it tells then: counts, latency, loss, and what rules cost.
//! Does not: count, or print.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringtap::histogram::{HistogramSnapshot, Quantiles};
use ringtap::ledger::{Cause, Ledger};
use ringtap::meters::EngineSnapshot;
use ringtap::receiver::{Departure, DeviceEnd};
use ringtap::{Error, Result};
use ringtap_detect::{Counters, Profile, Program};
use ringtap_output::{Counts, Queue};
use ringtap_run::units::grouped;
use serde_json::{Value, json};

use crate::alarms::Sent;
use crate::heart::Heart;
use crate::inspector::Inspector;
use crate::outputs::Outputs;
use crate::pcap_log::{Logged, Selected};
use crate::rules::Used;
use crate::session::{Session, Surroundings};
use crate::statistics;

/// More than one packet in so many with a wrong checksum is no damage of the wire.
const FEW_CHECKSUMS: u64 = 10;

/// Rules shown by their cost.
const SHOWN: usize = 20;

/// Why a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The last file was read.
    EndOfFile,
    /// SIGINT or SIGTERM.
    Signal,
    /// Its time was over.
    Duration,
    /// The interface was removed.
    InterfaceGone,
    /// The host has begun to use the interface.
    InterfaceUsed,
    /// An engine ended for no known reason.
    EngineFailed,
}

impl Ending {
    /// Of a device that ended by itself.
    pub(crate) fn of(end: &DeviceEnd) -> Self {
        match end {
            DeviceEnd::Departed(Departure::Used(_)) => Self::InterfaceUsed,
            DeviceEnd::Departed(_) => Self::InterfaceGone,
            DeviceEnd::Failed | DeviceEnd::Panicked => Self::EngineFailed,
        }
    }

    /// Its name in the summary.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::EndOfFile => "end_of_file",
            Self::Signal => "signal",
            Self::Duration => "duration",
            Self::InterfaceGone => "interface_gone",
            Self::InterfaceUsed => "interface_used",
            Self::EngineFailed => "engine_failed",
        }
    }
}

/// What a run leaves.
pub struct Run {
    /// What it tells.
    pub summary: Summary,
    /// Why it did not do all that was asked, where that is so.
    pub failure: Option<Error>,
}

/// What the engines leave.
pub(crate) struct Ended {
    /// Interface or files.
    pub(crate) object: String,
    pub(crate) ending: Ending,
    /// From the engines' start to their end.
    pub(crate) elapsed_s: f64,
    pub(crate) cut: u64,
    /// Of interfaces: where their packets went, and what was counted.
    pub(crate) live: Option<(Ledger, EngineSnapshot)>,
    /// Each of them.
    pub(crate) interfaces: Vec<InterfaceAccount>,
    pub(crate) late_bytes: u64,
    pub(crate) warnings: Vec<String>,
}

/// Where the packets of one interface went.
#[derive(Debug)]
pub(crate) struct InterfaceAccount {
    pub(crate) name: String,
    /// Why it ended before the others, if it did.
    pub(crate) ending: Option<Ending>,
    pub(crate) ledger: Ledger,
    /// Where it is a bond that is captured by its ports: each of them.
    pub(crate) ports: Vec<(String, Ledger)>,
    /// Packets that engines of other queues or interfaces inspected.
    pub(crate) handed_over: u64,
}

/// What rules cost, with their program.
type Costs = (Arc<Program>, Vec<Profile>);

/// What a correlator was told.
struct Alarms {
    beats: u64,
    /// The last one.
    epoch: u64,
    /// Alerts that had been promised not to come.
    behind: u64,
    sent: Arc<Sent>,
    lines: Arc<Counts>,
    /// The longest that a frame took from its stamp until it was seen, of those that were not there at the look after it.
    visible_after_ns: u64,
}

/// What a run tells.
pub struct Summary {
    object: String,
    ending: Ending,
    elapsed_s: f64,
    rules: Used,
    /// Of each engine.
    counters: Vec<Counters>,
    /// Of all interfaces.
    ledger: Option<Ledger>,
    interfaces: Vec<InterfaceAccount>,
    /// Packets that were inspected as far as they came: shorter than on the wire.
    cut: u64,
    /// Where the records of alerts, flows, anomalies, packets and statistics went.
    records: Ledger,
    outputs: Arc<Counts>,
    alarms: Option<Alarms>,
    latency_us: Option<Quantiles>,
    /// From the arrival stamp to the alert, of each alert.
    detection: Option<HistogramSnapshot>,
    /// Alerts of packets that were there before the engine was; not among `detection`.
    of_backlog: u64,
    /// Alerts told without their transaction, payload and packet.
    bare: u64,
    /// Of the capture file of flows with alerts.
    pcap_log: Option<Logged>,
    reloads: u64,
    /// Of the detectors' tables, what was used before it had its pages.
    late_bytes: u64,
    warnings: Vec<String>,
    profile: Option<Costs>,
}

/// What became of the outputs.
struct EndedOutputs {
    /// Heartbeats, where there were any.
    beats: Result<Option<u64>>,
    /// Records, and whether these are all in the file.
    taken: Result<(u64, Result<()>)>,
    correlated: Result<()>,
}

impl Session<'_> {
    /// Has heartbeats, outputs and the correlator end, each whatever became of the one before.
    fn end_outputs(&mut self, heart: Option<Heart>, queue: Queue<Outputs>) -> EndedOutputs {
        let beats = heart.map(Heart::finish).transpose();
        let taken = queue.finish().map(|mut outputs| {
            let written = outputs.finish();
            (outputs.taken, written)
            // Which drops the correlator's end of the way, too.
        });
        EndedOutputs { beats, taken, correlated: self.end_correlating() }
    }

    /// Ends by a fault of an engine. What was found is told all the same; what fails then is second to that.
    pub(crate) fn give_up(mut self, around: Surroundings, fault: Error) -> Error {
        let _ = self.end_outputs(around.heart, around.queue);
        fault
    }

    /// Ends the flows, then the outputs, then the correlator in this process, and sums up. `failure`: why the run did not do all.
    ///
    /// # Errors
    /// The output thread panicked.
    pub(crate) fn end(
        mut self,
        around: Surroundings,
        inspectors: Vec<Inspector>,
        ended: Ended,
        failure: Option<Error>,
    ) -> Result<Run> {
        let (mut counters, mut made, mut of_backlog, mut bare, mut costs) = (Vec::new(), 0, 0, 0, Vec::new());
        let mut selected = Selected::default();
        for mut inspector in inspectors {
            inspector.finish();
            if let Some(log) = inspector.finds.pcap_log.take() {
                selected = selected.plus(log.finish());
            }
            made += inspector.finds.made;
            of_backlog += inspector.finds.of_backlog;
            bare += inspector.finds.bare;
            counters.push(inspector.detector.counters());
            if self.options.profile {
                let detector = &inspector.detector;
                costs.push((Arc::clone(detector.program()), detector.profile().to_vec()));
            }
        }
        let EndedOutputs { beats, taken, correlated } = self.end_outputs(around.heart, around.queue);
        let (beats, (taken, written)) = (beats?, taken?);
        let pcap_log = around.recorder.map(|recorder| Logged::of(recorder, selected)).transpose()?;
        let unlogged = pcap_log.as_ref().and_then(|log| log.record.error.clone());
        let lost = around.lost.iter().map(|lost| lost.load(Ordering::Relaxed)).sum();
        let visible_after_ns = around.reaches.iter().map(|reach| reach.late_ns()).max().unwrap_or(0);
        let detection = around.latency.iter().map(|latency| latency.snapshot()).reduce(|all, one| all.merged(&one));
        let Ended { object, ending, elapsed_s, cut, live, interfaces, late_bytes, mut warnings } = ended;
        warnings.extend(of_checksums(&counters, self.options.bounds.no_checksums));
        let (ledger, meters) = live.unzip();
        let summary = Summary {
            object,
            ending,
            elapsed_s,
            rules: self.rules.used,
            counters,
            ledger,
            interfaces,
            cut,
            records: records(made, taken, lost),
            outputs: around.counts,
            alarms: beats.map(|beats| Alarms {
                beats,
                epoch: around.numbers.epoch(),
                behind: around.numbers.behind(),
                sent: self.sent,
                lines: around.line_counts,
                visible_after_ns,
            }),
            // Stamps of files are of no clock.
            detection: detection.filter(|_| meters.is_some()),
            of_backlog,
            bare,
            pcap_log,
            latency_us: meters.map(|meters| meters.latency.quantiles_us()),
            reloads: self.rules.reloads,
            late_bytes,
            warnings,
            profile: together(costs),
        };
        Ok(Run { summary, failure: failure.or(written.err()).or(unlogged).or(correlated.err()) })
    }
}

/// Where so many checksums are wrong that packets must have been captured before they had one: what can be done.
fn of_checksums(counters: &[Counters], are_ignored: bool) -> Option<String> {
    let sum = |of: fn(&Counters) -> u64| counters.iter().map(of).sum::<u64>();
    let (bad, packets) = (sum(|counters| counters.bad_checksums), sum(|counters| counters.packets));
    (!are_ignored && bad > packets / FEW_CHECKSUMS).then(|| {
        format!(
            "{} of {} packets have a wrong checksum, so their receivers discard them, and they are in no stream; if they \
             were captured on the host that sent them, where the card puts it in later, say --no-checksums",
            grouped(bad),
            grouped(packets)
        )
    })
}

/// What rules cost in all engines: those that have other rules than the first one at the end are left out.
fn together(costs: Vec<Costs>) -> Option<Costs> {
    costs.into_iter().reduce(|mut all, one| {
        if Arc::ptr_eq(&all.0, &one.0) {
            for (sum, profile) in all.1.iter_mut().zip(&one.1) {
                sum.checks += profile.checks;
                sum.matches += profile.matches;
                sum.steps += profile.steps;
                sum.elapsed_ns += profile.elapsed_ns;
            }
        }
        all
    })
}

/// The ledger of records: made by engines, taken by the output thread, or lost because the queue between was full.
fn records(made: u64, taken: u64, lost: u64) -> Ledger {
    let mut ledger = Ledger { offered: Some(made), delivered: taken, filtered: Some(0), ..Ledger::default() };
    ledger.drop(Cause::SlowOutput, Some(lost));
    ledger
}

impl Summary {
    /// Lines and notifications that could not be written.
    pub(crate) fn failed_outputs(&self) -> u64 {
        self.outputs.failed.load(Ordering::Relaxed)
    }

    /// Lines for a correlator that could not be written.
    pub(crate) fn failed_lines(&self) -> u64 {
        self.alarms.as_ref().map_or(0, |alarms| alarms.lines.failed.load(Ordering::Relaxed))
    }

    fn sum(&self, of: impl Fn(&Counters) -> u64) -> u64 {
        self.counters.iter().map(of).sum()
    }

    /// One JSON object.
    #[must_use]
    pub fn object(&self) -> Value {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "kind": "summary",
            "object": self.object,
            "ending": self.ending.name(),
            "elapsed_s": self.elapsed_s,
            "rules": self.rules.rules,
            "rules_idle": self.rules.idle,
            "rules_left_out": self.rules.left_out,
            "packets": self.sum(|counters| counters.packets),
            "bytes": self.sum(|counters| counters.bytes),
            "alerts": self.sum(|counters| counters.alerts),
            "shed": self.sum(|counters| counters.shed),
            "engines": self.counters.iter().map(statistics::object).collect::<Vec<_>>(),
            "ledger": self.ledger.as_ref().map(ledger_object),
            "handed_over": self.interfaces.iter().map(|interface| interface.handed_over).sum::<u64>(),
            "interfaces": self.interfaces.iter().map(|interface| json!({
                "name": interface.name,
                "ending": interface.ending.map(Ending::name),
                "ledger": ledger_object(&interface.ledger),
                "ports": interface.ports.iter().map(|(name, ledger)| json!({
                    "name": name, "ledger": ledger_object(ledger),
                })).collect::<Vec<_>>(),
                "handed_over": interface.handed_over,
            })).collect::<Vec<_>>(),
            "cut": self.cut,
            "records": {
                "offered": self.records.offered, "delivered": self.records.delivered, "drops": self.records.drops,
                "unaccounted": self.records.unaccounted(),
            },
            "outputs": {
                "written": count(&self.outputs.written), "failed": count(&self.outputs.failed),
                "lost_in_queue": self.records.lost(),
            },
            "alarms": self.alarms.as_ref().map(|alarms| json!({
                "datagrams_sent": count(&alarms.sent.alerts), "datagrams_refused": count(&alarms.sent.refused),
                "lines_written": count(&alarms.lines.written), "lines_failed": count(&alarms.lines.failed),
                "heartbeats": alarms.beats, "epoch": alarms.epoch, "behind_heartbeat": alarms.behind,
                "visible_after_us": alarms.visible_after_ns as f64 / 1e3,
            })),
            "latency_us": self.latency_us,
            "detection_us": self.detection.as_ref().map(distribution),
            "alerts_of_backlog": self.of_backlog,
            "alerts_without_bytes": self.bare,
            "pcap_log": self.pcap_log.as_ref().map(Logged::object),
            "reloads": self.reloads,
            "tables_late_bytes": self.late_bytes,
            "warnings": self.warnings,
            "profile": self.profile.as_ref().map(|(program, profile)| {
                costly(program, profile).into_iter().map(|(sid, profile)| json!({
                    "sid": sid, "checks": profile.checks, "matches": profile.matches, "steps": profile.steps,
                    "nanoseconds": profile.elapsed_ns,
                })).collect::<Vec<_>>()
            }),
        })
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<18}{value}");
        };
        line("source", self.object.clone());
        line("ended by", self.ending.name().to_owned());
        let rules = &self.rules;
        line("rules", format!("{} used, {} not", grouped(rules.rules as u64), grouped(rules.left_out as u64)));
        if rules.idle > 0 {
            line("", format!("{} of those used can't match: nothing sets their flowbits", grouped(rules.idle as u64)));
        }
        self.counted(&mut line);
        self.written(&mut line);
        self.timed(&mut line);
        if self.reloads > 0 {
            line("rules reloaded", grouped(self.reloads));
        }
        if self.late_bytes > 0 {
            line("tables, late", format!("{} KiB in pages that were not there yet", grouped(self.late_bytes >> 10)));
        }
        for warning in &self.warnings {
            line("warning", warning.clone());
        }
        if let Some((program, profile)) = &self.profile {
            text.push_str(&cost_table(program, profile));
        }
        text
    }

    /// Packets, and what became of them.
    fn counted(&self, line: &mut impl FnMut(&str, String)) {
        line("packets", grouped(self.sum(|counters| counters.packets)));
        line("alerts", grouped(self.sum(|counters| counters.alerts)));
        let named: [(&str, u64); 15] = [
            ("cut packets", self.cut),
            ("shed packets", self.sum(|counters| counters.shed)),
            ("invalid packets", self.sum(|counters| counters.invalid)),
            ("budget hits", self.sum(|counters| counters.budget_hits)),
            ("stream gaps", self.sum(|counters| counters.gaps)),
            ("segments discarded", self.sum(|counters| counters.segments_discarded)),
            ("segments refused", self.sum(|counters| counters.segments_refused)),
            ("disordered", self.sum(|counters| counters.disordered)),
            ("backlog pushes", self.sum(|counters| counters.backlog_pushes)),
            ("flows evicted", self.sum(|counters| counters.flows.evicted)),
            ("no handshake", self.sum(|counters| counters.flows_without_handshake)),
            ("one-sided flows", self.sum(|counters| counters.flows_one_sided)),
            ("windows evicted", self.sum(|counters| counters.windows_evicted)),
            ("bad checksums", self.sum(|counters| counters.bad_checksums)),
            ("alerts over bound", self.sum(|counters| counters.alerts_over)),
        ];
        for (name, value) in named.into_iter().filter(|(_, value)| *value > 0) {
            line(name, grouped(value));
        }
        if let Some(ledger) = &self.ledger {
            let unaccounted = ledger.unaccounted().map_or_else(|| "unknown".to_owned(), |count| count.to_string());
            line("lost, unaccounted", format!("{}, {unaccounted}", grouped(ledger.lost())));
        }
        for (port, ledger) in self.interfaces.iter().flat_map(|interface| &interface.ports) {
            line("port", format!("{port}: {ledger}"));
        }
        let handed_over = self.interfaces.iter().map(|interface| interface.handed_over).sum();
        if handed_over > 0 {
            line("handed over", format!("{} to the engine of their flow", grouped(handed_over)));
        }
        if self.interfaces.len() > 1 {
            for interface in &self.interfaces {
                let ended = if interface.ending.is_some() { ", ended before the others" } else { "" };
                line("interface", format!("{}{ended}: {}", interface.name, interface.ledger));
            }
        }
    }

    /// Records and datagrams.
    fn written(&self, line: &mut impl FnMut(&str, String)) {
        let written = grouped(self.outputs.written.load(Ordering::Relaxed));
        let (failed, lost) = (grouped(self.failed_outputs()), grouped(self.records.lost()));
        line("records", format!("{written} written, {failed} failed, {lost} lost in the queue"));
        if let Some(log) = &self.pcap_log {
            line("packets logged", log.text());
        }
        let Some(alarms) = &self.alarms else { return };
        let count = |counter: &AtomicU64| grouped(counter.load(Ordering::Relaxed));
        let (sent, refused) = (count(&alarms.sent.alerts), count(&alarms.sent.refused));
        let (written, failed) = (count(&alarms.lines.written), count(&alarms.lines.failed));
        line("alert datagrams", format!("{sent} sent, {refused} refused"));
        line("alarm lines", format!("{written} written, {failed} failed"));
        line("heartbeats", format!("{}, {} alerts came behind one", grouped(alarms.beats), grouped(alarms.behind)));
    }

    /// Latencies.
    fn timed(&self, line: &mut impl FnMut(&str, String)) {
        let detection = self.detection.as_ref().map(HistogramSnapshot::quantiles_us);
        for (name, quantiles) in [("latency, µs", self.latency_us), ("detection, µs", detection)] {
            if let Some(q) = quantiles.filter(|quantiles| quantiles.count > 0) {
                line(name, format!("p50 {:.0}, p99 {:.0}, p99.9 {:.0}, worst {:.0}", q.p50, q.p99, q.p999, q.max));
            }
        }
    }
}

fn ledger_object(ledger: &Ledger) -> Value {
    json!({
        "offered": ledger.offered, "delivered": ledger.delivered, "filtered": ledger.filtered,
        "drops": ledger.drops, "lost": ledger.lost(), "unaccounted": ledger.unaccounted(),
    })
}

/// The rules that cost most, as a table.
fn cost_table(program: &Program, profile: &[Profile]) -> String {
    let mut text =
        format!("\n{:>10} {:>12} {:>12} {:>12} {:>10} {:>10}\n", "sid", "checks", "matches", "steps", "µs", "ns/check");
    for (sid, profile) in costly(program, profile) {
        let Profile { checks, matches, steps, elapsed_ns } = profile;
        let (micros, each) = (elapsed_ns / 1000, elapsed_ns / checks.max(1));
        let _ = writeln!(text, "{sid:>10} {checks:>12} {matches:>12} {steps:>12} {micros:>10} {each:>10}");
    }
    text
}

/// Quantiles in µs and, as `histogram`, pairs of a bucket's upper edge (µs) and its count, empty buckets left out.
fn distribution(delays: &HistogramSnapshot) -> Value {
    let mut object = json!(delays.quantiles_us());
    object["histogram"] = delays.buckets().map(|(upper_ns, count)| json!([upper_ns as f64 / 1e3, count])).collect();
    object
}

/// The rules that cost most.
fn costly(program: &Program, profile: &[Profile]) -> Vec<(u32, Profile)> {
    let mut list: Vec<(u32, Profile)> =
        program.rules().zip(profile).filter(|(_, p)| p.checks > 0).map(|(rule, p)| (rule.meta.sid, *p)).collect();
    list.sort_by_key(|(sid, profile)| (std::cmp::Reverse((profile.elapsed_ns, profile.steps)), *sid));
    list.truncate(SHOWN);
    list
}

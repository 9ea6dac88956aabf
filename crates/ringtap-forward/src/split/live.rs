//! A run, from opening to the summary.
//!
//! Owns the order: what can fail without leaving a trace comes first, files are made only when packets can be taken, privileges go
//! last. At the end engines stop first, then rings are emptied, then files completed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap::hand_over::{self, Demand, HandOver};
use ringtap::interface::Interface;
use ringtap::ledger::{Cause as InputCause, Ledger};
use ringtap::receiver::{DeviceOutcome, Devices, Ended, RunningDevices};
use ringtap::record::{FinalCounts, InterfaceInfo, Recorder};
use ringtap::source::StampClock;
use ringtap::{Error, Result};
use ringtap_run::devices::{note_ended, note_links};
use ringtap_run::live::{Configured, Live};
use ringtap_run::notes;
use ringtap_run::process::{Process, Terms};
use ringtap_run::sandbox::Needs;
use ringtap_run::secrets;
use ringtap_run::signals::{Hangup, Heard};

use super::accounts::{EngineCounts, Tally};
use super::classes;
use super::flow::FlowHash;
use super::handler::Splitter;
use super::outputs::{self, Manner, Output};
use super::report::{Facts, Look, Reporter, Summary};
use super::rule::Rule;
use super::{By, Done, Ending, Options};
use crate::counts::Cause;
use crate::health::{Health, Words};
use crate::port::{PATIENCE, Port, dropped_by};

/// How often to look at what wakes nobody.
const LOOK: Duration = Duration::from_millis(250);

/// What is said of an output.
const WORDS: Words = Words {
    up: "is up again: its flows are back",
    down: "is down: its flows go to the other outputs of their class",
    no_carrier: "has no carrier: its flows go to the other outputs of their class",
    gone: "was removed: its flows go to the other outputs of their class until ringtap is started again",
};

/// All that is open before engines start.
struct Opened {
    devices: Devices,
    outputs: Vec<Output>,
    opened: Vec<outputs::Opened>,
    rule: Arc<Rule>,
    stamps: StampClock,
    warnings: Vec<String>,
}

/// A run under way.
struct Run<'o> {
    options: &'o Options,
    facts: Facts,
    running: RunningDevices<HandOver<Splitter>>,
    counts: Vec<Arc<EngineCounts>>,
    health: Health,
    /// Of each output that is a file.
    recorders: Vec<Option<Recorder>>,
    /// What each output's device had dropped before; `None`: it is none.
    devices: Vec<Option<(u32, u64)>>,
    started: Instant,
}

pub(crate) fn run(options: &Options) -> Result<Done> {
    options.check()?;
    let process = Process::begin(&Terms {
        opens_interfaces: true,
        heard: Heard { hangup: Hangup::MayEnd, report: true, second_ends: true },
        user: options.user.as_deref(),
        keeps_privileges: options.no_sandbox,
    })?;
    let Opened { mut devices, outputs, mut opened, rule, stamps, mut warnings } = open(options, &process)?;
    let interfaces: Vec<_> = outputs.iter().map(Output::interface).collect();
    let health = Health::start(&interfaces, &WORDS)?;
    let engines = devices.source_count();
    let counts: Vec<Arc<EngineCounts>> =
        (0..engines).map(|_| Arc::new(EngineCounts::new(rule.classes.len(), outputs.len()))).collect();
    let splitters = splitters(&rule, &health, &mut opened, &counts, stamps);
    let demand = Demand { bound: options.input.max_latency, peak_pps: options.input.peak_pps };
    let handlers = devices.join_flows(splitters, demand, &mut warnings)?;
    let handed: Vec<_> = handlers.iter().map(HandOver::counts).collect();
    let facts = facts(options, &devices, &outputs, &opened, &rule);
    let writes = outputs.iter().filter_map(Output::file).map(|path| path.as_path()).collect();
    let needs = Needs { rings: true, writes, ..Needs::default() };
    let running = process.start(devices, handlers, needs, &mut warnings)?;
    warnings.iter().for_each(|warning| notes::warn(warning));
    let described: Vec<String> = facts.outputs.iter().map(|(name, backend)| format!("{name} ({backend})")).collect();
    let backend = facts.sources.first().map_or("", |source| source.backend);
    notes::say(&format!("splitting {} ({backend}) by {} to {}", facts.input, facts.by, described.join(", ")));
    let devices = interfaces.iter().map(|it| it.and_then(|it| Some((it.index, dropped_by(it.index)?))));
    let run = Run {
        options,
        facts,
        running,
        counts,
        health,
        recorders: opened.into_iter().map(|opened| opened.recorder).collect(),
        devices: devices.collect(),
        started: Instant::now(),
    };
    run.complete(&process, &handed, warnings)
}

fn open(options: &Options, process: &Process) -> Result<Opened> {
    let input = options.input.find_interface()?;
    if input.link_type() != Some(1) {
        return Err(Error::failed("split", &input.name, "its frames are no Ethernet frames")
            .way_out("split where these packets are Ethernet"));
    }
    let outputs = outputs::find(&options.outputs, &input)?;
    let seed = options.seed.map_or_else(secrets::random, Ok)?;
    let hash = FlowHash { hosts: options.by == By::Hosts, inner: options.inner, seed };
    let rule = Arc::new(classes::rule(&options.by, &options.outputs, hash)?);
    let mut warnings = warnings(&rule, &outputs);
    // What this host sends by the input is not for the outputs; and frames that leave by a device above it would come back.
    let live = Live { flows_together: true, incoming_only: Some(true), ..options.input.clone() };
    let Configured { config, plan } = live.configure(&input, None)?;
    if let Some(pps) = plan.and_then(|plan| plan.shortfall_pps()) {
        warnings
            .push(format!("at the peak rate one core is not enough: losses begin at {pps:.0} packets/s, or before"));
    }
    // Before anything takes packets: it may be long.
    let pipes = process.with_file_rights(|| outputs::await_readers(&outputs, process.signals()))?;
    let devices = Devices::open(vec![config])?;
    let stamps = devices.iter().next().and_then(|device| device.stamp_clock()).unwrap_or(StampClock::Realtime);
    let manner = Manner {
        backend: options.backend,
        slots: options.slots,
        spool_bytes: options.spool_bytes,
        engines: devices.source_count(),
    };
    let source = InterfaceInfo::ethernet(&input.name, stamps);
    let opened = outputs.iter().map(|output| match output.interface() {
        Some(_) => outputs::open(output, manner, &source, &mut warnings),
        None => process.with_file_rights(|| outputs::open(output, manner, &source, &mut warnings)),
    });
    let opened = opened.collect::<Result<Vec<_>>>()?;
    drop(pipes);
    Ok(Opened { devices, outputs, opened, rule, stamps, warnings })
}

/// What is worth a word before the start.
fn warnings(rule: &Rule, outputs: &[Output]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (number, output) in outputs.iter().enumerate() {
        if let Some((name, used)) =
            output.interface().and_then(|it: &Interface| Some((&it.name, it.host_use.as_ref()?)))
        {
            warnings.push(format!("{name} {used}: split packets go out beside the host's own, with foreign addresses"));
        }
        if !rule.classes.iter().any(|class| class.outputs.contains(&(number as u8))) {
            warnings.push(format!("{} gets nothing: no class names it", output.name));
        }
    }
    warnings
}

/// One for each engine.
fn splitters(
    rule: &Arc<Rule>,
    health: &Health,
    opened: &mut [outputs::Opened],
    counts: &[Arc<EngineCounts>],
    stamps: StampClock,
) -> Vec<Splitter> {
    let mut ways: Vec<_> = opened.iter_mut().map(|output| output.ways.drain(..)).collect();
    let splitter = |counts: &Arc<EngineCounts>| Splitter {
        rule: Arc::clone(rule),
        up: health.up(),
        ports: ways
            .iter_mut()
            .enumerate()
            .filter_map(|(number, ways)| Some(Port::new(ways.next()?, health.mtu(number))))
            .collect(),
        counts: Arc::clone(counts),
        stamps,
        again: None,
        since_flush: 0,
    };
    counts.iter().map(splitter).collect()
}

fn facts(options: &Options, devices: &Devices, outputs: &[Output], opened: &[outputs::Opened], rule: &Rule) -> Facts {
    let by = match &options.by {
        By::Flow => "flow".to_owned(),
        By::Hosts => "hosts".to_owned(),
        By::Protocol => "protocol".to_owned(),
        By::Classes(path) => path.display().to_string(),
    };
    Facts {
        input: options.input.interface.clone(),
        by: if options.inner { format!("{by}, inside tunnels") } else { by },
        outputs: outputs.iter().zip(opened).map(|(output, opened)| (output.name.clone(), opened.backend)).collect(),
        classes: rule.classes.iter().map(|class| class.name.clone()).collect(),
        sources: devices.descriptions(),
    }
}

impl Run<'_> {
    fn complete(
        mut self,
        process: &Process,
        handed: &[Arc<hand_over::Counts>],
        mut warnings: Vec<String>,
    ) -> Result<Done> {
        let mut reporter = Reporter::new(self.options.stats, self.options.objects, self.options.writes_stdout());
        let (ending, last) = self.watch(process, &mut reporter);
        let elapsed = self.started.elapsed();
        reporter.clear();
        let last_look = self.look();
        let Self { facts, running, counts, health, recorders, .. } = self;
        let mut ledger = Ledger::default();
        let (mut engine_percent, mut blind) = (Vec::new(), None);
        let mut counters = last_look.counters;
        let mut left = Vec::new();
        let mut handed = handed.iter();
        let outcomes = running.finish()?;
        // One deadline for all that did not leave.
        let settled_by = Instant::now() + PATIENCE;
        for DeviceOutcome { outcome, .. } in outcomes {
            ledger = outcome.ledger;
            for (engine, handed) in outcome.engines.into_iter().zip(handed.by_ref()) {
                ledger.undeliver(InputCause::HandOverFull, handed.full());
                engine_percent.push(engine.thread_share * 100.0);
                let mut splitter = engine.handler.into_inner();
                left.extend(splitter.settle(settled_by).into_iter().enumerate());
            }
            counters = outcome.counters;
            warnings
                .extend(outcome.warnings.into_iter().filter(|warning| !warnings.contains(warning)).collect::<Vec<_>>());
            blind = outcome.blind;
        }
        let mut tally = Tally::of(counts.iter().map(|counts| &**counts));
        let errors = complete_files(recorders, &mut tally, &facts)?;
        for (output, (cause, count)) in left.into_iter().flat_map(|(output, left)| left.map(|left| (output, left))) {
            tally.outputs[output].lose(cause, count);
        }
        let up = (0..facts.outputs.len()).map(|number| health.is_up(number)).collect();
        let look = Look { elapsed, tally, ledger, counters, device_dropped: last_look.device_dropped, up };
        let no_output = || {
            let cause = "no output is left";
            let is_failure =
                ending == Ending::OutputsGone && facts.outputs.iter().any(|(_, backend)| *backend != "file");
            is_failure.then(|| {
                Error::failed("split", &facts.input, cause).way_out("what was split before is complete; start again")
            })
        };
        let failure = last.map(|last| last.end.error("split", &last.device)).or(blind).or_else(|| {
            let is_failure = |error: &Error| error.errno() != Some(nix::libc::EPIPE);
            errors.into_iter().find(is_failure).or_else(no_output)
        });
        Ok(Done { summary: Summary { facts, ending, look, engine_percent, warnings }, failure })
    }

    /// Until the end; with the input's, where that is it.
    fn watch(&mut self, process: &Process, reporter: &mut Reporter) -> (Ending, Option<Ended>) {
        let signals = process.signals();
        let deadline = self.options.duration.and_then(|duration| self.started.checked_add(duration));
        let mut next_report = self.started.checked_add(reporter.interval());
        let mut before = self.look();
        let mut down = Vec::new();
        loop {
            let now = Instant::now();
            if signals.is_end_asked() || signals.take_hangup() {
                return (Ending::Signal, None);
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                return (Ending::Duration, None);
            }
            let (ended, have_ended) = (self.running.take_ended(), self.running.have_ended());
            let states = self.running.states();
            let mut note = |line: &str| reporter.note(line);
            let last = note_ended("split", ended, have_ended, &states, &mut note);
            if have_ended {
                return (Ending::InputGone, last);
            }
            note_links(&states, &mut down, note);
            self.running.take_news().iter().for_each(|line| reporter.note(line));
            self.note_outputs(reporter);
            if self.health.all_lost() {
                return (Ending::OutputsGone, None);
            }
            if signals.take_report() {
                let look = self.look();
                reporter.note(&look.tally.object(&look.ledger, false).to_string());
            }
            if next_report.is_some_and(|next| now >= next) {
                let look = self.look();
                reporter.interval_passed(&self.facts, &look, &before);
                before = look;
                while next_report.is_some_and(|next| now >= next) {
                    next_report = next_report.and_then(|next| next.checked_add(reporter.interval()));
                }
            }
            let wake = [deadline, next_report].into_iter().flatten().min();
            signals.rest(wake.map_or(LOOK, |wake| wake.saturating_duration_since(now).min(LOOK)));
        }
    }

    fn note_outputs(&self, reporter: &mut Reporter) {
        self.health.take_news().iter().for_each(|line| reporter.note(line));
        for (number, recorder) in self.recorders.iter().enumerate() {
            let Some(error) = recorder.as_ref().and_then(Recorder::error) else { continue };
            if self.health.lose(number) {
                reporter.note(&format!("{error}: its flows go to the other outputs of their class"));
            }
        }
    }

    fn look(&mut self) -> Look {
        let dropped = self.devices.iter().map(|device| {
            let (index, before) = (*device)?;
            Some(dropped_by(index)?.saturating_sub(before))
        });
        Look {
            elapsed: self.started.elapsed(),
            device_dropped: dropped.collect(),
            tally: Tally::of(self.counts.iter().map(|counts| &**counts)),
            ledger: self.running.ledgers().into_iter().next().unwrap_or_default(),
            counters: self.running.counters(),
            up: (0..self.facts.outputs.len()).map(|number| self.health.is_up(number)).collect(),
        }
    }
}

/// Completes all files; what was not written any more is lost. Returns why.
fn complete_files(recorders: Vec<Option<Recorder>>, tally: &mut Tally, facts: &Facts) -> Result<Vec<Error>> {
    let mut errors = Vec::new();
    for (number, recorder) in recorders.into_iter().enumerate() {
        let Some(recorder) = recorder else { continue };
        let output = &mut tally.outputs[number];
        let account = format!("{} of {} packets of {}", output.packets, tally.received, facts.input);
        let counts = FinalCounts {
            delivered: Some(output.packets),
            dropped_by_system: Some(output.lost()),
            ledger: Some(account),
            ..FinalCounts::default()
        };
        let done = recorder.finish(vec![counts])?;
        output.lose(Cause::OutputFailed, done.lost.output_packets);
        errors.extend(done.error);
    }
    Ok(errors)
}

//! A capture from an interface, from opening to the summary.
//!
//! Owns the order: what can fail without leaving a trace comes first, files are created only when packets can be taken,
//! and privileges go last. At the end the engines stop first, then the file is completed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap::interface::{Interface, InterfaceState};
use ringtap::ledger::Ledger;
use ringtap::meters::EngineSnapshot;
use ringtap::pacer::Policy;
use ringtap::receiver::{Backend, Departure, Outcome, Receiver, Running};
use ringtap::record::{InterfaceInfo, RecordSummary, Recorder, SpoolProducer};
use ringtap::source::StampClock;
use ringtap::{Error, Result};
use ringtap_run::filter::{Filter, Filtered};
use ringtap_run::live::{Configured, Live};
use ringtap_run::process::Process;
use ringtap_run::units::shown_rate;

use crate::accounts::{Counters, account, final_counts};
use crate::advice::{Asked, advice};
use crate::handler::{Keep, Limit, PanicWatch, Whole};
use crate::object::Facts;
use crate::report::{Reporter, Streams};
use crate::summary::{CpuUse, Steal, Summary, policy_words};
use crate::supervise::{Ending, EngineEvents, Job, Supervision};
use crate::{Capture, Ended};

impl Job for Running<Whole> {
    fn is_finished(&self) -> bool {
        Running::is_finished(self)
    }

    fn counters(&self) -> EngineSnapshot {
        Running::counters(self)
    }

    fn ledger(&mut self) -> Ledger {
        Running::ledger(self)
    }

    fn departure(&self) -> Option<Departure> {
        Running::departure(self)
    }

    fn interface(&self) -> Option<(&str, InterfaceState)> {
        let interface = Running::interface(self);
        Some((&interface.name, interface.state()))
    }
}

/// Runs a capture from an interface.
pub(crate) fn run(capture: &Capture, live: &Live, process: &Process, streams: &mut Streams) -> Result<Ended> {
    let live = Live { kept_bytes: capture.kept_bytes(), ..live.clone() };
    let Opened { interface, filter, receiver, link_type, policy, steal, mut warnings } = open(capture, &live)?;
    let mut recording = process.with_file_rights(|| start_recording(capture, &receiver, filter.as_ref(), link_type))?;
    let events = EngineEvents::new(process);
    let mut counters = Counters::default();
    let engines = receiver.descriptions().len();
    let handlers = handlers(capture, engines, filter.as_ref(), &mut recording.spools, &mut counters, &events);
    let mut running = process.start(receiver, handlers, capture.needs(true), &mut warnings)?;
    let started = Instant::now();
    let facts = Facts {
        object: interface.name.clone(),
        policy: Some(policy),
        max_latency: Some(live.max_latency),
        sources: running.descriptions().to_vec(),
        filter: filter.map(|filter| filter.text().to_owned()),
    };
    let mut reporter = Reporter::new(capture, &facts, streams, "timer");
    for warning in &warnings {
        reporter.note(&format!("warning: {warning}"));
    }
    reporter.note(&format!(
        "capturing from {} ({}), {}",
        interface.name,
        facts.sources.first().map_or("", |source| source.backend),
        facts.policy.as_ref().map_or_else(String::new, policy_words)
    ));
    let recorder = recording.recorder.as_ref();
    let watch = Supervision { events: &events, duration: capture.duration, counters: &counters, recorder };
    let ending = watch.run(&mut running, &mut reporter);
    let elapsed = started.elapsed();
    let departure =
        matches!(ending, Ending::InterfaceGone | Ending::InterfaceUsed).then(|| running.awaited_departure());
    reporter.clear();
    let (outcome, record) = finish(running, recording.recorder, &counters)?;
    warnings.extend(outcome.warnings.iter().filter(|warning| !warnings.contains(warning)).cloned().collect::<Vec<_>>());
    // The last packets may have failed to be written after the engines ended.
    let ledger = account(outcome.ledger.clone(), counters.tally(), record.as_ref().map(|record| record.lost));
    let error = error_of(ending, departure, &interface.name, record.as_ref(), outcome.blind.as_ref());
    let shares: Vec<f64> = outcome.engines.iter().map(|engine| engine.thread_share).collect();
    let cpus = cpu_use(&live, &shares, &steal, elapsed);
    let spool_bytes = capture.record.as_ref().map_or(0, |record| record.spool_bytes as u64);
    let advice = advice(&ledger, &facts, &cpus, Asked { peak_pps: live.peak_pps, spool_bytes });
    let error = error.or_else(|| capture.loss(&ledger, &facts.object));
    let summary = Summary {
        facts,
        ending,
        elapsed,
        ledger,
        tally: counters.tally(),
        counters: outcome.counters,
        cpus,
        driver_counters: outcome.driver_counters,
        record,
        advice,
        warnings,
        error: error.as_ref().map(Error::to_string),
    };
    Ok(Ended { summary, error })
}

/// An interface from which packets are kept in the rings.
struct Opened {
    interface: Interface,
    filter: Option<Filter>,
    receiver: Receiver,
    link_type: u16,
    policy: Policy,
    steal: Steal,
    warnings: Vec<String>,
}

fn open(capture: &Capture, live: &Live) -> Result<Opened> {
    let interface = live.find_interface().map_err(|error| {
        let is_any = live.interface == "any" && live.backend != Backend::Vfio;
        if is_any { any_is_libpcaps() } else { error }
    })?;
    let known = (live.backend != Backend::Pcap).then(|| link_type(interface.link_type(), &interface)).transpose()?;
    let mut filter = known.map_or(Ok(None), |link_type| capture.compile_filter(link_type))?;
    let Configured { config, plan } = live.configure(&interface, filter.as_ref())?;
    let mut warnings = Vec::new();
    if let Some(most_pps) = plan.and_then(|plan| plan.shortfall_pps()) {
        warnings.push(format!(
            "at {} one core is not enough: losses begin at about {}",
            shown_rate(live.peak_pps),
            shown_rate(most_pps)
        ));
    }
    if live.take && live.backend == Backend::Auto && interface.host_use.is_some() && !config.rules_are_exact {
        warnings.push(format!(
            "this filter can't be decided in the driver, so nothing is taken from the host: packets of {} are copied (see --take)",
            interface.name
        ));
    }
    let policy = config.policy.clone();
    let steal = Steal::start();
    let receiver = Receiver::open(config)?;
    let link_type = link_type(receiver.link_type(), &interface)?;
    if known.is_none() {
        filter = capture.compile_filter(link_type)?;
    }
    Ok(Opened { interface, filter, receiver, link_type, policy, steal, warnings })
}

/// Ends the engines, then completes the file, which is whole also where an engine's own counts are lost with it.
fn finish(
    running: Running<Whole>,
    recorder: Option<Recorder>,
    counters: &Counters,
) -> Result<(Outcome<Whole>, Option<RecordSummary>)> {
    let outcome = running.finish();
    let lost = recorder.as_ref().map(Recorder::lost);
    let ledger = outcome.as_ref().ok().map(|outcome| account(outcome.ledger.clone(), counters.tally(), lost));
    let counts = ledger.as_ref().map(final_counts).into_iter().collect();
    let record = recorder.map(|recorder| recorder.finish(counts)).transpose()?;
    Ok((outcome?, record))
}

/// What went wrong, if anything did.
fn error_of(
    ending: Ending,
    departure: Option<Departure>,
    name: &str,
    record: Option<&RecordSummary>,
    blind: Option<&Error>,
) -> Option<Error> {
    match ending {
        Ending::InterfaceGone | Ending::InterfaceUsed => {
            departure.map(|end| Error::failed("capture from", name, &end).way_out(end.way_out()))
        }
        Ending::EngineFailed => Some(
            Error::failed("capture from", name, "the device stopped answering")
                .way_out("what was captured before is complete"),
        ),
        Ending::ReaderGone => None,
        _ => record.and_then(|record| record.error.clone()).or(blind.cloned()),
    }
}

fn cpu_use(live: &Live, shares: &[f64], steal: &Steal, elapsed: Duration) -> Vec<CpuUse> {
    let cpus = live.engine_cpus();
    let of = |(index, share): (usize, &f64)| {
        let cpu = cpus.get(index % cpus.len().max(1)).copied();
        CpuUse { cpu, engine_percent: share * 100.0, steal_percent: cpu.and_then(|cpu| steal.percent(cpu, elapsed)) }
    };
    shares.iter().enumerate().map(of).collect()
}

/// What tcpdump and Wireshark call all interfaces together.
fn any_is_libpcaps() -> Error {
    Error::usage("capture from", "any", "it is no interface but libpcap's name for all of them")
        .way_out("add --backend pcap, or name one interface")
}

/// The link type of files and filters.
fn link_type(found: Option<u16>, interface: &Interface) -> Result<u16> {
    found.ok_or_else(|| {
        Error::failed(
            "capture from",
            &interface.name,
            format!("frames of hardware type {} have no link type here", interface.hardware_type),
        )
        .way_out("capture where these packets enter or leave as Ethernet or IP")
    })
}

/// What writes, where something is written.
struct Recording {
    recorder: Option<Recorder>,
    spools: Vec<SpoolProducer>,
}

fn start_recording(
    capture: &Capture,
    receiver: &Receiver,
    filter: Option<&Filter>,
    link_type: u16,
) -> Result<Recording> {
    let Some(mut config) = capture.record.clone() else {
        return Ok(Recording { recorder: None, spools: Vec::new() });
    };
    config.spools = receiver.descriptions().len();
    let stamp_clock = receiver.stamp_clock().unwrap_or(StampClock::Realtime);
    let info = InterfaceInfo {
        filter: filter.map(|filter| filter.text().to_owned()),
        snaplen: capture.snaplen.unwrap_or(0),
        link_type,
        ..InterfaceInfo::ethernet(&receiver.interface().name, stamp_clock)
    };
    let (recorder, spools) = Recorder::start(config, vec![info])?;
    Ok(Recording { recorder: Some(recorder), spools })
}

/// One handler for each engine.
fn handlers(
    capture: &Capture,
    engines: usize,
    filter: Option<&Filter>,
    spools: &mut Vec<SpoolProducer>,
    counters: &mut Counters,
    events: &Arc<EngineEvents>,
) -> Vec<Whole> {
    let limit = capture.count.map(|most| Arc::new(Limit::new(most, Arc::clone(events))));
    let mut spools = spools.drain(..);
    (0..engines)
        .map(|_| {
            let keep = Keep {
                snaplen: capture.kept_bytes(),
                spool: spools.next(),
                from_file: false,
                counts: Arc::default(),
                limit: limit.clone(),
                _watch: PanicWatch(Arc::clone(events)),
            };
            let rejected = Arc::default();
            counters.kept.push(Arc::clone(&keep.counts));
            counters.rejected.push(Arc::clone(&rejected));
            Filtered::new(filter.map(Filter::program), rejected, keep)
        })
        .collect()
}

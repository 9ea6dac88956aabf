//! A capture from an interface, from opening to the summary.
//!
//! Owns the order: what can fail without leaving a trace comes first, files are created only when packets can be taken,
//! and privileges go last. At the end the engines stop first, then the file is completed.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use ringtap::interface::{Interface, InterfaceState};
use ringtap::ledger::Ledger;
use ringtap::meters::EngineSnapshot;
use ringtap::receiver::{Departure, Receiver, Running};
use ringtap::record::{InterfaceInfo, Recorder, SpoolProducer};
use ringtap::source::StampClock;
use ringtap::sys::keeper::Keeper;
use ringtap::{Error, Result};

use super::accounts::{Counters, account, final_counts};
use super::advice::{Asked, advice};
use super::handler::{Keep, Limit, PanicBell, Whole};
use super::object::{Facts, print_line};
use super::report::Reporter;
use super::summary::{CpuUse, Steal, Summary, policy_words};
use super::supervise::{Bell, Ending, Job, supervise};
use super::user::Successor;
use super::{Args, Backend};
use crate::filter::{Filter, Filtered};
use crate::sandbox;

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
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    // The first thing there is and the last that goes: it puts back what others no longer may.
    let _keeper = Keeper::start().map_err(|error| Error::os("start", "the keeper of settings", &error))?;
    let bell = Bell::install()?;
    let successor = args.user.as_deref().map(Successor::find).transpose()?;
    let name = args.interface.as_deref().unwrap_or_default();
    let interface = match args.backend {
        // What a libpcap calls its devices, and what their frames are, it tells when they are open.
        Backend::Pcap => Interface::find(name).unwrap_or_else(|_| Interface::foreign(name)),
        Backend::Vfio => Interface::card(name)?,
        _ => Interface::find_up(name).map_err(|error| if name == "any" { any_is_libpcaps() } else { error })?,
    };
    let known = (args.backend != Backend::Pcap).then(|| link_type(interface.link_type(), &interface)).transpose()?;
    let mut filter = known.map_or(Ok(None), |link_type| args.compile_filter(link_type))?;
    let mut warnings = Vec::new();
    let config = args.receiver_config(&interface, filter.as_ref(), &mut warnings)?;
    let policy = config.policy.clone();
    let steal = Steal::start();
    let receiver = Receiver::open(config)?;
    let link_type = link_type(receiver.link_type(), &interface)?;
    if known.is_none() {
        filter = args.compile_filter(link_type)?;
    }
    let sources = receiver.descriptions();
    let mut recording = match &successor {
        Some(successor) => successor.with_file_rights(|| start_recording(args, &receiver, filter.as_ref(), link_type)),
        None => start_recording(args, &receiver, filter.as_ref(), link_type),
    }?;
    let mut counters = Counters::default();
    let mut handlers =
        handlers(args, sources.len(), filter.as_ref(), &mut recording.spools, &mut counters, &bell).into_iter();
    // One handler was made for each source, and start asks for each once, in this order.
    let mut running =
        receiver.start(|_, _| handlers.next().unwrap_or_else(|| unreachable!("a source without a handler")))?;
    warnings.extend(sandbox::enter(args.no_sandbox, &args.needs(true, successor.as_ref()))?);
    let started = Instant::now();
    warnings.extend(running.warnings().iter().cloned());
    let facts = Facts {
        object: interface.name.clone(),
        policy: Some(policy),
        max_latency: Some(args.max_latency),
        sources: running.descriptions().to_vec(),
        filter: filter.map(|filter| filter.text().to_owned()),
    };
    let mut reporter = Reporter::new(&facts, args.json, args.stats, "timer".to_owned());
    for warning in &warnings {
        reporter.note(&format!("warning: {warning}"));
    }
    reporter.note(&format!(
        "capturing from {} ({}), {}",
        interface.name,
        facts.sources.first().map_or("", |source| source.backend),
        facts.policy.as_ref().map_or_else(String::new, policy_words)
    ));
    let ending = supervise(&mut running, &bell, args.duration, &counters, recording.recorder.as_ref(), &mut reporter);
    let elapsed = started.elapsed();
    let departure =
        matches!(ending, Ending::InterfaceGone | Ending::InterfaceUsed).then(|| running.awaited_departure());
    reporter.clear();

    let outcome = running.finish();
    let lost = || recording.recorder.as_ref().map(Recorder::lost);
    let (ledger, snapshot, driver_counters, shares) = match &outcome {
        Ok(outcome) => {
            let shares: Vec<f64> = outcome.engines.iter().map(|engine| engine.thread_share).collect();
            let ledger = account(outcome.ledger.clone(), counters.tally(), lost());
            (Some(ledger), Some(outcome.counters.clone()), outcome.driver_counters.clone(), shares)
        }
        // The engine's own counts went with it; what reached the file is in the file.
        Err(_) => (None, None, Vec::new(), Vec::new()),
    };
    let record = match recording.recorder {
        Some(recorder) => Some(recorder.finish(ledger.as_ref().map(final_counts).into_iter().collect())?),
        None => None,
    };
    let outcome = outcome?;
    warnings.extend(outcome.warnings.iter().filter(|warning| !warnings.contains(warning)).cloned().collect::<Vec<_>>());
    let output_error = record.as_ref().and_then(|record| record.error.clone());
    let gone = departure.map(|end| Error::failed("capture from", &interface.name, &end).way_out(end.way_out()));
    let error = match ending {
        Ending::InterfaceGone | Ending::InterfaceUsed => gone,
        Ending::EngineFailed => Some(
            Error::failed("capture from", &interface.name, "the device stopped answering")
                .way_out("what was captured before is complete"),
        ),
        Ending::ReaderGone => None,
        _ => output_error.or(outcome.blind),
    };
    // The last packets may have failed to be written after the engines ended.
    let ledger = account(outcome.ledger.clone(), counters.tally(), record.as_ref().map(|record| record.lost));
    let cpus = args.engine_cpus();
    let cpu_use = shares.iter().enumerate().map(|(index, share)| {
        let cpu = cpus.get(index % cpus.len().max(1)).copied();
        CpuUse { cpu, engine_percent: share * 100.0, steal_percent: cpu.and_then(|cpu| steal.percent(cpu, elapsed)) }
    });
    let cpus: Vec<CpuUse> = cpu_use.collect();
    let asked = Asked { peak_pps: args.peak_rate, spool_bytes: args.spool };
    let advice = advice(&ledger, &facts, &cpus, asked);
    let error = error.or_else(|| args.loss(&ledger, &facts.object));
    let summary = Summary {
        facts,
        ending,
        elapsed,
        ledger,
        tally: counters.tally(),
        counters: snapshot.unwrap_or(outcome.counters),
        cpus,
        driver_counters,
        record,
        advice,
        warnings,
        error: error.as_ref().map(Error::to_string),
    };
    conclude(args, &summary, error)
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

/// Shows the summary; an error goes on to become the exit code.
pub(super) fn conclude(args: &Args, summary: &Summary, error: Option<Error>) -> Result<ExitCode> {
    use std::io::Write;
    // Nobody may be left to read it, which is no failure of the capture.
    let _ = if args.json {
        print_line(&summary.object())
    } else if args.records_to_stdout() {
        write!(std::io::stderr(), "{summary}")
    } else {
        write!(std::io::stdout(), "{summary}").and_then(|()| std::io::stdout().flush())
    };
    error.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// What writes, where something is written.
struct Recording {
    recorder: Option<Recorder>,
    spools: Vec<SpoolProducer>,
}

fn start_recording(args: &Args, receiver: &Receiver, filter: Option<&Filter>, link_type: u16) -> Result<Recording> {
    let sources = receiver.descriptions();
    let Some(config) = args.record_config(sources.len()) else {
        return Ok(Recording { recorder: None, spools: Vec::new() });
    };
    let stamp_clock = receiver.stamp_clock().unwrap_or(StampClock::Realtime);
    let info = InterfaceInfo {
        filter: filter.map(|filter| filter.text().to_owned()),
        snaplen: args.snaplen.unwrap_or(0) as u32,
        link_type,
        ..InterfaceInfo::ethernet(&receiver.interface().name, stamp_clock)
    };
    let (recorder, spools) = Recorder::start(config, vec![info])?;
    Ok(Recording { recorder: Some(recorder), spools })
}

/// One handler for each engine.
fn handlers(
    args: &Args,
    engines: usize,
    filter: Option<&Filter>,
    spools: &mut Vec<SpoolProducer>,
    counters: &mut Counters,
    bell: &Arc<Bell>,
) -> Vec<Whole> {
    let limit = args.count.map(|most| Arc::new(Limit::new(most, Arc::clone(bell))));
    let mut spools = spools.drain(..);
    (0..engines)
        .map(|_| {
            let keep = Keep {
                snaplen: args.kept_bytes(),
                spool: spools.next(),
                from_file: false,
                counts: Arc::default(),
                limit: limit.clone(),
                _bell: PanicBell(Arc::clone(bell)),
            };
            let rejected = Arc::default();
            counters.kept.push(Arc::clone(&keep.counts));
            counters.rejected.push(Arc::clone(&rejected));
            Filtered::new(filter.map(Filter::program), rejected, keep)
        })
        .collect()
}

//! A replay of capture files through the same engine, handler and recording as a capture from an interface.
//!
//! Owns the engine's thread and the ledger of files: every packet in them is offered. Nothing here is real-time, and the
//! engine waits for the disk where it must, since a file can.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap::Stop;
use ringtap::engine::{End, Engine};
use ringtap::interface::InterfaceState;
use ringtap::ledger::Ledger;
use ringtap::meters::{EngineMeters, EngineSnapshot};
use ringtap::pacer::{Pacer, Policy};
use ringtap::receiver::Ended;
use ringtap::record::{InterfaceInfo, Recorder, SpoolProducer};
use ringtap::source::file::{FileSource, Pace};
use ringtap::source::{Source, StampClock};
use ringtap::{Error, Result};
use ringtap_run::filter::{Filter, Filtered};
use ringtap_run::process::Process;

use crate::Capture;
use crate::accounts::{Counters, Unwritten, final_counts};
use crate::handler::{Keep, Limit, PanicWatch, Whole};
use crate::object::Facts;
use crate::report::{Reporter, Streams};
use crate::summary::Summary;
use crate::supervise::{Ending, EngineEvents, Job, Supervision};

/// The engine at work on files.
struct Replaying {
    thread: JoinHandle<(FileSource, End)>,
    meters: Arc<EngineMeters>,
}

impl Job for Replaying {
    fn is_live(&self) -> bool {
        false
    }

    fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    fn counters(&self) -> EngineSnapshot {
        self.meters.snapshot()
    }

    fn ledgers(&mut self) -> Vec<Ledger> {
        let delivered = self.meters.snapshot().packets;
        vec![Ledger { offered: Some(delivered), delivered, filtered: Some(0), ..Ledger::default() }]
    }

    fn engine_cpu(&self) -> Vec<Option<Duration>> {
        Vec::new()
    }

    fn take_ended(&mut self) -> Vec<Ended> {
        Vec::new()
    }

    fn take_news(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn states(&self) -> Vec<(&str, InterfaceState)> {
        Vec::new()
    }
}

/// Runs a replay.
pub(crate) fn run(
    capture: &Capture,
    files: &[PathBuf],
    pace: Pace,
    process: &Process,
    streams: &mut Streams,
) -> Result<crate::Ended> {
    let events = EngineEvents::new(process);
    let source = FileSource::open(files, pace)?;
    let link_type = source.link_type().unwrap_or(1);
    let filter = capture.compile_filter(link_type)?;
    let description = source.description();
    capture.record.iter().try_for_each(|record| record.spare(files))?;
    let (recorder, spool) =
        process.with_file_rights(|| start_recording(capture, &description.object, filter.as_ref(), link_type))?;
    let mut counters = Counters::default();
    let handler = handler(capture, filter.as_ref(), spool, &mut counters, &events);
    let stop = Arc::new(Stop::new()?);
    let mut job = start(source, handler, Arc::clone(&stop))?;
    let given_up = process.confine(capture.needs(false))?;
    let started = Instant::now();
    let facts = Facts {
        object: description.object.clone(),
        interfaces: Vec::new(),
        policy: None,
        max_latency: None,
        sources: vec![description],
        filter: filter.map(|filter| filter.text().to_owned()),
    };
    let mut reporter = Reporter::new(capture, &facts, streams, "replay");
    given_up.iter().for_each(|warning| reporter.note(&format!("warning: {warning}")));
    let watch = Supervision {
        events: &events,
        duration: capture.duration,
        counters: &counters,
        recorder: recorder.as_ref(),
        asked: None,
        shown: None,
    };
    let (ending, _) = watch.run(&mut job, &mut reporter);
    stop.pull();
    let ended = job.thread.join();
    let elapsed = started.elapsed();
    reporter.clear();

    let snapshot = job.meters.snapshot();
    let other = ended.as_ref().map_or(0, |(source, _)| source.other_link_type());
    let core = Ledger {
        offered: Some(snapshot.packets + other),
        delivered: snapshot.packets,
        filtered: Some(other),
        ..Ledger::default()
    };
    let unwritten = recorder.as_ref().map(Unwritten::of);
    let counts = final_counts(&counters.account(vec![core.clone()], unwritten.as_ref()).1);
    let record = recorder.map(|recorder| recorder.finish(counts)).transpose()?;
    let unwritten = unwritten.zip(record.as_ref()).map(|(unwritten, record)| unwritten.finally(record));
    let (source, _) = ended.map_err(|_| {
        Error::failed("replay", &facts.object, "the engine thread panicked").way_out("report this as a bug")
    })?;
    let (warnings, fault) = faults(&source, other);
    let output_error = record.as_ref().and_then(|record| record.error.clone()).filter(|_| ending != Ending::ReaderGone);
    let error = output_error.or(fault);
    let summary = Summary {
        facts,
        ending,
        elapsed,
        ledger: counters.account(vec![core], unwritten.as_ref()).0,
        tally: counters.tally(),
        in_memory: None,
        devices: Vec::new(),
        counters: snapshot,
        cpus: Vec::new(),
        driver_counters: Vec::new(),
        record,
        advice: Vec::new(),
        warnings,
        error: error.as_ref().map(Error::to_string),
    };
    Ok(crate::Ended { summary, error })
}

/// What to know of the files, and the first thing wrong with one; `other` packets were of another link type.
fn faults(source: &FileSource, other: u64) -> (Vec<String>, Option<Error>) {
    let mut warnings = Vec::new();
    if other > 0 {
        warnings
            .push(format!("{other} packets have another link type than the first one and were left out (as filtered)"));
    }
    let mut faults = source.faults().iter();
    let first = faults.next().cloned();
    warnings.extend(faults.map(Error::to_string));
    (warnings, first)
}

fn start_recording(
    capture: &Capture,
    object: &str,
    filter: Option<&Filter>,
    link_type: u16,
) -> Result<(Option<Recorder>, Option<SpoolProducer>)> {
    let Some(mut config) = capture.record.clone() else { return Ok((None, None)) };
    config.spools = 1;
    let info = InterfaceInfo {
        filter: filter.map(|filter| filter.text().to_owned()),
        snaplen: capture.snaplen.unwrap_or(0),
        link_type,
        ..InterfaceInfo::ethernet(object, StampClock::Recorded)
    };
    let (recorder, mut spools) = Recorder::start(config, vec![info])?;
    Ok((Some(recorder), spools.pop()))
}

fn handler(
    capture: &Capture,
    filter: Option<&Filter>,
    spool: Option<SpoolProducer>,
    counters: &mut Counters,
    events: &Arc<EngineEvents>,
) -> Whole {
    let keep = Keep {
        interface: 0,
        snaplen: capture.kept_bytes(),
        spool,
        last: None,
        from_file: true,
        counts: Arc::default(),
        limit: capture.count.map(|most| Arc::new(Limit::new(most, Arc::clone(events)))),
        _watch: PanicWatch(Arc::clone(events)),
    };
    let rejected = Arc::default();
    counters.add(0, Arc::clone(&keep.counts), Arc::clone(&rejected));
    Filtered::new(filter.map(Filter::program), rejected, keep)
}

fn start(source: FileSource, handler: Whole, stop: Arc<Stop>) -> Result<Replaying> {
    let object = source.description().object;
    // A file is ready or it sleeps until its next packet is due: there is nothing to poll for.
    let pacer = Pacer::new(&Policy::Interrupt).map_err(|error| Error::usage("replay", &object, error))?;
    let meters = Arc::new(EngineMeters::default());
    let mut engine =
        Engine { source, handler, pacer, transmit: None, stop, meters: Arc::clone(&meters), packet_limit: None };
    let thread = std::thread::Builder::new()
        .name("ringtap-replay".to_owned())
        .spawn(move || {
            let end = engine.run();
            (engine.source, end)
        })
        .map_err(|error| Error::os("start engine thread for", object, &error))?;
    Ok(Replaying { thread, meters })
}

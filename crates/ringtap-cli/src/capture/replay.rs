//! A replay of capture files through the same engine, handler and recording as a capture from an interface.
//!
//! Owns the engine's thread and the ledger of files: every packet in them is offered. Nothing here is real-time, and the
//! engine waits for the disk where it must, since a file can.

use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use ringtap::engine::{End, Engine};
use ringtap::interface::InterfaceState;
use ringtap::ledger::Ledger;
use ringtap::meters::{EngineMeters, EngineSnapshot};
use ringtap::pacer::{Pacer, Policy};
use ringtap::receiver::Departure;
use ringtap::record::{InterfaceInfo, Recorder};
use ringtap::source::file::FileSource;
use ringtap::source::{Source, StampClock};
use ringtap::sys::event::Stop;
use ringtap::{Error, Result};

use super::Args;
use super::accounts::{Counters, account, final_counts};
use super::handler::{Keep, Limit, PanicBell, Whole};
use super::live::conclude;
use super::object::Facts;
use super::report::Reporter;
use super::summary::Summary;
use super::supervise::{Bell, Ending, Job, supervise};
use super::user::Successor;
use crate::filter::{Filter, Filtered};
use crate::sandbox;

/// The engine at work on files.
struct Replaying {
    thread: JoinHandle<(FileSource, End)>,
    meters: Arc<EngineMeters>,
}

impl Job for Replaying {
    fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    fn counters(&self) -> EngineSnapshot {
        self.meters.snapshot()
    }

    fn ledger(&mut self) -> Ledger {
        let delivered = self.meters.snapshot().packets;
        Ledger { offered: Some(delivered), delivered, filtered: Some(0), ..Ledger::default() }
    }

    fn departure(&self) -> Option<Departure> {
        None
    }

    fn interface(&self) -> Option<(&str, InterfaceState)> {
        None
    }
}

/// Runs a replay.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let bell = Bell::install()?;
    let successor = args.user.as_deref().map(Successor::find).transpose()?;
    let source = FileSource::open(&args.read, args.pace)?;
    let link_type = source.link_type().unwrap_or(1);
    let filter = args.compile_filter(link_type)?;
    let description = source.description();
    let (recorder, spool) = match args.record_config(1) {
        Some(config) => {
            let info = InterfaceInfo {
                filter: filter.as_ref().map(|filter| filter.text().to_owned()),
                snaplen: args.snaplen.unwrap_or(0) as u32,
                link_type,
                ..InterfaceInfo::ethernet(&description.object, StampClock::Recorded)
            };
            refuse_overwriting(args)?;
            let start = || Recorder::start(config, vec![info]);
            let (recorder, mut spools) = match &successor {
                Some(successor) => successor.with_file_rights(start)?,
                None => start()?,
            };
            (Some(recorder), spools.pop())
        }
        None => (None, None),
    };
    let mut counters = Counters::default();
    let keep = Keep {
        snaplen: args.kept_bytes(),
        spool,
        from_file: true,
        counts: Arc::default(),
        limit: args.count.map(|most| Arc::new(Limit::new(most, Arc::clone(&bell)))),
        _bell: PanicBell(Arc::clone(&bell)),
    };
    let rejected = Arc::default();
    counters.kept.push(Arc::clone(&keep.counts));
    counters.rejected.push(Arc::clone(&rejected));
    let handler = Filtered::new(filter.as_ref().map(Filter::program), rejected, keep);
    let stop = Arc::new(Stop::new()?);
    let mut job = start(source, handler, Arc::clone(&stop))?;
    let warnings = sandbox::enter(args.no_sandbox, &args.needs(false, successor.as_ref()))?;
    let started = Instant::now();
    let facts = Facts {
        object: description.object.clone(),
        policy: None,
        max_latency: None,
        sources: vec![description],
        filter: filter.map(|filter| filter.text().to_owned()),
    };
    let mut reporter = Reporter::new(&facts, args.json, args.stats, "replay".to_owned());
    warnings.iter().for_each(|warning| reporter.note(&format!("warning: {warning}")));
    let ending = supervise(&mut job, &bell, args.duration, &counters, recorder.as_ref(), &mut reporter);
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
    let lost = recorder.as_ref().map(Recorder::lost);
    let counts = final_counts(&account(core.clone(), counters.tally(), lost));
    let record = recorder.map(|recorder| recorder.finish(vec![counts])).transpose()?;
    let (source, _) = ended.map_err(|_| {
        Error::failed("replay", &facts.object, "the engine thread panicked").way_out("report this as a bug")
    })?;
    let mut warnings = Vec::new();
    if other > 0 {
        warnings
            .push(format!("{other} packets have another link type than the first one and were left out (as filtered)"));
    }
    let mut faults = source.faults().iter();
    let fault = faults.next().cloned();
    warnings.extend(faults.map(Error::to_string));
    let output_error = record.as_ref().and_then(|record| record.error.clone()).filter(|_| ending != Ending::ReaderGone);
    let error = output_error.or(fault);
    let summary = Summary {
        facts,
        ending,
        elapsed,
        ledger: account(core, counters.tally(), record.as_ref().map(|record| record.lost)),
        tally: counters.tally(),
        counters: snapshot,
        cpus: Vec::new(),
        driver_counters: Vec::new(),
        record,
        advice: Vec::new(),
        warnings,
        error: error.as_ref().map(Error::to_string),
    };
    conclude(args, &summary, error)
}

/// Writing into a file that is being read would empty it.
fn refuse_overwriting(args: &Args) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &std::path::Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let Some(output) = args.write.as_deref() else { return Ok(()) };
    if identity(output).is_some_and(|output| args.read.iter().any(|input| identity(input) == Some(output))) {
        return Err(
            Error::usage("record into", output.display().to_string(), "it is being read").way_out("name another file")
        );
    }
    Ok(())
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

//! The sensor on capture files: the same handler as live, on an engine that waits for its output, so nothing is lost.
//!
//! Owns the engine's run over files.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ringtap::arrival::ArrivalClock;
use ringtap::engine::{End, Engine};
use ringtap::meters::EngineMeters;
use ringtap::pacer::{Pacer, Policy};
use ringtap::source::StampClock;
use ringtap::source::file::{FileSource, Pace};
use ringtap::sys::event::Stop;
use ringtap::{Error, Result};
use ringtap_alarm::Catalogue;
use ringtap_alarm::eve::Writer;
use ringtap_alarm::output::{Counts, Queue};
use ringtap_detect::Detector;
use ringtap_detect::rules::BitNames;
use ringtap_wire::LinkType;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::config::Config;
use super::handler::{Finds, NEVER, Sensor, Shedding};
use super::live::needs;
use super::output::{Wishes, Writing, wanted, wants};
use super::rules::{self, Used};
use super::summary::{Summary, records};
use super::{Args, Event};
use crate::sandbox;

/// Runs the sensor over files.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let config = Config::of(args)?;
    let loaded = rules::load(args, &config.variables, BitNames::default())?;
    rules::tell(&loaded);
    let used = Used::of(&loaded);
    let source = FileSource::open(&args.replay, Pace::AsFast)?;
    let object = args.replay.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let number = source.link_type().unwrap_or(1);
    let link = LinkType::from_number(number.into()).ok_or_else(|| {
        Error::failed("read packets of", &object, format!("link type {number} is not supported"))
            .way_out("capture where they are Ethernet or IP")
    })?;
    let mut catalogue = Catalogue::default();
    catalogue.add(loaded.program.rules(), &loaded.classes);
    // Flow numbers are the same in each run over the same files.
    let writer = Writer { packet_numbers: true, catalogue, ..Writer::default() };
    let counts = Arc::new(Counts::default());
    let writing = Writing::new(args, &config, writer, Arc::clone(&counts), Arc::new(Wishes::default()))?;
    let (queue, mut ends) = Queue::start(1, args.queue as usize, writing)?;
    let Some(end) = ends.pop() else { return Err(Error::failed("start", "output thread", "it has no queue")) };
    let lost = end.lost();
    let program = Arc::new(loaded.program);
    let wanted = wanted(args, &config);
    let handler = Sensor {
        detector: Detector::new(Arc::clone(&program), config.limits),
        link,
        finds: Finds {
            queue: end,
            waits: true,
            wanted,
            frame: None,
            sequence: Arc::default(),
            latency: Arc::default(),
            stamp_clock: StampClock::Recorded,
            arrivals: ArrivalClock::new(StampClock::Recorded),
            packet: 0,
            made: 0,
        },
        shedding: Shedding { precedence: None, limit_ns: u64::MAX, countdown: 0, active: false },
        to_realtime_ns: 0,
        last_ns: 0,
        stats_every_ns: if wants(args, Event::Stats) { args.stats.as_nanos() as u64 } else { NEVER },
        // Once, at the end.
        stats_at_ns: u64::MAX,
        swaps: None,
        in_cycle: false,
    };
    let stop = Arc::new(Stop::new()?);
    stop_on_signals(&stop)?;
    let pacer = Pacer::new(&Policy::Interrupt).map_err(|error| Error::usage("replay", &object, error))?;
    let meters = Arc::new(EngineMeters::default());
    for warning in sandbox::enter(args.no_sandbox, &needs(args, false, None))? {
        eprintln!("ringtap: warning: {warning}");
    }
    let started = Instant::now();
    let mut engine = Engine { source, handler, pacer, transmit: None, stop, meters, packet_limit: None };
    let ended = engine.run();
    engine.handler.finish();
    let Engine { source, handler, meters, .. } = engine;
    let counters = handler.detector.counters();
    let profile = args.profile.then(|| (Arc::clone(&program), handler.detector.profile().to_vec()));
    let made = handler.finds.made;
    drop(handler);
    let mut writing = queue.finish()?;
    writing.finish();
    let mut warnings: Vec<String> = source.faults().iter().map(ToString::to_string).collect();
    if source.other_link_type() > 0 {
        warnings.push(format!(
            "{} packets have another link type than the first one and were left out",
            source.other_link_type()
        ));
    }
    let summary = Summary {
        object,
        ending: if ended == End::EndOfFile { "end_of_file" } else { "signal" },
        elapsed_s: started.elapsed().as_secs_f64(),
        rules: used,
        counters: vec![counters],
        ledger: None,
        cut: meters.snapshot().cut,
        records: records(made, writing.taken, lost.load(Ordering::Relaxed)),
        alarms_in_ring: 0,
        alarms_refused: 0,
        outputs: Arc::clone(&counts),
        latency_us: None,
        detection: None,
        reloads: 0,
        late_bytes: 0,
        warnings,
        profile,
    };
    conclude(args, &summary);
    let failed = counts.failed.load(Ordering::Relaxed);
    match source.faults().first() {
        Some(fault) => Err(fault.clone()),
        None if failed > 0 => Err(Error::failed("write", "events", format!("{failed} could not be written"))
            .way_out("look at disk and sockets")),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Shows the summary: on standard error when events go to standard output.
pub(super) fn conclude(args: &Args, summary: &Summary) {
    use std::io::Write;
    let text = if args.json { format!("{}\n", summary.object()) } else { summary.text() };
    // Nobody may be left to read it, which is no failure of the run.
    let _ = if args.eve.as_deref() == Some("-".as_ref()) {
        write!(std::io::stderr(), "{text}")
    } else {
        write!(std::io::stdout(), "{text}")
    };
}

/// SIGINT and SIGTERM pull the handle; the second one ends at once.
fn stop_on_signals(stop: &Arc<Stop>) -> Result<()> {
    let failed = |error: std::io::Error| Error::os("listen for", "signals", &error);
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let stop = Arc::clone(stop);
    std::thread::Builder::new()
        .name("ringtap-signals".to_owned())
        .spawn(move || {
            for signal in &mut signals {
                if stop.is_pulled() {
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                stop.pull();
            }
        })
        .map_err(failed)?;
    Ok(())
}

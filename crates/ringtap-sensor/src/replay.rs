//! The sensor on capture files: the same handler as live, on an engine that waits for its outputs, so nothing is lost.
//!
//! Owns the engine's thread and what was wrong with the files.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use ringtap::Stop;
use ringtap::engine::{End, Engine};
use ringtap::hand_over::HandOver;
use ringtap::meters::EngineMeters;
use ringtap::pacer::{Pacer, Policy};
use ringtap::source::StampClock;
use ringtap::source::file::{FileSource, Pace};
use ringtap::{Error, Result};
use ringtap_run::notes;
use ringtap_run::signals::Signals;
use ringtap_wire::LinkType;

use crate::correlating::Correlate;
use crate::inspector::Inspector;
use crate::options::Options;
use crate::session::{EngineFeed, Engines, Feed, Session};
use crate::summary::{Ended, Ending, Run};

/// The engine over files.
struct Replaying {
    thread: JoinHandle<(Engine<FileSource, HandOver<Inspector>>, End)>,
    stop: Arc<Stop>,
}

impl Engines for Replaying {
    const IS_LIVE: bool = false;

    fn ended(&mut self) -> Option<Ending> {
        self.thread.is_finished().then_some(Ending::EndOfFile)
    }
}

impl Replaying {
    fn start(source: FileSource, handler: HandOver<Inspector>, object: &str, signals: &Arc<Signals>) -> Result<Self> {
        let stop = Arc::new(Stop::new()?);
        let pacer = Pacer::new(&Policy::Interrupt).map_err(|error| Error::usage("replay", object, error))?;
        let meters = Arc::new(EngineMeters::default());
        let mut engine =
            Engine { source, handler, pacer, transmit: None, stop: Arc::clone(&stop), meters, packet_limit: None };
        let signals = Arc::clone(signals);
        let thread = std::thread::Builder::new()
            .name("ringtap-engine".to_owned())
            .spawn(move || {
                let end = engine.run();
                signals.wake();
                (engine, end)
            })
            .map_err(|error| Error::os("start engine thread for", object, &error))?;
        Ok(Self { thread, stop })
    }

    /// Ends it where it is.
    fn finish(self, object: &str) -> Result<(Engine<FileSource, HandOver<Inspector>>, End)> {
        self.stop.pull();
        self.thread
            .join()
            .map_err(|_| Error::failed("replay", object, "the engine thread panicked").way_out("report this as a bug"))
    }
}

/// Runs the sensor over files.
pub(crate) fn run(options: &Options, files: &[PathBuf], correlate: Option<Correlate>) -> Result<Run> {
    let mut session = Session::begin(options, correlate)?;
    let source = FileSource::open(files, Pace::AsFast)?;
    let object = files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let number = source.link_type().unwrap_or(1);
    let link = LinkType::from_number(number.into()).ok_or_else(|| {
        Error::failed("read packets of", &object, format!("link type {number} is not supported"))
            .way_out("capture where they are Ethernet or IP")
    })?;
    let engine = EngineFeed { link, stamps: StampClock::Recorded, sender: None };
    let feed = Feed { engines: vec![engine], live: None, plain: None };
    let (mut around, mut inspectors) = session.surround(feed)?;
    let Some(inspector) = inspectors.pop() else {
        return Err(Error::failed("start", "output thread", "it has no queue"));
    };
    let mut handler = HandOver::alone(inspector);
    let reaches = match &session.identity {
        Some(_) => vec![handler.reach(StampClock::Recorded)?],
        None => Vec::new(),
    };
    let mut warnings = session.process.confine(session.needs())?;
    for warning in &warnings {
        notes::warn(warning);
    }
    session.begin_heart(&mut around, reaches, None)?;
    let started = Instant::now();
    let mut replaying = Replaying::start(source, handler, &object, session.process.signals())?;
    let ending = session.watch(&mut replaying, &mut around, started);
    let (engine, end) = match replaying.finish(&object) {
        Ok(ended) => ended,
        Err(fault) => return Err(session.give_up(around, fault)),
    };
    let elapsed_s = started.elapsed().as_secs_f64();
    // A signal may have come beside the end of the last file.
    let ending = if end == End::EndOfFile { Ending::EndOfFile } else { ending };
    let Engine { source, handler, meters, .. } = engine;
    warnings.extend(source.faults().iter().map(ToString::to_string));
    if source.other_link_type() > 0 {
        let count = source.other_link_type();
        warnings.push(format!("{count} packets have another link type than the first one and were left out"));
    }
    let cut = meters.snapshot().cut;
    let ended = Ended { object, ending, elapsed_s, cut, live: None, interfaces: Vec::new(), late_bytes: 0, warnings };
    let failure = source.faults().first().cloned();
    let Run { summary, failure } = session.end(around, vec![handler.into_inner()], ended, failure)?;
    let failure = failure.or_else(|| {
        // Files can be read again, so what was not written is said by the exit code.
        let failed = summary.failed_outputs() + summary.failed_lines();
        (failed > 0).then(|| {
            Error::failed("write", "events", format!("{failed} could not be written"))
                .way_out("look at disk and sockets")
        })
    });
    Ok(Run { summary, failure })
}

//! Owns: a correlator in the sensor's process: its thread, from set-up to its last incident.
//! Does not: correlate, or know how an alarm gets there; both are `ringtap_correlator`'s.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use ringtap::{Error, Result};
use ringtap_correlator::input::own::Teller;
use ringtap_correlator::run::{Asking, Beside, Event, Room};
use ringtap_run::process::Process;
use ringtap_run::sandbox::Needs;

/// Whoever hears what the correlator has to say.
type Show = Box<dyn FnMut(Event<'_>) + Send>;

/// A correlator that is asked for.
pub struct Correlate {
    /// Folder of its rules, or one file.
    pub rules: PathBuf,
    /// Folder of its log and store; without one, nothing survives the end.
    pub store: Option<PathBuf>,
    /// How much it may take.
    pub room: Room,
    /// Hears what it has to say, on its thread.
    pub show: Show,
}

/// One that is set up, then runs.
pub(crate) struct Correlating {
    waiting: Option<(Beside, Show)>,
    thread: Option<JoinHandle<Result<()>>>,
    reload: Arc<AtomicBool>,
}

impl Correlating {
    /// Opens it; `is_live`: packets come now.
    ///
    /// # Errors
    /// Rules, configuration or store can't be opened.
    pub(crate) fn open(
        asked: Correlate,
        config: Option<PathBuf>,
        sensor: &str,
        is_live: bool,
        process: &Process,
    ) -> Result<(Self, Teller)> {
        let Correlate { rules, store, room, show } = asked;
        let (beside, teller) = Beside::open(Asking { rules, store, config, room }, sensor, is_live, process)?;
        Ok((Self { waiting: Some((beside, show)), thread: None, reload: Arc::default() }, teller))
    }

    /// What it still reads and writes once all is set up.
    pub(crate) fn needs(&self) -> Needs<'_> {
        self.waiting.as_ref().map(|(beside, _)| beside.needs()).unwrap_or_default()
    }

    /// Begins to correlate, once the process is confined.
    ///
    /// # Errors
    /// The thread can't be started.
    pub(crate) fn start(&mut self) -> Result<()> {
        let Some((beside, show)) = self.waiting.take() else { return Ok(()) };
        let reload = Arc::clone(&self.reload);
        let thread = std::thread::Builder::new()
            .name("ringtap-correlate".to_owned())
            .spawn(move || beside.run(&reload, show))
            .map_err(|error| Error::os("start", "the correlator's thread", &error))?;
        self.thread = Some(thread);
        Ok(())
    }

    /// Whether it runs no longer, which only a fault of ours ends.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Has it load its rules again.
    pub(crate) fn reload(&self) {
        self.reload.store(true, Ordering::Relaxed);
    }

    /// Waits until it has told all; the sensor has dropped its end of the way.
    ///
    /// # Errors
    /// It panicked, or the store could not be written to the end.
    pub(crate) fn finish(self) -> Result<()> {
        let Some(thread) = self.thread else { return Ok(()) };
        let panicked =
            |_| Error::failed("end", "the correlator's thread", "it panicked").way_out("report this as a bug");
        thread.join().map_err(panicked)?
    }
}

//! Owns: a correlator in the sensor's process: its thread, from set-up to its last incident.
//! Does not: correlate, or know who does; whoever asks for one brings it ([`Correlate::open`]).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use ringtap::{Error, Result};
use ringtap_datagram::Listener;
use ringtap_run::beside::Beside;
use ringtap_run::process::Process;
use ringtap_run::sandbox::Needs;

/// A correlator, and the sensor's way to it.
pub type Opened = (Box<dyn Beside>, Box<dyn Listener>);

/// Opens a correlator with its store in this folder, for a sensor of this name, with the rights on files that the process gives; true:
/// packets come now, and heartbeats say how far the sensor is.
pub type OpenCorrelator = Box<dyn FnOnce(Option<PathBuf>, &str, bool, &Process) -> Result<Opened>>;

/// A correlator that is asked for.
pub struct Correlate {
    /// Folder of its store, by which the sensor goes on where it was; without one, nothing survives the end.
    pub store: Option<PathBuf>,
    /// Opens it.
    pub open: OpenCorrelator,
}

/// One that is set up, then runs.
pub(crate) struct Correlating {
    waiting: Option<Box<dyn Beside>>,
    thread: Option<JoinHandle<Result<()>>>,
    reload: Arc<AtomicBool>,
}

impl Correlating {
    /// One that is open.
    pub(crate) fn new(beside: Box<dyn Beside>) -> Self {
        Self { waiting: Some(beside), thread: None, reload: Arc::default() }
    }

    /// What it still reads and writes once all is set up.
    pub(crate) fn needs(&self) -> Needs<'_> {
        self.waiting.as_ref().map(|beside| beside.needs()).unwrap_or_default()
    }

    /// Begins to correlate, once the process is confined.
    ///
    /// # Errors
    /// The thread can't be started.
    pub(crate) fn start(&mut self) -> Result<()> {
        let Some(beside) = self.waiting.take() else { return Ok(()) };
        let reload = Arc::clone(&self.reload);
        let thread = std::thread::Builder::new()
            .name("ringtap-correlate".to_owned())
            .spawn(move || beside.run(&reload))
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

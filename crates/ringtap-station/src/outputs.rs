//! Announced alarms to the outside: JSON lines to a file, a Unix socket or syslog, and HTTP POST with retry.
//!
//! Owns two threads at most, one of lines and one of POSTs, and a bounded queue in front of each: a slow receiver delays no alarm
//! and no store; what it can't take is counted. The store has everything. How lines are written and posted is `ringtap_output`'s.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_output::{Counts, FileOutput, LogServer, Output, UnixOutput, Webhook};
use ringtap_snmp::names::Names;

use crate::judge::Announcement;
use crate::render;

/// Announcements that may wait.
const QUEUE: usize = 1 << 16;
/// Announcements that are written before lines that were not taken are counted.
const BATCH: usize = 500;
/// How often files that were moved away are looked for when nothing is told.
const LOOK: Duration = Duration::from_millis(500);

/// Where lines go; nothing: nowhere.
#[derive(Debug, Clone, Default)]
pub struct LineOutputs {
    /// A file that lines are appended to.
    pub file: Option<PathBuf>,
    /// Begin a new one at so many bytes, and keep so many old ones.
    pub rotate: Option<(u64, u32)>,
    /// A Unix stream socket.
    pub socket: Option<PathBuf>,
    /// A syslog server.
    pub syslog: Option<LogServer>,
}

/// The queues and threads of all outputs.
pub(crate) struct Outputs {
    queues: Vec<SyncSender<Arc<Announcement>>>,
    threads: Vec<JoinHandle<()>>,
    not_told: Arc<AtomicU64>,
    ending: Arc<AtomicBool>,
}

/// Opens the outputs, `webhook` being a URL; when `reopen` becomes true, files are opened again.
pub(crate) fn start(
    wanted: &LineOutputs,
    webhook: Option<&str>,
    names: &Arc<Names>,
    reopen: Arc<AtomicBool>,
) -> Result<Outputs> {
    let mut outputs =
        Outputs { queues: Vec::new(), threads: Vec::new(), not_told: Arc::default(), ending: Arc::default() };
    let mut lines = Vec::new();
    let mut add =
        |name: String, output| lines.push(Lines { name, output, counts: Counts::default(), is_failing: false });
    if let Some(path) = &wanted.file {
        let file = FileOutput::open(path, wanted.rotate)?;
        add(path.display().to_string(), Output::File(file));
    }
    if let Some(path) = &wanted.socket {
        add(path.display().to_string(), Output::Unix(UnixOutput::new(path)));
    }
    if let Some(server) = wanted.syslog {
        add(server.to_string(), Output::Syslog(server.open()?));
    }
    if !lines.is_empty() {
        let (names, not_told) = (Arc::clone(names), Arc::clone(&outputs.not_told));
        outputs.add(move |queue| write(&queue, lines, &names, &reopen, &not_told))?;
    }
    if let Some(url) = webhook {
        let mut webhook = Webhook::new(url, Arc::clone(&outputs.ending));
        let (names, not_told) = (Arc::clone(names), Arc::clone(&outputs.not_told));
        outputs.add(move |queue| post(&queue, &mut webhook, &names, &not_told))?;
    }
    Ok(outputs)
}

impl Outputs {
    fn add(&mut self, body: impl FnOnce(Receiver<Arc<Announcement>>) + Send + 'static) -> Result<()> {
        let (sender, receiver) = mpsc::sync_channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("ringtap-output".to_owned())
            .spawn(move || body(receiver))
            .map_err(|error| Error::os("start the thread of", "an output", &error))?;
        self.queues.push(sender);
        self.threads.push(thread);
        Ok(())
    }

    /// Announcements that an output could not take.
    pub(crate) fn not_told(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.not_told)
    }

    /// Tells all outputs, without waiting.
    pub(crate) fn tell(&self, announcement: Announcement) {
        if self.queues.is_empty() {
            return;
        }
        let announcement = Arc::new(announcement);
        for queue in &self.queues {
            if queue.try_send(Arc::clone(&announcement)).is_err() {
                self.not_told.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until all that was told is out, or given up.
    pub(crate) fn finish(self) {
        self.ending.store(true, Ordering::Relaxed);
        drop(self.queues);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// An output of lines.
struct Lines {
    name: String,
    output: Output,
    counts: Counts,
    is_failing: bool,
}

impl Lines {
    /// Hands on what is buffered; how many lines were not taken since the last time. The first of a series is told.
    fn flush(&mut self) -> u64 {
        self.output.flush(&self.counts);
        let failed = self.counts.failed.swap(0, Ordering::Relaxed);
        if failed > 0 && !self.is_failing {
            eprintln!(
                "ringtap: tell alarms to {}: {failed} lines were not taken; it is tried again, and `ringtap alarms` has them",
                self.name
            );
        }
        self.is_failing = failed > 0;
        failed
    }
}

/// Writes announcements as lines until the station ends. What an output did not take is counted.
fn write(
    queue: &Receiver<Arc<Announcement>>,
    mut outputs: Vec<Lines>,
    names: &Names,
    reopen: &AtomicBool,
    not_told: &AtomicU64,
) {
    let mut line = Vec::new();
    loop {
        let next = queue.recv_timeout(LOOK);
        if reopen.swap(false, Ordering::Relaxed) {
            outputs.iter_mut().for_each(|lines| lines.output.reopen());
        }
        match next {
            Ok(first) => {
                for announcement in std::iter::once(first).chain(queue.try_iter().take(BATCH)) {
                    line.clear();
                    line.extend_from_slice(render::announcement(&announcement, names).to_string().as_bytes());
                    line.push(b'\n');
                    let alarm = &announcement.alarm;
                    let severity = (!alarm.cleared).then_some(alarm.severity);
                    outputs.iter_mut().for_each(|lines| lines.output.line(&line, severity, &lines.counts));
                }
                for lines in &mut outputs {
                    not_told.fetch_add(lines.flush(), Ordering::Relaxed);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Posts announcements until the station ends. What the receiver did not take is counted.
fn post(queue: &Receiver<Arc<Announcement>>, webhook: &mut Webhook, names: &Names, not_told: &AtomicU64) {
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        batch.extend(queue.try_iter().take(Webhook::BATCH - 1));
        if !webhook.post(batch.iter().map(|announcement| render::announcement(announcement, names).to_string())) {
            not_told.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
    }
}

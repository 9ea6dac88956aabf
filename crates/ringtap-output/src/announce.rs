//! Announcements to the outside: JSON lines to a file, a Unix socket or syslog, and to a webhook.
//!
//! Owns two threads at most, one of lines and one of POSTs, and a bounded queue in front of each: a slow receiver delays neither
//! who announces nor a store; what it can't take is counted. Does not know what is announced.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_kafka::Target;

use crate::http::Http;
use crate::{Announced, LogServer, Output, Severity, Webhook};

/// Announcements that may wait.
const QUEUE: usize = 1 << 16;
/// Announcements that are written before lines that were not taken are counted.
const BATCH: usize = 500;
/// How often files that were moved away are looked for when nothing is told.
const LOOK: Duration = Duration::from_millis(500);

/// What is announced.
pub trait Announcement: Send + Sync + 'static {
    /// It as one JSON object, without a line feed. Made by the thread that writes.
    fn line(&self) -> String;

    /// How severe it is; `None`: it tells of nothing wrong, or of a condition that is gone.
    fn severity(&self) -> Option<Severity>;
}

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
    /// A topic of Kafka.
    pub kafka: Option<Target>,
}

/// The queues and threads of all outputs.
#[derive(Debug)]
pub struct Outputs<A> {
    queues: Vec<SyncSender<Arc<A>>>,
    threads: Vec<JoinHandle<Result<()>>>,
    not_told: Arc<AtomicU64>,
    ending: Arc<AtomicBool>,
}

/// Opens the outputs, `webhook` among them (the URL of a receiver that needs no token); when `reopen` becomes true, files are opened again.
///
/// # Errors
/// One can't be opened, or a thread not be started.
pub fn start<A: Announcement>(
    wanted: &LineOutputs,
    webhook: Option<&str>,
    announced: Announced,
    reopen: Arc<AtomicBool>,
) -> Result<Outputs<A>> {
    let mut outputs =
        Outputs { queues: Vec::new(), threads: Vec::new(), not_told: Arc::default(), ending: Arc::default() };
    let mut lines = Vec::new();
    if let Some(path) = &wanted.file {
        lines.push(Output::file(path, wanted.rotate, announced)?);
    }
    if let Some(path) = &wanted.socket {
        lines.push(Output::unix(path, announced));
    }
    if let Some(server) = wanted.syslog {
        lines.push(Output::syslog(server, announced)?);
    }
    if let Some(target) = &wanted.kafka {
        lines.push(Output::kafka(target.clone(), announced)?);
    }
    if !lines.is_empty() {
        let not_told = Arc::clone(&outputs.not_told);
        outputs.add(move |queue| write(&queue, lines, &reopen, &not_told))?;
    }
    if let Some(url) = webhook {
        let mut webhook = Webhook::new(Http::new(url, None, None)?, announced.what, Arc::clone(&outputs.ending));
        let not_told = Arc::clone(&outputs.not_told);
        outputs.add(move |queue| post(&queue, &mut webhook, &not_told))?;
    }
    Ok(outputs)
}

impl<A: Announcement> Outputs<A> {
    fn add(&mut self, body: impl FnOnce(Receiver<Arc<A>>) -> Result<()> + Send + 'static) -> Result<()> {
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
    #[must_use]
    pub fn not_told(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.not_told)
    }

    /// Tells all outputs, without waiting.
    pub fn tell(&self, announcement: A) {
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
    ///
    /// # Errors
    /// Not all is in the file. Whoever listens elsewhere comes and goes: what they did not take is counted.
    pub fn finish(self) -> Result<()> {
        self.ending.store(true, Ordering::Relaxed);
        drop(self.queues);
        let panicked = |_| Error::failed("end", "an output", "its thread panicked").way_out("report this as a bug");
        let ended = self.threads.into_iter().map(|thread| thread.join().map_err(panicked)?);
        ended.collect::<Vec<_>>().into_iter().collect()
    }
}

/// Writes announcements as lines until the program ends; why not all are in a file. What an output did not take is counted.
fn write<A: Announcement>(
    queue: &Receiver<Arc<A>>,
    mut outputs: Vec<Output>,
    reopen: &AtomicBool,
    not_told: &AtomicU64,
) -> Result<()> {
    let mut line = Vec::new();
    loop {
        let next = queue.recv_timeout(LOOK);
        if reopen.swap(false, Ordering::Relaxed) {
            outputs.iter_mut().for_each(Output::reopen);
        }
        match next {
            Ok(first) => {
                for announcement in std::iter::once(first).chain(queue.try_iter().take(BATCH)) {
                    line.clear();
                    line.extend_from_slice(announcement.line().as_bytes());
                    line.push(b'\n');
                    let severity = announcement.severity();
                    outputs.iter_mut().for_each(|output| output.line(&line, severity));
                }
                for output in &mut outputs {
                    not_told.fetch_add(output.flush().failed, Ordering::Relaxed);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return outputs.iter().find_map(Output::error).map_or(Ok(()), Err),
        }
    }
}

/// Posts announcements until the program ends. What the receiver did not take is counted.
fn post<A: Announcement>(queue: &Receiver<Arc<A>>, webhook: &mut Webhook, not_told: &AtomicU64) -> Result<()> {
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        batch.extend(queue.try_iter().take(Webhook::BATCH - 1));
        if !webhook.post(batch.iter().map(|announcement| announcement.line())) {
            not_told.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
    }
    Ok(())
}

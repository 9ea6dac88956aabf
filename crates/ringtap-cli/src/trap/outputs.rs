//! Announced alarms to the outside: a file of JSON lines, and HTTP POST with retry.
//!
//! Owns a thread and a bounded queue in front of it: a slow receiver delays no alarm and no store; what it can't take is
//! counted. The store has everything.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap::{Error, Result};
use ringtap_trap::station::Announcement;

use super::config::Webhook;

/// Announcements that may wait.
const QUEUE: usize = 1 << 16;
/// Announcements of one POST.
const POST: usize = 500;
/// Tries of one POST, each pause twice the one before.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Longest wait for a receiver's answer.
const HTTP_TIMEOUT: Duration = Duration::from_secs(5);
/// Once the station ends: what a receiver has not taken after so long, or after the first failure, is given up and counted.
const LAST: Duration = Duration::from_secs(5);

/// The queues and threads of all outputs.
pub(super) struct Outputs {
    queues: Vec<SyncSender<Arc<String>>>,
    threads: Vec<JoinHandle<()>>,
    not_told: Arc<AtomicU64>,
    ending: Arc<AtomicBool>,
}

/// Opens the outputs.
pub(super) fn start(file: Option<&Path>, webhook: Option<&Webhook>) -> Result<Outputs> {
    let mut outputs =
        Outputs { queues: Vec::new(), threads: Vec::new(), not_told: Arc::default(), ending: Arc::default() };
    if let Some(path) = file {
        let name = path.display().to_string();
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o640)
            .open(path)
            .map_err(|error| Error::os("write alarms to", &name, &error))?;
        let not_told = Arc::clone(&outputs.not_told);
        outputs.add(move |queue| append(&queue, BufWriter::new(file), &name, &not_told))?;
    }
    if let Some(webhook) = webhook {
        let (url, not_told) = (webhook.url.clone(), Arc::clone(&outputs.not_told));
        let ending = Arc::clone(&outputs.ending);
        outputs.add(move |queue| post(&queue, &url, &not_told, &ending))?;
    }
    Ok(outputs)
}

impl Outputs {
    fn add(&mut self, body: impl FnOnce(Receiver<Arc<String>>) + Send + 'static) -> Result<()> {
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
    pub(super) fn not_told(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.not_told)
    }

    /// Tells all outputs, without waiting.
    pub(super) fn tell(&self, announcement: Announcement) {
        if self.queues.is_empty() {
            return;
        }
        let mut object = serde_json::to_value(&announcement.alarm).unwrap_or_default();
        object["notification"] = announcement.notification.into();
        let line = Arc::new(object.to_string());
        for queue in &self.queues {
            if queue.try_send(Arc::clone(&line)).is_err() {
                self.not_told.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until all that was told is out, or given up.
    pub(super) fn finish(self) {
        self.ending.store(true, Ordering::Relaxed);
        drop(self.queues);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn append(queue: &Receiver<Arc<String>>, mut file: BufWriter<std::fs::File>, name: &str, not_told: &AtomicU64) {
    let mut failed = false;
    while let Ok(first) = queue.recv() {
        let mut lines = vec![first];
        lines.extend(queue.try_iter().take(POST));
        let written = lines.iter().try_for_each(|line| writeln!(file, "{line}")).and_then(|()| file.flush());
        if let Err(error) = written {
            not_told.fetch_add(lines.len() as u64, Ordering::Relaxed);
            if !std::mem::replace(&mut failed, true) {
                eprintln!("ringtap: {}", Error::os("write alarms to", name, &error));
            }
        }
    }
}

fn post(queue: &Receiver<Arc<String>>, url: &str, not_told: &AtomicU64, ending: &AtomicBool) {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(HTTP_TIMEOUT)).max_redirects(0).build().into();
    let mut failed = false;
    let mut until: Option<Instant> = None;
    while let Ok(first) = queue.recv() {
        let mut lines = vec![first];
        lines.extend(queue.try_iter().take(POST - 1));
        if ending.load(Ordering::Relaxed) && *until.get_or_insert_with(|| Instant::now() + LAST) <= Instant::now() {
            not_told.fetch_add(lines.len() as u64, Ordering::Relaxed);
            continue;
        }
        let body = format!("[{}]", lines.iter().map(|line| line.as_str()).collect::<Vec<_>>().join(","));
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=TRIES {
            match agent.post(url).header("content-type", "application/json").send(body.as_str()) {
                Ok(_) => {
                    failed = false;
                    break;
                }
                Err(error) if attempt == TRIES || ending.load(Ordering::Relaxed) => {
                    not_told.fetch_add(lines.len() as u64, Ordering::Relaxed);
                    if !std::mem::replace(&mut failed, true) {
                        eprintln!("ringtap: {}", Error::failed("post alarms to", url, error));
                    }
                    if ending.load(Ordering::Relaxed) {
                        until = Some(Instant::now());
                    }
                    break;
                }
                Err(_) => {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
            }
        }
    }
}

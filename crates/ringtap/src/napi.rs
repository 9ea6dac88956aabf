//! Pacing the kernel's NAPI where it stays in charge, and putting its settings back.
//!
//! Owns two settings of an interface, `napi_defer_hard_irqs` and `gro_flush_timeout` (Documentation/networking/napi.rst),
//! and a note on disk of their old values, so that the next start repairs what a killed process left behind. How long the
//! pause is at which rate is the plan's business; what the rate is, the pacer's.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::realtime::RealTime;
use crate::sys::event::{Doorbell, PollEnd, Stop};

/// Where the notes lie; emptied at boot, as the settings are.
const NOTES: &str = "/run/ringtap";

/// How long the kernel's NAPI is to pause between two polls, by the forecast rate. What comes during a pause waits in the
/// device's queue: a long pause saves wake-ups while traffic is thin, and is cut before a storm fills that queue.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct NapiPause {
    /// Below [`NapiPause::thick_pps`], nanoseconds.
    pub thin_ns: u64,
    /// From there on, nanoseconds; 0 leaves NAPI alone at every rate.
    pub thick_ns: u64,
    /// Packets per second of one queue.
    pub thick_pps: f64,
}

impl NapiPause {
    /// The same pause at every rate, nanoseconds; 0 leaves NAPI alone.
    pub const fn constant(pause_ns: u64) -> Self {
        Self { thin_ns: pause_ns, thick_ns: pause_ns, thick_pps: 0.0 }
    }

    /// Whether the pause depends on the rate.
    pub(crate) fn varies(&self) -> bool {
        self.thick_ns > 0 && self.thin_ns != self.thick_ns
    }
}

/// Traffic counts as thin again below this part of [`NapiPause::thick_pps`].
const THIN_AGAIN: f64 = 0.8;

/// What the engines of a receiver need of their device's pause: the shorter one while any of them sees thick traffic.
#[derive(Debug)]
pub(crate) struct Demand {
    thick_pps: f64,
    thick_engines: AtomicU32,
    changed: Doorbell,
}

impl Demand {
    pub(crate) fn new(pause: &NapiPause) -> Result<Self> {
        Ok(Self { thick_pps: pause.thick_pps, thick_engines: AtomicU32::new(0), changed: Doorbell::new()? })
    }

    fn is_thick(&self) -> bool {
        self.thick_engines.load(Ordering::Acquire) > 0
    }
}

/// One engine's part in it.
#[derive(Debug)]
pub struct Vote {
    demand: Arc<Demand>,
    thick: bool,
}

impl Vote {
    /// Counts as thick until a forecast says otherwise.
    pub(crate) fn new(demand: &Arc<Demand>) -> Self {
        demand.thick_engines.fetch_add(1, Ordering::AcqRel);
        Self { demand: Arc::clone(demand), thick: true }
    }

    /// Takes note of the forecast (packets per second). A system call only when thick turns to thin or back.
    pub(crate) fn consider(&mut self, rate_pps: Option<f64>) {
        let Some(rate_pps) = rate_pps else { return };
        let limit = if self.thick { self.demand.thick_pps * THIN_AGAIN } else { self.demand.thick_pps };
        let thick = rate_pps >= limit;
        if thick != self.thick {
            self.thick = thick;
            if thick {
                self.demand.thick_engines.fetch_add(1, Ordering::AcqRel);
            } else {
                self.demand.thick_engines.fetch_sub(1, Ordering::AcqRel);
            }
            self.demand.changed.ring();
        }
    }
}

/// Starts the thread that sets the pause when the engines' demand changes: setting it takes the kernel's network lock,
/// which no engine may wait for. It sleeps until then, and puts the old settings back at its end.
pub(crate) fn follow(
    mut pacing: NapiPacing,
    demand: Arc<Demand>,
    stop: Arc<Stop>,
    realtime: RealTime,
    interface: &str,
) -> Result<JoinHandle<()>> {
    let follow = move || {
        // As urgent as the engines: a storm that has begun fills the device's queue. What is refused was said for them.
        realtime.apply_to_thread(None, &mut Vec::new());
        let mut in_force = true;
        loop {
            match stop.wait_readable(demand.changed.as_fd(), None) {
                PollEnd::Stopped | PollEnd::Failed => return,
                PollEnd::Readable | PollEnd::TimedOut => demand.changed.quiet(),
            }
            let thick = demand.is_thick();
            if thick != in_force {
                // Refused when the interface is gone or the rights were dropped: then the pause stays as it is.
                let set = pacing.flush.set(if thick { pacing.pause.thick_ns } else { pacing.pause.thin_ns });
                in_force = if set.is_ok() { thick } else { in_force };
            }
        }
    };
    std::thread::Builder::new()
        .name("ringtap-napi".to_owned())
        .spawn(follow)
        .map_err(|error| Error::os("start a thread to pace the NAPI of", interface, &error))
}

/// What was there before, and who changed it.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    pid: u32,
    start_ticks: u64,
    interface: String,
    defer_hard_irqs: u64,
    gro_flush_timeout_ns: u64,
    /// What it set them to.
    set_defer_hard_irqs: u64,
    set_gro_flush_timeout_ns: Vec<u64>,
}

/// Settings in force; dropping it puts the old ones back.
#[derive(Debug)]
pub struct NapiPacing {
    pause: NapiPause,
    defer: Setting,
    flush: Setting,
    note: Option<PathBuf>,
}

/// One file of /sys, kept open so that it can be put back after privileges were dropped.
#[derive(Debug)]
struct Setting {
    file: File,
    old: u64,
}

impl Setting {
    fn open(path: &Path) -> std::io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let old = text.trim().parse().map_err(|_| std::io::Error::other(format!("{text:?} is no number")))?;
        Ok(Self { file: OpenOptions::new().write(true).open(path)?, old })
    }

    fn set(&mut self, value: u64) -> std::io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(value.to_string().as_bytes())
    }
}

impl NapiPacing {
    /// Has the interface's NAPI poll again after the pause for thick traffic when it found something, `defer` times without
    /// an interrupt in between. `None`, with a warning, where that can't be set; the old values are noted first.
    pub fn set(
        interface: &str,
        ifindex: u32,
        defer: u64,
        pause: NapiPause,
        warnings: &mut Vec<String>,
    ) -> Option<Self> {
        let refused = |why: &dyn std::fmt::Display| {
            format!("the kernel's NAPI on {interface} is not paced ({why}): more interrupts than needed")
        };
        let Some(folder) = settings_folder(interface, ifindex) else {
            warnings.push(refused(&"/sys is that of another network namespace"));
            return None;
        };
        let note = note_path(interface);
        let opened = Setting::open(&folder.join("napi_defer_hard_irqs"))
            .and_then(|defer| Ok((defer, Setting::open(&folder.join("gro_flush_timeout"))?)));
        let (defer_setting, flush_setting) = match opened {
            Ok(settings) => settings,
            Err(error) => {
                warnings.push(refused(&error));
                return None;
            }
        };
        let note = note.filter(|path| {
            let note = Note {
                pid: std::process::id(),
                start_ticks: start_ticks(std::process::id()).unwrap_or(0),
                interface: interface.to_owned(),
                defer_hard_irqs: defer_setting.old,
                gro_flush_timeout_ns: flush_setting.old,
                set_defer_hard_irqs: defer,
                set_gro_flush_timeout_ns: vec![pause.thick_ns, pause.thin_ns],
            };
            let written = fs::create_dir_all(NOTES).and_then(|()| fs::write(path, serde_json::to_vec(&note).unwrap_or_default()));
            written.map_err(|error| warnings.push(format!("NAPI settings of {interface} can't be noted in {NOTES} ({error}): after a kill -9 they would stay"))).is_ok()
        });
        let mut this = Self { pause, defer: defer_setting, flush: flush_setting, note };
        if let Err(error) = this.flush.set(pause.thick_ns).and_then(|()| this.defer.set(defer)) {
            warnings.push(refused(&error));
            return None;
        }
        Some(this)
    }

    /// What it was set to.
    pub fn pause(&self) -> NapiPause {
        self.pause
    }
}

impl Drop for NapiPacing {
    fn drop(&mut self) {
        // The interface may be gone, and its settings with it.
        let (defer, flush) = (self.defer.old, self.flush.old);
        let _ = self.defer.set(defer);
        let _ = self.flush.set(flush);
        if let Some(note) = &self.note {
            let _ = fs::remove_file(note);
        }
    }
}

/// Puts back what a killed process left behind on an interface, whatever this one is going to do with it.
pub(crate) fn repair_leftovers(interface: &str, ifindex: u32) {
    if let (Some(folder), Some(note)) = (settings_folder(interface, ifindex), note_path(interface)) {
        repair(&folder, &note);
    }
}

/// The interface's folder in /sys, which shows the network namespace it was mounted in: `None` when that is not ours.
fn settings_folder(interface: &str, ifindex: u32) -> Option<PathBuf> {
    let folder = PathBuf::from(format!("/sys/class/net/{interface}"));
    let shown = fs::read_to_string(folder.join("ifindex")).ok()?.trim().parse::<u32>().ok()?;
    (shown == ifindex).then_some(folder)
}

/// Puts back what a process that no longer runs had noted.
fn repair(folder: &Path, path: &Path) {
    let Some(note) = fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<Note>(&bytes).ok()) else { return };
    if start_ticks(note.pid) == Some(note.start_ticks) {
        return;
    }
    // Another value is somebody else's, or that of another namespace which got the dead one's number.
    for (name, set, old) in [
        ("napi_defer_hard_irqs", vec![note.set_defer_hard_irqs], note.defer_hard_irqs),
        ("gro_flush_timeout", note.set_gro_flush_timeout_ns, note.gro_flush_timeout_ns),
    ] {
        let file = folder.join(name);
        if fs::read_to_string(&file).is_ok_and(|text| text.trim().parse().is_ok_and(|value| set.contains(&value))) {
            let _ = fs::write(file, old.to_string());
        }
    }
    let _ = fs::remove_file(path);
}

/// One note per interface and network namespace.
fn note_path(interface: &str) -> Option<PathBuf> {
    let namespace = fs::metadata("/proc/thread-self/ns/net").ok()?.ino();
    Some(PathBuf::from(format!("{NOTES}/napi-{namespace}-{interface}.json")))
}

/// When a process was started, in clock ticks since boot: tells it from a later one with the same id (proc_pid_stat(5)).
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_start_time_is_found_and_an_absent_process_has_none() {
        assert!(start_ticks(std::process::id()).unwrap() > 0);
        assert_eq!(start_ticks(u32::MAX), None);
    }

    #[test]
    fn engines_vote_with_hysteresis_and_one_is_enough() {
        let demand = Arc::new(Demand::new(&NapiPause { thin_ns: 133, thick_ns: 50, thick_pps: 1000.0 }).unwrap());
        let (mut a, mut b) = (Vote::new(&demand), Vote::new(&demand));
        a.consider(None);
        assert!(demand.is_thick(), "until a forecast says otherwise");
        a.consider(Some(900.0));
        b.consider(Some(1.0));
        assert!(demand.is_thick(), "900 is above 0.8 × 1000");
        a.consider(Some(700.0));
        assert!(!demand.is_thick());
        a.consider(Some(900.0));
        assert!(!demand.is_thick());
        b.consider(Some(1000.0));
        assert!(demand.is_thick());
    }

    #[test]
    fn a_note_of_a_dead_process_is_put_back_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let note_path = folder.path().join("note.json");
        for name in ["napi_defer_hard_irqs", "gro_flush_timeout"] {
            fs::write(folder.path().join(name), "99").unwrap();
        }
        let note = |pid, start_ticks| Note {
            pid,
            start_ticks,
            interface: "x".into(),
            defer_hard_irqs: 3,
            gro_flush_timeout_ns: 70,
            set_defer_hard_irqs: 99,
            set_gro_flush_timeout_ns: vec![98, 99],
        };
        let own = std::process::id();
        fs::write(&note_path, serde_json::to_vec(&note(own, start_ticks(own).unwrap())).unwrap()).unwrap();
        repair(folder.path(), &note_path);
        assert!(note_path.exists(), "the owner lives: hands off");
        fs::write(&note_path, serde_json::to_vec(&note(own, 1)).unwrap()).unwrap();
        repair(folder.path(), &note_path);
        assert!(!note_path.exists());
        assert_eq!(fs::read_to_string(folder.path().join("napi_defer_hard_irqs")).unwrap(), "3");
        assert_eq!(fs::read_to_string(folder.path().join("gro_flush_timeout")).unwrap(), "70");
        fs::write(folder.path().join("gro_flush_timeout"), "97").unwrap();
        fs::write(&note_path, serde_json::to_vec(&note(own, 1)).unwrap()).unwrap();
        repair(folder.path(), &note_path);
        assert_eq!(
            fs::read_to_string(folder.path().join("gro_flush_timeout")).unwrap(),
            "97",
            "not what the dead one set"
        );
    }
}

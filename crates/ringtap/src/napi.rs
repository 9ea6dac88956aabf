//! Pacing the kernel's NAPI where it stays in charge, and putting its settings back.
//!
//! Owns two settings of an interface, `napi_defer_hard_irqs` and `gro_flush_timeout` (Documentation/networking/napi.rst),
//! and a note on disk of their old values, so that the next start repairs what a killed process left behind.
//! Beneath a program that gives its privileges up or just exits they are put back too: by a grant (`sys::grant`), by [`restore_at_exit`].

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use serde::{Deserialize, Serialize};

use crate::sys::grant::Grant;
use crate::sys::{netdev, sched};

/// Pauses between two polls of the kernel's NAPI, nanoseconds; 0 leaves its settings alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NapiPause {
    /// Where NAPI runs on another CPU than the engine.
    pub apart_ns: u64,
    /// Where its kernel thread shares the engine's CPU, so that each of its wake-ups is taken from the engine.
    pub shared_ns: u64,
    /// Where it shares that CPU, and 0 if there is no such pause: so long that the engine needs no timer of its own and
    /// waits for interrupts, which then come at this pace.
    pub instead_of_timer_ns: u64,
}

impl NapiPause {
    /// The same pause wherever NAPI runs.
    pub fn anywhere(ns: u64) -> Self {
        Self { apart_ns: ns, shared_ns: ns, instead_of_timer_ns: 0 }
    }

    /// The pause for an interface whose engines run on `cpus`, and whether it makes their timer superfluous.
    pub(crate) fn at(self, ifindex: u32, cpus: &[usize]) -> (u64, bool) {
        let is_one = self.apart_ns == self.shared_ns && self.instead_of_timer_ns == 0;
        match (is_one || !shares_cpu(ifindex, cpus), self.instead_of_timer_ns) {
            (true, _) => (self.apart_ns, false),
            (false, 0) => (self.shared_ns, false),
            (false, instead_ns) => (instead_ns, true),
        }
    }
}

/// Whether a thread of the interface's NAPI may run on these CPUs only. Kernels that can't be asked are taken to have none.
fn shares_cpu(ifindex: u32, cpus: &[usize]) -> bool {
    netdev::napi_threads(ifindex).unwrap_or_default().into_iter().any(|thread| {
        let allowed = sched::allowed_cpus_of(thread);
        !allowed.is_empty() && allowed.iter().all(|cpu| cpus.contains(cpu))
    })
}

/// Where the notes lie; emptied at boot, as the settings are.
const NOTES: &str = "/run/ringtap";

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
    set_gro_flush_timeout_ns: u64,
}

/// Settings in force; dropping it puts the old ones back.
#[derive(Debug)]
pub struct NapiPacing(Arc<Mutex<Option<InForce>>>);

/// What is to be put back, and how.
#[derive(Debug)]
struct InForce {
    /// In the order of the grant's files.
    settings: [Setting; 2],
    note: Option<PathBuf>,
    grant: Option<Grant>,
    pid: u32,
}

/// What [`restore_at_exit`] would find.
static IN_FORCE: Mutex<Vec<Weak<Mutex<Option<InForce>>>>> = Mutex::new(Vec::new());

/// One file of /sys, kept open so that it can be put back after a change of the root directory.
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
    /// Has the interface's NAPI poll again `flush_timeout_ns` after it found something, `defer` times without an
    /// interrupt in between. `None`, with a warning, where that can't be set; the old values are noted first.
    ///
    /// `beneath_others` says that the process is not ours and may give up its privileges: nothing is set then unless it can be
    /// put back all the same.
    pub fn set(
        interface: &str,
        ifindex: u32,
        defer: u64,
        flush_timeout_ns: u64,
        beneath_others: bool,
        warnings: &mut Vec<String>,
    ) -> Option<Self> {
        let refused = |why: &dyn std::fmt::Display| {
            format!("the kernel's NAPI on {interface} is not paced ({why}): more interrupts than needed")
        };
        let Some(folder) = settings_folder(interface, ifindex) else {
            warnings.push(refused(&"/sys is that of another network namespace"));
            return None;
        };
        let opened = InForce::open(&folder, beneath_others).map_err(|error| warnings.push(refused(&error)));
        let mut in_force = opened.ok()?;
        let [flush_setting, defer_setting] = &in_force.settings;
        in_force.note = note_path(interface).filter(|path| {
            let note = Note {
                pid: std::process::id(),
                start_ticks: start_ticks(std::process::id()).unwrap_or(0),
                interface: interface.to_owned(),
                defer_hard_irqs: defer_setting.old,
                gro_flush_timeout_ns: flush_setting.old,
                set_defer_hard_irqs: defer,
                set_gro_flush_timeout_ns: flush_timeout_ns,
            };
            let written = fs::create_dir_all(NOTES).and_then(|()| fs::write(path, serde_json::to_vec(&note).unwrap_or_default()));
            written.map_err(|error| warnings.push(format!("NAPI settings of {interface} can't be noted in {NOTES} ({error}): after a kill -9 they would stay"))).is_ok()
        });
        let [flush_setting, defer_setting] = &mut in_force.settings;
        let set = flush_setting.set(flush_timeout_ns).and_then(|()| defer_setting.set(defer));
        if let Err(error) = set {
            warnings.push(refused(&error));
            in_force.put_back();
            return None;
        }
        let this = Self(Arc::new(Mutex::new(Some(in_force))));
        if beneath_others && let Ok(mut all) = IN_FORCE.lock() {
            all.retain(|pacing| pacing.strong_count() > 0);
            all.push(Arc::downgrade(&this.0));
        }
        Some(this)
    }
}

impl InForce {
    fn open(folder: &Path, beneath_others: bool) -> std::io::Result<Self> {
        let settings =
            [Setting::open(&folder.join("gro_flush_timeout"))?, Setting::open(&folder.join("napi_defer_hard_irqs"))?];
        let grant = if beneath_others {
            let files = settings.each_ref().map(|setting| setting.file.as_fd());
            let grant = Grant::new(&files).map_err(|error| {
                std::io::Error::other(format!("io_uring, to put it back without privileges, is not to be had: {error}"))
            });
            Some(grant?)
        } else {
            None
        };
        Ok(Self { settings, note: None, grant, pid: std::process::id() })
    }

    /// The interface may be gone, and its settings with it.
    fn put_back(mut self) {
        for (number, setting) in self.settings.iter_mut().enumerate() {
            let old = setting.old;
            if setting.set(old).is_err()
                && let Some(grant) = &mut self.grant
            {
                let _ = grant.write(number as u32, &old.to_string());
            }
        }
        if let Some(note) = &self.note {
            let _ = fs::remove_file(note);
        }
    }
}

impl Drop for NapiPacing {
    fn drop(&mut self) {
        if let Some(in_force) = self.0.lock().ok().and_then(|mut in_force| in_force.take()) {
            in_force.put_back();
        }
    }
}

/// Puts back what was set beneath other programs and is still in force, for a library whose handles nobody closed before exit(3).
/// A child leaves its parent's settings alone. Waits for nobody.
pub fn restore_at_exit() {
    let Ok(all) = IN_FORCE.try_lock() else { return };
    for pacing in all.iter().filter_map(Weak::upgrade) {
        if let Ok(mut in_force) = pacing.try_lock()
            && let Some(in_force) = in_force.take_if(|in_force| in_force.pid == std::process::id())
        {
            in_force.put_back();
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
        ("napi_defer_hard_irqs", note.set_defer_hard_irqs, note.defer_hard_irqs),
        ("gro_flush_timeout", note.set_gro_flush_timeout_ns, note.gro_flush_timeout_ns),
    ] {
        let file = folder.join(name);
        if fs::read_to_string(&file).is_ok_and(|text| text.trim().parse() == Ok(set)) {
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
            set_gro_flush_timeout_ns: 99,
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
        fs::write(folder.path().join("gro_flush_timeout"), "98").unwrap();
        fs::write(&note_path, serde_json::to_vec(&note(own, 1)).unwrap()).unwrap();
        repair(folder.path(), &note_path);
        assert_eq!(
            fs::read_to_string(folder.path().join("gro_flush_timeout")).unwrap(),
            "98",
            "not what the dead one set"
        );
    }
}

//! The note of what was changed on one device: who changed what, from which value to which.
//!
//! Owns the files of `/run/ringtap`, one per device (network namespace and ifindex; the boot it belongs to is inside). A note is a
//! journal of lines that only grows: each line is written before the change it tells, so that a process can be killed anywhere; a line
//! cut short was followed by no change. All users of a device hold its note open. That is all they need to work on it, so it also
//! works after a change of the root directory and without privileges.
//! Byte 0 is locked while someone works on note and device; byte [`USERS`]` + n` by user n as long as it lives (`sys::file_lock`).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::device::{Device, Setting};
use crate::sys::{effective_user, file_lock};

/// Where the notes lie; emptied at boot, as the settings are.
const FOLDER: &str = "/run/ringtap";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// The byte of user 0; the lines are in front of it.
const USERS: u64 = 1 << 40;
/// How long to wait for another process that works on the same device; a driver may restart its card for a change.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first one.
    Device { boot: String, interface: String },
    /// User `user` (process `pid`, for people who read this) sets a setting, which was `was` before anybody of us changed it.
    Set { user: u64, pid: u32, setting: Setting, was: String, to: String },
    /// What this user set is put back, or left to the others.
    Left { user: u64 },
}

/// What the lines amount to.
#[derive(Debug, Default)]
struct State {
    boot: String,
    changed: Vec<Changed>,
    last_user: u64,
}

#[derive(Debug)]
struct Changed {
    setting: Setting,
    was: String,
    /// Users and what they set, the latest last.
    by: Vec<(u64, String)>,
}

impl State {
    fn of(text: &str) -> Self {
        let mut state = Self::default();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            match serde_json::from_str(line) {
                Ok(Line::Device { boot, .. }) => state.boot = boot,
                // No lock could be on the byte of a greater one.
                Ok(Line::Set { user, .. }) if user >= USERS => {}
                Ok(Line::Set { user, setting, was, to, .. }) => state.set(user, setting, was, to),
                Ok(Line::Left { user }) => state.leave(user),
                Err(_) => {}
            }
        }
        state
    }

    fn set(&mut self, user: u64, setting: Setting, was: String, to: String) {
        self.last_user = self.last_user.max(user);
        let index = self.changed.iter().position(|changed| changed.setting == setting).unwrap_or_else(|| {
            self.changed.push(Changed { setting, was, by: Vec::new() });
            self.changed.len() - 1
        });
        self.changed[index].by.push((user, to));
    }

    fn leave(&mut self, user: u64) {
        for changed in &mut self.changed {
            changed.by.retain(|&(by, _)| by != user);
        }
        self.changed.retain(|changed| !changed.by.is_empty());
    }

    fn users(&self) -> Vec<u64> {
        let mut users: Vec<u64> =
            self.changed.iter().flat_map(|changed| changed.by.iter().map(|&(user, _)| user)).collect();
        users.sort_unstable();
        users.dedup();
        users
    }
}

/// A device's note, open.
#[derive(Debug)]
pub(super) struct Note {
    file: File,
    path: PathBuf,
    /// The running system's.
    boot: String,
    /// Who we are in it.
    user: Option<u64>,
}

impl Note {
    /// The device's note, made when there is none, with a new user of the device.
    pub(super) fn join(device: &mut Device) -> io::Result<Self> {
        own_folder(Path::new(FOLDER))?;
        loop {
            let mut note = Self::open(&Path::new(FOLDER).join(device.note_name()), true)?;
            let joined = note.locked(|note| {
                // Removed by its last user between opening and locking.
                if note.is_removed()? {
                    return Ok(false);
                }
                let mut user = note.state()?.last_user + 1;
                // Others that have joined and not changed anything yet have no line.
                while !file_lock::try_lock(&note.file, USERS + user)? {
                    user += 1;
                }
                note.user = Some(user);
                Ok(true)
            })?;
            if joined {
                return Ok(note);
            }
        }
    }

    fn open(path: &Path, make: bool) -> io::Result<Self> {
        let opened = OpenOptions::new()
            .create(make)
            .read(true)
            .append(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())));
        let boot = fs::read_to_string(BOOT)?.trim().to_owned();
        Ok(Self { file: opened?, path: path.to_owned(), boot, user: None })
    }

    /// Notes a change, then makes it.
    pub(super) fn change(&mut self, device: &mut Device, setting: Setting, value: &str) -> io::Result<()> {
        self.locked(|note| {
            note.settle(device, false)?;
            let known = note.state()?.changed.into_iter().find(|changed| changed.setting == setting);
            let was = known.map_or_else(|| device.read(&setting), |changed| Ok(changed.was))?;
            let (user, pid) = (note.user.unwrap_or_default(), std::process::id());
            note.append(&Line::Set { user, pid, setting: setting.clone(), was, to: value.to_owned() }, device)?;
            device.write(&setting, value)
        })
    }

    /// What a setting was before anybody of us changed it, and what this user made of it.
    pub(super) fn own_change(&mut self, setting: &Setting) -> io::Result<Option<(String, String)>> {
        let user = self.user.unwrap_or_default();
        let changed = self.state()?.changed.into_iter().find(|changed| changed.setting == *setting);
        Ok(changed.and_then(|Changed { was, by, .. }| {
            let (_, to) = by.into_iter().rfind(|&(by, _)| by == user)?;
            Some((was, to))
        }))
    }

    /// Takes the right to write it from this process, which stays a user of the device: what stands in it the keeper does, and the next
    /// start, with rights that this process may give up.
    pub(super) fn give_up_writing(&mut self) -> io::Result<()> {
        let reading = File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))?;
        if let Some(user) = self.user {
            // Never free in between.
            file_lock::share(&self.file, USERS + user)?;
            file_lock::share(&reading, USERS + user)?;
        }
        self.file = reading;
        Ok(())
    }

    /// Puts back what this user changed, as far as nobody else still wants it changed.
    pub(super) fn leave(mut self, device: &mut Device) -> io::Result<()> {
        self.locked(|note| note.settle(device, true))
    }

    /// Puts back what dead users changed.
    fn settle_dead(&mut self, device: &mut Device) -> io::Result<()> {
        self.locked(|note| if note.is_removed()? { Ok(()) } else { note.settle(device, false) })
    }

    /// Puts back what users that are gone changed: those whose byte nobody holds, and this one if it is leaving.
    fn settle(&mut self, device: &mut Device, leaving: bool) -> io::Result<()> {
        let state = self.state()?;
        let users = state.users();
        let mut gone = Vec::new();
        for &user in &users {
            // Our own lock is none that someone else holds.
            let alive = if self.user == Some(user) { !leaving } else { self.is_held(USERS + user, 1)? };
            if !alive || state.boot != self.boot {
                gone.push(user);
            }
        }
        if state.boot == self.boot {
            // Each is tried; with a refusal all stays noted.
            let tried: Vec<_> = state.changed.iter().map(|changed| put_back(device, changed, &gone)).collect();
            tried.into_iter().collect::<io::Result<()>>()?;
        }
        for &user in &gone {
            self.append(&Line::Left { user }, device)?;
        }
        if gone.len() == users.len() {
            self.file.set_len(0)?;
            if (leaving || self.user.is_none()) && !self.is_held(USERS, 0)? {
                // Not without the rights: an empty note says nothing, and whoever has them removes it.
                let _ = fs::remove_file(&self.path);
            }
        }
        Ok(())
    }

    fn is_held(&self, byte: u64, count: u64) -> io::Result<bool> {
        file_lock::is_held_elsewhere(&self.file, byte, count)
    }

    fn is_removed(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() == 0)
    }

    fn append(&mut self, line: &Line, device: &Device) -> io::Result<()> {
        let mut text = Vec::new();
        if self.file.metadata()?.len() == 0 {
            let first = Line::Device { boot: self.boot.clone(), interface: device.name() };
            serde_json::to_writer(&mut text, &first)?;
            text.push(b'\n');
        }
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
        // One call: the lines are there or not. The file system of /run is memory, and the settings go with it: nothing to sync.
        self.file.write_all(&text)
    }

    fn state(&mut self) -> io::Result<State> {
        let mut text = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut text)?;
        Ok(State::of(&String::from_utf8_lossy(&text)))
    }

    /// Works on note and device while nobody else does.
    fn locked<T>(&mut self, work: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        let since = Instant::now();
        while !file_lock::try_lock(&self.file, 0)? {
            if since.elapsed() > PATIENCE {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process does not let go of it"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let result = work(self);
        file_lock::unlock(&self.file, 0);
        result
    }
}

/// Gives a setting the value of the last user that is not `gone`, or, when there is none, what it was before all of them.
fn put_back(device: &mut Device, changed: &Changed, gone: &[u64]) -> io::Result<()> {
    let left = changed.by.iter().rfind(|(user, _)| !gone.contains(user));
    if left == changed.by.last() {
        return Ok(());
    }
    let wanted = left.map_or(&changed.was, |(_, to)| to);
    let value = match device.read(&changed.setting) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(()),
        value => value?,
    };
    // Another value than ours is somebody else's, or the process was killed before it changed anything.
    if value == *wanted || !changed.by.iter().any(|(_, to)| value == *to) {
        return Ok(());
    }
    match device.write(&changed.setting, wanted) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        result => result,
    }
}

/// Makes the folder if it is not there. Only its owner may have access: a note tells what is written to devices.
fn own_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io::Error::new(error.kind(), format!("make {}: {error}", folder.display())));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != effective_user() {
        let text = format!("what is changed can't be noted: {} is not a folder of this user's", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Puts back what processes that are gone left behind on the devices of the calling thread's network namespace; one sentence for
/// each device where that failed.
pub(crate) fn put_back_leftovers() -> Vec<String> {
    let folder = Path::new(FOLDER);
    let (Ok(namespace), Ok(files)) = (Device::namespace(), fs::read_dir(folder)) else { return Vec::new() };
    if own_folder(folder).is_err() {
        return Vec::new();
    }
    let mut failures = Vec::new();
    for path in files.flatten().map(|file| file.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some((_, ifindex)) = name.rsplit_once('-').filter(|(of, _)| *of == namespace) else { continue };
        let Ok(ifindex) = ifindex.parse() else { continue };
        let settled = Device::of(ifindex).and_then(|mut device| Note::open(&path, false)?.settle_dead(&mut device));
        if let Err(error) = settled
            && error.kind() != io::ErrorKind::NotFound
        {
            failures.push(format!(
                "what a process changed on interface {ifindex} and did not put back stays so ({error}); see {}",
                path.display()
            ));
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(user: u64, was: &str, to: &str) -> String {
        let setting = Setting::GroFlushTimeout;
        let line = Line::Set { user, pid: 1, setting, was: was.to_owned(), to: to.to_owned() };
        format!("{}\n", serde_json::to_string(&line).unwrap())
    }

    #[test]
    fn a_line_cut_short_or_damaged_tells_no_change() {
        let (whole, cut) = (set(1, "0", "50"), set(2, "0", "70"));
        let text = format!("{whole}{{\"set\": 3}}\n{}", &cut[..cut.len() - 3]);
        let state = State::of(&text);
        assert_eq!(state.users(), [1]);
        assert_eq!(state.changed[0].by, [(1, "50".to_owned())]);
        assert_eq!(State::of(&set(u64::MAX, "0", "50")).last_user, 0, "it has no byte to lock");
    }

    #[test]
    fn a_user_that_left_is_forgotten_and_its_number_is_not_used_again() {
        let text = format!("{}{}{{\"left\":{{\"user\":2}}}}\n", set(1, "0", "50"), set(2, "0", "70"));
        let state = State::of(&text);
        assert_eq!((state.users(), state.last_user), (vec![1], 2));
        let state = State::of(&format!("{text}{{\"left\":{{\"user\":1}}}}\n"));
        assert!(state.changed.is_empty());
    }

    #[test]
    fn a_folder_that_is_a_link_or_open_to_others_is_not_trusted() {
        let parent = tempfile::tempdir().unwrap();
        let (real, link) = (parent.path().join("real"), parent.path().join("link"));
        own_folder(&real).unwrap();
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
        own_folder(&real).unwrap();
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o700);
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(own_folder(&link).unwrap_err().to_string().contains("not a folder of this user's"));
        // Neither is a note that is a link.
        let target = parent.path().join("target");
        fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, real.join("net1-2")).unwrap();
        assert!(Note::open(&real.join("net1-2"), true).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    }
}

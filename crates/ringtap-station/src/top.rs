//! `ringtap trap top`: a running station on the terminal, from what it leaves in its store each second.
//!
//! Owns the screen and the keyboard. It reads beside the station and never delays it.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use ringtap::Result;
use ringtap_output::printable;
use ringtap_run::{signals, units};
use ringtap_snmp::names::Names;
use serde_json::Value;

use crate::alarm::Alarm;
use crate::store::{Store, StoredIncident};
use crate::{mibs, render};

/// Alarms of each list, where the screen has room.
const SHOWN: usize = 10;
/// How often signals and keys are looked for.
const LOOK: Duration = Duration::from_millis(50);

/// What is shown.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the station's store.
    pub store: PathBuf,
    /// Time between two looks.
    pub every: Duration,
    /// End after so many looks; `None`: on q or Ctrl-C.
    pub count: Option<u64>,
}

/// Shows it until the looks are over, or q, SIGINT or SIGTERM ends it.
///
/// # Errors
/// There is no store, or it can't be read.
pub fn run(options: &Options) -> Result<()> {
    let stop = signals::stop_flag()?;
    let store = Store::open_beside(&options.store)?;
    // The names that the station found in its MIB files.
    let names = mibs::cached(&mibs::cache_of(&options.store));
    let clears = std::io::stdout().is_terminal();
    let keys = Keys::watch();
    let mut last: Option<(f64, u64)> = None;
    let mut looks = 0;
    loop {
        let status: Value = match store.meta("status")? {
            Some(text) => serde_json::from_str(&text).unwrap_or_default(),
            None => Value::Null,
        };
        let alarms = store.alarms()?;
        let incidents: Vec<StoredIncident> =
            store.incidents()?.into_iter().filter(|incident| incident.closed_ns.is_none()).collect();
        let members = store.member_counts()?;
        let seconds = status["seconds"].as_f64().unwrap_or(0.0);
        let stored = status["stored"].as_u64().unwrap_or(0);
        let rate = last
            .filter(|(then, _)| *then < seconds)
            .map(|(then, before)| stored.saturating_sub(before) as f64 / (seconds - then));
        last = Some((seconds, stored));
        let size = if clears { terminal_size::terminal_size() } else { None };
        let room = size.map_or((usize::MAX, usize::MAX), |(width, height)| (width.0.into(), height.0.into()));
        let seen = Seen { status: &status, rate, alarms: &alarms, incidents: &incidents, members: &members };
        let screen = screen(&seen, &names, room);
        let mut out = std::io::stdout().lock();
        // Without automatic wrap a line of wide characters is cut at the edge.
        let shown = if clears { write!(out, "\x1b[H\x1b[2J\x1b[?7l{screen}\x1b[?7h") } else { write!(out, "{screen}") };
        // Nobody may be left to read it.
        if shown.and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
        drop(out);
        looks += 1;
        let next = Instant::now() + options.every;
        while Instant::now() < next && options.count.is_none_or(|count| looks < count) {
            let quits = keys.as_ref().map_or_else(
                || {
                    std::thread::sleep(LOOK);
                    false
                },
                Keys::has_quit,
            );
            if stop.load(Ordering::Relaxed) || quits {
                return Ok(());
            }
        }
        if options.count.is_some_and(|count| looks >= count) {
            return Ok(());
        }
    }
}

/// The terminal's keys one by one and not shown; as before when dropped.
struct Keys(Termios);

impl Keys {
    /// `None` where standard input is no terminal of ours to change.
    fn watch() -> Option<Self> {
        let stdin = std::io::stdin();
        // In the background, changing the terminal would stop us (SIGTTOU).
        let is_ours = nix::unistd::tcgetpgrp(stdin.as_fd()).is_ok_and(|group| group == nix::unistd::getpgrp());
        let before = is_ours.then(|| tcgetattr(stdin.as_fd()).ok())??;
        let mut settings = before.clone();
        settings.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        tcsetattr(stdin.as_fd(), SetArg::TCSANOW, &settings).ok()?;
        Some(Self(before))
    }

    /// Waits a little, and says whether q was typed.
    fn has_quit(&self) -> bool {
        let stdin = std::io::stdin();
        let mut ready = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
        if !poll(&mut ready, timeout).is_ok_and(|count| count > 0) {
            return false;
        }
        let mut typed = [0; 64];
        match nix::unistd::read(stdin.as_fd(), &mut typed) {
            // Nobody is at the keyboard any more.
            Ok(0) | Err(_) => true,
            Ok(length) => typed[..length].iter().any(|key| b"qQ".contains(key)),
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin().as_fd(), SetArg::TCSANOW, &self.0);
    }
}

/// What there is to show.
struct Seen<'a> {
    status: &'a Value,
    /// Notifications a second since the last look.
    rate: Option<f64>,
    alarms: &'a [Alarm],
    /// Open ones.
    incidents: &'a [StoredIncident],
    /// Their alarms.
    members: &'a BTreeMap<u64, u64>,
}

/// What is shown on a screen of so many columns and rows.
fn screen(seen: &Seen<'_>, names: &Names, room: (usize, usize)) -> String {
    use std::fmt::Write;
    let &Seen { status, rate, alarms, incidents, members } = seen;
    let mut used = 0;
    let mut out = String::new();
    let mut line = |text: String| {
        for line in text.lines() {
            used += 1;
            let _ = writeln!(out, "{}", line.chars().take(room.0).collect::<String>());
        }
        used
    };
    if status.is_null() {
        line("no station has left its status here yet".to_owned());
    } else {
        let number = |value: &Value| value.as_i64().map_or_else(|| "unknown".to_owned(), |number| number.to_string());
        let rate = rate.map_or_else(|| "-".to_owned(), units::shown_rate);
        line(format!("stored         {} ({rate}), waiting {}", number(&status["stored"]), number(&status["waiting"])));
        let ledger = &status["ledger"];
        let drops: String = ledger["drops"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, count)| count.as_u64() != Some(0))
            .map(|(cause, count)| format!(" + {cause} {}", number(count)))
            .collect();
        line(format!(
            "ledger         offered {} = delivered {} + filtered {}{drops} + unaccounted {}",
            number(&ledger["offered"]),
            number(&ledger["delivered"]),
            number(&ledger["filtered"]),
            number(&status["unaccounted"])
        ));
        for (cause, count) in status["refused"].as_object().into_iter().flatten() {
            line(format!("refused        {} {cause}", number(count)));
        }
        for (name, it) in status["posts"].as_object().into_iter().flatten() {
            if it["waiting"].as_u64() != Some(0) {
                line(format!("{name:<14} {} announcements wait to be posted", number(&it["waiting"])));
            }
        }
        if let Some(error) = status["error"].as_str() {
            line(format!("store          {error}"));
        }
    }
    let mut raised: Vec<&Alarm> = alarms.iter().filter(|alarm| !alarm.cleared).collect();
    let used = line(format!("alarms         {} raised of {}", raised.len(), alarms.len()));
    // Lists, each below an empty line and its name; the last line is the cursor's.
    let lists = if incidents.is_empty() { 2 } else { 3 };
    let shown = (room.1.saturating_sub(used + 2 * lists + 1) / lists).min(SHOWN);
    if !incidents.is_empty() {
        line(format!("\nincidents: {} open, the newest", incidents.len()));
        let mut newest: Vec<&StoredIncident> = incidents.iter().collect();
        newest.sort_by_key(|incident| std::cmp::Reverse(incident.opened_ns));
        for it in newest.into_iter().take(shown) {
            let count = members.get(&it.id).copied().unwrap_or(0);
            line(format!("{:>8} {:<13} {count:>7} alarms {}", it.id, it.level, printable(&it.title)));
        }
    }
    raised.sort_by_key(|alarm| std::cmp::Reverse(alarm.changed_ns));
    line("\nnewest".to_owned());
    for alarm in raised.iter().take(shown) {
        line(row(alarm, names));
    }
    raised.sort_by_key(|alarm| std::cmp::Reverse(alarm.count));
    line("\nloudest".to_owned());
    for alarm in raised.iter().take(shown) {
        line(row(alarm, names));
    }
    out
}

fn row(alarm: &Alarm, names: &Names) -> String {
    let Alarm { id, key, severity, count, .. } = alarm;
    let flapping = if alarm.flapping { " flapping" } else { "" };
    let held = if alarm.maintenance { " maintenance" } else { "" };
    let by = alarm.acknowledged.as_ref().map_or(String::new(), |it| format!(" acknowledged by {}", printable(&it.by)));
    let text = printable(&format!("{} {} {}", key.resource, render::condition(alarm, names), key.object));
    format!("{id:>8} {:<13} {count:>9} x {text}{flapping}{held}{by}", severity.name())
}

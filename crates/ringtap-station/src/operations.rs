//! What operators do with a store: many alarms at once, and windows of maintenance.
//!
//! Owns that it is left to the station that has the store, and waited for, or done here when none runs.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use ringtap::{Error, Result, clock};
use ringtap_output::printable;
use ringtap_run::{notes, units};
use ringtap_snmp::names::Names;

use crate::act::{self, Act, Request};
use crate::alarm::Alarm;
use crate::filter::Filter;
use crate::listing::find;
use crate::maintenance::Window;
use crate::store::{Job, Store};
use crate::table::{AlarmTable, FlapPolicy};

/// Longest wait for the running station; it looks twice a second, and once more after a batch.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look whether it did.
const LOOK: Duration = Duration::from_millis(50);

/// Which alarms are meant.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// Those with these numbers.
    These(&'a [u64]),
    /// Those of which this is true.
    Such(&'a Filter),
}

/// Something that an operator does with alarms.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// With which.
    pub which: Which<'a>,
    /// What.
    pub act: Act,
    /// Who.
    pub operator: &'a str,
    /// Why.
    pub comment: Option<&'a str>,
    /// Only say which alarms are meant.
    pub is_trial: bool,
}

impl Operation<'_> {
    /// Does it with the store in `directory`, that is open as `beside`.
    ///
    /// # Errors
    /// There is no such alarm, one of those named is not in a state for it, the station does not do it in time, or the store can't be
    /// written.
    pub(crate) fn run(self, directory: &Path, beside: &Store, names: &Names) -> Result<()> {
        let ids = match self.which {
            Which::These(ids) => self.these(beside, ids)?,
            Which::Such(filter) => self.such(beside, filter, names)?,
        };
        let what = match &ids[..] {
            [] => {
                notes::say("there are no such alarms");
                return Ok(());
            }
            [id] => format!("alarm {id} is"),
            ids => format!("{} alarms are", ids.len()),
        };
        let done = self.act.name();
        if self.is_trial {
            let text: Vec<String> = ids.iter().map(ToString::to_string).collect();
            notes::say(&format!("without --dry-run {what} {done}: {}", text.join(" ")));
            return Ok(());
        }
        let request = |&alarm: &u64| Request {
            alarm,
            act: self.act,
            operator: self.operator.to_owned(),
            comment: self.comment.map(ToOwned::to_owned),
        };
        let by = do_all(directory, beside, ids.iter().map(request).collect())?;
        notes::say(&format!("{what} {done}{by}"));
        Ok(())
    }

    fn these(self, beside: &Store, ids: &[u64]) -> Result<Vec<u64>> {
        let refused =
            |id: u64, operation: &str, cause: &str| Err(Error::failed(operation, format!("alarm {id}"), cause));
        for &id in ids {
            let alarm = find(beside, id)?;
            match self.act {
                Act::Cleared if alarm.cleared => return refused(id, "clear", "it is cleared already"),
                Act::Acknowledged if alarm.cleared => {
                    return refused(id, "acknowledge", "it is cleared: there is nothing to take care of");
                }
                Act::Unacknowledged if alarm.acknowledged.is_none() => {
                    return refused(id, "take back the acknowledgement of", "it is not acknowledged");
                }
                _ => {}
            }
        }
        Ok(ids.to_vec())
    }

    fn such(self, beside: &Store, filter: &Filter, names: &Names) -> Result<Vec<u64>> {
        let now_ns = clock::realtime_ns();
        let makes_sense = |alarm: &Alarm| match self.act {
            Act::Cleared => !alarm.cleared,
            Act::Acknowledged => !alarm.cleared && alarm.acknowledged.is_none(),
            Act::Unacknowledged => alarm.acknowledged.is_some(),
            Act::Expired | Act::Commented => true,
        };
        let alarms = beside.alarms()?.into_iter();
        Ok(alarms.filter(|it| filter.matches(it, names, now_ns) && makes_sense(it)).map(|it| it.id).collect())
    }
}

/// Leaves requests to the running station and waits until they are done; without one, does them. Says who did.
fn do_all(directory: &Path, beside: &Store, requests: Vec<Request>) -> Result<&'static str> {
    let Ok(mut store) = Store::open(directory) else {
        let last = beside.request(&requests)?;
        wait(|| Ok(!beside.is_waiting(last)?))?;
        return Ok(", by the running station");
    };
    let alarms = store.alarms()?;
    let limit = alarms.len();
    let mut table = AlarmTable::new(alarms, FlapPolicy::default(), limit);
    let requests = requests.into_iter().map(|request| (None, request)).collect();
    let mut job = Job::default();
    job.history = act::apply(&mut table, requests, clock::realtime_ns()).entries;
    job.alarms = table.take_changed();
    store.write(&job)?;
    Ok("")
}

/// Waits until the station has done what it was asked for.
fn wait(is_done: impl Fn() -> Result<bool>) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while !is_done()? {
        if Instant::now() >= until {
            let cause = format!("the station that has the store was asked, and has not done it within {PATIENCE:?}");
            return Err(Error::failed("wait for", "the station", cause)
                .way_out("it will when it comes to it: look with `ringtap alarms list`, and at the station"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Adds a window of maintenance, and waits until a running station uses it.
///
/// # Errors
/// The store can't be written, or the station does not look in time.
pub(crate) fn add_window(directory: &Path, beside: &Store, window: &Window) -> Result<()> {
    let id = beside.add_window(window)?;
    if Store::open(directory).is_err() {
        wait(|| beside.is_window_in_use(id))?;
    }
    let (from, until) = (units::shown_time(window.from_ns), units::shown_time(window.until_ns));
    notes::say(&format!("maintenance {id} of {}: from {from} until {until}", window.scope));
    Ok(())
}

/// Ends a window of maintenance now, and waits until a running station knows.
///
/// # Errors
/// There is no such window, the store can't be written, or the station does not look in time.
pub(crate) fn end_window(directory: &Path, beside: &Store, id: u64, operator: &str) -> Result<()> {
    if !beside.end_window(id, operator, clock::realtime_ns())? {
        return Err(Error::failed(
            "end",
            format!("maintenance {id}"),
            "there is none with this number that is not over",
        )
        .way_out("`ringtap alarms maintenance list` shows the numbers"));
    }
    if Store::open(directory).is_err() {
        wait(|| Ok(!beside.is_window_in_use(id)?))?;
    }
    notes::say(&format!("maintenance {id} is over"));
    Ok(())
}

/// Windows of maintenance as lines: a table, or with `json` one object each; those that are over only if `all`.
///
/// # Errors
/// The store can't be read; within: `out` takes no more.
pub(crate) fn list_windows(out: &mut impl Write, store: &Store, all: bool, json: bool) -> Result<io::Result<()>> {
    let now_ns = clock::realtime_ns();
    let windows = store.windows((!all).then_some(now_ns))?;
    if windows.is_empty() && !json {
        notes::say(if all { "there are none" } else { "there are none; --all shows those that are over" });
    }
    let mut print = || -> io::Result<()> {
        if !json && !windows.is_empty() {
            writeln!(out, "{:>6} {:<8} {:<20} {:<20} {:<12} OF", "ID", "STATE", "FROM", "UNTIL", "BY")?;
        }
        for it in &windows {
            if json {
                writeln!(out, "{}", serde_json::to_value(it).unwrap_or_default())?;
                continue;
            }
            let state = match now_ns {
                now if now >= it.end_ns() => "over",
                now if now < it.from_ns => "planned",
                _ => "active",
            };
            let comment = it.comment.as_ref().map_or(String::new(), |comment| format!(" ({comment})"));
            let (from, until) = (units::shown_time(it.from_ns), units::shown_time(it.end_ns()));
            let by = printable(&it.operator);
            let of = printable(&format!("{}{comment}", it.scope));
            writeln!(out, "{:>6} {state:<8} {from:<20} {until:<20} {by:<12} {of}", it.id)?;
        }
        out.flush()
    };
    Ok(print())
}

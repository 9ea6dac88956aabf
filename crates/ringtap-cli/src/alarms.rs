//! `ringtap alarms`: what the management station's store holds, for people and programs.
//!
//! Owns the options and the shape of lists. A store that a station writes to is read beside it; clearing is left to the
//! station, or done here when none runs.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Subcommand;
use ringtap::sys::clock;
use ringtap::{Error, Result};
use ringtap_alarm::model::{Alarm, EventType, Severity};
use ringtap_alarm::table::{AlarmTable, FlapPolicy};
use ringtap_trap::names::Names;
use ringtap_trap::render;
use ringtap_trap::store::{Job, Store};
use serde_json::Value;

use crate::units;

/// Longest wait for the running station to clear an alarm; it looks each second, and once more after a batch.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look whether it did.
const LOOK: Duration = Duration::from_millis(50);
/// Notifications read from the store at a time.
const PAGE: u64 = 1000;

/// List, show, clear and export alarms of the management station
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ringtap alarms list --store /var/lib/ringtap-trap               what is raised
  ringtap alarms list --store DIR --all --json                    all, one JSON object a line
  ringtap alarms show 17 --store DIR --mibs /usr/share/snmp/mibs  one alarm and its notifications, with names
  ringtap alarms clear 17 --store DIR --by alice
  ringtap alarms export --store DIR > notifications.jsonl         every notification as it came")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// Directory of the station's store
    #[arg(long, value_name = "DIR", default_value = "ringtap-trap", global = true)]
    store: PathBuf,
    /// Directory with MIB files (may be given several times)
    #[arg(long, value_name = "DIR", global = true)]
    mibs: Vec<PathBuf>,
    /// One JSON object a line
    #[arg(long, global = true)]
    json: bool,
    /// Show the notifications' bytes too; they hold the communities
    #[arg(long, global = true)]
    raw: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Alarms that are raised
    List {
        /// Cleared ones too
        #[arg(long)]
        all: bool,
        /// Only this severity and worse: indeterminate, warning, minor, major, critical
        #[arg(long, value_name = "SEVERITY", value_parser = severity)]
        severity: Option<Severity>,
    },
    /// One alarm and its latest notifications
    Show {
        /// The alarm's number
        id: u64,
        /// Notifications to show, from the first on
        #[arg(long, value_name = "N", default_value = "100", value_parser = units::count)]
        count: u64,
    },
    /// Clear an alarm by hand; a running station does it within a second or so, which is waited for
    Clear {
        /// The alarm's number
        id: u64,
        /// Who clears it [default: $USER]
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// Every notification, decoded, one JSON object a line
    Export {
        /// From this number on
        #[arg(long, value_name = "N", default_value_t = 0)]
        from: u64,
    },
}

fn severity(text: &str) -> Result<Severity, String> {
    Severity::from_name(text).ok_or_else(|| "give one of indeterminate, warning, minor, major, critical".to_owned())
}

/// Runs the command.
///
/// # Errors
/// There is no store, no such alarm, or it can't be read or written.
pub fn run(args: Args) -> Result<ExitCode> {
    let names = if args.mibs.is_empty() { Names::default() } else { Names::load(&args.mibs, None)? };
    for warning in names.warnings() {
        eprintln!("ringtap: {warning}");
    }
    let store = Store::open_beside(&args.store)?;
    let written = match &args.command {
        Command::List { all, severity } => {
            let alarms = store.alarms()?;
            let wanted = alarms
                .iter()
                .filter(|alarm| (*all || !alarm.cleared) && severity.is_none_or(|least| alarm.severity >= least));
            list(wanted, &names, args.json)
        }
        Command::Show { id, count } => {
            let alarm = find(&store, *id)?;
            let notifications = store.latest(*id, *count)?;
            let mut out = BufWriter::new(io::stdout().lock());
            print(&mut out, &render::alarm(&alarm, &names), args.json)
                .and_then(|()| {
                    notifications.iter().try_for_each(|stored| {
                        print(&mut out, &render::notification(stored, &names, args.raw), args.json)
                    })
                })
                .and_then(|()| out.flush())
        }
        Command::Clear { id, by } => {
            let alarm = find(&store, *id)?;
            if alarm.cleared {
                return Err(Error::failed("clear", format!("alarm {id}"), "it is cleared already"));
            }
            let operator = by.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| "unknown".to_owned());
            clear(&args, &store, *id, &operator)?;
            Ok(())
        }
        Command::Export { from } => export(&store, *from, &names, args.raw)?,
    };
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::os("write to", "standard output", &error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn find(store: &Store, id: u64) -> Result<Alarm> {
    store.alarms()?.into_iter().find(|alarm| alarm.id == id).ok_or_else(|| {
        Error::failed("find", format!("alarm {id}"), "there is none with this number")
            .way_out("`ringtap alarms list --all` shows the numbers")
    })
}

fn list<'a>(alarms: impl Iterator<Item = &'a Alarm>, names: &Names, json: bool) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut alarms = alarms.peekable();
    if !json && alarms.peek().is_none() {
        eprintln!("ringtap: there are none");
    } else if !json {
        let (state, severity, last) = ("STATE", "SEVERITY", "LAST SEEN");
        writeln!(out, "{:>6} {state:<8} {severity:<13} {:>7} {:<20} {last:<12} SOURCE, WHAT", "ID", "COUNT", "SINCE")?;
    }
    let now_ns = clock::realtime_ns();
    for alarm in alarms {
        if json {
            writeln!(out, "{}", render::alarm(alarm, names))?;
            continue;
        }
        let state = match (alarm.cleared, alarm.flapping) {
            (_, true) => "flapping",
            (true, false) => "cleared",
            (false, false) => "raised",
        };
        let what = format!("{} {}", render::condition(alarm, names), alarm.key.object);
        writeln!(
            out,
            "{:>6} {state:<8} {:<13} {:>7} {:<20} {:<12} {} {}",
            alarm.id,
            alarm.severity.name(),
            alarm.count,
            units::shown_time(alarm.changed_ns),
            units::shown_age(alarm.last_ns, now_ns),
            printable(&alarm.key.resource),
            printable(what.trim_end())
        )?;
    }
    out.flush()
}

/// What came from the network must not steer a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn print(out: &mut impl Write, value: &Value, json: bool) -> io::Result<()> {
    if json { writeln!(out, "{value}") } else { writeln!(out, "{:#}", with_times(value.clone(), clock::realtime_ns())) }
}

/// For people: nanoseconds since 1970 (fields in `_ns`) as time of day and age.
fn with_times(value: Value, now_ns: u64) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| match (name.strip_suffix("_ns"), value.as_u64()) {
                    (Some(short), Some(ns)) => {
                        let text = format!("{} ({})", units::shown_time(ns), units::shown_age(ns, now_ns));
                        (short.to_owned(), text.into())
                    }
                    _ => (name, with_times(value, now_ns)),
                })
                .collect(),
        ),
        Value::Array(list) => list.into_iter().map(|value| with_times(value, now_ns)).collect(),
        other => other,
    }
}

fn export(store: &Store, from: u64, names: &Names, raw: bool) -> Result<io::Result<()>> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut next = from;
    loop {
        let page = store.notifications(next, PAGE)?;
        let Some(last) = page.last() else { return Ok(out.flush()) };
        next = last.id + 1;
        for stored in &page {
            let mut object = render::notification(stored, names, raw);
            if let Some(kind) = stored.alarm.map(|alarm| store.classification(alarm)).transpose()?.flatten() {
                object["event_type"] = kind.event_type.map(EventType::name).into();
                object["probable_cause"] = kind.probable_cause.into();
            }
            if let Err(error) = writeln!(out, "{object}") {
                return Ok(Err(error));
            }
        }
    }
}

/// Leaves it to the running station and waits until it is done; without one, writes it.
fn clear(args: &Args, beside: &Store, id: u64, operator: &str) -> Result<()> {
    let Ok(mut store) = Store::open(&args.store) else {
        beside.request_clear(id, operator)?;
        let until = Instant::now() + PATIENCE;
        while !find(beside, id)?.cleared {
            if Instant::now() >= until {
                let cause = format!("the station that has the store was asked to, and did not within {PATIENCE:?}");
                return Err(Error::failed("clear", format!("alarm {id}"), cause)
                    .way_out("it will when it comes to it: look with `ringtap alarms list`, and at the station"));
            }
            std::thread::sleep(LOOK);
        }
        eprintln!("ringtap: alarm {id} is cleared, by the running station");
        return Ok(());
    };
    let alarms = store.alarms()?;
    let limit = alarms.len();
    let mut table = AlarmTable::new(alarms, FlapPolicy::default(), limit);
    table.clear(id, operator, clock::realtime_ns());
    store.write(&Job { alarms: table.take_changed(), ..Job::default() })?;
    eprintln!("ringtap: alarm {id} is cleared");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::with_times;

    #[test]
    fn people_read_times_and_ages() {
        let now_ns = 1_477_408_530_123_456_789 + 200_000_000_000;
        let alarm = json!({"id": 3, "first_ns": 1_477_408_530_123_456_789u64, "list": [{"at_ns": 0, "text": "x"}]});
        let shown = with_times(alarm, now_ns);
        assert_eq!(shown["first"], "2016-10-25T15:15:30Z (3 min ago)");
        assert_eq!((&shown["id"], &shown["list"][0]["text"]), (&3.into(), &"x".into()));
        assert!(shown["list"][0]["at"].as_str().unwrap().starts_with("1970-01-01T00:00:00Z"), "{shown}");
    }
}

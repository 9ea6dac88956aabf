//! `ringtap alarms`: what the management station's store holds, for people and programs.
//!
//! Owns the options and what is said beside the lists, which are `ringtap_station::listing`'s.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use ringtap::{Error, Result};
use ringtap_run::units;
use ringtap_snmp::names::Names;
use ringtap_station::alarm::Severity;
use ringtap_station::listing::{self, ClearedBy, Form};
use ringtap_station::mibs;
use ringtap_station::store::Store;

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
    let names = if args.mibs.is_empty() { Names::default() } else { mibs::load(&args.mibs, None)? };
    for warning in names.warnings() {
        eprintln!("ringtap: {warning}");
    }
    let store = Store::open_beside(&args.store)?;
    let form = Form { names: &names, json: args.json, raw: args.raw };
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match &args.command {
        Command::List { all, severity } => {
            let mut alarms = store.alarms()?;
            alarms.retain(|alarm| (*all || !alarm.cleared) && severity.is_none_or(|least| alarm.severity >= least));
            if alarms.is_empty() && !args.json {
                eprintln!("ringtap: there are none");
            }
            listing::list(&mut out, alarms.iter(), &names, args.json)
        }
        Command::Show { id, count } => listing::show(&mut out, &store, *id, *count, form)?,
        Command::Clear { id, by } => {
            let operator = by.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| "unknown".to_owned());
            match listing::clear(&args.store, &store, *id, &operator)? {
                ClearedBy::Station => eprintln!("ringtap: alarm {id} is cleared, by the running station"),
                ClearedBy::Us => eprintln!("ringtap: alarm {id} is cleared"),
            }
            Ok(())
        }
        Command::Export { from } => listing::export(&mut out, &store, *from, form)?,
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::os("write to", "standard output", &error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

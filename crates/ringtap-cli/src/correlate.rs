//! `ringtap correlate`: events of many sensors to incidents, from files or sockets.
//!
//! Owns the options and how what is found is printed; all the rest is `ringtap_correlator`'s.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, ValueEnum};
use ringtap::{Error, Result};
use ringtap_correlator::input::listen::Place;
use ringtap_correlator::input::parse::Wanted;
use ringtap_correlator::listing::Listing;
use ringtap_correlator::options::{Inputs, LineOutputs, Options};
use ringtap_correlator::rules::Rules;
use ringtap_correlator::run::{self, Event};
use ringtap_correlator::{render, rule_test};
use ringtap_output::LogServer;
use ringtap_run::units;

/// Find attacks of several steps, and other conditions over many events, by Sigma correlation rules.
///
/// Takes EVE JSON (of Suricata and of `ringtap sensor`), alarms of `ringtap trap --output`, and any JSON lines with a time, from files
/// and pipes until they end, or from sockets until Ctrl-C or SIGTERM. Correlates by the time of the events, so that delays on their way
/// decide when something is found and not whether. SIGHUP loads the rules again without losing a window. docs/correlate.md shows how to
/// write a rule.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("task").required(true).multiple(false)
    .args(["read", "listen", "check_rules", "test"]))]
pub struct Args {
    /// Folder of Sigma rules (*.yml, *.yaml, also in folders below), or one file
    #[arg(long, value_name = "DIR", required_unless_present = "test")]
    rules: Option<PathBuf>,
    /// Read these files and pipes to their end, merged by time; - is standard input
    #[arg(long, value_name = "FILE", num_args = 1..)]
    read: Vec<PathBuf>,
    /// Take JSON lines at this address (TCP and UDP), or at a Unix socket by its path (may be given several times)
    #[arg(long, value_name = "ADDR:PORT", value_parser = Place::parse)]
    listen: Vec<Place>,
    /// Say of each rule whether it is used, or why not, with file and line, and end
    #[arg(long)]
    check_rules: bool,
    /// Run the tests in these files (rules, events, expected incidents) and end
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "rules")]
    test: Vec<PathBuf>,
    /// How lines are to be understood; auto looks at each
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    format: Format,
    /// Directory of the log of events and the store of incidents; made when it is not there [default: nothing is kept]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// How much later than the latest an event may come
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration)]
    disorder: Duration,
    /// Without an event at the sockets for this long, the clock decides what is certain
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration)]
    silence: Duration,
    /// Memory for what is remembered of keys; beyond it the nearest to its expiry is forgotten, and said
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = units::size)]
    memory: u64,
    /// Tell near misses too: what came too late for a rule, and by how much
    #[arg(long)]
    explain: bool,
    /// Configuration: where to post incidents; readable by its owner only
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Append what is found to this file, one JSON object a line; SIGHUP opens it again
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    output: Option<PathBuf>,
    /// Begin a new file when this one is so large; the old ones are FILE.1 (the newest), FILE.2 …
    #[arg(long, value_name = "SIZE", value_parser = units::size, requires = "output", help_heading = "Outputs")]
    output_rotate: Option<u64>,
    /// Old files that are kept
    #[arg(long, value_name = "N", default_value_t = 5, requires = "output_rotate", help_heading = "Outputs")]
    output_keep: u32,
    /// What is found to this Unix stream socket, one JSON object a line
    #[arg(long, value_name = "PATH", help_heading = "Outputs")]
    output_socket: Option<PathBuf>,
    /// What is found to a syslog server (RFC 5424), udp:ADDRESS:PORT or tcp:ADDRESS:PORT
    #[arg(long, value_name = "SERVER", value_parser = LogServer::parse, help_heading = "Outputs")]
    output_syslog: Option<LogServer>,
    /// Once all is set up, go on as this user; the store is made with that user's rights
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Keep all privileges: no Landlock, no seccomp, all capabilities (docs/privileges.md)
    #[arg(long)]
    no_sandbox: bool,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// Say how far it is this often
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    stats: Option<Duration>,
    /// What is found as JSON lines on standard output, the account as the last; all else goes to standard error
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  ringtap correlate --rules rules/correlation --read eve.json           what was in yesterday's alerts
  ringtap correlate --rules DIR --listen ./eve.sock --store ./incidents   beside Suricata: filetype: unix_stream
  ringtap sensor -i eth1 -S my.rules --eve - | ringtap correlate --rules DIR --read -
  ringtap correlate --rules DIR --check-rules                           which rules are used, and why others are not
  ringtap correlate --test rules/correlation/tests/*.toml               the rules' own tests
  ringtap correlate --rules DIR --read eve.json --explain               what came too late for a rule
  ringtap alarms list --incidents --store ./incidents                   what was found

Configuration (TOML), optional:
  [correlate.webhook]
  url = \"http://127.0.0.1:8080/incidents\"";

/// How lines are to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Each as it looks
    Auto,
    /// EVE JSON
    Eve,
    /// JSON with a time
    Json,
}

/// Runs the command.
///
/// # Errors
/// Wrong options, rules, inputs or a store that can't be opened, a test that fails, or a store that could not be written.
pub fn run(args: Args) -> Result<ExitCode> {
    if !args.test.is_empty() {
        return test(&args.test);
    }
    let json = args.json;
    let explain = args.explain;
    let (options, is_check) = args.options();
    if is_check {
        return check(&options.rules);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    run::run(&options, |event| {
        let line = match event {
            Event::Told(told, automaton, sensors) if json => Some(render::json(told, automaton, sensors).to_string()),
            Event::Told(told, automaton, _) => render::line(told, automaton),
            Event::Explained(line) if explain && !json => Some(line.to_owned()),
            Event::Explained(line) => {
                eprintln!("ringtap: {line}");
                None
            }
            Event::Interval(status) if json => Some(status.json("interval").to_string()),
            Event::Interval(status) => {
                eprintln!("ringtap: {}", status.line());
                None
            }
            Event::Summary(status) if json => Some(status.json("summary").to_string()),
            Event::Summary(status) => {
                eprint!("{status}");
                None
            }
        };
        if let Some(line) = line
            && written.is_ok()
        {
            written = writeln!(out, "{line}").and_then(|()| out.flush());
        }
    })?;
    ended(written)
}

fn ended(written: io::Result<()>) -> Result<ExitCode> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::os("write to", "standard output", &error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn check(path: &Path) -> Result<ExitCode> {
    let rules = Rules::read(path)?;
    for line in rules.check() {
        println!("{}", ringtap_output::printable(&line));
    }
    let (used, rejected) = (rules.automaton.rules().len(), rules.rejected.len());
    let detections = rules.automaton.detections().len();
    eprintln!("ringtap: {} files: {used} correlations and {detections} detections used, {rejected} not", rules.files);
    if rejected > 0 {
        return Err(Error::failed("use", path.display().to_string(), format!("{rejected} rules are not used")));
    }
    Ok(ExitCode::SUCCESS)
}

fn test(paths: &[PathBuf]) -> Result<ExitCode> {
    let (mut passed, mut failed) = (0, 0);
    for path in paths {
        let outcomes = rule_test::run(path).unwrap_or_else(|error| {
            failed += 1;
            eprintln!("ringtap: {error}");
            Vec::new()
        });
        for outcome in outcomes {
            if outcome.faults.is_empty() {
                passed += 1;
                continue;
            }
            failed += 1;
            println!("{}: {}: FAILED", path.display(), outcome.name);
            outcome.faults.iter().for_each(|fault| println!("  {}", ringtap_output::printable(fault)));
        }
    }
    println!("{passed} cases passed, {failed} failed");
    match failed {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(Error::failed("test", "rules", format!("{failed} cases failed"))),
    }
}

impl Args {
    /// What is asked for, and whether that is only a check of rules.
    fn options(self) -> (Options, bool) {
        let inputs = if self.listen.is_empty() { Inputs::Read(self.read) } else { Inputs::Listen(self.listen) };
        let options = Options {
            rules: self.rules.unwrap_or_default(),
            inputs,
            format: match self.format {
                Format::Auto => Wanted::Auto,
                Format::Eve => Wanted::Eve,
                Format::Json => Wanted::Json,
            },
            store: self.store,
            disorder: self.disorder,
            silence: self.silence,
            memory: self.memory,
            config: self.config,
            outputs: LineOutputs {
                file: self.output,
                rotate: self.output_rotate.map(|size| (size, self.output_keep)),
                socket: self.output_socket,
                syslog: self.output_syslog,
            },
            user: self.user,
            keeps_privileges: self.no_sandbox,
            duration: self.duration,
            stats: self.stats,
            explain: self.explain,
        };
        (options, self.check_rules)
    }
}

/// What `ringtap alarms` is asked about incidents.
#[derive(Debug, Clone, Copy)]
pub enum Question<'a> {
    /// Those that are open; true: all.
    List(bool),
    /// One, by the beginning of its id.
    Show(&'a str),
    /// All, with their members.
    Export,
}

/// Answers it from the store in this folder.
///
/// # Errors
/// There is no store, no such incident, or it can't be read.
pub fn answer(question: Question<'_>, folder: &Path, json: bool) -> Result<ExitCode> {
    let listing = Listing::read(folder)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match question {
        Question::List(all) => listing.list(&mut out, all, json).map(|count| {
            if count == 0 && !json {
                eprintln!(
                    "ringtap: there are none{}",
                    if all { "" } else { " that are open; --all has the closed ones" }
                );
            }
        }),
        Question::Show(id) => listing.show(&mut out, folder, listing.find(id)?, json)?,
        Question::Export => listing.export(&mut out),
    };
    ended(written.and_then(|()| out.flush()))
}

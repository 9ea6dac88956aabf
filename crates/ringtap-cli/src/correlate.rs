//! `ringtap correlate`: events of many sensors to incidents, from files or sockets.
//!
//! Owns the options and how what is found is printed; all the rest is `ringtap_correlator`'s.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgGroup;
use ringtap::{Error, Result};
use ringtap_correlator::input::listen::Place;
use ringtap_correlator::input::parse::Wanted;
use ringtap_correlator::options::{Brokers, DISORDER, GAP_WAIT, Inputs, LOG_SIZE, MEMORY, Options, Retention, SILENCE};
use ringtap_correlator::rules::Rules;
use ringtap_correlator::{rule_test, run, said};
use ringtap_output::kafka_topic;
use ringtap_run::{notes, units};

use crate::kafka;
use crate::outputs::{OutputArgs, ServiceArgs};
use crate::words::{self, Words, one_of, unused_beside};

/// Find attacks of several steps, and other conditions over many events, by Sigma correlation rules.
///
/// Takes EVE JSON (of Suricata and of `ringtap sensor`), alarms of `ringtap trap --output`, and any JSON lines with a time, from files
/// and pipes until they end, or from sockets until Ctrl-C or SIGTERM. Correlates by the time of the events, so that delays on their way
/// decide when something is found and not whether. SIGHUP loads rules, sensors and keys again; windows of rules that stay go on. docs/correlate.md shows
/// how to write a rule.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES,
    group(ArgGroup::new("task").required(true).multiple(true).args(["read", "listen", "sensors", "kafka", "check_rules", "test"])),
    group(ArgGroup::new("others_lines").multiple(true).args(["read", "listen", "kafka"])),
    group(ArgGroup::new("of_sensors").multiple(true).args(["sensors", "kafka"])),
    mut_args(|option| unused_beside(option, "check_rules", &["rules"])),
    mut_args(|option| unused_beside(option, "test", &[])))]
pub struct Args {
    /// Folder of Sigma rules (*.yml, *.yaml, also in folders below), or one file
    #[arg(long, value_name = "DIR", required_unless_present = "test")]
    rules: Option<PathBuf>,
    /// Read these files and pipes to their end, merged by time; - is standard input
    #[arg(long, value_name = "FILE", num_args = 1..)]
    read: Vec<PathBuf>,
    /// Take JSON lines at this address (TCP and UDP), or at a Unix socket by its path (may be given several times)
    #[arg(long, value_name = "ADDR:PORT", value_parser = Place::parse, conflicts_with = "read")]
    listen: Vec<Place>,
    /// Take what registered sensors have sealed at this address (datagrams by UDP, lines by TCP), or lines at a Unix socket by
    /// its path (may be given several times); --config registers them
    #[arg(long, value_name = "ADDR:PORT", value_parser = Place::parse, requires = "config", conflicts_with = "read")]
    sensors: Vec<Place>,
    /// Read topics of Kafka, by some of its brokers: JSON lines, and what registered sensors have sealed. With --store it goes on where it
    /// was, and takes each record once (docs/kafka.md)
    #[arg(long, value_name = "HOST:PORT[,…]", conflicts_with_all = ["read", "listen", "sensors"])]
    kafka: Option<Brokers>,
    /// Topic to read (may be given several times)
    #[arg(long, value_name = "TOPIC", default_value = kafka::ALARMS, value_parser = kafka_topic, requires = "kafka",
        conflicts_with_all = ["read", "listen", "sensors"])]
    kafka_topic: Vec<String>,
    /// Say of each rule whether it is used, or why not, with file and line, and end
    #[arg(long)]
    check_rules: bool,
    /// Run the tests in these files (rules, events, expected incidents) and end
    #[arg(long, value_name = "FILE", num_args = 1..)]
    test: Vec<PathBuf>,
    /// How lines are to be understood; auto looks at each
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = one_of(FORMATS), requires = "others_lines")]
    format: Wanted,
    /// Directory of the log of events and the store of incidents; made when it is not there [default: nothing is kept]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// How much later than the latest an event may come
    #[arg(long, value_name = "TIME", default_value = words::time(DISORDER), value_parser = units::duration)]
    disorder: Duration,
    /// How long to wait for alarms that a sensor's heartbeat has counted; then they are lost
    #[arg(long, value_name = "TIME", default_value = words::time(GAP_WAIT), value_parser = units::duration, requires = "of_sensors",
        conflicts_with = "read")]
    gap_wait: Duration,
    /// Without an event at the sockets for this long, the clock decides what is certain; a sensor without a heartbeat for this
    /// long is no longer waited for
    #[arg(long, value_name = "TIME", default_value = words::time(SILENCE), value_parser = units::duration, conflicts_with = "read")]
    silence: Duration,
    /// Memory for what is remembered of keys; beyond it the nearest to its expiry is forgotten, and said
    #[arg(long, value_name = "SIZE", default_value = words::size(MEMORY), value_parser = memory())]
    memory: u64,
    /// The oldest part of the log goes when it is larger
    #[arg(long, value_name = "SIZE", default_value = words::size(LOG_SIZE), value_parser = log_size(), requires = "store")]
    log_size: u64,
    /// Forget incidents that have been closed for so long [default: never]
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "store")]
    keep: Option<Duration>,
    /// Forget the incidents that closed first when the store of incidents is larger [default: never]
    #[arg(long, value_name = "SIZE", value_parser = keep_size(), requires = "store")]
    keep_size: Option<u64>,
    /// Tell near misses too: what came too late for a rule, and by how much
    #[arg(long)]
    explain: bool,
    /// Configuration: where to post incidents, registered sensors, and options by their names, which those that are given here go
    /// before; readable by its owner only
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    service: ServiceArgs,
    /// Say how far it is this often [default: on a terminal each second, in one line]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    stats: Option<Duration>,
    /// What is found as JSON lines on standard output, the account as the last; all else goes to standard error
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    outputs: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  ringtap correlate --rules rules/correlation --read eve.json           what was in yesterday's alerts
  ringtap correlate --rules DIR --listen ./eve.sock --store ./incidents   beside Suricata: filetype: unix_stream
  ringtap correlate --rules DIR --sensors 192.0.2.1:5171 --config ringtap.toml   registered sensors, with their keys
  ringtap correlate --rules DIR --kafka 192.0.2.1:9092 --config ringtap.toml --store ./incidents   from Kafka
  ringtap sensor -i eth1 -S my.rules --eve - | ringtap correlate --rules DIR --read -
  ringtap correlate --rules DIR --check-rules                           which rules are used, and why others are not
  ringtap correlate --test rules/correlation/tests/*.toml               the rules' own tests
  ringtap correlate --rules DIR --read eve.json --explain               what came too late for a rule
  ringtap alarms list --incidents --store ./incidents                   what was found

Configuration (TOML), optional:
  [correlate]                            # any option above but --config, --check-rules and --test; typed ones go before these
  rules = \"/etc/ringtap/correlation\"
  sensors = [\"192.0.2.1:5171\"]
  store = \"/var/lib/ringtap/incidents\"
  [correlate.webhook]
  url = \"http://127.0.0.1:8080/incidents\"
  [[correlate.sensor]]
  id = \"north.1\"
  key-files = [\"north.1.key\"]            # NUMBER:HEXDIGITS, readable by its owner only; two while a key is changed
  rules = [\"my.rules\"]                   # the sensor's: what its alarms are called
  classification = \"classification.config\"";

/// Reads a bound of what is remembered.
pub fn memory() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    units::size_from(1 << 20, "has no room for what a rule remembers")
}

/// Reads a bound of the log.
pub fn log_size() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    units::size_from(1 << 20, "keeps no event for the next start")
}

/// Reads a bound of a store.
pub fn keep_size() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    units::size_from(1 << 20, "is little more than an empty store takes")
}

/// How lines are to be understood.
const FORMATS: Words<Wanted> = &[
    ("auto", "Each as it looks", Wanted::Auto),
    ("eve", "EVE JSON", Wanted::Eve),
    ("json", "JSON with a time", Wanted::Json),
];

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
    let (options, is_check) = args.options()?;
    if is_check {
        return check(&options.rules);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    run::run(&options, |event| {
        if let Some(line) = said::line(&event, json, explain)
            && written.is_ok()
        {
            notes::clear_progress();
            written = writeln!(out, "{line}").and_then(|()| out.flush());
        }
    })?;
    ended(written)
}

/// What standard output took; that nobody reads it any more is no failure.
pub fn ended(written: io::Result<()>) -> Result<ExitCode> {
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
    let files = rules.files;
    notes::say(&format!("{files} files: {used} correlations and {detections} detections used, {rejected} not"));
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
            notes::say(&error.to_string());
            Vec::new()
        });
        for outcome in outcomes {
            if outcome.faults.is_empty() {
                passed += 1;
                continue;
            }
            failed += 1;
            println!("{}", ringtap_output::printable(&format!("{}: {}: FAILED", path.display(), outcome.name)));
            outcome.faults.iter().for_each(|fault| println!("  {}", ringtap_output::printable(fault)));
        }
    }
    let cases = |count: usize| if count == 1 { "1 case".to_owned() } else { format!("{count} cases") };
    println!("{} passed, {failed} failed", cases(passed));
    match failed {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(Error::failed("test", "rules", format!("{} failed", cases(failed)))),
    }
}

impl Args {
    /// What is asked for, and whether that is only a check of rules.
    ///
    /// # Errors
    /// The configuration can't be read, or `[kafka]` in it makes no sense.
    fn options(self) -> Result<(Options, bool)> {
        let config = self.config.as_deref();
        let inputs = match self.kafka {
            Some(brokers) => {
                let security = ringtap_run::kafka::security(config)?;
                Inputs::Kafka { brokers, topics: self.kafka_topic, security }
            }
            None if self.listen.is_empty() && self.sensors.is_empty() => Inputs::Read(self.read),
            None => Inputs::Listen { lines: self.listen, sensors: self.sensors },
        };
        let outputs = self.outputs.lines(config)?;
        let options = Options {
            rules: self.rules.unwrap_or_default(),
            inputs,
            format: self.format,
            store: self.store,
            disorder: self.disorder,
            silence: self.silence,
            gap_wait: self.gap_wait,
            memory: self.memory,
            log_size: self.log_size,
            retention: Retention {
                age_ns: self.keep.map(|keep| i64::try_from(keep.as_nanos()).unwrap_or(i64::MAX)),
                bytes: self.keep_size,
            },
            places: self.service.places.into(),
            config: self.config,
            outputs,
            user: self.service.user,
            keeps_privileges: self.service.no_sandbox,
            duration: self.service.duration,
            stats: self.stats,
            progress: self.stats.is_none() && io::stderr().is_terminal(),
            explain: self.explain,
        };
        Ok((options, self.check_rules))
    }
}

//! A benchmark under way: testbeds, receivers, the growing book, progress.
//!
//! Owns what all studies share: making a run, keeping its sample on disk at once, telling how far it is. Which runs are
//! made is in `study`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ringtap::calibrate::{Calibration, Wishes};
use ringtap::clock;
use ringtap::{Error, Result};
use ringtap_testbed::Topology;
use ringtap_testbed::peer::PeerKind;

use crate::book::{Book, Environment, FORMAT, Finding, Missing, Sample};
use crate::catalogue::{self, Kind, Plans, Receiver};
use crate::definition::Definitions;
use crate::resume::THE_REST;
use crate::run::{Benches, Request};
use crate::scale::Scale;
use crate::study::Study;

/// Share of a trial for which the hypervisor held the core, from which on a failure is put down to it, percent.
const DISTURBED_PERCENT: f64 = 1.0;
/// The same in findings.
pub(crate) const DISTURBED: &str = "a trial that fails with 1 % of steal or more is repeated, ten times at most";
/// The tightest bound of the catalogue.
const TIGHTEST: std::time::Duration = std::time::Duration::from_micros(250);

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Points of the studies.
    pub definitions: Definitions,
    /// Size.
    pub scale: Scale,
    /// Studies, in order.
    pub studies: Vec<Study>,
    /// Receivers by name; empty: all.
    pub receivers: Vec<String>,
    /// Folder of the results.
    pub out: PathBuf,
    /// What becomes of what the folder's `bench.json` has.
    pub beside: Beside,
    /// The command line, for the record.
    pub command: String,
    /// Packets of the soak, and their rate.
    pub soak: Option<(u64, f64)>,
}

/// What becomes of earlier results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// They are replaced.
    Nothing,
    /// What is measured is added to them.
    Added,
    /// They are of the same command, which was cut off: its whole studies are kept, the others are made.
    Resumed,
}

/// A benchmark under way.
pub struct Bench<'t> {
    pub(crate) definitions: Rc<Definitions>,
    pub(crate) scale: Scale,
    /// Receivers asked for by name; empty: all.
    wanted: Vec<String>,
    pub(crate) receivers: Vec<Receiver>,
    pub(crate) benches: Rc<Benches>,
    book: Book,
    out: PathBuf,
    stop: Arc<AtomicBool>,
    tell: &'t mut dyn FnMut(&Progress),
    began: Instant,
    planned_seconds: f64,
    done_seconds: f64,
}

/// How far it is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// What has just been done or begins, one line.
    pub line: String,
    /// Share done (0–1), by planned time.
    pub share: f64,
    /// Estimate of the time left, seconds; `None` at the beginning.
    pub left_seconds: Option<f64>,
}

impl<'t> Bench<'t> {
    /// Builds the testbeds, calibrates, looks for the peers. When `stop` is set, what is under way is the last run.
    ///
    /// # Errors
    /// No testbed can be built here, no receiver of that name, or the folder can't be written.
    pub fn new(wanted: &Wanted, stop: Arc<AtomicBool>, tell: &'t mut dyn FnMut(&Progress)) -> Result<Self> {
        // Before anything that takes its time.
        let begun = begun(wanted)?;
        fs::create_dir_all(&wanted.out)
            .map_err(|error| Error::os("create", wanted.out.display().to_string(), &error))?;
        let mut say = |line: &str| tell(&Progress { line: line.to_owned(), share: 0.0, left_seconds: None });
        say("building two testbeds");
        let benches = Benches::new()?;
        let config = benches.of(Topology::Nic).config().clone();
        let calibration = calibrate(config.receiver_core, wanted.scale.calibrations, &mut say)?;
        let plan = |micros, peak_pps| {
            let max_latency = std::time::Duration::from_micros(micros);
            calibration.plan(&Wishes { max_latency, peak_pps, ..Wishes::default() })
        };
        let usual_peak = Wishes::default().peak_pps;
        let plans = Plans {
            tight: plan(250, usual_peak)?,
            wide: plan(1000, usual_peak)?,
            two_ms: plan(2000, usual_peak)?,
            three_ms: plan(3000, usual_peak)?,
            late: plan(10_000, usual_peak)?,
            eighty_ms: plan(80_000, usual_peak)?,
            latest: plan(100_000, usual_peak)?,
            calm: plan(1000, catalogue::CALM_PPS)?,
            slow: plan(1000, catalogue::SLOW_PPS)?,
        };
        let (mut book, before) = match begun {
            Some(book) => (book.clone(), Some(book.environment)),
            None => (Book { format: FORMAT, ..Book::default() }, None),
        };
        let receivers = chosen(catalogue::all(&plans), wanted)?;
        let (receivers, peers) = present(receivers, &mut book.missing);
        book.environment = Environment {
            command: wanted.command.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: clock::realtime_ns() / 1_000_000_000,
            host: calibration.host.clone(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            receiver_core: config.receiver_core,
            generator_core: config.generator_core,
            meter: meter_name(&calibration),
            virtual_machine: calibration.virtual_machine,
            peers,
            plans: plans.sums(),
            doubts: doubts(&calibration, plans.tight.period_ns > 0),
        };
        if let Some(before) = before {
            book.missing.retain(|missing| missing.what != THE_REST);
            book.environment.joins(before, wanted.beside == Beside::Resumed, &wanted.out)?;
        }
        if wanted.beside != Beside::Resumed {
            book.begin();
        }
        let mut this = Self {
            definitions: Rc::new(wanted.definitions.clone()),
            scale: wanted.scale.clone(),
            wanted: wanted.receivers.clone(),
            receivers,
            benches: Rc::new(benches),
            book,
            out: wanted.out.clone(),
            stop,
            tell,
            began: Instant::now(),
            planned_seconds: 0.0,
            done_seconds: 0.0,
        };
        let to_make = wanted.studies.iter().filter(|study| !this.book.has(study.name()));
        this.planned_seconds = to_make.map(|study| study.seconds(&this)).sum();
        if let Some((count, pps)) = wanted.soak {
            this.planned_seconds += count as f64 / pps;
        }
        this.save()?;
        Ok(this)
    }

    /// Makes the runs of a study, unless a benchmark that goes on has them. `false` when it failed: that is noted, and the others can
    /// be made.
    ///
    /// # Errors
    /// A result can't be written.
    pub fn make(&mut self, study: Study) -> Result<bool> {
        let name = study.name();
        if self.book.has(name) {
            self.say(format!("{name}: its runs are there"));
            return Ok(true);
        }
        let from = self.book.extent();
        let made = study.run(self);
        if self.is_stopped() {
            return Ok(true);
        }
        match &made {
            Ok(()) => self.book.end(name, from),
            Err(error) => {
                self.say(format!("{name}: {error}"));
                self.miss(format!("{THE_REST} of {name}"), error.to_string());
            }
        }
        self.save()?;
        Ok(made.is_ok())
    }

    /// Makes a run, keeps its sample and says what came of it. `None` when the receiver could not be run: that is noted
    /// once and the benchmark goes on.
    ///
    /// # Errors
    /// The result can't be written.
    pub(crate) fn run(&mut self, request: &Request<'_>) -> Result<Option<Sample>> {
        self.done_seconds += cost_seconds(request.count as f64 / request.pps);
        let who = format!("{} ({})", request.receiver.name, topology_name(request.topology));
        if let Err(why) = request.receiver.suits(request.topology) {
            self.miss(who, why.to_owned());
            return Ok(None);
        }
        let benches = Rc::clone(&self.benches);
        self.attempt(format!("{who}, {}", request.study), || benches.run(request))
    }

    /// As [`Bench::run`] for a study of whole programs: `measure` makes the sample, on a testbed of its own, in about
    /// `seconds` of traffic.
    ///
    /// # Errors
    /// The result can't be written.
    pub(crate) fn measure(
        &mut self,
        study: &str,
        receiver: &str,
        topology: Topology,
        seconds: f64,
        measure: impl FnOnce() -> Result<Sample>,
    ) -> Result<Option<Sample>> {
        self.done_seconds += cost_seconds(seconds);
        self.attempt(format!("{receiver} ({}), {study}", topology_name(topology)), measure)
    }

    /// Keeps a sample that is no run.
    ///
    /// # Errors
    /// The result can't be written.
    pub(crate) fn keep(&mut self, sample: Sample) -> Result<()> {
        self.book.samples.push(sample);
        self.save()
    }

    /// Whether a receiver of a study of whole programs is to be measured.
    pub(crate) fn wants(&self, receiver: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|name| name == receiver)
    }

    /// Keeps the sample, or notes `what` is missing; what was missing before in this study is not tried again.
    fn attempt(&mut self, what: String, make: impl FnOnce() -> Result<Sample>) -> Result<Option<Sample>> {
        if self.is_stopped() || self.book.missing.iter().any(|missing| missing.what == what) {
            return Ok(None);
        }
        match make() {
            Ok(sample) => {
                self.say(line(&sample));
                self.book.samples.push(sample.clone());
                self.save()?;
                Ok(Some(sample))
            }
            // A signal from the terminal goes to the peers, too.
            Err(_) if self.is_stopped() => Ok(None),
            Err(error) => {
                self.say(format!("{what}: {error}"));
                self.miss(what, error.to_string());
                self.save()?;
                Ok(None)
            }
        }
    }

    /// As [`Bench::run`] for the trial of a search: one that `fails` while the hypervisor had the receiver's core tells nothing of
    /// the receiver, and is repeated.
    ///
    /// # Errors
    /// As [`Bench::run`].
    pub(crate) fn run_undisturbed(
        &mut self,
        request: &Request<'_>,
        fails: impl Fn(&Sample) -> bool,
    ) -> Result<Option<Sample>> {
        const REPEATS: u32 = 10;
        let mut sample = self.run(request)?;
        for _ in 0..REPEATS {
            let is_disturbed =
                |sample: &Sample| fails(sample) && sample.steal_percent.is_some_and(|steal| steal >= DISTURBED_PERCENT);
            if !sample.as_ref().is_some_and(is_disturbed) {
                break;
            }
            sample = self.run(request)?;
        }
        Ok(sample)
    }

    /// As [`Bench::run`] for core use while nothing is sent.
    ///
    /// # Errors
    /// The receiver can't be started, or the result can't be written.
    pub(crate) fn idle(&mut self, receiver: Option<&Receiver>, round: u32, seconds: f64) -> Result<()> {
        if self.is_stopped() {
            return Ok(());
        }
        let sample = self.benches.idle(receiver, round, seconds)?;
        self.done_seconds += cost_seconds(seconds);
        self.say(line(&sample));
        self.book.samples.push(sample);
        self.save()
    }

    /// Keeps what a search found.
    ///
    /// # Errors
    /// The result can't be written.
    pub(crate) fn find(&mut self, finding: Finding) -> Result<()> {
        let at_least = if finding.at_least { "at least " } else { "" };
        self.say(format!(
            "{} {} {}: {at_least}{:.0}",
            finding.receiver,
            topology_name(finding.topology),
            finding.quantity,
            finding.value
        ));
        self.book.findings.push(finding);
        self.save()
    }

    /// Notes what could not be had.
    pub(crate) fn miss(&mut self, what: String, why: String) {
        let missing = Missing { what, why };
        if !self.book.missing.contains(&missing) {
            self.book.missing.push(missing);
        }
    }

    pub(crate) fn is_stopped(&mut self) -> bool {
        let stopped = self.stop.load(Ordering::Relaxed);
        if stopped {
            self.miss(THE_REST.to_owned(), "stopped by a signal".to_owned());
        }
        stopped
    }

    pub(crate) fn say(&mut self, line: String) {
        let share = if self.planned_seconds > 0.0 { (self.done_seconds / self.planned_seconds).min(1.0) } else { 0.0 };
        let elapsed = self.began.elapsed().as_secs_f64();
        let left_seconds = (share > 0.01).then(|| elapsed / share - elapsed);
        (self.tell)(&Progress { line, share, left_seconds });
    }

    /// What has been gathered.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Writes `bench.json`, by way of a file beside it, so that an abort leaves the last complete one.
    fn save(&self) -> Result<()> {
        let text = serde_json::to_vec(&self.book).map_err(|error| Error::failed("write", "bench.json", error))?;
        write(&self.out.join("bench.json"), &text)
    }

    /// Fits the models and writes the last `bench.json`, the report and the tables.
    ///
    /// # Errors
    /// A file can't be written.
    pub fn finish(mut self) -> Result<Book> {
        self.book.fits = crate::cost_model::fit(&self.book);
        self.save()?;
        write_reports(&self.book, &self.out)?;
        Ok(self.book)
    }
}

/// Measures the host until it is calm enough for a timer at the tightest bound, `attempts` times at most: a plan made while the
/// hypervisor had the core says "interrupts only", and all that is run by it then is about that moment.
fn calibrate(core: usize, attempts: u32, say: &mut dyn FnMut(&str)) -> Result<Calibration> {
    let mut calibration = Calibration::measure_and_store(core, say)?;
    for _ in 1..attempts {
        let wishes = Wishes { max_latency: TIGHTEST, ..Wishes::default() };
        if calibration.plan(&wishes)?.period_ns > 0 {
            break;
        }
        say("this host is too restless for a timer right now: measuring again");
        std::thread::sleep(std::time::Duration::from_secs(5));
        calibration = Calibration::measure_and_store(core, say)?;
    }
    Ok(calibration)
}

/// Writes `report.html` and `bench.md` of a book.
///
/// # Errors
/// A file can't be written.
pub fn write_reports(book: &Book, out: &Path) -> Result<()> {
    write(&out.join("report.html"), crate::report::html(book).as_bytes())?;
    write(&out.join("bench.md"), crate::report::markdown(book).as_bytes())
}

/// Reads a folder's `bench.json`; where an older record has lines of samples instead, these.
///
/// # Errors
/// It is not there, or not of this program's format.
pub fn load(folder: &Path) -> Result<Book> {
    let path = folder.join("bench.json");
    if !path.exists()
        && let Some(book) = crate::record::of_lines(folder)?
    {
        return Ok(book);
    }
    let object = path.display().to_string();
    let text = fs::read(&path).map_err(|error| {
        Error::os("read", object.clone(), &error).way_out("make one with `ringtap bench --out DIR`")
    })?;
    let book: Book = serde_json::from_slice(&text).map_err(|error| {
        Error::failed("read", object.clone(), error).way_out("make a new one with `ringtap bench --out DIR`")
    })?;
    if book.format != FORMAT {
        let cause = format!("its format is {}, this program's is {FORMAT}", book.format);
        return Err(Error::failed("read", object, cause).way_out("make a new one with `ringtap bench --out DIR`"));
    }
    Ok(book)
}

/// The book that is gone on with.
fn begun(wanted: &Wanted) -> Result<Option<Book>> {
    match wanted.beside {
        Beside::Nothing => Ok(None),
        Beside::Added => load_to_add(&wanted.out).map(Some),
        Beside::Resumed => {
            let mut book = load(&wanted.out)?;
            book.resume(&wanted.command, &wanted.out)?;
            Ok(Some(book))
        }
    }
}

fn load_to_add(folder: &Path) -> Result<Book> {
    load(folder)
        .map_err(|error| error.way_out("leave --add out to begin a new record there, or name a folder with one"))
}

fn write(path: &Path, text: &[u8]) -> Result<()> {
    let beside = path.with_extension("new");
    fs::write(&beside, text)
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|error| Error::os("write", path.display().to_string(), &error))
}

/// A run's time with what it takes to set up and to settle.
pub(crate) fn cost_seconds(traffic: f64) -> f64 {
    const SET_UP: f64 = 1.2;
    traffic + SET_UP
}

/// Those of the catalogue that are asked for. Names in the definitions and on the command line must exist.
fn chosen(all: Vec<Receiver>, wanted: &Wanted) -> Result<Vec<Receiver>> {
    let of_costs = wanted.definitions.cost_receivers();
    let mut programs = wanted.definitions.program_receivers();
    programs.extend(of_costs.iter().map(String::as_str));
    let known: Vec<&str> = all.iter().map(|receiver| receiver.name.as_str()).collect();
    let unknown = |name: &str, choice: &[&str]| {
        Error::usage("measure", name, "there is no such receiver")
            .way_out(format!("choose among: {}", choice.join("; ")))
    };
    if let Some(name) = wanted.definitions.capture_receivers().find(|name| !known.contains(name)) {
        return Err(unknown(name, &known));
    }
    let names = &wanted.receivers;
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str()) && !programs.contains(&name.as_str()))
    {
        return Err(unknown(name, &[known, programs].concat()));
    }
    Ok(all.into_iter().filter(|receiver| names.is_empty() || names.contains(&receiver.name)).collect())
}

/// Those that are installed, with their versions; the others are missing.
fn present(receivers: Vec<Receiver>, missing: &mut Vec<Missing>) -> (Vec<Receiver>, BTreeMap<String, String>) {
    let mut versions = BTreeMap::new();
    let here = receivers.into_iter().filter(|receiver| match &receiver.kind {
        Kind::Ringtap { .. } => true,
        Kind::Peer(kind) => match PeerKind::version(*kind) {
            Ok(version) => {
                versions.insert(receiver.name.clone(), version);
                true
            }
            Err(error) => {
                let absent = Missing { what: receiver.name.clone(), why: error.to_string() };
                if !missing.contains(&absent) {
                    missing.push(absent);
                }
                false
            }
        },
    });
    let here = here.collect();
    (here, versions)
}

fn meter_name(calibration: &Calibration) -> String {
    serde_json::to_value(calibration.meter)
        .ok()
        .and_then(|name| Some(name.as_str()?.replace('_', " ")))
        .unwrap_or_default()
}

fn doubts(calibration: &Calibration, has_timer: bool) -> Vec<String> {
    let mut doubts = vec![
        "The wire is a veth pair: frames are copied into the ring by the kernel, and no NIC raises interrupts."
            .to_owned(),
        "Generator and receiver share the machine, its caches and its memory.".to_owned(),
    ];
    if !has_timer {
        doubts.push(
            "The host was too restless for a timer when it was calibrated: hybrid receivers wait for interrupts only."
                .to_owned(),
        );
    }
    if calibration.virtual_machine {
        doubts.push(
            "A virtual machine: the host may take a core for milliseconds, and a wake-up costs more than on bare metal."
                .to_owned(),
        );
    }
    doubts
}

pub(crate) fn topology_name(topology: Topology) -> &'static str {
    match topology {
        Topology::Nic => "nic",
        Topology::Host => "host",
    }
}

fn line(sample: &Sample) -> String {
    let delay = sample.arrival.as_ref().or(sample.delivery.as_ref());
    format!(
        "{:<8} {:<4} {:<30} {:>9.0} pps {:>4} B  lost {:>8}  core {:>6.2} %{}{}{}",
        sample.study,
        topology_name(sample.topology),
        sample.receiver,
        sample.offered_pps,
        sample.frame_bytes,
        sample.lost,
        sample.core_use_percent,
        delay.map_or_else(String::new, |delay| format!("  p99 {:>8.0} µs", delay.p99)),
        match sample.others_percent {
            Some(others) if others >= 1.0 => format!("  (others used {others:.0} %)"),
            _ => String::new(),
        },
        match sample.unaccounted {
            Some(0) | None => String::new(),
            Some(count) => format!("  UNACCOUNTED {count}"),
        }
    )
}

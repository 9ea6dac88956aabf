//! What is the most CPU time that one packet takes of a detector? A search: talks that are known to cost much, from samples, from the
//! corpora of the fuzz targets and from the rules' own contents are changed at random, and what costs much is changed further.
//!
//! ```text
//! cargo run --release -p ringtap-sensor --example worst -- [--seconds N] [--seed N] [--corpus FOLDER]… [--largest BYTES] [--only brotli] RULES…
//! ```
//!
//! The time is the thread's own (CLOCK_THREAD_CPUTIME_ID), the least of five runs of the same talk, so neither the scheduler nor a
//! cold cache is what is found. Packets have up to `--largest` bytes of payload: 1,460, as they are on most wires, unless told; a host
//! that merges what it receives hands over up to 65,000.

mod brotli;
mod talk;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap::clock::thread_cpu_ns;
use ringtap_detect::rules::{Classes, RuleSet, Variables};
use ringtap_detect::{Alert, Counters, Detector, Limits, LinkType, Program, Sink};
use ringtap_samples::frames::Random;
use talk::{Seeds, Talk};

/// Runs of a talk that is suspected; the least time of each packet counts.
const RUNS: usize = 5;
/// Talks that are changed further.
const KEPT: usize = 48;

struct Nobody;

impl Sink for Nobody {
    fn alert(&mut self, _alert: &Alert<'_>) {}
}

/// What is asked.
struct Arguments {
    seconds: u64,
    seed: u64,
    largest: usize,
    /// Talks of this kind alone.
    only_brotli: bool,
    corpora: Vec<PathBuf>,
    rules: Vec<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut found =
        Arguments { seconds: 60, seed: 1, largest: 1460, only_brotli: false, corpora: Vec::new(), rules: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("'{text}' is no number"));
        match word.as_str() {
            "--seconds" => found.seconds = number(value()?)?,
            "--seed" => found.seed = number(value()?)?.max(1),
            "--largest" => found.largest = number(value()?)?.clamp(1, 65_000) as usize,
            "--only" => match value()?.as_str() {
                "brotli" => found.only_brotli = true,
                other => return Err(format!("no kind of talks is called '{other}': there is brotli")),
            },
            "--corpus" => found.corpora.push(value()?.into()),
            _ if word.starts_with("--") => return Err(format!("no option is called {word}")),
            _ => found.rules.push(word.into()),
        }
    }
    if found.rules.is_empty() { Err("which rules? Name files or folders of them".to_owned()) } else { Ok(found) }
}

/// The files in a folder and below, or the file itself.
fn files(path: &Path) -> Vec<PathBuf> {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().flat_map(|entry| files(&entry.path())).collect(),
        Err(_) => vec![path.to_owned()],
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A detector that is warm, and the clock of its packets.
struct Meter {
    detector: Detector,
    now_ns: u64,
}

/// The packet of a talk that took most, and what the detector counted by the talk.
struct Cost {
    worst_ns: u64,
    packet: usize,
    counted: Counters,
}

impl Meter {
    fn run(&mut self, frames: &[Vec<u8>], times: &mut Vec<u64>) {
        times.clear();
        for frame in frames {
            self.now_ns += 1_000_000;
            let began = thread_cpu_ns();
            self.detector.packet(frame, LinkType::Ethernet, frame.len() as u32, self.now_ns, &mut Nobody);
            times.push(thread_cpu_ns() - began);
        }
        self.detector.finish(self.now_ns, &mut Nobody);
    }

    /// One run; more of them if it seems to take more than `suspected_ns`.
    fn cost(&mut self, frames: &[Vec<u8>], suspected_ns: u64) -> Cost {
        let (mut least, mut times) = (Vec::new(), Vec::new());
        let before = self.detector.counters();
        self.run(frames, &mut least);
        let counted = difference(&self.detector.counters(), &before);
        if least.iter().any(|&time| time > suspected_ns) {
            for _ in 1..RUNS {
                self.run(frames, &mut times);
                least.iter_mut().zip(&times).for_each(|(least, time)| *least = (*least).min(*time));
            }
        }
        let (packet, &worst_ns) = least.iter().enumerate().max_by_key(|(_, time)| **time).unwrap_or((0, &0));
        Cost { worst_ns, packet, counted }
    }
}

/// What says where the time went.
fn difference(after: &Counters, before: &Counters) -> Counters {
    Counters {
        chunks: after.chunks - before.chunks,
        side_chunks: after.side_chunks - before.side_chunks,
        budget_hits: after.budget_hits - before.budget_hits,
        expressions_given_up: after.expressions_given_up - before.expressions_given_up,
        most_steps: after.most_steps,
        ..Counters::default()
    }
}

fn main() -> Result<(), String> {
    let asked = arguments()?;
    let (mut set, mut text) = (RuleSet::default(), Vec::new());
    for path in asked
        .rules
        .iter()
        .flat_map(|path| files(path))
        .filter(|path| path.extension().is_some_and(|end| end == "rules"))
    {
        let rules = read(&path)?;
        set.add(&path.to_string_lossy(), &rules, &Variables::default(), &Classes::default());
        text.extend(rules);
    }
    let (program, _) = Program::new(set, &mut Vec::new())?;
    let program = Arc::new(program);
    println!("{} rules; packets of up to {} bytes; seed {}", program.size().rules, asked.largest, asked.seed);
    let corpus =
        asked.corpora.iter().flat_map(|path| files(path)).map(|path| read(&path)).collect::<Result<Vec<_>, _>>()?;
    let seeds = Seeds::new(&text, corpus, asked.largest);
    let limits = Limits { checksums: false, ..Limits::default() };
    let mut meter = Meter { detector: Detector::new(Arc::clone(&program), limits.clone()), now_ns: 1 << 60 };
    let mut random = Random::new(asked.seed);
    let mut known = seeds.known(&mut random);
    known.retain(|talk| !asked.only_brotli || talk.is_packed());
    let (began, mut tried) = (Instant::now(), 0u64);
    let mut kept: Vec<(u64, Talk)> = Vec::new();
    let mut worst_ns = 0;
    while began.elapsed() < Duration::from_secs(asked.seconds) {
        let talk = known.pop().unwrap_or_else(|| match kept.get(random.below(2 * KEPT)) {
            Some((_, talk)) => seeds.changed(talk, &mut random),
            None => seeds.fresh(&mut random),
        });
        if asked.only_brotli && !talk.is_packed() {
            continue;
        }
        let frames = talk.frames();
        let entry = if kept.len() < KEPT { 0 } else { kept[KEPT - 1].0 };
        let cost = meter.cost(&frames, entry.max(100_000));
        tried += 1;
        if cost.worst_ns <= entry {
            continue;
        }
        if cost.worst_ns > worst_ns {
            worst_ns = cost.worst_ns;
            let Counters { chunks, side_chunks, budget_hits, expressions_given_up, most_steps, .. } = cost.counted;
            println!(
                "{:4} s, {tried} talks: {:.0} us by packet {} of {}: {talk} (talk: {chunks} chunks, {side_chunks} beside, {budget_hits} \
                 rules without budget, {expressions_given_up} expressions given up, {most_steps} steps at most so far)",
                began.elapsed().as_secs(),
                worst_ns as f64 / 1e3,
                cost.packet + 1,
                frames.len(),
            );
        }
        let at = kept.partition_point(|(time, _)| *time >= cost.worst_ns);
        kept.insert(at, (cost.worst_ns, talk));
        kept.truncate(KEPT);
    }
    println!("worst of {tried} talks: {:.0} us of thread CPU time for one packet", worst_ns as f64 / 1e3);
    // Which rules a packet like that spends its steps on.
    if let Some((_, talk)) = kept.first() {
        let mut timed = Meter { detector: Detector::new(program, Limits { timed: true, ..limits }), now_ns: 1 << 60 };
        timed.run(&talk.frames(), &mut Vec::new());
        let mut rules: Vec<_> = timed.detector.program().rules().zip(timed.detector.profile()).collect();
        rules.sort_by_key(|(_, profile)| std::cmp::Reverse(profile.elapsed_ns));
        let all: u64 = rules.iter().map(|(_, profile)| profile.elapsed_ns).sum();
        println!("its rules, of {:.0} us in all of the talk:", all as f64 / 1e3);
        for (rule, profile) in rules.iter().take(10).filter(|(_, profile)| profile.checks > 0) {
            println!(
                "  sid {}: {} times, {} steps, {:.0} us",
                rule.meta.sid,
                profile.checks,
                profile.steps,
                profile.elapsed_ns as f64 / 1e3
            );
        }
    }
    Ok(())
}

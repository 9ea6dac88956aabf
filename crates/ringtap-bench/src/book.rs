//! What a benchmark leaves: environment, raw samples, findings, fits. The file `bench.json` is exactly this.
//!
//! Owns the shape of the data and nothing else: who measures is in `study`, what follows from the figures in `cost_model`,
//! how they look in `report`. Rates are packets per second, times microseconds or nanoseconds as the name says, core use
//! percent of one core.

use std::collections::BTreeMap;
use std::path::Path;

use ringtap::{Error, Result};
pub use ringtap_testbed::Topology;
use serde::{Deserialize, Serialize};

/// Changes when the meaning of a field does.
pub const FORMAT: u32 = 1;

/// One benchmark, complete.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Book {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Where and how it was made.
    pub environment: Environment,
    /// Every run, in the order they were made.
    pub samples: Vec<Sample>,
    /// What searches found.
    pub findings: Vec<Finding>,
    /// Models fitted to the samples, with their predictions.
    pub fits: Vec<Fit>,
    /// Studies and receivers that were asked for and could not be had, with the reason.
    pub missing: Vec<Missing>,
    /// How far the last command has come; `None` in records of before there was this.
    #[serde(default)]
    pub whole: Option<Whole>,
}

/// What a command found in the book, and its studies whose runs have all been made. What is between belongs to a study that was cut off or
/// failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whole {
    /// What was there before.
    pub before: Extent,
    /// In the order they were made.
    pub studies: Vec<Made>,
}

/// A study with all its runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Its name.
    pub name: String,
    /// What was in the book before it.
    pub from: Extent,
    /// What was in the book behind it.
    pub to: Extent,
}

/// How much is in a book.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Samples.
    pub samples: usize,
    /// Findings.
    pub findings: usize,
    /// What is missing.
    pub missing: usize,
}

/// The machine and the command.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Environment {
    /// The command line.
    pub command: String,
    /// Version of ringtap.
    pub version: String,
    /// Seconds since 1970 at the start.
    pub started_at: u64,
    /// Processor, kernel, CPU under test.
    pub host: String,
    /// Cores of the machine, and the two in use.
    pub cores: usize,
    /// The receiver's core.
    pub receiver_core: usize,
    /// The generator's core.
    pub generator_core: usize,
    /// What measured core use: unhalted cycles or idle time.
    pub meter: String,
    /// Whether a hypervisor is underneath.
    pub virtual_machine: bool,
    /// Versions of the peers, by name.
    pub peers: BTreeMap<String, String>,
    /// Lines of the plan for each latency bound, as `ringtap plan` prints them.
    pub plans: BTreeMap<String, Vec<String>>,
    /// What makes the figures doubtful.
    pub doubts: Vec<String>,
}

impl Environment {
    /// Continues the results of `before`, from the book in `folder`: all commands are kept, one that goes on only once, and the time of
    /// the first.
    ///
    /// # Errors
    /// They come from another machine, kernel or version, so that the figures can't stand in one table.
    pub(crate) fn joins(&mut self, before: Self, resumed: bool, folder: &Path) -> Result<()> {
        for (what, now, then) in [
            ("host", &self.host, &before.host),
            ("meter", &self.meter, &before.meter),
            ("version", &self.version, &before.version),
        ] {
            if now != then {
                let object = folder.join("bench.json").display().to_string();
                return Err(Error::failed("add to", object, format!("its {what} is {then:?}, here it is {now:?}"))
                    .way_out("give another folder, or leave --add and --resume out to replace it"));
            }
        }
        self.command = if resumed { before.command } else { format!("{}\n{}", before.command, self.command) };
        self.started_at = before.started_at;
        self.peers.extend(before.peers);
        Ok(())
    }
}

/// Key of [`Sample::measures`] in the study `polls`.
pub(crate) const POLLS_PER_SECOND: &str = "polls_per_second";

/// One run of one receiver under one traffic.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Sample {
    /// The study it belongs to: `rates`, `soaker`, `capacity`, `beyond`, `sizes`, `arrivals`, `load`, `ring`, `polls`, `storms`, `napi`, `soak`,
    /// `sensor`, `station`, `pcap`, `split`, `forward`, `forward search`, `staged`, `cost`.
    pub study: String,
    /// Name in the catalogue of receivers or in the definitions, such as `hybrid 1ms` or `tcpdump`.
    pub receiver: String,
    /// Topology.
    pub topology: Topology,
    /// Which repetition of the interleaved run, from 0.
    pub round: u32,
    /// Length of the frames without FCS, bytes.
    pub frame_bytes: usize,
    /// `constant`, `poisson`, `burst` or `ramp`.
    pub arrivals: String,
    /// What was asked of the generator, on average.
    pub offered_pps: f64,
    /// What it reached.
    pub sent_pps: f64,
    /// Packets sent.
    pub sent: u64,
    /// Packets the receiver got, without duplicates; by sequence numbers where [`Sample::numbered`].
    pub received: u64,
    /// `sent − received`.
    pub lost: u64,
    /// Whether received and lost are by sequence numbers (else by the receiver's own count of what it handled).
    pub numbered: bool,
    /// Runs of lost packets; `None` without sequence numbers.
    pub loss_bursts: Option<LossBursts>,
    /// Numbers that came twice.
    pub duplicates: u64,
    /// Packets behind a later one (RFC 4737).
    pub reordered: u64,
    /// What the receiver itself says.
    pub claims: Claims,
    /// Drops by cause as the testbed's ledger has them; `None` for a cause that can't be read.
    pub drops: BTreeMap<String, Option<u64>>,
    /// What no cause explains; always 0 for Ringtap or something is wrong. `None` for peers, which keep no ledger.
    pub unaccounted: Option<i64>,
    /// The receiver's core, all that ran on it but other programs; by the soaker in samples of the study `soaker`, by the exact meter in all others.
    pub core_use_percent: f64,
    /// What other programs used of that core meanwhile; `None`: unknown, and then in [`Sample::core_use_percent`] too.
    #[serde(default)]
    pub others_percent: Option<f64>,
    /// Taken from that core by the hypervisor meanwhile.
    pub steal_percent: Option<f64>,
    /// From transmit stamp to handler; `None` where it can't be seen from outside.
    pub delivery: Option<Delays>,
    /// From arrival stamp to handler (Ringtap only): what the latency bound is about.
    pub arrival: Option<Delays>,
    /// Between two looks at the ring in timer mode.
    pub poll_period: Option<Delays>,
    /// Packet buffers: rings and their frames, socket buffers.
    pub memory_bytes: Option<u64>,
    /// Slots of the receive ring.
    pub ring_slots: Option<u64>,
    /// Looks at the ring that found packets, in the whole run.
    pub polls: Option<u64>,
    /// Wake-ups by the timer, while the core was measured.
    pub timer_wakes: Option<u64>,
    /// Wake-ups by an interrupt, meanwhile.
    pub interrupt_wakes: Option<u64>,
    /// Changes between interrupt and timer, meanwhile.
    pub mode_switches: Option<u64>,
    /// Interrupts of the receiver's core, of every kind.
    pub core_interrupts: Option<u64>,
    /// Receiver core's unhalted cycles per packet received; `None` where the machine counts none.
    pub cycles_per_packet: Option<f64>,
    /// Receiver core's last-level cache misses per packet received; `None` where the machine counts none.
    pub cache_misses_per_packet: Option<f64>,
    /// Added event processing, nanoseconds a packet (\[1] §6, \[4] §8); 0 for none.
    pub load_ns: f64,
    /// NAPI pause set for this run, nanoseconds; `None`: the receiver's own.
    pub napi_pause_ns: Option<u64>,
    /// What ran beside it: the name of a storm.
    pub beside: Option<String>,
    /// Seconds the traffic lasted.
    pub seconds: f64,
    /// Of studies of whole programs: the set of rules, the kind of messages, the client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workload: String,
    /// What only one study measures, by name with its unit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measures: BTreeMap<String, f64>,
    /// What a program reported at its end, as it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<serde_json::Value>,
}

/// How packets were lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossBursts {
    /// How many runs of consecutive losses.
    pub count: u64,
    /// The longest.
    pub longest: u64,
    /// Runs by length: (length, runs), ascending, at most 64 entries, the last with all longer ones.
    pub by_length: Vec<(u64, u64)>,
    /// Where the first 256 of them lie: (number of the first packet lost, length).
    #[serde(default)]
    pub places: Vec<(u64, u64)>,
}

/// A receiver's own words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Packets it says it received.
    pub received: Option<u64>,
    /// Packets it says were dropped.
    pub dropped: Option<u64>,
}

/// A distribution of delays, microseconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Delays {
    /// How many.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 98th percentile.
    pub p98: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The worst.
    pub max: f64,
    /// Non-empty buckets: (upper edge in µs, count); none where only the quantiles are known.
    #[serde(default)]
    pub histogram: Vec<(f64, u64)>,
}

/// What a search found for one receiver: the median of its repetitions, and each of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finding {
    /// The study.
    pub study: String,
    /// The receiver.
    pub receiver: String,
    /// The topology.
    pub topology: Topology,
    /// Which quantity: `no_loss_capacity_pps`, `held_pps (v2c)`, `greatest_load_percent`, `least_ring_slots`, `least_ring_bytes`, `cliff_pps`, …
    pub quantity: String,
    /// The median.
    pub value: f64,
    /// Each repetition.
    pub values: Vec<f64>,
    /// The search ended at the generator's limit: the true value is at least this.
    pub at_least: bool,
    /// How it was found and what limits it, one sentence.
    pub note: String,
}

/// A model with its parameters and what it predicts beside what was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Fit {
    /// `core_use`, `c_io`, `greatest_load`, `capacity`, `ring`, `cliff`, `saturation`, `packet_cost`, `work_loop`.
    pub model: String,
    /// The receiver it is of.
    pub receiver: String,
    /// The topology.
    pub topology: Topology,
    /// The formula, in the words of the sources.
    pub formula: String,
    /// Parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Share of the variance explained; `None` where nothing was regressed.
    pub r_squared: Option<f64>,
    /// Predicted and measured, point by point.
    pub points: Vec<FitPoint>,
}

/// A fitted number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Parameter {
    /// Name as in the sources, such as `t_POH`.
    pub name: String,
    /// Unit, such as `ns`.
    pub unit: String,
    /// Best estimate.
    pub value: f64,
    /// 95 % confidence interval.
    pub low: f64,
    /// 95 % confidence interval.
    pub high: f64,
}

/// One point of a comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FitPoint {
    /// What it is, such as `148000 pps, hybrid 1ms`.
    pub label: String,
    /// Abscissa of a plot, such as the rate.
    pub x: f64,
    /// By the model.
    pub predicted: f64,
    /// Median of the measurements.
    pub measured: f64,
    /// Left out when the model was fitted.
    pub held_back: bool,
}

/// What was asked for and is not here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Study or receiver.
    pub what: String,
    /// Why, and how to get it.
    pub why: String,
}

//! What is measured, as data: the points of every study, from `definitions.toml` or a file of the same shape.
//!
//! Owns the shape and its checks. How a point is run is in `study` and `programs`, which receivers there are in `catalogue`.

use std::path::{Path, PathBuf};

use ringtap::{Backend, Error, Result};
use ringtap_testbed::Topology;
use serde::Deserialize;

use crate::scale::Scale;

/// The usual definitions.
const USUAL: &str = include_str!("../definitions.toml");

/// The points of all studies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Definitions {
    /// How much is measured.
    pub scale: Scales,
    /// Of the study `rates`.
    pub rates: Rates,
    /// Of the study `idle`.
    pub idle: Receivers,
    /// Of the study `sizes`.
    pub sizes: Receivers,
    /// Of the study `arrivals`.
    pub arrivals: Receivers,
    /// Of the study `load`.
    pub load: Receivers,
    /// Of the study `ring`.
    pub ring: Receivers,
    /// Of the study `pause`.
    pub pause: Pause,
    /// Of the study `polls`.
    pub polls: Polls,
    /// Of the study `napi`.
    pub napi: Napi,
    /// Of the study `storms`.
    pub storms: Storms,
    /// Of the study `cost`.
    pub cost: CostPoints,
    /// Where programs are.
    #[serde(default)]
    pub programs: Programs,
    /// Of the study `sensor`.
    #[serde(default)]
    pub sensor: Vec<SensorPoints>,
    /// Of the study `station`.
    #[serde(default)]
    pub station: Vec<StationPoints>,
    /// Of the study `pcap`.
    #[serde(default)]
    pub pcap: Vec<PcapPoints>,
    /// Of the study `split`.
    #[serde(default)]
    pub split: Vec<SplitPoints>,
    /// Of the study `forward`.
    #[serde(default)]
    pub forward: Vec<ForwardPoints>,
    /// Of the study `staged`.
    #[serde(default)]
    pub staged: Vec<StagedPoints>,
}

/// Three sizes of the same benchmark.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scales {
    /// For CI.
    pub quick: Scale,
    /// For a first answer.
    pub usual: Scale,
    /// For the record.
    pub full: Scale,
}

/// A study that has only its receivers to say.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receivers {
    /// Names in the catalogue.
    pub receivers: Vec<String>,
}

/// Core use, latency and loss against the rate.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rates {
    /// Those that are measured at every rate.
    pub receivers: Vec<String>,
    /// Rates of all others, packets per second.
    pub key_rates: Vec<f64>,
    /// Least rate in topology host, packets per second.
    pub least_host_pps: f64,
}

/// Against the kernel's NAPI pause.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Pause {
    /// Names in the catalogue.
    pub receivers: Vec<String>,
    /// Pauses, microseconds.
    pub pauses_us: Vec<u64>,
    /// Packets per second.
    pub rates: Vec<f64>,
}

/// Against the poll rate.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Polls {
    /// Names in the catalogue: engines.
    pub receivers: Vec<String>,
    /// Packets per second.
    pub pps: f64,
    /// Polls per second.
    pub per_second: Vec<u32>,
}

/// Against the budget of the kernel's receive softirq.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Napi {
    /// Names in the catalogue.
    pub receivers: Vec<String>,
    /// Packets per second.
    pub rates: Vec<f64>,
}

/// Beside storms of other work.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storms {
    /// Names in the catalogue.
    pub receivers: Vec<String>,
    /// Event processing beside it, share of the core (0–1).
    pub load: f64,
}

/// What a packet, a wake-up and an empty look cost.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CostPoints {
    /// What is done with each packet.
    pub uses: Vec<Use>,
    /// By what packets come and go.
    pub backends: Vec<CostBackend>,
    /// Where.
    pub topologies: Vec<Topology>,
    /// Offered while work is added until that is too much, packets per second.
    pub saturation_pps: f64,
    /// Work added, as shares of the cycles from one packet to the next.
    pub saturation_shares: Vec<f64>,
    /// Below saturation, packets per second.
    pub rates: Vec<f64>,
    /// Work added to each packet there, cycles of the time stamp counter.
    pub tasks_cycles: Vec<f64>,
    /// Periods of the timer, microseconds; each point is measured by interrupt, too.
    pub periods_us: Vec<f64>,
    /// Length of a run.
    pub seconds: f64,
}

/// What is done with each packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// It is received.
    Capture,
    /// It is received and sent by another interface.
    Forward,
}

impl Use {
    /// As in the definitions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capture => "capture",
            Self::Forward => "forward",
        }
    }
}

/// Back ends that a forwarder has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CostBackend {
    /// AF_XDP.
    Xdp,
    /// A packet socket's ring.
    Packet,
    /// recvmmsg(2).
    Socket,
}

impl CostBackend {
    /// The receiver's.
    pub fn backend(self) -> Backend {
        match self {
            Self::Xdp => Backend::Xdp,
            Self::Packet => Backend::Packet,
            Self::Socket => Backend::Socket,
        }
    }
}

/// Where programs are that are not on PATH.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Programs {
    /// `ringtap` itself; `None`: this program.
    pub ringtap: Option<PathBuf>,
    /// Ringtap's libpcap; `None`: the one beside this program.
    pub libpcap: Option<PathBuf>,
    /// Telegraf.
    pub telegraf: Option<PathBuf>,
    /// MIB files for Telegraf.
    pub mibs: Option<PathBuf>,
    /// A package of syslog-ng unpacked here.
    pub syslog_ng: Option<PathBuf>,
}

/// The sensor beside its peers, under one set of rules.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SensorPoints {
    /// Name of the set of rules in tables.
    pub workload: String,
    /// `ringtap`, `ringtap-packet`, `suricata-af-packet`, `suricata-af-xdp`.
    pub receivers: Vec<String>,
    /// Where.
    pub topologies: Vec<Topology>,
    /// Packets per second.
    pub rates: Vec<f64>,
    /// Length of a run.
    pub seconds: f64,
    /// Rules that are added to the own ones, as far as the sensor takes them.
    pub rules_folder: Option<PathBuf>,
    /// Expressions for the flood's port.
    #[serde(default)]
    pub costly: u32,
    /// The rules of the attacked port go first, and no others are loaded.
    #[serde(default)]
    pub priority: bool,
    /// Further options of `ringtap sensor`.
    #[serde(default)]
    pub options: Vec<String>,
}

/// The station beside its peers, under one kind of messages.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StationPoints {
    /// `v2c`, `v3` or `syslog`.
    pub workload: String,
    /// `ringtap-xdp`, `ringtap-socket`, `snmptrapd-file`, `snmptrapd-handler`, `telegraf`, `rsyslog`, `syslog-ng`.
    pub receivers: Vec<String>,
    /// Length of a run.
    pub seconds: f64,
    /// Where a search begins, messages per second.
    pub search_from: f64,
    /// Greatest factor between the rate that was held and the lowest that was not.
    pub resolution: f64,
    /// Messages per second; none: the rate that is held is searched for.
    #[serde(default)]
    pub rates: Vec<f64>,
    /// Messages of a run, instead of as many as the seconds have.
    pub count: Option<u64>,
}

/// A client on both libpcaps.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PcapPoints {
    /// The client: `tcpdump` or `suricata`.
    pub workload: String,
    /// `libpcap system`, or `libpcap` and a back end of ours with its options.
    pub receivers: Vec<String>,
    /// Where.
    pub topologies: Vec<Topology>,
    /// Packets per second.
    pub rates: Vec<f64>,
    /// Length of a run.
    pub seconds: f64,
}

/// The splitter beside tc mirred, each packet to one of two outputs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SplitPoints {
    /// Name in tables.
    pub workload: String,
    /// `ringtap-xdp`, `ringtap-packet`, `tc-mirred`, `tc-mirred-paced`.
    pub receivers: Vec<String>,
    /// Packets per second.
    pub rates: Vec<f64>,
    /// Length of a run.
    pub seconds: f64,
    /// Packets of a run, instead of as many as the seconds have, and in one round alone; not with `--quick`.
    pub count: Option<u64>,
    /// Further options of `ringtap split`.
    #[serde(default)]
    pub options: Vec<String>,
}

/// The forwarder beside testpmd and the kernel's own.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ForwardPoints {
    /// Name in tables.
    pub workload: String,
    /// `ringtap-xdp`, `ringtap-xdp interrupt`, `ringtap-xdp timer`, `ringtap-packet`, `testpmd-io af_packet`, `testpmd-io af_xdp`,
    /// `testpmd-macswap af_packet`, `testpmd-macswap af_xdp`, `bridge`, `tc-mirred`, `xdp-redirect`.
    pub receivers: Vec<String>,
    /// Where.
    pub topology: Topology,
    /// Packets come by both interfaces, each at the rate; else by the first.
    #[serde(default)]
    pub both: bool,
    /// Rates at which core use and delays are taken, packets per second.
    pub rates: Vec<f64>,
    /// Frame lengths without frame check sequence, bytes.
    pub sizes: Vec<usize>,
    /// Length of a run.
    pub seconds: f64,
    /// Where the search for the rate without loss begins, packets per second.
    pub search_from: f64,
    /// Greatest factor between the rate without loss and the lowest with it.
    pub resolution: f64,
}

/// Attacks of two stages, one to each of two sensors behind a splitter, under a flood.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StagedPoints {
    /// Name in tables.
    pub workload: String,
    /// `ringtap-correlate`, `suricata-syslog`.
    pub receivers: Vec<String>,
    /// Packets per second to each flooded sensor; 0 for none.
    pub floods: Vec<f64>,
    /// Both sensors are flooded, not the first alone.
    #[serde(default)]
    pub both: bool,
    /// Between the two packets of a pair, µs.
    pub gaps_us: Vec<u64>,
    /// Time windows in which a pair is to be found, µs, ascending.
    pub windows_us: Vec<u64>,
    /// Pairs of each gap.
    pub pairs: u32,
    /// Over which they are sent.
    pub seconds: f64,
    /// Further options of `ringtap split` and `ringtap sensor`.
    #[serde(default)]
    pub options: Vec<String>,
}

impl Definitions {
    /// From `file`, or the usual ones.
    ///
    /// # Errors
    /// The file can't be read, or is not of this shape.
    pub fn read(file: Option<&Path>) -> Result<Self> {
        let Some(file) = file else {
            return Self::parse(USUAL).map_err(|cause| Error::failed("read", "the usual definitions", cause));
        };
        let object = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|error| Error::os("read", object.clone(), &error))?;
        Self::parse(&text).map_err(|cause| {
            Error::failed("read", object, cause).way_out("begin with a copy of crates/ringtap-bench/definitions.toml")
        })
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let this: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let scales = [&this.scale.quick, &this.scale.usual, &this.scale.full];
        let points = this.sensor.iter().map(|points| (&points.rates, points.seconds));
        let points = points.chain(this.station.iter().map(|points| (&points.rates, points.seconds)));
        let points = points.chain(this.pcap.iter().map(|points| (&points.rates, points.seconds)));
        let points = points.chain(this.split.iter().map(|points| (&points.rates, points.seconds)));
        let points = points.chain(this.forward.iter().map(|points| (&points.rates, points.seconds)));
        let mut points = points.chain(scales.iter().map(|scale| (&scale.rates, scale.seconds)));
        let sound = |value: f64| value.is_finite() && value > 0.0;
        if !points.all(|(rates, seconds)| rates.iter().copied().all(sound) && sound(seconds)) {
            return Err("a rate or a length of a run is not above 0".to_owned());
        }
        let searches = this.station.iter().map(|points| (points.search_from, points.resolution));
        let mut searches = searches.chain(this.forward.iter().map(|points| (points.search_from, points.resolution)));
        if searches.any(|(from, resolution)| !sound(from) || resolution.is_nan() || resolution <= 1.0) {
            return Err(
                "a search of `station` or `forward` needs search-from above 0 and resolution above 1".to_owned()
            );
        }
        let CostPoints { saturation_shares, tasks_cycles, periods_us, rates, .. } = &this.cost;
        let cost_is_sound = [saturation_shares, periods_us, rates].iter().all(|list| list.iter().copied().all(sound))
            && tasks_cycles.iter().all(|task| *task == 0.0 || sound(*task))
            && sound(this.cost.saturation_pps)
            && sound(this.cost.seconds)
            && !this.cost.topologies.is_empty();
        if !cost_is_sound {
            return Err("the study `cost` needs topologies, tasks of 0 or more, and all else above 0".to_owned());
        }
        if !sound(this.polls.pps) || this.polls.per_second.contains(&0) {
            return Err("the study `polls` needs pps and all of per-second above 0".to_owned());
        }
        let is_staged = |points: &StagedPoints| {
            let floods_are_sound = points.floods.iter().all(|pps| *pps == 0.0 || sound(*pps));
            let windows_ascend = points.windows_us.is_sorted_by(|a, b| a < b) && points.windows_us.first() > Some(&0);
            floods_are_sound
                && windows_ascend
                && !points.gaps_us.is_empty()
                && points.pairs > 0
                && sound(points.seconds)
        };
        if !this.staged.iter().all(is_staged) {
            return Err(
                "the study `staged` needs floods of 0 or more, gaps, pairs, seconds, and ascending windows above 0"
                    .to_owned(),
            );
        }
        Ok(this)
    }

    /// Receivers of the studies of whole programs, each once.
    pub fn program_receivers(&self) -> Vec<&str> {
        let all = self.sensor.iter().flat_map(|points| &points.receivers);
        let all = all.chain(self.station.iter().flat_map(|points| &points.receivers));
        let all = all.chain(self.pcap.iter().flat_map(|points| &points.receivers));
        let all = all.chain(self.split.iter().flat_map(|points| &points.receivers));
        let all = all.chain(self.forward.iter().flat_map(|points| &points.receivers));
        let all = all.chain(self.staged.iter().flat_map(|points| &points.receivers));
        let all = all.map(String::as_str);
        let mut names: Vec<&str> = all.collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Receivers of the study `cost`: what is done with each packet, and by which back end.
    pub fn cost_receivers(&self) -> Vec<String> {
        let of = |r#use: &Use| {
            let named = |backend: &CostBackend| format!("{} {}", r#use.name(), backend.backend().name());
            self.cost.backends.iter().map(named).collect::<Vec<_>>()
        };
        self.cost.uses.iter().flat_map(of).collect()
    }

    /// Receivers of the catalogue that the other studies name.
    pub fn capture_receivers(&self) -> impl Iterator<Item = &str> {
        let plain = [&self.idle, &self.sizes, &self.arrivals, &self.load, &self.ring].map(|study| &study.receivers);
        let others = [
            &self.rates.receivers,
            &self.pause.receivers,
            &self.polls.receivers,
            &self.napi.receivers,
            &self.storms.receivers,
        ];
        plain.into_iter().chain(others).flatten().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_definitions_are_sound() {
        let usual = Definitions::read(None).unwrap();
        assert_eq!((usual.scale.quick.rounds, usual.scale.full.trials), (1, 3));
        assert_eq!(usual.scale.usual.rates.len(), 12);
        assert!(usual.scale.usual.program_rates.is_empty() && usual.scale.usual.program_seconds.is_none());
        assert!(usual.program_receivers().contains(&"libpcap xdp"));
        assert_eq!((usual.cost_receivers().len(), usual.cost_receivers()[0].as_str()), (6, "capture xdp"));
        assert_eq!(usual.program_receivers().iter().filter(|name| **name == "ringtap-xdp").count(), 1);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let with = |from: &str, to: &str| Definitions::parse(&USUAL.replacen(from, to, 1)).unwrap_err();
        assert!(with("least-host-pps", "least-pps").contains("least-pps"));
        assert!(with("seconds = 3.0", "seconds = -3.0").contains("above 0"));
        assert!(with("pps = 15.6e3", "pps = 0.0").contains("`polls` needs"));
        assert!(with("per-second = [500", "per-second = [0").contains("`polls` needs"));
        let polled =
            Definitions::parse(&USUAL.replacen("receivers = [\"timer 1ms\"]", "receivers = [\"typo\"]", 1)).unwrap();
        assert!(polled.capture_receivers().any(|name| name == "typo"), "it is looked for in the catalogue");
        assert!(with("resolution = 1.1 ", "resolution = 1.0 ").contains("above 1"));
        assert!(with("windows-us = [1000, 2000", "windows-us = [1000, 1000").contains("ascending"));
        assert!(with("topologies = [\"nic\"]", "topologies = [\"wire\"]").contains("wire"));
        let error = Definitions::read(Some(Path::new("/nonexistent/x.toml"))).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/x.toml"), "{error}");
    }
}

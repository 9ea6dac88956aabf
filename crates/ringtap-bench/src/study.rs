//! The studies: which runs answer which question.
//!
//! Owns their list, names and order. Each one's runs are in `study/`.

mod capacity;
mod load;
mod napi;
mod ring;
mod sweep;

use ringtap::{Error, Result};

use crate::bench::{Bench, cost_seconds};
use crate::catalogue::Receiver;
use crate::{packet_cost, programs};

/// A question and the runs that answer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Study {
    /// Core use, latency, loss and wake-ups against the offered rate, both topologies, everybody.
    Rates,
    /// Core use while nothing comes.
    Idle,
    /// The rate without loss, in the manner of RFC 2544, and what is delivered at twice that.
    Capacity,
    /// Core use and loss against frame length at 148 kpps.
    Sizes,
    /// The same against the pattern of arrivals.
    Arrivals,
    /// The greatest event processing carried without loss at 148 kpps (engines only).
    Load,
    /// The least ring without loss at 148 kpps (engines only).
    Ring,
    /// Loss, latency and core use against the kernel's NAPI pause, topology host (engines only).
    Pause,
    /// Core use and latency against the poll rate of a timer (engines only).
    Polls,
    /// Throughput, delay and core use against the budget of the kernel's receive softirq, and round trips of pings.
    Napi,
    /// Disk, fork, page-fault and timer storms beside the greatest rate, with and without event processing.
    Storms,
    /// The sensor beside Suricata: packets lost, attacks found, core use.
    Sensor,
    /// The station beside trap and syslog receivers: the rate that is held.
    Station,
    /// Clients of libpcap on Ringtap's library and on the system's: packets delivered, core use.
    Pcap,
    /// The splitter beside tc mirred: packets lost, core use.
    Split,
    /// The forwarder beside testpmd, bridge, tc mirred and XDP redirect: packets lost, core use, delay, the rate without loss.
    Forward,
    /// Attacks of two stages under a flood, beside Suricata and syslog: which are found within which window, and when.
    Staged,
    /// What a packet, a wake-up and an empty look cost, by saturation and by regression.
    Cost,
}

impl Study {
    /// Those of capture, in order: what is run unless others are asked for.
    pub const CAPTURE: [Self; 11] = [
        Self::Idle,
        Self::Rates,
        Self::Capacity,
        Self::Load,
        Self::Ring,
        Self::Sizes,
        Self::Arrivals,
        Self::Pause,
        Self::Polls,
        Self::Napi,
        Self::Storms,
    ];

    /// Those of whole programs.
    pub const PROGRAMS: [Self; 6] = [Self::Sensor, Self::Station, Self::Pcap, Self::Split, Self::Forward, Self::Staged];

    /// Those of a receiver's parts, made when they are named.
    pub const PARTS: [Self; 1] = [Self::Cost];

    /// Every study, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::CAPTURE.into_iter().chain(Self::PROGRAMS).chain(Self::PARTS)
    }

    /// Name on the command line and in samples.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rates => "rates",
            Self::Idle => "idle",
            Self::Capacity => "capacity",
            Self::Sizes => "sizes",
            Self::Arrivals => "arrivals",
            Self::Load => "load",
            Self::Ring => "ring",
            Self::Pause => "pause",
            Self::Polls => "polls",
            Self::Napi => "napi",
            Self::Storms => "storms",
            Self::Sensor => "sensor",
            Self::Station => "station",
            Self::Pcap => "pcap",
            Self::Split => "split",
            Self::Forward => "forward",
            Self::Staged => "staged",
            Self::Cost => "cost",
        }
    }

    /// The study of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn find(name: &str) -> Result<Self> {
        Self::all().find(|study| study.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::all().map(Self::name).collect();
            Error::usage("make", format!("study {name:?}"), "there is none of that name")
                .way_out(format!("choose among {}", known.join(", ")))
        })
    }

    /// Makes its runs.
    ///
    /// # Errors
    /// A result can't be written, or the testbed fails.
    pub(crate) fn run(self, bench: &mut Bench<'_>) -> Result<()> {
        match self {
            Self::Idle => sweep::idle(bench),
            Self::Rates => sweep::rates(bench),
            Self::Sizes => sweep::sizes(bench),
            Self::Arrivals => sweep::arrivals(bench),
            Self::Pause => sweep::pause(bench),
            Self::Polls => sweep::polls(bench),
            Self::Napi => napi::study(bench),
            Self::Storms => sweep::storms(bench),
            Self::Capacity => capacity::search(bench),
            Self::Load => load::search(bench),
            Self::Ring => ring::search(bench),
            Self::Sensor => programs::sensor::study(bench),
            Self::Station => programs::station::study(bench),
            Self::Pcap => programs::pcap::study(bench),
            Self::Split => programs::split::study(bench),
            Self::Forward => programs::forward::study(bench),
            Self::Staged => programs::staged::study(bench),
            Self::Cost => packet_cost::study(bench),
        }
    }

    /// About how long that takes.
    pub(crate) fn seconds(self, bench: &Bench<'_>) -> f64 {
        let scale = &bench.scale;
        let run = cost_seconds(scale.seconds);
        let rounds = f64::from(scale.rounds);
        let everybody = bench.receivers.len() as f64;
        let definitions = &bench.definitions;
        let of = |names: &[String]| named(bench, names).len() as f64;
        match self {
            Self::Idle => cost_seconds(scale.seconds * 2.0) * rounds * 2.0,
            Self::Rates => sweep::Sweep { scale, definition: &definitions.rates }.runs(&bench.receivers) * run,
            Self::Sizes => scale.sizes.len() as f64 * of(&definitions.sizes.receivers) * 2.0 * rounds * run,
            Self::Arrivals => 4.0 * of(&definitions.arrivals.receivers) * rounds * run,
            Self::Pause => {
                let points = definitions.pause.pauses_us.len() * definitions.pause.rates.len();
                points as f64 * of(&definitions.pause.receivers) * rounds * run
            }
            Self::Polls => {
                definitions.polls.per_second.len() as f64 * 2.0 * of(&definitions.polls.receivers) * rounds * run
            }
            Self::Napi => {
                let settings = crate::softirq::Setting::ALL.len() as f64;
                // The pings of a setting take about as long as three runs.
                settings * rounds * (definitions.napi.rates.len() as f64 * of(&definitions.napi.receivers) + 3.0) * run
            }
            Self::Storms => {
                (crate::storm::Storm::ALL.len() + 1) as f64 * 2.0 * of(&definitions.storms.receivers) * rounds * run
            }
            // A search halves its interval about five times.
            Self::Capacity => everybody * 2.0 * 6.0 * cost_seconds(scale.trial_packets as f64 / 400e3),
            Self::Load => of(&definitions.load.receivers) * 8.0 * cost_seconds(scale.seconds.max(load::SECONDS)),
            Self::Ring => of(&definitions.ring.receivers) * 8.0 * cost_seconds(scale.trial_packets as f64 / 148e3),
            Self::Sensor => programs::sensor::seconds(bench),
            Self::Station => programs::station::seconds(bench),
            Self::Pcap => programs::pcap::seconds(bench),
            Self::Split => programs::split::seconds(bench),
            Self::Forward => programs::forward::seconds(bench),
            Self::Staged => programs::staged::seconds(bench),
            Self::Cost => packet_cost::seconds(bench),
        }
    }
}

/// Those of the chosen receivers that are named.
fn named(bench: &Bench<'_>, names: &[String]) -> Vec<Receiver> {
    bench.receivers.iter().filter(|receiver| names.contains(&receiver.name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_is_found_by_its_name_and_no_other() {
        for study in Study::all() {
            assert_eq!(Study::find(study.name()).unwrap(), study);
        }
        let error = Study::find("rate").unwrap_err().to_string();
        assert!(error.contains("rates") && error.contains("storms"), "{error}");
    }
}

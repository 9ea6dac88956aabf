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
    /// Throughput, delay and core use against the budget of the kernel's receive softirq, and round trips of pings.
    Napi,
    /// Disk, fork, page-fault and timer storms beside the greatest rate, with and without event processing.
    Storms,
}

impl Study {
    /// All, in order.
    pub const ALL: [Self; 10] = [
        Self::Idle,
        Self::Rates,
        Self::Capacity,
        Self::Load,
        Self::Ring,
        Self::Sizes,
        Self::Arrivals,
        Self::Pause,
        Self::Napi,
        Self::Storms,
    ];

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
            Self::Napi => "napi",
            Self::Storms => "storms",
        }
    }

    /// The study of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn find(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|study| study.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|study| study.name()).collect();
            Error::usage("make", format!("study {name:?}"), "there is none of that name")
                .way_out(format!("choose among {}", known.join(", ")))
        })
    }

    /// Makes its runs.
    ///
    /// # Errors
    /// A result can't be written, or the testbed fails.
    pub fn run(self, bench: &mut Bench<'_>) -> Result<()> {
        match self {
            Self::Idle => sweep::idle(bench),
            Self::Rates => sweep::rates(bench),
            Self::Sizes => sweep::sizes(bench),
            Self::Arrivals => sweep::arrivals(bench),
            Self::Pause => sweep::pause(bench),
            Self::Napi => napi::study(bench),
            Self::Storms => sweep::storms(bench),
            Self::Capacity => capacity::search(bench),
            Self::Load => load::search(bench),
            Self::Ring => ring::search(bench),
        }
    }

    /// About how long that takes.
    pub(crate) fn seconds(self, bench: &Bench<'_>) -> f64 {
        let scale = &bench.scale;
        let run = cost_seconds(scale.seconds);
        let rounds = f64::from(scale.rounds);
        let everybody = bench.receivers.len() as f64;
        let of = |names: &[&str]| named(bench, names).len() as f64;
        match self {
            Self::Idle => cost_seconds(scale.seconds * 2.0) * rounds * 2.0,
            Self::Rates => sweep::runs_of_rates(scale, &bench.receivers) * run,
            Self::Sizes => scale.sizes.len() as f64 * of(sweep::SIZED) * 2.0 * rounds * run,
            Self::Arrivals => 4.0 * of(sweep::PATTERNED) * rounds * run,
            Self::Pause => {
                (sweep::PAUSES_US.len() * sweep::PAUSE_RATES.len()) as f64 * of(sweep::PAUSED) * rounds * run
            }
            Self::Napi => {
                let settings = crate::softirq::Setting::ALL.len() as f64;
                // The pings of a setting take about as long as three runs.
                settings * rounds * (napi::RATES.len() as f64 * of(napi::READERS) + 3.0) * run
            }
            Self::Storms => (crate::storm::Storm::ALL.len() + 1) as f64 * 2.0 * of(sweep::STORMED) * rounds * run,
            // A search halves its interval about five times.
            Self::Capacity => everybody * 2.0 * 6.0 * cost_seconds(scale.trial_packets as f64 / 400e3),
            Self::Load => of(load::LOADED) * 8.0 * cost_seconds(scale.seconds.max(load::SECONDS)),
            Self::Ring => of(ring::RINGED) * 8.0 * cost_seconds(scale.trial_packets as f64 / 148e3),
        }
    }
}

/// Those of the chosen receivers that are named.
fn named(bench: &Bench<'_>, names: &[&str]) -> Vec<Receiver> {
    bench.receivers.iter().filter(|receiver| names.contains(&receiver.name.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_is_found_by_its_name_and_no_other() {
        for study in Study::ALL {
            assert_eq!(Study::find(study.name()).unwrap(), study);
        }
        let error = Study::find("rate").unwrap_err().to_string();
        assert!(error.contains("rates") && error.contains("storms"), "{error}");
    }
}

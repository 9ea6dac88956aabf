//! C_IO by added load (\[4] §8): the time capture itself takes of each packet.
//!
//! Owns the reading of the study `load`: the largest load carried without loss at a rate leaves 1/rate − load for capture,
//! and what T = min(line rate, F_CPU/(C_IO + C_task)) then says about the larger loads, which it has not seen.

use std::collections::BTreeMap;

use super::core_use::CoreUse;
use super::parameter;
use super::points::{lost_share, median, sound};
use crate::book::{Book, Finding, Fit, FitPoint, Sample, Topology};

const STUDY: &str = "load";

/// The time capture takes of each packet at one rate.
#[derive(Debug, Clone)]
pub(super) struct CaptureTime {
    pub receiver: String,
    pub topology: Topology,
    /// Rate of the study, packets per second.
    pub pps: f64,
    /// 1/rate − largest load without loss, seconds: at most this.
    pub seconds: f64,
    /// 1/rate − least load with loss, seconds: at least this; 0 where every load was carried.
    pub at_least: f64,
    /// Clock of the core while it worked, Hz, where cycles were counted.
    clock_hz: Option<f64>,
    loads: Vec<Load>,
}

/// The rounds with one load.
#[derive(Debug, Clone)]
struct Load {
    seconds: f64,
    /// Nothing lost in any round.
    carried: bool,
    received_pps: f64,
    lost: f64,
}

/// For every receiver with at least two loads of which one was carried.
pub(super) fn all(book: &Book) -> Vec<CaptureTime> {
    let mut groups: BTreeMap<(Topology, &str, u64), BTreeMap<u64, Vec<&Sample>>> = BTreeMap::new();
    for sample in book.samples.iter().filter(|sample| sample.study == STUDY && sound(sample) && sample.load_ns >= 0.0) {
        let key = (sample.topology, sample.receiver.as_str(), sample.offered_pps.round() as u64);
        // Loads a nanosecond apart are one.
        groups.entry(key).or_default().entry(sample.load_ns.round() as u64).or_default().push(sample);
    }
    groups
        .into_iter()
        .filter_map(|((topology, receiver, pps), loads)| of(receiver, topology, pps as f64, &loads))
        .collect()
}

fn of(receiver: &str, topology: Topology, pps: f64, groups: &BTreeMap<u64, Vec<&Sample>>) -> Option<CaptureTime> {
    let loads: Vec<Load> = groups
        .iter()
        .map(|(&nanoseconds, samples)| Load {
            seconds: nanoseconds as f64 * 1e-9,
            carried: samples.iter().all(|sample| sample.lost == 0),
            received_pps: median(samples.iter().map(|sample| sample.received as f64 / sample.seconds)).unwrap_or(0.0),
            lost: median(samples.iter().map(|sample| lost_share(sample))).unwrap_or(0.0),
        })
        .collect();
    // Losses at a smaller load than one that was carried are the host's, not the load's; the search goes upwards.
    let carried = loads.iter().filter(|load| load.carried).map(|load| load.seconds).reduce(f64::max)?;
    if loads.len() < 2 || carried <= 0.0 {
        return None;
    }
    let lossy = loads.iter().filter(|load| load.seconds > carried).map(|load| load.seconds).reduce(f64::min);
    let seconds = 1.0 / pps - carried;
    if seconds <= 0.0 {
        return None;
    }
    let clocks = groups.values().flatten().filter_map(|sample| {
        let cycles = sample.cycles_per_packet? * sample.received as f64;
        Some(cycles / (sample.core_use_percent / 100.0 * sample.seconds)).filter(|&hertz| hertz > 0.0)
    });
    Some(CaptureTime {
        receiver: receiver.to_owned(),
        topology,
        pps,
        seconds,
        at_least: lossy.map_or(0.0, |lossy| (1.0 / pps - lossy).max(0.0)),
        clock_hz: median(clocks),
        loads,
    })
}

impl CaptureTime {
    /// For the book: each load that was not used to find C_IO, with the delivered rate it should leave.
    pub(super) fn fit(&self) -> Fit {
        let capture = (self.seconds, self.at_least, self.seconds);
        let mut parameters = vec![parameter("C_IO", "ns", capture, 1e9)];
        parameters.extend(self.clock_hz.map(|hertz| parameter("C_IO", "cycles", capture, hertz)));
        let carried = 1.0 / self.pps - self.seconds;
        let points = self.loads.iter().map(|load| FitPoint {
            label: format!("{:.0} ns added, {:.3} % lost, {}", load.seconds * 1e9, load.lost * 100.0, self.receiver),
            x: load.seconds * 1e9,
            predicted: self.pps.min(1.0 / (self.seconds + load.seconds)),
            measured: load.received_pps,
            held_back: (load.seconds - carried).abs() > 1e-9,
        });
        Fit {
            model: "c_io".to_owned(),
            receiver: self.receiver.clone(),
            topology: self.topology,
            formula: format!(
                "T = min(offered, 1/(C_IO + load)); C_IO = 1/{:.0} pps − largest load carried without loss, at least 1/rate − \
                 least load with loss; waiting and background of that rate are in it; {}",
                self.pps,
                match self.clock_hz {
                    Some(hertz) => format!("cycles at the {:.2} GHz counted", hertz / 1e9),
                    None => "times, as no cycles were counted".to_owned(),
                }
            ),
            parameters,
            r_squared: None,
            points: points.collect(),
        }
    }
}

/// The greatest load that core use alone foretells, 1 − η(rate), beside the one that was searched (`greatest_load_percent`):
/// what the search falls short of it, jitter took.
pub(super) fn greatest_loads(book: &Book, core_uses: &[CoreUse]) -> Vec<Fit> {
    let searched = book.findings.iter().filter(|finding| finding.quantity == "greatest_load_percent");
    searched.filter_map(|found| greatest_load(book, core_uses, found)).collect()
}

fn greatest_load(book: &Book, core_uses: &[CoreUse], found: &Finding) -> Option<Fit> {
    let same = |receiver: &str, topology| receiver == found.receiver && topology == found.topology;
    let core_use = core_uses.iter().find(|core_use| same(&core_use.receiver, core_use.topology))?;
    let runs = (book.samples.iter())
        .filter(|sample| sample.study == found.study && same(&sample.receiver, sample.topology) && sound(sample));
    let pps = median(runs.map(|sample| sample.offered_pps)).filter(|_| found.value.is_finite())?;
    let left = |share: f64| (1.0 - share).max(0.0);
    let (low, high) = core_use.interval(pps);
    let predicted = left(core_use.share(pps));
    Some(Fit {
        model: "greatest_load".to_owned(),
        receiver: found.receiver.clone(),
        topology: found.topology,
        formula: format!("load = 1 − η({pps:.0} pps), in percent of the core; η by core use without load"),
        parameters: vec![parameter("1 − η", "%", (predicted, left(high), left(low)), 100.0)],
        r_squared: core_use.r_squared(),
        points: vec![FitPoint {
            label: format!("greatest load, {}{}", found.receiver, if found.at_least { ", at least" } else { "" }),
            x: pps,
            predicted: predicted * 100.0,
            measured: found.value,
            held_back: true,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost_model::core_use;
    use crate::cost_model::points::curves;
    use crate::cost_model::synthetic::{book_of, finding, sample, waiting};

    fn loaded(load_ns: f64, capture_ns: f64, pps: f64) -> Sample {
        let mut sample = sample("hybrid 1ms", Topology::Nic, pps, 90.0);
        sample.study = STUDY.to_owned();
        sample.load_ns = load_ns;
        sample.received = sample.sent.min((1e9 / (capture_ns + load_ns)) as u64);
        sample.lost = sample.sent - sample.received;
        sample
    }

    #[test]
    fn capture_time_lies_in_its_interval_and_predicts_what_is_lost() {
        // 10 µs between packets, 1.5 µs of capture: 8 µs are carried, 9 µs are not.
        let samples = [2_000.0, 8_000.0, 9_000.0, 12_000.0].map(|load| loaded(load, 1_500.0, 100_000.0));
        let times = all(&book_of(samples.to_vec()));
        let [time] = &times[..] else { panic!("{times:?}") };
        assert!((time.seconds - 2_000e-9).abs() < 1e-12 && (time.at_least - 1_000e-9).abs() < 1e-12, "{time:?}");
        let fit = time.fit();
        assert_eq!(fit.parameters.len(), 1, "no cycles, no cycles");
        assert_eq!(fit.points.iter().filter(|point| point.held_back).count(), 3);
        for point in &fit.points {
            assert!((point.predicted / point.measured - 1.0).abs() < 0.05, "{point:?}");
        }
    }

    #[test]
    fn cycles_where_they_are_counted() {
        let samples = [8_000.0, 9_000.0].map(|load| {
            let mut sample = loaded(load, 1_500.0, 100_000.0);
            // 3 GHz at 90 % of a second.
            sample.cycles_per_packet = Some(2.7e9 / sample.received as f64);
            sample
        });
        let fit = all(&book_of(samples.to_vec()))[0].fit();
        assert_eq!(fit.parameters[1].unit, "cycles");
        assert!((fit.parameters[1].value - 6_000.0).abs() < 1e-6);
    }

    #[test]
    fn the_greatest_load_is_what_core_use_leaves() {
        // 2 % and 20 ns a packet: at 148 kpps 2.3 % of the core, and 97.7 % are left.
        let mut book = book_of(waiting("hybrid 1ms", Topology::Nic, 0.02, 0.0, 20e-9, |_| 1_100.0));
        let core_uses = core_use::all(&curves(&book));
        let mut found = finding(STUDY, "hybrid 1ms", Topology::Nic, "greatest_load_percent", 90.0);
        book.findings.push(found.clone());
        assert!(greatest_loads(&book, &core_uses).is_empty(), "the rate of the search is not known");
        book.samples.push(loaded(5_000.0, 1_500.0, 148_000.0));
        let fits = greatest_loads(&book, &core_uses);
        assert!((fits[0].points[0].predicted - 97.7).abs() < 0.2, "{fits:?}");
        assert_eq!((fits[0].points[0].x, fits[0].points[0].measured), (148_000.0, 90.0));
        found.value = f64::NAN;
        book.findings = vec![found];
        assert!(greatest_loads(&book, &core_uses).is_empty());
    }

    #[test]
    fn nothing_from_too_little() {
        assert!(all(&book_of(vec![])).is_empty());
        assert!(all(&book_of(vec![loaded(8_000.0, 1_500.0, 1e5)])).is_empty(), "one load");
        assert!(
            all(&book_of(vec![loaded(9_000.0, 1_500.0, 1e5), loaded(9_500.0, 1_500.0, 1e5)])).is_empty(),
            "none carried"
        );
        let mut wrong = loaded(20_000.0, 1.0, 1e5);
        (wrong.received, wrong.lost) = (wrong.sent, 0);
        assert!(all(&book_of(vec![wrong, loaded(8_000.0, 1.0, 1e5)])).is_empty(), "more load than time");
        let mut nan = loaded(8_000.0, 1_500.0, 1e5);
        nan.load_ns = f64::NAN;
        assert!(all(&book_of(vec![nan.clone(), nan])).is_empty());
    }
}

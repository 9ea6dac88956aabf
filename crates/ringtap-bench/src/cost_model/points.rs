//! Medians of the rounds: one point per receiver, topology and rate.
//!
//! Owns which samples count for the models and how rounds become one figure.

use std::collections::BTreeMap;

use statrs::statistics::{Data, OrderStatistics};

use crate::book::{Book, Sample, Topology};

/// Of the study `rates` the models use one kind of traffic, the source's own: constant arrivals, the shortest frames there.
const STUDY: &str = "rates";

/// Medians over the rounds at one rate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    /// Offered on average, packets per second, as asked.
    pub pps: f64,
    /// Offered, as the generator made it.
    pub sent_pps: f64,
    /// Received.
    pub received_pps: f64,
    /// Wake-ups per second by the timer and by interrupts; `None` where the receiver does not tell. One that tells only one
    /// kind has none of the other.
    pub wakes: Option<Wakes>,
    /// Share of one core.
    pub core: f64,
    /// Lost of those sent, 0 to 1.
    pub lost: f64,
}

/// Wake-ups per second, by cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Wakes {
    pub timer: f64,
    pub interrupt: f64,
}

impl Wakes {
    /// f_poll: of both kinds.
    pub(super) fn all(self) -> f64 {
        self.timer + self.interrupt
    }
}

/// The points of one receiver in one topology, ascending by rate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    pub receiver: String,
    pub topology: Topology,
    pub points: Vec<Point>,
}

/// All curves of the study `rates`.
pub(super) fn curves(book: &Book) -> Vec<Curve> {
    let candidates = || book.samples.iter().filter(|sample| sample.study == STUDY && plain(sample) && sound(sample));
    let Some(frame_bytes) = candidates().map(|sample| sample.frame_bytes).min() else { return Vec::new() };
    let mut groups: BTreeMap<(Topology, &str, u64), Vec<&Sample>> = BTreeMap::new();
    for sample in candidates().filter(|sample| sample.frame_bytes == frame_bytes) {
        groups.entry((sample.topology, &sample.receiver, sample.offered_pps.round() as u64)).or_default().push(sample);
    }
    let mut curves: Vec<Curve> = Vec::new();
    for ((topology, receiver, pps), samples) in groups {
        let point = point(pps as f64, &samples);
        match curves.last_mut().filter(|curve| curve.receiver == receiver && curve.topology == topology) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { receiver: receiver.to_owned(), topology, points: vec![point] }),
        }
    }
    curves
}

/// Nothing added, nothing beside it, constant arrivals.
fn plain(sample: &Sample) -> bool {
    sample.load_ns == 0.0 && sample.beside.is_none() && sample.arrivals == "constant"
}

/// Figures a run that went well can have.
pub(super) fn sound(sample: &Sample) -> bool {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    positive(sample.seconds)
        && positive(sample.offered_pps)
        && positive(sample.sent_pps)
        && sample.sent > 0
        && positive(sample.core_use_percent)
}

fn point(pps: f64, samples: &[&Sample]) -> Point {
    let of = |figure: &dyn Fn(&Sample) -> f64| median(samples.iter().map(|sample| figure(sample))).unwrap_or(0.0);
    let wakes = |kind: fn(&Sample) -> Option<u64>| {
        median(samples.iter().filter_map(|sample| Some(kind(sample)? as f64 / sample.seconds)))
    };
    let wakes = match (wakes(|sample| sample.timer_wakes), wakes(|sample| sample.interrupt_wakes)) {
        (None, None) => None,
        (timer, interrupt) => Some(Wakes { timer: timer.unwrap_or(0.0), interrupt: interrupt.unwrap_or(0.0) }),
    };
    Point {
        pps,
        sent_pps: of(&|sample| sample.sent_pps),
        received_pps: of(&|sample| sample.received as f64 / sample.seconds),
        wakes,
        core: of(&|sample| sample.core_use_percent / 100.0),
        lost: of(&lost_share),
    }
}

/// Lost of those sent, 0 to 1.
pub(super) fn lost_share(sample: &Sample) -> f64 {
    sample.lost as f64 / sample.sent.max(1) as f64
}

/// The median; the mean of the middle two for an even count. Values that are not finite are left out.
pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    (!values.is_empty()).then(|| Data::new(values).median())
}

/// Whether point `index` of `count` is kept for judging: every third, never the outermost (a model is asked between the
/// rates that were measured), and none where fewer than three would be left to fit.
pub(super) fn held_back(index: usize, count: usize) -> bool {
    count >= 4 && index % 3 == 1 && index + 1 < count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost_model::synthetic::{book_of, sample};

    #[test]
    fn medians_of_odd_even_and_none() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
        assert_eq!(median([f64::NAN, 7.0].into_iter()), Some(7.0));
        assert_eq!(median([].into_iter()), None);
    }

    #[test]
    fn every_third_and_never_an_end() {
        let kept = |count: usize| (0..count).filter(|&at| held_back(at, count)).collect::<Vec<_>>();
        assert_eq!(kept(9), [1, 4, 7]);
        assert_eq!(kept(8), [1, 4]);
        assert_eq!(kept(4), [1]);
        assert!(kept(3).is_empty());
    }

    #[test]
    fn rounds_become_one_point_and_other_traffic_stays_out() {
        let one = |round: u32, core: f64| {
            let mut sample = sample("timer 1ms", Topology::Nic, 10_000.0, core);
            sample.round = round;
            sample.timer_wakes = Some(1_000 + u64::from(round));
            sample.interrupt_wakes = None;
            sample
        };
        let mut samples = vec![one(0, 3.0), one(1, 9.0), one(2, 4.0)];
        for spoil in [
            |sample: &mut Sample| sample.study = "sizes".to_owned(),
            |sample: &mut Sample| sample.arrivals = "poisson".to_owned(),
            |sample: &mut Sample| sample.load_ns = 100.0,
            |sample: &mut Sample| sample.beside = Some("fork".to_owned()),
            |sample: &mut Sample| sample.frame_bytes = 1024,
            |sample: &mut Sample| sample.core_use_percent = f64::NAN,
            |sample: &mut Sample| sample.seconds = 0.0,
            |sample: &mut Sample| sample.sent = 0,
        ] {
            let mut other = one(3, 50.0);
            spoil(&mut other);
            samples.push(other);
        }
        let curves = curves(&book_of(samples));
        assert_eq!(curves.len(), 1);
        let [point] = &curves[0].points[..] else { panic!("{curves:?}") };
        assert!((point.core - 0.04).abs() < 1e-12);
        assert_eq!(point.wakes, Some(Wakes { timer: 1_001.0, interrupt: 0.0 }));
        assert_eq!(point.lost, 0.0);
    }
}

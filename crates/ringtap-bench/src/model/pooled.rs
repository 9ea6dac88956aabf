//! One price list for all of Ringtap's ways to wait in a topology: the regression of 000 §7.3.1, which varies the poll rate
//! and the packet rate.
//!
//! Owns which receivers are of one kind, and the list. A single receiver whose timer has one rate can't tell t_POH from
//! η_BG; together they can. Predictions for a rate are `core_use`'s.

use super::core_use::{FULL, Judgement, KEEPS_UP, verdict};
use super::points::{Curve, Point, held_back, median};
use super::regression::{Regression, Row};
use crate::book::{Fit, FitPoint, Parameter, Topology};

/// Name of the receiver in the fits.
pub(super) const NAME: &str = "all of Ringtap's";
/// First words of the names of the AF_XDP receivers, which differ in their waiting and in nothing else.
const KINDS: [&str; 4] = ["hybrid", "timer", "interrupt", "windowed"];
/// At least this many receivers, or there is nothing to pool.
const LEAST_RECEIVERS: usize = 2;

/// Prices of one topology.
#[derive(Debug, Clone)]
pub(super) struct Pooled {
    topology: Topology,
    points: Vec<(String, Point, f64, bool)>,
    regression: Regression,
}

/// A name such as `hybrid 1ms` or `interrupt`; not an ablation such as `interrupt + copy`, whose packets cost something else.
fn is_of_the_kind(receiver: &str) -> bool {
    let mut words = receiver.split_whitespace();
    let kind = words.next().is_some_and(|word| KINDS.contains(&word));
    let bound = words.next().is_none_or(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    kind && bound && words.next().is_none()
}

impl Pooled {
    /// Fits; `None` with fewer than two receivers or where t_POH can't be told.
    pub(super) fn of(curves: &[Curve], topology: Topology) -> Option<Self> {
        let mut points = Vec::new();
        let mut receivers = 0;
        for curve in curves.iter().filter(|curve| curve.topology == topology && is_of_the_kind(&curve.receiver)) {
            let usable: Vec<(&Point, f64)> = (curve.points.iter())
                .filter(|point| point.lost <= KEEPS_UP && point.core < FULL)
                .filter_map(|point| point.wakes.map(|wakes| (point, wakes)))
                .collect();
            receivers += usize::from(!usable.is_empty());
            let count = usable.len();
            points.extend(
                usable
                    .into_iter()
                    .enumerate()
                    .map(|(at, (point, wakes))| (curve.receiver.clone(), point.clone(), wakes, held_back(at, count))),
            );
        }
        if receivers < LEAST_RECEIVERS {
            return None;
        }
        let rows: Vec<Row> = (points.iter().filter(|(.., held)| !held))
            .map(|(_, point, wakes, _)| Row { x: columns(point, *wakes), y: point.core, weight: 1.0 })
            .collect();
        let regression = Regression::non_negative(&rows)?;
        regression.kept.contains(&POLL).then_some(Self { topology, points, regression })
    }

    /// The topology of the prices.
    pub(super) fn topology(&self) -> Topology {
        self.topology
    }

    /// Time per wake-up and its 95 % interval, seconds.
    pub(super) fn per_wake(&self) -> (f64, f64, f64) {
        let (low, high) = self.regression.interval(POLL);
        (self.regression.coefficients[POLL], low.max(0.0), high)
    }

    /// For the book, in percent of the core.
    pub(super) fn fit(&self) -> Fit {
        let predicted = |point: &Point, wakes: f64| self.regression.predict(&columns(point, wakes));
        let held = || self.points.iter().filter(|(.., held)| *held);
        let relative = || held().map(|(_, point, wakes, _)| (predicted(point, *wakes) / point.core - 1.0).abs());
        let share = || held().map(|(_, point, wakes, _)| (predicted(point, *wakes) - point.core).abs());
        let judgement = relative().reduce(f64::max).zip(share().reduce(f64::max)).zip(median(relative()));
        let judgement = judgement.map(|((worst, worst_share), median)| Judgement {
            rates: held().count(),
            worst,
            median,
            worst_share,
        });
        let names = [("η_BG", "%", 100.0), ("t_POH", "µs", 1e6), ("t_PP", "ns", 1e9)];
        let parameters = self.regression.kept.iter().map(|&column| {
            let (name, unit, scale) = names[column];
            let (low, high) = self.regression.interval(column);
            let low = low.max(0.0);
            let value = self.regression.coefficients[column] * scale;
            Parameter { name: name.to_owned(), unit: unit.to_owned(), value, low: low * scale, high: high * scale }
        });
        let points = self.points.iter().map(|(receiver, point, wakes, held_back)| FitPoint {
            label: format!("{:.0} pps, {receiver}", point.pps),
            x: point.pps,
            predicted: predicted(point, *wakes) * 100.0,
            measured: point.core * 100.0,
            held_back: *held_back,
        });
        Fit {
            model: "core_use".to_owned(),
            receiver: NAME.to_owned(),
            topology: self.topology,
            formula: format!(
                "η = t_POH·f_poll + t_PP·f_pkt + η_BG (000 Eqn. 7.1), one price for every wake-up; ordinary least squares on \
                 the medians of the rounds of all receivers together, f_poll as measured; {}",
                verdict(judgement)
            ),
            parameters: parameters.collect(),
            r_squared: self.regression.r_squared,
            points: points.collect(),
        }
    }
}

/// Place of f_poll in [`columns`].
const POLL: usize = 1;

fn columns(point: &Point, wakes: f64) -> Vec<f64> {
    vec![1.0, wakes, point.received_pps]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::points::curves;
    use crate::model::synthetic::{book_of, waiting};

    #[test]
    fn names_of_the_kind() {
        for name in ["hybrid 1ms", "hybrid 250us", "timer 1ms", "interrupt", "windowed 1ms"] {
            assert!(is_of_the_kind(name), "{name}");
        }
        for name in ["", "busy", "tcpdump", "packet 1ms", "interrupt + copy", "interrupt copy", "hybrid 1ms copy"] {
            assert!(!is_of_the_kind(name), "{name}");
        }
    }

    #[test]
    fn the_prices_of_two_timers_are_recovered() {
        let mut samples = waiting("timer 1ms", Topology::Nic, 0.01, 8e-6, 20e-9, |_| 1_100.0);
        samples.extend(waiting("timer 250us", Topology::Nic, 0.01, 8e-6, 20e-9, |_| 4_400.0));
        samples.extend(waiting("interrupt + copy", Topology::Nic, 0.01, 90e-6, 20e-9, |pps| pps.min(5_000.0)));
        let curves = curves(&book_of(samples));
        let pooled = Pooled::of(&curves, Topology::Nic).expect("a fit");
        let (value, low, high) = pooled.per_wake();
        assert!(low <= 8e-6 && 8e-6 <= high && (value / 8e-6 - 1.0).abs() < 0.05, "{value} {low} {high}");
        let fit = pooled.fit();
        assert_eq!(fit.parameters.len(), 3);
        assert!(fit.formula.contains("right within 10 %") && !fit.formula.contains("not right"), "{}", fit.formula);
        assert!(Pooled::of(&curves, Topology::Host).is_none());
    }
}

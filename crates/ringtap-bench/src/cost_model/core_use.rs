//! Core use: η = t_POH·f_poll + t_PP·f_pkt + η_BG (\[1] Eqn. 5.4 and 7.1), of each receiver.
//!
//! Owns which points are fitted, which are held back, and how right the equation is at those. The terms and the choice among
//! them are `equation`'s. The poll rate at a rate that is asked about is read between the fitted points, so a prediction
//! needs nothing but the rate.

use super::equation::{Equation, Extra};
use super::parameter;
use super::points::{Curve, Point, held_back, median};
use crate::book::{Fit, FitPoint, Topology};

/// A receiver that lost more than this did not keep up: the equation is of one that does. In topology host a stolen
/// fraction of a millisecond alone costs up to 1 %.
pub(super) const KEEPS_UP: f64 = 0.02;
/// A core used more than this has no use left to grow: past saturation, or a receiver that spins.
pub(super) const FULL: f64 = 0.97;
/// A prediction is called right within this.
pub(super) const RIGHT_WITHIN: f64 = 0.10;
/// Fewer fitted rates say nothing.
const LEAST_RATES: usize = 3;
/// Rates the bound is searched below, packets per second: 64-byte frames fill a 100 Gb/s line with 148.8 M.
pub(super) const GREATEST_PPS: f64 = 2e8;

/// The equation fitted to one receiver.
#[derive(Debug, Clone)]
pub(super) struct CoreUse {
    pub receiver: String,
    pub topology: Topology,
    /// Points at which the receiver kept up, with whether they were held back.
    points: Vec<(Point, bool)>,
    equation: Equation,
}

/// How right the predictions at the held-back rates are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Judgement {
    /// How many rates.
    pub rates: usize,
    /// Largest relative error.
    pub worst: f64,
    /// Median relative error.
    pub median: f64,
    /// Largest error as a share of the core.
    pub worst_share: f64,
}

impl Judgement {
    /// From (predicted, measured) shares of the core at the held-back rates; `None` without any.
    pub(super) fn of(held: Vec<(f64, f64)>) -> Option<Self> {
        let relative = || held.iter().map(|(predicted, measured)| (predicted / measured - 1.0).abs());
        Some(Self {
            rates: held.len(),
            worst: relative().reduce(f64::max)?,
            median: median(relative())?,
            worst_share: held.iter().map(|(predicted, measured)| (predicted - measured).abs()).reduce(f64::max)?,
        })
    }
}

/// The equation of every receiver whose rates suffice.
pub(super) fn all(curves: &[Curve]) -> Vec<CoreUse> {
    curves.iter().filter_map(CoreUse::of).collect()
}

impl CoreUse {
    /// Fits; `None` where fewer than [`LEAST_RATES`] rates are left to fit.
    fn of(curve: &Curve) -> Option<Self> {
        let mut usable: Vec<&Point> = curve
            .points
            .iter()
            .filter(|point| point.lost <= KEEPS_UP && point.core < FULL && point.received_pps > 0.0)
            .collect();
        // Past the generator's limit a higher rate asked for may be a lower one received.
        usable.sort_by(|a, b| a.received_pps.total_cmp(&b.received_pps));
        let points: Vec<(Point, bool)> =
            usable.iter().enumerate().map(|(at, &point)| (point.clone(), held_back(at, usable.len()))).collect();
        let fitted: Vec<&Point> = points.iter().filter(|(_, held)| !held).map(|(point, _)| point).collect();
        if fitted.len() < LEAST_RATES {
            return None;
        }
        let equation = Equation::chosen(&fitted)?;
        Some(Self { receiver: curve.receiver.clone(), topology: curve.topology, points, equation })
    }

    fn fitted(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|(_, held)| !held).map(|(point, _)| point)
    }

    /// Lowest and highest rate at which it was fitted, packets per second.
    pub(super) fn measured_range(&self) -> (f64, f64) {
        let rates = || self.fitted().map(|point| point.received_pps);
        (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max))
    }

    /// Share of the core at `pps` packets per second; above 1 where one core does not suffice.
    pub(super) fn share(&self, pps: f64) -> f64 {
        self.equation.share(pps)
    }

    /// 95 % interval of one measurement at `pps`, as shares of the core.
    pub(super) fn interval(&self, pps: f64) -> (f64, f64) {
        let Equation { regression, relative, .. } = &self.equation;
        let x = self.equation.columns_at(pps);
        let share = regression.predict(&x);
        let weight = if *relative { 1.0 / (share * share).max(f64::MIN_POSITIVE) } else { 1.0 };
        let (low, high) = regression.prediction_interval(&x, weight);
        let followed = self.equation.followed_at(pps);
        (low.max(0.0) * followed, high * followed)
    }

    /// The rate at which the core is full, packets per second: (1 − η_BG − t_POH·f_poll)/t_PP, solved also where the price
    /// of a packet is not one number. `None` where packets cost nothing that could be told.
    pub(super) fn bound(&self) -> Option<f64> {
        full_at(|pps| self.share(pps))
    }

    /// The bound at the ends of the 95 % interval of [`CoreUse::interval`]; [`GREATEST_PPS`] where the interval allows any rate.
    pub(super) fn bound_interval(&self) -> (f64, f64) {
        let low = full_at(|pps| self.interval(pps).1).unwrap_or(GREATEST_PPS);
        let high = full_at(|pps| self.interval(pps).0).unwrap_or(GREATEST_PPS);
        (low, high)
    }

    /// Time per wake-up and its interval, seconds; `None` where it could not be told apart or has no single price.
    pub(super) fn per_wake(&self) -> Option<(f64, f64, f64)> {
        (self.equation.polled && self.equation.extra != Extra::Sleep).then(|| self.price(1)).flatten()
    }

    /// Time per packet and its interval, seconds.
    pub(super) fn per_packet(&self) -> Option<(f64, f64, f64)> {
        (self.equation.extra != Extra::Batch).then(|| self.price(1 + usize::from(self.equation.polled))).flatten()
    }

    fn price(&self, column: usize) -> Option<(f64, f64, f64)> {
        let regression = &self.equation.regression;
        let (low, high) = regression.interval(column);
        regression.kept.contains(&column).then(|| (regression.coefficients[column], low, high))
    }

    /// Share of the variance explained.
    pub(super) fn r_squared(&self) -> Option<f64> {
        self.equation.regression.r_squared
    }

    /// The errors at the held-back rates; `None` where there were too few rates to hold any back.
    pub(super) fn judgement(&self) -> Option<Judgement> {
        let held = self.points.iter().filter(|(_, held)| *held);
        Judgement::of(held.map(|(point, _)| (self.share(point.received_pps), point.core)).collect())
    }

    /// The equation in words, and how right it is.
    pub(super) fn formula(&self) -> String {
        let mut terms = String::from("η = ");
        if self.equation.polled {
            terms.push_str("t_POH·f_poll + ");
        }
        terms.push_str("t_PP·f_pkt + η_BG");
        match self.equation.extra {
            Extra::None => {}
            Extra::Sleep => terms.push_str(" + s_POH·√f_poll (a wake-up costs more after a long sleep)"),
            Extra::Batch => terms.push_str(" + s_PP·√f_pkt (a packet costs more in a small batch)"),
        }
        terms.push_str(if self.equation.relative { "; least relative squares" } else { "; ordinary least squares" });
        terms.push_str(" on the medians of the rounds");
        if self.equation.follows.is_some() {
            terms.push_str("; times measured/equation of the fitted rates, read between them");
        }
        terms.push_str(if self.equation.polled {
            "; f_poll read between the fitted rates"
        } else {
            "; f_poll not told or as good as constant: its share is in η_BG"
        });
        let left_out: Vec<&str> = (self.terms().iter().enumerate())
            .filter(|(column, _)| !self.equation.regression.kept.contains(column))
            .map(|(_, term)| term.name)
            .collect();
        if !left_out.is_empty() {
            terms.push_str(&format!("; {} not told apart from the rest, or from 0", left_out.join(", ")));
        }
        terms.push_str("; ");
        terms.push_str(&verdict(self.judgement()));
        terms
    }

    fn terms(&self) -> Vec<Term> {
        let mut terms = vec![Term { name: "η_BG", unit: "%", scale: 100.0 }];
        if self.equation.polled {
            terms.push(Term { name: "t_POH", unit: "µs", scale: 1e6 });
        }
        terms.push(Term { name: "t_PP", unit: "ns", scale: 1e9 });
        match self.equation.extra {
            Extra::None => {}
            Extra::Sleep => terms.push(Term { name: "s_POH", unit: "10⁻⁶·√s", scale: 1e6 }),
            Extra::Batch => terms.push(Term { name: "s_PP", unit: "10⁻⁶·√s", scale: 1e6 }),
        }
        terms
    }

    /// For the book: the kept parameters and every point, in percent of the core.
    pub(super) fn fit(&self) -> Fit {
        let parameters = self
            .terms()
            .into_iter()
            .enumerate()
            .filter_map(|(column, term)| Some(parameter(term.name, term.unit, self.price(column)?, term.scale)));
        let points = self.points.iter().map(|(point, held_back)| FitPoint {
            label: format!("{:.0} pps, {}", point.pps, self.receiver),
            x: point.pps,
            predicted: self.share(point.received_pps) * 100.0,
            measured: point.core * 100.0,
            held_back: *held_back,
        });
        Fit {
            model: "core_use".to_owned(),
            receiver: self.receiver.clone(),
            topology: self.topology,
            formula: self.formula(),
            parameters: parameters.collect(),
            r_squared: self.r_squared(),
            points: points.collect(),
        }
    }
}

/// A column of the regression and how its price is shown.
struct Term {
    name: &'static str,
    unit: &'static str,
    scale: f64,
}

/// How right the held-back predictions are, in words.
pub(super) fn verdict(judgement: Option<Judgement>) -> String {
    match judgement {
        None => "too few rates to hold any back: not judged".to_owned(),
        Some(Judgement { rates, worst, median, worst_share }) => format!(
            "{rates} held-back rates: worst error {:.1} % ({:.2} points of the core), median {:.1} %: {} within 10 %",
            worst * 100.0,
            worst_share * 100.0,
            median * 100.0,
            if worst <= RIGHT_WITHIN { "right" } else { "not right" }
        ),
    }
}

/// The least rate at which `share` reaches 1, by bisection below [`GREATEST_PPS`].
fn full_at(share: impl Fn(f64) -> f64) -> Option<f64> {
    let reached = |pps: f64| share(pps) >= 1.0;
    let (mut low, mut high) = (0.0, GREATEST_PPS);
    if reached(low) {
        return Some(low);
    }
    if !reached(high) {
        return None;
    }
    // Each step halves the interval: 60 of them leave less than a packet in ten billion seconds.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if reached(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Sample;
    use crate::cost_model::points::curves;
    use crate::cost_model::synthetic::{book_of, sample, waiting};

    fn one(samples: Vec<Sample>) -> CoreUse {
        all(&curves(&book_of(samples))).pop().expect("a fit")
    }

    fn parameter(fit: &Fit, name: &str) -> f64 {
        fit.parameters.iter().find(|of| of.name == name).unwrap_or_else(|| panic!("no {name}: {fit:?}")).value
    }

    #[test]
    fn known_prices_come_back() {
        let wakes = |pps: f64| pps.min(30_000.0);
        let model = one(waiting("interrupt", Topology::Nic, 0.01, 5e-6, 100e-9, wakes));
        let fit = model.fit();
        assert!((parameter(&fit, "η_BG") - 1.0).abs() < 0.2, "{fit:?}");
        assert!((parameter(&fit, "t_POH") / 5.0 - 1.0).abs() < 0.03, "{fit:?}");
        assert!((parameter(&fit, "t_PP") / 100.0 - 1.0).abs() < 0.03, "{fit:?}");
        assert!(model.judgement().unwrap().worst < RIGHT_WITHIN);
        assert_eq!(fit.points.iter().filter(|point| point.held_back).count(), 3);
        // (1 − 0.01 − 0.15)/100 ns = 8.4 Mpps.
        assert!((model.bound().unwrap() / 8.4e6 - 1.0).abs() < 0.03);
    }

    #[test]
    fn one_poll_rate_has_no_price_of_its_own() {
        let model = one(waiting("timer 1ms", Topology::Nic, 0.01, 8e-6, 20e-9, |_| 1_100.0));
        assert_eq!(model.per_wake(), None);
        let (per_packet, ..) = model.per_packet().unwrap();
        assert!((per_packet / 20e-9 - 1.0).abs() < 0.05);
        assert!(model.formula().contains("its share is in η_BG"));
        assert!((parameter(&model.fit(), "η_BG") - 1.88).abs() < 0.05);
    }

    #[test]
    fn wake_ups_that_cost_more_after_a_long_sleep() {
        // 2 µs each and √f_poll · 600 µs a second: 21 µs each at 1 kpps, 4.4 µs at 60 kpps.
        let wakes = |pps: f64| pps.min(60_000.0);
        let mut samples = waiting("interrupt", Topology::Nic, 0.001, 2e-6, 20e-9, wakes);
        for sample in &mut samples {
            sample.core_use_percent += 100.0 * 600e-6 * wakes(sample.offered_pps).sqrt();
        }
        let model = one(samples);
        assert_eq!(model.equation.extra, Extra::Sleep, "{}", model.formula());
        assert!(model.judgement().unwrap().worst < RIGHT_WITHIN, "{}", model.formula());
        assert_eq!(model.per_wake(), None, "no single price");
    }

    #[test]
    fn what_no_equation_says_is_read_between_the_points() {
        // A bump of 60 % between 20 and 148 kpps.
        let mut samples = waiting("timer 1ms", Topology::Nic, 0.02, 0.0, 20e-9, |_| 1_100.0);
        for sample in &mut samples {
            let bump = if (2e4..=1.48e5).contains(&sample.offered_pps) { 1.6 } else { 1.0 };
            sample.core_use_percent *= bump;
        }
        let model = one(samples);
        assert!(model.equation.follows.is_some(), "{}", model.formula());
        for (point, held_back) in &model.points {
            assert!(*held_back || (model.share(point.received_pps) / point.core - 1.0).abs() < 1e-9, "{point:?}");
        }
        assert!(model.formula().contains("read between them"));
    }

    #[test]
    fn a_receiver_that_tells_no_wake_ups() {
        let mut samples = waiting("tcpdump", Topology::Host, 0.02, 0.0, 700e-9, |_| 0.0);
        for sample in &mut samples {
            sample.timer_wakes = None;
        }
        let model = one(samples);
        assert_eq!(model.per_wake(), None);
        assert!((model.per_packet().unwrap().0 / 700e-9 - 1.0).abs() < 0.03);
    }

    #[test]
    fn spinning_losing_and_single_points_have_no_equation() {
        let at = |pps: f64, core: f64| sample("busy", Topology::Nic, pps, core);
        let none = |samples: Vec<Sample>| all(&curves(&book_of(samples))).is_empty();
        assert!(none(vec![at(1e4, 100.0), at(2e4, 100.0), at(3e4, 100.0), at(4e4, 100.0)]), "spins");
        assert!(none(vec![at(1e4, 3.0)]), "one point");
        assert!(none(vec![at(1e4, 3.0), at(2e4, 4.0)]), "two");
        let losing = [1e4, 2e4, 3e4, 4e4].map(|pps| Sample { lost: (pps / 2.0) as u64, ..at(pps, 50.0) });
        assert!(none(losing.to_vec()), "lost half");
        let deaf = [1e4, 2e4, 3e4, 4e4].map(|pps| Sample { received: 0, ..at(pps, 50.0) });
        assert!(none(deaf.to_vec()), "received nothing");
    }

    #[test]
    fn a_constant_has_no_bound() {
        let samples = [1e4, 2e4, 3e4].map(|pps| sample("timer 1ms", Topology::Nic, pps, 3.0));
        let model = one(samples.to_vec());
        assert_eq!(model.bound(), None);
        assert_eq!(model.judgement(), None);
        assert!(model.formula().contains("not judged"), "{}", model.formula());
        assert!((model.share(5e4) - 0.03).abs() < 1e-9);
    }

    #[test]
    fn judged_by_the_worst() {
        let judged = Judgement::of(vec![(0.011, 0.010), (0.5, 0.4), (0.2, 0.2)]).unwrap();
        assert_eq!(judged.rates, 3);
        assert!((judged.worst - 0.25).abs() < 1e-9 && (judged.worst_share - 0.1).abs() < 1e-9);
        assert!((judged.median - 0.1).abs() < 1e-9);
        assert_eq!(Judgement::of(vec![]), None);
        assert!(verdict(Some(judged)).contains("not right within 10 %"));
    }

    #[test]
    fn full_by_bisection() {
        assert!((full_at(|pps| 0.5 + pps * 1e-6).unwrap() - 5e5).abs() < 1e-3);
        assert_eq!(full_at(|_| 2.0), Some(0.0));
        assert_eq!(full_at(|_| 0.5), None);
        assert_eq!(full_at(|_| f64::NAN), None);
    }
}

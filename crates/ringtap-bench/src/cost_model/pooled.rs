//! One price list for all of Ringtap's ways to wait in a topology: the regression of \[1] §7.3.1, which varies the poll rate
//! and the packet rate.
//!
//! Owns which receivers are of one kind, and the list. A single receiver whose timer has one rate can't tell t_POH from
//! η_BG; together they can. Predictions for a rate are `core_use`'s.

use super::core_use::{FULL, Judgement, KEEPS_UP, RIGHT_WITHIN, verdict};
use super::parameter;
use super::points::{Curve, Point, Wakes, held_back};
use super::regression::{Regression, Row};
use crate::book::{Fit, FitPoint, Topology};

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
    /// Receiver, point, its wake-ups, held back.
    points: Vec<(String, Point, Wakes, bool)>,
    prices: Prices,
    regression: Regression,
}

/// What a wake-up costs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Prices {
    /// The same whatever woke and however long the sleep was.
    One,
    /// By cause, and more after a long sleep.
    ByCause,
}

impl Prices {
    /// Name, unit and scale of each column; the constant first.
    fn columns(self) -> &'static [(&'static str, &'static str, f64)] {
        match self {
            Self::One => &[("η_BG", "%", 100.0), ("t_POH", "µs", 1e6), ("t_PP", "ns", 1e9)],
            Self::ByCause => &[
                ("η_BG", "%", 100.0),
                ("t_interrupt", "µs", 1e6),
                ("t_PP", "ns", 1e9),
                ("t_timer", "µs", 1e6),
                ("s_interrupt", "10⁻⁶·√s", 1e6),
                ("s_timer", "10⁻⁶·√s", 1e6),
            ],
        }
    }

    fn row(self, point: &Point, wakes: Wakes) -> Row {
        let Wakes { timer, interrupt } = wakes;
        let (x, weight) = match self {
            Self::One => (vec![1.0, wakes.all(), point.received_pps], 1.0),
            Self::ByCause => {
                let x = vec![1.0, interrupt, point.received_pps, timer, interrupt.sqrt(), timer.sqrt()];
                (x, 1.0 / (point.core * point.core))
            }
        };
        Row { x, y: point.core, weight }
    }
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
            let usable: Vec<(&Point, Wakes)> = (curve.points.iter())
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
        let solved = |prices: Prices| {
            let fitted = points.iter().filter(|(.., held)| !held);
            let rows: Vec<Row> = fitted.map(|(_, point, wakes, _)| prices.row(point, *wakes)).collect();
            let regression = Regression::non_negative(&rows)?;
            let squares: f64 = rows.iter().map(|row| (regression.predict(&row.x) / row.y - 1.0).powi(2)).sum();
            Some(((squares / rows.len() as f64).sqrt(), prices, regression))
        };
        // One price while that is right; by the fitted points alone.
        let one = solved(Prices::One).filter(|(.., regression)| regression.kept.contains(&INTERRUPT))?;
        let by_cause = (one.0 > RIGHT_WITHIN).then(|| solved(Prices::ByCause)).flatten();
        let (_, prices, regression) = by_cause.filter(|(error, ..)| *error < one.0).unwrap_or(one);
        Some(Self { topology, points, prices, regression })
    }

    /// The topology of the prices.
    pub(super) fn topology(&self) -> Topology {
        self.topology
    }

    /// Time per interrupt and its 95 % interval, seconds; `None` where it has no single price.
    pub(super) fn per_interrupt(&self) -> Option<(f64, f64, f64)> {
        let Regression { kept, coefficients, .. } = &self.regression;
        let single = self.prices == Prices::One || !kept.contains(&LONG_SLEEP);
        let (low, high) = self.regression.interval(INTERRUPT);
        (single && kept.contains(&INTERRUPT)).then(|| (coefficients[INTERRUPT], low, high))
    }

    /// For the book, in percent of the core.
    pub(super) fn fit(&self) -> Fit {
        let predicted = |point: &Point, wakes: Wakes| self.regression.predict(&self.prices.row(point, wakes).x);
        let held = self.points.iter().filter(|(.., held)| *held);
        let judgement =
            Judgement::of(held.map(|(_, point, wakes, _)| (predicted(point, *wakes), point.core)).collect());
        let parameters = self.regression.kept.iter().map(|&column| {
            let (name, unit, scale) = self.prices.columns()[column];
            let (low, high) = self.regression.interval(column);
            parameter(name, unit, (self.regression.coefficients[column], low, high), scale)
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
                "{} on the medians of the rounds of all receivers together, f_poll as measured; {}",
                match self.prices {
                    Prices::One =>
                        "η = t_POH·f_poll + t_PP·f_pkt + η_BG ([1] Eqn. 7.1), one price for every wake-up; ordinary least squares",
                    Prices::ByCause =>
                        "η = t_timer·f_timer + s_timer·√f_timer + t_interrupt·f_interrupt + s_interrupt·√f_interrupt + t_PP·f_pkt \
                         + η_BG, as one price for every wake-up is wrong by more than 10 %; terms not listed are 0; least \
                         relative squares",
                },
                verdict(judgement)
            ),
            parameters: parameters.collect(),
            r_squared: self.regression.r_squared,
            points: points.collect(),
        }
    }
}

/// Column of the time per interrupt: f_poll, or f_interrupt where causes have their own.
const INTERRUPT: usize = 1;
/// Column of √f_interrupt in [`Prices::ByCause`].
const LONG_SLEEP: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost_model::points::curves;
    use crate::cost_model::synthetic::{book_of, waiting};

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
        let (value, low, high) = pooled.per_interrupt().expect("one price");
        assert!(low <= 8e-6 && 8e-6 <= high && (value / 8e-6 - 1.0).abs() < 0.05, "{value} {low} {high}");
        let fit = pooled.fit();
        assert_eq!(fit.parameters.len(), 3);
        assert!(fit.formula.contains("right within 10 %") && !fit.formula.contains("not right"), "{}", fit.formula);
        assert!(Pooled::of(&curves, Topology::Host).is_none());
    }

    #[test]
    fn causes_with_prices_of_their_own_are_told_apart() {
        // 12 µs a timer wake-up, 2 µs an interrupt: one price is wrong.
        let mut samples = waiting("timer 1ms", Topology::Nic, 0.01, 12e-6, 20e-9, |_| 1_100.0);
        samples.extend(waiting("timer 250us", Topology::Nic, 0.01, 12e-6, 20e-9, |_| 4_400.0));
        let mut interrupts = waiting("interrupt", Topology::Nic, 0.01, 2e-6, 20e-9, |pps| pps.min(50_000.0));
        for sample in &mut interrupts {
            sample.interrupt_wakes = sample.timer_wakes.replace(0);
        }
        samples.extend(interrupts);
        let pooled = Pooled::of(&curves(&book_of(samples)), Topology::Nic).expect("a fit");
        assert_eq!(pooled.prices, Prices::ByCause);
        let fit = pooled.fit();
        let price = |name: &str| fit.parameters.iter().find(|of| of.name == name).map_or(0.0, |of| of.value);
        // Part of a price may show as its long sleep; at 4400 and 50 000 a second both together are known.
        let timer = price("t_timer") + price("s_timer") / 4_400_f64.sqrt();
        let interrupt = price("t_interrupt") + price("s_interrupt") / 50_000_f64.sqrt();
        assert!((timer / 12.0 - 1.0).abs() < 0.1 && (interrupt / 2.0 - 1.0).abs() < 0.1, "{fit:?}");
        assert!(fit.formula.contains("right within 10 %") && !fit.formula.contains("not right"), "{}", fit.formula);
    }
}

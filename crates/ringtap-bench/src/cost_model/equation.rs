//! Sets of terms for core use, solved: which is chosen, and what it says of a rate.
//!
//! Owns the columns and the choice among them. Which points are fitted and which judge is `core_use`'s.

use super::core_use::RIGHT_WITHIN;
use super::points::{Point, Wakes};
use super::regression::{Regression, Row};

/// The poll rate must vary by this share of its mean (one standard deviation), or a wake-up's price is noise: a timer's
/// receiver wakes at one rate, and what that costs is part of its constant.
const LEAST_VARIATION: f64 = 0.10;

/// What is added to the three terms of \[1] Eqn. 5.4.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Extra {
    None,
    /// √f_poll: on a virtual machine a wake-up costs the more the longer the sleep before it was.
    Sleep,
    /// √f_pkt: work per batch, and caches that are cold at low rates.
    Batch,
}

/// One set of terms, solved for some points.
#[derive(Debug, Clone)]
pub(super) struct Equation {
    /// Whether the poll rate is a term.
    pub polled: bool,
    pub extra: Extra,
    /// Least relative squares instead of ordinary ones.
    pub relative: bool,
    pub regression: Regression,
    /// (rate, wake-ups per second) of the points; empty unless `polled`.
    wakes: Vec<(f64, f64)>,
    /// (rate, measured / equation) of the points, where predictions follow them.
    pub follows: Option<Vec<(f64, f64)>>,
}

impl Equation {
    /// The plain equation (\[1] Eqn. 5.4) if it is right within [`RIGHT_WITHIN`] (root mean square of the relative errors, each inner
    /// point foretold from the others, the outermost two as fitted); else the set of terms that does best at this. The
    /// held-back points are for judging and have no say here.
    pub(super) fn chosen(points: &[&Point]) -> Option<Self> {
        let polled = varied(points.iter().map(|point| point.wakes.map(Wakes::all)).collect());
        let mut extras = vec![Extra::None, Extra::Batch];
        extras.extend(polled.then_some(Extra::Sleep));
        let mut best: Option<(f64, Self)> = None;
        for (extra, follow) in extras.into_iter().flat_map(|extra| [(extra, false), (extra, extra == Extra::None)]) {
            for relative in [false, true] {
                let solve = |points: &[&Point]| Self::of(points, polled, extra, relative, follow);
                let Some(equation) = solve(points) else { continue };
                let error_at = |at: usize| {
                    let inner = at > 0 && at + 1 < points.len();
                    let others = inner.then(|| [&points[..at], &points[at + 1..]].concat());
                    let of_others = others.map_or_else(|| Some(equation.clone()), |others| solve(&others))?;
                    Some((of_others.share(points[at].received_pps) / points[at].core - 1.0).powi(2))
                };
                let squares: Option<f64> = (0..points.len()).map(error_at).sum();
                let error = squares.map_or(f64::MAX, |squares| (squares / points.len() as f64).sqrt());
                if best.as_ref().is_none_or(|(least, _)| *least > RIGHT_WITHIN && error < *least) {
                    best = Some((error, equation));
                }
            }
        }
        best.map(|(_, equation)| equation)
    }

    fn of(points: &[&Point], polled: bool, extra: Extra, relative: bool, follow: bool) -> Option<Self> {
        let rows: Vec<Row> = points.iter().map(|point| row(point, polled, extra, relative)).collect();
        let regression = Regression::non_negative(&rows)?;
        let last = rows[0].x.len() - 1;
        if extra != Extra::None && !regression.kept.contains(&last) {
            // Nothing was added: this is the plain equation again.
            return None;
        }
        let wakes = |point: &&Point| Some((point.received_pps, point.wakes.filter(|_| polled)?.all()));
        let ratio = |(point, row): (&&Point, &Row)| (point.received_pps, point.core / regression.predict(&row.x));
        let follows: Option<Vec<(f64, f64)>> = follow.then(|| points.iter().zip(&rows).map(ratio).collect());
        // Where only wake-ups have a price, a point without any is foretold as nothing.
        if follows.iter().flatten().any(|(_, ratio)| !ratio.is_finite()) {
            return None;
        }
        Some(Self { polled, extra, relative, follows, wakes: points.iter().filter_map(wakes).collect(), regression })
    }

    /// Row of the regression at `pps`.
    pub(super) fn columns_at(&self, pps: f64) -> Vec<f64> {
        columns(pps, self.polled.then(|| between(&self.wakes, pps).unwrap_or(0.0)), self.extra)
    }

    /// Factor by which the measurements around `pps` lie above the equation; 1 where predictions don't follow them.
    pub(super) fn followed_at(&self, pps: f64) -> f64 {
        self.follows.as_ref().and_then(|points| between(points, pps)).unwrap_or(1.0)
    }

    /// Share of the core at `pps`.
    pub(super) fn share(&self, pps: f64) -> f64 {
        self.regression.predict(&self.columns_at(pps)) * self.followed_at(pps)
    }
}

/// The ordinate at `x` of `points` that ascend: on a straight line in logarithms between two of them, as at the outermost
/// beyond. `None` without points.
fn between(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    if x <= first.0 {
        return Some(first.1);
    }
    let Some(pair) = points.windows(2).find(|pair| x <= pair[1].0) else { return Some(last.1) };
    let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
    if x0 <= 0.0 || x1 <= x0 {
        return Some(y1);
    }
    let along = (x / x0).ln() / (x1 / x0).ln();
    Some(if y0 > 0.0 && y1 > 0.0 { y0 * (y1 / y0).powf(along) } else { y0 + (y1 - y0) * along })
}

/// The constant comes first: what can't be told from it is part of it.
fn columns(pps: f64, wakes: Option<f64>, extra: Extra) -> Vec<f64> {
    let mut columns = vec![1.0];
    columns.extend(wakes);
    columns.push(pps);
    match extra {
        Extra::None => {}
        Extra::Sleep => columns.push(wakes.unwrap_or(0.0).sqrt()),
        Extra::Batch => columns.push(pps.sqrt()),
    }
    columns
}

/// Whether all told their wake-ups, and these vary by [`LEAST_VARIATION`].
fn varied(wakes: Vec<Option<f64>>) -> bool {
    let Some(wakes) = wakes.into_iter().collect::<Option<Vec<f64>>>() else { return false };
    let mean = wakes.iter().sum::<f64>() / wakes.len() as f64;
    let variance = wakes.iter().map(|wakes| (wakes - mean).powi(2)).sum::<f64>() / wakes.len() as f64;
    mean > 0.0 && variance.sqrt() >= LEAST_VARIATION * mean
}

fn row(point: &Point, polled: bool, extra: Extra, relative: bool) -> Row {
    let wakes = polled.then(|| point.wakes.map_or(0.0, Wakes::all));
    let weight = if relative { 1.0 / (point.core * point.core) } else { 1.0 };
    Row { x: columns(point.received_pps, wakes, extra), y: point.core, weight }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_points() {
        let points = [(10.0, 1.0), (1_000.0, 100.0), (2_000.0, 0.0)];
        assert_eq!(between(&points, 1.0), Some(1.0));
        assert!((between(&points, 100.0).unwrap() - 10.0).abs() < 1e-9, "straight in logarithms");
        assert_eq!(between(&points, 2_000.0), Some(0.0));
        assert_eq!(between(&points, 9_000.0), Some(0.0));
        assert_eq!(between(&[], 1.0), None);
    }
}

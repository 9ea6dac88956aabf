//! Medians of repetitions with their extremes, and samples grouped into lines of a plot.
//!
//! Owns the rule that a figure is the median over rounds and never a mean; which samples belong together is said by callers.

use std::collections::BTreeMap;

use crate::book::Sample;

use super::number::NONE;

/// Repetitions of one measurement. Finite always.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many there are.
    pub rounds: usize,
}

impl Spread {
    /// Of those that are finite; `None` when none is.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (lower, upper) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        // Halved before they are added: two of the greatest must not overflow.
        Some(Self { median: lower / 2.0 + upper / 2.0, min, max, rounds: values.len() })
    }

    /// `2.16 (1.66–4.44)`, or the median alone where nothing else would be seen.
    pub fn text(&self, write: impl Fn(f64) -> String) -> String {
        let (median, min, max) = (write(self.median), write(self.min), write(self.max));
        if min == max { median } else { format!("{median} ({min}–{max})") }
    }

    /// [`Spread::text`], or `–`.
    pub fn or_none(spread: Option<Self>, write: impl Fn(f64) -> String) -> String {
        spread.map_or_else(|| NONE.into(), |spread| spread.text(write))
    }
}

/// One abscissa of one line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Abscissa.
    pub x: f64,
    /// Ordinate.
    pub y: Spread,
}

/// What was measured of one receiver, by abscissa ascending. Lines come in the order given by `order`.
pub fn lines<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
    order: &[String],
    x: impl Fn(&Sample) -> f64,
    y: impl Fn(&Sample) -> Option<f64>,
) -> Vec<(String, Vec<Point>)> {
    let mut groups: BTreeMap<&str, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for sample in samples {
        let abscissa = x(sample);
        // Bits of positive floats are in the order of the floats.
        if let Some(value) = y(sample).filter(|_| abscissa.is_finite() && abscissa >= 0.0) {
            let abscissa = (abscissa + 0.0).to_bits();
            groups.entry(&sample.receiver).or_default().entry(abscissa).or_default().push(value);
        }
    }
    let line = |receiver: &String| {
        let points: Vec<Point> = groups
            .get(receiver.as_str())?
            .iter()
            .filter_map(|(x, values)| Some(Point { x: f64::from_bits(*x), y: Spread::of(values.iter().copied())? }))
            .collect();
        (!points.is_empty()).then(|| (receiver.clone(), points))
    };
    order.iter().filter_map(line).collect()
}

/// `part` of `whole` in percent; `None` for nothing of nothing.
pub fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::number::plain;
    use super::*;

    #[test]
    fn median_and_extremes() {
        let odd = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max, odd.rounds), (2.0, 1.0, 3.0, 3));
        assert_eq!(Spread::of([1.0, 2.0, 4.0, 9.0]).unwrap().median, 3.0);
        assert_eq!(Spread::of([f64::MAX, f64::MAX]).unwrap().median, f64::MAX);
        assert_eq!(odd.text(plain), "2 (1–3)");
    }

    #[test]
    fn only_finite_values_count() {
        assert_eq!(Spread::of([f64::NAN, f64::INFINITY]), None);
        assert_eq!(Spread::of([f64::NAN, 5.0]).unwrap().text(plain), "5");
    }
}

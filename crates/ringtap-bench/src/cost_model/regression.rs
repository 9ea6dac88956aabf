//! Least squares with non-negative coefficients, and their confidence intervals.
//!
//! Owns the arithmetic. Does not own what the columns mean. Problems are tiny (at most eight columns, a few dozen rows), so
//! the normal equations of columns scaled to length 1 are solved by Cholesky, and every subset of columns is tried: that
//! makes the non-negative solution exact without an iteration that could fail to end.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A column whose part that the other columns don't explain is less than this share of its length (squared) can't be told
/// from them: its price would be noise. 1e-4 asks for a deviation of 1 % of the length.
const LEAST_PIVOT: f64 = 1e-4;
/// A larger set of columns must lower the sum of squares by this factor to be taken.
const WORTH_A_COLUMN: f64 = 0.999;
/// Subsets are enumerated, so columns are few.
const MOST_COLUMNS: usize = 8;

/// One observation.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// One value per column.
    pub x: Vec<f64>,
    /// What was measured.
    pub y: f64,
    /// Of the squared residual; 1 for ordinary least squares, 1/y² for least relative errors.
    pub weight: f64,
}

/// A solved problem.
#[derive(Debug, Clone)]
pub(super) struct Regression {
    /// One per column; 0 for a column left out.
    pub coefficients: Vec<f64>,
    /// Columns that were kept, ascending.
    pub kept: Vec<usize>,
    /// Share of the variance of y explained, without weights; `None` where y does not vary.
    pub r_squared: Option<f64>,
    /// (XᵀWX)⁻¹ of the kept columns.
    inverse: Vec<Vec<f64>>,
    /// Weighted sum of squared residuals over the degrees of freedom.
    variance: f64,
    /// Half-width of the 95 % interval in standard errors.
    quantile: f64,
}

impl Regression {
    /// The least weighted sum of squares with all coefficients ≥ 0, columns left out where that needs it or where they
    /// can't be told apart (then the earlier column stays). `None` without a degree of freedom left, for values that are
    /// not finite, for weights that are not positive, and where no column helps.
    pub(super) fn non_negative(rows: &[Row]) -> Option<Self> {
        let columns = rows.first()?.x.len();
        let sound = |row: &Row| {
            row.x.len() == columns
                && row.x.iter().all(|x| x.is_finite())
                && row.y.is_finite()
                && row.weight.is_finite()
                && row.weight > 0.0
        };
        if columns == 0 || columns > MOST_COLUMNS || !rows.iter().all(sound) {
            return None;
        }
        let noise = rows.iter().map(|row| row.weight * row.y * row.y).sum::<f64>() * 1e-20;
        let mut independent = Vec::new();
        for column in 0..columns {
            independent.push(column);
            if gram(rows, &independent).and_then(|(gram, _)| invert(&gram)).is_none() {
                independent.pop();
            }
        }
        let mut subsets: Vec<u32> = (1..1 << independent.len()).collect();
        // Small sets first; among equals the one with the earliest columns.
        subsets.sort_by_key(|&set| (set.count_ones(), set));
        let mut best: Option<(f64, Self)> = None;
        for set in subsets {
            let kept =
                independent.iter().enumerate().filter(|(bit, _)| set & (1 << bit) != 0).map(|(_, &column)| column);
            let Some((squares, fit)) = Self::of_columns(rows, kept.collect()) else { continue };
            let better =
                best.as_ref().is_none_or(|(least, _)| squares < least * WORTH_A_COLUMN && squares + noise < *least);
            if better && fit.coefficients.iter().all(|&value| value >= 0.0) {
                best = Some((squares, fit));
            }
        }
        best.map(|(_, fit)| fit)
    }

    /// Unconstrained, of the columns `kept`: with its weighted sum of squared residuals.
    fn of_columns(rows: &[Row], kept: Vec<usize>) -> Option<(f64, Self)> {
        let size = kept.len();
        let freedom = rows.len().checked_sub(size).filter(|&freedom| freedom > 0)? as f64;
        let sum = |of: &dyn Fn(&Row) -> f64| rows.iter().map(|row| row.weight * of(row)).sum::<f64>();
        let (gram, lengths) = gram(rows, &kept)?;
        let mut inverse = invert(&gram)?;
        for (a, line) in inverse.iter_mut().enumerate() {
            for (b, value) in line.iter_mut().enumerate() {
                *value /= lengths[a] * lengths[b];
            }
        }
        let moments: Vec<f64> = kept.iter().map(|&i| sum(&|row| row.x[i] * row.y)).collect();
        let mut coefficients = vec![0.0; rows[0].x.len()];
        for (a, line) in inverse.iter().enumerate() {
            coefficients[kept[a]] = line.iter().zip(&moments).map(|(i, m)| i * m).sum();
        }
        let residual = |row: &Row| row.y - dot(&coefficients, &row.x);
        let squares = sum(&|row| residual(row).powi(2));
        let mean = rows.iter().map(|row| row.y).sum::<f64>() / rows.len() as f64;
        let spread: f64 = rows.iter().map(|row| (row.y - mean).powi(2)).sum();
        let unexplained: f64 = rows.iter().map(|row| residual(row).powi(2)).sum();
        let r_squared = (spread > 1e-20 * mean * mean * rows.len() as f64).then(|| 1.0 - unexplained / spread);
        let quantile = student_t_975(freedom)?;
        let finite = squares.is_finite() && coefficients.iter().all(|value| value.is_finite());
        finite.then_some((
            squares,
            Self { coefficients, kept, r_squared, inverse, variance: squares / freedom, quantile },
        ))
    }

    /// What the model says of `x`.
    pub(super) fn predict(&self, x: &[f64]) -> f64 {
        dot(&self.coefficients, x)
    }

    /// 95 % confidence interval of the coefficient of `column`; (0, 0) for one left out.
    pub(super) fn interval(&self, column: usize) -> (f64, f64) {
        let value = self.coefficients.get(column).copied().unwrap_or(0.0);
        let position = self.kept.iter().position(|&kept| kept == column);
        let half = position.map_or(0.0, |at| self.quantile * (self.variance * self.inverse[at][at]).max(0.0).sqrt());
        (value - half, value + half)
    }

    /// 95 % interval of one new measurement at `x` that would weigh `weight`.
    pub(super) fn prediction_interval(&self, x: &[f64], weight: f64) -> (f64, f64) {
        let mut leverage = 0.0;
        for (a, line) in self.inverse.iter().enumerate() {
            for (b, value) in line.iter().enumerate() {
                leverage += x[self.kept[a]] * value * x[self.kept[b]];
            }
        }
        let own = if weight > 0.0 { 1.0 / weight } else { 0.0 };
        let half = self.quantile * (self.variance * (own + leverage)).max(0.0).sqrt();
        let value = self.predict(x);
        (value - half, value + half)
    }
}

/// 97.5 % quantile of Student's t with `freedom` degrees of freedom.
pub(super) fn student_t_975(freedom: f64) -> Option<f64> {
    StudentsT::new(0.0, 1.0, freedom).ok().map(|t| t.inverse_cdf(0.975)).filter(|t| t.is_finite())
}

/// Mean of `values` and its 95 % confidence interval; `None` for fewer than two or values that are not finite.
pub(super) fn mean_interval(values: &[f64]) -> Option<(f64, f64, f64)> {
    let rows: Vec<Row> = values.iter().map(|&y| Row { x: vec![1.0], y, weight: 1.0 }).collect();
    let (_, fit) = Regression::of_columns(&rows, vec![0]).filter(|(squares, _)| squares.is_finite())?;
    let (low, high) = fit.interval(0);
    Some((fit.coefficients[0], low, high))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// XᵀWX of the columns `kept`, each scaled to length 1, and the lengths; `None` for a column of zeros.
fn gram(rows: &[Row], kept: &[usize]) -> Option<(Vec<Vec<f64>>, Vec<f64>)> {
    let product = |a: usize, b: usize| rows.iter().map(|row| row.weight * row.x[a] * row.x[b]).sum::<f64>();
    let lengths: Vec<f64> = kept.iter().map(|&column| product(column, column).sqrt()).collect();
    if lengths.iter().any(|&length| !length.is_finite() || length <= 0.0) {
        return None;
    }
    let line = |(&a, &of_a): (&usize, &f64)| {
        kept.iter().zip(&lengths).map(|(&b, &of_b)| product(a, b) / of_a / of_b).collect::<Vec<f64>>()
    };
    Some((kept.iter().zip(&lengths).map(line).collect(), lengths))
}

/// Inverse of a symmetric matrix with ones on its diagonal, by Cholesky; `None` where columns depend on each other.
fn invert(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    let mut lower = vec![vec![0.0; size]; size];
    for i in 0..size {
        for j in 0..=i {
            let rest = matrix[i][j] - dot(&lower[i][..j], &lower[j][..j]);
            if i != j {
                lower[i][j] = rest / lower[j][j];
            } else if rest > LEAST_PIVOT {
                lower[i][i] = rest.sqrt();
            } else {
                // Also for NaN.
                return None;
            }
        }
    }
    // Column by column of the unit matrix: forward, then backward.
    let mut inverse = vec![vec![0.0; size]; size];
    for unit in 0..size {
        let mut column = vec![0.0; size];
        for i in 0..size {
            let right = if i == unit { 1.0 } else { 0.0 };
            column[i] = (right - dot(&lower[i][..i], &column[..i])) / lower[i][i];
        }
        for i in (0..size).rev() {
            let above: f64 = (i + 1..size).map(|k| lower[k][i] * column[k]).sum();
            column[i] = (column[i] - above) / lower[i][i];
        }
        for (line, value) in inverse.iter_mut().zip(&column) {
            line[unit] = *value;
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(points: &[(&[f64], f64)]) -> Vec<Row> {
        points.iter().map(|&(x, y)| Row { x: x.to_vec(), y, weight: 1.0 }).collect()
    }

    fn close(a: f64, b: f64, relative: f64) -> bool {
        (a - b).abs() <= relative * a.abs().max(b.abs()).max(1e-12)
    }

    #[test]
    fn students_t_as_printed_in_tables() {
        for (freedom, printed) in
            [(1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (10.0, 2.228), (30.0, 2.042), (120.0, 1.980)]
        {
            let t = student_t_975(freedom).unwrap();
            assert!((t - printed).abs() < 6e-4, "{freedom}: {t}");
        }
        assert_eq!(student_t_975(0.0), None);
        assert_eq!(student_t_975(f64::NAN), None);
    }

    #[test]
    fn a_line_by_hand() {
        // x = 1, 2, 3, 4; y = 2, 3, 5, 6: slope Sxy/Sxx = 7/5, intercept 4 − 1.4·2.5 = 0.5.
        // Residuals 0.1, −0.3, 0.3, −0.1: SSE 0.2, s² = 0.1, se(slope) = √(0.1/5) = 0.141421, t(2) = 4.302653.
        // se(intercept) = √(0.1·(1/4 + 6.25/5)) = 0.387298. SST = 10, R² = 0.98.
        let fit = Regression::non_negative(&rows(&[
            (&[1.0, 1.0], 2.0),
            (&[1.0, 2.0], 3.0),
            (&[1.0, 3.0], 5.0),
            (&[1.0, 4.0], 6.0),
        ]))
        .unwrap();
        assert!(close(fit.coefficients[0], 0.5, 1e-9) && close(fit.coefficients[1], 1.4, 1e-9), "{fit:?}");
        let (low, high) = fit.interval(1);
        assert!(close(low, 1.4 - 4.302_653 * 0.141_421_36, 1e-6), "{low}");
        assert!(close(high, 1.4 + 4.302_653 * 0.141_421_36, 1e-6), "{high}");
        let (low, _) = fit.interval(0);
        assert!(close(low, 0.5 - 4.302_653 * 0.387_298_33, 1e-6), "{low}");
        assert!(close(fit.r_squared.unwrap(), 0.98, 1e-9));
        // A new measurement at x = 5: 7.5 ± t·√(0.1·(1 + 1/4 + 6.25/5)) = 7.5 ± 4.302653·0.5.
        let (low, high) = fit.prediction_interval(&[1.0, 5.0], 1.0);
        assert!(close(low, 7.5 - 4.302_653 * 0.5, 1e-6) && close(high, 7.5 + 4.302_653 * 0.5, 1e-6), "{low} {high}");
    }

    #[test]
    fn weights_count_as_repetitions() {
        // Weight 3 on one row finds the coefficients of that row three times over.
        let mut weighted = rows(&[(&[1.0, 0.0], 1.0), (&[1.0, 1.0], 3.0), (&[1.0, 2.0], 4.0)]);
        weighted[2].weight = 3.0;
        let repeated =
            rows(&[(&[1.0, 0.0], 1.0), (&[1.0, 1.0], 3.0), (&[1.0, 2.0], 4.0), (&[1.0, 2.0], 4.0), (&[1.0, 2.0], 4.0)]);
        let (weighted, repeated) =
            (Regression::non_negative(&weighted).unwrap(), Regression::non_negative(&repeated).unwrap());
        for (a, b) in weighted.coefficients.iter().zip(&repeated.coefficients) {
            assert!(close(*a, *b, 1e-9));
        }
    }

    #[test]
    fn a_negative_price_is_left_out() {
        // The best line falls; without the slope the best is the mean, 2.
        let fit =
            Regression::non_negative(&rows(&[(&[1.0, 0.0], 3.0), (&[1.0, 1.0], 2.0), (&[1.0, 2.0], 1.0)])).unwrap();
        assert_eq!(fit.kept, [0]);
        assert!(close(fit.coefficients[0], 2.0, 1e-9));
        assert_eq!(fit.interval(1), (0.0, 0.0));
    }

    #[test]
    fn a_column_like_another_is_left_out() {
        // The second column is five times the first, within 0.1 %: only the first is priced.
        let fit = Regression::non_negative(&rows(&[
            (&[1.0, 5.0, 0.0], 2.0),
            (&[1.0, 5.005, 1.0], 3.1),
            (&[1.0, 4.995, 2.0], 3.9),
            (&[1.0, 5.0, 3.0], 5.0),
        ]))
        .unwrap();
        assert_eq!(fit.kept, [0, 2]);
    }

    #[test]
    fn too_little_is_no_fit() {
        assert!(Regression::non_negative(&[]).is_none());
        assert!(Regression::non_negative(&rows(&[(&[1.0], 1.0)])).is_none(), "one point has no freedom");
        assert!(Regression::non_negative(&rows(&[(&[f64::NAN], 1.0), (&[1.0], 1.0)])).is_none());
        assert!(Regression::non_negative(&rows(&[(&[1.0], f64::INFINITY), (&[1.0], 1.0)])).is_none());
        assert!(Regression::non_negative(&rows(&[(&[0.0], 1.0), (&[0.0], 1.0)])).is_none(), "a column of zeros");
        assert!(Regression::non_negative(&rows(&[(&[1.0], 1.0), (&[1.0, 2.0], 1.0)])).is_none(), "ragged");
        assert_eq!(mean_interval(&[1.0]), None);
        assert_eq!(mean_interval(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn a_constant_has_no_r_squared() {
        let fit = Regression::non_negative(&rows(&[(&[1.0], 0.1), (&[1.0], 0.1), (&[1.0], 0.1)])).unwrap();
        assert_eq!(fit.r_squared, None);
        assert!(close(fit.coefficients[0], 0.1, 1e-12));
    }

    /// In 2000 experiments with a known price and normal errors, the 95 % interval holds the price in 95 %, give or take
    /// four standard errors of that share (0.5 %).
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        const EXPERIMENTS: u32 = 2_000;
        let mut state = 1_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1_u64 << 24) as f64
        };
        let held = (0..EXPERIMENTS).filter(|_| {
            let rows: Vec<Row> = (1..=7)
                .map(|step| {
                    let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
                    Row { x: vec![1.0, f64::from(step)], y: 3.0 + 2.0 * f64::from(step) + 0.1 * normal, weight: 1.0 }
                })
                .collect();
            let (low, high) = Regression::non_negative(&rows).unwrap().interval(1);
            low <= 2.0 && 2.0 <= high
        });
        let share = held.count() as f64 / f64::from(EXPERIMENTS);
        assert!((share - 0.95).abs() < 0.02, "{share}");
    }

    #[test]
    fn the_mean_by_hand() {
        // 1, 2, 3: mean 2, s = 1, t(2)/√3 = 2.484138.
        let (mean, low, high) = mean_interval(&[1.0, 2.0, 3.0]).unwrap();
        assert!(close(mean, 2.0, 1e-9) && close(low, 2.0 - 2.484_138, 1e-5) && close(high, 2.0 + 2.484_138, 1e-5));
    }

    proptest! {
        /// Exact data give their coefficients back, whatever the scales.
        #[test]
        fn exact_data_are_recovered(
            base in 1e-3_f64..1e-1, slope in 1e-9_f64..1e-6, price in 1e-6_f64..1e-4,
            xs in proptest::collection::vec((1e3_f64..1e6, 1e2_f64..1e4), 6..20),
        ) {
            let rows: Vec<Row> = xs.iter()
                .map(|&(f, p)| Row { x: vec![1.0, f, p], y: base + slope * f + price * p, weight: 1.0 })
                .collect();
            let fit = Regression::non_negative(&rows).unwrap();
            for row in &rows {
                // A column that hardly matters may be left out; then the others carry it.
                prop_assert!(close(fit.predict(&row.x), row.y, 0.05), "{:?} {:?}", fit, row);
            }
            if fit.kept.len() == 3 {
                prop_assert!(close(fit.coefficients[1], slope, 1e-4) && close(fit.coefficients[2], price, 1e-4));
            }
        }

        /// Nothing panics, no coefficient is negative or not finite, whatever is put in.
        #[test]
        fn nonsense_is_survived(
            values in proptest::collection::vec(proptest::collection::vec(any::<f64>(), 4), 0..8),
        ) {
            let rows: Vec<Row> = values.iter()
                .map(|v| Row { x: v[..3].to_vec(), y: v[3], weight: 1.0 })
                .collect();
            if let Some(fit) = Regression::non_negative(&rows) {
                prop_assert!(fit.coefficients.iter().all(|&c| c >= 0.0 && c.is_finite()));
                let (low, high) = fit.interval(0);
                prop_assert!(low <= high || low.is_nan());
            }
        }
    }
}

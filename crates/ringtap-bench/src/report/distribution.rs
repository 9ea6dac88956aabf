//! How delays are distributed: the share of packets that took longer, by delay (\[1] Fig. 7.5–7.12).

use std::collections::BTreeMap;

use crate::book::{Delays, Sample};

use super::look::Looks;
use super::number::{NONE, count, plain, si};
use super::plot::{Axis, Join, Plot, Size};
use super::scale::Kind;
use super::spread::{Point, Spread};
use super::sweep::{drawn, reference_rate};
use super::table::Table;
use super::{Drawing, Figure};

/// Share of packets that took longer, at the reference rate, all rounds together.
pub fn figure(samples: &[&Sample], looks: &Looks, prefix: &str) -> Option<Figure> {
    let with_delivery: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.delivery.is_some()).collect();
    let rate = reference_rate(&with_delivery)?;
    let mut lines = Vec::new();
    let mut table = Table::new(
        format!("delivery latency at {} packets/s, µs, median over rounds; worst of all rounds", si(rate)),
        ["receiver", "packets", "mean", "p50", "p98", "p99", "p99.9", "worst"],
    );
    for receiver in looks.names() {
        let delays: Vec<&Delays> = with_delivery
            .iter()
            .filter(|sample| sample.receiver == *receiver && sample.offered_pps == rate)
            .filter_map(|sample| sample.delivery.as_ref())
            .collect();
        let points = exceedance(&delays);
        if points.is_empty() {
            continue;
        }
        let median = |value: fn(&Delays) -> f64| Spread::of(delays.iter().map(|delays| value(delays)));
        let mut row =
            vec![receiver.clone(), count(delays.iter().map(|delays| delays.count).fold(0, u64::saturating_add))];
        let quantiles: [fn(&Delays) -> f64; 5] = [|d| d.mean, |d| d.p50, |d| d.p98, |d| d.p99, |d| d.p999];
        row.extend(quantiles.map(|value| median(value).map_or_else(|| NONE.into(), |spread| plain(spread.median))));
        row.push(median(|delays| delays.max).map_or_else(|| NONE.into(), |spread| plain(spread.max)));
        table.rows.push(row);
        lines.push((receiver.clone(), points));
    }
    let plot = Plot {
        x: Axis::new("delivery latency, µs", Kind::Log, plain),
        y: Axis::new("share of packets that took longer", Kind::Log, plain),
        join: Join::Steps,
        lines: drawn(lines, looks),
        rules: Vec::new(),
        size: Size::REPORT,
    };
    (!plot.is_empty()).then(|| Figure {
        id: format!("{prefix}-delivery-distribution"),
        title: format!("Delivery latency, distribution at {} packets/s", si(rate)),
        caption: "Share of packets that took longer than the abscissa, all rounds together: the tail is what a time bound is about ([1] Fig. 7.5–7.11).".into(),
        drawing: Drawing::Plot(plot),
        table,
    })
}

/// From histograms of the same kind of delay: (upper edge, share above it), until nothing is above.
pub(super) fn exceedance(delays: &[&Delays]) -> Vec<Point> {
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    for (edge, count) in delays.iter().flat_map(|delays| &delays.histogram) {
        if edge.is_finite() && *edge > 0.0 {
            let bucket = buckets.entry(edge.to_bits()).or_default();
            *bucket = bucket.saturating_add(*count);
        }
    }
    let total = buckets.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let mut above = total;
    let mut points = Vec::new();
    let point = |x, share| Spread::of([share]).map(|y| Point { x, y });
    for (edge, count) in &buckets {
        let edge = f64::from_bits(*edge);
        if points.is_empty() {
            points.extend(point(edge, 1.0));
        }
        above = above.saturating_sub(*count);
        if above > 0 {
            points.extend(point(edge, above as f64 / total as f64));
        } else {
            // The last packets: the line ends where the slowest was.
            points.extend(points.last().copied().and_then(|last: Point| point(edge, last.y.median)));
            break;
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceedance_falls_from_one() {
        let delays = Delays { histogram: vec![(1.0, 90), (2.0, 9), (4.0, 1)], ..Delays::default() };
        let points: Vec<(f64, f64)> = exceedance(&[&delays, &delays]).iter().map(|p| (p.x, p.y.median)).collect();
        assert_eq!(points, [(1.0, 1.0), (1.0, 0.1), (2.0, 0.01), (4.0, 0.01)]);
        assert!(exceedance(&[]).is_empty());
    }
}

//! Past saturation in topology host: loss = 1 − 1/(t_res·r) for r ≥ 1/t_res (\[1] §2, §5.7, §7.3), so what is delivered stays at 1/t_res.
//!
//! Owns t_res of each receiver that was driven past its capacity. A receiver that livelocks delivers less the more is offered:
//! then the prediction is wrong, and the points show by how much.

use super::core_use::CoreUse;
use super::parameter;
use super::points::{Curve, Point, held_back};
use super::regression::mean_interval;
use crate::book::{Fit, FitPoint, Topology};

/// A rate at which more than this is lost is past saturation; less may be the host's theft of the core.
const SATURATED: f64 = 0.05;

/// One fit for each receiver with at least two saturated rates to fit.
pub(super) fn fits(curves: &[Curve], core_uses: &[CoreUse]) -> Vec<Fit> {
    let of_curve = |curve: &Curve| {
        let core_use = core_uses.iter().find(|of| of.receiver == curve.receiver && of.topology == curve.topology);
        fit(curve, core_use)
    };
    curves.iter().filter(|curve| curve.topology == Topology::Host).filter_map(of_curve).collect()
}

fn fit(curve: &Curve, core_use: Option<&CoreUse>) -> Option<Fit> {
    let saturated: Vec<&Point> = curve.points.iter().filter(|point| point.lost > SATURATED).collect();
    let held = |point: &Point| {
        saturated.iter().position(|of| of.pps == point.pps).is_some_and(|at| held_back(at, saturated.len()))
    };
    let delivered: Vec<f64> = saturated.iter().filter(|point| !held(point)).map(|point| point.received_pps).collect();
    let (capacity, low, high) = mean_interval(&delivered).filter(|(capacity, ..)| *capacity > 0.0)?;
    // An interval that reaches down to nothing delivered: no longer than one packet a second.
    let (low, times) = (low.max(0.0), (1.0 / capacity, 1.0 / high, 1.0 / low.max(1.0)));
    let mut parameters =
        vec![parameter("1/t_res", "pps", (capacity, low, high), 1.0), parameter("t_res", "ns", times, 1e9)];
    // What the rates below saturation foretold.
    parameters.extend(core_use.and_then(|core_use| {
        let (low, high) = core_use.bound_interval();
        Some(parameter("1/t_res by core use below saturation", "pps", (core_use.bound()?, low, high), 1.0))
    }));
    let points = curve.points.iter().map(|point| FitPoint {
        label: format!("{:.0} pps, {:.1} % lost, {}", point.pps, point.lost * 100.0, curve.receiver),
        x: point.sent_pps,
        predicted: point.sent_pps.min(capacity),
        measured: point.received_pps,
        held_back: held(point),
    });
    Some(Fit {
        model: "saturation".to_owned(),
        receiver: curve.receiver.clone(),
        topology: curve.topology,
        formula: "delivered = min(r, 1/t_res), that is loss = 1 − 1/(t_res·r) from r = 1/t_res on; 1/t_res is the mean delivered \
                  at the rates with more than 5 % lost; in packets per second, x offered"
            .to_owned(),
        parameters,
        r_squared: None,
        points: points.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Sample;
    use crate::cost_model::points::curves;
    use crate::cost_model::synthetic::{book_of, sample};

    fn driven(topology: Topology, pps: f64, delivered: f64) -> Sample {
        let mut sample = sample("tcpdump", topology, pps, 99.0);
        sample.received = delivered as u64;
        sample.lost = sample.sent - sample.received;
        sample
    }

    #[test]
    fn what_is_delivered_stays() {
        let offered = [(1e5, 1e5), (3e5, 2.6e5), (5e5, 2.5e5), (8e5, 2.5e5), (1e6, 2.4e5)];
        let book = book_of(offered.map(|(pps, delivered)| driven(Topology::Host, pps, delivered)).to_vec());
        let fits = fits(&curves(&book), &[]);
        let [fit] = &fits[..] else { panic!("{fits:?}") };
        // Saturated: 300, 500, 800, 1000 kpps; the second of them is held back.
        assert!((fit.parameters[0].value - (2.6e5 + 2.5e5 + 2.4e5) / 3.0).abs() < 1.0, "{fit:?}");
        assert!((fit.parameters[1].value - 4_000.0).abs() < 1.0);
        let held: Vec<f64> = fit.points.iter().filter(|point| point.held_back).map(|point| point.x).collect();
        assert_eq!(held, [5e5]);
        assert_eq!(fit.points[0].predicted, 1e5, "below saturation everything is delivered");
    }

    #[test]
    fn unsaturated_or_once_saturated_or_nic_is_no_fit() {
        let book = book_of(vec![driven(Topology::Host, 1e5, 1e5), driven(Topology::Host, 3e5, 2e5)]);
        assert!(fits(&curves(&book), &[]).is_empty());
        let book = book_of(vec![driven(Topology::Nic, 4e5, 1e5), driven(Topology::Nic, 3e5, 1e5)]);
        assert!(fits(&curves(&book), &[]).is_empty());
        let book = book_of(vec![driven(Topology::Host, 4e5, 0.0), driven(Topology::Host, 3e5, 0.0)]);
        assert!(fits(&curves(&book), &[]).is_empty(), "nothing delivered has no time per packet");
    }
}

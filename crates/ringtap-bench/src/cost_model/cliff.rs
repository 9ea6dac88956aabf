//! The cliff (\[3] §4.2): the rate at which handling interrupts alone fills the core.
//!
//! Owns where the two times come from and the comparison with the cliff that was searched; the formula is the core's.

use ringtap::pacer::formulas::cliff_pps;

use super::core_use::CoreUse;
use super::parameter;
use super::pooled::Pooled;
use crate::book::{Book, Fit, FitPoint, Topology};

/// The receiver the times are taken from.
const RECEIVER: &str = "interrupt";

/// By the formula, and beside each cliff that was found in topology host; `None` where time per packet and time per
/// interrupt can't be told apart.
pub(super) fn fit(book: &Book, core_uses: &[CoreUse], pooled: &[Pooled]) -> Option<Fit> {
    let topology = Topology::Host;
    let core_use = core_uses.iter().find(|core_use| core_use.receiver == RECEIVER && core_use.topology == topology)?;
    let per_packet = core_use.per_packet()?;
    let own = core_use.per_wake();
    let of_all = || pooled.iter().find(|pooled| pooled.topology() == topology).and_then(Pooled::per_interrupt);
    let per_interrupt = own.or_else(of_all)?;
    let nanoseconds = |seconds: f64| (seconds * 1e9).max(0.0);
    let cliff = |packet: f64, interrupt: f64| cliff_pps(nanoseconds(packet), nanoseconds(interrupt));
    let value = cliff(per_packet.0, per_interrupt.0);
    // An interval that reaches down to no time at all has no highest rate; the formula gives 0 there.
    let high = Some(cliff(per_packet.1, per_interrupt.1))
        .filter(|&high| high >= value)
        .unwrap_or(super::core_use::GREATEST_PPS);
    let low = cliff(per_packet.2, per_interrupt.2);
    let points = (book.findings.iter())
        .filter(|finding| finding.quantity == "cliff_pps" && finding.topology == topology && finding.value.is_finite())
        .map(|finding| FitPoint {
            label: format!("cliff, {}{}", finding.receiver, if finding.at_least { ", at least" } else { "" }),
            x: value,
            predicted: value,
            measured: finding.value,
            held_back: true,
        });
    Some(Fit {
        model: "cliff".to_owned(),
        receiver: RECEIVER.to_owned(),
        topology,
        formula: format!(
            "λ_cliff = (r/2)(√(1 + 4μ/r) − 1), 1/μ = t_PP of the interrupt receiver, 1/r = t_POH of {}",
            if own.is_some() { "the same fit" } else { "all of Ringtap's receivers, as its own can't be told apart" }
        ),
        parameters: vec![
            parameter("1/μ", "ns", per_packet, 1e9),
            parameter("1/r", "ns", per_interrupt, 1e9),
            parameter("λ_cliff", "pps", (value, low, high), 1.0),
        ],
        r_squared: core_use.r_squared(),
        points: points.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost_model::core_use;
    use crate::cost_model::points::curves;
    use crate::cost_model::synthetic::{book_of, finding, waiting};

    fn interrupts(topology: Topology) -> Book {
        // 5 µs an interrupt, 0.6 µs a packet, batches from 30 000 interrupts a second on.
        let mut book = book_of(waiting("interrupt", topology, 0.01, 5e-6, 0.6e-6, |pps| pps.min(30_000.0)));
        book.findings.push(finding("cliff", "interrupt", topology, "cliff_pps", 5e5));
        book
    }

    #[test]
    fn the_cliff_of_known_times() {
        let book = interrupts(Topology::Host);
        let fit = fit(&book, &core_use::all(&curves(&book)), &[]).expect("a fit");
        let known = cliff_pps(600.0, 5_000.0);
        let cliff = &fit.parameters[2];
        assert!((cliff.value / known - 1.0).abs() < 0.05, "{known} {fit:?}");
        assert!(cliff.low <= cliff.value && cliff.value <= cliff.high);
        assert_eq!(fit.points.len(), 1);
        assert_eq!(fit.points[0].measured, 5e5);
    }

    #[test]
    fn topology_nic_has_no_cliff() {
        let book = interrupts(Topology::Nic);
        assert!(fit(&book, &core_use::all(&curves(&book)), &[]).is_none());
    }

    #[test]
    fn times_that_cannot_be_told_apart_give_none() {
        // One wake-up per packet at every rate: the sum is known, the parts are not.
        let book = book_of(waiting("interrupt", Topology::Host, 0.001, 0.4e-6, 0.2e-6, |pps| pps));
        assert!(fit(&book, &core_use::all(&curves(&book)), &[]).is_none());
    }
}

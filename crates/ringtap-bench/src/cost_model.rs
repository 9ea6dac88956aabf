//! What follows from the figures of a benchmark (\[1] §2, §5.7, §7.3; \[3] §4.2; \[4] §8, §9.5): models fitted, predictions beside measurements.
//!
//! Owns the models and nothing that touches the system: it reads a [`Book`] and answers. A model whose samples don't suffice
//! is left out; it never makes up a number.

mod c_io;
mod capacity;
mod cliff;
mod core_use;
mod equation;
mod host;
pub(crate) mod packet_cost;
mod points;
mod pooled;
mod regression;
mod ring;
mod saturation;
#[cfg(test)]
mod synthetic;

pub use host::{Estimate, HostModel, Ring};

use crate::book::{Book, Fit, Parameter, Topology};

/// Every model for which the samples of `book` suffice, in this order: core use, C_IO, greatest load,
/// capacity, ring, cliff, saturation, cost of a packet.
pub fn fit(book: &Book) -> Vec<Fit> {
    let curves = points::curves(book);
    let core_uses = core_use::all(&curves);
    let pooled: Vec<pooled::Pooled> = [Topology::Nic, Topology::Host]
        .into_iter()
        .filter_map(|topology| pooled::Pooled::of(&curves, topology))
        .collect();
    let times = c_io::all(book);
    let mut fits: Vec<Fit> = pooled.iter().map(pooled::Pooled::fit).collect();
    fits.extend(core_uses.iter().map(core_use::CoreUse::fit));
    fits.extend(times.iter().map(c_io::CaptureTime::fit));
    fits.extend(c_io::greatest_loads(book, &core_uses));
    fits.extend(capacity::fits(book, &core_uses, &times));
    fits.extend(ring::fits(book));
    fits.extend(cliff::fit(book, &core_uses, &pooled));
    fits.extend(saturation::fits(&curves, &core_uses));
    fits.extend(packet_cost::fits(book));
    fits
}

/// A parameter from its (value, low, high), shown times `scale`. None of ours can be negative, so neither is the lower end.
fn parameter(name: &str, unit: &str, (value, low, high): (f64, f64, f64), scale: f64) -> Parameter {
    let (name, unit) = (name.to_owned(), unit.to_owned());
    Parameter { name, unit, value: value * scale, low: low.max(0.0) * scale, high: high * scale }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::synthetic::{book_of, finding, recorded, sample, waiting};
    use super::*;
    use crate::book::{Delays, Sample};

    fn finite(fit: &Fit) -> bool {
        let parameters = fit.parameters.iter().all(|of| [of.value, of.low, of.high].into_iter().all(f64::is_finite));
        let points = fit.points.iter().all(|of| [of.x, of.predicted, of.measured].into_iter().all(f64::is_finite));
        parameters && points && fit.r_squared.is_none_or(f64::is_finite)
    }

    #[test]
    fn an_empty_book_has_no_models() {
        assert!(fit(&Book::default()).is_empty());
    }

    #[test]
    fn the_record_of_the_core_is_fitted() {
        let fits = fit(&recorded());
        let of = |receiver: &str| fits.iter().find(|fit| fit.receiver == receiver && fit.model == "core_use");
        for receiver in ["hybrid 1ms", "timer 1ms", "interrupt", pooled::NAME] {
            let fit = of(receiver).unwrap_or_else(|| panic!("no fit of {receiver}"));
            assert!(finite(fit) && !fit.parameters.is_empty(), "{fit:?}");
            assert!(fit.points.iter().any(|point| point.held_back), "{fit:?}");
        }
        // What goes into the file must come out of it: JSON has no infinity.
        let text = serde_json::to_string(&fits).expect("fits are data");
        let back: Vec<Fit> = serde_json::from_str(&text).expect("fits come back");
        assert_eq!(back.len(), fits.len());
    }

    /// Any f64, but mostly what runs produce.
    fn figure() -> impl Strategy<Value = f64> {
        prop_oneof![6 => 1.0..2e6_f64, 2 => 0.0..1.0_f64, 1 => any::<f64>(), 1 => Just(0.0)]
    }

    prop_compose! {
        fn any_sample()(
            study in prop_oneof![4 => Just("rates"), 1 => Just("load"), 1 => Just("ring")],
            receiver in prop_oneof![Just("interrupt"), Just("timer 1ms"), Just("tcpdump")],
            host in any::<bool>(),
            pps in prop_oneof![6 => (1..8_u32).prop_map(|step| f64::from(step) * 1e4), 1 => any::<f64>()],
            figures in proptest::collection::vec(figure(), 8),
            counts in proptest::collection::vec(prop_oneof![4 => 0..1_000_000_u64, 1 => any::<u64>()], 7),
        ) -> Sample {
            let topology = if host { Topology::Host } else { Topology::Nic };
            let mut sample = sample(receiver, topology, pps, figures[0]);
            sample.study = study.to_owned();
            sample.sent_pps = figures[1];
            sample.seconds = figures[2].min(10.0);
            sample.load_ns = if study == "load" { figures[3] } else { 0.0 };
            (sample.sent, sample.received, sample.lost) = (counts[0], counts[1], counts[2]);
            (sample.timer_wakes, sample.interrupt_wakes) = (Some(counts[3]), Some(counts[4]));
            (sample.ring_slots, sample.memory_bytes) = (Some(counts[5]), Some(counts[6]));
            sample.poll_period = Some(Delays { count: counts[5], max: figures[4], ..Delays::default() });
            sample.cycles_per_packet = Some(figures[5]);
            sample
        }
    }

    proptest! {
        /// Nonsense never panics, and what comes out is finite.
        #[test]
        fn nonsense_is_survived(samples in proptest::collection::vec(any_sample(), 0..60), value in figure()) {
            let mut book = book_of(samples);
            book.format = crate::book::FORMAT;
            let searches = [
                ("capacity", "no_loss_capacity_pps"),
                ("ring", "least_ring_slots"),
                ("cliff", "cliff_pps"),
                ("load", "greatest_load_percent"),
            ];
            for (study, quantity) in searches {
                book.findings.push(finding(study, "timer 1ms", Topology::Nic, quantity, value));
                book.findings.push(finding(study, "interrupt", Topology::Host, quantity, value));
            }
            for fit in fit(&book) {
                prop_assert!(finite(&fit), "{:?}", fit);
            }
            if let Ok(model) = HostModel::from_book(&book) {
                let asked: Vec<(String, Topology)> = model.receivers().map(|(of, at)| (of.to_owned(), at)).collect();
                for (receiver, topology) in asked {
                    let _ = model.ring(&receiver, topology, 1e6);
                    let _ = model.no_loss_capacity(&receiver, topology);
                    let answer = model.core_use(&receiver, topology, 123_456.0).unwrap();
                    prop_assert!(answer.value.is_finite(), "{:?}", answer);
                }
            }
        }

        /// Known prices are inside their intervals, or nearly: the error of the runs is uniform, not normal.
        #[test]
        fn known_prices_are_recovered(
            background in 0.005..0.05_f64, per_wake in 2e-6..1e-5_f64, per_packet in 20e-9..400e-9_f64,
        ) {
            let wakes = |pps: f64| pps.min(30_000.0 + pps / 50.0);
            let book = book_of(waiting("interrupt", Topology::Nic, background, per_wake, per_packet, wakes));
            let fits = fit(&book);
            let fit = fits.iter().find(|fit| fit.model == "core_use").expect("a fit");
            prop_assert!(fit.formula.contains("right within 10 %") && !fit.formula.contains("not right"), "{}", fit.formula);
            for (name, known) in [("t_POH", per_wake * 1e6), ("t_PP", per_packet * 1e9)] {
                if let Some(found) = fit.parameters.iter().find(|parameter| parameter.name == name) {
                    let half = (found.high - found.low) / 2.0;
                    prop_assert!((found.value - known).abs() <= 2.0 * half + 1e-3 * known, "{} {:?}", known, found);
                }
            }
        }
    }
}

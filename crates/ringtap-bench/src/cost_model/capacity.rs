//! No-loss capacity: the least of what the processor, the ring and the line allow (\[1] §2, §5.7, §7.3; \[4] §8, §9.5).
//!
//! Owns the three bounds and their comparison with what the search found.

use super::c_io::CaptureTime;
use super::core_use::{CoreUse, GREATEST_PPS};
use super::parameter;
use super::points::{median, sound};
use super::ring::worst_wait;
use crate::book::{Book, Finding, Fit, FitPoint, Topology};

/// The bounds of one receiver.
#[derive(Debug, Clone)]
pub(super) struct Capacity {
    /// The rate at which the core is full, with the ends of its 95 % interval; `None` where packets cost nothing that could
    /// be told.
    pub processor: Option<(f64, f64, f64)>,
    /// The rate at which the ring fills in the worst wait seen.
    pub ring: Option<f64>,
    /// The fastest the generator was in this topology.
    pub line: Option<f64>,
}

impl Capacity {
    /// Of the receiver of `core_use`.
    pub(super) fn of(book: &Book, core_use: &CoreUse) -> Self {
        let (receiver, topology) = (&core_use.receiver, core_use.topology);
        let slots = (book.samples.iter())
            .filter(|sample| &sample.receiver == receiver && sample.topology == topology && sample.study != "ring")
            .filter_map(|sample| sample.ring_slots.map(|slots| slots as f64));
        let calm = worst_wait(book, receiver, topology, |sample| sample.beside.is_none() && sample.load_ns == 0.0);
        let (low, high) = core_use.bound_interval();
        Self {
            processor: core_use.bound().map(|bound| (bound, low, high)),
            ring: median(slots)
                .zip(calm)
                .map(|(slots, worst)| slots * 1e9 / worst.nanoseconds)
                .filter(|&pps| pps > 0.0),
            line: line_rate(book, topology),
        }
    }

    /// The least of the bounds, and its name.
    pub(super) fn least(&self) -> Option<(f64, &'static str)> {
        let bounds = [
            (self.processor.map(|(bound, ..)| bound), "the processor"),
            (self.ring, "the ring"),
            (self.line, "the generator"),
        ];
        let known = bounds.into_iter().filter_map(|(bound, name)| Some((bound?, name)));
        known.min_by(|(a, _), (b, _)| a.total_cmp(b))
    }
}

/// The fastest any run of `topology` was sent.
fn line_rate(book: &Book, topology: Topology) -> Option<f64> {
    let samples = book.samples.iter().filter(|sample| sample.topology == topology && sound(sample));
    samples.map(|sample| sample.sent_pps).reduce(f64::max)
}

/// What the study `capacity` found; other studies may search under other traffic.
pub(super) fn searched(book: &Book) -> impl Iterator<Item = &Finding> {
    book.findings.iter().filter(|finding| {
        finding.study == "capacity"
            && finding.quantity == "no_loss_capacity_pps"
            && finding.value.is_finite()
            && finding.value > 0.0
    })
}

/// One comparison for each receiver whose capacity was searched and whose core use is fitted.
pub(super) fn fits(book: &Book, core_uses: &[CoreUse], times: &[CaptureTime]) -> Vec<Fit> {
    let comparison = |found: &Finding| {
        let same = |receiver: &str, topology| receiver == found.receiver && topology == found.topology;
        let core_use = core_uses.iter().find(|core_use| same(&core_use.receiver, core_use.topology))?;
        let time = times.iter().find(|time| same(&time.receiver, time.topology));
        fit(found, core_use, &Capacity::of(book, core_use), time)
    };
    searched(book).filter_map(comparison).collect()
}

fn fit(found: &Finding, core_use: &CoreUse, capacity: &Capacity, time: Option<&CaptureTime>) -> Option<Fit> {
    let (predicted, limit) = capacity.least()?;
    let bound = |name: &str, rates: (f64, f64, f64)| parameter(name, "pps", rates, 1.0);
    let mut parameters = Vec::new();
    parameters.extend(capacity.processor.map(|processor| bound("processor", processor)));
    parameters.extend(capacity.ring.map(|ring| bound("ring", (ring, ring, ring))));
    parameters.extend(capacity.line.map(|line| bound("generator", (line, line, line))));
    // C_IO at its rate holds waiting and background in full, so 1/C_IO is on the low side where polls are shared by more.
    parameters.extend(time.map(|time| {
        let most = if time.at_least > 0.0 { (1.0 / time.at_least).min(GREATEST_PPS) } else { GREATEST_PPS };
        bound("1/C_IO by added load", (1.0 / time.seconds, 1.0 / time.seconds, most))
    }));
    Some(Fit {
        model: "capacity".to_owned(),
        receiver: found.receiver.clone(),
        topology: found.topology,
        formula: format!(
            "least of processor (η = 1, without added load: (1 − η_BG − t_POH·f_poll)/t_PP), ring (slots / worst wait) and \
             generator (fastest run); here {limit}"
        ),
        parameters,
        r_squared: core_use.r_squared(),
        points: vec![FitPoint {
            label: format!(
                "no-loss capacity, {}{}",
                found.receiver,
                if found.at_least { ", measured up to the generator's limit" } else { "" }
            ),
            x: predicted,
            predicted,
            measured: found.value,
            held_back: true,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Delays;
    use crate::cost_model::core_use;
    use crate::cost_model::points::curves;
    use crate::cost_model::synthetic::{book_of, finding, waiting};

    fn bounds(fit: &Fit) -> Vec<(&str, f64)> {
        fit.parameters.iter().map(|parameter| (parameter.name.as_str(), parameter.value)).collect()
    }

    #[test]
    fn the_processor_is_the_limit_where_packets_are_dear() {
        // (1 − 0.02)/500 ns = 1.96 Mpps.
        let mut book = book_of(waiting("timer 1ms", Topology::Nic, 0.02, 0.0, 500e-9, |_| 1_100.0));
        let mut fast = book.samples[0].clone();
        (fast.study, fast.sent_pps) = ("beyond".to_owned(), 4e6);
        book.samples.push(fast);
        book.findings.push(finding("capacity", "timer 1ms", Topology::Nic, "no_loss_capacity_pps", 1.9e6));
        let fits = fits(&book, &core_use::all(&curves(&book)), &[]);
        let [fit] = &fits[..] else { panic!("{fits:?}") };
        assert!((fit.points[0].predicted / 1.96e6 - 1.0).abs() < 0.02, "{fit:?}");
        assert!(fit.formula.ends_with("the processor"));
        let processor = &fit.parameters[0];
        assert!(processor.low <= 1.96e6 && 1.96e6 <= processor.high, "{processor:?}");
    }

    #[test]
    fn the_ring_is_the_limit_where_it_is_small() {
        let mut book = book_of(waiting("timer 1ms", Topology::Nic, 0.02, 0.0, 20e-9, |_| 1_100.0));
        for sample in &mut book.samples {
            sample.ring_slots = Some(512);
            sample.poll_period = Some(Delays { count: 1, max: 1_024.0, ..Delays::default() });
        }
        book.findings.push(finding("capacity", "timer 1ms", Topology::Nic, "no_loss_capacity_pps", 4e5));
        let fits = fits(&book, &core_use::all(&curves(&book)), &[]);
        assert!((fits[0].points[0].predicted - 5e5).abs() < 1.0, "{:?}", bounds(&fits[0]));
        assert!(fits[0].formula.ends_with("the ring"));
    }

    #[test]
    fn no_search_or_no_figure_no_comparison() {
        let mut book = book_of(waiting("timer 1ms", Topology::Nic, 0.02, 0.0, 20e-9, |_| 1_100.0));
        let core_uses = core_use::all(&curves(&book));
        assert!(fits(&book, &core_uses, &[]).is_empty());
        book.findings.push(finding("capacity", "timer 1ms", Topology::Nic, "no_loss_capacity_pps", f64::NAN));
        book.findings.push(finding("capacity", "timer 1ms", Topology::Host, "no_loss_capacity_pps", 1e6));
        assert!(fits(&book, &core_uses, &[]).is_empty());
    }
}

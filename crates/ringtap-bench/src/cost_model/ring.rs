//! Ring size (\[1] §2, §5.7, §7.3): what arrives in the longest wait must fit.
//!
//! Owns the worst wait of each receiver and the comparison with the least ring that the search found.

use ringtap::pacer::formulas::ring_slots;

use super::parameter;
use super::points::{median, sound};
use crate::book::{Book, Finding, Fit, FitPoint, Parameter, Sample, Topology};

/// Of the core's own plan, and of the source's larger ring: the sum allows for waits longer than any measured.
pub(super) const SAFETY: u32 = 4;

/// How long a packet had to wait for a receiver, at worst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WorstWait {
    /// The longest, nanoseconds.
    pub nanoseconds: f64,
    /// Over this many waits.
    pub of: u64,
    /// Between two looks by the timer; else from arrival to handler, of a receiver without a timer.
    pub period: bool,
}

/// Over all runs of `receiver` that `counts` lets in; `None` where neither poll periods nor arrival delays were seen.
pub(super) fn worst_wait(
    book: &Book,
    receiver: &str,
    topology: Topology,
    counts: impl Fn(&Sample) -> bool,
) -> Option<WorstWait> {
    let samples = || {
        let own = book.samples.iter().filter(|sample| sample.receiver == receiver && sample.topology == topology);
        own.filter(|sample| sound(sample) && counts(sample))
    };
    let worst = |period: bool| {
        let delays = samples().filter_map(|sample| if period { &sample.poll_period } else { &sample.arrival }.as_ref());
        let seen = delays.filter(|delays| delays.count > 0 && delays.max.is_finite() && delays.max > 0.0);
        seen.fold(None, |worst: Option<WorstWait>, delays| {
            let (longest, of) = worst.map_or((0.0, 0), |worst| (worst.nanoseconds, worst.of));
            Some(WorstWait { nanoseconds: longest.max(delays.max * 1e3), of: of.saturating_add(delays.count), period })
        })
    };
    worst(true).or_else(|| worst(false))
}

/// Bytes of packet buffer per slot of the ring, the median over the receiver's runs.
pub(super) fn bytes_per_slot(book: &Book, receiver: &str, topology: Topology) -> Option<f64> {
    let own = book.samples.iter().filter(|sample| sample.receiver == receiver && sample.topology == topology);
    median(own.filter_map(|sample| {
        let slots = sample.ring_slots.filter(|&slots| slots > 0)?;
        Some(sample.memory_bytes? as f64 / slots as f64)
    }))
}

/// Slots for a peak rate, a power of two; `None` where the ring would be larger than any.
pub(super) fn slots(worst: WorstWait, peak_pps: f64, safety: u32) -> Option<u32> {
    // Saturating casts; rounded up, to be on the safe side.
    ring_slots(worst.nanoseconds.ceil() as u64, peak_pps.ceil() as u64, safety)
}

/// The comparison for each receiver whose least ring was searched.
pub(super) fn fits(book: &Book) -> Vec<Fit> {
    book.findings
        .iter()
        .filter(|finding| finding.quantity == "least_ring_slots")
        .filter_map(|found| of(book, found))
        .collect()
}

fn of(book: &Book, found: &Finding) -> Option<Fit> {
    let searched = |sample: &Sample| sample.study == found.study && sample.beside.is_none();
    let own = (book.samples.iter())
        .filter(|sample| sample.receiver == found.receiver && sample.topology == found.topology && searched(sample));
    let pps = median(own.map(|sample| sample.offered_pps)).filter(|&pps| pps > 0.0)?;
    if !found.value.is_finite() || found.value <= 0.0 {
        return None;
    }
    let worst = worst_wait(book, &found.receiver, found.topology, searched)?;
    let least = slots(worst, pps, 1)?;
    let mut parameters =
        vec![exact(if worst.period { "worst poll period" } else { "worst delay" }, "µs", worst.nanoseconds / 1e3)];
    parameters.extend(slots(worst, pps, SAFETY).map(|slots| exact("ring with safety 4", "slots", f64::from(slots))));
    let bytes = bytes_per_slot(book, &found.receiver, found.topology);
    parameters.extend(bytes.map(|bytes| exact("least ring", "bytes", bytes * f64::from(least))));
    Some(Fit {
        model: "ring".to_owned(),
        receiver: found.receiver.clone(),
        topology: found.topology,
        formula: format!(
            "slots ≥ {} × peak rate, to the next power of two; the worst of {} waits in the runs of the search",
            if worst.period { "worst poll period" } else { "worst delay from arrival to handler" },
            worst.of
        ),
        parameters,
        r_squared: None,
        points: vec![FitPoint {
            label: format!(
                "least ring at {pps:.0} pps, {}{}",
                found.receiver,
                if found.at_least { ", or fewer" } else { "" }
            ),
            x: pps,
            predicted: f64::from(least),
            measured: found.value,
            held_back: true,
        }],
    })
}

/// A number that was read, not estimated.
fn exact(name: &str, unit: &str, value: f64) -> Parameter {
    parameter(name, unit, (value, value, value), 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Delays;
    use crate::cost_model::synthetic::{book_of, finding, sample};

    fn searched(max: f64) -> Sample {
        let mut sample = sample("timer 1ms", Topology::Nic, 200_000.0, 3.0);
        sample.study = "ring".to_owned();
        sample.poll_period = Some(Delays { count: 1_000, max, ..Delays::default() });
        (sample.ring_slots, sample.memory_bytes) = (Some(1_024), Some(1_024 * 2_048));
        sample
    }

    #[test]
    fn the_sum_of_the_source() {
        // 2345 µs, a packet every 5 µs: 469 → 512; with safety 4: 2048.
        let mut book = book_of(vec![searched(900.0), searched(2_345.0)]);
        book.findings.push(finding("ring", "timer 1ms", Topology::Nic, "least_ring_slots", 512.0));
        let fits = fits(&book);
        let [fit] = &fits[..] else { panic!("{fits:?}") };
        assert_eq!((fit.points[0].predicted, fit.points[0].measured), (512.0, 512.0));
        let values: Vec<f64> = fit.parameters.iter().map(|parameter| parameter.value).collect();
        assert_eq!(values, [2_345.0, 2_048.0, 512.0 * 2_048.0]);
    }

    #[test]
    fn without_waits_there_is_no_ring() {
        let mut book = book_of(vec![searched(f64::NAN), searched(0.0)]);
        book.findings.push(finding("ring", "timer 1ms", Topology::Nic, "least_ring_slots", 512.0));
        book.findings.push(finding("ring", "interrupt", Topology::Nic, "least_ring_slots", 512.0));
        assert!(fits(&book).is_empty());
        book.samples.push(searched(1e30));
        assert!(fits(&book).is_empty(), "no ring is that large");
        book.samples = vec![searched(900.0)];
        book.findings[0].value = f64::NAN;
        assert!(fits(&book).is_empty());
    }

    #[test]
    fn a_receiver_without_a_timer_waits_from_arrival_to_handler() {
        let mut sample = searched(1.0);
        sample.arrival = Some(Delays { count: 7, max: 50.0, ..Delays::default() });
        let wait = |sample: &Sample| worst_wait(&book_of(vec![sample.clone()]), "timer 1ms", Topology::Nic, |_| true);
        assert_eq!(wait(&sample).map(|wait| (wait.nanoseconds, wait.period)), Some((1e3, true)));
        sample.poll_period = None;
        assert_eq!(wait(&sample), Some(WorstWait { nanoseconds: 50e3, of: 7, period: false }));
    }
}

//! What this host can do, from its own benchmark: the answers of `ringtap plan --from DIR`.
//!
//! Owns the questions and how each answer is known. Reads no file: the caller hands over the book.

use ringtap::{Error, Result};
use serde::Serialize;

use super::capacity::{Capacity, searched};
use super::core_use::{self, CoreUse, KEEPS_UP, RIGHT_WITHIN, verdict};
use super::points::curves;
use super::ring::{SAFETY, WorstWait, bytes_per_slot, slots, worst_wait};
use crate::book::{Book, FORMAT, Finding, Topology};

/// Models of the receivers of one benchmark.
#[derive(Debug, Clone)]
pub struct HostModel {
    receivers: Vec<Receiver>,
}

#[derive(Debug, Clone)]
struct Receiver {
    core_use: CoreUse,
    capacity: Capacity,
    /// The capacity that was searched.
    searched: Option<Finding>,
    worst: Option<WorstWait>,
    bytes_per_slot: Option<f64>,
}

/// A number with what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Best estimate, in `unit`.
    pub value: f64,
    /// Lower end: of the 95 % interval where `known` speaks of a fit, else of what was measured.
    pub low: f64,
    /// Upper end, likewise.
    pub high: f64,
    /// `%` of one core, `pps`, `slots` or `bytes`.
    pub unit: &'static str,
    /// How it is known, one sentence.
    pub known: String,
    /// Share of the variance the fit explains; `None` where nothing was regressed.
    pub r_squared: Option<f64>,
    /// Largest relative error of the fit at the rates it had not seen; `None` where none were held back.
    pub held_back_error: Option<f64>,
    /// Why it may be wrong.
    pub doubts: Vec<String>,
}

/// The ring for a peak rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ring {
    /// Slots, a power of two.
    pub slots: Estimate,
    /// Bytes of packet buffers; `None` where the benchmark has no memory of this receiver.
    pub bytes: Option<Estimate>,
}

impl HostModel {
    /// Models every receiver of the study `rates` that kept up at three rates or more besides the held-back ones.
    ///
    /// # Errors
    /// A book of another format, and one without such a receiver.
    pub fn from_book(book: &Book) -> Result<Self> {
        const OPERATION: &str = "plan from a benchmark";
        if book.format != FORMAT {
            return Err(Error::failed(
                OPERATION,
                "",
                format!("its format is {}, this program reads {FORMAT}", book.format),
            )
            .way_out("make it again with `ringtap bench`"));
        }
        let receivers: Vec<Receiver> =
            core_use::all(&curves(book)).into_iter().map(|core_use| Receiver::of(book, core_use)).collect();
        if receivers.is_empty() {
            return Err(Error::failed(
                OPERATION,
                "",
                "no receiver kept up at three rates or more in the study `rates`",
            )
            .way_out("make one with `ringtap bench --only rates`"));
        }
        Ok(Self { receivers })
    }

    /// The receivers that can be asked about.
    pub fn receivers(&self) -> impl Iterator<Item = (&str, Topology)> {
        self.receivers.iter().map(|receiver| (receiver.core_use.receiver.as_str(), receiver.core_use.topology))
    }

    /// Core use at `pps` packets per second, percent of one core.
    ///
    /// # Errors
    /// A receiver without a model; a rate that is not a positive number.
    pub fn core_use(&self, receiver: &str, topology: Topology, pps: f64) -> Result<Estimate> {
        let of = self.receiver(receiver, topology)?;
        positive("estimate core use at", pps)?;
        let model = &of.core_use;
        let (low, high) = model.interval(pps);
        let share = model.share(pps);
        let mut doubts = of.doubts();
        let (lowest, highest) = model.measured_range();
        if pps > highest * (1.0 + KEEPS_UP) || pps < lowest * (1.0 - KEEPS_UP) {
            doubts.push(format!("beyond the measured rates at which it kept up, {lowest:.0} to {highest:.0} pps"));
        }
        if share > 1.0 {
            doubts.push("one core does not suffice: packets are lost".to_owned());
        }
        Ok(Estimate {
            value: share * 100.0,
            low: low * 100.0,
            high: high * 100.0,
            unit: "%",
            known: model.formula(),
            r_squared: model.r_squared(),
            held_back_error: model.judgement().map(|judgement| judgement.worst),
            doubts,
        })
    }

    /// The greatest rate without loss, packets per second: searched where the benchmark did, else by the models.
    ///
    /// # Errors
    /// A receiver without a model; neither a search nor any bound.
    pub fn no_loss_capacity(&self, receiver: &str, topology: Topology) -> Result<Estimate> {
        let of = self.receiver(receiver, topology)?;
        let least = of.capacity.least();
        if let Some(found) = &of.searched {
            let values = || found.values.iter().copied().filter(|value| value.is_finite());
            let mut known = format!("searched, median of {}", found.values.len());
            if let Some((predicted, limit)) = least {
                known.push_str(&format!("; the models say {predicted:.0} pps, by {limit}"));
            }
            let limit = "the generator reached no more: the true value is at least this".to_owned();
            return Ok(Estimate {
                value: found.value,
                low: values().fold(found.value, f64::min),
                high: values().fold(found.value, f64::max),
                unit: "pps",
                known,
                r_squared: None,
                held_back_error: None,
                doubts: found.at_least.then_some(limit).into_iter().collect(),
            });
        }
        let Some((value, limit)) = least else {
            return Err(Error::failed("estimate the no-loss capacity of", receiver, "no bound can be told")
                .way_out("search it with `ringtap bench --only capacity`"));
        };
        let mut doubts = of.doubts();
        doubts.push("not searched: by the models alone".to_owned());
        let own = of.capacity.processor.filter(|(processor, ..)| *processor <= value);
        let (low, high) = own.map_or((value, value), |(_, low, high)| (low, high));
        Ok(Estimate {
            value,
            low,
            high,
            unit: "pps",
            known: format!(
                "least of processor, ring and generator, here {limit}; {}",
                verdict(of.core_use.judgement())
            ),
            r_squared: of.core_use.r_squared(),
            held_back_error: of.core_use.judgement().map(|judgement| judgement.worst),
            doubts,
        })
    }

    /// The ring that holds what arrives at `peak_pps` in the worst wait of the benchmark, with safety 4 (\[1] §2, §5.7, §7.3).
    ///
    /// # Errors
    /// A receiver without a model or without waits; a rate that is not a positive number, or so high that no ring suffices.
    pub fn ring(&self, receiver: &str, topology: Topology, peak_pps: f64) -> Result<Ring> {
        const OPERATION: &str = "size the ring of";
        let of = self.receiver(receiver, topology)?;
        positive("size a ring for", peak_pps)?;
        let worst = of.worst.ok_or_else(|| {
            Error::failed(OPERATION, receiver, "the benchmark has neither its poll periods nor its delays")
                .way_out("ask for one of Ringtap's own receivers")
        })?;
        let rings = slots(worst, peak_pps, SAFETY).zip(slots(worst, peak_pps, 1));
        let (slots, least) = rings.ok_or_else(|| {
            let cause = format!("{peak_pps:.0} pps for {:.0} µs fit no ring", worst.nanoseconds / 1e3);
            Error::usage(OPERATION, receiver, cause)
        })?;
        let (value, least) = (f64::from(slots), f64::from(least));
        let wait = if worst.period { "worst poll period" } else { "worst delay from arrival to handler" };
        let slots = Estimate {
            value,
            low: least,
            high: value,
            unit: "slots",
            known: format!(
                "{wait} {:.1} µs of {} × {peak_pps:.0} pps × safety {SAFETY}, to a power of two; low is without safety",
                worst.nanoseconds / 1e3,
                worst.of
            ),
            r_squared: None,
            held_back_error: None,
            doubts: vec!["a longer wait than any measured needs the safety, or more".to_owned()],
        };
        let bytes = of.bytes_per_slot.map(|each| Estimate {
            value: each * value,
            low: each * least,
            high: each * value,
            unit: "bytes",
            known: format!("slots × {each:.0} bytes a slot, as the benchmark's rings had"),
            ..slots.clone()
        });
        Ok(Ring { slots, bytes })
    }

    fn receiver(&self, receiver: &str, topology: Topology) -> Result<&Receiver> {
        let same = |of: &&Receiver| of.core_use.receiver == receiver && of.core_use.topology == topology;
        self.receivers.iter().find(same).ok_or_else(|| {
            let name = |topology| if topology == Topology::Nic { "nic" } else { "host" };
            let known: Vec<String> = self.receivers().map(|(of, at)| format!("{of} ({})", name(at))).collect();
            let asked = format!("{receiver:?} in topology {}", name(topology));
            Error::usage("plan for", asked, "the benchmark has no model of it")
                .way_out(format!("it has {}", known.join(", ")))
        })
    }
}

impl Receiver {
    fn of(book: &Book, core_use: CoreUse) -> Self {
        let (receiver, topology) = (core_use.receiver.clone(), core_use.topology);
        let found = searched(book).find(|finding| finding.receiver == receiver && finding.topology == topology);
        Self {
            capacity: Capacity::of(book, &core_use),
            searched: found.cloned(),
            // Storms and added load count here: the ring must stand them.
            worst: worst_wait(book, &receiver, topology, |_| true),
            bytes_per_slot: bytes_per_slot(book, &receiver, topology),
            core_use,
        }
    }

    /// Of the fit of core use.
    fn doubts(&self) -> Vec<String> {
        match self.core_use.judgement() {
            None => vec!["too few rates to hold any back: not judged".to_owned()],
            Some(judgement) if judgement.worst > RIGHT_WITHIN => {
                vec![format!("wrong by up to {:.0} % at rates the fit had not seen", judgement.worst * 100.0)]
            }
            Some(_) => Vec::new(),
        }
    }
}

fn positive(operation: &str, pps: f64) -> Result<()> {
    if pps.is_finite() && pps > 0.0 {
        return Ok(());
    }
    Err(Error::usage(operation, format!("{pps} pps"), "a rate is a positive number of packets per second"))
}

#[cfg(test)]
mod tests {
    use ringtap::error::ErrorKind;

    use super::*;
    use crate::book::Delays;
    use crate::cost_model::synthetic::{book_of, finding, waiting};

    fn book() -> Book {
        let mut book = book_of(waiting("hybrid 1ms", Topology::Nic, 0.02, 0.0, 30e-9, |_| 1_100.0));
        book.format = FORMAT;
        for sample in &mut book.samples {
            (sample.ring_slots, sample.memory_bytes) = (Some(8_192), Some(8_192 * 2_048));
            sample.poll_period = Some(Delays { count: 1_000, max: 900.0, ..Delays::default() });
        }
        book.samples[0].poll_period = Some(Delays { count: 1_000, max: 2_000.0, ..Delays::default() });
        book
    }

    #[test]
    fn core_use_of_a_rate_that_was_not_measured() {
        let model = HostModel::from_book(&book()).unwrap();
        assert_eq!(model.receivers().collect::<Vec<_>>(), [("hybrid 1ms", Topology::Nic)]);
        let answer = model.core_use("hybrid 1ms", Topology::Nic, 700_000.0).unwrap();
        assert!((answer.value / 4.1 - 1.0).abs() < 0.02, "{answer:?}");
        assert!(answer.low <= 4.1 && 4.1 <= answer.high && answer.unit == "%", "{answer:?}");
        assert!(answer.held_back_error.unwrap() < RIGHT_WITHIN && answer.doubts.is_empty(), "{answer:?}");
        let beyond = model.core_use("hybrid 1ms", Topology::Nic, 60e6).unwrap();
        assert!(beyond.value > 100.0 && beyond.doubts.len() == 2, "{beyond:?}");
    }

    #[test]
    fn capacity_by_the_models_and_by_the_search() {
        let mut book = book();
        let model = HostModel::from_book(&book).unwrap();
        // The generator reached 1 Mpps, the ring 8192 slots / 2 ms = 4.1 Mpps, the processor more.
        let answer = model.no_loss_capacity("hybrid 1ms", Topology::Nic).unwrap();
        assert_eq!(answer.value, 1e6);
        assert!(answer.known.contains("the generator"), "{answer:?}");
        let mut found = finding("capacity", "hybrid 1ms", Topology::Nic, "no_loss_capacity_pps", 1.8e6);
        (found.values, found.at_least) = (vec![1.7e6, 1.8e6, 1.9e6], true);
        // A search under other traffic is not this.
        let other = Finding { study: "sizes".to_owned(), value: 9.0, ..found.clone() };
        book.findings.extend([other, found]);
        let answer = HostModel::from_book(&book).unwrap().no_loss_capacity("hybrid 1ms", Topology::Nic).unwrap();
        assert_eq!((answer.low, answer.value, answer.high), (1.7e6, 1.8e6, 1.9e6));
        assert_eq!(answer.doubts.len(), 1);
    }

    #[test]
    fn ring_of_the_worst_wait_with_safety() {
        let model = HostModel::from_book(&book()).unwrap();
        // 2 ms at 1 Mpps: 2000 → 2048; with safety 4: 8192.
        let ring = model.ring("hybrid 1ms", Topology::Nic, 1e6).unwrap();
        assert_eq!((ring.slots.low, ring.slots.value), (2_048.0, 8_192.0));
        let bytes = ring.bytes.unwrap();
        assert_eq!((bytes.low, bytes.value, bytes.unit), (2_048.0 * 2_048.0, 8_192.0 * 2_048.0, "bytes"));
        assert!(model.ring("hybrid 1ms", Topology::Nic, 1e15).is_err());
    }

    #[test]
    fn wrong_questions_are_usage_errors_that_say_what_there_is() {
        let model = HostModel::from_book(&book()).unwrap();
        let error = model.core_use("hybrid 2ms", Topology::Nic, 1e5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("hybrid 1ms (nic)"), "{error}");
        for pps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(model.core_use("hybrid 1ms", Topology::Nic, pps).unwrap_err().kind(), ErrorKind::Usage);
            assert_eq!(model.ring("hybrid 1ms", Topology::Nic, pps).unwrap_err().kind(), ErrorKind::Usage);
        }
    }

    #[test]
    fn a_book_of_another_format_or_without_rates_is_refused() {
        let mut other = book();
        other.format = FORMAT + 1;
        assert!(HostModel::from_book(&other).unwrap_err().to_string().contains("format"));
        let empty = Book { format: FORMAT, ..Book::default() };
        assert!(HostModel::from_book(&empty).unwrap_err().to_string().contains("ringtap bench --only rates"));
    }
}

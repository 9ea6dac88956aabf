//! Books with known parameters, for the tests of the models.

use std::path::Path;

use crate::book::{Book, Finding, Sample, Topology};

/// A run of one second in the study `rates`, in which everything sent was received.
pub(super) fn sample(receiver: &str, topology: Topology, pps: f64, core_use_percent: f64) -> Sample {
    Sample {
        study: "rates".to_owned(),
        receiver: receiver.to_owned(),
        topology,
        round: 0,
        frame_bytes: 60,
        arrivals: "constant".to_owned(),
        offered_pps: pps,
        sent_pps: pps,
        sent: pps as u64,
        received: pps as u64,
        lost: 0,
        numbered: true,
        unaccounted: Some(0),
        core_use_percent,
        seconds: 1.0,
        ..Sample::default()
    }
}

/// Nine rates from 1 kpps to 1 Mpps, three rounds of each, by η = `background` + `per_wake`·`wakes`(pps) + `per_packet`·pps,
/// with an error of up to ±0.5 % that is the same in every run of the tests.
pub(super) fn waiting(
    receiver: &str,
    topology: Topology,
    background: f64,
    per_wake: f64,
    per_packet: f64,
    wakes: impl Fn(f64) -> f64,
) -> Vec<Sample> {
    const RATES: [f64; 9] = [1e3, 5e3, 2e4, 5e4, 1e5, 1.48e5, 3e5, 5e5, 1e6];
    let mut samples = Vec::new();
    let mut state = receiver.len() as u64;
    for (round, pps) in (0..3).flat_map(|round| RATES.map(|pps| (round, pps))) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let error = 1.0 + ((state >> 40) as f64 / (1_u64 << 24) as f64 - 0.5) * 0.01;
        let share = (background + per_wake * wakes(pps) + per_packet * pps) * error;
        let mut sample = sample(receiver, topology, pps, share * 100.0);
        sample.round = round;
        sample.timer_wakes = Some(wakes(pps) as u64);
        samples.push(sample);
    }
    samples
}

/// A book of these samples.
pub(super) fn book_of(samples: Vec<Sample>) -> Book {
    Book { samples, ..Book::default() }
}

/// What a search found, once.
pub(super) fn finding(study: &str, receiver: &str, topology: Topology, quantity: &str, value: f64) -> Finding {
    Finding {
        study: study.to_owned(),
        receiver: receiver.to_owned(),
        topology,
        quantity: quantity.to_owned(),
        value,
        values: vec![value],
        at_least: false,
        note: String::new(),
    }
}

/// The recorded figures of the core as a book: real noise, real prices.
pub(super) fn recorded() -> Book {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/record/2026-11-21-core/core-figures.json");
    let text = std::fs::read_to_string(&path).expect("the record is part of the repository");
    let record: serde_json::Value = serde_json::from_str(&text).expect("the record is JSON");
    let samples = record["samples"].as_array().expect("samples").iter().filter_map(|run| {
        let topology = match run["part"].as_str()? {
            "nic" => Topology::Nic,
            "host" => Topology::Host,
            _ => return None,
        };
        let pps = run["pps"].as_f64()?;
        let mut sample = sample(run["receiver"].as_str()?, topology, pps, run["core_use_percent"].as_f64()?);
        sample.sent = run["sent"].as_u64()?;
        sample.received = run["received"].as_u64()?;
        sample.lost = run["lost"].as_u64()?;
        sample.seconds = sample.sent as f64 / pps;
        let detail = &run["detail"];
        sample.timer_wakes = detail["timer_wakes"].as_u64();
        sample.interrupt_wakes = detail["interrupt_wakes"].as_u64();
        Some(sample)
    });
    book_of(samples.collect())
}

//! Storms of a simulator that shares nothing with the engine: what is named broke, and what broke is named.
//!
//! A part of the study in `examples/storms`: its sizes are larger and its storms more.

mod measure;

use measure::{Score, Storms, run};
use ringtap_testbed::storm::fault::{Noise, Shape};

fn all_shapes(loss_percent: u8, wrong_percent: u8) -> Score {
    let mut all = Score::default();
    for (nodes, count) in [(50, 24), (500, 8)] {
        for shape in Shape::ALL {
            let noise = Noise { loss_percent, spurious: 5 };
            let storms = Storms { shape, nodes, count, noise, wrong_percent, seed: 11 };
            all.add(run(storms, &mut |text| eprintln!("{shape:?}, {nodes}: {text}")));
        }
    }
    assert_eq!(all.storms, 128);
    all
}

fn at_least(what: &str, share: f64, least: f64) {
    assert!(share >= least, "{what}: {share:.3}, at least {least}");
}

#[test]
fn without_loss_every_cause_is_found_in_time_and_told_once() {
    let score = all_shapes(0, 0);
    at_least("precision", score.precision(), 0.99);
    at_least("recall", score.recall(), 0.99);
    assert!(score.time_ms(99) <= 2500, "{} ms", score.time_ms(99));
    assert!(score.announcements() <= 1.2, "{:.2} announcements a fault", score.announcements());
}

#[test]
fn with_a_tenth_lost_nearly_every_cause_is_found() {
    let score = all_shapes(10, 0);
    at_least("precision", score.precision(), 0.95);
    at_least("recall", score.recall(), 0.95);
}

/// The aim is 0.95 for both; trees miss it in precision, where a missing line hides the only way to what is behind it.
#[test]
fn a_file_that_is_wrong_in_places_still_names_most_causes() {
    let score = all_shapes(0, 2);
    at_least("precision", score.precision(), 0.88);
    at_least("recall", score.recall(), 0.95);
}

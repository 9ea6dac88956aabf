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

/// A wrong port of a file is no wire's, however many ports a spine has: the file is read, and has fewer or other links than there are.
#[test]
fn a_wrong_file_of_a_large_network_is_read() {
    for seed in 0..3 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let network = ringtap_testbed::storm::fault::Network::new(Shape::LeafSpine, 5000, &mut rng);
        let text = network.topology(2, &mut rng);
        assert!(ringtap_rootcause::topology::file::read(&text).is_ok(), "seed {seed}");
    }
}

/// The aim is 0.95 for both; trees miss it in precision, where a missing line hides the only way to what is behind it.
#[test]
fn a_file_that_is_wrong_in_places_still_names_most_causes() {
    let score = all_shapes(0, 2);
    at_least("precision", score.precision(), 0.88);
    at_least("recall", score.recall(), 0.95);
}

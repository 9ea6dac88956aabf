//! Attacks hidden in each known way: what the receiver gets is found, and what it discards is not.

mod evasion_support;
mod support;

use evasion_support::found;
use ringtap_samples::evasions::{Evasion, mixed, tricks};

fn wrong(cases: &[Evasion]) -> Vec<&str> {
    let judged = cases.iter().zip(found(cases));
    judged.filter(|(case, found)| case.delivered != *found).map(|(case, _)| case.name.as_str()).collect()
}

#[test]
fn every_known_trick_is_seen_through() {
    let cases = tricks();
    let wrong = wrong(&cases);
    assert!(cases.len() > 50 && wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), cases.len());
}

#[test]
fn mixed_tricks_are_seen_through() {
    let cases = mixed(0..400);
    assert!(cases.iter().any(|case| !case.delivered));
    let wrong = wrong(&cases);
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), cases.len());
}

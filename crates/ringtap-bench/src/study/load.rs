//! The greatest event processing that is carried without loss at 148 kpps (\[1] §6.1): engines only, as a peer's
//! handler is its own.

use ringtap::Result;
use ringtap_testbed::Topology;

use super::named;
use super::sweep::STANDARD_PPS;
use crate::bench::{Bench, DISTURBED};
use crate::book::Finding;
use crate::run::Request;

/// The search ends at this difference, share of the core.
const RESOLUTION: f64 = 0.02;
/// A ring hides an overload until it is full. This one holds 55 ms, the machine's pauses, and 2 % of a run of [`SECONDS`].
const SLOTS: u32 = 8_192;
/// Shortest run, seconds.
pub(super) const SECONDS: f64 = 3.0;

pub(super) fn search(bench: &mut Bench<'_>) -> Result<()> {
    let count = (STANDARD_PPS * bench.scale.seconds.max(SECONDS)) as u64;
    for receiver in named(bench, &bench.definitions.load.receivers) {
        let (mut low, mut high) = (0.0, 1.0);
        let mut runs = 0;
        while high - low > RESOLUTION {
            // The first guess is near the top, where a good receiver ends.
            let share: f64 = if runs == 0 { 0.85 } else { (low + high) / 2.0 };
            let request = Request::new("load", &receiver, Topology::Nic, STANDARD_PPS, count);
            let load_ns = share / STANDARD_PPS * 1e9;
            let request = Request { round: runs, load_ns, ring_slots: Some(SLOTS), ..request };
            let Some(sample) = bench.run_undisturbed(&request, |sample| sample.lost > 0)? else {
                break;
            };
            runs += 1;
            if sample.lost == 0 { low = share } else { high = share }
        }
        if runs > 0 {
            bench.find(Finding {
                study: "load".to_owned(),
                receiver: receiver.name.clone(),
                topology: Topology::Nic,
                quantity: "greatest_load_percent".to_owned(),
                value: low * 100.0,
                values: vec![low * 100.0],
                at_least: false,
                note: format!(
                    "calibrated multiplications for each of {count} packets at 148 kpps, ring of {SLOTS} slots; to {:.0} points of the core; {DISTURBED}",
                    RESOLUTION * 100.0
                ),
            })?;
        }
    }
    Ok(())
}

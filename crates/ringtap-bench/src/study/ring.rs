//! The least ring that loses nothing at 148 kpps (\[1] Table 7.5): engines only, whose rings can be set to any size.

use ringtap::Result;
use ringtap_testbed::Topology;

use super::named;
use super::sweep::STANDARD_PPS;
use crate::bench::{Bench, DISTURBED};
use crate::book::Finding;
use crate::run::Request;

const MOST_SLOTS: u32 = 32_768;
const LEAST_SLOTS: u32 = 64;

pub(super) fn search(bench: &mut Bench<'_>) -> Result<()> {
    for receiver in named(bench, &bench.definitions.ring.receivers) {
        // From above: the first size that loses ends the search, and the memory is that of the last that did not.
        let mut least = None;
        let mut slots = MOST_SLOTS;
        'sizes: while slots >= LEAST_SLOTS {
            for round in 0..bench.scale.trials {
                let request = Request::new("ring", &receiver, Topology::Nic, STANDARD_PPS, bench.scale.trial_packets);
                let request = Request { round, ring_slots: Some(slots), ..request };
                let Some(sample) = bench.run_undisturbed(&request, |sample| sample.lost > 0)? else {
                    break 'sizes;
                };
                if sample.lost > 0 {
                    break 'sizes;
                }
                least = Some((slots, sample.memory_bytes));
            }
            slots /= 2;
        }
        let Some((slots, bytes)) = least else { continue };
        let found = |quantity: &str, value: f64| Finding {
            study: "ring".to_owned(),
            receiver: receiver.name.clone(),
            topology: Topology::Nic,
            quantity: quantity.to_owned(),
            value,
            values: vec![value],
            at_least: false,
            note: format!(
                "powers of two; {} trials of {} packets at 148 kpps without loss; {DISTURBED}",
                bench.scale.trials, bench.scale.trial_packets
            ),
        };
        let findings =
            [Some(found("least_ring_slots", slots.into())), bytes.map(|b| found("least_ring_bytes", b as f64))];
        for finding in findings.into_iter().flatten() {
            bench.find(finding)?;
        }
    }
    Ok(())
}

//! Owns: whether the sensor is being blinded: shares of what was lost, left out or given up in an interval, held against bounds,
//! with hysteresis.
//! Does not: count, or tell anybody.

use ringtap::ledger::Cause;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::account::Account;

/// Below so many in an interval nothing is raised.
const LEAST: u64 = 10;
/// A condition is over after so many intervals in a row below half of its bound.
const CALM: u32 = 3;

/// From when on the sensor says that it is being blinded: shares in percent; 0: not watched
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct Bounds {
    /// Seconds, 1 to 3600
    pub(crate) interval: u32,
    /// Packets lost before the sensor
    lost: f64,
    /// Packets that were not looked at, as others went first
    shed: f64,
    /// Flows, windows, connections and the like that gave their place to others, by packets
    evicted: f64,
    /// Segments and fragments that found no memory, by packets
    refused: f64,
    /// Gaps in streams, by their pieces
    gaps: f64,
    /// Segments with a wrong checksum, by packets
    bad_checksums: f64,
    /// Times that rules were left out, by packets
    budget: f64,
    /// Events lost on their way to the outputs
    events: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            interval: 10,
            lost: 0.1,
            shed: 1.0,
            evicted: 1.0,
            refused: 0.1,
            gaps: 1.0,
            bad_checksums: 5.0,
            budget: 1.0,
            events: 0.1,
        }
    }
}

impl Bounds {
    /// # Errors
    /// A number that is no share, or no interval.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(1..=3600).contains(&self.interval) {
            return Err("interval has 1 to 3600 seconds".to_owned());
        }
        let wrong = CONDITIONS.iter().find(|condition| !(0.0..=100.0).contains(&(condition.bound)(self)));
        wrong.map_or(Ok(()), |condition| Err(format!("{} is a share of 0 to 100 percent", condition.name)))
    }
}

/// A way to be blinded.
struct Condition {
    name: &'static str,
    /// What is counted, of what.
    says: &'static str,
    bound: fn(&Bounds) -> f64,
    counts: fn(&Account) -> [u64; 2],
}

/// All of them.
const CONDITIONS: [Condition; 8] = [
    Condition {
        name: "lost",
        says: "packets were lost before the sensor",
        bound: |bounds| bounds.lost,
        counts: |account| {
            let Some(ledger) = &account.ledger else { return [0; 2] };
            let shed = ledger.drops.get(&Cause::Shed).copied().flatten().unwrap_or(0);
            let lost = ledger.lost().saturating_sub(shed);
            [lost, ledger.delivered + shed + lost]
        },
    },
    Condition {
        name: "shed",
        says: "packets were not looked at, as others went first",
        bound: |bounds| bounds.shed,
        counts: |account| {
            let shed = account.sum(|counters| counters.shed);
            [shed, shed + account.sum(|counters| counters.packets)]
        },
    },
    Condition {
        name: "evicted",
        says: "flows, windows, fragmented packets, connections of HTTP and other protocols, announced connections, integers and values of datasets gave their place to others, by packets",
        bound: |bounds| bounds.evicted,
        counts: |account| {
            let evicted = account.sum(|counters| {
                counters.flows.evicted
                    + counters.windows_evicted
                    + counters.defrag.evicted
                    + counters.http.evicted
                    + counters.dialogs_evicted
                    + counters.handshakes_evicted
                    + counters.announced_evicted
                    + counters.flow_ints_evicted
                    + counters.datasets_evicted
            });
            [evicted, account.sum(|counters| counters.packets)]
        },
    },
    Condition {
        name: "refused",
        says: "segments and fragments found no memory, by packets",
        bound: |bounds| bounds.refused,
        counts: |account| {
            let refused = account.sum(|counters| counters.segments_refused + counters.defrag.no_memory);
            [refused, account.sum(|counters| counters.packets)]
        },
    },
    Condition {
        name: "gaps",
        says: "gaps in streams, by their pieces",
        bound: |bounds| bounds.gaps,
        counts: |account| {
            [account.sum(|counters| counters.gaps), account.sum(|counters| counters.chunks + counters.gaps)]
        },
    },
    Condition {
        name: "bad-checksums",
        says: "segments had a wrong checksum, by packets",
        bound: |bounds| bounds.bad_checksums,
        counts: |account| [account.sum(|counters| counters.bad_checksums), account.sum(|counters| counters.packets)],
    },
    Condition {
        name: "budget",
        says: "times that rules were left out, by packets",
        bound: |bounds| bounds.budget,
        counts: |account| [account.sum(|counters| counters.budget_hits), account.sum(|counters| counters.packets)],
    },
    Condition {
        name: "events",
        says: "events were lost on their way to the outputs",
        bound: |bounds| bounds.events,
        counts: |account| {
            let lost = account.records_lost + account.failed;
            [lost, lost + account.written]
        },
    },
];

/// A condition that has begun or ended, with the numbers of the interval that says so.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    pub(crate) condition: &'static str,
    pub(crate) is_raised: bool,
    pub(crate) count: u64,
    pub(crate) of: u64,
    pub(crate) bound_percent: f64,
    pub(crate) interval_s: u32,
    says: &'static str,
}

impl Change {
    pub(crate) fn percent(&self) -> f64 {
        self.count as f64 * 100.0 / self.of.max(1) as f64
    }

    /// One sentence.
    pub(crate) fn message(&self) -> String {
        let state = if self.is_raised { "the sensor is being blinded" } else { "the sensor is not blinded any more" };
        let Self { condition, count, of, says, bound_percent, interval_s, .. } = self;
        let percent = self.percent();
        format!(
            "{state} ({condition}): {count} of {of} in {interval_s} s, {percent:.2} %: {says}; raised from {bound_percent} %"
        )
    }
}

/// One condition as it stands.
#[derive(Default, Clone, Copy)]
struct State {
    last: [u64; 2],
    is_raised: bool,
    calm: u32,
}

/// All conditions as they stand.
pub(crate) struct Watch {
    bounds: Bounds,
    states: [State; CONDITIONS.len()],
}

impl Watch {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { bounds, states: Default::default() }
    }

    /// Holds what an interval has brought against the bounds; what has begun or ended by it.
    pub(crate) fn turn(&mut self, account: &Account) -> Vec<Change> {
        let Self { bounds, states } = self;
        let turn = |(state, condition): (&mut State, &Condition)| {
            let now = (condition.counts)(account);
            let [count, of] = [0, 1].map(|at| now[at].saturating_sub(state.last[at]));
            state.last = now;
            let bound_percent = (condition.bound)(bounds);
            let share = count as f64 * 100.0 / of.max(1) as f64;
            let was = state.is_raised;
            if bound_percent > 0.0 && count >= LEAST && share >= bound_percent {
                (state.is_raised, state.calm) = (true, 0);
            } else if share >= bound_percent / 2.0 && count >= LEAST {
                state.calm = 0;
            } else if state.is_raised {
                state.calm += 1;
                state.is_raised = state.calm < CALM;
            }
            let Condition { name, says, .. } = *condition;
            (was != state.is_raised).then_some(Change {
                condition: name,
                is_raised: state.is_raised,
                count,
                of,
                bound_percent,
                interval_s: bounds.interval,
                says,
            })
        };
        states.iter_mut().zip(&CONDITIONS).filter_map(turn).collect()
    }

    /// Each condition, and whether it is raised.
    pub(crate) fn conditions(&self) -> Vec<(&'static str, bool)> {
        CONDITIONS.iter().zip(&self.states).map(|(condition, state)| (condition.name, state.is_raised)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringtap::ledger::Ledger;
    use ringtap_detect::Counters;

    /// What a watch says of these numbers of packets shed and looked at, one interval each.
    fn shed(intervals: &[[u64; 2]]) -> Vec<Vec<bool>> {
        let (mut watch, mut counters) = (Watch::new(Bounds::default()), Counters::default());
        let turn = |[shed, packets]: &[u64; 2]| -> Vec<bool> {
            counters.shed += shed;
            counters.packets += packets;
            let account = Account { engines: vec![counters], ..Account::default() };
            watch.turn(&account).into_iter().map(|change| change.is_raised).collect()
        };
        intervals.iter().map(turn).collect()
    }

    #[test]
    fn a_condition_is_told_when_it_begins_and_when_it_is_over() {
        let (calm, edge, storm) = ([0, 1000], [7, 993], [20, 980]);
        let none: Vec<bool> = Vec::new();
        let once = [none.clone(), vec![true], none.clone(), none.clone()];
        assert_eq!(shed(&[calm, storm, storm, storm]), once);
        let again = [vec![true], none.clone(), none.clone(), vec![false], vec![true]];
        assert_eq!(shed(&[storm, calm, calm, calm, storm]), again);
        let between = [storm, calm, calm, [70, 9930], calm, calm, storm];
        assert!(shed(&between)[1..].iter().all(Vec::is_empty), "it is not over while it comes back");
        assert_eq!(shed(&[edge, edge]), [none.clone(), none.clone()], "below the bound");
        assert_eq!(shed(&[[9, 0]]), [none], "too few to say anything");
    }

    #[test]
    fn lost_packets_are_told_with_numbers_and_shed_ones_apart() {
        let mut ledger = Ledger { offered: Some(1000), delivered: 600, ..Ledger::default() };
        ledger.drop(Cause::RingFull, Some(100));
        ledger.drop(Cause::Shed, Some(300));
        let account = Account { ledger: Some(ledger), ..Account::default() };
        let changes = Watch::new(Bounds::default()).turn(&account);
        let [change] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!((change.condition, change.count, change.of), ("lost", 100, 1000));
        let message = change.message();
        assert!(message.contains("(lost): 100 of 1000 in 10 s, 10.00 %"), "{message}");
        let off = Bounds { lost: 0.0, ..Bounds::default() };
        assert_eq!(Watch::new(off).turn(&account), []);
    }

    #[test]
    fn bounds_that_make_no_sense_are_refused() {
        assert_eq!(Bounds::default().check(), Ok(()));
        assert!(Bounds { shed: 101.0, ..Bounds::default() }.check().unwrap_err().contains("shed"));
        assert!(Bounds { gaps: f64::NAN, ..Bounds::default() }.check().is_err());
        assert!(Bounds { interval: 0, ..Bounds::default() }.check().is_err());
    }
}

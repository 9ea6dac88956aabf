//! Traffic scenarios for choosing tunables, with an oracle that knows the traffic.
//!
//! Owns: the patterns and what the best possible waiting would have cost. Does not own: running or scoring a policy.

use ringtap::pacer::{Pacer, Policy};

use super::{Costs, Random, arrive, simulate};

/// Length of a scenario and of one slice of the oracle, in poll periods.
pub(crate) const SCENARIO_PERIODS: u64 = 4_000;
pub(crate) const SLICE_PERIODS: u64 = 20;
/// From one burst of noise to the next, in poll periods.
pub(crate) const BURST_PERIODS: u64 = 100;
const SEED: u64 = 20_050_512;

/// One arrival pattern at one period and one cost ratio, with the oracle's sums.
pub(crate) struct Scenario {
    /// The pattern, without period and ratio.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) threshold_pps: f64,
    pub(crate) period_ns: u64,
    pub(crate) costs: Costs,
    pub(crate) arrivals: Vec<u64>,
    pub(crate) end_ns: u64,
    /// Per slice: cost of interrupts only, of the timer only (ns).
    pub(crate) oracle: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Anything that counts for cost and wrong-mode time only.
    Mixed,
    /// Poisson within 10 % of the threshold: counts switches.
    AtThreshold,
    /// Few packets, all at once: switches are false alarms.
    Noise,
    /// From silence to a steady rate at 1/4 and back to silence at 3/4 of the scenario: counts reaction.
    Step,
}

pub(crate) fn pacer(policy: &Policy) -> Pacer {
    Pacer::new(policy).unwrap_or_else(|error| panic!("{error}"))
}

fn slice_costs(scenario: &Scenario, policy: &Policy) -> Vec<u64> {
    let slices = SCENARIO_PERIODS / SLICE_PERIODS;
    let mut costs = vec![0; slices as usize];
    simulate(&mut pacer(policy), &scenario.arrivals, scenario.end_ns, &scenario.costs, |cycle| {
        let slice = cycle.woke_ns / (scenario.period_ns * SLICE_PERIODS);
        if let Some(cost) = costs.get_mut(slice as usize) {
            *cost += cycle.cost_ns;
        }
    });
    costs
}

/// All patterns at all periods and cost ratios, deterministic.
pub(crate) fn scenarios(interrupt_ns: u64, packet_ns: u64) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut random = Random::new(SEED);
    for period_us in [100, 122, 250, 500, 1000] {
        // How many interrupts one tick costs, hence how many packets come per tick at the break-even threshold.
        for ratio in [1, 2, 4, 8] {
            let period_ns = period_us * 1_000;
            let end_ns = SCENARIO_PERIODS * period_ns;
            let threshold_pps = ratio as f64 * 1e9 / period_ns as f64;
            let timer_ns = ratio * interrupt_ns;
            let costs = Costs { interrupt_ns, timer_ns, packet_ns };
            let mut add = |name: String, kind, arrivals: Vec<u64>| {
                let oracle = Vec::new();
                all.push(Scenario { name, kind, threshold_pps, period_ns, costs, arrivals, end_ns, oracle });
            };
            for x in [0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 8.0] {
                let mut arrivals = Vec::new();
                arrive(&mut arrivals, (0, end_ns), |_| x * threshold_pps, None);
                add(format!("constant {x}"), Kind::Mixed, arrivals);
            }
            for x in [0.25, 0.5, 0.8, 0.9, 1.0, 1.1, 1.25, 2.0, 8.0] {
                let mut arrivals = Vec::new();
                arrive(&mut arrivals, (0, end_ns), |_| x * threshold_pps, Some(&mut random));
                let kind = if (0.9..=1.1).contains(&x) { Kind::AtThreshold } else { Kind::Mixed };
                add(format!("poisson {x}"), kind, arrivals);
            }
            for (on, off, each) in [(4.0, 0.1, 200), (16.0, 0.0, 100), (2.0, 0.5, 1000), (16.0, 0.1, 10)] {
                let phase = move |at: u64| if (at / (each * period_ns)).is_multiple_of(2) { off } else { on };
                let mut arrivals = Vec::new();
                for start in (0..SCENARIO_PERIODS).step_by(each as usize) {
                    let span = (start * period_ns, (start + each) * period_ns);
                    arrive(&mut arrivals, span, |at| phase(at) * threshold_pps, Some(&mut random));
                }
                add(format!("on/off {on}/{off} every {each}"), Kind::Mixed, arrivals);
            }
            // At 1 Mpps several packets share an interrupt; at 125 kpps (8 us) each has its own.
            for (burst, background, gap_ns) in
                [(32, 0.0, 1_000), (8, 0.25, 1_000), (32, 0.25, 1_000), (64, 0.25, 1_000), (32, 0.0, 8_000)]
            {
                let mut arrivals = Vec::new();
                let rate = background * threshold_pps;
                arrive(&mut arrivals, (0, end_ns), |_| rate, Some(&mut random));
                for start in (0..SCENARIO_PERIODS).step_by(BURST_PERIODS as usize) {
                    let from = start * period_ns + random.next() % period_ns;
                    let span = (from, from + burst * gap_ns + gap_ns / 2);
                    arrive(&mut arrivals, span, |_| 1e9 / gap_ns as f64, None);
                }
                arrivals.sort_unstable();
                add(
                    format!("bursts of {burst}, {} us apart, over poisson {background}", gap_ns / 1_000),
                    Kind::Noise,
                    arrivals,
                );
            }
            let mut arrivals = Vec::new();
            let triangle = |at: u64| {
                let up = 1.0 - (2.0 * at as f64 / end_ns as f64 - 1.0).abs();
                0.1 * 100.0_f64.powf(up) * threshold_pps
            };
            arrive(&mut arrivals, (0, end_ns), triangle, Some(&mut random));
            add("ramp 0.1-10-0.1".to_owned(), Kind::Mixed, arrivals);
            for x in [1.25, 2.0, 8.0, 32.0] {
                let mut arrivals = Vec::new();
                let span = (end_ns / 4, end_ns * 3 / 4);
                arrive(&mut arrivals, span, |_| x * threshold_pps, Some(&mut random));
                add(format!("step 0-{x}-0"), Kind::Step, arrivals);
            }
        }
    }
    for scenario in &mut all {
        let interrupt = slice_costs(scenario, &Policy::Interrupt);
        let timer = slice_costs(scenario, &Policy::Timer { period_ns: scenario.period_ns });
        scenario.oracle = interrupt.into_iter().zip(timer).collect();
    }
    all
}

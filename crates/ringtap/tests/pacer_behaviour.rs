//! What the pacer does with traffic: the engine in simulated time, simulated arrivals, and costs like those measured on a virtual
//! machine. Each test states its bound.

mod pacer_sim;

use pacer_sim::{Costs, Cycle, Random, arrive, simulate};
use ringtap::pacer::{Hybrid, Mode, Pacer, Policy, Rung, Wait, Windowed};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const COSTS: Costs = Costs { interrupt_ns: 5_000, timer_ns: 10_000, packet_ns: 200 };

/// Threshold (pps) and poll period (ns): the sources' own, two measured break-evens, one fast.
const RUNGS: [(f64, u64); 4] = [(8_300.0, 122_000), (8_000.0, 1_000_000), (30_000.0, 122_000), (60_000.0, 100_000)];

fn hybrid(threshold_pps: f64, period_ns: u64) -> Pacer {
    Pacer::new(&Policy::Hybrid(Hybrid::new(threshold_pps, period_ns))).unwrap()
}

fn constant(rate_pps: f64, span: (u64, u64)) -> Vec<u64> {
    let mut arrivals = Vec::new();
    arrive(&mut arrivals, span, |_| rate_pps, None);
    arrivals
}

fn poisson(rate_pps: f64, span: (u64, u64), seed: u64) -> Vec<u64> {
    let mut arrivals = Vec::new();
    arrive(&mut arrivals, span, |_| rate_pps, Some(&mut Random::new(seed)));
    arrivals
}

fn run(pacer: &mut Pacer, arrivals: &[u64], end_ns: u64) {
    simulate(pacer, arrivals, end_ns, &COSTS, |_| {});
}

#[test]
fn constant_traffic_below_the_threshold_never_switches() {
    for (threshold, period) in RUNGS {
        for x in [0.1, 0.5, 0.8, 0.95] {
            let mut pacer = hybrid(threshold, period);
            run(&mut pacer, &constant(x * threshold, (0, 20 * SECOND)), 20 * SECOND);
            assert_eq!((pacer.mode(), pacer.mode_switches()), (Mode::Interrupt, 0), "{x} of {threshold}");
        }
    }
}

/// Bound: 89 cycles with packets. From the ceiling of 4 threshold periods towards 0.8 of one, (31/32)^n must fall
/// below (1 − 0.8)/(4 − 0.8): n = 88, and one more because the threshold must be undershot.
#[test]
fn constant_traffic_above_the_threshold_switches_within_89_cycles_and_stays() {
    for (threshold, period) in RUNGS {
        for x in [1.25, 2.0, 10.0] {
            let start = 3_600 * SECOND;
            let mut pacer = hybrid(threshold, period);
            let (mut cycles, mut needed) = (0, None);
            let arrivals = constant(x * threshold, (start, start + 20 * SECOND));
            simulate(&mut pacer, &arrivals, start + 20 * SECOND, &COSTS, |cycle| {
                cycles += u32::from(!cycle.packets.is_empty());
                if cycle.pacer.mode() == Mode::Timer {
                    needed = needed.or(Some(cycles));
                }
            });
            let needed = needed.unwrap();
            assert!(needed <= 89, "{x} of {threshold}: {needed} cycles");
            assert_eq!((pacer.mode(), pacer.mode_switches()), (Mode::Timer, 1), "{x} of {threshold}");
        }
    }
}

/// Bound: k = 32 packets, at 1 Mpps (several to an interrupt) or 125 kpps (each its own), 20 times a second.
#[test]
fn a_burst_of_32_packets_at_a_low_mean_rate_does_not_switch() {
    for (threshold, period) in RUNGS {
        for gap_ns in [1_000, 8_000] {
            let bursts = (0..200).map(|burst| 50 * MS * burst);
            let arrivals: Vec<u64> = bursts.flat_map(|at| (1..=32).map(move |packet| at + packet * gap_ns)).collect();
            let mut pacer = hybrid(threshold, period);
            run(&mut pacer, &arrivals, 10 * SECOND);
            assert_eq!(pacer.mode_switches(), 0, "{gap_ns} ns apart, threshold {threshold}");
        }
    }
}

/// Bound: 40 switches in 1000 poll periods, Poisson arrivals at 0.9, 1.0 and 1.1 of the threshold.
#[test]
fn poisson_traffic_at_the_threshold_does_not_oscillate() {
    const PERIODS: u64 = 20_000;
    for (seed, (threshold, period)) in RUNGS.into_iter().enumerate() {
        for x in [0.9, 1.0, 1.1] {
            let arrivals = poisson(x * threshold, (0, PERIODS * period), seed as u64 + 1);
            let switches = |hysteresis| {
                let policy = Hybrid { hysteresis, ..Hybrid::new(threshold, period) };
                let mut pacer = Pacer::new(&Policy::Hybrid(policy)).unwrap();
                run(&mut pacer, &arrivals, PERIODS * period);
                pacer.mode_switches()
            };
            let (found, bare) = (switches(Hybrid::HYSTERESIS), switches(0.0));
            println!("{x} of {threshold} pps, {period} ns: {found} switches, {bare} without hysteresis");
            assert!(found * 1_000 <= 40 * PERIODS, "{x} of {threshold}: {found} switches");
            assert!(found * 2 < bare.max(1), "hysteresis earns its place: {found} against {bare}");
        }
    }
}

/// Bound: silence of (1 + hysteresis)/α1 = 41.6 threshold periods, rounded up to ticks, plus one tick.
#[test]
fn silence_ends_timer_mode_within_a_bounded_number_of_ticks_and_nothing_stays_periodic() {
    for (threshold, period) in RUNGS {
        for rate in [2.0 * threshold, 16.0 * threshold, 1_000_000.0] {
            let mut pacer = hybrid(threshold, period);
            let arrivals = constant(rate, (0, SECOND));
            let mut empty = 0_u64;
            let mut last_ns = 0;
            simulate(&mut pacer, &arrivals, 100 * SECOND, &COSTS, |cycle| {
                empty = if cycle.packets.is_empty() { empty + 1 } else { 0 };
                last_ns = cycle.now_ns;
            });
            let bound = (41.6 * 1e9 / threshold / period as f64).ceil() as u64 + 1;
            println!("{rate} pps, threshold {threshold}: {empty} empty ticks, bound {bound}");
            assert!((1..=bound).contains(&empty), "{rate} pps, threshold {threshold}: {empty} ticks, bound {bound}");
            assert_eq!((pacer.mode(), pacer.mode_switches()), (Mode::Interrupt, 2));
            // The engine may wake for its own reasons: still no timer. A lone packet neither.
            for quiet in 1..100 {
                assert_eq!(pacer.next(last_ns + quiet * 10 * MS, 0), Wait::Interrupt);
            }
            assert_eq!(pacer.next(last_ns + 10 * SECOND, 1), Wait::Interrupt);
        }
    }
}

/// Bound: away from the threshold, wake-ups cost at most 3 % more than the better of interrupt and timer.
#[test]
fn waiting_costs_what_the_better_way_costs() {
    for ratio in [1, 2, 4, 8] {
        let period = 122_000;
        let costs = Costs { timer_ns: ratio * COSTS.interrupt_ns, ..COSTS };
        let threshold = ratio as f64 * 1e9 / period as f64;
        for x in [0.25, 0.5, 2.0, 8.0] {
            let arrivals = poisson(x * threshold, (0, 2 * SECOND), ratio);
            let cost = |policy: Policy| {
                let mut sum = 0;
                let mut pacer = Pacer::new(&policy).unwrap();
                simulate(&mut pacer, &arrivals, 2 * SECOND, &costs, |cycle| sum += cycle.cost_ns);
                sum as f64
            };
            let found = cost(Policy::Hybrid(Hybrid::new(threshold, period)));
            let best = cost(Policy::Interrupt).min(cost(Policy::Timer { period_ns: period }));
            assert!(found <= 1.03 * best, "{x} of {threshold}: {found} ns against {best}");
        }
    }
}

/// Bound: the poll period plus the cost of the wake-up and of the packets before it in the same cycle.
#[test]
fn no_packet_waits_longer_than_a_period() {
    for (threshold, period) in RUNGS {
        for x in [0.5, 1.0, 4.0, 16.0] {
            let mut pacer = hybrid(threshold, period);
            let check = |cycle: &Cycle<'_>| {
                for (before, arrival) in cycle.packets.iter().enumerate() {
                    let handled = cycle.woke_ns + cycle.cost_ns + COSTS.packet_ns * before as u64;
                    let own = cycle.cost_ns + COSTS.packet_ns * before as u64;
                    assert!(handled - arrival <= period + own, "{x} of {threshold}: {} ns", handled - arrival);
                }
            };
            simulate(&mut pacer, &poisson(x * threshold, (0, 4 * SECOND), 7), 4 * SECOND, &COSTS, check);
        }
    }
}

#[test]
fn a_ladder_follows_the_rate_up_and_down() {
    let rungs = vec![
        Rung { threshold_pps: 8_000.0, period_ns: 1_000_000 },
        Rung { threshold_pps: 100_000.0, period_ns: 250_000 },
    ];
    let mut pacer = Pacer::new(&Policy::Hybrid(Hybrid::with_rungs(rungs))).unwrap();
    let mut arrivals = Vec::new();
    let rates = [1_000.0, 50_000.0, 400_000.0, 50_000.0, 1_000.0];
    for (second, rate) in (0..).zip(rates) {
        arrivals.extend(poisson(rate, (second * SECOND, (second + 1) * SECOND), second + 1));
    }
    let mut periods = Vec::new();
    simulate(&mut pacer, &arrivals, 5 * SECOND, &COSTS, |cycle| {
        if periods.last() != Some(&cycle.pacer.period_ns()) {
            periods.push(cycle.pacer.period_ns());
        }
    });
    assert_eq!(periods, [None, Some(1_000_000), Some(250_000), Some(1_000_000), None]);
    assert_eq!((pacer.mode_switches(), pacer.period_changes()), (2, 2));
}

/// The engine is slower than its period: ticks are skipped and counted, never asked for in a row.
#[test]
fn a_slow_engine_skips_ticks() {
    let mut pacer = Pacer::new(&Policy::Timer { period_ns: 100_000 }).unwrap();
    let slow = Costs { timer_ns: 250_000, ..COSTS };
    let mut ticks = 0;
    simulate(&mut pacer, &[], 30 * MS, &slow, |cycle| {
        assert!(matches!(cycle.waited, Wait::Timer(instant) if instant == cycle.woke_ns && instant % 100_000 == 0));
        ticks += 1;
    });
    assert_eq!((ticks, pacer.missed_ticks()), (100, 200));
}

/// Bounds: 0.8 of the cliff never; 1.25 of it within 5 windows of 8 ms (1.25·(1 − 2^-4) > 1.15 after 4, and the
/// first may be cut) and stays; after 1 Mpps silence within 10 windows (125·2^-8 < 0.85 after 8).
#[test]
fn windowed_switches_at_its_cliffs() {
    let windowed = || Pacer::new(&Policy::Windowed(Windowed::new(8_000.0, 1_000_000))).unwrap();
    let mut below = windowed();
    run(&mut below, &constant(6_400.0, (0, 10 * SECOND)), 10 * SECOND);
    assert_eq!((below.mode(), below.mode_switches()), (Mode::Interrupt, 0));

    let mut above = windowed();
    let mut switched_ns = None;
    simulate(&mut above, &constant(10_000.0, (0, 10 * SECOND)), 10 * SECOND, &COSTS, |cycle| {
        if cycle.pacer.mode() == Mode::Timer {
            switched_ns = switched_ns.or(Some(cycle.now_ns));
        }
    });
    assert!(switched_ns.unwrap() <= 5 * 8 * MS, "{switched_ns:?}");
    assert_eq!((above.mode(), above.mode_switches()), (Mode::Timer, 1));

    let mut ending = windowed();
    let mut last_ns = 0;
    let arrivals = constant(1_000_000.0, (0, SECOND));
    simulate(&mut ending, &arrivals, 100 * SECOND, &COSTS, |cycle| last_ns = cycle.now_ns);
    assert_eq!((ending.mode(), ending.mode_switches()), (Mode::Interrupt, 2));
    assert!(last_ns <= SECOND + 10 * 8 * MS, "{last_ns}");
}

/// Bound: 6 switches in 1000 poll periods (125 windows), Poisson arrivals at the cliff.
#[test]
fn windowed_is_calm_at_its_cliff() {
    let mut pacer = Pacer::new(&Policy::Windowed(Windowed::new(8_000.0, 1_000_000))).unwrap();
    run(&mut pacer, &poisson(8_000.0, (0, 20 * SECOND), 3), 20 * SECOND);
    println!("{} switches in 20 s", pacer.mode_switches());
    assert!(pacer.mode_switches() <= 6 * 20, "{}", pacer.mode_switches());
}

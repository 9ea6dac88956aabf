//! The pacer's arithmetic against values computed by hand, its validation, and odd clocks.

use proptest::prelude::*;
use ringtap::pacer::{Hybrid, MAX_PERIOD_NS, Mode, Pacer, Policy, PolicyError, Rung, Wait, Windowed};

const SECOND: u64 = 1_000_000_000;

fn pacer(policy: Policy) -> Pacer {
    Pacer::new(&policy).unwrap()
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.unwrap();
    assert!((found / expected - 1.0).abs() < 1e-4, "found {found}, expected {expected}");
}

/// Threshold 10 kpps: a threshold period of 100 µs. Round weights, no hysteresis.
fn by_hand() -> Hybrid {
    let defaults = Hybrid::new(10_000.0, 122_000);
    Hybrid { alpha1: 0.25, alpha2: 0.5, n1: 4, n2: 8, hysteresis: 0.0, ceiling: 4.0, ..defaults }
}

#[test]
fn forecast_follows_the_equations() {
    let mut pacer = pacer(Policy::Hybrid(by_hand()));
    assert_eq!(pacer.next(0, 0), Wait::Interrupt);
    assert_eq!(pacer.predicted_rate_pps(), None, "nothing measured yet");
    // n ≤ n1: 0.25 · 100 + 0.75 · 400 (the ceiling) = 325 µs.
    assert_eq!(pacer.next(100_000, 1), Wait::Interrupt);
    near(pacer.predicted_rate_pps(), 3_076.923);
    // n = n1 still α1: 0.25 · 25 + 0.75 · 325 = 250 µs.
    assert_eq!(pacer.next(200_000, 4), Wait::Interrupt);
    near(pacer.predicted_rate_pps(), 4_000.0);
    // n1 < n ≤ n2: 0.5 · 20 + 0.5 · 250 = 135 µs.
    assert_eq!(pacer.next(300_000, 5), Wait::Interrupt);
    near(pacer.predicted_rate_pps(), 7_407.407);
    // n = n2 still α2: 0.5 · 1.25 + 0.5 · 135 = 68.125 µs, below the threshold's 100.
    assert_eq!(pacer.next(310_000, 8), Wait::Timer(432_000));
    near(pacer.predicted_rate_pps(), 14_678.899);
    // n > n2: the newest alone, 122 / 9 = 13.556 µs.
    assert_eq!(pacer.next(432_000, 9), Wait::Timer(554_000));
    near(pacer.predicted_rate_pps(), 73_770.492);
    // Empty ticks: elapsed grows from the last active cycle, T_prev stays 13.556:
    // 0.25 · 122 + 10.167 = 40.667; 0.25 · 244 + 10.167 = 71.167; 0.25 · 366 + 10.167 = 101.667 µs.
    assert_eq!(pacer.next(554_000, 0), Wait::Timer(676_000));
    near(pacer.predicted_rate_pps(), 24_590.164);
    assert_eq!(pacer.next(676_000, 0), Wait::Timer(798_000));
    near(pacer.predicted_rate_pps(), 14_051.522);
    assert_eq!(pacer.next(798_000, 0), Wait::Interrupt);
    near(pacer.predicted_rate_pps(), 9_836.066);
    assert_eq!((pacer.mode(), pacer.mode_switches(), pacer.missed_ticks()), (Mode::Interrupt, 2, 0));
    // The silence counts once: 0.25 · (1000 − 432) / 2 + 0.75 · 13.556 = 81.167 µs.
    assert_eq!(pacer.next(1_000_000, 2), Wait::Timer(1_122_000));
    near(pacer.predicted_rate_pps(), 12_320.329);
}

#[test]
fn an_empty_cycle_never_raises_the_forecast_into_timer_mode() {
    let mut pacer = pacer(Policy::Hybrid(by_hand()));
    pacer.next(0, 0);
    // 0.5 · 12.5 + 0.5 · 400 = 206.25; 0.5 · 12.5 + 0.5 · 206.25 = 109.375 µs: just above the threshold.
    pacer.next(100_000, 8);
    assert_eq!(pacer.next(200_000, 8), Wait::Interrupt);
    near(pacer.predicted_rate_pps(), 9_142.857);
    // A spurious wake-up 1 µs later: the equations say 82 µs, but no packet came.
    assert_eq!(pacer.next(201_000, 0), Wait::Interrupt);
    assert_eq!(pacer.mode_switches(), 0);
}

#[test]
fn hysteresis_and_ceiling() {
    let hybrid = Hybrid { alpha1: 0.25, alpha2: 1.0, n1: 0, hysteresis: 0.5, ceiling: 2.0, ..by_hand() };
    let mut pacer = pacer(Policy::Hybrid(hybrid));
    pacer.next(0, 0);
    assert_eq!(pacer.next(100_000, 1), Wait::Interrupt, "100 µs is not below the threshold");
    assert_eq!(pacer.next(199_000, 1), Wait::Timer(321_000), "99 µs is");
    assert_eq!(pacer.next(321_000, 1), Wait::Timer(443_000), "122 µs keeps it");
    assert_eq!(pacer.next(471_000, 1), Wait::Interrupt, "150 µs does not");
    // After an hour of silence the remembered period is 2 × 100 µs, so 0.25 · 0 + 0.75 · 200 = 150 µs.
    pacer.next(3_600 * SECOND, 1);
    pacer.next(3_600 * SECOND, 0);
    near(pacer.predicted_rate_pps(), 1e9 / 150_000.0);
}

#[test]
fn the_ladder_goes_up_and_down_rung_by_rung() {
    let rungs = vec![
        Rung { threshold_pps: 10_000.0, period_ns: 1_000_000 },
        Rung { threshold_pps: 100_000.0, period_ns: 250_000 },
    ];
    // The newest period alone, so that each call is one rate.
    let hybrid = Hybrid { alpha1: 0.5, alpha2: 1.0, n1: 0, n2: 1, ..Hybrid::with_rungs(rungs) };
    let mut pacer = pacer(Policy::Hybrid(hybrid));
    pacer.next(0, 0);
    let mut now = 0;
    let mut at_rate = |rate_pps: u64| {
        now += SECOND;
        pacer.next(now, rate_pps);
        pacer.period_ns()
    };
    assert_eq!(at_rate(9_000), None);
    assert_eq!(at_rate(50_000), Some(1_000_000));
    assert_eq!(at_rate(99_000), Some(1_000_000));
    assert_eq!(at_rate(101_000), Some(250_000));
    assert_eq!(at_rate(80_000), Some(250_000), "hysteresis: 100 / 1.3 = 77 kpps");
    assert_eq!(at_rate(76_000), Some(1_000_000));
    assert_eq!(at_rate(8_000), Some(1_000_000));
    assert_eq!(at_rate(7_600), None);
    assert_eq!(at_rate(500_000), Some(250_000), "two rungs at once");
    assert_eq!(at_rate(100), None);
    assert_eq!((pacer.mode_switches(), pacer.period_changes()), (4, 2));
}

#[test]
fn windowed_estimate_by_hand() {
    // Cliff 10 kpps: 80 packets in 8 ms; cliff2 = 92, cliff1 = 68. Weight 1/2.
    let mut pacer = pacer(Policy::Windowed(Windowed::new(10_000.0, 1_000_000)));
    assert_eq!(pacer.next(0, 0), Wait::Interrupt);
    pacer.next(4_000_000, 100);
    assert_eq!(pacer.predicted_rate_pps(), None, "the window is open");
    pacer.next(8_000_000, 30);
    near(pacer.predicted_rate_pps(), 50.0 * 125.0);
    pacer.next(15_999_999, 170);
    // 50 + (200 − 50) / 2 = 125 packets a window, above cliff2.
    assert_eq!(pacer.next(16_000_000, 0), Wait::Timer(17_000_000));
    near(pacer.predicted_rate_pps(), 125.0 * 125.0);
    // Two empty windows at once: 125 → 62.5 → 31.25; the first alone is below cliff1.
    assert_eq!(pacer.next(32_500_000, 0), Wait::Interrupt);
    near(pacer.predicted_rate_pps(), 31.25 * 125.0);
    // A silence of any length costs a bounded number of steps.
    assert_eq!(pacer.next(u64::MAX / 2, 1), Wait::Interrupt);
    assert_eq!(pacer.predicted_rate_pps(), Some(0.0));
    assert_eq!(pacer.mode_switches(), 2);
}

#[test]
fn windowed_takes_an_engine_too_busy_to_call_for_traffic() {
    let mut pacer = pacer(Policy::Windowed(Windowed::new(10_000.0, 1_000_000)));
    pacer.next(0, 0);
    // One second without an empty ring, a million packets: 8000 in each window.
    assert!(matches!(pacer.next(SECOND, 1_000_000), Wait::Timer(_)));
    near(pacer.predicted_rate_pps(), 1e6);
}

#[test]
fn fixed_policies() {
    let mut interrupt = pacer(Policy::Interrupt);
    let mut busy = pacer(Policy::Busy);
    let mut timer = pacer(Policy::Timer { period_ns: 100 });
    for now in [0, 50, 1_000] {
        assert_eq!(interrupt.next(now, 1_000), Wait::Interrupt);
        assert_eq!(busy.next(now, 0), Wait::Poll);
    }
    assert_eq!(timer.mode(), Mode::Timer);
    assert_eq!(timer.next(1_000, 0), Wait::Timer(1_100));
    assert_eq!(timer.next(1_350, 7), Wait::Timer(1_400));
    assert_eq!(timer.missed_ticks(), 2, "1200 and 1300");
    assert_eq!((timer.mode_switches(), timer.predicted_rate_pps()), (0, None));
}

#[test]
fn bad_policies_name_the_tunable() {
    let good = Hybrid::new(8_300.0, 122_000);
    let refused = |hybrid: Hybrid, expected: &str| {
        let error = Pacer::new(&Policy::Hybrid(hybrid)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(Hybrid { alpha1: 0.0, ..good.clone() }, "alpha1 is 0; it must be above 0 and at most 1");
    refused(Hybrid { alpha1: f64::NAN, ..good.clone() }, "alpha1 is NaN");
    refused(Hybrid { alpha2: 1.5, ..good.clone() }, "alpha2 is 1.5");
    refused(Hybrid { alpha1: 0.8, alpha2: 0.8, ..good.clone() }, "alpha1 (0.8) must be below alpha2 (0.8)");
    refused(Hybrid { n1: 128, ..good.clone() }, "n1 (128) must be below n2 (128)");
    refused(Hybrid { hysteresis: -0.1, ..good.clone() }, "hysteresis is -0.1");
    refused(Hybrid { ceiling: 1.3, ..good.clone() }, "ceiling is 1.3");
    refused(Hybrid { rungs: vec![], ..good.clone() }, "the ladder is empty");
    refused(Hybrid::new(0.0, 122_000), "threshold_pps is 0");
    refused(Hybrid::new(f64::INFINITY, 122_000), "threshold_pps is inf");
    refused(Hybrid::new(8_300.0, 0), "period_ns is 0");
    let rung = |threshold_pps| Rung { threshold_pps, period_ns: 1 };
    refused(Hybrid::with_rungs(vec![rung(2.0), rung(2.0)]), "rung 1 has threshold 2 pps, not above the 2 pps");
    let timer = Policy::Timer { period_ns: MAX_PERIOD_NS + 1 };
    assert!(matches!(timer.validate(), Err(PolicyError::OutOfRange { name: "period_ns", .. })));
    let windowed = Windowed::new(8_300.0, 122_000);
    for (windowed, name) in [
        (Windowed { cliff_pps: -1.0, ..windowed.clone() }, "cliff_pps is -1"),
        (Windowed { period_ns: 0, ..windowed.clone() }, "period_ns is 0"),
        (Windowed { epsilon: 1.0, ..windowed.clone() }, "epsilon is 1"),
        (Windowed { window_ns: 0, ..windowed.clone() }, "window_ns is 0"),
        (Windowed { weight_shift: 5, ..windowed.clone() }, "weight_shift is 5"),
    ] {
        assert!(Policy::Windowed(windowed).validate().unwrap_err().to_string().contains(name));
    }
}

#[test]
fn policies_survive_json() {
    for policy in [
        Policy::Hybrid(Hybrid::new(8_300.0, 122_000)),
        Policy::Windowed(Windowed::new(8_300.0, 122_000)),
        Policy::Interrupt,
        Policy::Timer { period_ns: 1_000_000 },
        Policy::Busy,
    ] {
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy, "{json}");
    }
    let short = r#"{"wait":"hybrid","rungs":[{"threshold_pps":8300.0,"period_ns":122000}]}"#;
    let policy: Policy = serde_json::from_str(short).unwrap();
    assert_eq!(policy, Policy::Hybrid(Hybrid::new(8_300.0, 122_000)), "defaults are filled in");
}

/// Any valid policy of each kind.
fn any_policy() -> impl Strategy<Value = Policy> {
    let period = prop_oneof![1..2_000_000_u64, Just(MAX_PERIOD_NS)];
    let rate = prop_oneof![1.0..1e7_f64, Just(f64::MIN_POSITIVE), Just(f64::MAX)];
    let hybrid = (rate.clone(), period.clone(), 0.0..3.0_f64).prop_map(|(rate, period_ns, hysteresis)| {
        Policy::Hybrid(Hybrid { hysteresis, ..Hybrid::new(rate, period_ns) })
    });
    let windowed =
        (rate, period.clone(), 0..=Windowed::MAX_WEIGHT_SHIFT).prop_map(|(rate, period_ns, weight_shift)| {
            Policy::Windowed(Windowed { weight_shift, ..Windowed::new(rate, period_ns) })
        });
    let timer = period.prop_map(|period_ns| Policy::Timer { period_ns });
    prop_oneof![4 => hybrid, 3 => windowed, 1 => timer, 1 => Just(Policy::Interrupt), 1 => Just(Policy::Busy)]
}

/// Steps of the clock, forwards, standing, backwards and to its ends.
fn any_clock() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let step = prop_oneof![0..3_000_000_u64, any::<u64>(), Just(0), Just(u64::MAX), Just(u64::MAX - 1)];
    let handled = prop_oneof![Just(0), 0..200_u64, any::<u64>()];
    prop::collection::vec((step, handled), 1..200).prop_map(|steps| {
        let mut now = 0_u64;
        let advance = |(step, handled)| {
            now = now.wrapping_add(step);
            (now, handled)
        };
        steps.into_iter().map(advance).collect()
    })
}

proptest! {
    #[test]
    fn any_clock_gives_a_sane_answer(policy in any_policy(), calls in any_clock()) {
        let mut pacer = Pacer::new(&policy).unwrap();
        for (now, handled) in calls {
            match pacer.next(now, handled) {
                Wait::Timer(instant) => {
                    prop_assert!(instant > now || now == u64::MAX, "{instant} is not after {now}");
                    prop_assert!(instant - now <= pacer.period_ns().unwrap());
                    prop_assert_eq!(pacer.mode(), Mode::Timer);
                }
                Wait::Interrupt => prop_assert_eq!((pacer.mode(), pacer.period_ns()), (Mode::Interrupt, None)),
                Wait::Poll => prop_assert_eq!(&policy, &Policy::Busy),
            }
            if let Some(rate) = pacer.predicted_rate_pps() {
                prop_assert!((0.0..=1e9).contains(&rate), "{rate}");
            }
        }
    }

    /// However wild the past: a clock that runs again, with nothing arriving, leads to the interrupt.
    #[test]
    fn silence_always_leads_to_the_interrupt(calls in any_clock(), windowed in any::<bool>()) {
        let policy = if windowed {
            Policy::Windowed(Windowed::new(8_000.0, 1_000_000))
        } else {
            Policy::Hybrid(Hybrid::new(8_000.0, 1_000_000))
        };
        let mut pacer = Pacer::new(&policy).unwrap();
        for (now, handled) in calls {
            pacer.next(now, handled);
        }
        let mut now = SECOND;
        let mut ticks = 0;
        while let Wait::Timer(instant) = pacer.next(now, 0) {
            now = instant;
            ticks += 1;
            prop_assert!(ticks < 1_000);
        }
    }
}

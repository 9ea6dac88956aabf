//! Chooses the pacer's default tunables by measurement: runs many settings over the same simulated arrivals and
//! scores them against an oracle that knows the traffic.
//!
//!     cargo run --release -p ringtap --example forecast_sweep -- [--out DIR] [--interrupt-ns N] [--packet-ns N]
//!
//! Simulation only: neither the load nor the speed of the machine changes the result. Owns: score, choice and record. Does not own: the
//! engine's costs and the scenarios (`tests/pacer_sim`).

#[path = "../tests/pacer_sim/mod.rs"]
mod pacer_sim;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Parser as _;
use pacer_sim::scenario::{BURST_PERIODS, Kind, SCENARIO_PERIODS, SLICE_PERIODS, Scenario, pacer, scenarios};
use pacer_sim::simulate;
use ringtap::pacer::{Hybrid, Mode, Policy, Wait, Windowed};
use serde::Serialize;

/// Where the oracle's two ways cost about the same, neither is wrong.
const CLEAR_ADVANTAGE: f64 = 1.25;
/// Settings whose score is within this share of the best are taken as equal; of them the calmest is chosen.
const TOLERANCE: f64 = 0.15;
/// Excursions per burst of noise that are accepted of the hybrid policy; the windowed one knows no inertia but its
/// window's length.
const FALSE_ALARMS: f64 = 0.01;

/// What one run of one policy over one scenario gave.
#[derive(Default)]
struct Outcome {
    cost_ns: u64,
    oracle_ns: u64,
    wrong_share: f64,
    switches: u64,
    up_periods: Option<f64>,
    down_periods: Option<f64>,
    latency_sum_ns: u64,
    latency_max_ns: u64,
    packets: u64,
}

/// The record of one setting over all scenarios.
#[derive(Clone, Serialize)]
struct Scored {
    policy: Policy,
    score: f64,
    /// Wake-up cost over the oracle's, mean and worst scenario, percent.
    excess_percent: f64,
    excess_worst_percent: f64,
    /// Share of the time in the mode that was clearly the dearer one, percent.
    wrong_percent: f64,
    /// Per 1000 poll periods, Poisson at 0.9, 1.0 and 1.1 of the threshold: mean and worst scenario.
    switches_at_threshold: f64,
    switches_at_threshold_worst: f64,
    /// Excursions to timer mode per burst of 8 to 64 packets in silence or low traffic.
    false_alarms: f64,
    /// From the first packet to timer mode, poll periods: mean and worst; steps never recognised.
    up_periods: f64,
    up_worst_periods: f64,
    up_never: u64,
    /// From the last packet to interrupt mode, poll periods: mean and worst.
    down_periods: f64,
    down_worst_periods: f64,
    /// Packets' wait in poll periods: mean over scenarios, worst packet.
    latency_mean_periods: f64,
    latency_worst_periods: f64,
}

fn run(scenario: &Scenario, policy: &Policy) -> Outcome {
    let mut outcome = Outcome::default();
    let slice_ns = scenario.period_ns * SLICE_PERIODS;
    let mut timer_ns = vec![0_u64; scenario.oracle.len()];
    let first_ns = scenario.arrivals.first().copied().unwrap_or(0);
    let last_ns = scenario.arrivals.last().copied().unwrap_or(0);
    let (mut up_ns, mut down_ns) = (None, None);
    let mut pacer = pacer(policy);
    simulate(&mut pacer, &scenario.arrivals, scenario.end_ns, &scenario.costs, |cycle| {
        outcome.cost_ns += cycle.cost_ns;
        outcome.packets += cycle.packets.len() as u64;
        for (position, arrival) in cycle.packets.iter().enumerate() {
            let handled = cycle.woke_ns + cycle.cost_ns + scenario.costs.packet_ns * position as u64;
            outcome.latency_sum_ns += handled - arrival;
            outcome.latency_max_ns = outcome.latency_max_ns.max(handled - arrival);
        }
        if matches!(cycle.waited, Wait::Timer(_))
            && let Some(time) = timer_ns.get_mut((cycle.woke_ns / slice_ns) as usize)
        {
            *time += cycle.now_ns - cycle.from_ns;
        }
        match cycle.pacer.mode() {
            Mode::Timer if up_ns.is_none() => up_ns = Some(cycle.now_ns.saturating_sub(first_ns)),
            Mode::Interrupt if cycle.now_ns > last_ns && down_ns.is_none() => {
                down_ns = Some(cycle.now_ns.saturating_sub(last_ns));
            }
            _ => {}
        }
    });
    let mut wrong_ns = 0;
    for (&(interrupt, timer), &in_timer) in scenario.oracle.iter().zip(&timer_ns) {
        outcome.oracle_ns += interrupt.min(timer);
        if interrupt as f64 > timer as f64 * CLEAR_ADVANTAGE {
            wrong_ns += slice_ns.saturating_sub(in_timer);
        } else if timer as f64 > interrupt as f64 * CLEAR_ADVANTAGE {
            wrong_ns += in_timer.min(slice_ns);
        }
    }
    outcome.wrong_share = wrong_ns as f64 / scenario.end_ns as f64;
    outcome.switches = pacer.mode_switches();
    let periods = |time: u64| time as f64 / scenario.period_ns as f64;
    outcome.up_periods = up_ns.map(periods);
    outcome.down_periods = down_ns.map(periods);
    outcome
}

/// Mean and largest of a list; 0 and 0 when empty.
fn mean_max(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    (mean, values.iter().fold(0.0, |worst: f64, value| worst.max(*value)))
}

fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Runs a setting (given as a function of threshold and period) over all scenarios.
fn score(scenarios: &[Scenario], setting: &Setting) -> Scored {
    let (mut excess, mut charged, mut wrong, mut switches, mut alarms) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut up, mut down, mut latency, mut latency_max, mut up_never) = (vec![], vec![], vec![], vec![], 0);
    for scenario in scenarios {
        let outcome = run(scenario, &setting(scenario.threshold_pps, scenario.period_ns));
        let oracle = outcome.oracle_ns.max(1) as f64;
        excess.push(outcome.cost_ns as f64 / oracle - 1.0);
        // A mode switch is charged like one tick: it reprograms timer or device.
        let with_switches = outcome.cost_ns + outcome.switches * scenario.costs.timer_ns;
        charged.push(with_switches as f64 / oracle - 1.0);
        wrong.push(outcome.wrong_share);
        let period = scenario.period_ns as f64;
        latency.push(outcome.latency_sum_ns as f64 / outcome.packets.max(1) as f64 / period);
        latency_max.push(outcome.latency_max_ns as f64 / period);
        match scenario.kind {
            Kind::AtThreshold => switches.push(outcome.switches as f64 * 1e3 / SCENARIO_PERIODS as f64),
            Kind::Noise => alarms.push(outcome.switches as f64 / 2.0 / (SCENARIO_PERIODS / BURST_PERIODS) as f64),
            Kind::Step => {
                match outcome.up_periods {
                    Some(periods) => up.push(periods),
                    None => up_never += 1,
                }
                down.extend(outcome.down_periods);
            }
            Kind::Mixed => {}
        }
    }
    let (excess_mean, excess_worst) = mean_max(&excess);
    let (switches_mean, switches_worst) = mean_max(&switches);
    let ((up_mean, up_worst), (down_mean, down_worst)) = (mean_max(&up), mean_max(&down));
    Scored {
        policy: setting(8_000.0, 1_000_000),
        score: round(mean_max(&charged).0 + mean_max(&wrong).0),
        excess_percent: round(100.0 * excess_mean),
        excess_worst_percent: round(100.0 * excess_worst),
        wrong_percent: round(100.0 * mean_max(&wrong).0),
        switches_at_threshold: round(switches_mean),
        switches_at_threshold_worst: round(switches_worst),
        false_alarms: round(mean_max(&alarms).0),
        up_periods: round(up_mean),
        up_worst_periods: round(up_worst),
        up_never,
        down_periods: round(down_mean),
        down_worst_periods: round(down_worst),
        latency_mean_periods: round(mean_max(&latency).0),
        latency_worst_periods: round(mean_max(&latency_max).1),
    }
}

type Setting = Box<dyn Fn(f64, u64) -> Policy + Send + Sync>;

fn hybrid(alpha: (f64, f64), n: (u64, u64), hysteresis: f64, ceiling: f64) -> Setting {
    Box::new(move |threshold_pps, period_ns| {
        let defaults = Hybrid::new(threshold_pps, period_ns);
        let (alpha1, alpha2, n1, n2) = (alpha.0, alpha.1, n.0, n.1);
        Policy::Hybrid(Hybrid { alpha1, alpha2, n1, n2, hysteresis, ceiling, ..defaults })
    })
}

/// Scores settings on all cores; the order of the results is that of the settings.
fn score_all(scenarios: &[Scenario], settings: &[Setting]) -> Vec<Scored> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = settings.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let spawn = |part| scope.spawn(move || <[Setting]>::iter(part).map(|s| score(scenarios, s)).collect());
        let running: Vec<_> = settings.chunks(share).map(spawn).collect();
        let finished = running.into_iter().flat_map(|thread| -> Vec<Scored> {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        finished.collect()
    })
}

/// The setting to take: of those that recognise every step, take at most `false_alarms` of the bursts of noise for
/// traffic and score within `TOLERANCE` of the best, the one with the fewest switches at the threshold; on a tie the better score.
fn choose(scored: &[Scored], false_alarms: f64) -> usize {
    let fit = |s: &Scored| s.up_never == 0 && s.false_alarms <= false_alarms;
    let best = scored.iter().filter(|s| fit(s)).map(|s| s.score).fold(f64::INFINITY, f64::min);
    let near = scored.iter().enumerate().filter(|(_, s)| fit(s) && s.score <= best * (1.0 + TOLERANCE));
    let calmest = near.min_by(|(_, a), (_, b)| {
        let switches = a.switches_at_threshold_worst.total_cmp(&b.switches_at_threshold_worst);
        switches.then(a.score.total_cmp(&b.score))
    });
    calmest.map_or(0, |(index, _)| index)
}

/// Excess cost, wrong-mode time (percent) and switches per 1000 periods, by pattern: mean over periods and ratios.
fn by_pattern(scenarios: &[Scenario], setting: &Setting) -> Vec<(String, [f64; 3])> {
    let mut rows: Vec<(String, u32, [f64; 3])> = Vec::new();
    for scenario in scenarios {
        let outcome = run(scenario, &setting(scenario.threshold_pps, scenario.period_ns));
        let row = match rows.iter().position(|row| row.0 == scenario.name) {
            Some(row) => row,
            None => {
                rows.push((scenario.name.clone(), 0, [0.0; 3]));
                rows.len() - 1
            }
        };
        let (_, count, sums) = &mut rows[row];
        *count += 1;
        sums[0] += 100.0 * (outcome.cost_ns as f64 / outcome.oracle_ns.max(1) as f64 - 1.0);
        sums[1] += 100.0 * outcome.wrong_share;
        sums[2] += outcome.switches as f64 * 1e3 / SCENARIO_PERIODS as f64;
    }
    rows.into_iter().map(|(name, count, sums)| (name, sums.map(|sum| round(sum / f64::from(count))))).collect()
}

fn label(policy: &Policy) -> String {
    match policy {
        Policy::Hybrid(h) => format!(
            "hybrid a1=1/{:.0} a2={} n1={} n2={} h={} ceiling={}",
            1.0 / h.alpha1,
            h.alpha2,
            h.n1,
            h.n2,
            h.hysteresis,
            h.ceiling
        ),
        Policy::Windowed(w) => format!("windowed weight 1/{} epsilon={}", 1 << w.weight_shift, w.epsilon),
        other => format!("{other:?}").split(' ').next().unwrap_or_default().to_lowercase(),
    }
}

fn row(s: &Scored, chosen: bool) -> String {
    let mark = if chosen { "**" } else { "" };
    format!(
        "| {mark}{}{mark} | {:.4} | {:.1} / {:.0} | {:.2} | {:.1} / {:.1} | {:.2} | {:.1} / {:.1} | {:.1} / {:.1} | {:.2} / {:.1} |\n",
        label(&s.policy),
        s.score,
        s.excess_percent,
        s.excess_worst_percent,
        s.wrong_percent,
        s.switches_at_threshold,
        s.switches_at_threshold_worst,
        s.false_alarms,
        s.up_periods,
        s.up_worst_periods,
        s.down_periods,
        s.down_worst_periods,
        s.latency_mean_periods,
        s.latency_worst_periods
    )
}

const COLUMNS: &str = "| setting | score | excess cost %, mean / worst | wrong mode % | switches at threshold per 1000 periods, mean / worst | false alarms per burst | reaction up, periods, mean / worst | reaction down | latency, periods, mean / worst |\n|---|---|---|---|---|---|---|---|---|\n";

/// A table of the best by score, and the chosen one.
fn table(title: &str, scored: &[Scored], chosen: usize, rows: usize) -> String {
    let mut order: Vec<usize> = (0..scored.len()).collect();
    order.sort_by(|&a, &b| scored[a].score.total_cmp(&scored[b].score));
    let shown = order.iter().enumerate().filter(|&(rank, &index)| rank < rows || index == chosen);
    let lines: String = shown.map(|(_, &index)| row(&scored[index], index == chosen)).collect();
    format!("\n## {title} ({} settings)\n\n{COLUMNS}{lines}", scored.len())
}

/// (α1, α2), (n1, n2), hysteresis, ceiling.
type Tunables = ((f64, f64), (u64, u64), f64, f64);

fn stage_one() -> Vec<Tunables> {
    let mut settings = Vec::new();
    for shift in [7, 6, 5, 4, 3, 2] {
        let alpha1 = 1.0 / f64::from(1 << shift);
        for n in [(2, 8), (4, 16), (8, 32), (16, 64), (32, 128)] {
            for hysteresis in [0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5] {
                settings.push(((alpha1, (2.0 * alpha1).max(0.25)), n, hysteresis, 4.0));
            }
        }
    }
    settings
}

/// Searches the tunables of the forecast over simulated traffic.
#[derive(clap::Parser)]
struct Args {
    /// Folder for forecast-sweep.json and README.md
    #[arg(long, default_value = "benchmarks/record/2026-11-21-forecast")]
    out: PathBuf,
    /// What an interrupt costs, nanoseconds
    #[arg(long, default_value_t = 5_000)]
    interrupt_ns: u64,
    /// What a packet costs, nanoseconds
    #[arg(long, default_value_t = 200)]
    packet_ns: u64,
}

/// As it was called.
fn command() -> String {
    let mut words = vec!["cargo run --release -p ringtap --example forecast_sweep".to_owned()];
    words.extend(std::env::args().nth(1).map(|_| "--".to_owned()));
    words.extend(std::env::args().skip(1));
    words.join(" ")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (Args { out, interrupt_ns, packet_ns }, command) = (Args::parse(), command());
    let scenarios = scenarios(interrupt_ns, packet_ns);
    let build = |(alpha, n, h, ceiling)| hybrid(alpha, n, h, ceiling);

    let grid = stage_one();
    let first = score_all(&scenarios, &grid.iter().copied().map(build).collect::<Vec<_>>());
    let first_choice = choose(&first, FALSE_ALARMS);
    let ((alpha1, _), n, hysteresis, _) = grid[first_choice];

    let mut refined = Vec::new();
    for alpha2 in [0.0625, 0.125, 0.25, 0.5, 0.75].into_iter().filter(|&alpha2| alpha2 > alpha1) {
        for ceiling in [1.5, 2.0, 4.0, 8.0, 16.0] {
            refined.push(((alpha1, alpha2), n, hysteresis, ceiling));
        }
    }
    let second = score_all(&scenarios, &refined.iter().copied().map(build).collect::<Vec<_>>());
    let second_choice = choose(&second, FALSE_ALARMS);

    let shifts = 0..=Windowed::MAX_WEIGHT_SHIFT;
    let windowed: Vec<Setting> = shifts
        .map(|weight_shift| -> Setting {
            Box::new(move |cliff, period| Policy::Windowed(Windowed { weight_shift, ..Windowed::new(cliff, period) }))
        })
        .collect();
    let third = score_all(&scenarios, &windowed);
    let third_choice = choose(&third, f64::INFINITY);

    let fixed: [Setting; 2] =
        [Box::new(|_, _| Policy::Interrupt), Box::new(|_, period_ns| Policy::Timer { period_ns })];
    let fixed = score_all(&scenarios, &fixed);
    let pure = hybrid((alpha1, refined[second_choice].0.1), n, 0.0, refined[second_choice].3);

    let mut text = format!(
        "# Forecast sweep\n\nCommand: `{command}`\n\n{} scenarios of {SCENARIO_PERIODS} poll periods (simulated, deterministic): \
         constant, Poisson, on/off, bursts, ramp and steps, at rates relative to the threshold, poll periods 100 us to \
         1 ms, a tick costing 1, 2, 4 or 8 interrupts of {interrupt_ns} ns, {packet_ns} ns per packet; the threshold is \
         the break-even rate. Oracle: the cheaper of interrupt and timer in each slice of {SLICE_PERIODS} periods. Score: \
         mean excess cost over the oracle (each switch charged as one tick) + mean share of time in the clearly dearer \
         mode. Chosen (bold): every step recognised, at most {FALSE_ALARMS} excursions per burst of noise (hybrid only), score within \
         {:.0} % of the best; of those the fewest switches in the worst scenario.\n",
        scenarios.len(),
        100.0 * TOLERANCE
    );
    text += &table("Hybrid: alpha1, n1, n2, hysteresis", &first, first_choice, 12);
    text += &table("Hybrid: alpha2, ceiling", &second, second_choice, 6);
    text += &table("Windowed", &third, third_choice, 5);
    text += &table("For comparison", &fixed, usize::MAX, 2);
    text += "\n## The chosen hybrid, by pattern, and without hysteresis\n\n\
             | pattern | excess cost % | wrong mode % | switches per 1000 periods | without hysteresis |\n|---|---|---|---|---|\n";
    let chosen = by_pattern(&scenarios, &build(refined[second_choice]));
    for ((name, [excess, wrong, switches]), (_, [_, _, bare])) in chosen.iter().zip(by_pattern(&scenarios, &pure)) {
        writeln!(text, "| {name} | {excess:.1} | {wrong:.2} | {switches:.2} | {bare:.2} |")?;
    }
    let record = serde_json::json!({
        "command": command,
        "scenarios": scenarios.len(),
        "scenario_periods": SCENARIO_PERIODS,
        "costs_ns": { "interrupt": interrupt_ns, "packet": packet_ns },
        "tolerance": TOLERANCE,
        "false_alarms_accepted": FALSE_ALARMS,
        "chosen": { "hybrid": second[second_choice], "windowed": third[third_choice] },
        "by_pattern": chosen,
        "hybrid_first": first,
        "hybrid_second": second,
        "windowed": third,
        "fixed": fixed,
    });
    std::fs::write(out.join("forecast-sweep.json"), serde_json::to_string(&record)? + "\n")?;
    std::fs::write(out.join("README.md"), &text)?;
    print!("{text}");
    let defaults = Policy::Hybrid(Hybrid::new(8_000.0, 1_000_000));
    if second[second_choice].policy != defaults {
        println!("\nThe defaults in the code differ: {}", label(&defaults));
    }
    Ok(())
}

//! `ringtap plan`: from a latency bound to period, threshold and ring size, with the sums.
//!
//! Owns the command's words; figures and formulas are the core's (`ringtap::calibrate`), those of a benchmark `ringtap_bench::advice`'s.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ringtap::calibrate::{Calibration, Cost, Wishes};
use ringtap::clock;
use ringtap::core_use::CoreMeterKind;
use ringtap::{Error, Result, sched};
use ringtap_bench::advice::Advice;
use ringtap_run::{notes, units};
use serde_json::json;

/// Show what Ringtap would do on this host for a latency bound, and why.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ringtap plan\n  ringtap plan --max-latency 250us --peak-rate 3M\n  ringtap plan --fresh --json\n  \
ringtap bench --out results && ringtap plan --from results --peak-rate 500k"
)]
pub struct Args {
    /// Longest time from a packet's arrival to the handler (10us to 1s)
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::duration)]
    max_latency: Duration,
    /// Greatest packet rate to be ready for: it sizes the ring, and a lower one lets the kernel pause longer
    #[arg(long, value_name = "RATE", default_value = "1.5M", value_parser = units::rate)]
    peak_rate: f64,
    /// CPU of the engine [default: the last one allowed]
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Measure again instead of using the cached figures
    #[arg(long)]
    fresh: bool,
    /// What rate, ring and core use for this host, by the models of the benchmark in this folder (`ringtap bench`)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["fresh", "cpu", "max_latency"])]
    from: Option<PathBuf>,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    if let Some(folder) = &args.from {
        let advice = Advice::read(folder, args.peak_rate)?;
        if args.json {
            println!("{}", advice.to_json())
        } else {
            print!("{advice}")
        }
        return Ok(ExitCode::SUCCESS);
    }
    let allowed = sched::allowed_cpus();
    let cpu = args.cpu.or_else(|| allowed.last().copied()).unwrap_or(0);
    if !allowed.contains(&cpu) {
        return Err(Error::usage("use", format!("--cpu {cpu}"), "this process may not use that CPU")
            .way_out(format!("choose among {}", sched::listed(&allowed))));
    }
    let calibration = if args.fresh {
        Calibration::measure_and_store(cpu, &mut notes::say)?
    } else {
        Calibration::load_or_measure(cpu, &mut notes::say)?
    };
    let wishes = Wishes { max_latency: args.max_latency, peak_pps: args.peak_rate, ..Wishes::default() };
    let plan = calibration.plan(&wishes)?;
    if args.json {
        println!("{}", json!({ "calibration": calibration, "doubts": calibration.doubts(), "plan": plan }));
        return Ok(ExitCode::SUCCESS);
    }
    print!("{plan}");
    println!(
        "\nThe calibration it stands on: {}, {}{}",
        calibration.host,
        units::shown_age(calibration.measured_at.saturating_mul(1_000_000_000), clock::realtime_ns()),
        meter_words(calibration.meter)
    );
    for doubt in calibration.doubts() {
        println!("  doubtful: {doubt}");
    }
    println!("  {:>10}  {:>22}  {:>22}", "", "timer", "interrupt");
    println!("  {:>10}  {:>11} {:>10}  {:>11} {:>10}", "wake-ups/s", "% of core", "µs each", "% of core", "µs each");
    let rates: std::collections::BTreeSet<u64> =
        calibration.timer.iter().chain(&calibration.interrupt).map(|cost| cost.rate_hz as u64).collect();
    for rate in rates {
        let of = |curve: &[Cost]| {
            curve.iter().find(|cost| cost.rate_hz as u64 == rate).map_or_else(
                || format!("{:>11} {:>10}", "–", "–"),
                |cost| format!("{:>11.2} {:>10.1}", cost.core_share * 100.0, cost.core_share / cost.rate_hz * 1e6),
            )
        };
        println!("  {:>10}  {}  {}", units::grouped(rate), of(&calibration.timer), of(&calibration.interrupt));
    }
    Ok(ExitCode::SUCCESS)
}

fn meter_words(meter: CoreMeterKind) -> &'static str {
    match meter {
        CoreMeterKind::UnhaltedCycles => ", by unhalted cycles",
        CoreMeterKind::IdleTime => ", by idle time",
        CoreMeterKind::IdleTicks => ", by idle time in ticks of 10 ms, which is coarse",
    }
}

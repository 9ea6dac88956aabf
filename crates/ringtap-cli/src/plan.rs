//! `ringtap plan`: from a latency bound to period, threshold and ring size, with the sums.
//!
//! Owns the command's words; figures and formulas are the core's (`ringtap::calibrate`).

use std::process::ExitCode;
use std::time::Duration;

use ringtap::Result;
use ringtap::calibrate::{Calibration, Wishes};
use serde_json::json;

use crate::units;

/// Show what Ringtap would do on this host for a latency bound, and why.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ringtap plan\n  ringtap plan --max-latency 250us --peak-rate 3M\n  ringtap plan --fresh --json"
)]
pub struct Args {
    /// Longest time from a packet's arrival to the handler (10us to 1s)
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::duration)]
    max_latency: Duration,
    /// Greatest packet rate the ring must hold back
    #[arg(long, value_name = "RATE", default_value = "1.5M", value_parser = units::rate)]
    peak_rate: f64,
    /// CPU of the engine [default: the last one allowed]
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Measure again instead of using the cached figures
    #[arg(long)]
    fresh: bool,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let cpu = args.cpu.or_else(|| ringtap::sys::sched::allowed_cpus().last().copied()).unwrap_or(0);
    let mut notice = |text: &str| eprintln!("ringtap: {text}");
    let calibration = if args.fresh {
        Calibration::measure_and_store(cpu, &mut notice)?
    } else {
        Calibration::load_or_measure(cpu, &mut notice)?
    };
    let wishes = Wishes { max_latency: args.max_latency, peak_pps: args.peak_rate, ..Wishes::default() };
    let plan = calibration.plan(&wishes)?;
    if args.json {
        println!("{}", json!({ "calibration": calibration, "plan": plan }));
        return Ok(ExitCode::SUCCESS);
    }
    println!("measured on {}", calibration.host);
    println!("core use by {:?}, seconds since 1970: {}\n", calibration.meter, calibration.measured_at);
    println!("{:>14} {:>16} {:>14}", "wake-ups/s", "timer, % (µs)", "interrupt");
    let rates: std::collections::BTreeSet<u64> =
        calibration.timer.iter().chain(&calibration.interrupt).map(|cost| cost.rate_hz as u64).collect();
    for rate in rates {
        let of = |curve: &[ringtap::calibrate::Cost]| {
            curve.iter().find(|cost| cost.rate_hz as u64 == rate).map_or_else(
                || "–".to_owned(),
                |cost| format!("{:.2} ({:.1})", cost.core_share * 100.0, cost.core_share / cost.rate_hz * 1e6),
            )
        };
        println!("{rate:>14} {:>16} {:>14}", of(&calibration.timer), of(&calibration.interrupt));
    }
    println!("\n{plan}");
    Ok(ExitCode::SUCCESS)
}

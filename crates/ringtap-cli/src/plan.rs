//! `ringtap plan`: from a latency bound to period, threshold and ring size, with the sums.
//!
//! Owns the command's words; figures and formulas are the core's (`ringtap::calibrate`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ringtap::Result;
use ringtap::calibrate::{Calibration, Cost, Wishes};
use ringtap::clock;
use ringtap::core_use::CoreMeterKind;
use ringtap_bench::bench::load;
use ringtap_bench::book::Topology;
use ringtap_bench::cost_model::{Estimate, HostModel};
use serde_json::json;

use ringtap_run::units;

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
        return from_benchmark(folder, args.peak_rate, args.json);
    }
    let cpu = args.cpu.or_else(|| ringtap::sched::allowed_cpus().last().copied()).unwrap_or(0);
    let mut notice = |text: &str| eprintln!("ringtap: {text}");
    let calibration = if args.fresh {
        Calibration::measure_and_store(cpu, &mut notice)?
    } else {
        Calibration::load_or_measure(cpu, &mut notice)?
    };
    let wishes = Wishes { max_latency: args.max_latency, peak_pps: args.peak_rate, ..Wishes::default() };
    let plan = calibration.plan(&wishes)?;
    if args.json {
        println!("{}", json!({ "calibration": calibration, "doubts": calibration.doubts(), "plan": plan }));
        return Ok(ExitCode::SUCCESS);
    }
    print!("{plan}");
    let age = Duration::from_secs((clock::realtime_ns() / 1_000_000_000).saturating_sub(calibration.measured_at));
    println!(
        "\nThe calibration it stands on: {}, {} ago{}",
        calibration.host,
        shown_age(age),
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

/// In the unit that people would use.
fn shown_age(age: Duration) -> String {
    let minutes = age.as_secs() / 60;
    let (count, unit) = match minutes {
        0 => (age.as_secs(), "second"),
        1..120 => (minutes, "minute"),
        120..2880 => (minutes / 60, "hour"),
        _ => (minutes / 1440, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// What a benchmark of this host says for `peak_pps`, receiver by receiver.
fn from_benchmark(folder: &Path, peak_pps: f64, json: bool) -> Result<ExitCode> {
    let book = load(folder)?;
    let model = HostModel::from_book(&book)?;
    let mut rows = Vec::new();
    for (receiver, topology) in model.receivers() {
        let core_use = model.core_use(receiver, topology, peak_pps)?;
        let capacity = model.no_loss_capacity(receiver, topology).ok();
        let ring = model.ring(receiver, topology, peak_pps).ok();
        if json {
            rows.push(json!({
                "receiver": receiver, "topology": topology, "rate_pps": peak_pps,
                "core_use": core_use, "no_loss_capacity": capacity, "ring": ring,
            }));
            continue;
        }
        if rows.is_empty() {
            println!("measured on {}: {}\n", book.environment.host, book.environment.command);
            println!(
                "{:<31} {:<5} {:>22} {:>15} {:>8} {:>10}",
                "receiver",
                "",
                format!("core use at {}", units::shown_rate(peak_pps)),
                "no loss up to",
                "slots",
                "memory"
            );
        }
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        println!(
            "{receiver:<31} {:<5} {:>22} {:>15} {:>8} {:>10}",
            if topology == Topology::Nic { "nic" } else { "host" },
            format!("{:.1} % ({:.1}–{:.1})", core_use.value, core_use.low, core_use.high),
            or_dash(capacity.as_ref().map(|capacity| units::shown_rate(capacity.value))),
            or_dash(ring.as_ref().map(|ring| format!("{:.0}", ring.slots.value))),
            or_dash(ring.as_ref().and_then(|ring| Some(units::shown_size(ring.bytes.as_ref()?.value as u64)))),
        );
        for doubt in doubts([Some(&core_use), capacity.as_ref(), ring.as_ref().map(|ring| &ring.slots)]) {
            println!("    doubt: {doubt}");
        }
        rows.push(json!(receiver));
    }
    if json {
        println!("{}", json!({ "host": book.environment.host, "receivers": rows }));
    }
    Ok(ExitCode::SUCCESS)
}

fn doubts(estimates: [Option<&Estimate>; 3]) -> std::collections::BTreeSet<&str> {
    estimates.into_iter().flatten().flat_map(|estimate| &estimate.doubts).map(String::as_str).collect()
}

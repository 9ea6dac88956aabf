//! The generator's thread: few calls into the kernel, each a fraction of a second long, sleeping only when packets are rare.
//!
//! Owns when and with how many runs the kernel is called, and the counting of what the device refused. The schedule lives
//! in the program's maps, so it goes on exactly from one call to the next.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ringtap::sys::{clock, sched};
use ringtap::{Error, Result};

use super::program::{Controls, GenerateProgram, Settings, State};
use super::report::GeneratorReport;
use super::{GeneratorConfig, Profile};
use crate::drops::DeviceCounters;
use crate::testbed::in_testbed_namespace;

/// How long one call should last: setting one up costs tens of microseconds (a page pool), signals are seen in between.
const CALL: Duration = Duration::from_millis(250);
/// With packets rarer than this the core sleeps between them.
const RARE_NS: u64 = 2_000_000;
/// How long before a packet is due the thread is up again.
const EARLY_NS: u64 = 500_000;
/// Longest sleep at once, so that a stop is seen.
const NAP_NS: u64 = 50_000_000;

pub(super) fn start(config: GeneratorConfig) -> Result<(Controls, JoinHandle<Result<GeneratorReport>>)> {
    config.frame.check()?;
    config.profile.check()?;
    if config.count == Some(0) {
        return Err(Error::usage("generate on", config.interface, "0 packets").way_out("ask for at least one"));
    }
    if config.priority.is_some_and(|priority| !(1..=99).contains(&priority)) {
        return Err(Error::usage("generate on", config.interface, "priority out of range").way_out("use 1 to 99"));
    }
    let ifindex = nix::net::if_::if_nametoindex(config.interface.as_str()).map_err(|errno| {
        Error::os("find interface", config.interface.clone(), &errno.into()).way_out("`ip link` lists those there are")
    })?;
    if !config.anywhere && !in_testbed_namespace()? {
        return Err(Error::usage("generate on", config.interface, "it is not in a network namespace made by Ringtap")
            .way_out("run it inside a testbed, or insist explicitly"));
    }
    let before = DeviceCounters::read_here(&config.interface)?;
    check_device(&config, &before)?;
    let settings = Settings {
        ifindex,
        stream: config.stream,
        limit: config.count.unwrap_or(0),
        batch: batch_for(&config.profile),
        hold_ns: config.hold.as_nanos() as u64,
        max_late_ns: config.max_late.as_nanos() as u64,
        first_seq: config.first_seq,
        random_seed: config.seed,
    };
    let program = GenerateProgram::load(&config.frame, &config.profile, &settings)?;
    let controls = program.controls().clone();
    let thread = thread::Builder::new()
        .name("generator".into())
        .spawn(move || run(config, program, &settings, &before))
        .map_err(|error| Error::os("start thread of", "the generator", &error))?;
    Ok((controls, thread))
}

fn check_device(config: &GeneratorConfig, counters: &DeviceCounters) -> Result<()> {
    if !counters.up {
        return Err(Error::failed("generate on", &config.interface, "the link is down")
            .way_out(format!("ip link set {} up", config.interface)));
    }
    let largest = config.frame.sizes.iter().copied().max().unwrap_or(0);
    let payload = largest - config.frame.ip_offset();
    if payload as u64 > counters.mtu {
        return Err(Error::usage("generate on", &config.interface, format!("size {largest}")).way_out(format!(
            "its MTU {} allows {}",
            counters.mtu,
            counters.mtu as usize + config.frame.ip_offset()
        )));
    }
    Ok(())
}

/// Frames the kernel runs before it flushes. Eight keep up to a million per second; more only cost latency.
fn batch_for(profile: &Profile) -> u32 {
    if profile.peak_pps() > 1.2e6 { 16 } else { 8 }
}

fn run(
    config: GeneratorConfig,
    mut program: GenerateProgram,
    settings: &Settings,
    before: &DeviceCounters,
) -> Result<GeneratorReport> {
    let controls = program.controls().clone();
    // The sending is done on a thread of its own: programs started from here must not inherit its core and priority.
    let (calls, warnings) = thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let pinned = scope.spawn(|| {
            for warning in place(&config) {
                let _ = tell.send(warning);
            }
            drop(tell);
            send(&mut program, settings)
        });
        let calls = pinned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (calls, told.iter().collect::<Vec<String>>())
    });
    let calls = calls?;
    let mut report = GeneratorReport::new(&controls.state()?, controls.lateness()?, config.profile.mean_pps());
    report.calls = calls;
    report.warnings = warnings;
    let after = DeviceCounters::read_here(&config.interface)?;
    let delta = |name| Some(after.driver(name)?.saturating_sub(before.driver(name)?));
    report.accepted = delta("tx_xdp_xmit");
    report.queue_full = delta("tx_xdp_xmit_errors");
    report.not_ready =
        report.accepted.zip(report.queue_full).map(|(taken, full)| report.stamped.saturating_sub(taken + full));
    Ok(report)
}

/// Binds the thread and raises its priority; what is not permitted is only said.
fn place(config: &GeneratorConfig) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(core) = config.core
        && let Err(error) = sched::set_affinity(0, core)
    {
        warnings.push(format!("generator is not bound to CPU {core}: {error}"));
    }
    if let Some(priority) = config.priority
        && let Err(error) = sched::set_fifo(0, priority)
    {
        warnings.push(format!("generator has no real-time priority: {error}"));
    }
    warnings
}

/// Calls the kernel until all is sent or a stop is asked for; gives the number of calls.
fn send(program: &mut GenerateProgram, settings: &Settings) -> Result<u64> {
    let mut calls = 0;
    let mut runs_per_second = 0.0;
    let mut before = program.controls().state()?;
    let mut nothing = 0;
    while !before.done && !program.controls().stopped()? {
        let now = clock::monotonic_ns();
        let due = before.base_ns + (before.next_q16 >> 16);
        if before.base_ns != 0 && due > now + RARE_NS {
            clock::sleep_until((due - EARLY_NS).min(now + NAP_NS));
            continue;
        }
        program.run(runs(&before, settings, runs_per_second))?;
        calls += 1;
        let after = program.controls().state()?;
        let seconds = (clock::monotonic_ns() - now) as f64 / 1e9;
        runs_per_second = (after.runs - before.runs) as f64 / seconds.max(1e-6);
        // A run that always aborts would otherwise go on for ever.
        nothing = if after.runs == before.runs { nothing + 1 } else { 0 };
        if nothing > 100 {
            return Err(Error::failed("run", "the generator's BPF program", "the kernel does not run it"));
        }
        before = after;
    }
    Ok(calls)
}

/// How many runs the next call gets: a multiple of the batch that lasts about [`CALL`], one batch while packets are rare.
fn runs(state: &State, settings: &Settings, runs_per_second: f64) -> u32 {
    let batch = f64::from(settings.batch);
    let gap_ns = (state.gap_q16 >> 16).max(1);
    let wanted = if state.sent == 0 || gap_ns >= RARE_NS {
        // The first packets also tell how fast the runs go.
        batch
    } else {
        let per_packet = batch / (1.0 + settings.hold_ns as f64 / gap_ns as f64).floor().clamp(1.0, batch);
        let left = if settings.limit == 0 { f64::INFINITY } else { (settings.limit - state.sent) as f64 };
        (runs_per_second * CALL.as_secs_f64()).min(left * per_packet + batch)
    };
    ((wanted / batch).ceil().clamp(1.0, 100_000.0) * batch) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings {
        ifindex: 1,
        stream: 0,
        limit: 1000,
        batch: 8,
        hold_ns: 10_000,
        max_late_ns: 0,
        first_seq: 0,
        random_seed: 1,
    };

    #[test]
    fn calls_are_whole_batches_and_end_with_the_count() {
        let state = State { sent: 990, gap_q16: 1000 << 16, ..State::default() };
        assert_eq!(runs(&state, &SETTINGS, 1e6), 24);
        let endless = Settings { limit: 0, ..SETTINGS };
        assert_eq!(runs(&state, &endless, 1e6), 250_000);
        assert_eq!(runs(&State::default(), &SETTINGS, 1e6), 8);
        let rare = State { sent: 1, gap_q16: RARE_NS << 16, ..State::default() };
        assert_eq!(runs(&rare, &endless, 1e6), 8);
    }
}

//! The generator's thread: few calls into the kernel, each a fraction of a second long, sleeping only when packets are rare.
//!
//! Owns when and with how many runs the kernel is called, and the counting of what the device refused. The schedule lives
//! in the program's maps, so it goes on exactly from one call to the next.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ringtap::interface::Interface;
use ringtap::{Error, Result};
use ringtap::{clock, sched};

use super::program::{Controls, GenerateProgram, Settings, State};
use super::report::GeneratorReport;
use super::{GeneratorConfig, Profile};
use crate::drops::DeviceCounters;

/// How long one call should last: setting one up costs tens of microseconds (a page pool), signals are seen in between.
const CALL: Duration = Duration::from_millis(250);
/// With packets rarer than this the core sleeps between them.
const RARE_NS: u64 = 2_000_000;
/// How long before a packet is due the thread is up again.
const EARLY_NS: u64 = 500_000;
/// Longest sleep at once, so that a stop is seen.
const NAP_NS: u64 = 50_000_000;

/// Starts the in-kernel generator; `config` was checked. With `probe` what the kernel can't do is found out before the thread
/// starts, and a device that doesn't count what it takes is refused.
pub(super) fn start(
    config: GeneratorConfig,
    interface: &Interface,
    probe: bool,
) -> Result<(Controls, JoinHandle<Result<GeneratorReport>>)> {
    let before = DeviceCounters::read_here(&config.interface)?;
    if probe && before.driver("tx_xdp_xmit").is_none() {
        return Err(Error::failed(
            "generate in the kernel on",
            config.interface,
            "its driver does not say what it takes of redirected packets",
        ));
    }
    let (batch, hold) = batch_for(&config.profile, config.hold);
    let settings = Settings {
        ifindex: interface.index,
        stream: config.stream,
        limit: config.count.unwrap_or(0),
        batch,
        hold_ns: hold.as_nanos() as u64,
        max_late_ns: config.max_late.as_nanos() as u64,
        first_seq: config.first_seq,
        random_seed: config.seed,
    };
    let mut program = GenerateProgram::load(&config.frame, &config.profile, &settings)?;
    if probe {
        program.probe()?;
    }
    let controls = program.controls().clone();
    let thread = thread::Builder::new()
        .name("generator".into())
        .spawn(move || run(config, program, &settings, &before))
        .map_err(|error| Error::os("start thread of", "the generator", &error))?;
    Ok((controls, thread))
}

/// From this rate on a batch is [`FULL_BATCH`]: smaller ones don't keep up everywhere.
const FULL_BATCH_PPS: f64 = 900e3;
/// The page pool of a run keeps as many free pages as a batch has frames, and takes 64 of them at a time. What NAPI gives
/// back beyond that goes through the page allocator, and each such page is filled anew: on one machine the core ended at
/// 1.24 Mpps with batches of 56, and reached 1.5 Mpps with 64.
const FULL_BATCH: u32 = 64;

/// Frames the kernel runs before it flushes, and how long a frame may wait for the others: as many as come within `hold` at
/// the peak rate. A run that has nothing to send only fills a batch up, and gives its frame back to the page pool over a lock
/// that the receiver's core takes for each frame too: padding would be charged to the receiver.
fn batch_for(profile: &Profile, hold: Duration) -> (u32, Duration) {
    let peak_pps = profile.peak_pps();
    if peak_pps >= FULL_BATCH_PPS {
        return (FULL_BATCH, hold.max(Duration::from_secs_f64(f64::from(FULL_BATCH) / peak_pps)));
    }
    ((1.0 + hold.as_secs_f64() * peak_pps).floor().clamp(1.0, 8.0) as u32, hold)
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
            for warning in place(config.core, config.priority) {
                let _ = tell.send(warning);
            }
            drop(tell);
            send(&mut program, settings)
        });
        let calls = pinned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (calls, told.iter().collect::<Vec<String>>())
    });
    let calls = calls?;
    let state = controls.state()?;
    let mut report = GeneratorReport::new(&state, controls.lateness()?, config.profile.mean_pps());
    report.calls = calls;
    report.complete = state.done;
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
pub(super) fn place(core: Option<usize>, priority: Option<u8>) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(core) = core
        && let Err(error) = sched::set_affinity(0, core)
    {
        warnings.push(format!("generator is not bound to CPU {core}: {error}"));
    }
    if let Some(priority) = priority
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
    fn a_batch_is_what_comes_while_a_packet_may_wait() {
        let batch = |pps| {
            let profile = Profile::lasting(crate::generate::Pattern::Constant { pps }, Duration::from_secs(1));
            let (batch, hold) = batch_for(&profile, Duration::from_micros(10));
            (batch, hold.as_micros())
        };
        assert_eq!(
            [1e3, 148e3, 500e3, 750e3, 1e6, 1.5e6].map(batch),
            [(1, 10), (2, 10), (6, 10), (8, 10), (64, 64), (64, 42)]
        );
    }

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

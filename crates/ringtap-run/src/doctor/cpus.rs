//! What may keep a CPU from an engine, and how well the host knows the time: isolation, sleep, and who keeps the clock.
//!
//! Owns the verdicts and their commands; pure functions take what was read.

use std::fs::{self, OpenOptions};
use std::time::Duration;

use ringtap::clock;

use super::{Finding, State};
use crate::units::shown_us;

const SCOPE: &str = "system";
/// Waking takes no longer than this in states that matter to nobody: a fifth of the shortest usual bound.
const SHALLOW: Duration = Duration::from_micros(50);
/// Above this, stamps of two hosts can't be put in order.
const WELL_KEPT: Duration = Duration::from_millis(100);

/// Everything about them.
pub(super) fn findings() -> Vec<Finding> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let isolated = read("/sys/devices/system/cpu/isolated");
    let may_hold = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").is_ok();
    let mut findings = vec![isolation(isolated.trim())];
    findings.extend(sleep(&idle_states(), may_hold));
    findings.push(time(clock::realtime_error_ns().map(Duration::from_nanos)));
    findings
}

fn isolation(isolated: &str) -> Finding {
    const NAME: &str = "isolated CPUs";
    if isolated.is_empty() {
        return Finding::new(SCOPE, NAME, State::Note, "none").because(
            "others' threads and the kernel's share the engines' CPUs, and real-time priority goes first; to have some alone: boot with \
             isolcpus=2-3 nohz_full=2-3 rcu_nocbs=2-3, and give --cpu 2-3",
        );
    }
    Finding::new(SCOPE, NAME, State::Good, isolated)
        .because(format!("engines go there only when told: --cpu {isolated}"))
}

/// A state in which a CPU sleeps: its name, and how long it takes to wake.
type IdleState = (String, Duration);

/// Those of the first CPU that are not switched off.
fn idle_states() -> Vec<IdleState> {
    let Ok(all) = fs::read_dir("/sys/devices/system/cpu/cpu0/cpuidle") else { return Vec::new() };
    let state = |folder: std::path::PathBuf| {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
        let is_on = read("disable").is_none_or(|disable| disable == "0");
        let latency = read("latency")?.parse().ok().map(Duration::from_micros)?;
        Some((read("name")?, latency)).filter(|_| is_on)
    };
    all.filter_map(|entry| state(entry.ok()?.path())).collect()
}

fn sleep(states: &[IdleState], may_hold: bool) -> Option<Finding> {
    const NAME: &str = "C-states";
    let (name, latency) = states.iter().max_by_key(|(_, latency)| *latency)?;
    let value = format!("the deepest is {name}, {} to wake", shown_us(latency.as_secs_f64() * 1e6));
    Some(match (*latency <= SHALLOW, may_hold) {
        (true, _) => Finding::new(SCOPE, NAME, State::Good, value),
        (false, true) => Finding::new(SCOPE, NAME, State::Good, value)
            .because("programs keep CPUs out of it while they capture (/dev/cpu_dma_latency)"),
        (false, false) => Finding::new(SCOPE, NAME, State::Limit, value).because(format!(
            "packets wait that long for a CPU that slept, as /dev/cpu_dma_latency can't be opened: run as root, or cpupower idle-set -D {}",
            SHALLOW.as_micros()
        )),
    })
}

fn time(error: Option<Duration>) -> Finding {
    const NAME: &str = "time";
    match error {
        None => Finding::new(SCOPE, NAME, State::Limit, "nobody keeps the clock").because(
            "stamps can't be compared with other hosts', and a correlator counts such a sensor's clock as unknown: timedatectl set-ntp true, \
             or chrony; with PTP: ptp4l and phc2sys",
        ),
        Some(error) => {
            let value = format!("kept, by at most {} off", shown_us(error.as_secs_f64() * 1e6));
            match error <= WELL_KEPT {
                true => Finding::new(SCOPE, NAME, State::Good, value),
                false => Finding::new(SCOPE, NAME, State::Limit, value)
                    .because("what came first on two hosts can't be told: chronyc tracking, or timedatectl timesync-status"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_follows_from_what_was_read() {
        assert_eq!(isolation("").state, State::Note);
        assert!(isolation("2-3").consequence.unwrap().contains("--cpu 2-3"));
        let states = [("POLL".to_owned(), Duration::ZERO), ("C6".to_owned(), Duration::from_micros(133))];
        assert!(sleep(&[], true).is_none());
        assert_eq!(sleep(&states[..1], false).unwrap().state, State::Good);
        assert_eq!(sleep(&states, true).unwrap().state, State::Good);
        let limit = sleep(&states, false).unwrap();
        assert!(
            limit.state == State::Limit
                && limit.value.contains("C6")
                && limit.consequence.unwrap().contains("idle-set -D 50")
        );
        assert_eq!(time(Some(Duration::from_millis(3))).state, State::Good);
        for unkept in [time(None), time(Some(Duration::from_secs(1)))] {
            assert!(unkept.state == State::Limit && unkept.consequence.is_some());
        }
    }
}

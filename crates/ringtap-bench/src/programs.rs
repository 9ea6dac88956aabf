//! Studies of whole programs: the sensor, the station, clients of libpcap, the splitter, the forwarder and staged attacks,
//! beside their peers.
//!
//! Owns what they share: samples without an engine of this process, and delays as a program reports them. Each sample has a
//! testbed of its own, since programs leave settings of the device behind. Which points are measured is in `definition`.

pub(crate) mod forward;
pub(crate) mod ours;
pub(crate) mod pcap;
pub(crate) mod sensor;
pub(crate) mod split;
pub(crate) mod staged;
pub(crate) mod station;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_testbed::{CoreUseReport, Topology};
use serde_json::Value;

use crate::book::{Delays, Sample};
use crate::definition::Programs;

/// The point of a study that is run once.
#[derive(Debug, Clone, Copy)]
struct Point<'d> {
    study: &'static str,
    workload: &'d str,
    receiver: &'d str,
    topology: Topology,
    round: u32,
    pps: f64,
}

impl Point<'_> {
    /// A sample of 64-byte frames at a constant rate, in which nothing has been counted yet.
    fn sample(&self, core: &CoreUseReport) -> Sample {
        Sample {
            study: self.study.to_owned(),
            workload: self.workload.to_owned(),
            receiver: self.receiver.to_owned(),
            topology: self.topology,
            round: self.round,
            frame_bytes: 64,
            arrivals: "constant".to_owned(),
            offered_pps: self.pps,
            core_use_percent: core.used_percent,
            others_percent: core.others_percent,
            steal_percent: core.steal_percent,
            core_interrupts: core.interrupts_total(),
            seconds: core.interval_ns as f64 / 1e9,
            ..Sample::default()
        }
    }
}

/// Delays as Ringtap's programs print them: `{"count": …, "mean": …, "p50": …, …}`, microseconds.
pub(crate) fn delays(said: &Value) -> Option<Delays> {
    let of = |name: &str| said[name].as_f64();
    let count = said["count"].as_u64().filter(|&count| count > 0)?;
    let (mean, p50, p98) = (of("mean")?, of("p50")?, of("p98")?);
    Some(Delays { count, mean, p50, p98, p99: of("p99")?, p999: of("p999")?, max: of("max")?, histogram: Vec::new() })
}

/// `ringtap`: as it is defined, or this program.
pub(crate) fn ringtap(programs: &Programs) -> Result<PathBuf> {
    match &programs.ringtap {
        Some(path) => Ok(path.clone()),
        None => std::env::current_exe().map_err(|error| Error::os("find", "this program", &error)),
    }
}

/// In [`Sample::measures`]: CPU time of all threads of the program on whatever core, milliseconds, from before the first packet until all
/// had been handled.
const CPU_MS: &str = "program_cpu_ms";

/// The time between two readings of a program's, as [`CPU_MS`] has it.
fn cpu_ms(before: Option<Duration>, after: Option<Duration>) -> Option<f64> {
    Some(after?.saturating_sub(before?).as_secs_f64() * 1e3)
}

/// What a program has written so far; its offset is left alone.
fn text(file: &File) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 65536];
    while let Ok(count @ 1..) = file.read_at(&mut chunk, bytes.len() as u64) {
        bytes.extend_from_slice(&chunk[..count]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

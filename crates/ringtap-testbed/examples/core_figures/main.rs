//! The figures of the capture core: core use, loss, latency and idleness against rate, in interleaved runs.
//!
//! `core_figures [--runs N] [--seconds S] [--only nic,loss,host,idle] [--out DIR]` (as root; `make bench-core`).
//! Writes DIR/core-figures.json (raw samples, after each run) and DIR/core-figures.md (medians). Ends with 1 when a packet
//! is unaccounted for, whatever the speed.

mod record;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ringtap::calibrate::{Calibration, Plan, Wishes};
use ringtap::{Error, Result};
use ringtap_testbed::{SoakerCalibration, Testbed, TestbedConfig, Topology};

use record::Record;
use run::{Receiver, Run};

const NIC_RATES: [f64; 8] = [1e3, 5e3, 20e3, 50e3, 148e3, 300e3, 500e3, 1e6];
const LOSS_RATES: [(f64, u64); 4] = [(148e3, 1_480_000), (500e3, 10_000_000), (1e6, 10_000_000), (1.5e6, 10_000_000)];
const HOST_RATES: [f64; 2] = [148e3, 500e3];
const BOUNDS: [Duration; 2] = [Duration::from_micros(250), Duration::from_millis(1)];

/// What was asked for on the command line.
pub struct Options {
    runs: usize,
    seconds: f64,
    only: Vec<String>,
    out: PathBuf,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut options = Self { runs: 5, seconds: 2.0, only: Vec::new(), out: PathBuf::from("benchmarks/record") };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| Error::usage("read", name.clone(), "it needs a value"))?;
            let bad = |_| Error::usage("read", format!("{name} {value}"), "not a number");
            match name.as_str() {
                "--runs" => options.runs = value.parse().map_err(bad)?,
                "--seconds" => {
                    options.seconds = value.parse().map_err(|_| Error::usage("read", value.clone(), "not a number"))?;
                }
                "--only" => options.only = value.split(',').map(str::to_owned).collect(),
                "--out" => options.out = PathBuf::from(value),
                _ => return Err(Error::usage("read", name, "unknown option")),
            }
        }
        Ok(options)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }
}

fn main() -> ExitCode {
    match figures() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("some packets are unaccounted for, see the record");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("core_figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn figures() -> Result<bool> {
    let options = Options::parse()?;
    let testbed = Testbed::new(TestbedConfig::default())?;
    let core = testbed.config().receiver_core;
    let soaker = SoakerCalibration::measure(core)?;
    let calibration = Calibration::measure_and_store(core, &mut |text| eprintln!("{text}"))?;
    let plans: Vec<Plan> = BOUNDS
        .iter()
        .map(|&max_latency| calibration.plan(&Wishes { max_latency, ..Wishes::default() }))
        .collect::<Result<_>>()?;
    let mut record = Record::new(&options, &calibration, &BOUNDS, &plans)?;
    if options.wants("idle") {
        for _ in 0..options.runs {
            record.add(run::idle(&testbed, None, options.seconds * 2.0)?)?;
            record.add(run::idle(&testbed, Some(&plans[1]), options.seconds * 2.0)?)?;
        }
    }
    if options.wants("nic") {
        for _ in 0..options.runs {
            for pps in NIC_RATES {
                let count = (pps * options.seconds) as u64;
                let mut receivers = vec![Receiver::Interrupt];
                for (&bound, plan) in BOUNDS.iter().zip(&plans) {
                    receivers.push(Receiver::Timer { bound, plan });
                    receivers.push(Receiver::Hybrid { bound, plan });
                }
                for receiver in receivers {
                    record.add(Run { part: "nic", pps, count, soaker: None }.ringtap(&testbed, &receiver)?)?;
                }
                let soaked = Receiver::Hybrid { bound: BOUNDS[1], plan: &plans[1] };
                record.add(Run { part: "nic-soaker", pps, count, soaker: Some(soaker) }.ringtap(&testbed, &soaked)?)?;
            }
        }
    }
    if options.wants("loss") {
        for _ in 0..options.runs {
            for (pps, count) in LOSS_RATES {
                let receiver = Receiver::Hybrid { bound: BOUNDS[1], plan: &plans[1] };
                record.add(Run { part: "loss", pps, count, soaker: None }.ringtap(&testbed, &receiver)?)?;
            }
        }
    }
    drop(testbed);
    if options.wants("host") {
        let testbed = Testbed::new(TestbedConfig { topology: Topology::Host, ..TestbedConfig::default() })?;
        for _ in 0..options.runs {
            for pps in HOST_RATES {
                let run = Run { part: "host", pps, count: (pps * options.seconds) as u64, soaker: None };
                record.add(run.ringtap(&testbed, &Receiver::Hybrid { bound: BOUNDS[1], plan: &plans[1] })?)?;
                record.add(run.tcpdump(&testbed)?)?;
                record.add(run.udp(&testbed)?)?;
            }
        }
    }
    record.finish()
}

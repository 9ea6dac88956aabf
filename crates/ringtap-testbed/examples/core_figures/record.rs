//! What is kept of the runs: raw samples as JSON after each one, medians as a table at the end.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ringtap::calibrate::{Calibration, Plan};
use ringtap::{Error, Result};
use serde_json::{Value, json};

use crate::Options;
use crate::run::Sample;

pub struct Record {
    folder: PathBuf,
    environment: Value,
    samples: Vec<Sample>,
}

impl Record {
    pub fn new(options: &Options, calibration: &Calibration, bounds: &[Duration], plans: &[Plan]) -> Result<Self> {
        fs::create_dir_all(&options.out)
            .map_err(|error| Error::os("create", options.out.display().to_string(), &error))?;
        let plans: Vec<Value> = bounds
            .iter()
            .zip(plans)
            .map(|(bound, plan)| json!({ "bound_us": bound.as_micros(), "plan": plan }))
            .collect();
        let environment = json!({
            "command": format!("core_figures --runs {} --seconds {}", options.runs, options.seconds),
            "calibration": calibration,
            "plans": plans,
            "doubts": "virtual machine; veth copies and raises no NIC interrupt; shared host",
        });
        Ok(Self { folder: options.out.clone(), environment, samples: Vec::new() })
    }

    /// Keeps a sample, on disk too, so that an abort loses nothing.
    pub fn add(&mut self, sample: Sample) -> Result<()> {
        eprintln!(
            "{:<10} {:>9.0} pps  {:<22} lost {:>6}  unaccounted {:>4}  core {:>6.2} %  p99 {:>7}",
            sample.part,
            sample.pps,
            sample.receiver,
            sample.lost,
            sample.unaccounted.map_or_else(|| "–".to_owned(), |count| count.to_string()),
            sample.core_use_percent,
            sample.latency_p99_us.map_or_else(|| "–".to_owned(), |us| format!("{us:.0} µs"))
        );
        self.samples.push(sample);
        self.write(
            "core-figures.json",
            &json!({ "environment": self.environment, "samples": self.samples }).to_string(),
        )
    }

    /// Writes the table; whether every ledger added up.
    pub fn finish(&self) -> Result<bool> {
        let table = self.table();
        print!("{table}");
        self.write("core-figures.md", &table)?;
        Ok(self.samples.iter().all(|sample| sample.unaccounted.is_none_or(|count| count == 0)))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|error| Error::os("write", path.display().to_string(), &error))
    }

    fn table(&self) -> String {
        let mut groups: BTreeMap<(&str, u64, &str), Vec<&Sample>> = BTreeMap::new();
        for sample in &self.samples {
            groups.entry((sample.part, sample.pps as u64, &sample.receiver)).or_default().push(sample);
        }
        let mut text = String::from("# Figures of the capture core\n\n");
        let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let _ = writeln!(
            text,
            "Command: `{}`. Host: {}.",
            text_of(&self.environment["command"]),
            text_of(&self.environment["calibration"]["host"])
        );
        let _ = writeln!(
            text,
            "Core use by {}. Doubts: {}.\n",
            text_of(&self.environment["calibration"]["meter"]),
            text_of(&self.environment["doubts"])
        );
        for plan in self.environment["plans"].as_array().into_iter().flatten() {
            let _ = writeln!(text, "Bound {} µs:\n", plan["bound_us"]);
            for line in plan["plan"]["sums"].as_array().into_iter().flatten() {
                let _ = writeln!(text, "    {}", text_of(line));
            }
            let _ = writeln!(text);
        }
        text.push_str("| part | rate, pps | receiver | runs | core use, % (min–max) | lost, worst run | delivered, % | unaccounted | p99 arrival→handler, µs |\n");
        text.push_str("|---|---|---|---|---|---|---|---|---|\n");
        for ((part, pps, receiver), samples) in groups {
            let core = sorted(samples.iter().map(|sample| sample.core_use_percent));
            let delivered = sorted(
                samples.iter().map(|s| if s.sent == 0 { 100.0 } else { s.received as f64 / s.sent as f64 * 100.0 }),
            );
            let p99 = sorted(samples.iter().filter_map(|sample| sample.latency_p99_us));
            let unaccounted: Option<i64> = samples.iter().map(|sample| sample.unaccounted.map(i64::abs)).sum();
            let _ = writeln!(
                text,
                "| {part} | {pps} | {receiver} | {} | {:.2} ({:.2}–{:.2}) | {} | {:.2} | {} | {} |",
                samples.len(),
                median(&core),
                core.first().copied().unwrap_or(0.0),
                core.last().copied().unwrap_or(0.0),
                samples.iter().map(|sample| sample.lost).max().unwrap_or(0),
                median(&delivered),
                unaccounted.map_or_else(|| "–".to_owned(), |count| count.to_string()),
                if p99.is_empty() { "–".to_owned() } else { format!("{:.0}", median(&p99)) },
            );
        }
        text
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

//! Owns: samples as lines of text: one each, medians of each point, and rates without loss.

use std::collections::BTreeMap;
use std::path::Path;

use ringtap::{Error, Result};
use serde_json::Value;

/// Loss that counts as none in the second column of rates.
const TOLERANCE: f64 = 0.001;

fn number(sample: &Value, name: &str) -> f64 {
    sample[name].as_f64().unwrap_or(f64::NAN)
}

/// One sample on one line.
pub(crate) fn line(sample: &Value) -> String {
    format!(
        "{} {} {:.0} kpps: sent {:.0} kpps, lost {} of {}, claims {}, veth {}, attacks {} of {}, core {:.1} %, resident {:.1} MiB",
        sample["rules"].as_str().unwrap_or_default(),
        sample["receiver"].as_str().unwrap_or_default(),
        number(sample, "asked_pps") / 1e3,
        number(sample, "sent_pps") / 1e3,
        sample["lost"],
        sample["sent"],
        sample["claims_dropped"],
        sample["veth_queue_drops"],
        sample["found"],
        sample["planted"],
        number(sample, "core_percent"),
        resident(sample) / f64::from(1 << 20),
    )
}

fn resident(sample: &Value) -> f64 {
    sample["facts"]["resident_bytes"].as_f64().unwrap_or(f64::NAN)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints the tables of a file of samples.
///
/// # Errors
/// It can't be read.
pub(crate) fn print(file: &Path) -> Result<()> {
    let object = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| Error::os("read", &object, &error))?;
    let mut points: BTreeMap<(String, String, String, u64), Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let sample: Value = serde_json::from_str(line).map_err(|error| Error::failed("read", &object, error))?;
        let word = |name: &str| sample[name].as_str().unwrap_or_default().to_owned();
        let key = (word("topology"), word("rules"), word("receiver"), number(&sample, "asked_pps") as u64);
        points.entry(key).or_default().push(sample);
    }
    println!(
        "| topology | rules | receiver | kpps asked | kpps sent | samples | lost, of all sent | lost, worst | it claims | attacks found | core % | resident MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for ((topology, rules, receiver, pps), samples) in &points {
        let of = |name: &str| samples.iter().map(|sample| number(sample, name)).collect::<Vec<_>>();
        let sum = |name: &str| of(name).iter().sum::<f64>();
        println!(
            "| {topology} | {rules} | {receiver} | {} | {:.0} | {} | {:.0} ({:.3} %) | {:.0} | {:.0} | {:.0} of {:.0} | {:.1} | {:.0} |",
            pps / 1000,
            median(of("sent_pps")) / 1e3,
            samples.len(),
            sum("lost"),
            sum("lost") * 100.0 / sum("sent"),
            of("lost").iter().copied().fold(0.0, f64::max),
            sum("claims_dropped"),
            sum("found"),
            sum("planted"),
            median(of("core_percent")),
            median(samples.iter().map(resident).collect()) / f64::from(1 << 20),
        );
    }
    println!(
        "\n| topology | rules | receiver | kpps without a loss, median sample | kpps with at most 0.1 % lost, median sample |"
    );
    println!("|---|---|---|---|---|");
    let mut receivers: Vec<_> = points.keys().map(|(t, r, name, _)| (t, r, name)).collect();
    receivers.dedup();
    for (topology, rules, receiver) in receivers {
        let mut best = [0.0f64; 2];
        for (slot, tolerance) in best.iter_mut().zip([0.0, TOLERANCE]) {
            let own = points.iter().filter(|((t, r, name, _), _)| (t, r, name) == (topology, rules, receiver));
            for (_, samples) in own {
                // The median sample of a rate decides; a rate above one that was lost does not count.
                let share = median(samples.iter().map(|s| number(s, "lost") / number(s, "sent")).collect());
                if share > tolerance {
                    break;
                }
                *slot = slot.max(median(samples.iter().map(|s| number(s, "sent_pps")).collect()));
            }
        }
        println!("| {topology} | {rules} | {receiver} | {:.0} | {:.0} |", best[0] / 1e3, best[1] / 1e3);
    }
    Ok(())
}

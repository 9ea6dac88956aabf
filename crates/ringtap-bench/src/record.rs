//! Older records: lines of samples, as harnesses of their own wrote them before there was one book.
//!
//! Owns the shapes of those lines and what they mean in a [`Book`]. Nothing writes them any more.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ringtap::{Error, Result};
use ringtap_testbed::Topology;
use serde_json::Value;

use crate::book::{Book, Claims, Environment, FORMAT, Sample};
use crate::programs::delays;

/// All samples in the `*.jsonl` files of `folder`, by name of file; `None` where there is no such file.
///
/// # Errors
/// A file can't be read, or a line is of none of the known shapes.
pub(crate) fn of_lines(folder: &Path) -> Result<Option<Book>> {
    let failed = |path: &Path, error: std::io::Error| Error::os("read", path.display().to_string(), &error);
    let Ok(entries) = fs::read_dir(folder) else { return Ok(None) };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    if paths.is_empty() {
        return Ok(None);
    }
    let mut book = Book { format: FORMAT, ..Book::default() };
    let names: Vec<String> =
        paths.iter().filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    book.environment = Environment {
        command: format!("(a harness of its own; its lines are in {})", names.join(", ")),
        host: "as the record's README says".to_owned(),
        doubts: vec!["Read from an older record, which does not tell what the book keeps today.".to_owned()],
        ..Environment::default()
    };
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let sample = serde_json::from_str(line).map_err(|error| error.to_string()).and_then(sample);
            book.samples.push(
                sample.map_err(|cause| Error::failed("read", format!("{}, line {}", path.display(), at + 1), cause))?,
            );
        }
    }
    Ok(Some(book))
}

fn sample(line: Value) -> std::result::Result<Sample, String> {
    if line.get("study").is_some() {
        return serde_json::from_value(line).map_err(|error| error.to_string());
    }
    let sample = if line.get("planted").is_some() {
        of_sensor(&line)
    } else if line.get("came_out").is_some() {
        of_station(&line)
    } else if line.get("client").is_some() {
        of_pcap(&line)
    } else {
        None
    };
    sample.ok_or_else(|| "it is no sample of sensor, station or libpcap".to_owned())
}

/// What the three have in common.
fn common(line: &Value, study: &str, workload: &str, receiver: String) -> Option<Sample> {
    Some(Sample {
        study: study.to_owned(),
        workload: workload.to_owned(),
        receiver,
        frame_bytes: 64,
        arrivals: "constant".to_owned(),
        topology: line.get("topology").map_or(Ok(Topology::Nic), |name| serde_json::from_value(name.clone())).ok()?,
        round: line.get("round").or(line.get("run")).and_then(Value::as_u64).unwrap_or(0) as u32,
        sent: line["sent"].as_u64()?,
        core_use_percent: line["core_percent"].as_f64()?,
        steal_percent: line["steal_percent"].as_f64(),
        ..Sample::default()
    })
}

fn named(values: impl IntoIterator<Item = (&'static str, Option<f64>)>) -> BTreeMap<String, f64> {
    values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn of_sensor(line: &Value) -> Option<Sample> {
    let (rules, first) = (line["rules"].as_str()?, line["priority_rules"] == true);
    let workload = if first { format!("{rules}, attacked port first") } else { rules.to_owned() };
    let facts = &line["facts"];
    let handled = line["handled"].as_u64()?;
    let sample = common(line, "sensor", &workload, line["receiver"].as_str()?.to_owned())?;
    Some(Sample {
        offered_pps: line["asked_pps"].as_f64()?,
        sent_pps: line["sent_pps"].as_f64()?,
        received: handled.min(sample.sent),
        lost: line["lost"].as_u64()?,
        claims: Claims { received: facts["claims_received"].as_u64(), dropped: line["claims_dropped"].as_u64() },
        unaccounted: facts["ledger"]["unaccounted"].as_i64(),
        arrival: delays(&facts["latency_us"]),
        drops: BTreeMap::from([("driver_queue".to_owned(), line["veth_queue_drops"].as_u64())]),
        measures: named([
            ("rules", line["rule_count"].as_f64()),
            ("attacks_planted", line["planted"].as_f64()),
            ("attacks_found", line["found"].as_f64()),
            ("resident_bytes", facts["resident_bytes"].as_f64()),
        ]),
        seconds: facts["elapsed_s"].as_f64().unwrap_or_default(),
        ..sample
    })
}

fn of_station(line: &Value) -> Option<Sample> {
    let said = &line["said"];
    let sample = common(line, "station", line["load"].as_str()?, line["receiver"].as_str()?.to_owned())?;
    Some(Sample {
        frame_bytes: line["mean_frame_bytes"].as_f64()?.round() as usize,
        offered_pps: line["asked_pps"].as_f64()?,
        sent_pps: line["achieved_pps"].as_f64()?,
        received: line["came_out"].as_u64()?,
        lost: line["lost"].as_u64()?,
        numbered: true,
        duplicates: line["twice"].as_u64()?,
        claims: Claims { received: said["stored"].as_u64(), dropped: None },
        unaccounted: said["unaccounted"].as_i64(),
        arrival: delays(&said["to_alarm_us"]),
        measures: named([
            ("held", line["held"].as_bool().map(|held| f64::from(u8::from(held)))),
            ("out_after_ms", line["out_after_ms"].as_f64()),
            ("wrong_alarms", line["wrong_alarms"].as_f64()),
            ("generator_late", line["generator"]["late"].as_f64()),
            ("generator_queue_full", line["generator"]["queue_full"].as_f64()),
        ]),
        ..sample
    })
}

fn of_pcap(line: &Value) -> Option<Sample> {
    let settings = line["settings"].as_object().filter(|settings| !settings.is_empty());
    let set = settings.map_or_else(String::new, |settings| {
        let each = settings.iter().map(|(name, value)| {
            format!("+{}={}", name.trim_start_matches("RINGTAP_").to_lowercase(), value.as_str().unwrap_or_default())
        });
        each.collect()
    });
    let receiver = format!("libpcap {}{set}", line["backend"].as_str()?);
    let sample = common(line, "pcap", line["client"].as_str()?, receiver)?;
    let captured = line["captured"].as_u64()?;
    let dropped = line["dropped"].as_u64()? + line["dropped_by_interface"].as_u64()?;
    Some(Sample {
        offered_pps: line["pps"].as_f64()?,
        sent_pps: line["achieved_pps"].as_f64()?,
        received: captured.min(sample.sent),
        lost: sample.sent.saturating_sub(captured),
        claims: Claims { received: line["received"].as_u64(), dropped: Some(dropped) },
        measures: named([("sent_minus_accounted", line["sent_minus_accounted"].as_f64())]),
        ..sample
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each folder of the record can be read and shown.
    #[test]
    fn every_record_is_read() {
        let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/record");
        let (mut books, mut studies) = (0, std::collections::BTreeSet::new());
        for entry in fs::read_dir(record).expect("the record is part of the repository") {
            let folder = entry.unwrap().path();
            let has_samples = fs::read_dir(&folder).into_iter().flatten().flatten().any(|entry| {
                entry.file_name() == "bench.json" || entry.path().extension().is_some_and(|name| name == "jsonl")
            });
            if !has_samples {
                continue;
            }
            let book = crate::bench::load(&folder).unwrap_or_else(|error| panic!("{error}"));
            assert!(!book.samples.is_empty(), "{}", folder.display());
            studies.extend(book.samples.iter().map(|sample| sample.study.clone()));
            assert!(crate::report::markdown(&book).contains("core"), "{}", folder.display());
            books += 1;
        }
        assert!(books >= 10, "{books}");
        for study in ["rates", "sensor", "station", "pcap"] {
            assert!(studies.contains(study), "{study}: {studies:?}");
        }
    }

    #[test]
    fn what_is_no_sample_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        assert!(of_lines(folder.path()).unwrap().is_none());
        fs::write(folder.path().join("x.jsonl"), "\n{\"a\": 1}\n").unwrap();
        let error = of_lines(folder.path()).unwrap_err().to_string();
        assert!(error.contains("x.jsonl, line 2"), "{error}");
    }
}

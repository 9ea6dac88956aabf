//! The study of root cause: precision, recall, time and announcements over storms of the testbed's simulator.
//!
//! `cargo run --release -p ringtap-rootcause --example storms [STORMS [NODES…]] [--seed N] [--only TEXT] [--record DIR] [-v]`: so many
//! storms for each shape, size and condition (42, which makes 504 for a condition), of conditions with this text in their name; `-v` says
//! of each storm that was not answered right what was said instead. One line of JSON for each, and one of all shapes and sizes for each
//! condition; with `--record` also in `storms.jsonl` of that folder.

#[path = "../tests/measure/mod.rs"]
mod measure;

use std::io::Write;
use std::path::Path;

use measure::{Score, Storms, run};
use ringtap_testbed::storm::fault::{Noise, Shape};

/// Name, percent of notifications lost, percent of the file's lines wrong.
const CONDITIONS: [(&str, u8, u8); 6] = [
    ("all arrives", 0, 0),
    ("1 % lost", 1, 0),
    ("5 % lost", 5, 0),
    ("10 % lost", 10, 0),
    ("20 % lost", 20, 0),
    ("2 % of the file wrong", 0, 2),
];

fn main() -> std::io::Result<()> {
    let (mut numbers, mut seed, mut only, mut is_loud) = (Vec::new(), 7, String::new(), false);
    let mut record: Box<dyn Write> = Box::new(std::io::sink());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-v" => is_loud = true,
            "--seed" => seed = words.next().and_then(|word| word.parse().ok()).unwrap_or(seed),
            "--only" => only = words.next().unwrap_or_default(),
            "--record" => {
                let folder = words.next().unwrap_or_default();
                std::fs::create_dir_all(&folder)?;
                record = Box::new(std::fs::File::create(Path::new(&folder).join("storms.jsonl"))?);
            }
            word => numbers.extend(word.parse::<usize>()),
        }
    }
    let count = numbers.first().copied().unwrap_or(42);
    let sizes = numbers.get(1..).filter(|sizes| !sizes.is_empty()).unwrap_or(&[50, 500, 5000]);
    for (name, loss_percent, wrong_percent) in CONDITIONS.into_iter().filter(|(name, ..)| name.contains(&only)) {
        let mut all = Score::default();
        for &nodes in sizes {
            for shape in Shape::ALL {
                let noise = Noise { loss_percent, spurious: 5 };
                let storms = Storms { shape, nodes, count, noise, wrong_percent, seed };
                let began = std::time::Instant::now();
                let score = run(storms, &mut |text| {
                    if is_loud {
                        eprintln!("{name}, {shape:?}, {nodes}: {text}");
                    }
                });
                let line = line(name, &format!("{shape:?}"), (nodes, seed), &score, began.elapsed());
                println!("{line}");
                writeln!(record, "{line}")?;
                all.add(score);
            }
        }
        let line = line(name, "all", (0, seed), &all, std::time::Duration::ZERO);
        println!("{line}");
        writeln!(record, "{line}")?;
    }
    Ok(())
}

fn line(
    condition: &str,
    shape: &str,
    (nodes, seed): (usize, u64),
    score: &Score,
    took: std::time::Duration,
) -> serde_json::Value {
    serde_json::json!({
        "condition": condition, "shape": shape, "nodes": nodes, "seed": seed, "storms": score.storms, "faults": score.faults,
        "precision": score.precision(), "recall": score.recall(), "found": score.found, "wrong": score.wrong,
        "announcements": score.announcements(), "unexplained": score.unexplained, "opened": score.opened, "revised": score.revised,
        "alarms": score.alarms, "named": score.named as f64 / score.found.max(1) as f64,
        "ms_p50": score.time_ms(50), "ms_p99": score.time_ms(99), "exhausted": score.exhausted,
        "seconds": took.as_secs(),
    })
}

//! The study of root cause: precision, recall, time and announcements over storms of the testbed's simulator.
//!
//! `cargo run --release -p ringtap-rootcause --example storms [STORMS [NODES…]] [--seed N] [--only TEXT] [--with WHO]
//! [--record FILE] [-v]`: so many storms for each shape, size and condition (42, which makes 504 for a condition), of
//! conditions with this text in their name, answered by the engine (`ringtap`), by rules of SEC (`sec`, which must be installed)
//! or grouped by time (`time`); `-v` says of each storm that was not answered right what was said instead. One line of JSON
//! for each, and one of all shapes and sizes for each condition; with `--record` also at the end of that file.

mod beside;
mod map;
#[path = "../../tests/measure/mod.rs"]
mod measure;

use std::fs::OpenOptions;
use std::io::{Error, Result, Write};

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

/// What was asked for.
struct Asked {
    numbers: Vec<usize>,
    seed: u64,
    only: String,
    with: String,
    is_loud: bool,
    record: Box<dyn Write>,
}

impl Asked {
    fn read() -> Result<Self> {
        let mut this = Self {
            numbers: Vec::new(),
            seed: 7,
            only: String::new(),
            with: "ringtap".to_owned(),
            is_loud: false,
            record: Box::new(std::io::sink()),
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| Error::other(format!("{word}: a value is missing")));
            match word.as_str() {
                "-v" => this.is_loud = true,
                "--seed" => this.seed = value()?.parse().map_err(Error::other)?,
                "--only" => this.only = value()?,
                "--with" => this.with = value()?,
                "--record" => {
                    this.record = Box::new(OpenOptions::new().create(true).append(true).open(value()?)?);
                }
                _ => this.numbers.push(word.parse().map_err(|_| Error::other(format!("{word}: no number")))?),
            }
        }
        Ok(this)
    }

    fn answer(&self, name: &str, storms: Storms) -> Result<Score> {
        match self.with.as_str() {
            "ringtap" => Ok(run(storms, &mut |text| {
                if self.is_loud {
                    eprintln!("{name}, {:?}, {}: {text}", storms.shape, storms.nodes);
                }
            })),
            "sec" => beside::run(storms, &mut beside::Sec::new()?),
            "time" => beside::run(storms, &mut beside::Groups),
            other => Err(Error::other(format!("{other}: ringtap, sec or time can answer"))),
        }
    }

    fn tell(&mut self, line: &serde_json::Value) -> Result<()> {
        println!("{line}");
        writeln!(self.record, "{line}")
    }
}

fn main() -> Result<()> {
    let mut asked = Asked::read()?;
    let count = asked.numbers.first().copied().unwrap_or(42);
    let sizes = asked.numbers.get(1..).filter(|sizes| !sizes.is_empty()).unwrap_or(&[50, 500, 5000]).to_vec();
    let only = asked.only.clone();
    for (name, loss_percent, wrong_percent) in CONDITIONS.into_iter().filter(|(name, ..)| name.contains(&only)) {
        let mut all = Score::default();
        for &nodes in &sizes {
            for shape in Shape::ALL {
                let noise = Noise { loss_percent, spurious: 5 };
                let storms = Storms { shape, nodes, count, noise, wrong_percent, seed: asked.seed };
                let began = std::time::Instant::now();
                let score = asked.answer(name, storms)?;
                let line = line(&asked, name, &format!("{shape:?}"), nodes, &score, began.elapsed());
                asked.tell(&line)?;
                all.add(score);
            }
        }
        let line = line(&asked, name, "all", 0, &all, std::time::Duration::ZERO);
        asked.tell(&line)?;
    }
    Ok(())
}

fn line(
    asked: &Asked,
    condition: &str,
    shape: &str,
    nodes: usize,
    score: &Score,
    took: std::time::Duration,
) -> serde_json::Value {
    serde_json::json!({
        "with": asked.with, "condition": condition, "shape": shape, "nodes": nodes, "seed": asked.seed,
        "storms": score.storms, "faults": score.faults, "precision": score.precision(), "recall": score.recall(),
        "found": score.found, "wrong": score.wrong, "announcements": score.announcements(),
        "unexplained": score.unexplained, "opened": score.opened, "revised": score.revised, "alarms": score.alarms,
        "named": score.named as f64 / score.found.max(1) as f64, "ms_p50": score.time_ms(50),
        "ms_p99": score.time_ms(99), "exhausted": score.exhausted, "seconds": took.as_secs(),
    })
}

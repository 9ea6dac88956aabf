//! Writes a storm of so many alarms as the vectors have it (sensor, time of receipt in ns, record; tabs between), for hosts
//! that measure what an event costs: `cargo run -p ringtap-wasm --example storm -- 100000 > storm.records`; of more than three
//! addresses if their number follows.

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::Write;

fn main() -> std::io::Result<()> {
    let number = |at| std::env::args().nth(at).and_then(|count| count.parse::<u32>().ok());
    let (events, sources) = (number(1).unwrap_or(500), number(2).unwrap_or(support::SOURCES));
    let (records, end) = support::storm_and_end(events as usize, sources);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for record in records.iter().chain(&end) {
        writeln!(out, "{}\t{}\t{}", record.sensor, record.received_ns, record.value)?;
    }
    out.flush()
}

//! Writes a storm of so many alarms as the vectors have it (sensor, time of receipt in ns, record; tabs between), for hosts
//! that measure what an event costs: `cargo run -p ringtap-wasm --example storm -- 100000 > storm.records`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::Write;

fn main() -> std::io::Result<()> {
    let events = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(500);
    let (records, end) = support::storm_and_end(events);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for record in records.iter().chain(&end) {
        writeln!(out, "{}\t{}\t{}", record.sensor, record.received_ns, record.value)?;
    }
    out.flush()
}

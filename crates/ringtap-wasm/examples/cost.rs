//! What a record of the storm costs where the module is native code, in one thread: µs of the second half of so many alarms
//! from so many addresses, with the rules and the engine of the tests. `scripts/flink-cost` says it of a `TaskManager`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;

fn main() {
    let number = |at| std::env::args().nth(at).and_then(|count| count.parse::<u32>().ok());
    let (alarms, sources) = (number(1).unwrap_or(200_000), number(2).unwrap_or(support::SOURCES));
    let (records, end) = support::storm_and_end(alarms as usize, sources);
    let mut engine = support::Engine::new(&support::configuration(None, support::RULES));
    let (first, second) = records.split_at(records.len() / 2);
    first.iter().for_each(|record| engine.take(record));
    let began = Instant::now();
    second.iter().for_each(|record| engine.take(record));
    let us = began.elapsed().as_secs_f64() * 1e6 / second.len() as f64;
    end.iter().for_each(|record| engine.take(record));
    println!("natively {us:6.2} us per record, {} records, {} lines of all", second.len(), engine.lines.len());
}

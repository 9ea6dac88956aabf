//! Events through the correlation engine of `rsigma-eval` 0.21: each line of the second file (JSON with `time` in ns) in its order, with
//! the rules of the first. Tells what fires: number of the line, title of the rule, key.
//!
//! The main file of a crate whose dependencies are rsigma-eval = "=0.21", rsigma-parser = "=0.21" and serde_json = "1".

use rsigma_eval::event::JsonEvent;
use rsigma_eval::{CorrelationConfig, CorrelationEngine};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rules = std::fs::read_to_string(&arguments[1]).expect("rules");
    let events = std::fs::read_to_string(&arguments[2]).expect("events");
    let collection = rsigma_parser::parse_sigma_yaml(&rules).expect("rules that are understood");
    assert!(collection.errors.is_empty(), "{:?}", collection.errors);
    let config = CorrelationConfig { max_state_entries: 10_000_000, ..CorrelationConfig::default() };
    let mut engine = CorrelationEngine::new(config);
    engine.add_collection(&collection).expect("rules that are taken");
    for (number, line) in events.lines().enumerate() {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let seconds = value["time"].as_i64().expect("a time") / 1_000_000_000;
        for result in engine.process_event_at(&JsonEvent::borrow(&value), seconds) {
            let Some(body) = result.as_correlation() else { continue };
            let key: Vec<&str> = body.group_key.iter().map(|(_, value)| value.as_str()).collect();
            println!("{number}\t{}\t{}", result.header.rule_title, key.join("\t"));
        }
    }
}

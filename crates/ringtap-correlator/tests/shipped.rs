//! The rules that Ringtap ships: all are used, each has a test, and all tests pass.

use std::fs;
use std::path::PathBuf;

use ringtap_correlator::rule_test;
use ringtap_correlator::rules::Rules;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/correlation"))
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(self::folder().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == extension))
        .collect();
    files.sort();
    files
}

#[test]
fn all_rules_are_used_and_only_correlations_are_told() {
    let rules = Rules::read(&folder()).unwrap();
    assert!(rules.rejected.is_empty(), "{:#?}", rules.rejected);
    let told = rules.automaton.rules().iter().filter(|rule| rule.announces).count();
    assert_eq!(told, files("", "yml").len(), "a file for each");
    assert!(told >= 20);
    // An alert of a sensor is told by the sensor.
    let alone: Vec<&str> = rules
        .automaton
        .detections()
        .iter()
        .filter(|detection| detection.announces)
        .map(|detection| detection.head.label())
        .collect();
    assert!(alone.is_empty(), "{alone:?}");
}

#[test]
fn each_rule_has_a_test_that_passes() {
    let tests = files("tests", "toml");
    let names = |files: &[PathBuf]| -> Vec<String> {
        files.iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&tests), names(&files("", "yml")));
    for path in &tests {
        let outcomes = rule_test::run(path).unwrap();
        // One that finds, and one that finds nothing of it.
        assert!(outcomes.len() >= 2, "{}", path.display());
        for outcome in outcomes {
            assert!(outcome.faults.is_empty(), "{}: {}: {:#?}", path.display(), outcome.name, outcome.faults);
        }
    }
}

#[test]
fn the_manual_names_each_rule() {
    let manual = include_str!("../../../docs/correlate.md");
    for path in files("", "yml") {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(manual.contains(name), "docs/correlate.md does not name {name}");
    }
}

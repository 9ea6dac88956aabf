//! Every sample capture, malformed ones included, through a detector with the whole public rule set: nothing panics, and
//! the bounds hold; packets cut anywhere too.

#[path = "../../ringtap-wire/tests/corpus/mod.rs"]
mod corpus;
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ringtap_detect::rules::{Classes, Coverage, RuleSet, Variables};
use ringtap_detect::{Detector, Limits, Program};
use ringtap_wire::LinkType;
use support::Count;

fn data(test: &str, name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    assert!(path.exists(), "did not run: {test}: the test data {} is missing", path.display());
    path
}

/// The public rule set, unpacked by tar(1).
fn public_rules(test: &str) -> RuleSet {
    let folder = std::env::temp_dir().join(format!("ringtap-rules-{}-{test}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let archive = data(test, "rules/et-open-2017-03.rules.tar.gz");
    let done = Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(&folder).status();
    assert!(done.unwrap_or_else(|error| panic!("did not run: {test}: tar: {error}")).success());
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder.join("rules")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut set = RuleSet::default();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rules")) {
        let text = std::fs::read(file).unwrap();
        set.add(&file.display().to_string(), &text, &Variables::default(), &Classes::default());
    }
    std::fs::remove_dir_all(&folder).unwrap();
    set
}

#[test]
fn the_public_rule_set_is_used_as_far_as_it_can_be() {
    let mut rejected = Vec::new();
    let (program, _) = Program::new(public_rules("coverage"), &mut rejected).unwrap();
    let coverage = Coverage::of(&rejected, program.rules().len());
    assert_eq!(coverage.used + coverage.left_out(), 19_556);
    assert_eq!(coverage.used, 6142);
    assert!(coverage.broken.is_empty(), "{:?}", coverage.broken);
}

#[test]
fn sample_captures_break_nothing() {
    const TEST: &str = "sample_captures_break_nothing";
    let mut rejected = Vec::new();
    let (program, _) = Program::new(public_rules("hostile"), &mut rejected).unwrap();
    let limits =
        Limits { flows: 256, windows: 64, early_bytes: 64 << 10, fragment_bytes: 64 << 10, ..Limits::default() };
    let mut detector = Detector::new(Arc::new(program), limits);
    let files = corpus::files(&data(TEST, "decode")).unwrap();
    assert!(files.len() > 300);
    let (mut now_ns, mut count, mut packets) = (1u64, Count::default(), 0u64);
    for file in files {
        for packet in corpus::packets(&file).0 {
            let Some(link) = LinkType::from_number(packet.link) else { continue };
            let len = packet.data.len();
            for cut in (1..=8).map(|eighths| len * eighths / 8).chain([len.saturating_sub(1)]) {
                now_ns += 10_000_000;
                detector.packet(&packet.data[..cut], link, packet.data.len() as u32, now_ns, &mut count);
                packets += 1;
            }
        }
    }
    let counters = detector.counters();
    assert!(packets > 25_000 && counters.packets == packets, "{packets}");
    assert!(counters.invalid > 100 && counters.flows_now <= 256, "{counters:?}");
    detector.finish(now_ns, &mut count);
    assert_eq!(detector.counters().flows_now, 0);
}

//! Third-party rules and captures: how much of a public rule set is used, and every capture, malformed ones included, through a
//! detector with all of it.

mod hostile_support;
mod support;

use std::path::PathBuf;
use std::process::Command;

use hostile_support::{LinkedPacket, feed};
use ringtap_detect::Program;
use ringtap_detect::rules::{Classes, Coverage, RuleSet, Variables};
use ringtap_samples::{conformance, read};

/// The public rule set, unpacked by tar(1).
fn public_rules(test: &str) -> RuleSet {
    let folder = std::env::temp_dir().join(format!("ringtap-rules-{}-{test}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let archive = conformance::data(test, "rules/et-open-2017-03.rules.tar.gz");
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
    let mut rejected = Vec::new();
    let (program, _) = Program::new(public_rules("hostile"), &mut rejected).unwrap();
    let files = conformance::captures("sample_captures_break_nothing");
    let packets = files.iter().flat_map(|file| read::packets(file).0);
    let fed = feed(program, packets.map(|packet| LinkedPacket { link: packet.link, data: packet.data }));
    assert!(fed.packets > 25_000, "{fed:?}");
    assert!(fed.invalid > 100, "{fed:?}");
}

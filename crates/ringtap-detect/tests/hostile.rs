//! Packets of every protocol, well-formed and damaged, through a detector with a rule for every keyword: nothing panics, and the
//! bounds hold; packets cut anywhere too.

mod hostile_support;
mod support;

use hostile_support::{LinkedPacket, feed};
use ringtap_detect::rules::{Classes, Coverage, RuleSet, Variables};
use ringtap_detect::{Program, protocol};
use ringtap_samples::{damaged, rules, samples};

fn our_rules() -> RuleSet {
    let mut set = RuleSet::default();
    for (name, text) in [("keywords.rules", rules::KEYWORDS), ("own.rules", rules::OWN)] {
        set.add(name, text.as_bytes(), &Variables::default(), &Classes::default());
    }
    set
}

/// The part of each of the reader's files in which options and the header's words are told apart; words behind it are values.
const READER: [(&str, &str); 5] = [
    (include_str!("../src/rules/parse/mod.rs"), "\0"),
    (include_str!("../src/rules/parse/headers.rs"), "fn event("),
    (include_str!("../src/rules/parse/bytes.rs"), "fn data_at("),
    (include_str!("../src/rules/parse/meta.rs"), "\0"),
    (include_str!("../src/rules/parse/state.rs"), "fn bits("),
];

/// Every one is used, and every keyword that the reader of rules knows is in one of them.
#[test]
fn our_rules_are_used_and_have_every_keyword() {
    /// A word of the reader that is an action like another.
    const OTHERS: [&str; 1] = ["rejectdst"];
    let mut rejected = Vec::new();
    let (program, _) = Program::new(our_rules(), &mut rejected).unwrap();
    let coverage = Coverage::of(&rejected, program.rules().len());
    assert!(rejected.is_empty() && coverage.broken.is_empty(), "{rejected:?}");
    let text = [rules::KEYWORDS, rules::OWN].concat();
    let lines = READER.iter().flat_map(|(file, end)| file.split(end).next().unwrap().lines()).map(str::trim);
    let arms = lines.filter(|line| line.starts_with('"') && line.contains("=>"));
    let words = arms.flat_map(|arm| arm.split("=>").next().unwrap().split('"').skip(1).step_by(2));
    let words: Vec<&str> = words.chain(protocol::rule_words()).collect();
    assert!(words.len() > 80, "{words:?}");
    let is_there = |word: &str| {
        let ends = [format!("{word}:"), format!("{word};"), format!("{word} ")];
        let starts = [" ", "(", "\n"];
        starts.iter().any(|start| ends.iter().any(|end| text.contains(&format!("{start}{end}"))))
    };
    let missing: Vec<&&str> = words.iter().filter(|word| !OTHERS.contains(word) && !is_there(word)).collect();
    assert!(missing.is_empty(), "in no rule: {missing:?}");
}

#[test]
fn samples_break_nothing() {
    let mut rejected = Vec::new();
    let (program, _) = Program::new(our_rules(), &mut rejected).unwrap();
    let all = samples().into_iter().chain(damaged());
    let packets = all.flat_map(|sample| {
        let link = sample.link;
        sample.packets.into_iter().map(move |data| LinkedPacket { link, data })
    });
    let fed = feed(program, packets);
    assert!(fed.packets > 50_000 && fed.invalid > 1000 && fed.alerts > 1000, "{fed:?}");
}

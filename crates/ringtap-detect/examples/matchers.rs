//! Which multi-pattern matcher: the fast patterns of rule files in payloads of several lengths, by the kinds of automaton of
//! `aho-corasick`, and whole domain names by a hash table. Also writes patterns and payloads for other programs.
//!
//! ```text
//! cargo run --release -p ringtap-detect --example matchers -- [--write FOLDER] [RULE-FILE…]
//! ```

use std::collections::HashSet;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use ringtap_detect::rules::rule::{Buffer, Protocol, Test};
use ringtap_detect::rules::{Classes, RuleSet, Variables};

/// How long one measurement lasts.
const LASTING: Duration = Duration::from_millis(300);
/// Measurements of each pair; the median is told.
const ROUNDS: usize = 5;
/// Names in the comparison with a hash table.
const NAMES: u32 = 10_000;

/// Random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn payloads(len: usize, random: &mut Random) -> Vec<Vec<u8>> {
    const LETTERS: &[u8] = b"etaoin shrdlu cmfwyp vbgkqjxz 0123456789 ./:=-&?";
    (0..256).map(|_| (0..len).map(|_| LETTERS[random.below(LETTERS.len() as u64) as usize]).collect()).collect()
}

/// Nanoseconds for each payload, median.
fn time(payloads: &[Vec<u8>], mut scan: impl FnMut(&[u8]) -> usize) -> f64 {
    let mut each: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let (began, mut done, mut found) = (Instant::now(), 0u64, 0usize);
            while began.elapsed() < LASTING {
                for payload in payloads {
                    found += scan(payload);
                }
                done += payloads.len() as u64;
            }
            black_box(found);
            began.elapsed().as_nanos() as f64 / done as f64
        })
        .collect();
    each.sort_by(f64::total_cmp);
    each[ROUNDS / 2]
}

/// The longest content of each UDP rule, or the one its author chose.
fn patterns(files: &[String]) -> Vec<Vec<u8>> {
    let mut set = RuleSet::default();
    for file in files {
        let text = std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        set.add(file, &text, &Variables::default(), &Classes::default());
    }
    let mut found: Vec<Vec<u8>> = set
        .rules
        .iter()
        .filter(|rule| matches!(rule.protocol, Protocol::Udp | Protocol::Tcp | Protocol::Ip(_)))
        .filter_map(|rule| {
            let contents = rule.buffers.iter().filter(|(buffer, _)| *buffer == Buffer::Payload).flat_map(|(_, t)| t);
            let positive = contents.filter_map(|test| match test {
                Test::Content(content) if !content.negated => Some(content),
                _ => None,
            });
            Some(positive.max_by_key(|content| (content.fast, content.bytes.len()))?.bytes.to_ascii_lowercase())
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

fn automata(name: &str, patterns: &[Vec<u8>], random: &mut Random, write: Option<&str>) {
    let sets: Vec<(usize, Vec<Vec<u8>>)> = [22, 256, 1400].map(|len| (len, payloads(len, random))).into();
    if let Some(folder) = write {
        let hex = |lines: &[Vec<u8>]| {
            lines.iter().fold(String::new(), |mut text, line| {
                line.iter().for_each(|byte| write!(text, "{byte:02x}").expect("a string"));
                text + "\n"
            })
        };
        std::fs::write(format!("{folder}/{name}.patterns"), hex(patterns)).expect("a file");
        for (len, payloads) in &sets {
            std::fs::write(format!("{folder}/{name}.{len}"), hex(payloads)).expect("a file");
        }
    }
    for (kind_name, kind, prefilter) in [
        ("table", AhoCorasickKind::DFA, false),
        ("table, prefilter", AhoCorasickKind::DFA, true),
        ("compact", AhoCorasickKind::ContiguousNFA, false),
        ("lists", AhoCorasickKind::NoncontiguousNFA, false),
    ] {
        let built = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(kind))
            .prefilter(prefilter)
            .build(patterns);
        let Ok(matcher) = built else { continue };
        let each: Vec<String> = sets
            .iter()
            .map(|(_, payloads)| {
                format!("{:.0}", time(payloads, |payload| matcher.find_overlapping_iter(payload).count()))
            })
            .collect();
        println!(
            "| {name} | {} | aho-corasick, {kind_name} | {} | {} |",
            patterns.len(),
            matcher.memory_usage() >> 10,
            each.join(" | ")
        );
    }
}

/// Names that rules ask for whole or as the end of others: an automaton against a table of their ends.
fn names(random: &mut Random) {
    let listed: Vec<Vec<u8>> = (0..NAMES)
        .map(|number| format!("bad-{:x}.example{}.com", random.below(1 << 40), number % 97).into_bytes())
        .collect();
    let asked: Vec<Vec<u8>> = (0..256)
        .map(|number| match number % 8 {
            0 => [&b"www."[..], &listed[number * 7]].concat(),
            _ => format!("cdn{}.static.harmless{}.net", random.below(1000), random.below(1 << 20)).into_bytes(),
        })
        .collect();
    let matcher = AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(&listed).expect("builds");
    let table: HashSet<&[u8]> = listed.iter().map(Vec::as_slice).collect();
    let automaton = time(&asked, |name| usize::from(matcher.find(name).is_some()));
    let hashed = time(&asked, |name| {
        let begins =
            std::iter::once(0).chain(name.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at + 1));
        usize::from(begins.into_iter().any(|at| table.contains(&name[at..])))
    });
    println!(
        "\n{NAMES} domain names: aho-corasick, compact {automaton:.0} ns a name; hash table of whole names {hashed:.0} ns"
    );
}

fn main() {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let mut write = None;
    if files.first().is_some_and(|word| word == "--write") {
        write = files.drain(..2).nth(1);
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    println!(
        "| patterns | how many | matcher | KiB | ns per 22 bytes | per 256 | per 1400 |\n|---|---|---|---|---|---|---|"
    );
    let own: Vec<Vec<u8>> = (0..160).map(|number| format!("attack-{number:03}-").into_bytes()).collect();
    automata("own", &own, &mut random, write.as_deref());
    if !files.is_empty() {
        automata("files", &patterns(&files), &mut random, write.as_deref());
    }
    names(&mut random);
}

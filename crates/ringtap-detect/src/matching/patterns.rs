//! Owns: the multi-pattern matcher: which rules' fast patterns occur in a buffer.
//! Does not: verify case, or all that is said of positions; the tests do.

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::{contiguous, noncontiguous};
use aho_corasick::{Anchored, MatchKind, StartKind, dfa};

use super::inspect::Budget;
use crate::protocol::Stage;
use crate::rules::rule::{Buffer, Content, Rule, Test, Transform, Value};

/// A table with one step per byte is built where it takes at most so many bytes: larger ones fall out of the cache, and
/// their steps are no faster than those of the compact form.
const TABLE_BYTES: usize = 256 << 10;
/// A table is tried for patterns of so many bytes in all; a step into it takes 32 bytes and more for nearly each of them.
const TRIED_BYTES: usize = TABLE_BYTES / 32;

/// Bytes after which a walk looks at the budget.
const BLOCK: usize = 512;
/// Bytes that cost a step of the budget where no pattern's pair of bytes occurs, in a table, and in the compact automaton, whose
/// states for thousands of patterns lie out of the cache; a rule whose pattern occurs costs as much as so many there.
const PASSED_BYTES: usize = 64;
const TABLE_STEP_BYTES: usize = 8;
const COMPACT_STEP_BYTES: usize = 4;
const HIT_BYTES: usize = 16;

/// Patterns of many rules.
pub(crate) struct Patterns {
    /// `None` where a pattern has one byte only.
    pairs: Option<Pairs>,
    matcher: Matcher,
    longest: usize,
    /// Rules of each pattern with the pattern's place, one behind the other, and where each pattern's end.
    rules: Box<[(u32, Position)]>,
    ends: Box<[u32]>,
}

enum Matcher {
    Table(dfa::DFA),
    Compact(contiguous::NFA),
}

impl Patterns {
    /// Compiles the patterns of these rules; `None` without any.
    ///
    /// # Errors
    /// More states than the matcher can number.
    pub(crate) fn new(list: &[(Vec<u8>, u32, Position)]) -> Result<Option<Self>, String> {
        if list.is_empty() {
            return Ok(None);
        }
        let mut by_pattern = std::collections::BTreeMap::<Vec<u8>, Vec<(u32, Position)>>::new();
        for (pattern, rule, position) in list {
            by_pattern.entry(pattern.to_ascii_lowercase()).or_default().push((*rule, *position));
        }
        let failed = |error: aho_corasick::BuildError| error.to_string();
        let nfa = noncontiguous::Builder::new()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .prefilter(false)
            .build(by_pattern.keys())
            .map_err(failed)?;
        let table = if by_pattern.keys().map(Vec::len).sum::<usize>() <= TRIED_BYTES {
            let mut builder = dfa::Builder::new();
            Some(builder.start_kind(StartKind::Unanchored).build_from_noncontiguous(&nfa).map_err(failed)?)
        } else {
            None
        };
        let matcher = match table.filter(|table| table.memory_usage() <= TABLE_BYTES) {
            Some(table) => Matcher::Table(table),
            None => Matcher::Compact(contiguous::Builder::new().build_from_noncontiguous(&nfa).map_err(failed)?),
        };
        let (mut rules, mut ends) = (Vec::new(), Vec::with_capacity(by_pattern.len()));
        for of_pattern in by_pattern.values() {
            rules.extend(of_pattern);
            ends.push(rules.len() as u32);
        }
        let pairs = Pairs::new(by_pattern.keys().map(Vec::as_slice));
        let longest = by_pattern.keys().map(Vec::len).max().unwrap_or(0);
        Ok(Some(Self { pairs, matcher, longest, rules: rules.into(), ends: ends.into() }))
    }

    /// Calls `found` for each rule whose pattern occurs in its place, `bytes` being a packet's payload or the like; for some
    /// more than once. Chunks of streams begin anywhere: their rules have [`Position::ANY`]. Without budget the rest is left out,
    /// and that is counted.
    #[inline]
    pub(crate) fn scan(&self, bytes: &[u8], budget: &mut Budget, found: impl FnMut(u32)) {
        budget.search(bytes.len(), PASSED_BYTES);
        let from = match &self.pairs {
            None => 0,
            Some(pairs) => match pairs.first(bytes) {
                None => return,
                // The pattern whose pair this is begins here at the earliest.
                Some(at) => at.saturating_sub(self.longest),
            },
        };
        match &self.matcher {
            Matcher::Table(table) => self.walk(table, TABLE_STEP_BYTES, bytes, from, budget, found),
            Matcher::Compact(compact) => self.walk(compact, COMPACT_STEP_BYTES, bytes, from, budget, found),
        }
    }

    fn walk(
        &self,
        matcher: &impl Automaton,
        step_bytes: usize,
        bytes: &[u8],
        from: usize,
        budget: &mut Budget,
        mut found: impl FnMut(u32),
    ) {
        let Ok(mut state) = matcher.start_state(Anchored::No) else { return };
        let mut at = from;
        for part in bytes.get(from..).unwrap_or_default().chunks(BLOCK) {
            if budget.left == 0 {
                budget.cut += 1;
                return;
            }
            let mut hits = 0;
            for &byte in part {
                at += 1;
                state = matcher.next_state(Anchored::No, state, byte);
                if matcher.is_special(state) {
                    hits += self.hits(matcher, state, at, &mut found);
                }
            }
            budget.search(part.len() + hits * HIT_BYTES, step_bytes);
        }
    }

    /// What occurs up to `end`: how many rules have a pattern there, plus one. Apart, so that the walk keeps its few values in
    /// registers.
    #[inline(never)]
    fn hits(&self, matcher: &impl Automaton, state: StateID, end: usize, found: &mut impl FnMut(u32)) -> usize {
        let mut hits = 1;
        if !matcher.is_match(state) {
            return hits;
        }
        for at in 0..matcher.match_len(state) {
            let rules = self.of(matcher.match_pattern(state, at).as_usize());
            hits += rules.len();
            for &(rule, position) in rules {
                if position.first as usize <= end && end <= position.last as usize {
                    found(rule);
                }
            }
        }
        hits
    }

    /// The rules of a pattern.
    fn of(&self, pattern: usize) -> &[(u32, Position)] {
        let from = if pattern == 0 { 0 } else { self.ends[pattern - 1] };
        &self.rules[from as usize..self.ends[pattern] as usize]
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let matcher = match &self.matcher {
            Matcher::Table(table) => table.memory_usage(),
            Matcher::Compact(compact) => compact.memory_usage(),
        };
        matcher + self.pairs.as_ref().map_or(0, Pairs::memory) + size_of_val(&*self.rules) + size_of_val(&*self.ends)
    }
}

/// Pairs of bytes of which each pattern has one: where none of them occurs there is no pattern either. Asking for them is
/// several times faster than the automaton, as no step waits for the one before.
struct Pairs {
    /// 1 for each value of the hash that some pattern's pair has; a power of two of them.
    table: Box<[u8]>,
}

impl Pairs {
    /// Pairs that are looked at before the first decision.
    const BLOCK: usize = 8;

    fn new<'p>(patterns: impl ExactSizeIterator<Item = &'p [u8]>) -> Option<Self> {
        // Few enough are taken to leave out most payloads, and the table stays in the cache: 4 to 16 KiB.
        let size = (patterns.len() * 64).next_power_of_two().clamp(1 << 12, 1 << 14);
        let mut this = Self { table: vec![0; size].into() };
        for pattern in patterns {
            let pair = pattern.windows(2).max_by_key(|pair| (rarity(pair), this.has(pair[0], pair[1])))?;
            let cases = |byte: u8| [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()];
            for first in cases(pair[0]) {
                for second in cases(pair[1]) {
                    let at = this.slot(first, second);
                    this.table[at] = 1;
                }
            }
        }
        Some(this)
    }

    #[inline]
    fn slot(&self, first: u8, second: u8) -> usize {
        // Knuth's multiplicative hash: the upper bits are the well-mixed ones.
        let product = u32::from(u16::from_le_bytes([first, second])).wrapping_mul(0x9e37_79b1);
        (product >> 16) as usize & (self.table.len() - 1)
    }

    #[inline]
    fn has(&self, first: u8, second: u8) -> u8 {
        self.table[self.slot(first, second)]
    }

    /// Where the first of the pairs is.
    #[inline]
    fn first(&self, bytes: &[u8]) -> Option<usize> {
        let mut from = 0;
        for block in bytes.windows(Self::BLOCK + 1).step_by(Self::BLOCK) {
            if (0..Self::BLOCK).fold(0, |any, at| any | self.has(block[at], block[at + 1])) != 0 {
                break;
            }
            from += Self::BLOCK;
        }
        let rest = bytes.get(from..)?.windows(2).position(|pair| self.has(pair[0], pair[1]) != 0)?;
        Some(from + rest)
    }

    fn memory(&self) -> usize {
        self.table.len()
    }
}

/// A pattern that stands for a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FastPattern {
    pub(crate) buffer: Buffer,
    pub(crate) bytes: Vec<u8>,
    pub(crate) position: Position,
}

/// Where in a packet's payload a pattern's end must lie for its rule to match: the first position and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    first: u32,
    last: u32,
}

impl Position {
    /// Anywhere.
    pub(crate) const ANY: Self = Self { first: 0, last: u32::MAX };

    fn of(content: &Content, behind: usize) -> Self {
        let number = |value| match value {
            Some(Value::Number(number)) => u32::try_from(number).ok(),
            _ => None,
        };
        // A variable, or a number below zero, says nothing beforehand.
        let is_fixed = |value: Option<Value>| value.is_none() || number(value).is_some();
        if content.is_relative() || !is_fixed(content.offset) || !is_fixed(content.depth) {
            return Self::ANY;
        }
        let (offset, len) = (number(content.offset).unwrap_or(0), content.bytes.len() as u32);
        let last = number(content.depth).map_or(u32::MAX, |depth| offset.saturating_add(depth));
        let behind = behind as u32;
        Self { first: offset.saturating_add(len - behind), last: last.saturating_sub(behind) }
    }
}

/// The pattern that stands for a rule: the one its author chose, else the one that is least likely to occur by chance, of
/// those that must be there.
pub(crate) fn fast_pattern(rule: &Rule) -> Option<FastPattern> {
    // A pattern is looked for in the value itself, which other transforms change.
    let dot_only = |chain: u8| rule.transforms[usize::from(chain)] == [Transform::DotPrefix];
    let is_seen = |buffer: Buffer| match buffer {
        Buffer::Transformed(_, chain) => dot_only(chain),
        Buffer::Base64 => false,
        _ => true,
    };
    let contents = rule.buffers.iter().flat_map(|(buffer, tests)| {
        tests.iter().filter_map(move |test| match test {
            Test::Content(content) if !content.negated && is_seen(*buffer) => Some((*buffer, content)),
            _ => None,
        })
    });
    // Application buffers say more than payloads of the same length.
    let (buffer, content) = contents.max_by_key(|(buffer, content)| {
        let is_app = buffer.of_app().is_some();
        (content.fast, is_app, rarity(&content.bytes), content.bytes.len(), Position::of(content, 0) != Position::ANY)
    })?;
    let (mut from, mut len) = content.chop.unwrap_or((0, content.bytes.len()));
    // The dot before a value is put there for the tests; a pattern is looked for in the value itself.
    let is_dotted = matches!(buffer, Buffer::Transformed(..));
    if is_dotted && from == 0 && content.bytes[0] == b'.' {
        if len == 1 {
            return None;
        }
        (from, len) = (1, len - 1);
    }
    let bytes = content.bytes[from..from + len].to_vec();
    // A window of a content begins anywhere.
    let is_window = buffer.of_app().is_some_and(|buffer| buffer.stage() == Stage::Body);
    let position =
        if is_dotted || is_window { Position::ANY } else { Position::of(content, content.bytes.len() - from - len) };
    Some(FastPattern { buffer, bytes, position })
}

/// How unlikely bytes are to occur by chance, as a sum of what each says: a byte that is there already says little, and so
/// do those that fill binary protocols and text.
fn rarity(bytes: &[u8]) -> u32 {
    let mut seen = [false; 256];
    let each = bytes.iter().map(|&byte| match byte.to_ascii_lowercase() {
        byte if std::mem::replace(&mut seen[usize::from(byte)], true) => 1,
        0 | 0xff => 1,
        b'a'..=b'z' | b'0'..=b'9' | b' ' => 4,
        b'\n' | b'\r' | b'\t' | b'!'..=b'~' => 5,
        _ => 6,
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Positions of a pattern's ends, whatever the case.
    fn ends(bytes: &[u8], pattern: &[u8]) -> Vec<usize> {
        let windows = bytes.windows(pattern.len()).enumerate();
        windows.filter(|(_, window)| window.eq_ignore_ascii_case(pattern)).map(|(at, _)| at + pattern.len()).collect()
    }

    proptest! {
        #[test]
        fn as_looking_for_each(
            patterns in prop::collection::vec((prop::collection::vec(prop::sample::select(&b"abAB\x00\xff1"[..]), 1..6), 0u32..12, 0u32..12), 1..40),
            bytes in prop::collection::vec(prop::sample::select(&b"abAB\x00\xff1"[..]), 0..60),
        ) {
            let list: Vec<_> = patterns
                .iter()
                .zip(0..)
                .map(|((bytes, first, more), rule)| (bytes.clone(), rule, Position { first: *first, last: first + more }))
                .collect();
            let expected: BTreeSet<u32> = list
                .iter()
                .filter(|(pattern, _, position)| {
                    ends(&bytes, pattern).iter().any(|&end| position.first as usize <= end && end <= position.last as usize)
                })
                .map(|(_, rule, _)| *rule)
                .collect();
            let mut found = BTreeSet::new();
            let mut budget = Budget { left: 1000, ..Budget::default() };
            Patterns::new(&list).unwrap().unwrap().scan(&bytes, &mut budget, |rule| {
                found.insert(rule);
            });
            prop_assert_eq!(found, expected);
        }
    }

    /// What thousands of patterns cost is charged as what it takes.
    #[test]
    fn a_compact_automaton_costs_more_than_a_table() {
        let steps = |count: u32| {
            let list: Vec<_> =
                (0..count).map(|number| (format!("pattern-{number:05}").into_bytes(), number, Position::ANY)).collect();
            let patterns = Patterns::new(&list).unwrap().unwrap();
            let mut budget = Budget { left: 1_000_000, ..Budget::default() };
            let bytes = [b"pattern-00001", &b"pattern-x".repeat(1000)[..]].concat();
            patterns.scan(&bytes, &mut budget, |_| {});
            (matches!(patterns.matcher, Matcher::Table(_)), 1_000_000 - budget.left)
        };
        let (table, compact) = (steps(20), steps(5000));
        assert!(table.0 && (9000 / 8..9000 / 6).contains(&table.1), "{table:?}");
        assert!(!compact.0 && (9000 / 4..9000 / 3).contains(&compact.1), "{compact:?}");
    }

    #[test]
    fn the_rarest_content_stands_for_a_rule() {
        let first = |text: &[u8]| {
            let mut set = crate::rules::RuleSet::default();
            set.add("test", text, &crate::rules::Variables::default(), &crate::rules::Classes::default());
            fast_pattern(&set.rules[0]).unwrap()
        };
        let found = first(
            br#"alert udp any any -> any any (content:"|00 01 86 E4|"; depth:4; offset:12; content:"|00 00 00 00 00|"; sid:1;)"#,
        );
        assert_eq!((found.bytes, found.position), (vec![0, 1, 0x86, 0xe4], Position { first: 16, last: 16 }));
        // What its author says counts more, and only a part of it may be looked for.
        let found = first(
            br#"alert udp any any -> any any (content:"abcdef"; offset:2; depth:10; fast_pattern:1,3; content:"|86 87 88 89|"; sid:1;)"#,
        );
        assert_eq!((found.bytes, found.position), (b"bcd".to_vec(), Position { first: 6, last: 10 }));
    }
}

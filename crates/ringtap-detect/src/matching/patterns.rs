//! Owns: the multi-pattern matcher: which rules' fast patterns occur in a buffer.
//! Does not: verify case or position; the tests do.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::rules::rule::{Buffer, Rule, Test};

/// So many patterns are compiled into a table with one step per byte; more would not fit into the cache anyway.
const TABLE_PATTERNS: usize = 1000;

/// Patterns of many rules.
pub(crate) struct Patterns {
    matcher: AhoCorasick,
    /// Rules of each pattern.
    rules: Vec<Vec<u32>>,
}

impl Patterns {
    /// Compiles the patterns of these rules; `None` without any.
    ///
    /// # Errors
    /// More states than the matcher can number.
    pub(crate) fn new(list: &[(Vec<u8>, u32)]) -> Result<Option<Self>, String> {
        if list.is_empty() {
            return Ok(None);
        }
        let mut by_pattern = std::collections::BTreeMap::<Vec<u8>, Vec<u32>>::new();
        for (pattern, rule) in list {
            by_pattern.entry(pattern.to_ascii_lowercase()).or_default().push(*rule);
        }
        let kind =
            if by_pattern.len() <= TABLE_PATTERNS { AhoCorasickKind::DFA } else { AhoCorasickKind::ContiguousNFA };
        let matcher = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(kind))
            .prefilter(false)
            .build(by_pattern.keys())
            .map_err(|error| error.to_string())?;
        Ok(Some(Self { matcher, rules: by_pattern.into_values().collect() }))
    }

    /// Calls `found` for each rule whose pattern occurs; for some more than once.
    #[inline]
    pub(crate) fn scan(&self, bytes: &[u8], mut found: impl FnMut(u32)) {
        for hit in self.matcher.find_overlapping_iter(bytes) {
            for &rule in &self.rules[hit.pattern().as_usize()] {
                found(rule);
            }
        }
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.matcher.memory_usage() + self.rules.iter().map(|rules| rules.capacity() * 4 + 24).sum::<usize>()
    }
}

/// The pattern that stands for a rule: the one its author chose, else the longest, of those that must be there; with its
/// buffer.
pub(crate) fn fast_pattern(rule: &Rule) -> Option<(Buffer, Vec<u8>)> {
    let contents = rule.buffers.iter().flat_map(|(buffer, tests)| {
        tests.iter().filter_map(move |test| match test {
            Test::Content(content) if !content.negated => Some((*buffer, content)),
            _ => None,
        })
    });
    // Application buffers say more than payloads of the same length.
    let (buffer, content) = contents
        .max_by_key(|(buffer, content)| (content.fast, crate::rules::app_of(*buffer).is_some(), content.bytes.len()))?;
    let (from, len) = content.chop.unwrap_or((0, content.bytes.len()));
    Some((buffer, content.bytes[from..from + len].to_vec()))
}

//! Owns: the tests of one buffer, in the order of the rule, with back-tracking and a budget.
//! Does not: choose the buffer.

use memchr::memmem;

use super::expression::{Compiled, Found};
use crate::rules::MAX_VARIABLES;
use crate::rules::rule::{Arithmetic, Content, JumpFrom, Number, Operator, Test, Value};

/// One test, ready to run.
#[expect(clippy::large_enum_variant, reason = "most are contents; a box would be a step to somewhere else in memory")]
pub(crate) enum Step {
    Content(Content, Finder),
    Expression { compiled: Compiled, negated: bool, relative: bool },
    Other(Test),
}

/// How a content is searched for.
#[expect(clippy::large_enum_variant, reason = "as above")]
pub(crate) enum Finder {
    Exact(memmem::Finder<'static>),
    /// Lower-case bytes.
    Folded(Vec<u8>),
}

impl Step {
    /// Makes a test ready.
    ///
    /// # Errors
    /// A regular expression that no engine takes.
    pub(crate) fn new(test: &Test) -> Result<Self, String> {
        Ok(match test {
            Test::Content(content) => {
                let finder = if content.nocase {
                    Finder::Folded(content.bytes.to_ascii_lowercase())
                } else {
                    Finder::Exact(memmem::Finder::new(&content.bytes).into_owned())
                };
                Self::Content(content.clone(), finder)
            }
            Test::Expression(expression) => Self::Expression {
                compiled: Compiled::new(expression)?,
                negated: expression.negated,
                relative: expression.relative,
            },
            other => Self::Other(other.clone()),
        })
    }

    /// Whether it depends on where the test before it matched.
    fn is_relative(&self) -> bool {
        match self {
            Self::Content(content, _) => content.is_relative(),
            Self::Expression { relative, .. } => *relative,
            Self::Other(Test::DataAt { relative, .. }) => *relative,
            Self::Other(
                Test::ByteTest { number, .. }
                | Test::ByteJump { number, .. }
                | Test::ByteExtract { number, .. }
                | Test::ByteMath { number, .. },
            ) => number.relative,
            Self::Other(_) => false,
        }
    }
}

impl Finder {
    fn find(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Exact(finder) => finder.find(bytes),
            Self::Folded(needle) => {
                let (&first, last) = (needle.first()?, bytes.len().checked_sub(needle.len())?);
                let starts = &bytes[..=last];
                let same = |at: usize| bytes[at..at + needle.len()].eq_ignore_ascii_case(needle);
                if first.is_ascii_lowercase() {
                    memchr::memchr2_iter(first, first.to_ascii_uppercase(), starts).find(|&at| same(at))
                } else {
                    memchr::memchr_iter(first, starts).find(|&at| same(at))
                }
            }
        }
    }
}

/// One run over a buffer.
pub(crate) struct Inspection<'b> {
    pub(crate) bytes: &'b [u8],
    /// Position of the buffer's first byte in its stream; 0 for packets.
    pub(crate) base: u64,
    /// Bytes before this were seen before: a match must reach behind it.
    pub(crate) new_from: usize,
    /// Searches and comparisons left; 0 ends the run.
    pub(crate) budget: &'b mut u32,
    pub(crate) variables: [u64; MAX_VARIABLES],
}

impl Inspection<'_> {
    /// Whether all tests match.
    pub(crate) fn matches(&mut self, steps: &[Step]) -> bool {
        self.run(steps, 0, 0)
    }

    /// `at` is the end of the match before; `reach` the furthest end of all.
    fn run(&mut self, steps: &[Step], at: usize, reach: usize) -> bool {
        let Some((step, rest)) = steps.split_first() else {
            return self.new_from == 0 || reach > self.new_from;
        };
        if *self.budget == 0 {
            return false;
        }
        *self.budget -= 1;
        match step {
            Step::Content(content, finder) => self.content(content, finder, rest, at, reach),
            Step::Expression { compiled, negated, relative } => {
                self.expression(compiled, *negated, *relative, rest, at, reach)
            }
            Step::Other(test) => match self.other(test, at) {
                Some(next) => self.run(rest, next, reach),
                None => false,
            },
        }
    }

    /// Whether another match of this test can change what follows.
    fn worth_another(&self, rest: &[Step], reach: usize) -> bool {
        rest.first().is_some_and(Step::is_relative) || (self.new_from > 0 && reach <= self.new_from)
    }

    fn value(&self, value: Value) -> i64 {
        match value {
            Value::Number(number) => number,
            Value::Variable(index) => i64::try_from(self.variables[usize::from(index)]).unwrap_or(i64::MAX),
        }
    }

    fn optional(&self, value: Option<Value>) -> Option<i64> {
        value.map(|value| self.value(value))
    }

    /// Where a content may lie: from and to, or nowhere.
    fn region(&self, content: &Content, at: usize) -> Option<(usize, usize)> {
        let len = self.bytes.len() as i64;
        let base = i64::try_from(self.base).unwrap_or(i64::MAX);
        let (mut from, mut to) = (0i64, len);
        if content.is_relative() {
            let distance = self.optional(content.distance).unwrap_or(0);
            from = (at as i64).saturating_add(distance).max(0);
            if let Some(within) = self.optional(content.within) {
                to = to.min((at as i64).saturating_add(distance).saturating_add(within));
            }
        }
        // Offset and depth count from the start of the stream.
        if let Some(offset) = self.optional(content.offset) {
            from = from.max(offset.saturating_sub(base));
        }
        if let Some(depth) = self.optional(content.depth) {
            let offset = self.optional(content.offset).unwrap_or(0);
            to = to.min(offset.saturating_add(depth).saturating_sub(base));
        }
        if content.at_end {
            if to < len {
                return None;
            }
            from = from.max(len - content.bytes.len() as i64);
        }
        (from <= to && to <= len && from >= 0).then_some((from as usize, to as usize))
    }

    fn content(&mut self, content: &Content, finder: &Finder, rest: &[Step], at: usize, reach: usize) -> bool {
        let region = self.region(content, at);
        if content.negated {
            let found = region.is_some_and(|(from, to)| finder.find(&self.bytes[from..to]).is_some());
            return !found && self.run(rest, at, reach);
        }
        let Some((mut from, to)) = region else { return false };
        let len = content.bytes.len();
        // The last test must reach new bytes if none before it has.
        if rest.is_empty() && self.new_from > 0 && reach <= self.new_from {
            from = from.max((self.new_from + 1).saturating_sub(len));
        }
        while from <= to {
            let Some(found) = finder.find(&self.bytes[from..to]) else { return false };
            let end = from + found + len;
            let reached = reach.max(end);
            if self.run(rest, end, reached) {
                return true;
            }
            if !self.worth_another(rest, reached) || *self.budget == 0 {
                return false;
            }
            *self.budget -= 1;
            from += found + 1;
        }
        false
    }

    fn expression(
        &mut self,
        compiled: &Compiled,
        negated: bool,
        relative: bool,
        rest: &[Step],
        at: usize,
        reach: usize,
    ) -> bool {
        let skip = if relative { at } else { 0 };
        let Some(bytes) = self.bytes.get(skip..) else { return false };
        // A search is worth more than a comparison.
        *self.budget = self.budget.saturating_sub(1 + (bytes.len() / 64) as u32);
        let mut from = 0;
        loop {
            match compiled.find(bytes, from) {
                Found::GaveUp => {
                    *self.budget = 0;
                    return false;
                }
                Found::Nowhere => return negated && self.run(rest, at, reach),
                Found::At(..) if negated => return false,
                Found::At(start, end) => {
                    let reached = reach.max(skip + end);
                    if self.run(rest, skip + end, reached) {
                        return true;
                    }
                    if !self.worth_another(rest, reached) || *self.budget == 0 || start >= bytes.len() {
                        return false;
                    }
                    *self.budget = self.budget.saturating_sub(1 + ((bytes.len() - start) / 64) as u32);
                    from = start + 1;
                }
            }
        }
    }

    /// Runs a test that either holds or not; returns the position for the next one.
    fn other(&mut self, test: &Test, at: usize) -> Option<usize> {
        let len = self.bytes.len();
        match *test {
            Test::Size(compare) => compare.fits(len as u64).then_some(at),
            Test::DataAt { bytes, relative, negated } => {
                let wanted = self.value(bytes);
                let have = if relative {
                    wanted >= 0 && (at as i64).saturating_add(wanted) <= len as i64
                } else {
                    wanted < len as i64
                };
                (have != negated).then_some(at)
            }
            Test::ByteTest { number, operator, negated, value } => {
                let (found, _) = self.number(number, at)?;
                let value = self.value(value) as u64;
                let holds = match operator {
                    Operator::Less => found < value,
                    Operator::Greater => found > value,
                    Operator::Equal => found == value,
                    Operator::AtMost => found <= value,
                    Operator::AtLeast => found >= value,
                    Operator::And => found & value != 0,
                    Operator::Xor => found ^ value != 0,
                };
                (holds != negated).then_some(at)
            }
            Test::ByteJump { number, multiplier, align, from, post } => {
                let (found, end) = self.number(number, at)?;
                let jump = aligned(i64::try_from(found).ok()?.checked_mul(multiplier)?, align)?;
                let start = match from {
                    JumpFrom::Here => end,
                    JumpFrom::Start => 0,
                    JumpFrom::End => len,
                };
                // As Suricata 7.0.10 has it: before the start is at the start, and behind the end is no match.
                let to = (start as i64).checked_add(jump)?.checked_add(self.value(post))?;
                (to <= len as i64).then_some(to.max(0) as usize)
            }
            Test::ByteExtract { number, multiplier, align, into } => {
                let (found, end) = self.number(number, at)?;
                let value = aligned(i64::try_from(found).ok()?.checked_mul(multiplier)?, align)?;
                self.variables[usize::from(into)] = value as u64;
                Some(end)
            }
            Test::ByteMath { number, operator, value, into } => {
                let (found, end) = self.number(number, at)?;
                let right = self.value(value) as u64;
                self.variables[usize::from(into)] = match operator {
                    Arithmetic::Add => found.wrapping_add(right),
                    Arithmetic::Subtract => found.wrapping_sub(right),
                    Arithmetic::Multiply => found.wrapping_mul(right),
                    Arithmetic::Divide => found.checked_div(right)?,
                    Arithmetic::ShiftLeft => found.checked_shl(u32::try_from(right).ok()?).unwrap_or(0),
                    Arithmetic::ShiftRight => found.checked_shr(u32::try_from(right).ok()?).unwrap_or(0),
                };
                Some(end)
            }
            Test::Content(_) | Test::Expression(_) => None,
        }
    }

    /// The number in the buffer, and the position behind it.
    fn number(&self, number: Number, at: usize) -> Option<(u64, usize)> {
        let start = if number.relative { at as i64 } else { 0 }.checked_add(self.value(number.offset))?;
        let start = usize::try_from(start).ok()?;
        let count = usize::try_from(self.value(number.bytes)).ok()?;
        let bytes = self.bytes.get(start..start.checked_add(count)?)?;
        let mut value = match number.text_base {
            Some(base) => text_number(bytes, base)?,
            None if count > 8 => return None,
            None if number.little => bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)),
            None => bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)),
        };
        if let Some(mask) = number.mask {
            value = (value & u64::from(mask)) >> mask.trailing_zeros();
        }
        Some((value, start + count))
    }
}

/// Digits, perhaps after white space or `0x`, up to the first other letter; `None` without any.
fn text_number(bytes: &[u8], base: u32) -> Option<u64> {
    let text = bytes.trim_ascii_start();
    let text = if base == 16 { text.strip_prefix(b"0x").or(text.strip_prefix(b"0X")).unwrap_or(text) } else { text };
    let digits = text.iter().map_while(|&byte| char::from(byte).to_digit(base));
    let mut value = None;
    for digit in digits {
        value = Some(value.unwrap_or(0u64).checked_mul(base.into())?.checked_add(digit.into())?);
    }
    value
}

fn aligned(value: i64, align: i64) -> Option<i64> {
    let over = value % align;
    if over == 0 { Some(value) } else { value.checked_add(align - over) }
}

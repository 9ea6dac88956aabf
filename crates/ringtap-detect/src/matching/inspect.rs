//! Owns: the tests of one buffer, in the order of the rule, with back-tracking and a budget.
//! Does not: choose the buffer.

use memchr::memmem;

use super::base64;
use super::expression::{Compiled, Found};
use crate::rules::rule::{Arithmetic, Content, JumpFrom, Membership, Number, Operator, Test, Value};
use crate::rules::{Dataset, MAX_VARIABLES, Wrote};

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
            Self::Other(Test::DataAt { relative, .. } | Test::Base64 { relative, .. }) => *relative,
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

/// Steps that an expression has used when it gives up: its own limits let it run for about a tenth of a millisecond.
const GIVE_UP_STEPS: u32 = 5000;
/// Bytes of a search that cost a step of about 20 ns: exact, in any case, by an expression.
const EXACT_BYTES: usize = 256;
const FOLDED_BYTES: usize = 32;
const EXPRESSION_BYTES: usize = 16;
const BASE64_BYTES: usize = 16;
/// The same of what is read or put together for rules to look at.
pub(crate) const READ_BYTES: usize = 16;
/// And of what comes out of decompressors.
pub(crate) const INFLATED_BYTES: usize = 32;
/// Bytes that `base64_decode` makes at most.
const MAX_DECODED: usize = 48 << 10;

/// Work that is left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    /// Steps: a comparison, or some bytes of a search.
    pub(crate) left: u32,
    /// Searches that hit a limit of their own: whether there is a match is not known.
    pub(crate) gave_up: u64,
    /// Scans for patterns that ended before their bytes did, as nothing was left.
    pub(crate) cut: u64,
    /// Values of datasets that were forgotten for others.
    pub(crate) forgotten: u64,
}

impl Budget {
    /// Pays for so many bytes.
    pub(crate) fn search(&mut self, bytes: usize, per_step: usize) {
        self.left = self.left.saturating_sub(1 + (bytes / per_step) as u32);
    }

    /// Pays for what was done to have a value: a quarter of what was left stays for looking at it, else work that brings little would
    /// hide what came with it. What such work may be at one time has bounds of its own.
    pub(crate) fn unpack(&mut self, bytes: usize, per_step: usize) {
        let kept = self.left / 4;
        self.search(bytes, per_step);
        self.left = self.left.max(kept);
    }
}

/// What the tests so far have looked at.
#[derive(Clone, Copy)]
struct Reach {
    /// Where the first match begins.
    first: usize,
    /// The furthest byte that a test needed, plus one.
    end: usize,
}

impl Reach {
    const NOTHING: Self = Self { first: usize::MAX, end: 0 };

    fn with(self, start: usize, end: usize) -> Self {
        Self { first: self.first.min(start), end: self.end.max(end) }
    }

    /// With bytes that no match begins with.
    fn to(self, end: usize) -> Self {
        Self { end: self.end.max(end), ..self }
    }
}

/// One run over a buffer.
pub(crate) struct Inspection<'b> {
    pub(crate) bytes: &'b [u8],
    /// Position of the buffer's first byte in its stream; 0 for packets.
    pub(crate) base: u64,
    /// Bytes before this were seen before: a match must reach behind it.
    pub(crate) new_from: usize,
    /// And bytes from here on: a match must begin before it.
    pub(crate) new_to: usize,
    /// Nothing left ends the run.
    pub(crate) budget: &'b mut Budget,
    pub(crate) kept: &'b mut Kept,
}

/// What one rule's tests keep from one buffer to the next.
pub(crate) struct Kept {
    /// Its own variables.
    pub(crate) variables: [u64; MAX_VARIABLES],
    /// What `base64_decode` has decoded.
    pub(crate) decoded: Vec<u8>,
}

impl Kept {
    /// Takes all memory.
    pub(crate) fn new() -> Self {
        Self { variables: [0; MAX_VARIABLES], decoded: Vec::with_capacity(MAX_DECODED) }
    }

    /// For another rule.
    pub(crate) fn clear(&mut self) {
        self.variables = [0; MAX_VARIABLES];
        self.decoded.clear();
    }
}

impl Inspection<'_> {
    /// Whether all tests match.
    pub(crate) fn matches(&mut self, steps: &[Step]) -> bool {
        self.run(steps, 0, Reach::NOTHING)
    }

    /// `at` is the end of the match before; `reach` what all have looked at.
    fn run(&mut self, steps: &[Step], at: usize, reach: Reach) -> bool {
        let Some((step, rest)) = steps.split_first() else {
            return self.has_reached(reach) && (self.new_to == self.bytes.len() || reach.first < self.new_to);
        };
        if self.budget.left == 0 {
            return false;
        }
        self.budget.left -= 1;
        match step {
            Step::Content(content, finder) => self.content(content, finder, rest, at, reach),
            Step::Expression { compiled, negated, relative } => {
                self.expression(compiled, *negated, *relative, rest, at, reach)
            }
            Step::Other(test) => match self.other(test, at) {
                Some((next, end)) => self.run(rest, next, reach.to(end)),
                None => false,
            },
        }
    }

    fn has_reached(&self, reach: Reach) -> bool {
        self.new_from == 0 || reach.end > self.new_from
    }

    /// Whether another match of this test can change what follows.
    fn worth_another(&self, rest: &[Step], reach: Reach) -> bool {
        rest.first().is_some_and(Step::is_relative) || !self.has_reached(reach)
    }

    fn value(&self, value: Value) -> i64 {
        match value {
            Value::Number(number) => number,
            Value::Variable(index) => i64::try_from(self.kept.variables[usize::from(index)]).unwrap_or(i64::MAX),
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

    fn content(&mut self, content: &Content, finder: &Finder, rest: &[Step], at: usize, reach: Reach) -> bool {
        let region = self.region(content, at);
        let per_step = if content.nocase { FOLDED_BYTES } else { EXACT_BYTES };
        if content.negated {
            let (from, to) = region.unwrap_or((0, 0));
            self.budget.search(to - from, per_step);
            let found = region.is_some_and(|(from, to)| finder.find(&self.bytes[from..to]).is_some());
            // Where it ends before all bytes do, these had to be there; without an end it was said of what was there.
            let end = if to < self.bytes.len() { to } else { 0 };
            return !found && self.run(rest, at, reach.to(end));
        }
        let Some((mut from, to)) = region else { return false };
        let len = content.bytes.len();
        // The last test must reach new bytes if none before it has.
        if rest.is_empty() && !self.has_reached(reach) {
            from = from.max((self.new_from + 1).saturating_sub(len));
        }
        while from <= to {
            let found = finder.find(&self.bytes[from..to]);
            self.budget.search(found.unwrap_or(to - from), per_step);
            let Some(found) = found else { return false };
            let end = from + found + len;
            let reached = reach.with(from + found, end);
            if self.run(rest, end, reached) {
                return true;
            }
            if !self.worth_another(rest, reached) || self.budget.left == 0 {
                return false;
            }
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
        reach: Reach,
    ) -> bool {
        let skip = if relative { at } else { 0 };
        let Some(bytes) = self.bytes.get(skip..) else { return false };
        let mut from = 0;
        loop {
            self.budget.search(bytes.len() - from, EXPRESSION_BYTES);
            match compiled.find(bytes, from) {
                Found::GaveUp => {
                    self.budget.left = self.budget.left.saturating_sub(GIVE_UP_STEPS);
                    self.budget.gave_up += 1;
                    return false;
                }
                Found::Nowhere => return negated && self.run(rest, at, reach),
                Found::At(..) if negated => return false,
                Found::At(start, end) => {
                    let reached = reach.with(skip + start, skip + end);
                    if self.run(rest, skip + end, reached) {
                        return true;
                    }
                    if !self.worth_another(rest, reached) || self.budget.left == 0 || start >= bytes.len() {
                        return false;
                    }
                    from = start + 1;
                }
            }
        }
    }

    /// Runs a test that either holds or not; returns the position for the next one, and up to where it needed the bytes.
    fn other(&mut self, test: &Test, at: usize) -> Option<(usize, usize)> {
        let len = self.bytes.len();
        match *test {
            Test::Size(compare) => compare.fits(len as u64).then_some((at, 0)),
            Test::In { ref list, how } => {
                self.budget.search(len, EXPRESSION_BYTES);
                // A part of a value is none.
                (self.base == 0 && self.is_member(list, how)).then_some((at, 0))
            }
            Test::DataAt { bytes, relative, negated } => {
                let wanted = self.value(bytes);
                let (have, end) = if relative {
                    let end = (at as i64).saturating_add(wanted);
                    (wanted >= 0 && end <= len as i64, end)
                } else {
                    (wanted < len as i64, wanted.saturating_add(1))
                };
                let end = if have && end > 0 { end as usize } else { 0 };
                (have != negated).then_some((at, end))
            }
            Test::ByteTest { number, operator, negated, value } => {
                let (found, end) = self.number(number, at)?;
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
                (holds != negated).then_some((at, end))
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
                let to = to.max(0) as usize;
                (to <= len).then_some((to, end.max(to)))
            }
            Test::ByteExtract { number, multiplier, align, into } => {
                let (found, end) = self.number(number, at)?;
                let value = aligned(i64::try_from(found).ok()?.checked_mul(multiplier)?, align)?;
                self.kept.variables[usize::from(into)] = value as u64;
                Some((end, end))
            }
            Test::ByteMath { number, operator, value, into } => {
                let (found, end) = self.number(number, at)?;
                let right = self.value(value) as u64;
                self.kept.variables[usize::from(into)] = match operator {
                    Arithmetic::Add => found.wrapping_add(right),
                    Arithmetic::Subtract => found.wrapping_sub(right),
                    Arithmetic::Multiply => found.wrapping_mul(right),
                    Arithmetic::Divide => found.checked_div(right)?,
                    Arithmetic::ShiftLeft => found.checked_shl(u32::try_from(right).ok()?).unwrap_or(0),
                    Arithmetic::ShiftRight => found.checked_shr(u32::try_from(right).ok()?).unwrap_or(0),
                };
                Some((end, end))
            }
            Test::Number(ref list) => {
                let number = whole_number(self.bytes)?;
                list.iter().any(|compare| compare.fits(number)).then_some((at, len))
            }
            Test::Flags { set, clear } => {
                let number = whole_number(self.bytes)?;
                (number & set == set && number & clear == 0).then_some((at, len))
            }
            Test::Base64 { bytes, offset, relative } => {
                let from = if relative { at } else { 0 }.checked_add(offset as usize)?;
                self.decode(from, bytes as usize).map(|end| (at, end))
            }
            Test::Content(_) | Test::Expression(_) => None,
        }
    }

    /// Whether the buffer is in a list as it should be, or comes into it, or out of it, by this.
    fn is_member(&mut self, list: &Dataset, how: Membership) -> bool {
        let wrote = match how {
            Membership::IsSet => return list.has(self.bytes),
            Membership::IsNotSet => return !list.has(self.bytes),
            // As Suricata has it: nothing is no value.
            Membership::Set | Membership::Unset if self.bytes.is_empty() => return false,
            Membership::Set | Membership::Unset => list.write(self.bytes, how == Membership::Set),
        };
        self.budget.forgotten += u64::from(wrote == Wrote::Forgot);
        wrote != Wrote::Nothing
    }

    /// Keeps what these bytes from `from` on are in Base64; gives the end of what was read, if there was any.
    fn decode(&mut self, from: usize, bytes: usize) -> Option<usize> {
        let text = self.bytes.get(from..)?;
        self.kept.decoded.clear();
        let read = base64::decode(&text[..text.len().min(bytes)], &mut self.kept.decoded);
        self.budget.search(read, BASE64_BYTES);
        (!self.kept.decoded.is_empty()).then_some(from + read)
    }

    /// The number in the buffer, and the position behind it.
    fn number(&self, number: Number, at: usize) -> Option<(u64, usize)> {
        let start = if number.relative { at as i64 } else { 0 }.checked_add(self.value(number.offset))?;
        let start = usize::try_from(start).ok()?;
        let count = usize::try_from(self.value(number.bytes)).ok()?;
        let bytes = match (count, number.text_base) {
            (0, Some(_)) => self.bytes.get(start..)?,
            _ => self.bytes.get(start..start.checked_add(count)?)?,
        };
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

/// A value as a number in network byte order; `None` where it is none.
fn whole_number(bytes: &[u8]) -> Option<u64> {
    let fits = !bytes.is_empty() && bytes.len() <= 8;
    fits.then(|| bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unpacked_at_any_cost_can_still_be_looked_at() {
        let mut budget = Budget { left: 50_000, ..Budget::default() };
        budget.unpack(100 << 20, 32);
        assert_eq!(budget.left, 12_500);
        budget.unpack(320, 32);
        assert_eq!(budget.left, 12_489);
    }
}

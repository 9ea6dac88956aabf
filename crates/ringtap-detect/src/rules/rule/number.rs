//! Owns: numbers in a rule: written in it, compared with it, read from the bytes.
//! Does not: read them (`matching/inspect.rs` does).

/// A comparison with a range; every operator of the language becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare {
    /// Least value that fits.
    pub low: u64,
    /// Greatest value that fits.
    pub high: u64,
    /// The other values fit instead.
    pub negated: bool,
}

impl Compare {
    /// This value and no other.
    #[must_use]
    pub fn exactly(value: u64) -> Self {
        Self { low: value, high: value, negated: false }
    }

    /// Whether `value` fits.
    #[inline]
    #[must_use]
    pub fn fits(self, value: u64) -> bool {
        (self.low <= value && value <= self.high) != self.negated
    }
}

/// A number, or the variable that `byte_extract` or `byte_math` set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Written in the rule.
    Number(i64),
    /// Index of a variable of the rule.
    Variable(u8),
}

/// How bytes become a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// How many bytes.
    pub bytes: Value,
    /// Where, from the start or the previous match.
    pub offset: Value,
    /// From the end of the previous match.
    pub relative: bool,
    /// Least significant byte first.
    pub little: bool,
    /// Digits in text, to this base.
    pub text_base: Option<u32>,
    /// Bits that count, shifted down to the lowest of them.
    pub mask: Option<u32>,
}

/// How `byte_test` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `=`
    Equal,
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
    /// `&`: any bit in common
    And,
    /// `^`: any bit differs
    Xor,
}

/// How `byte_math` computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
}

/// Where `byte_jump` counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpFrom {
    /// Behind the number.
    Here,
    /// The buffer's start.
    Start,
    /// The buffer's end.
    End,
}

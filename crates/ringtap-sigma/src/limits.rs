//! Owns: the bounds of rules and of the state they may ask for, and why each is what it is.

/// Bytes of one rule file.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// Nesting of YAML, and of maps and lists inside a selection.
pub const MAX_DEPTH: usize = 16;
/// Words and brackets in one condition; what is nested deeper than [`MAX_CONDITION_DEPTH`] is refused.
pub const MAX_CONDITION_WORDS: usize = 512;
/// How often the conditions of one rule may name selections, patterns written out.
pub const MAX_CONDITION_TERMS: usize = 2048;
/// Brackets and negations inside each other.
pub const MAX_CONDITION_DEPTH: usize = 32;
/// Values one selection may list for one field.
pub const MAX_VALUES: usize = 10_000;
/// Bytes of one value.
pub const MAX_VALUE_BYTES: usize = 4096;
/// Regular expressions, wildcard patterns among them, of one rule.
pub const MAX_EXPRESSIONS: usize = 128;
/// Memory of one compiled expression, bytes: `a{1000}{1000}` is refused, and no search leaves linear time.
pub const MAX_EXPRESSION_BYTES: usize = 64 << 10;
/// Rules that one correlation names.
pub const MAX_INPUTS: usize = 32;
/// Steps of an ordered correlation: its state grows with their square.
pub const MAX_ORDERED: usize = 16;
/// Fields of `group-by`, and of `field` in a `value_count`.
pub const MAX_GROUP: usize = 8;
/// Correlations above each other.
pub const MAX_CHAIN: usize = 8;
/// Fields of its last event that a correlation hands to all those above it.
pub const MAX_SLOTS: usize = 64;
/// Rules of each of the two kinds in one automaton.
pub const MAX_RULES: usize = 4096;
/// Fields that the rules of one automaton look at.
pub const MAX_FIELDS: usize = 4096;
/// Bytes of one field's value in a key; an event with a longer one is not correlated, and said.
pub const MAX_KEY_BYTES: usize = 1024;
/// Bytes of a field's text that detections look at; what comes later is not searched.
pub const MAX_FIELD_BYTES: usize = 64 << 10;

/// Bounds that whoever runs the automaton chooses. They are part of it, and of its fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that the window of one key may take, as [`State::encode`](crate::State::encode) writes it; a rule that
    /// could need more is refused.
    pub window_bytes: u32,
    /// Events of one key that may wait for the watermark. When one more comes, the earliest is applied at once, and
    /// [`Output::Forced`](crate::Output::Forced) says so.
    pub waiting: u32,
    /// Members of one incident that are told one by one; later ones are counted.
    pub members: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { window_bytes: 256 << 10, waiting: 16_384, members: 1000 }
    }
}

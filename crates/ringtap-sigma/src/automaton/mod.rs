//! Owns: the automaton: what rules mean once all names are resolved, with nothing left to look up while it runs.
//! Does not: read rules (that is [`crate::RuleSet`]'s) nor run (that is [`crate::Matcher`]'s and [`crate::State`]'s).

pub(crate) mod codec;
mod query;
mod sound;
mod version;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

pub use codec::FORMAT;
pub use query::Scope;
pub(crate) use version::{Hash, version};

use crate::limits::Limits;
use crate::rules::Head;

/// All usable rules of a rule set.
///
/// [`encode`](Self::encode) writes it as bytes that are the same wherever the same rules were compiled, and
/// [`decode`](Self::decode) reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Automaton {
    pub(crate) limits: Limits,
    pub(crate) fields: Vec<String>,
    pub(crate) logsources: Vec<Logsource>,
    pub(crate) detections: Vec<Detection>,
    /// Each after the rules it rests on.
    pub(crate) rules: Vec<Rule>,
}

/// Which logs a detection is about; an empty part is any.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Logsource {
    /// Such as `ids`.
    pub category: String,
    /// Such as `suricata`.
    pub product: String,
    /// Such as `alert`.
    pub service: String,
}

/// A detection: whether one event matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detection {
    /// What the rule says of itself.
    pub head: Head,
    /// Whether a match is told by itself: no correlation uses it, or one that does has `generate: true`.
    pub announces: bool,
    /// Its version.
    pub version: Version,
    pub(crate) logsource: u16,
    pub(crate) selections: Vec<Expression<Test>>,
    pub(crate) condition: Expression<Test>,
    pub(crate) feeds: Vec<Feed>,
}

/// Hash of all that a rule means; a rule that means the same has the same one in every automaton.
pub type Version = [u8; 16];

/// And, or, not; over tests of one field each, or over selections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression<T> {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    /// A selection by its number; never inside a selection.
    Selection(u16),
    Test(T),
}

/// A test of one field, or of the whole message where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) field: Option<u16>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Exists,
    /// Missing or null.
    Null,
    /// Any of the values; they are lower case unless `cased`.
    Text {
        how: How,
        cased: bool,
        values: Vec<String>,
    },
    Number {
        how: Compare,
        value: i64,
    },
    Expression(Regex),
    Network {
        version6: bool,
        address: [u8; 16],
        prefix: u8,
    },
    /// The text of another field.
    Field {
        how: How,
        cased: bool,
        other: u16,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Regex {
    pub(crate) pattern: String,
    pub(crate) insensitive: bool,
    pub(crate) multi_line: bool,
    pub(crate) dot_all: bool,
    /// Over the lower-case text.
    pub(crate) folded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    Equals,
    StartsWith,
    EndsWith,
    Contains,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Where matches, or hits, of a rule go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Feed {
    /// Number of the rule.
    pub(crate) rule: u16,
    /// Which of its inputs.
    pub(crate) input: u8,
}

/// A correlation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its number: its place in [`Automaton::rules`].
    pub number: u16,
    /// What the rule says of itself.
    pub head: Head,
    /// Its version; part of each incident's id.
    pub version: Version,
    /// Whether its incidents are told by themselves: no correlation uses it, or one that does has `generate: true`.
    pub announces: bool,
    /// How many correlations lie beneath it, at most; one with 0 rests on detections alone.
    pub level: u8,
    /// Greatest distance between the first and the last event of a match, ns, inclusive.
    pub timespan_ns: i64,
    /// How far back an event can matter to it, chains included, ns: what has to be read again to rebuild its state.
    pub reach_ns: i64,
    /// Whether further events can only add to a match, so that one may be told before the watermark has come.
    pub monotone: bool,
    /// Fields of the key, as the rule names them.
    pub group_by: Vec<String>,
    pub(crate) shape: Shape,
    pub(crate) places: u8,
    pub(crate) inputs: Vec<Input>,
    /// What rules above need to know of the last event.
    pub(crate) slots: Vec<String>,
    pub(crate) feeds: Vec<Feed>,
    pub(crate) limits: Limits,
}

/// What has to come together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As many events.
    Count(Range),
    /// As many distinct values.
    Values(Range),
    /// Steps in any order.
    Together(Formula),
    /// Steps one after the other.
    Ordered,
}

/// How many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// At least 1.
    pub(crate) least: u32,
    pub(crate) most: Option<u32>,
}

impl Range {
    /// How many of the newest have to be known.
    pub(crate) fn keep(self) -> u32 {
        self.most.map_or(self.least, |most| most.saturating_add(1))
    }

    pub(crate) fn holds(self, count: u32) -> bool {
        count >= self.least && self.most.is_none_or(|most| count <= most)
    }
}

/// Which steps must be there. There is no negation: a further event never makes it false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Formula {
    All(Vec<Self>),
    Any(Vec<Self>),
    Place(u8),
    /// So many different steps.
    AtLeast(u8),
}

impl Formula {
    /// Whether it holds when just these steps are there.
    pub(crate) fn holds(&self, places: u32) -> bool {
        match self {
            Self::All(list) => list.iter().all(|item| item.holds(places)),
            Self::Any(list) => list.iter().any(|item| item.holds(places)),
            Self::Place(place) => places >> place & 1 == 1,
            Self::AtLeast(least) => places.count_ones() >= u32::from(*least),
        }
    }
}

/// One of the rules that a correlation names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) base: Base,
    /// Which step it fills.
    pub(crate) place: u8,
    /// Where the key's parts come from: fields where the base is a detection, else slots of the base.
    pub(crate) key: Vec<u16>,
    pub(crate) value: Vec<u16>,
    pub(crate) slots: Vec<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Base {
    Detection(u16),
    Rule(u16),
}

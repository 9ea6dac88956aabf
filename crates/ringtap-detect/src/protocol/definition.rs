//! Owns: what a protocol's folder says of its protocol, and the types that its readers meet.
//! Does not: have any protocol in it.

use super::Found;
use super::dialog::Talk;
use crate::decode::Decoded;
use crate::rules::rule::{Content, Test};

/// What the detector knows of a protocol.
pub(crate) struct Definition {
    /// The name in records: EVE's `app_proto`.
    pub(crate) name: &'static str,
    /// The names by which a rule's header asks for it; none where a rule may only use its keywords.
    pub(crate) rule_names: &'static [&'static str],
    /// The keywords of its buffers.
    pub(crate) keywords: &'static [Keyword],
    /// How it is recognised.
    pub(crate) recognition: Recognition,
    /// What reads a TCP stream; `None` if it is not spoken over TCP.
    pub(crate) stream: Option<Reader>,
    /// Reads a UDP datagram, of the client or not; `None` if it is not spoken over UDP. Needs ports to be recognised by.
    pub(crate) datagram: Option<fn(&[u8], bool, &mut Found<'_>)>,
    /// The number of the buffer that has the names of what is odd, for `app-layer-event`.
    pub(crate) events: Option<u8>,
}

/// What reads a TCP stream.
#[derive(Clone, Copy)]
pub(crate) enum Reader {
    /// This, of one side, whenever there are new bytes: all it keeps is a position.
    Values(fn(&mut Side<'_>, &mut Found<'_>) -> Progress),
    /// What keeps handshakes until they are read.
    Handshake,
    /// What keeps messages until they are whole, and reads them one by one (`detector/messages.rs`).
    Messages(&'static Talk),
    /// What keeps requests and their responses (`detector/transactions.rs`).
    Transactions,
}

/// How much of a message must be there before a buffer has its value. Rules are looked at when all their buffers may have theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The first line; or all that there is, where a protocol has no transactions.
    Start,
    /// All fields.
    Head,
    /// Some of the content.
    Body,
}

impl Stage {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::Body as usize + 1;
}

impl Definition {
    /// Fails to compile where the definition contradicts itself.
    pub(crate) const fn check(&self) {
        assert!(self.datagram.is_none() || !self.recognition.ports().is_empty(), "datagrams are known by their ports");
        let mut at = 0;
        while at < self.keywords.len() {
            let keyword = &self.keywords[at];
            assert!(keyword.number as usize == at, "keywords stand in the order of their numbers");
            let other = &self.keywords[keyword.sought_with as usize];
            assert!(
                other.sought_with == other.number,
                "one buffer has the patterns of all that are looked for with it"
            );
            assert!(other.stage as u8 == keyword.stage as u8, "they have their values at the same stage");
            at += 1;
        }
    }
}

/// How a protocol is recognised.
#[derive(Clone, Copy)]
pub(crate) enum Recognition {
    /// One side is on one of these ports, and the first bytes of a stream fit. Asked again while there are few.
    Ports(&'static [u16], fn(&[u8]) -> bool),
    /// By the first bytes of a side that are there; the ports may say no. Asked again while there are few.
    FirstBytes(fn(&[u8], (u16, u16)) -> bool),
}

impl Recognition {
    pub(crate) const fn ports(&self) -> &'static [u16] {
        match self {
            Self::Ports(ports, _) => ports,
            Self::FirstBytes(_) => &[],
        }
    }

    pub(crate) fn fits(&self, bytes: &[u8], ports: (u16, u16)) -> bool {
        match self {
            Self::Ports(list, fits) => list.iter().any(|&port| port == ports.0 || port == ports.1) && fits(bytes),
            Self::FirstBytes(fits) => fits(bytes, ports),
        }
    }
}

/// A keyword of the rule language, and the buffer it looks at.
pub(crate) struct Keyword {
    /// The buffer's number in its protocol, from 0, as [`Found::add`] takes it.
    pub(crate) number: u8,
    /// The keyword, and older forms of it.
    pub(crate) names: &'static [&'static str],
    /// What it asks.
    pub(crate) matching: Match,
    /// When it has a value.
    pub(crate) stage: Stage,
    /// Keywords that stand behind a content and say that it is in this buffer.
    pub(crate) behind_content: &'static [&'static str],
    /// The flag of an expression that says so.
    pub(crate) flag: Option<char>,
    /// Other keywords, and the tests of this buffer's values that are made of what is behind them.
    pub(crate) also: &'static [(&'static str, ToTests)],
    /// The number of the buffer with whose patterns its own are looked for, its own unless said: values that are the same bytes are
    /// walked once.
    pub(crate) sought_with: u8,
}

/// Makes tests of what is behind a keyword.
pub(crate) type ToTests = fn(&str) -> Result<Vec<Test>, String>;

/// What a keyword asks of its buffer's values: one of them must fit.
#[derive(Clone, Copy)]
pub(crate) enum Match {
    /// The tests that follow the keyword in its rule (`content`, `pcre` …): a sticky buffer.
    Tests,
    /// These, made of what is behind the keyword; tests that follow look elsewhere. An error says what is wrong with it, or nothing
    /// where it is not supported.
    Value(ToTests),
    /// This, of a value and the packet it came with; tests that follow the keyword look elsewhere.
    Condition(fn(&[u8], &Decoded<'_>) -> bool),
}

impl Keyword {
    /// A sticky buffer.
    pub(crate) const fn buffer(number: u8, names: &'static [&'static str]) -> Self {
        let matching = Match::Tests;
        Self {
            number,
            names,
            matching,
            stage: Stage::Start,
            behind_content: &[],
            flag: None,
            also: &[],
            sought_with: number,
        }
    }

    /// The same, of a value that is there from this stage on.
    pub(crate) const fn from(self, stage: Stage) -> Self {
        Self { stage, ..self }
    }

    /// The same, with older forms that stand behind the content, and an expression's flag.
    pub(crate) const fn after_content(self, keywords: &'static [&'static str], flag: Option<char>) -> Self {
        Self { behind_content: keywords, flag, ..self }
    }

    /// The same, with keywords that make tests of it.
    pub(crate) const fn also_value(self, also: &'static [(&'static str, ToTests)]) -> Self {
        Self { also, ..self }
    }

    /// The same, its patterns looked for with those of another buffer of the same stage.
    pub(crate) const fn sought_with(self, other: u8) -> Self {
        Self { sought_with: other, ..self }
    }

    /// Tests that are made of what is behind the keyword.
    pub(crate) const fn value(number: u8, names: &'static [&'static str], tests: ToTests) -> Self {
        Self { matching: Match::Value(tests), ..Self::buffer(number, names) }
    }

    /// A condition of its own.
    pub(crate) const fn condition(
        number: u8,
        names: &'static [&'static str],
        holds: fn(&[u8], &Decoded<'_>) -> bool,
    ) -> Self {
        Self { matching: Match::Condition(holds), ..Self::buffer(number, names) }
    }
}

/// Whether a side of a stream has more to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Perhaps, with the bytes that follow.
    More,
    /// No: the reader is not called for it again.
    Done,
}

/// One side of a TCP stream, as far as its bytes are there: the last ones seen before, and the new ones.
pub(crate) struct Side<'a> {
    pub(crate) bytes: &'a [u8],
    /// Position in the stream of the first of them.
    pub(crate) base: u64,
    /// Position of what the reader wants next.
    pub(crate) next: &'a mut u64,
}

impl<'a> Side<'a> {
    /// What is there from [`Side::skip`]'s position on; `None` if bytes from there are gone already.
    pub(crate) fn unread(&self) -> Option<&'a [u8]> {
        let from = self.next.checked_sub(self.base)?;
        Some(self.bytes.get(from as usize..).unwrap_or_default())
    }

    /// Goes on so many bytes further.
    pub(crate) fn skip(&mut self, bytes: usize) {
        *self.next += bytes as u64;
    }
}

/// `filename`: a part of the name.
pub(crate) fn file_name(value: &str) -> Result<Vec<Test>, String> {
    name_test(value, "", false)
}

/// `fileext`: what is behind the name's last dot.
pub(crate) fn file_extension(value: &str) -> Result<Vec<Test>, String> {
    name_test(value, ".", true)
}

fn name_test(value: &str, before: &str, at_end: bool) -> Result<Vec<Test>, String> {
    let (negated, value) = match value.trim().strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, value.trim()),
    };
    let text = value.trim_matches('"');
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    let bytes = format!("{before}{text}").into_bytes();
    Ok(vec![Test::Content(Content { nocase: true, negated, at_end, ..Content::of(bytes) })])
}

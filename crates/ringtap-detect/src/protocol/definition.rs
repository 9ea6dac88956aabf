//! Owns: what a protocol's folder says of its protocol, and the types that its readers meet.
//! Does not: have any protocol in it.

use super::Found;
use crate::decode::Decoded;

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
    /// Reads one side of a TCP stream, whenever there are new bytes; `None` if it is not spoken over TCP.
    pub(crate) stream: Option<fn(&mut Side<'_>, &mut Found<'_>) -> Progress>,
    /// Reads a UDP datagram; `None` if it is not spoken over UDP. Needs ports to be recognised by.
    pub(crate) datagram: Option<fn(&[u8], &mut Found<'_>)>,
}

impl Definition {
    /// Fails to compile where the definition contradicts itself.
    pub(crate) const fn check(&self) {
        assert!(self.datagram.is_none() || !self.recognition.ports().is_empty(), "datagrams are known by their ports");
        let mut at = 0;
        while at < self.keywords.len() {
            assert!(self.keywords[at].number as usize == at, "keywords stand in the order of their numbers");
            at += 1;
        }
    }
}

/// How a protocol is recognised.
#[derive(Clone, Copy)]
pub(crate) enum Recognition {
    /// One side is on one of these ports.
    Ports(&'static [u16]),
    /// By the first bytes of a side that are there; the ports may say no. Asked again until four bytes are there.
    FirstBytes(fn(&[u8], (u16, u16)) -> bool),
}

impl Recognition {
    pub(crate) const fn ports(&self) -> &'static [u16] {
        match self {
            Self::Ports(ports) => ports,
            Self::FirstBytes(_) => &[],
        }
    }

    pub(crate) fn fits(&self, bytes: &[u8], ports: (u16, u16)) -> bool {
        match self {
            Self::Ports(list) => list.iter().any(|&port| port == ports.0 || port == ports.1),
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
}

/// What a keyword asks of its buffer's values: one of them must fit.
#[derive(Clone, Copy)]
pub(crate) enum Match {
    /// The tests that follow the keyword in its rule (`content`, `pcre` …): a sticky buffer.
    Tests,
    /// This, of a value and the packet it came with; tests that follow the keyword look elsewhere.
    Condition(fn(&[u8], &Decoded<'_>) -> bool),
}

impl Keyword {
    /// A sticky buffer.
    pub(crate) const fn buffer(number: u8, names: &'static [&'static str]) -> Self {
        Self { number, names, matching: Match::Tests }
    }

    /// A condition of its own.
    pub(crate) const fn condition(
        number: u8,
        names: &'static [&'static str],
        holds: fn(&[u8], &Decoded<'_>) -> bool,
    ) -> Self {
        Self { number, names, matching: Match::Condition(holds) }
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
    pub(crate) from_client: bool,
    /// Position of what the reader wants next.
    pub(crate) next: &'a mut u64,
}

impl<'a> Side<'a> {
    /// The bytes are there from the stream's beginning on.
    pub(crate) fn is_from_start(&self) -> bool {
        self.base == 0
    }

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

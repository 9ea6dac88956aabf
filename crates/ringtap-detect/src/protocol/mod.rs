//! Application protocols: a folder each, and the table of them.
//!
//! **Owns:** the table, recognising a protocol by it, and finding a rule's protocol or keyword in it.
//! **Does not:** follow streams or match rules. Nothing outside a protocol's folder knows that protocol by name.
//!
//! # What a folder has
//!
//! | file | owns |
//! |---|---|
//! | `parser.rs` | bytes into values: pure, bounded, public, so that it can be tested and fuzzed alone |
//! | `keywords.rs` | the protocol's names in rules, its keywords, and which of them are buffers |
//! | `mod.rs` | the definition: the name in records, how the protocol is recognised, which of the parser's values goes to which buffer |
//!
//! A protocol that says more in records than its name gets a `record.rs` beside them; none does yet.
//!
//! # Adding one
//!
//! 1. Write the folder. `mod.rs` ends with `pub(super) const DEFINITION: Definition`.
//! 2. In this file: a line `pub mod NAME;` and a line `&NAME::DEFINITION` in the table. If the name is in `NOT_PARSED`, take it out.
//!
//! That is all: rules may then name the protocol and its keywords, they are put in the classes of TCP or UDP as the definition has
//! readers for them, the detector feeds those readers, and flow and alert records carry the name. A reader keeps one number for
//! each side of a flow, the position of what it reads next (`Side::skip`); a protocol that must remember more needs a place in the
//! flow table first.

mod definition;
pub mod dns;
pub mod ftp;
pub mod ssh;
pub mod tls;
mod values;

use std::num::NonZeroU8;

pub(crate) use definition::{Definition, Keyword, Match, Progress, Recognition, Side};
pub(crate) use values::{Found, Values};

/// All protocols. Of those that would recognise the same bytes the first one gets them.
const TABLE: &[&Definition] = &[
    &dns::DEFINITION, // by its port, so before those that look at bytes
    &tls::DEFINITION,
    &ssh::DEFINITION,
    &ftp::DEFINITION,
];

/// Protocols that the rule language has and we don't: rules for them are unsupported, not broken. Names in [`TABLE`] go first.
pub(crate) const NOT_PARSED: &[&str] = &[
    "http",
    "http1",
    "http2",
    "ftp",
    "ftp-data",
    "smtp",
    "smb",
    "dcerpc",
    "dhcp",
    "dnp3",
    "enip",
    "ike",
    "imap",
    "krb5",
    "modbus",
    "mqtt",
    "nfs",
    "ntp",
    "pgsql",
    "pop3",
    "quic",
    "rdp",
    "rfb",
    "sip",
    "snmp",
    "telnet",
    "tftp",
    "bittorrent-dht",
];

/// The words that the protocols add to the rule language: the names that a rule's header may have, and keywords.
pub fn rule_words() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|definition| {
        let keywords = definition.keywords.iter().flat_map(|keyword| keyword.names);
        definition.rule_names.iter().chain(keywords).copied()
    })
}

/// An application protocol of the table.
// The place in the table, from 1, so that a flow has no byte more for "not known".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct App(NonZeroU8);

/// A buffer of an application protocol: what one of its keywords looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppBuffer {
    app: App,
    number: u8,
}

impl App {
    const fn at(place: usize) -> Self {
        match NonZeroU8::new(place as u8 + 1) {
            Some(number) => Self(number),
            None => panic!("more protocols than can be numbered"),
        }
    }

    const fn place(self) -> usize {
        self.0.get() as usize - 1
    }

    fn definition(self) -> &'static Definition {
        TABLE[self.place()]
    }

    /// The protocol that a rule names.
    pub(crate) fn find(rule_name: &str) -> Option<Self> {
        TABLE.iter().position(|definition| definition.rule_names.contains(&rule_name)).map(Self::at)
    }

    /// The protocol whose first bytes these are, of one side of a TCP stream; `None` for none in the table.
    pub(crate) fn of_stream(bytes: &[u8], ports: (u16, u16)) -> Option<Self> {
        let fits = |definition: &&Definition| definition.stream.is_some() && definition.recognition.fits(bytes, ports);
        TABLE.iter().position(fits).map(Self::at)
    }

    /// The protocol of a UDP datagram, by its ports.
    #[inline]
    pub(crate) fn of_datagram(ports: (u16, u16)) -> Option<Self> {
        DATAGRAM_PORTS.iter().find(|(port, _)| *port == ports.0 || *port == ports.1).map(|&(_, app)| app)
    }

    /// The name in records: EVE's `app_proto`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    /// Whether it is spoken over TCP.
    pub(crate) fn is_over_tcp(self) -> bool {
        self.definition().stream.is_some()
    }

    /// Whether it is spoken over UDP.
    pub(crate) fn is_over_udp(self) -> bool {
        self.definition().datagram.is_some()
    }

    /// The ports by which it is recognised; none where its bytes tell.
    pub(crate) fn ports(self) -> &'static [u16] {
        self.definition().recognition.ports()
    }

    /// Reads what is there of one side of a stream.
    pub(crate) fn read_stream(self, side: &mut Side<'_>, values: &mut Values) -> Progress {
        match self.definition().stream {
            Some(read) => read(side, &mut Found::new(self, values)),
            None => Progress::Done,
        }
    }

    /// Reads a datagram.
    #[inline]
    pub(crate) fn read_datagram(self, payload: &[u8], values: &mut Values) {
        if let Some(read) = self.definition().datagram {
            read(payload, &mut Found::new(self, values));
        }
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl AppBuffer {
    /// How many there are of all protocols.
    pub(crate) const COUNT: usize = first_buffer(TABLE.len());

    /// Its place among those of all protocols.
    #[inline]
    pub(crate) fn index(self) -> usize {
        FIRST_BUFFERS[self.app.place()] + usize::from(self.number)
    }

    /// The buffer of a keyword in rules.
    pub(crate) fn find(keyword: &str) -> Option<Self> {
        TABLE.iter().enumerate().find_map(|(place, definition)| {
            let found = definition.keywords.iter().find(|of| of.names.contains(&keyword))?;
            Some(Self { app: App::at(place), number: found.number })
        })
    }

    /// The protocol it belongs to.
    #[must_use]
    pub fn app(self) -> App {
        self.app
    }

    /// What the keyword asks of the buffer's values.
    #[inline]
    pub(crate) fn matching(self) -> Match {
        self.app.definition().keywords[usize::from(self.number)].matching
    }
}

/// Buffers of the protocols before this place of the table.
const fn first_buffer(place: usize) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < place {
        count += TABLE[at].keywords.len();
        at += 1;
    }
    count
}

/// The first buffer of each protocol.
const FIRST_BUFFERS: [usize; TABLE.len()] = {
    let (mut list, mut at) = ([0; TABLE.len()], 0);
    while at < TABLE.len() {
        list[at] = first_buffer(at);
        at += 1;
    }
    list
};

/// How many ports make a datagram one of these protocols.
const DATAGRAM_PORT_COUNT: usize = {
    let (mut count, mut at) = (0, 0);
    while at < TABLE.len() {
        if TABLE[at].datagram.is_some() {
            count += TABLE[at].recognition.ports().len();
        }
        at += 1;
    }
    count
};

/// Those ports, put together when this is compiled: each datagram is held against them.
const DATAGRAM_PORTS: [(u16, App); DATAGRAM_PORT_COUNT] = {
    let mut list = [(0, App::at(0)); DATAGRAM_PORT_COUNT];
    let (mut count, mut at) = (0, 0);
    while at < TABLE.len() {
        let (ports, mut port) = (TABLE[at].recognition.ports(), 0);
        while port < ports.len() && TABLE[at].datagram.is_some() {
            list[count] = (ports[port], App::at(at));
            count += 1;
            port += 1;
        }
        at += 1;
    }
    list
};

/// Holds each definition against what the functions above take for granted.
const _: () = {
    let mut at = 0;
    while at < TABLE.len() {
        TABLE[at].check();
        at += 1;
    }
};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_name_means_one_thing() {
        let (mut names, mut keywords) = (HashSet::new(), HashSet::new());
        for (place, definition) in TABLE.iter().enumerate() {
            let app = App::at(place);
            assert_eq!((app.name(), app.place()), (definition.name, place));
            for name in definition.rule_names {
                assert!(names.insert(name), "{name}");
                assert_eq!(App::find(name), Some(app));
            }
            for keyword in definition.keywords.iter().flat_map(|keyword| keyword.names) {
                assert!(keywords.insert(keyword), "{keyword}");
                assert_eq!(AppBuffer::find(keyword).map(AppBuffer::app), Some(app));
            }
        }
        assert_eq!((App::find("nobody"), AppBuffer::find("nobody.says")), (None, None));
    }

    #[test]
    fn buffers_are_numbered_without_a_gap() {
        let keywords = TABLE.iter().flat_map(|definition| definition.keywords);
        let indexes: Vec<usize> =
            keywords.filter_map(|keyword| AppBuffer::find(keyword.names[0])).map(AppBuffer::index).collect();
        assert_eq!(indexes, (0..AppBuffer::COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn first_bytes_and_ports_tell() {
        let of = |bytes: &[u8], ports| App::of_stream(bytes, ports).map(App::name);
        assert_eq!(of(b"SSH-2.0", (5, 22)), Some("ssh"));
        assert_eq!(of(b"user x", (5, 21)), Some("ftp"));
        assert_eq!(of(b"user x", (5, 110)), None, "POP3 has the same word");
        assert_eq!(of(&[22, 3, 1, 0], (5, 443)), Some("tls"));
        assert_eq!(of(&[22, 3, 1, 0], (5, 53)), Some("dns"), "by its port");
        assert_eq!(of(b"GET / HTTP/1.1", (5, 80)), None);
        let of = |ports| App::of_datagram(ports).map(App::name);
        assert_eq!((of((53, 9)), of((9, 53)), of((9, 22))), (Some("dns"), Some("dns"), None));
    }
}

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

pub mod dcerpc;
mod definition;
pub(crate) mod dialog;
pub mod dns;
pub mod ftp;
pub mod http;
pub mod ike;
pub mod mqtt;
pub mod rfb;
pub mod sip;
mod smb;
pub mod smtp;
pub mod snmp;
pub mod ssh;
pub mod tls;
mod values;

use std::num::NonZeroU8;

pub(crate) use definition::{Definition, Keyword, Match, Progress, Reader, Recognition, Side, Stage};
pub(crate) use definition::{file_extension, file_name};
pub(crate) use values::{Expected, Found, Mark, Place, Value, Values};

/// All protocols. Of those that would recognise the same bytes the first one gets them.
const TABLE: &[&Definition] = &[
    &tls::DEFINITION,
    &ssh::DEFINITION,
    &dns::DEFINITION, // only on its port, and by less distinct bytes than those above
    &http::DEFINITION,
    &ftp::DEFINITION,
    &ftp::DATA,
    &smtp::DEFINITION,
    &smb::DEFINITION,
    &mqtt::DEFINITION,
    &dcerpc::DEFINITION,
    &rfb::DEFINITION,
    &sip::DEFINITION,
    &snmp::DEFINITION,
    &ike::DEFINITION,
];

/// Protocols that the rule language has and we don't: rules for them are unsupported, not broken. Names in [`TABLE`] go first.
pub(crate) const NOT_PARSED: &[&str] = &[
    "http2",
    "dhcp",
    "dnp3",
    "enip",
    "imap",
    "krb5",
    "modbus",
    "nfs",
    "ntp",
    "pgsql",
    "pop3",
    "quic",
    "rdp",
    "telnet",
    "tftp",
    "bittorrent-dht",
];

/// The words that the protocols add to the rule language: the names that a rule's header may have, and keywords.
pub fn rule_words() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|definition| {
        let keywords =
            definition.keywords.iter().flat_map(|keyword| keyword.names.iter().chain(keyword.behind_content));
        let also = definition.keywords.iter().flat_map(|keyword| keyword.also).map(|(name, _)| name);
        let keywords = keywords.chain(also);
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

    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..TABLE.len()).map(Self::at)
    }

    /// The protocol whose first bytes these are, of one side of a TCP stream; `None` for none in the table.
    pub(crate) fn of_stream(bytes: &[u8], ports: (u16, u16)) -> Option<Self> {
        let fits = |definition: &&Definition| definition.stream.is_some() && definition.recognition.fits(bytes, ports);
        TABLE.iter().position(fits).map(Self::at)
    }

    /// The protocol of a UDP datagram, by its ports; where both are of protocols, by what it says.
    #[inline]
    pub(crate) fn of_datagram(ports: (u16, u16), payload: &[u8]) -> Option<Self> {
        let of = |port: u16| DATAGRAM_PORTS.iter().find(|(known, _)| *known == port).map(|&(_, app)| app);
        match (of(ports.0), of(ports.1)) {
            (Some(from), Some(to)) if from != to => {
                let fits = |app: &Self| app.definition().recognition.fits(payload, ports);
                Some([to, from].into_iter().find(fits).unwrap_or(to))
            }
            (from, to) => to.or(from),
        }
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
            Some(Reader::Values(read)) => read(side, &mut Found::new(self, values)),
            Some(Reader::Handshake | Reader::Transactions | Reader::Messages(_)) => Progress::More,
            None => Progress::Done,
        }
    }

    /// Whether it begins with a handshake, which is read apart.
    #[inline]
    pub(crate) fn has_handshake(self) -> bool {
        matches!(self.definition().stream, Some(Reader::Handshake))
    }

    /// How its messages are read, if it has such that are read apart.
    #[inline]
    pub(crate) fn talk(self) -> Option<&'static dialog::Talk> {
        match self.definition().stream {
            Some(Reader::Messages(talk)) => Some(talk),
            _ => None,
        }
    }

    /// Whether its connections are known by what others announce, not by their bytes.
    pub(crate) fn is_announced(self) -> bool {
        self.talk().is_some_and(|talk| talk.announce.is_some())
    }

    /// Whether it has transactions, which are read apart.
    #[inline]
    pub(crate) fn has_transactions(self) -> bool {
        matches!(self.definition().stream, Some(Reader::Transactions))
    }

    /// The protocol of a definition in the table.
    fn of_definition(definition: &Definition) -> Self {
        Self::at(TABLE.iter().position(|of| of.name == definition.name).unwrap_or(0))
    }

    /// The buffer of the names of what is odd in its messages.
    pub(crate) fn events(self) -> Option<AppBuffer> {
        self.definition().events.map(|number| AppBuffer { app: self, number })
    }

    /// Reads a datagram.
    #[inline]
    pub(crate) fn read_datagram(self, payload: &[u8], from_client: bool, values: &mut Values) {
        if let Some(read) = self.definition().datagram {
            read(payload, from_client, &mut Found::new(self, values));
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

    /// The buffer of a keyword of this protocol.
    pub(crate) fn find_of(app: App, keyword: &str) -> Option<Self> {
        let found = app.definition().keywords.iter().find(|of| of.names.contains(&keyword))?;
        Some(Self { app, number: found.number })
    }

    /// The buffer of which another keyword makes tests, and how; the rule's own protocol has the first say.
    pub(crate) fn find_also(app: Option<App>, keyword: &str) -> Option<(Self, definition::ToTests)> {
        App::all().filter(|of| app.is_none_or(|app| app == *of)).find_map(|app| {
            app.definition().keywords.iter().find_map(|of| {
                let (_, tests) = of.also.iter().find(|(name, _)| *name == keyword)?;
                Some((Self { app, number: of.number }, *tests))
            })
        })
    }

    /// Whether its values are names of files.
    pub(crate) fn is_file_name(self) -> bool {
        self.keyword().names.contains(&"file.name")
    }

    /// Whether its values are what is done with a file.
    pub(crate) fn is_file_command(self) -> bool {
        self.keyword().names.contains(&"ftpdata_command")
    }

    /// Whether they are that, or what is in files.
    pub(crate) fn is_of_file(self) -> bool {
        self.is_file_name() || self.keyword().names.contains(&"file.data")
    }

    fn keyword(self) -> &'static Keyword {
        &self.app.definition().keywords[usize::from(self.number)]
    }

    /// The buffer of a keyword in rules.
    pub(crate) fn find(keyword: &str) -> Option<Self> {
        Self::first(|of| of.names.contains(&keyword))
    }

    /// The buffer that a keyword behind a content moves it to.
    pub(crate) fn behind_content(keyword: &str) -> Option<Self> {
        Self::first(|of| of.behind_content.contains(&keyword))
    }

    /// The buffer that an expression's flag names.
    pub(crate) fn of_flag(flag: char) -> Option<Self> {
        Self::first(|of| of.flag == Some(flag))
    }

    fn first(fits: impl Fn(&Keyword) -> bool) -> Option<Self> {
        TABLE.iter().enumerate().find_map(|(place, definition)| {
            let found = definition.keywords.iter().find(|of| fits(of))?;
            Some(Self { app: App::at(place), number: found.number })
        })
    }

    /// The buffer of the same name of another protocol.
    pub(crate) fn twin(self, app: App) -> Option<Self> {
        if app == self.app {
            return Some(self);
        }
        Self::find_of(app, self.keyword().names.first()?)
    }

    /// The buffer that has its patterns, with those of others whose values are often the same bytes.
    #[inline]
    pub(crate) fn sought_with(self) -> Self {
        Self { number: self.keyword().sought_with, ..self }
    }

    /// When it has a value.
    pub(crate) fn stage(self) -> Stage {
        self.keyword().stage
    }

    /// The protocol it belongs to.
    #[must_use]
    pub fn app(self) -> App {
        self.app
    }

    /// What the keyword asks of the buffer's values.
    #[inline]
    pub(crate) fn matching(self) -> Match {
        self.keyword().matching
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
                assert!(keywords.insert((place, keyword)), "{keyword}");
                assert_eq!(AppBuffer::find_of(app, keyword).map(AppBuffer::app), Some(app));
                // The first of several that share it has it where a rule names no protocol.
                assert!(AppBuffer::find(keyword).is_some_and(|buffer| buffer.app() <= app));
            }
        }
        assert_eq!((App::find("nobody"), AppBuffer::find("nobody.says")), (None, None));
    }

    #[test]
    fn buffers_are_numbered_without_a_gap() {
        let all = TABLE.iter().enumerate().flat_map(|(place, definition)| {
            definition.keywords.iter().map(move |keyword| AppBuffer { app: App::at(place), number: keyword.number })
        });
        let indexes: Vec<usize> = all.map(AppBuffer::index).collect();
        assert_eq!(indexes, (0..AppBuffer::COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn first_bytes_and_ports_tell() {
        let of = |bytes: &[u8], ports| App::of_stream(bytes, ports).map(App::name);
        assert_eq!(of(b"SSH-2.0", (5, 22)), Some("ssh"));
        assert_eq!(of(b"user x", (5, 21)), Some("ftp"));
        assert_eq!(of(b"user x", (5, 110)), None, "POP3 has the same word");
        assert_eq!(of(&[22, 3, 1, 0], (5, 443)), Some("tls"));
        assert_eq!(of(&[22, 3, 1, 0], (5, 53)), Some("tls"), "whatever its port");
        let query = b"\0\x1e\0\x01\x01\0\0\x01\0\0\0\0\0\0";
        assert_eq!((of(query, (53, 9)), of(query, (5, 9)), of(&query[..13], (53, 9))), (Some("dns"), None, None));
        assert_eq!((of(b"GET", (5, 80)), of(b"GET / HTTP/1.1", (5, 81))), (None, Some("http")));
        let of = |ports, bytes: &[u8]| App::of_datagram(ports, bytes).map(App::name);
        assert_eq!((of((53, 9), b""), of((9, 53), b""), of((9, 22), b"")), (Some("dns"), Some("dns"), None));
        // The port that it comes from is the sender's choice.
        let invite = b"INVITE sip:a@b SIP/2.0\r\n";
        assert_eq!((of((53, 5060), invite), of((5060, 53), invite)), (Some("sip"), Some("sip")));
        assert_eq!((of((53, 5060), b"x"), of((5060, 53), b"x")), (Some("sip"), Some("dns")));
    }
}

//! Owns: one rule from its text: the header, and each option into its place in [`Rule`].
//! Does not: read files (see `mod.rs`) or decide how a rule is matched.

use std::sync::Arc;

use super::Context;
use super::lines::{self, unquote};
use super::network::MAX_PORT;
use super::numbers::{Names, compare, number};
use super::ranges::Ranges;
use super::rule::*;
use super::state;
use crate::event::Event;

/// Why a rule is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It uses an option, a protocol or a form of an option that is not supported.
    Unsupported {
        /// The option's name, or `protocol NAME`.
        option: String,
        /// What of it, where not the whole option.
        detail: String,
    },
    /// It can't be read or makes no sense.
    Broken {
        /// The option's name, or empty for the rule as a whole.
        option: String,
        /// What is wrong.
        detail: String,
    },
}

/// Tests one rule may have in all.
const MAX_TESTS: usize = 256;

pub(super) struct Builder<'c, 'v> {
    pub(super) rule: Rule,
    pub(super) context: &'c mut Context<'v>,
    names: Names,
    buffer: Buffer,
    priority_given: bool,
}

/// Parses one rule.
pub(super) fn rule(text: &str, line: u32, file: &Arc<str>, context: &mut Context<'_>) -> (u32, Result<Rule, Reason>) {
    let broken = |detail| Reason::Broken { option: String::new(), detail };
    let parts = match lines::split(text) {
        Ok(parts) => parts,
        Err(detail) => return (0, Err(broken(detail))),
    };
    let options = match lines::options(parts.options) {
        Ok(options) => options,
        Err(detail) => return (0, Err(broken(detail))),
    };
    let sid =
        options.iter().rev().find(|(name, _)| *name == "sid").and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let meta = Meta {
        file: Arc::clone(file),
        line,
        sid,
        gid: 1,
        rev: 0,
        message: String::new(),
        class: String::new(),
        priority: 3,
        references: Vec::new(),
        metadata: Vec::new(),
    };
    (sid, build(&parts, &options, meta, context))
}

fn build(
    parts: &lines::Parts<'_>,
    options: &[(&str, &str)],
    meta: Meta,
    context: &mut Context<'_>,
) -> Result<Rule, Reason> {
    let broken = |option: &str, detail: String| Reason::Broken { option: option.to_owned(), detail };
    let action = match parts.action {
        "alert" => Action::Alert,
        "pass" => Action::Pass,
        "drop" => Action::Drop,
        "reject" | "rejectsrc" | "rejectdst" | "rejectboth" => Action::Reject,
        other => return Err(broken("", format!("'{other}' is no action (alert, pass, drop, reject)"))),
    };
    let protocol = protocol(parts.protocol)?;
    let variables = context.variables;
    let addresses = |text| variables.addresses(text).map_err(|detail| broken("address", detail));
    let ports = |text| variables.ports(text).map_err(|detail| broken("port", detail));
    let rule = Rule {
        meta,
        action,
        protocol,
        source: Endpoint { addresses: addresses(parts.source.0)?, ports: ports(parts.source.1)? },
        destination: Endpoint { addresses: addresses(parts.destination.0)?, ports: ports(parts.destination.1)? },
        both_ways: parts.both_ways,
        headers: Vec::new(),
        flow: FlowTest::default(),
        buffers: Vec::new(),
        bits: Vec::new(),
        threshold: None,
        tag: None,
        silent: false,
    };
    let mut builder =
        Builder { rule, context, names: Names::default(), buffer: Buffer::Payload, priority_given: false };
    for &(name, value) in options {
        match builder.option(name, value) {
            Ok(()) => {}
            Err(Fault::Unknown) => {
                return Err(Reason::Unsupported { option: name.to_owned(), detail: String::new() });
            }
            Err(Fault::Form(detail)) => return Err(Reason::Unsupported { option: name.to_owned(), detail }),
            Err(Fault::Bad(detail)) => return Err(broken(name, detail)),
        }
    }
    builder.finish().map_err(|detail| broken("", detail))
}

/// What is wrong with an option.
pub(super) enum Fault {
    /// There is no such option here.
    Unknown,
    /// This form of it is not supported.
    Form(String),
    /// It makes no sense.
    Bad(String),
}

impl From<String> for Fault {
    fn from(detail: String) -> Self {
        Self::Bad(detail)
    }
}

impl From<&str> for Fault {
    fn from(detail: &str) -> Self {
        Self::Bad(detail.to_owned())
    }
}

fn protocol(name: &str) -> Result<Protocol, Reason> {
    Ok(match name {
        "ip" => Protocol::Ip(None),
        "ip4" | "ipv4" => Protocol::Ip(Some(Version::V4)),
        "ip6" | "ipv6" => Protocol::Ip(Some(Version::V6)),
        "tcp" => Protocol::Tcp,
        "tcp-pkt" => Protocol::TcpPacket,
        "tcp-stream" => Protocol::TcpStream,
        "udp" => Protocol::Udp,
        "icmp" => Protocol::Icmp(None),
        "icmpv4" => Protocol::Icmp(Some(Version::V4)),
        "icmpv6" => Protocol::Icmp(Some(Version::V6)),
        "sctp" => Protocol::Sctp,
        "pkthdr" => Protocol::Any,
        "dns" => Protocol::App(App::Dns),
        "tls" | "ssl" => Protocol::App(App::Tls),
        "ssh" => Protocol::App(App::Ssh),
        "http" | "http1" | "http2" | "ftp" | "ftp-data" | "smtp" | "smb" | "dcerpc" | "dhcp" | "dnp3" | "enip"
        | "ike" | "imap" | "krb5" | "modbus" | "mqtt" | "nfs" | "ntp" | "pgsql" | "pop3" | "quic" | "rdp" | "rfb"
        | "sip" | "snmp" | "telnet" | "tftp" | "bittorrent-dht" => {
            return Err(Reason::Unsupported { option: format!("protocol {name}"), detail: String::new() });
        }
        other => {
            return Err(Reason::Broken { option: String::new(), detail: format!("'{other}' is no protocol") });
        }
    })
}

impl Builder<'_, '_> {
    fn option(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        let cmp = |max: u64| compare(value, max);
        let number16 =
            || number(value).and_then(|number| u16::try_from(number).ok()).ok_or("needs a number from 0 to 65535");
        let number32 =
            || number(value).and_then(|number| u32::try_from(number).ok()).ok_or("needs a number below 2^32");
        let rule = &mut self.rule;
        let header = match name {
            "dsize" => HeaderTest::PayloadSize(cmp(65535)?),
            "flags" | "tcp.flags" => state::tcp_flags(value)?,
            "ttl" => HeaderTest::Ttl(cmp(255)?),
            "itype" => HeaderTest::IcmpType(cmp(255)?),
            "icode" => HeaderTest::IcmpCode(cmp(255)?),
            "icmp_id" => HeaderTest::IcmpId(number16()?),
            "icmp_seq" => HeaderTest::IcmpSequence(number16()?),
            "ip_proto" => HeaderTest::IpProtocol(state::ip_protocol(value)?),
            "ipopts" => HeaderTest::IpOption(state::ip_option(value)?),
            "fragbits" => state::fragment_bits(value)?,
            "fragoffset" => HeaderTest::FragmentOffset(cmp(8191)?),
            "id" => HeaderTest::IpId(number16()?),
            "tos" => HeaderTest::Tos(cmp(255)?),
            "sameip" => HeaderTest::SameIp,
            "seq" | "tcp.seq" => HeaderTest::Sequence(number32()?),
            "ack" | "tcp.ack" => HeaderTest::Acknowledgment(number32()?),
            "window" | "tcp.window" => HeaderTest::Window(cmp(65535)?),
            "tcp.mss" => HeaderTest::Mss(cmp(65535)?),
            "decode-event" => HeaderTest::Event(event(value)?),
            "stream-event" => HeaderTest::Event(event(&format!("stream.{value}"))?),
            "stream_size" => state::stream_size(value)?,
            "flow.age" => HeaderTest::FlowAge(cmp(u32::MAX.into())?),
            "flow.pkts" | "flow.bytes" => state::flow_count(name == "flow.pkts", None, value)?,
            "flow.pkts_toserver" => state::flow_count(true, Some(Side::ToServer), value)?,
            "flow.pkts_toclient" => state::flow_count(true, Some(Side::ToClient), value)?,
            "flow.bytes_toserver" => state::flow_count(false, Some(Side::ToServer), value)?,
            "flow.bytes_toclient" => state::flow_count(false, Some(Side::ToClient), value)?,
            _ => return self.other_option(name, value),
        };
        rule.headers.push(header);
        if rule.headers.len() > MAX_TESTS { Err("too many options".into()) } else { Ok(()) }
    }

    fn other_option(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        let rule = &mut self.rule;
        match name {
            "msg" => rule.meta.message = unquote(value),
            "sid" => rule.meta.sid = value.parse().ok().filter(|&sid| sid > 0).ok_or("needs a number above 0")?,
            "gid" => rule.meta.gid = value.parse().map_err(|_| "needs a number".to_owned())?,
            "rev" => rule.meta.rev = value.parse().map_err(|_| "needs a number".to_owned())?,
            "classtype" => {
                rule.meta.class = value.to_owned();
                if let Some(class) = self.context.classes.find(value)
                    && !self.priority_given
                {
                    rule.meta.priority = class.priority;
                }
            }
            "priority" => {
                rule.meta.priority =
                    value.parse().ok().filter(|&priority| priority > 0).ok_or("needs a number from 1 to 255")?;
                self.priority_given = true;
            }
            "reference" => {
                let (kind, id) = value.split_once(',').ok_or("needs kind and identifier")?;
                rule.meta.references.push((kind.trim().to_owned(), unquote(id.trim())));
            }
            "metadata" => {
                for pair in value.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
                    let (key, value) = pair.split_once(' ').unwrap_or((pair, ""));
                    rule.meta.metadata.push((key.to_owned(), value.trim().to_owned()));
                }
            }
            // What these say is of use to other programs, or is our business anyway.
            "target" | "prefilter" => {}
            "rawbytes" => self.last_content().map(|_| ())?,
            "ftpbounce" => rule.buffers.push((Buffer::FtpPort, Vec::new())),
            "noalert" => rule.silent = true,
            "alert" => rule.silent = false,
            "flow" => rule.flow = state::flow(value)?,
            "flowbits" | "hostbits" | "xbits" => state::bits(name, value, rule, &mut self.context.bits)?,
            "threshold" => rule.threshold = Some(state::threshold(value)?),
            "detection_filter" => rule.threshold = Some(state::detection_filter(value)?),
            "tag" => rule.tag = Some(state::tag(value)?),
            "content" => {
                let content = content(value)?;
                self.test(Test::Content(content))?;
            }
            "uricontent" | "asn1" | "lua" | "luajit" => return Err(Fault::Unknown),
            "nocase" => self.last_content()?.nocase = true,
            "fast_pattern" => self.fast_pattern(value)?,
            "startswith" => {
                let content = self.last_content()?;
                if content.offset.is_some() || content.depth.is_some() || content.is_relative() {
                    return Err("goes with no other position".into());
                }
                content.offset = Some(Value::Number(0));
                content.depth = Some(Value::Number(content.bytes.len() as i64));
            }
            "endswith" => self.last_content()?.at_end = true,
            "offset" | "depth" | "distance" | "within" => self.position(name, value)?,
            "isdataat" => {
                let test = state::data_at(value, &self.names)?;
                self.test(test)?;
            }
            "pcre" => self.expression(value)?,
            "byte_test" => {
                let test = self.names.byte_test(value).map_err(unsupported_flag)?;
                self.test(test)?;
            }
            "byte_jump" => {
                let test = self.names.byte_jump(value).map_err(unsupported_flag)?;
                self.test(test)?;
            }
            "byte_extract" => {
                let test = self.names.byte_extract(value).map_err(unsupported_flag)?;
                self.test(test)?;
            }
            "byte_math" => {
                let test = self.names.byte_math(value).map_err(unsupported_flag)?;
                self.test(test)?;
            }
            "bsize" => self.test(Test::Size(compare(value, u64::from(u32::MAX))?))?,
            _ => self.buffer = buffer(name).ok_or(Fault::Unknown)?,
        }
        Ok(())
    }

    fn test(&mut self, test: Test) -> Result<(), Fault> {
        if self.rule.buffers.iter().map(|(_, tests)| tests.len()).sum::<usize>() == MAX_TESTS {
            return Err("too many tests".into());
        }
        match self.rule.buffers.iter_mut().find(|(buffer, _)| *buffer == self.buffer) {
            Some((_, tests)) => tests.push(test),
            None => self.rule.buffers.push((self.buffer, vec![test])),
        }
        Ok(())
    }

    fn last_content(&mut self) -> Result<&mut Content, Fault> {
        let tests = self.rule.buffers.iter_mut().find(|(buffer, _)| *buffer == self.buffer).map(|(_, tests)| tests);
        match tests.and_then(|tests| tests.last_mut()) {
            Some(Test::Content(content)) => Ok(content),
            _ => Err("there is no content before it".into()),
        }
    }

    fn position(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        let value = self.names.value(value)?;
        let content = self.last_content()?;
        let len = content.bytes.len() as i64;
        if let Value::Number(number) = value {
            if matches!(name, "offset" | "depth" | "within") && number < 0 {
                return Err("may not be below 0".into());
            }
            if matches!(name, "depth" | "within") && number < len {
                return Err(Fault::Bad(format!("{number} leaves no room for {len} bytes")));
            }
            if number.abs() > 1 << 20 {
                return Err(Fault::Bad(format!("{number} is out of bounds")));
            }
        }
        let place = match name {
            "offset" => &mut content.offset,
            "depth" => &mut content.depth,
            "distance" => &mut content.distance,
            _ => &mut content.within,
        };
        if place.replace(value).is_some() {
            return Err("given twice".into());
        }
        Ok(())
    }

    fn fast_pattern(&mut self, value: &str) -> Result<(), Fault> {
        let content = self.last_content()?;
        content.fast = true;
        if !value.is_empty() && value != "only" {
            let (offset, len) = value.split_once(',').ok_or("needs offset,length")?;
            let (offset, len) =
                (number(offset).ok_or("bad offset")? as usize, number(len).ok_or("bad length")? as usize);
            if len == 0 || offset.checked_add(len).is_none_or(|end| end > content.bytes.len()) {
                return Err("reaches past the content".into());
            }
            content.chop = Some((offset, len));
        }
        Ok(())
    }

    /// `pcre:"[!]/pattern/flags"`; flags of Suricata's that choose a buffer belong to buffers that are not there yet.
    fn expression(&mut self, value: &str) -> Result<(), Fault> {
        let (negated, value) = match value.strip_prefix('!') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, value),
        };
        let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).ok_or("is not in quotes")?;
        let (negated, inner) = inner.strip_prefix('!').map_or((negated, inner), |inner| (true, inner));
        let open =
            inner.strip_prefix('/').or_else(|| inner.strip_prefix('m')?.strip_prefix('/')).ok_or("needs /pattern/")?;
        let close = open.rfind('/').ok_or("needs /pattern/")?;
        let (pattern, letters) = (&open[..close], &open[close + 1..]);
        let (mut flags, mut relative) = (String::new(), false);
        for letter in letters.chars() {
            match letter {
                'i' | 'm' | 's' | 'x' | 'A' | 'E' | 'G' => flags.push(letter),
                'R' => relative = true,
                'B' => {}
                // Without effect on what matches: the sensor's own limits hold.
                'O' => {}
                other => return Err(Fault::Form(format!("flag {other}"))),
            }
        }
        if pattern.is_empty() {
            return Err("the expression is empty".into());
        }
        // `;` and `"` are escaped for the rule language, which an expression takes as the same letters.
        self.test(Test::Expression(Expression { pattern: pattern.as_bytes().to_vec(), flags, negated, relative }))
    }

    fn finish(mut self) -> Result<Rule, String> {
        let rule = &mut self.rule;
        if rule.meta.sid == 0 {
            return Err("there is no sid".to_owned());
        }
        let has_ports = !rule.source.ports.is_all(MAX_PORT) || !rule.destination.ports.is_all(MAX_PORT);
        if has_ports && matches!(rule.protocol, Protocol::Icmp(_)) {
            let all = Ranges::all(MAX_PORT);
            (rule.source.ports, rule.destination.ports) = (all.clone(), all);
        }
        let fast =
            rule.buffers.iter().flat_map(|(_, tests)| tests).filter(|test| matches!(test, Test::Content(c) if c.fast));
        if fast.count() > 1 {
            return Err("more than one fast_pattern".to_owned());
        }
        let app_buffers = rule.buffers.iter().filter_map(|(buffer, _)| app_of(*buffer));
        for app in app_buffers {
            match rule.protocol {
                Protocol::App(own) if own != app => return Err("buffers of different protocols".to_owned()),
                Protocol::App(_) | Protocol::Tcp | Protocol::Udp | Protocol::Ip(None) => {
                    rule.protocol = Protocol::App(app)
                }
                _ => return Err("the buffer is not one of this protocol".to_owned()),
            }
        }
        Ok(self.rule)
    }
}

/// `…is not supported` is about a form, everything else about a mistake.
fn unsupported_flag(detail: String) -> Fault {
    if detail.ends_with("is not supported") { Fault::Form(detail) } else { Fault::Bad(detail) }
}

fn event(name: &str) -> Result<Event, Fault> {
    Event::find(name).ok_or_else(|| Fault::Form(format!("event {name}")))
}

/// The application protocol that a buffer belongs to.
#[must_use]
pub(crate) fn app_of(buffer: Buffer) -> Option<App> {
    match buffer {
        Buffer::DnsQuery => Some(App::Dns),
        Buffer::TlsSni => Some(App::Tls),
        Buffer::SshProtocol | Buffer::SshSoftware => Some(App::Ssh),
        Buffer::FtpPort => Some(App::Ftp),
        _ => None,
    }
}

fn buffer(name: &str) -> Option<Buffer> {
    Some(match name {
        "pkt_data" => Buffer::Payload,
        "ipv4.hdr" => Buffer::Ipv4Header,
        "ipv6.hdr" => Buffer::Ipv6Header,
        "tcp.hdr" => Buffer::TcpHeader,
        "udp.hdr" => Buffer::UdpHeader,
        "icmpv4.hdr" => Buffer::Icmpv4Header,
        "icmpv6.hdr" => Buffer::Icmpv6Header,
        "dns.query" | "dns_query" => Buffer::DnsQuery,
        "tls.sni" | "tls_sni" => Buffer::TlsSni,
        "ssh.proto" | "ssh_proto" => Buffer::SshProtocol,
        "ssh.software" | "ssh_software" => Buffer::SshSoftware,
        _ => return None,
    })
}

/// `[!]"text|hex|"`
fn content(value: &str) -> Result<Content, Fault> {
    let (negated, value) = match value.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, value),
    };
    let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).ok_or("is not in quotes")?;
    let mut bytes = Vec::with_capacity(inner.len());
    let (mut in_hex, mut high) = (false, None);
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        if !letter.is_ascii() {
            return Err("has a letter that is not ASCII: write its bytes as |hex|".into());
        }
        match letter {
            '|' => {
                if high.is_some() {
                    return Err("half a byte of hex".into());
                }
                in_hex = !in_hex;
            }
            letter if in_hex => match (letter.to_digit(16), high) {
                (Some(digit), None) => high = Some(digit as u8),
                (Some(digit), Some(first)) => {
                    bytes.push(first << 4 | digit as u8);
                    high = None;
                }
                (None, None) if letter.is_whitespace() => {}
                _ => return Err(Fault::Bad(format!("'{letter}' in hex"))),
            },
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | '"' | ';' | ':')) => bytes.push(escaped as u8),
                Some(other) => return Err(Fault::Bad(format!("'\\{other}' is no escape"))),
                None => return Err("ends with a backslash".into()),
            },
            '"' => return Err("has a quote inside: write \\\"".into()),
            letter => bytes.push(letter as u8),
        }
    }
    if in_hex {
        return Err("hex is not closed".into());
    }
    if bytes.is_empty() {
        return Err("is empty".into());
    }
    if bytes.len() > 255 {
        return Err("is longer than 255 bytes".into());
    }
    Ok(Content {
        bytes,
        nocase: false,
        negated,
        offset: None,
        depth: None,
        distance: None,
        within: None,
        at_end: false,
        fast: false,
        chop: None,
    })
}

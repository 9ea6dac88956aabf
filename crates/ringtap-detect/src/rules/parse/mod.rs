//! Owns: one rule from its text: the header, and each option into its place in [`Rule`].
//! Does not: read files (see `rules/mod.rs`) or decide how a rule is matched.

mod bytes;
mod headers;
mod lists;
mod meta;
mod state;
mod transforms;

use std::sync::Arc;

use super::Context;
use super::lines;
use super::network::MAX_PORT;
use super::numbers::RuleVariables;
use super::ranges::Ranges;
use super::rule::*;
use crate::protocol::{self, Match};

pub use state::{BitNames, MAX_BITS};
pub(super) use state::{positive, threshold, track};

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

/// IP protocol number.
const IGMP: u64 = 2;
/// Tests one rule may have in all.
const MAX_TESTS: usize = 256;

/// A rule, option by option.
struct Builder<'c, 'v> {
    rule: Rule,
    context: &'c mut Context<'v>,
    variables: RuleVariables,
    /// What the tests that come next look at.
    buffer: Buffer,
    /// What the last test looks at.
    last: Buffer,
    /// And the last content.
    last_content: Buffer,
    priority_given: bool,
    /// `prefilter`: the options that choose packets do so alone.
    is_prefilter: bool,
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
    let name = parts.protocol.to_ascii_lowercase();
    let protocol = protocol_of(&name)?;
    let networks = context.variables;
    let addresses = |text| networks.addresses(text).map_err(|detail| broken("address", detail));
    let ports = |text| networks.ports(text).map_err(|detail| broken("port", detail));
    let rule = Rule {
        meta,
        action,
        protocol,
        source: Endpoint { addresses: addresses(parts.source.0)?, ports: ports(parts.source.1)? },
        destination: Endpoint { addresses: addresses(parts.destination.0)?, ports: ports(parts.destination.1)? },
        both_ways: parts.both_ways,
        headers: if name == "igmp" { vec![HeaderTest::IpProtocol(Compare::exactly(IGMP))] } else { Vec::new() },
        flow: FlowTest::default(),
        buffers: Vec::new(),
        transforms: Vec::new(),
        bits: Vec::new(),
        ints: Vec::new(),
        threshold: None,
        rate: None,
        suppressed: Vec::new(),
        tag: None,
        silent: false,
    };
    let variables = RuleVariables::default();
    let buffer = Buffer::Payload;
    let mut builder = Builder {
        rule,
        context,
        variables,
        buffer,
        last: buffer,
        last_content: buffer,
        priority_given: false,
        is_prefilter: false,
    };
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
    builder.finish().map_err(|fault| match fault {
        Fault::Form(detail) => Reason::Unsupported { option: "protocol".to_owned(), detail },
        Fault::Bad(detail) => broken("", detail),
        Fault::Unknown => broken("", "is not known".to_owned()),
    })
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

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("is not known"),
            Self::Form(detail) | Self::Bad(detail) => f.write_str(detail),
        }
    }
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

fn protocol_of(name: &str) -> Result<Protocol, Reason> {
    if let Some(app) = App::find(name) {
        return Ok(Protocol::App(app));
    }
    Ok(match name {
        "ip" => Protocol::Ip(None),
        "igmp" => Protocol::Ip(Some(Version::V4)),
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
        other if protocol::NOT_PARSED.contains(&other) => {
            return Err(Reason::Unsupported { option: format!("protocol {name}"), detail: String::new() });
        }
        other => {
            return Err(Reason::Broken { option: String::new(), detail: format!("'{other}' is no protocol") });
        }
    })
}

/// Buffers that every packet has, whatever application speaks in it.
fn packet_buffer(keyword: &str) -> Option<Buffer> {
    Some(match keyword {
        "pkt_data" => Buffer::Payload,
        "ipv4.hdr" => Buffer::Ipv4Header,
        "ipv6.hdr" => Buffer::Ipv6Header,
        "tcp.hdr" => Buffer::TcpHeader,
        "udp.hdr" => Buffer::UdpHeader,
        "icmpv4.hdr" => Buffer::Icmpv4Header,
        "icmpv6.hdr" => Buffer::Icmpv6Header,
        "base64_data" => Buffer::Base64,
        _ => return None,
    })
}

impl Builder<'_, '_> {
    fn option(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        if let Some(test) = headers::test(name, value)? {
            self.rule.headers.push(test);
            return if self.rule.headers.len() > MAX_TESTS { Err("too many options".into()) } else { Ok(()) };
        }
        if self.meta(name, value)?
            || self.state(name, value)?
            || self.transform(name, value)?
            || self.bytes(name, value)?
            || self.lists(name, value)?
        {
            return Ok(());
        }
        if name == "app-layer-event" {
            return self.app_event(value);
        }
        let own = match self.rule.protocol {
            Protocol::App(app) => Some(app),
            _ => None,
        };
        if let Some((buffer, tests)) = AppBuffer::find_also(own, name) {
            let tests = tests(value).map_err(Fault::Bad)?;
            self.rule.buffers.push((Buffer::App(buffer), tests));
            return Ok(());
        }
        match self.find_buffer(name).map(|buffer| (buffer, buffer.matching())) {
            Some((buffer, Match::Tests)) => self.buffer = Buffer::App(buffer),
            Some((buffer, Match::Value(tests))) => {
                let tests = tests(value).map_err(|detail| match detail.is_empty() {
                    true => Fault::Form(value.to_owned()),
                    false => Fault::Bad(detail),
                })?;
                self.rule.buffers.push((Buffer::App(buffer), tests));
            }
            Some((buffer, Match::Condition(_))) => self.rule.buffers.push((Buffer::App(buffer), Vec::new())),
            None => self.buffer = packet_buffer(name).ok_or(Fault::Unknown)?,
        }
        Ok(())
    }

    /// The buffer of a keyword: the rule's own protocol has the first say, as some have buffers of one name.
    fn find_buffer(&self, name: &str) -> Option<AppBuffer> {
        match self.rule.protocol {
            Protocol::App(app) => AppBuffer::find_of(app, name),
            _ => None,
        }
        .or_else(|| AppBuffer::find(name))
    }

    /// `app-layer-event:PROTOCOL.NAME`: the name is a value of the protocol's.
    fn app_event(&mut self, value: &str) -> Result<(), Fault> {
        let form = || Fault::Form(format!("event {value}"));
        let (app, name) = value.split_once('.').ok_or_else(form)?;
        let buffer = App::find(app).and_then(App::events).ok_or_else(form)?;
        let tests = Test::whole(name.as_bytes());
        self.rule.buffers.push((Buffer::App(buffer), tests));
        Ok(())
    }

    fn finish(mut self) -> Result<Rule, Fault> {
        self.rule.buffers.retain(|(buffer, tests)| !tests.is_empty() || buffer.of_app().is_some());
        let rule = &mut self.rule;
        // Asked of the packet by which it became known, where nothing else is asked that would be so of several.
        let asks_protocol = rule.headers.iter().any(|test| matches!(test, HeaderTest::Application(..)));
        let only = rule.headers.iter().all(|test| matches!(test, HeaderTest::Application(..)));
        if asks_protocol && (self.is_prefilter || (only && rule.buffers.is_empty() && rule.is_without_state())) {
            rule.headers.push(HeaderTest::Recognised);
        }
        if rule.meta.sid == 0 {
            return Err("there is no sid".into());
        }
        let has_ports = !rule.source.ports.is_all(MAX_PORT) || !rule.destination.ports.is_all(MAX_PORT);
        if has_ports && matches!(rule.protocol, Protocol::Icmp(_)) {
            let all = Ranges::all(MAX_PORT);
            (rule.source.ports, rule.destination.ports) = (all.clone(), all);
        }
        let fast =
            rule.buffers.iter().flat_map(|(_, tests)| tests).filter(|test| matches!(test, Test::Content(c) if c.fast));
        if fast.count() > 1 {
            return Err("more than one fast_pattern".into());
        }
        if rule.is_of_several() {
            return Ok(self.rule);
        }
        let app_buffers = rule.buffers.iter().filter_map(|(buffer, _)| buffer.of_app()).map(AppBuffer::app);
        for app in app_buffers {
            match rule.protocol {
                Protocol::App(own) if own != app => {
                    return Err(Fault::Form(format!("a buffer of {} in a rule about {}", app.name(), own.name())));
                }
                Protocol::App(_) | Protocol::Tcp | Protocol::Udp | Protocol::Ip(None) => {
                    rule.protocol = Protocol::App(app)
                }
                _ => return Err("the buffer is not one of this protocol".into()),
            }
        }
        Ok(self.rule)
    }
}

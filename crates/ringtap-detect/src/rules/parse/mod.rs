//! Owns: one rule from its text: the header, and each option into its place in [`Rule`].
//! Does not: read files (see `rules/mod.rs`) or decide how a rule is matched.

mod bytes;
mod headers;
mod meta;
mod state;

use std::sync::Arc;

use super::Context;
use super::lines;
use super::network::MAX_PORT;
use super::numbers::RuleVariables;
use super::ranges::Ranges;
use super::rule::*;
use crate::protocol::{self, Match};

pub use state::{BitNames, MAX_BITS};

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

/// A rule, option by option.
struct Builder<'c, 'v> {
    rule: Rule,
    context: &'c mut Context<'v>,
    variables: RuleVariables,
    /// What the tests that come next look at.
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
    let protocol = protocol_of(parts.protocol)?;
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
        headers: Vec::new(),
        flow: FlowTest::default(),
        buffers: Vec::new(),
        bits: Vec::new(),
        threshold: None,
        tag: None,
        silent: false,
    };
    let variables = RuleVariables::default();
    let mut builder = Builder { rule, context, variables, buffer: Buffer::Payload, priority_given: false };
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

fn protocol_of(name: &str) -> Result<Protocol, Reason> {
    if let Some(app) = App::find(name) {
        return Ok(Protocol::App(app));
    }
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
        _ => return None,
    })
}

impl Builder<'_, '_> {
    fn option(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        if let Some(test) = headers::test(name, value)? {
            self.rule.headers.push(test);
            return if self.rule.headers.len() > MAX_TESTS { Err("too many options".into()) } else { Ok(()) };
        }
        if self.meta(name, value)? || self.state(name, value)? || self.bytes(name, value)? {
            return Ok(());
        }
        match AppBuffer::find(name).map(|buffer| (buffer, buffer.matching())) {
            Some((buffer, Match::Tests)) => self.buffer = Buffer::App(buffer),
            Some((buffer, Match::Condition(_))) => self.rule.buffers.push((Buffer::App(buffer), Vec::new())),
            None => self.buffer = packet_buffer(name).ok_or(Fault::Unknown)?,
        }
        Ok(())
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
        let app_buffers = rule.buffers.iter().filter_map(|(buffer, _)| buffer.of_app()).map(AppBuffer::app);
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

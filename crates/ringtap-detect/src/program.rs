//! Owns: a rule set made ready for matching: rules in the order they are looked at, and the indexes that choose among them.
//! Does not: keep state; a program is built aside and swapped in whole.

use std::sync::Arc;

use ringtap_wire::tcp_flag;

use crate::event::Event;
use crate::matching::groups::{ByAddress, ByPort, Member};
use crate::matching::inspect::Step;
use crate::matching::patterns::{FastPattern, Patterns, Position, fast_pattern};
use crate::matching::transform::Change;
use crate::protocol::Stage;
use crate::rules::network::MAX_PORT;
use crate::rules::rule::*;
use crate::rules::{BitNames, Reason, Rejected, RuleSet};

/// A class of packets that the same rules apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Tcp,
    Udp,
    Icmpv4,
    Icmpv6,
    Sctp,
    /// Anything else over IP, fragments included.
    Other,
}

impl Class {
    const ALL: [Self; 6] = [Self::Tcp, Self::Udp, Self::Icmpv4, Self::Icmpv6, Self::Sctp, Self::Other];
}

/// One rule, ready.
pub(crate) struct Prepared {
    pub(crate) rule: Rule,
    pub(crate) buffers: Vec<(Buffer, Vec<Step>)>,
    /// The applications that have its buffers: one, or several where it names none.
    pub(crate) apps: Vec<App>,
    /// Its chains of transforms.
    pub(crate) transforms: Vec<Vec<Change>>,
    /// Looks at packets' payloads, and at streams; neither if it has no test of a payload.
    pub(crate) in_packet: bool,
    pub(crate) in_stream: bool,
    /// Only addresses count: looked at once in a flow and direction.
    pub(crate) addresses_only: bool,
    /// A match is about the whole flow: of addresses alone, or of what an application says; so is one in a stream.
    pub(crate) is_of_flow: bool,
    /// It is about files: told of each in a message.
    pub(crate) is_of_file: bool,
}

/// Patterns with their rules, and where in a buffer they may be.
type PatternList = Vec<(Vec<u8>, u32, Position)>;

/// Rules about what applications say, by buffer.
pub(crate) struct ByBuffer {
    /// Patterns of each buffer; those of several that are looked for together stand with one of them ([`AppBuffer::sought_with`]).
    pub(crate) patterns: Vec<Option<Patterns>>,
    /// Rules of a buffer without a pattern.
    pub(crate) plain: Vec<Vec<u32>>,
}

impl ByBuffer {
    fn empty() -> Self {
        Self { patterns: (0..AppBuffer::COUNT).map(|_| None).collect(), plain: vec![Vec::new(); AppBuffer::COUNT] }
    }
}

/// A rule set, ready.
pub struct Program {
    pub(crate) rules: Vec<Prepared>,
    classes: [ByPort; 6],
    /// Rules of addresses alone, by class.
    pub(crate) addresses: [ByAddress; 6],
    /// Rules of each event.
    pub(crate) by_event: Vec<Vec<u32>>,
    /// Rules of any packet, whatever is in it.
    pub(crate) any: Vec<u32>,
    /// Of each stage of a message, what chooses the rules that are looked at there.
    pub(crate) stages: [ByBuffer; Stage::COUNT],
    /// Bits that rules name: the names go into the next rule set, so that they keep their numbers.
    pub(crate) bits: usize,
}

/// What a program takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rules.
    pub rules: usize,
    /// Groups by port, of all classes.
    pub groups: usize,
    /// Memory of the multi-pattern matchers, bytes.
    pub matchers: usize,
}

impl Program {
    /// Makes rules ready; those whose expressions no engine takes are added to `rejected`. Also returns the names of the
    /// bits, for the next rule set.
    ///
    /// # Errors
    /// More rules, groups or patterns than the indexes can number.
    pub fn new(mut set: RuleSet, rejected: &mut Vec<Rejected>) -> Result<(Self, BitNames), String> {
        rejected.append(&mut set.rejected);
        let mut ready: Vec<(Prepared, Option<FastPattern>)> = Vec::with_capacity(set.rules.len());
        for rule in set.rules {
            match Prepared::new(rule) {
                Ok(prepared) => ready.push(prepared),
                Err(refused) => rejected.push(refused),
            }
        }
        // The order of a packet's rules: pass first, then writers of bits before their readers, then by priority.
        ready.sort_by_key(|(prepared, _)| {
            let rule = &prepared.rule;
            (rule.action, bit_order(rule, true), bit_order(rule, false), rule.meta.priority)
        });
        u32::try_from(ready.len()).map_err(|_| "too many rules".to_owned())?;
        let (rules, patterns): (Vec<Prepared>, Vec<_>) = ready.into_iter().unzip();
        let mut by_event = vec![Vec::new(); Event::ALL.len()];
        let mut any = Vec::new();
        let mut stages: [ByBuffer; Stage::COUNT] = std::array::from_fn(|_| ByBuffer::empty());
        let mut app_patterns: [[PatternList; AppBuffer::COUNT]; Stage::COUNT] =
            std::array::from_fn(|_| [const { Vec::new() }; AppBuffer::COUNT]);
        let mut placed: [Vec<Member<'_>>; 6] = Default::default();
        let mut address_rules: [Vec<Member<'_>>; 6] = Default::default();
        for (index, (prepared, pattern)) in rules.iter().zip(patterns).enumerate() {
            let (index, rule) = (index as u32, &prepared.rule);
            let event = rule.headers.iter().find_map(|test| match test {
                HeaderTest::Event(event) => Some(*event),
                _ => None,
            });
            if let Some(event) = event {
                by_event[event as usize].push(index);
                continue;
            }
            if rule.protocol == Protocol::Any {
                any.push(index);
                continue;
            }
            for &app in &prepared.apps {
                // When all of its buffers may have their values.
                let of_app = || prepared.buffers.iter().filter_map(|(buffer, _)| buffer.of_app()?.twin(app));
                let stage = of_app().map(AppBuffer::stage).max().unwrap_or(Stage::Start) as usize;
                let place = |of: Buffer| Some(of.of_app()?.twin(app)?.sought_with().index());
                match pattern.as_ref().and_then(|pattern| Some((place(pattern.buffer)?, pattern))) {
                    Some((at, of)) => app_patterns[stage][at].push((of.bytes.clone(), index, of.position)),
                    None => of_app().take(1).for_each(|buffer| stages[stage].plain[buffer.index()].push(index)),
                }
            }
            if !prepared.apps.is_empty() {
                continue;
            }
            for class in Class::ALL.into_iter().filter(|&class| applies(rule.protocol, class)) {
                let pattern = match &pattern {
                    Some(pattern) if pattern.buffer == Buffer::Payload => {
                        let in_stream = prepared.in_stream && class == Class::Tcp;
                        Some((pattern.clone(), prepared.in_packet || class != Class::Tcp, in_stream))
                    }
                    _ => None,
                };
                let place = Member {
                    index,
                    source: &rule.source,
                    destination: &rule.destination,
                    both_ways: rule.both_ways,
                    pattern,
                };
                let list = if prepared.addresses_only { &mut address_rules } else { &mut placed };
                list[class as usize].push(place);
            }
        }
        let mut classes = Vec::with_capacity(6);
        for list in &placed {
            classes.push(ByPort::new(list)?);
        }
        let classes = classes.try_into().map_err(|_| "classes".to_owned())?;
        let addresses = address_rules.map(|list| ByAddress::new(&list.iter().collect::<Vec<_>>()));
        for (stage, lists) in stages.iter_mut().zip(&app_patterns) {
            for (slot, list) in stage.patterns.iter_mut().zip(lists) {
                *slot = Patterns::new(list)?;
            }
        }
        let bits = set.bits.len();
        Ok((Self { rules, classes, addresses, by_event, any, stages, bits }, set.bits))
    }

    #[inline]
    pub(crate) fn class(&self, class: Class) -> &ByPort {
        &self.classes[class as usize]
    }

    /// The rules, in the order they are looked at; [`Rule::buffers`] is empty in them.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules.iter().map(|prepared| &prepared.rule)
    }

    /// What it takes.
    #[must_use]
    pub fn size(&self) -> Size {
        let sizes = self.classes.iter().map(ByPort::size);
        let (groups, matchers) = sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
        let patterns = self.stages.iter().flat_map(|stage| stage.patterns.iter().flatten());
        let app = patterns.map(Patterns::memory).sum::<usize>();
        Size { rules: self.rules.len(), groups, matchers: matchers + app }
    }
}

impl Prepared {
    /// A rule without what the steps were made of, and the pattern that stands for it.
    fn new(mut rule: Rule) -> Result<(Self, Option<FastPattern>), Rejected> {
        let refuse = |rule: &Rule, option: &str, detail: String| {
            let reason = Reason::Broken { option: option.to_owned(), detail };
            Rejected { file: Arc::clone(&rule.meta.file), line: rule.meta.line, sid: rule.meta.sid, reason }
        };
        let mut buffers = Vec::with_capacity(rule.buffers.len());
        for (buffer, tests) in &rule.buffers {
            match tests.iter().map(Step::new).collect::<Result<Vec<_>, _>>() {
                Ok(steps) => buffers.push((*buffer, steps)),
                Err(detail) => return Err(refuse(&rule, "pcre", detail)),
            }
        }
        let changes = |chain: &Vec<Transform>| chain.iter().map(Change::new).collect::<Result<Vec<_>, _>>();
        let transforms = rule.transforms.iter().map(changes).collect::<Result<_, _>>();
        let transforms = transforms.map_err(|detail| refuse(&rule, "pcrexform", detail))?;
        let payload = rule.buffers.iter().find(|(buffer, _)| *buffer == Buffer::Payload).map(|(_, tests)| tests);
        let (in_packet, in_stream) = match payload {
            None => (false, false),
            Some(tests) => places(&rule, tests),
        };
        let addresses_only = is_addresses_only(&rule);
        let is_of_flow = addresses_only
            || matches!(rule.protocol, Protocol::App(_))
            || rule.buffers.iter().any(|(buffer, _)| buffer.of_app().is_some());
        let is_of_file = rule.buffers.iter().any(|(buffer, _)| buffer.of_app().is_some_and(AppBuffer::is_of_file));
        let pattern = fast_pattern(&rule);
        let is_of_several = rule.is_of_several();
        let apps = match rule.protocol {
            Protocol::App(app) if rule.buffers.iter().any(|(buffer, _)| buffer.of_app().is_some()) => vec![app],
            _ => rule.apps().filter(|_| is_of_several).collect(),
        };
        rule.buffers = Vec::new();
        Ok((
            Self { rule, buffers, apps, transforms, in_packet, in_stream, addresses_only, is_of_flow, is_of_file },
            pattern,
        ))
    }
}

/// Where a rule about TCP payloads looks: `dsize` is about packets; positions from the start are about streams and
/// packets; everything else is about streams, which holds wherever packets are cut.
fn places(rule: &Rule, tests: &[Test]) -> (bool, bool) {
    let sized = rule.headers.iter().any(|test| matches!(test, HeaderTest::PayloadSize(_)));
    match rule.protocol {
        Protocol::TcpPacket => (true, false),
        Protocol::TcpStream => (false, true),
        _ if sized || rule.flow.stream == Some(false) => (true, false),
        _ if rule.flow.stream == Some(true) => (false, true),
        // The packet that opens a session brings its bytes to the stream later, if the server takes them.
        _ if is_of_syn(rule) => (true, true),
        _ => {
            let from_start = tests.iter().any(
                |test| matches!(test, Test::Content(content) if content.offset.is_some() || content.depth.is_some()),
            );
            (from_start, true)
        }
    }
}

/// Whether it asks for the flag of a SYN.
fn is_of_syn(rule: &Rule) -> bool {
    rule.headers.iter().any(|test| match test {
        HeaderTest::TcpFlags { set, how: FlagMatch::Exactly | FlagMatch::All, .. } => set & tcp_flag::SYN != 0,
        _ => false,
    })
}

/// Whether nothing but addresses is asked.
fn is_addresses_only(rule: &Rule) -> bool {
    let any_ports = |endpoint: &Endpoint| endpoint.ports.is_all(MAX_PORT);
    rule.headers.is_empty()
        && rule.flow.is_empty()
        && rule.buffers.is_empty()
        && rule.bits.iter().all(|bit| bit.owner != BitOwner::Flow || bit.command == BitCommand::Set)
        && any_ports(&rule.source)
        && any_ports(&rule.destination)
        && !matches!(rule.protocol, Protocol::Any | Protocol::App(_) | Protocol::TcpPacket | Protocol::TcpStream)
}

/// 0 for rules that write bits, 1 for those that write and read, 2 for readers, 3 for the others.
fn bit_order(rule: &Rule, of_flow: bool) -> u8 {
    let mut bits = rule.bits.iter().filter(|bit| (bit.owner == BitOwner::Flow) == of_flow).peekable();
    if bits.peek().is_none() {
        return 3;
    }
    let is_read = |bit: &BitRule| matches!(bit.command, BitCommand::IsSet | BitCommand::IsNotSet);
    let (reads, writes) =
        bits.fold((false, false), |(reads, writes), bit| (reads | is_read(bit), writes | !is_read(bit)));
    match (writes, reads) {
        (true, false) => 0,
        (true, true) => 1,
        _ => 2,
    }
}

fn applies(protocol: Protocol, class: Class) -> bool {
    match protocol {
        Protocol::Ip(None) => true,
        Protocol::Ip(Some(Version::V4)) => class != Class::Icmpv6,
        Protocol::Ip(Some(Version::V6)) => class != Class::Icmpv4,
        Protocol::Tcp | Protocol::TcpPacket | Protocol::TcpStream => class == Class::Tcp,
        Protocol::Udp => class == Class::Udp,
        Protocol::Icmp(None) => matches!(class, Class::Icmpv4 | Class::Icmpv6),
        Protocol::Icmp(Some(Version::V4)) => class == Class::Icmpv4,
        Protocol::Icmp(Some(Version::V6)) => class == Class::Icmpv6,
        Protocol::Sctp => class == Class::Sctp,
        Protocol::App(app) => match class {
            Class::Tcp => app.is_over_tcp(),
            Class::Udp => app.is_over_udp(),
            _ => false,
        },
        Protocol::Any => false,
    }
}

//! Owns: which rules are looked at for a packet or a chunk of a stream, their tests in order of cost, and what a match does.
//! Does not: prepare packets or streams.

use std::net::IpAddr;
use std::time::Instant;

use ringtap_wire::Ip;

use super::{Detector, Track, Work};
use crate::alert::{Alert, FlowView, Origin, Sink};
use crate::decode::{Decoded, Transport};
use crate::matching::inspect::{Inspection, Step};
use crate::program::{Class, Prepared, Program};
use crate::rules::rule::*;
use crate::rules::{MAX_VARIABLES, address_number};

/// What is in `work.chunk`: bytes of a stream in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// Position of the first byte in the stream.
    pub(super) base: u64,
    /// Bytes inspected before.
    pub(super) kept: usize,
    pub(super) len: usize,
    /// The packet's payload is in the stream, now or later.
    pub(super) added: bool,
}

impl Chunk {
    pub(super) fn has_new(self) -> bool {
        self.len > self.kept
    }
}

/// What the tests of one packet need to know.
struct Context<'a> {
    packet: &'a Decoded<'a>,
    /// Index of the flow, and who sent the packet (0: client).
    flow: Option<(usize, usize)>,
    chunk: Option<Chunk>,
    /// There is a packet, not only a stream's bytes.
    is_packet: bool,
    source: u128,
    destination: u128,
    now_ns: u64,
}

impl Context<'_> {
    /// Whether rules about streams look at the packet's payload instead.
    fn stream_is_packet(&self) -> bool {
        self.is_packet && !self.chunk.is_some_and(|chunk| chunk.added)
    }

    fn class(&self) -> Class {
        match &self.packet.transport {
            Transport::Tcp(_) => Class::Tcp,
            Transport::Udp(_) => Class::Udp,
            Transport::Icmpv4(_) => Class::Icmpv4,
            Transport::Icmpv6(_) => Class::Icmpv6,
            Transport::Sctp(_) => Class::Sctp,
            Transport::None if !self.is_packet => Class::Tcp,
            // One that could not be decoded still is of its protocol.
            Transport::None => match self.packet.protocol {
                _ if self.packet.fragment.is_some() => Class::Other,
                132 => Class::Sctp,
                _ => Class::Other,
            },
        }
    }
}

impl Detector {
    /// Looks at all rules that may match; returns whether one let the packet pass.
    pub(super) fn inspect(
        &mut self,
        packet: &Decoded<'_>,
        flow: Option<(usize, usize)>,
        chunk: Option<Chunk>,
        origin: Origin,
        now_ns: u64,
        sink: &mut impl Sink,
    ) -> bool {
        let Self { program, track, work, counters, limits, .. } = self;
        if flow.is_some_and(|(index, _)| track.flows.get(index).passed) {
            counters.passed += 1;
            return true;
        }
        let context = Context {
            packet,
            flow,
            chunk: chunk.filter(|chunk| chunk.added || chunk.has_new()),
            is_packet: matches!(origin, Origin::Packet | Origin::Fragments),
            source: address_number(packet.source),
            destination: address_number(packet.destination),
            now_ns,
        };
        let flow_id = flow.map(|(index, _)| track.flows.get(index).id);
        // Before the rules: the packet that sets a tag is told by its alarm.
        let tagged = match context.is_packet {
            true => track.tags.take(packet, counters.packets, flow_id, now_ns),
            false => None,
        };
        if let Some(by) = tagged {
            counters.tagged += 1;
            let view = flow.map(|(index, _)| FlowView::new(track.flows.get(index)));
            sink.tagged(packet, view.as_ref(), by, now_ns);
        }
        work.budget = limits.budget;
        work.choose(program, track, &context);
        let candidates = std::mem::take(&mut work.candidates);
        work.matched.clear();
        let mut passed = false;
        for &index in &candidates {
            let prepared = &program.rules[index as usize];
            let before = work.budget;
            let began = limits.timed.then(Instant::now);
            let found = work.test(prepared, track, &context);
            let profile = &mut work.profile[index as usize];
            profile.checks += 1;
            profile.steps += u64::from(before - work.budget);
            profile.elapsed_ns += began.map_or(0, |began| began.elapsed().as_nanos() as u64);
            let Some(in_stream) = found else {
                if work.budget == 0 {
                    counters.budget_hits += 1;
                    break;
                }
                continue;
            };
            profile.matches += 1;
            track.write_bits(&prepared.rule, &context);
            if prepared.rule.action == Action::Pass {
                passed = true;
                break;
            }
            if work.matched.len() == limits.alerts {
                counters.alerts_over += 1;
                continue;
            }
            work.matched.push((index, in_stream));
        }
        work.candidates = candidates;
        if passed {
            if let Some((index, _)) = flow {
                track.flows.get_mut(index).passed = true;
            }
            return true;
        }
        for at in 0..work.matched.len() {
            let (index, in_stream) = work.matched[at];
            let rule = &program.rules[index as usize].rule;
            if let Some(threshold) = &rule.threshold {
                // By sid, so that counts outlive a reload.
                if !track.thresholds.lets_out(rule.meta.sid, threshold, packet, flow_id, now_ns) {
                    counters.suppressed += 1;
                    continue;
                }
            }
            if let Some(tag) = &rule.tag {
                track.tags.set(tag, &rule.meta, packet, flow_id, now_ns);
            }
            if rule.silent {
                continue;
            }
            counters.alerts += 1;
            let view = flow.map(|(index, _)| {
                track.flows.get_mut(index).alerts += 1;
                FlowView::new(track.flows.get(index))
            });
            let to_server = flow.is_none_or(|(_, from)| from == 0);
            sink.alert(&Alert { rule, packet, flow: view, to_server, origin, in_stream, now_ns });
        }
        false
    }
}

impl Work {
    /// Puts the rules that may match among the candidates, each once, in their order.
    fn choose(&mut self, program: &Program, track: &mut Track, context: &Context<'_>) {
        let packet = context.packet;
        self.round += 1;
        self.candidates.clear();
        let (round, stamps, candidates) = (self.round, &mut self.stamps, &mut self.candidates);
        let mut add = |rule: u32| {
            let stamp = &mut stamps[rule as usize];
            if *stamp != round {
                *stamp = round;
                candidates.push(rule);
            }
        };
        for event in packet.events.iter() {
            program.by_event[event as usize].iter().for_each(|&rule| add(rule));
        }
        if context.is_packet {
            program.any.iter().for_each(|&rule| add(rule));
        }
        if packet.ip.is_some() || !context.is_packet {
            let class = context.class();
            let (source, destination) = (context.source, context.destination);
            let stream = context.chunk.filter(|chunk| chunk.has_new()).map(|chunk| &self.chunk[..chunk.len]);
            for group in program.class(class).groups(packet.ports.0, packet.ports.1) {
                if context.is_packet {
                    group.plain.scan(source, destination, &mut add);
                    if let Some(patterns) = &group.packet {
                        patterns.scan(packet.payload, &mut add);
                    }
                }
                if let Some(patterns) = &group.stream {
                    if context.stream_is_packet() {
                        patterns.scan(packet.payload, &mut add);
                    }
                    if let Some(bytes) = stream {
                        patterns.scan(bytes, &mut add);
                    }
                }
                // Rules about streams without a pattern.
                if !context.is_packet {
                    group.plain.scan(source, destination, |rule| {
                        if program.rules[rule as usize].in_stream {
                            add(rule);
                        }
                    });
                }
            }
            let addresses_now = context.is_packet
                && context.flow.is_none_or(|(index, from)| {
                    !std::mem::replace(&mut track.flows.get_mut(index).addresses_done[from], true)
                });
            if addresses_now {
                program.addresses[class as usize].scan(source, destination, &mut add);
            }
        }
        for &(buffer, from, to) in &self.app_items {
            if let Some(patterns) = &program.app[buffer as usize] {
                patterns.scan(&self.app_bytes[from as usize..to as usize], &mut add);
            }
            program.app_plain.iter().filter(|(of, _)| *of == buffer).for_each(|&(_, rule)| add(rule));
        }
        self.candidates.sort_unstable();
    }

    /// All tests of a rule, the cheap ones first; whether a match is in a stream.
    fn test(&mut self, prepared: &Prepared, track: &mut Track, context: &Context<'_>) -> Option<bool> {
        let rule = &prepared.rule;
        self.budget = self.budget.saturating_sub(1);
        let fits = protocol_fits(rule.protocol, track, context)
            && ends_fit(rule, context)
            && flow_fits(&rule.flow, track, context)
            && rule.headers.iter().all(|test| header_fits(test, track, context))
            && track.bits_fit(rule, context);
        if !fits {
            return None;
        }
        let mut variables = [0; MAX_VARIABLES];
        let mut in_stream = false;
        for (buffer, steps) in &prepared.buffers {
            let packet = context.packet;
            let found = match buffer {
                Buffer::Payload => {
                    in_stream = self.stream_matches(prepared, steps, context, &mut variables);
                    in_stream || self.payload_matches(prepared, steps, context, &mut variables)
                }
                Buffer::DnsQuery | Buffer::TlsSni | Buffer::SshProtocol | Buffer::SshSoftware => {
                    self.items_match(*buffer, steps, &mut variables)
                }
                Buffer::FtpPort => self.names_another(context),
                Buffer::Ipv4Header | Buffer::Ipv6Header => {
                    let wanted = if *buffer == Buffer::Ipv4Header { Version::V4 } else { Version::V6 };
                    packet.version() == Some(wanted) && self.bytes_match(packet.ip_header, steps, &mut variables)
                }
                Buffer::TcpHeader | Buffer::UdpHeader | Buffer::Icmpv4Header | Buffer::Icmpv6Header => {
                    transport_header(packet, *buffer)
                        .is_some_and(|bytes| self.bytes_match(bytes, steps, &mut variables))
                }
            };
            if !found {
                return None;
            }
        }
        match rule.flow.stream {
            Some(true) if !in_stream => None,
            Some(false) if in_stream => None,
            _ => Some(in_stream),
        }
    }

    fn stream_matches(
        &mut self,
        prepared: &Prepared,
        steps: &[Step],
        context: &Context<'_>,
        variables: &mut [u64; MAX_VARIABLES],
    ) -> bool {
        let Some(chunk) = context.chunk.filter(|chunk| chunk.has_new() && prepared.in_stream) else { return false };
        let mut run = Inspection {
            bytes: &self.chunk[..chunk.len],
            base: chunk.base,
            new_from: chunk.kept,
            budget: &mut self.budget,
            variables: *variables,
        };
        let found = run.matches(steps);
        *variables = run.variables;
        found
    }

    fn payload_matches(
        &mut self,
        prepared: &Prepared,
        steps: &[Step],
        context: &Context<'_>,
        variables: &mut [u64; MAX_VARIABLES],
    ) -> bool {
        let is_tcp = matches!(context.packet.transport, Transport::Tcp(_));
        let wanted = prepared.in_packet || !is_tcp || context.stream_is_packet();
        let stream_only = prepared.rule.protocol == Protocol::TcpStream;
        wanted
            && context.is_packet
            && !context.packet.payload.is_empty()
            && !(stream_only && context.chunk.is_some_and(|chunk| chunk.added))
            && self.bytes_match(context.packet.payload, steps, variables)
    }

    fn bytes_match(&mut self, bytes: &[u8], steps: &[Step], variables: &mut [u64; MAX_VARIABLES]) -> bool {
        let mut run = Inspection { bytes, base: 0, new_from: 0, budget: &mut self.budget, variables: *variables };
        let found = run.matches(steps);
        *variables = run.variables;
        found
    }

    /// Whether a PORT command names another host than the one that says it (RFC 2577 §3).
    fn names_another(&self, context: &Context<'_>) -> bool {
        self.app_items.iter().filter(|(of, ..)| *of == Buffer::FtpPort).any(|&(_, from, to)| {
            let octets: Option<[u8; 4]> = self.app_bytes[from as usize..to as usize].try_into().ok();
            octets.is_some_and(|octets| address_number(IpAddr::from(octets)) != context.source)
        })
    }

    fn items_match(&mut self, buffer: Buffer, steps: &[Step], variables: &mut [u64; MAX_VARIABLES]) -> bool {
        let bytes = std::mem::take(&mut self.app_bytes);
        let mut found = false;
        for at in 0..self.app_items.len() {
            let (of, from, to) = self.app_items[at];
            if of == buffer && self.bytes_match(&bytes[from as usize..to as usize], steps, variables) {
                found = true;
                break;
            }
        }
        self.app_bytes = bytes;
        found
    }
}

fn protocol_fits(protocol: Protocol, track: &Track, context: &Context<'_>) -> bool {
    let version = context.packet.version();
    match protocol {
        Protocol::Ip(Some(wanted)) => version == Some(wanted),
        Protocol::App(app) => context.flow.is_some_and(|(index, _)| track.flows.get(index).app == Some(app)),
        // Rules of events are not chosen by class.
        Protocol::Sctp => context.packet.protocol == 132,
        Protocol::Udp => context.packet.protocol == 17,
        Protocol::Tcp | Protocol::TcpPacket | Protocol::TcpStream => context.packet.protocol == 6,
        _ => true,
    }
}

fn ends_fit(rule: &Rule, context: &Context<'_>) -> bool {
    let (source_port, destination_port) = context.packet.ports;
    if rule.protocol == Protocol::Any {
        return true;
    }
    let fits = |endpoint: &Endpoint, address: u128, port: u16| {
        endpoint.ports.contains(port.into()) && endpoint.addresses.contains(address)
    };
    let (source, destination) = (context.source, context.destination);
    (fits(&rule.source, source, source_port) && fits(&rule.destination, destination, destination_port))
        || (rule.both_ways
            && fits(&rule.source, destination, destination_port)
            && fits(&rule.destination, source, source_port))
}

fn flow_fits(test: &FlowTest, track: &Track, context: &Context<'_>) -> bool {
    if let Some(to_server) = test.to_server
        && context.flow.is_none_or(|(_, from)| (from == 0) != to_server)
    {
        return false;
    }
    if let Some(wanted) = test.established {
        let established = context.flow.map(|(index, _)| track.flows.get(index).is_established());
        if established.is_none_or(|established| established != wanted) {
            return false;
        }
    }
    test.fragment.is_none_or(|wanted| context.packet.rebuilt == wanted)
}

/// The fields of both sides that a test of the flow wants: any or all must fit.
fn sides_fit(side: Side, compare: Compare, values: [u64; 2]) -> bool {
    match side {
        Side::ToServer => compare.fits(values[0]),
        Side::ToClient => compare.fits(values[1]),
        Side::Both => values.into_iter().all(|value| compare.fits(value)),
        Side::Either => values.into_iter().any(|value| compare.fits(value)),
    }
}

fn flags_fit(how: FlagMatch, found: u8, set: u8) -> bool {
    match how {
        FlagMatch::Exactly => found == set,
        FlagMatch::All => found & set == set,
        FlagMatch::Any => found & set != 0,
        FlagMatch::Not => found & set != set,
    }
}

fn header_fits(test: &HeaderTest, track: &Track, context: &Context<'_>) -> bool {
    let packet = context.packet;
    let v4 = || match packet.ip {
        Some(Ip::V4(header)) => Some(header),
        _ => None,
    };
    let flow = || context.flow.map(|(index, _)| track.flows.get(index));
    let tcp = |fits: &dyn Fn(&ringtap_wire::Tcp<'_>) -> bool| packet.tcp().is_some_and(fits);
    match test {
        // "Not so long" is about packets that carry something.
        HeaderTest::PayloadSize(compare) => {
            let len = packet.payload.len() as u64;
            context.is_packet && compare.fits(len) && !(compare.negated && len == 0)
        }
        HeaderTest::TcpFlags { set, mask, how } => tcp(&|tcp| flags_fit(*how, tcp.flags() & mask, *set)),
        HeaderTest::Ttl(compare) => packet.ip.is_some_and(|ip| compare.fits(ip.hop_limit().into())),
        HeaderTest::IcmpType(compare) => packet.icmp().is_some_and(|(kind, _)| compare.fits(kind.into())),
        HeaderTest::IcmpCode(compare) => packet.icmp().is_some_and(|(_, code)| compare.fits(code.into())),
        HeaderTest::IcmpId(id) => packet.icmp_query().is_some_and(|(found, _)| found == *id),
        HeaderTest::IcmpSequence(sequence) => packet.icmp_query().is_some_and(|(_, found)| found == *sequence),
        HeaderTest::IpProtocol(compare) => packet.ip.is_some() && compare.fits(packet.protocol.into()),
        HeaderTest::IpOption(kind) => v4()
            .is_some_and(|header| header.options().flatten().any(|option| kind.is_none_or(|kind| option.kind == kind))),
        HeaderTest::FragmentBits { set, how } => v4().is_some_and(|header| {
            let word = header.header().get(6).map_or(0, |byte| byte >> 5);
            flags_fit(*how, word, *set)
        }),
        HeaderTest::FragmentOffset(compare) => {
            packet.ip.is_some() && {
                let offset = packet.fragment.map_or(0, |fragment| fragment.offset / 8);
                compare.fits(offset as u64)
            }
        }
        HeaderTest::IpId(id) => v4().is_some_and(|header| header.identification() == *id),
        HeaderTest::Tos(compare) => v4().is_some_and(|header| compare.fits((header.dscp() << 2 | header.ecn()).into())),
        HeaderTest::SameIp => context.source == context.destination,
        HeaderTest::Sequence(sequence) => tcp(&|tcp| tcp.sequence() == *sequence),
        HeaderTest::Acknowledgment(number) => tcp(&|tcp| tcp.acknowledgment() == *number),
        HeaderTest::Window(compare) => tcp(&|tcp| compare.fits(tcp.window().into())),
        HeaderTest::Mss(compare) => packet.mss().is_some_and(|size| compare.fits(size.into())),
        HeaderTest::Event(event) => packet.events.has(*event),
        HeaderTest::StreamSize(side, compare) => {
            flow().is_some_and(|flow| sides_fit(*side, *compare, flow.session.streams.map(|stream| stream.size())))
        }
        HeaderTest::FlowAge(compare) => {
            flow().is_some_and(|flow| compare.fits(flow.last_ns.saturating_sub(flow.first_ns) / 1_000_000_000))
        }
        HeaderTest::FlowPackets(side, compare) => flow().is_some_and(|flow| sides_fit(*side, *compare, flow.packets)),
        HeaderTest::FlowBytes(side, compare) => flow().is_some_and(|flow| sides_fit(*side, *compare, flow.bytes)),
    }
}

/// The transport header's own bytes.
fn transport_header<'a>(packet: &Decoded<'a>, buffer: Buffer) -> Option<&'a [u8]> {
    let all = packet.transport_bytes;
    let len = match (&packet.transport, buffer) {
        (Transport::Tcp(tcp), Buffer::TcpHeader) => tcp.header_len(),
        (Transport::Udp(_), Buffer::UdpHeader) => ringtap_wire::Udp::LEN,
        (Transport::Icmpv4(_), Buffer::Icmpv4Header) => ringtap_wire::Icmpv4::LEN,
        // The whole message: what follows the first eight bytes is the header of most types.
        (Transport::Icmpv6(_), Buffer::Icmpv6Header) => all.len(),
        _ => return None,
    };
    all.get(..len)
}

impl Track {
    fn bits_fit(&mut self, rule: &Rule, context: &Context<'_>) -> bool {
        rule.bits.iter().all(|bits| {
            if bits.owner != BitOwner::Flow {
                return self.hosts.check(bits, context.packet, context.now_ns);
            }
            let is_set = |bit: &u16| context.flow.is_some_and(|(index, _)| self.flows.bit(index, *bit));
            match bits.command {
                BitCommand::IsSet => bits.bits.iter().any(is_set),
                BitCommand::IsNotSet => context.flow.is_some() && bits.bits.iter().any(|bit| !is_set(bit)),
                BitCommand::Set | BitCommand::Unset | BitCommand::Toggle => true,
            }
        })
    }

    fn write_bits(&mut self, rule: &Rule, context: &Context<'_>) {
        for bits in &rule.bits {
            if bits.owner != BitOwner::Flow {
                self.hosts.apply(bits, context.packet, context.now_ns);
                continue;
            }
            let Some((index, _)) = context.flow else { continue };
            for &bit in &bits.bits {
                match bits.command {
                    BitCommand::Set => self.flows.set_bit(index, bit, true),
                    BitCommand::Unset => self.flows.set_bit(index, bit, false),
                    BitCommand::Toggle => {
                        let value = !self.flows.bit(index, bit);
                        self.flows.set_bit(index, bit, value);
                    }
                    BitCommand::IsSet | BitCommand::IsNotSet => {}
                }
            }
        }
    }
}

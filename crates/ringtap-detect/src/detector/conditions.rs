//! Owns: what a rule asks of headers, of the flow and of bits, and the bits that a match writes.
//! Does not: look into bytes (`buffers.rs`).

use ringtap_wire::{Ip, Ipv4};

use super::Track;
use super::evaluate::Context;
use crate::event::Event;
use crate::rules::rule::*;

/// Whether everything fits that the rule asks but bytes.
pub(super) fn fit(rule: &Rule, track: &mut Track, context: &Context<'_>) -> bool {
    protocol_fits(rule.protocol, track, context)
        && ends_fit(rule, context)
        && flow_fits(&rule.flow, track, context)
        && rule.headers.iter().all(|test| header_fits(test, track, context))
        && track.bits_fit(rule, context)
        && track.ints_fit(rule, context)
}

fn protocol_fits(protocol: Protocol, track: &Track, context: &Context<'_>) -> bool {
    let version = context.packet.version();
    match protocol {
        Protocol::Ip(Some(wanted)) => version == Some(wanted),
        Protocol::App(app) => {
            context.flow.is_some_and(|(index, from)| track.flows.get(index).app_of(from) == Some(app))
        }
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
        HeaderTest::IpOption(kind) => v4().is_some_and(|header| has_option(header, *kind)),
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
        HeaderTest::Application(app, negated) => {
            let speaks = context.flow.and_then(|(index, from)| track.flows.get(index).app_of(from));
            speaks.is_some_and(|speaks| (speaks == *app) != *negated)
        }
        HeaderTest::Recognised => context.is_packet && flow().is_some_and(|flow| flow.app_is_new),
        HeaderTest::Checksum(version, valid) => match version {
            None => v4().is_some() && packet.events.has(Event::Ipv4BadChecksum) != *valid,
            Some(version) => {
                packet.version() == Some(*version)
                    && packet.protocol == 6
                    && packet.transport_is_checked
                    && packet.bad_checksum != *valid
            }
        },
        HeaderTest::FlowAge(compare) => {
            flow().is_some_and(|flow| compare.fits(flow.last_ns.saturating_sub(flow.first_ns) / 1_000_000_000))
        }
        HeaderTest::FlowPackets(side, compare) => flow().is_some_and(|flow| sides_fit(*side, *compare, flow.packets)),
        HeaderTest::FlowBytes(side, compare) => flow().is_some_and(|flow| sides_fit(*side, *compare, flow.bytes)),
        HeaderTest::Reputation { whose, list, scores } => {
            let fits = |address| match (list.score(address), scores) {
                (Some(score), Some(wanted)) => wanted.fits(score.into()),
                (score, wanted) => score.is_none() && wanted.is_none(),
            };
            match whose {
                Reputed::Source => fits(context.source),
                Reputed::Destination => fits(context.destination),
                Reputed::Any => fits(context.source) || fits(context.destination),
                Reputed::Both => fits(context.source) && fits(context.destination),
            }
        }
    }
}

/// Whether a header has an option of this kind, or any. The end of options is one where something is behind it.
fn has_option(header: Ipv4<'_>, kind: Option<u8>) -> bool {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    if kind != Some(END) {
        return header.options().flatten().any(|option| kind.is_none_or(|kind| option.kind == kind));
    }
    let mut len = Ipv4::MIN_LEN;
    for option in header.options() {
        let Ok(option) = option else { return false };
        len += if option.kind == NO_OPERATION { 1 } else { 2 + option.data.len() };
    }
    len < header.header_len()
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

    fn ints_fit(&mut self, rule: &Rule, context: &Context<'_>) -> bool {
        rule.ints.is_empty()
            || context.flow.is_some_and(|(index, _)| {
                let flow = self.flows.get(index).id;
                rule.ints.iter().all(|int| self.ints.check(flow, int))
            })
    }

    /// Bits and integers.
    pub(super) fn write_bits(&mut self, rule: &Rule, context: &Context<'_>) {
        if let Some((index, _)) = context.flow {
            let flow = self.flows.get(index).id;
            rule.ints.iter().for_each(|int| self.ints.apply(flow, int, context.now_ns));
        }
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

//! Owns: one rule's tests, and which bytes of a packet, stream or application each of them looks at.
//! Does not: know the tests of bytes (`matching/inspect.rs`) or of headers (`conditions.rs`).

use std::net::IpAddr;

use super::evaluate::Context;
use super::{Track, Work, conditions};
use crate::decode::{Decoded, Transport};
use crate::matching::inspect::{Budget, Inspection, Kept, Step};
use crate::matching::transform::{BYTES_PER_STEP, Change};
use crate::program::Prepared;
use crate::protocol::Match;
use crate::rules::rule::{AppBuffer, Buffer, Protocol, Version};

impl Work {
    /// All tests of a rule, the cheap ones first; whether a match is in a stream. One rule has a part of the budget: the others
    /// go on when it has used that up.
    pub(super) fn test(&mut self, prepared: &Prepared, track: &mut Track, context: &Context<'_>) -> Option<bool> {
        let total = self.budget.left;
        self.budget.left = total.min(self.share).saturating_sub(1);
        let found = self.fits(prepared, track, context);
        self.budget.left += total - total.min(self.share);
        found
    }

    fn fits(&mut self, prepared: &Prepared, track: &mut Track, context: &Context<'_>) -> Option<bool> {
        let rule = &prepared.rule;
        if !conditions::fit(rule, track, context) {
            return None;
        }
        self.kept.clear();
        let mut in_stream = false;
        for (buffer, steps) in &prepared.buffers {
            let packet = context.packet;
            let found = match buffer {
                Buffer::Payload => {
                    in_stream = self.stream_matches(prepared, steps, context);
                    in_stream || self.payload_matches(prepared, steps, context)
                }
                Buffer::App(buffer) => match of_flow(*buffer, prepared, track, context) {
                    Some(buffer) => self.values_match(buffer, steps, context),
                    None => false,
                },
                Buffer::Transformed(buffer, chain) => match of_flow(*buffer, prepared, track, context) {
                    Some(buffer) => self.changed_match(buffer, &prepared.transforms[usize::from(*chain)], steps),
                    None => false,
                },
                Buffer::Base64 => self.decoded_match(steps),
                Buffer::Source => address_matches(packet.source, steps, &mut self.budget, &mut self.kept),
                Buffer::Destination => address_matches(packet.destination, steps, &mut self.budget, &mut self.kept),
                Buffer::Ipv4Header | Buffer::Ipv6Header => {
                    let wanted = if *buffer == Buffer::Ipv4Header { Version::V4 } else { Version::V6 };
                    packet.version() == Some(wanted)
                        && bytes_match(packet.ip_header, steps, &mut self.budget, &mut self.kept)
                }
                Buffer::TcpHeader | Buffer::UdpHeader | Buffer::Icmpv4Header | Buffer::Icmpv6Header => {
                    transport_header(packet, *buffer)
                        .is_some_and(|bytes| bytes_match(bytes, steps, &mut self.budget, &mut self.kept))
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

    fn stream_matches(&mut self, prepared: &Prepared, steps: &[Step], context: &Context<'_>) -> bool {
        let Some(chunk) = context.chunk.filter(|chunk| chunk.has_new() && prepared.in_stream) else { return false };
        let mut run = Inspection {
            bytes: &self.chunk[..chunk.len],
            base: chunk.base,
            // A message's last part completes what other parts of its stream began.
            new_from: if context.is_message { 0 } else { chunk.kept },
            new_to: chunk.new_to,
            budget: &mut self.budget,
            kept: &mut self.kept,
        };
        run.matches(steps)
    }

    fn payload_matches(&mut self, prepared: &Prepared, steps: &[Step], context: &Context<'_>) -> bool {
        let is_tcp = matches!(context.packet.transport, Transport::Tcp(_));
        let wanted = prepared.in_packet || !is_tcp || context.stream_is_packet();
        let stream_only = prepared.rule.protocol == Protocol::TcpStream;
        wanted
            && context.is_packet
            && !context.packet.payload.is_empty()
            && !(stream_only && context.chunk.is_some_and(|chunk| chunk.added))
            && bytes_match(context.packet.payload, steps, &mut self.budget, &mut self.kept)
    }

    /// Whether one of the values that the application's reader put into this buffer fits.
    fn values_match(&mut self, buffer: AppBuffer, steps: &[Step], context: &Context<'_>) -> bool {
        let Self { values, budget, kept, .. } = self;
        match buffer.matching() {
            Match::Tests | Match::Value(_) => {
                values.of(buffer).any(|(value, base)| value_matches(value, base, steps, budget, kept))
            }
            Match::Condition(holds) => values.of(buffer).any(|(value, _)| holds(value, context.packet)),
        }
    }

    /// The same of each value behind a chain of transforms.
    fn changed_match(&mut self, buffer: AppBuffer, changes: &[Change], steps: &[Step]) -> bool {
        let Self { values, budget, kept, changed, .. } = self;
        values.of(buffer).any(|(value, _)| {
            budget.search(value.len() * changes.len(), BYTES_PER_STEP);
            budget.left > 0 && bytes_match(changed.apply(value, changes), steps, budget, kept)
        })
    }

    /// What an earlier test has decoded.
    fn decoded_match(&mut self, steps: &[Step]) -> bool {
        let decoded = std::mem::take(&mut self.kept.decoded);
        let found = !decoded.is_empty() && bytes_match(&decoded, steps, &mut self.budget, &mut self.kept);
        self.kept.decoded = decoded;
        found
    }
}

fn address_matches(address: IpAddr, steps: &[Step], budget: &mut Budget, kept: &mut Kept) -> bool {
    match address {
        IpAddr::V4(address) => bytes_match(&address.octets(), steps, budget, kept),
        IpAddr::V6(address) => bytes_match(&address.octets(), steps, budget, kept),
    }
}

/// The buffer as the flow's application has it.
fn of_flow(buffer: AppBuffer, prepared: &Prepared, track: &Track, context: &Context<'_>) -> Option<AppBuffer> {
    if prepared.apps.len() == 1 {
        return Some(buffer);
    }
    let (index, from) = context.flow?;
    buffer.twin(track.flows.get(index).app_of(from)?)
}

fn bytes_match(bytes: &[u8], steps: &[Step], budget: &mut Budget, kept: &mut Kept) -> bool {
    value_matches(bytes, 0, steps, budget, kept)
}

/// As [`bytes_match`], of bytes before which there are `base` more.
fn value_matches(bytes: &[u8], base: u64, steps: &[Step], budget: &mut Budget, kept: &mut Kept) -> bool {
    Inspection { bytes, base, new_from: 0, new_to: bytes.len(), budget, kept }.matches(steps)
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

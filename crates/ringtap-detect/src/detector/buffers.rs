//! Owns: one rule's tests, and which bytes of a packet, stream or application each of them looks at.
//! Does not: know the tests of bytes (`matching/inspect.rs`) or of headers (`conditions.rs`).

use super::evaluate::Context;
use super::{Track, Work, conditions};
use crate::decode::{Decoded, Transport};
use crate::matching::inspect::{Inspection, Step};
use crate::program::Prepared;
use crate::protocol::Match;
use crate::rules::MAX_VARIABLES;
use crate::rules::rule::{AppBuffer, Buffer, Protocol, Version};

/// Values of a rule's own variables, kept from one buffer to the next.
type Variables = [u64; MAX_VARIABLES];

impl Work {
    /// All tests of a rule, the cheap ones first; whether a match is in a stream.
    pub(super) fn test(&mut self, prepared: &Prepared, track: &mut Track, context: &Context<'_>) -> Option<bool> {
        let rule = &prepared.rule;
        self.budget = self.budget.saturating_sub(1);
        if !conditions::fit(rule, track, context) {
            return None;
        }
        let mut variables: Variables = [0; MAX_VARIABLES];
        let mut in_stream = false;
        for (buffer, steps) in &prepared.buffers {
            let packet = context.packet;
            let found = match buffer {
                Buffer::Payload => {
                    in_stream = self.stream_matches(prepared, steps, context, &mut variables);
                    in_stream || self.payload_matches(prepared, steps, context, &mut variables)
                }
                Buffer::App(buffer) => self.values_match(*buffer, steps, context, &mut variables),
                Buffer::Ipv4Header | Buffer::Ipv6Header => {
                    let wanted = if *buffer == Buffer::Ipv4Header { Version::V4 } else { Version::V6 };
                    packet.version() == Some(wanted)
                        && bytes_match(packet.ip_header, steps, &mut self.budget, &mut variables)
                }
                Buffer::TcpHeader | Buffer::UdpHeader | Buffer::Icmpv4Header | Buffer::Icmpv6Header => {
                    transport_header(packet, *buffer)
                        .is_some_and(|bytes| bytes_match(bytes, steps, &mut self.budget, &mut variables))
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
        variables: &mut Variables,
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
        variables: &mut Variables,
    ) -> bool {
        let is_tcp = matches!(context.packet.transport, Transport::Tcp(_));
        let wanted = prepared.in_packet || !is_tcp || context.stream_is_packet();
        let stream_only = prepared.rule.protocol == Protocol::TcpStream;
        wanted
            && context.is_packet
            && !context.packet.payload.is_empty()
            && !(stream_only && context.chunk.is_some_and(|chunk| chunk.added))
            && bytes_match(context.packet.payload, steps, &mut self.budget, variables)
    }

    /// Whether one of the values that the application's reader put into this buffer fits.
    fn values_match(
        &mut self,
        buffer: AppBuffer,
        steps: &[Step],
        context: &Context<'_>,
        variables: &mut Variables,
    ) -> bool {
        let Self { values, budget, .. } = self;
        match buffer.matching() {
            Match::Tests => values.of(buffer).any(|value| bytes_match(value, steps, budget, variables)),
            Match::Condition(holds) => values.of(buffer).any(|value| holds(value, context.packet)),
        }
    }
}

fn bytes_match(bytes: &[u8], steps: &[Step], budget: &mut u32, variables: &mut Variables) -> bool {
    let mut run = Inspection { bytes, base: 0, new_from: 0, budget, variables: *variables };
    let found = run.matches(steps);
    *variables = run.variables;
    found
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

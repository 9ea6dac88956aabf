//! Owns: what the chain of IPv6 extension headers shows: events, and the fragment header.
//! Does not: find the transport; the parser has walked the same chain.

use ringtap_wire::{Extension, Ip, IpSpan, Ipv6, MAX_EXTENSIONS, is_extension, protocol};

use super::Decoded;
use crate::defrag::Fragment;
use crate::event::Event;

/// Padding options.
const PAD_N: u8 = 1;
/// Options that are defined (IANA "Destination Options and Hop-by-Hop Options"): tunnel limit, router alert,
/// CALIPSO, jumbo payload, home address.
const DEFINED: [u8; 5] = [0x04, 0x05, 0x07, 0xc2, 0xc9];

impl<'a> Decoded<'a> {
    /// Walks the extension headers of an IPv6 packet.
    pub(super) fn extensions(&mut self, data: &'a [u8], span: &IpSpan) {
        let Some(Ip::V6(header)) = self.ip else { return };
        let mut rest = data.get(span.at() + Ipv6::LEN..span.end()).unwrap_or_default();
        let mut kind = header.next_header();
        let (mut fragment, mut routing, mut hop_by_hop, mut destination) = (false, false, false, 0);
        for _ in 0..MAX_EXTENSIONS {
            if !is_extension(kind) {
                return;
            }
            let Ok(extension) = Extension::new(kind, rest) else {
                self.events.add(Event::Ipv6TruncatedExtension);
                return;
            };
            match kind {
                protocol::ROUTING if std::mem::replace(&mut routing, true) => {
                    self.events.add(Event::Ipv6DuplicateRouting);
                    return;
                }
                protocol::HOP_BY_HOP => {
                    if std::mem::replace(&mut hop_by_hop, true) {
                        self.events.add(Event::Ipv6DuplicateHopByHop);
                        return;
                    }
                    self.options(&extension, Event::Ipv6HopByHopUnknownOption, Event::Ipv6HopByHopOnlyPadding);
                }
                protocol::DESTINATION => {
                    destination += 1;
                    // One before a routing header and one before the payload are allowed (RFC 8200 §4.1).
                    if destination > 2 {
                        self.events.add(Event::Ipv6DuplicateDestination);
                        return;
                    }
                    self.options(&extension, Event::Ipv6DestinationUnknownOption, Event::Ipv6DestinationOnlyPadding);
                }
                protocol::FRAGMENT => {
                    if std::mem::replace(&mut fragment, true) {
                        self.events.add(Event::Ipv6DuplicateFragment);
                        return;
                    }
                    let payload = &rest[extension.header_len()..];
                    if !self.fragment_header(&extension, payload, span) {
                        return;
                    }
                }
                _ => {}
            }
            kind = extension.next_header();
            rest = &rest[extension.header_len()..];
            // Too little for a header of any kind.
            if rest.len() < 2 && kind != protocol::NO_NEXT {
                self.events.add(Event::Ipv6TruncatedExtension);
                return;
            }
        }
    }

    /// Reads a fragment header; returns whether the walk goes on behind it.
    fn fragment_header(&mut self, extension: &Extension<'_>, payload: &'a [u8], span: &IpSpan) -> bool {
        let Some(fragment) = extension.fragment() else { return true };
        if fragment.offset == 0 && !fragment.more {
            self.events.add(Event::Ipv6UselessFragment);
            return true;
        }
        if fragment.more && !payload.len().is_multiple_of(8) {
            self.events.add(Event::Ipv6FragmentInvalidLength);
        }
        if span.missing() == 0 {
            self.fragment = Some(Fragment {
                source: self.source,
                destination: self.destination,
                protocol: extension.next_header(),
                identification: fragment.identification,
                vlan: self.vlan,
                level: self.level,
                offset: fragment.offset,
                more: fragment.more,
                payload,
            });
        }
        false
    }

    fn options(&mut self, extension: &Extension<'_>, unknown: Event, only_padding: Event) {
        let mut others = 0;
        for option in extension.options() {
            let Ok(option) = option else { return };
            if option.kind == PAD_N {
                continue;
            }
            others += 1;
            if !DEFINED.contains(&option.kind) {
                self.events.add(unknown);
            }
        }
        if others == 0 {
            self.events.add(only_padding);
        }
    }
}

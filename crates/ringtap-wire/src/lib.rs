//! Checked header views, packet layers and flow keys: what the bytes of a captured packet mean.
//!
//! **Owns:** reading (and for UDP frames, writing) the headers of Ethernet, VLAN, MPLS, ARP, IPv4, IPv6, TCP, UDP,
//! ICMP, SCTP, GRE, VXLAN, GENEVE, PPPoE and PPP, and their checksums.
//! **Does not:** allocate, copy payloads, keep state between packets, reassemble, or know any other crate of Ringtap.
//!
//! Two ways in:
//! - [`Layers::parse`] takes a whole packet and sets the offset of every layer in one bounded pass. What could not be
//!   read is data, not a failure: [`Layers::stop`] and [`Layers::stop_at`] say why and where. [`FlowKey`] and the
//!   checksum verdicts come from there.
//! - A view ([`Ipv4`], [`Tcp`], …) takes the bytes of one header. Its constructor checks length and structure once;
//!   its accessors then read fields by named ranges.
//!
//! ```
//! use ringtap_wire::{FlowKey, Layers, LinkType, Stop, UdpFrame};
//!
//! let mut memory = [0; 128];
//! let frame = UdpFrame {
//!     source_mac: [2, 0, 0, 0, 0, 1],
//!     destination_mac: [2, 0, 0, 0, 0, 2],
//!     vlan: None,
//!     source: "192.0.2.1:40000".parse()?,
//!     destination: "192.0.2.2:162".parse()?,
//!     hop_limit: 64,
//!     traffic_class: 0,
//!     identification: 0,
//! };
//! let len = frame.write(&mut memory, b"link down")?;
//!
//! let data = &memory[..len];
//! let layers = Layers::parse(data, LinkType::Ethernet);
//! assert_eq!(layers.stop(), Stop::Complete);
//! assert_eq!(layers.ports(data), Some((40000, 162)));
//! assert_eq!(layers.payload(data), b"link down");
//! let (key, _direction) = FlowKey::inner(&layers, data).expect("there is an IP header");
//! assert_eq!(key.protocol(), 17);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What holds for any bytes
//! - Nothing panics, and the work is bounded: by the `MAX_…` constants, or by the length of the slice for iterators
//!   and checksums.
//! - A layer never reaches past the one around it: `payload` ends where the innermost length field says (so Ethernet
//!   padding is outside), and at the latest where the capture ends. When a length field promises more than is there,
//!   [`Layers::is_cut`] and [`IpSpan::missing`] say so.
//! - A view made from a slice that holds more than its packet (padding) leaves the rest out of its `payload` where the
//!   header has a length field; headers without one (TCP, ICMP) take the slice as the limit.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod arp;
mod bytes;
pub mod checksum;
mod cooked;
mod error;
mod ethernet;
mod extension;
mod flow;
mod frame;
mod gre;
mod icmp;
mod ip;
mod ipv4;
mod ipv6;
mod layers;
mod link;
mod options;
mod overlay;
mod parse;
mod ppp;
mod sctp;
mod stop;
mod tcp;
mod udp;
mod vlan;

pub use arp::Arp;
pub use cooked::{Cooked, CookedPayload, FAMILY_LEN, family};
pub use error::{Fault, Header, HeaderError};
pub use ethernet::{Ethernet, Llc, ether_type};
pub use extension::{Extension, Extensions, Fragment, MAX_EXTENSIONS, is_extension};
pub use flow::{Direction, FlowKey};
pub use frame::{FrameError, UdpFrame};
pub use gre::Gre;
pub use icmp::{Icmpv4, Icmpv6};
pub use ip::{Ip, IpVersion, protocol};
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use layers::{IpSpan, Layers, MAX_IP_HEADERS, MAX_MPLS_LABELS, MAX_VLAN_TAGS, Transport, Tunnel};
pub use link::LinkType;
pub use options::{BadOption, Ipv6Options, Options, RawOption};
pub use overlay::{Geneve, Vxlan};
pub use ppp::{Ppp, Pppoe, ppp_protocol};
pub use sctp::{Chunk, Chunks, Sctp};
pub use stop::Stop;
pub use tcp::{Tcp, TcpOption, tcp_flag};
pub use udp::{Udp, port};
pub use vlan::{MplsEntry, VlanTag};

/// The examples of the README are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! Intrusion detection: Suricata's rules against packets, flows and streams.
//!
//! **Owns:** the rule language ([`rules`]), application protocols ([`protocol`]), decoding on top of `ringtap-wire`, flows,
//! reassembly, matching, thresholds.
//! **Does not:** capture, open files or sockets, read a clock, start a thread, or write alerts: what is found is lent to the
//! caller's [`Sink`].
//!
//! Rules' text becomes a [`RuleSet`], that a [`Program`], and a [`Detector`] holds packets against it, one after the other. There
//! is one detector for each thread; the program is shared. All memory is taken when the detector is made, by its [`Limits`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use ringtap_detect::{Alert, Classes, Detector, Limits, LinkType, Program, RuleSet, Sink, Variables};
//! use ringtap_wire::UdpFrame;
//!
//! /// Keeps what the rules that matched say.
//! struct Found(Vec<String>);
//!
//! impl Sink for Found {
//!     fn alert(&mut self, alert: &Alert<'_>) {
//!         self.0.push(format!("{}: {}", alert.packet.source, alert.rule.meta.message));
//!     }
//! }
//!
//! let rules = br#"alert udp any any -> any 162 (msg:"SNMP with the usual community"; content:"public"; sid:1;)"#;
//! let mut set = RuleSet::default();
//! set.add("my.rules", rules, &Variables::default(), &Classes::default());
//! // Rules that can't be used are told with file, line and reason; they take no other rule with them.
//! let mut rejected = Vec::new();
//! let (program, _bits) = Program::new(set, &mut rejected)?;
//! assert!(rejected.is_empty());
//!
//! // A packet, from a capture or made here: its bytes from the link-layer header on.
//! let frame = UdpFrame {
//!     source_mac: [2, 0, 0, 0, 0, 1],
//!     destination_mac: [2, 0, 0, 0, 0, 2],
//!     vlan: None,
//!     source: "192.0.2.7:5000".parse()?,
//!     destination: "192.0.2.1:162".parse()?,
//!     hop_limit: 64,
//!     traffic_class: 0,
//!     identification: 1,
//! };
//! let mut packet = [0; 128];
//! let len = frame.write(&mut packet, b"\x30\x2a\x02\x01\x01\x04\x06public")?;
//!
//! let mut detector = Detector::new(Arc::new(program), Limits { flows: 100, ..Limits::default() });
//! let mut found = Found(Vec::new());
//! let now_ns = 1_700_000_000_000_000_000;
//! detector.packet(&packet[..len], LinkType::Ethernet, len as u32, now_ns, &mut found);
//! assert_eq!(found.0, ["192.0.2.7: SNMP with the usual community"]);
//! assert_eq!(detector.counters().alerts, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod alert;
mod blocks;
mod decode;
mod defrag;
mod detector;
mod event;
mod fixed_vec;
mod limits;
mod matching;
mod overlap;
mod precedence;
mod program;
pub mod protocol;
mod reassembly;
pub mod rules;
mod track;
mod use_order;

pub use alert::{Alert, Content, FileView, FlowEnd, FlowView, Origin, Sink, Transaction, Whole};
pub use decode::{Decoded, Outer, Transport};
pub use defrag::DefragCounters;
pub use detector::{Counters, Detector, Limits, Profile, Scratch};
pub use event::{Event, EventSet};
pub use fixed_vec::{FillLevel, SpareVisitor};
pub use overlap::{Policies, Policy};
pub use precedence::Precedence;
pub use program::{Program, Size};
pub use protocol::http::{HttpCounters, HttpView, Settings as HttpSettings};
pub use ringtap_wire::LinkType;
pub use rules::{Classes, Coverage, Reason, Rejected, Rule, RuleSet, Variables};
pub use track::flows::FlowCounters;
pub use track::session::State as TcpState;
pub use track::tags::Tagger;

//! Intrusion detection: Suricata's rules against packets, flows and streams.
//!
//! **Owns:** the rule language ([`rules`]), decoding on top of `ringtap-wire`, flows, reassembly, matching, thresholds.
//! **Does not:** capture, open files or sockets, or write alarms: what is found is lent to the caller's [`Sink`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use ringtap_detect::rules::{Classes, RuleSet, Variables};
//! use ringtap_detect::{Alert, Detector, Limits, Program, Sink};
//! use ringtap_wire::LinkType;
//!
//! struct Print;
//! impl Sink for Print {
//!     fn alert(&mut self, alert: &Alert<'_>) {
//!         println!("{}: {}", alert.rule.meta.sid, alert.rule.meta.message);
//!     }
//! }
//!
//! let mut set = RuleSet::default();
//! let text = br#"alert udp any any -> any 162 (msg:"a trap"; content:"public"; sid:1;)"#;
//! set.add("my.rules", text, &Variables::default(), &Classes::default());
//! let mut rejected = Vec::new();
//! let (program, _bits) = Program::new(set, &mut rejected)?;
//! assert!(rejected.is_empty());
//! let mut detector = Detector::new(Arc::new(program), Limits { flows: 100, ..Limits::default() });
//! detector.packet(b"any bytes at all", LinkType::Ethernet, 16, 0, &mut Print);
//! assert_eq!(detector.counters().packets, 1);
//! # Ok::<(), String>(())
//! ```
#![forbid(unsafe_code)]

mod alert;
pub mod app;
mod decode;
mod defrag;
mod detector;
mod event;
mod filling;
mod matching;
mod overlap;
mod pieces;
mod precedence;
mod program;
pub mod rules;
mod track;

pub use alert::{Alert, FlowEnd, FlowView, Origin, Sink};
pub use decode::{Decoded, Transport};
pub use defrag::DefragCounters;
pub use detector::{Counters, Detector, Limits, Profile, Spare};
pub use event::{Event, EventSet};
pub use filling::{Filled, Spares};
pub use overlap::{Policies, Policy};
pub use precedence::Precedence;
pub use program::{Program, Size};
pub use track::flows::FlowCounters;
pub use track::session::State as TcpState;
pub use track::tags::Tagger;

//! A libpcap whose live capture on Ethernet interfaces is Ringtap's: tcpdump, tshark, Suricata and others run on it
//! unmodified.
//!
//! The straight line: a C entry point (`entry`) → the handle (`handle`) → either the real libpcap, linked in under other
//! names (`real`, build.rs), or `live`: the core's sources and pacer in the caller's thread. No thread is started and,
//! once activated, no file is opened: clients fork, change their root and drop their privileges.
//!
//! - `entry`: exported functions that take a `pcap_t`; `forward`: those that don't, and the two exported variables.
//! - `handle`: what a `pcap_t` is here. `settings`: environment and device-name options. `activate`: who captures.
//! - `live`: receiving and counting; `wait`: sleeping and the selectable descriptor; `filter`: programs for kernel and user
//!   space.
//!
//! Unsafe code is confined to what a C interface needs; each entry catches panics and answers PCAP_ERROR.

#![allow(non_upper_case_globals)] // Two exported C variables.

mod abi;
mod activate;
mod at_exit;
mod bell;
mod entry;
mod filter;
mod forward;
mod handle;
mod live;
mod real;
mod settings;
mod streams;
mod wait;

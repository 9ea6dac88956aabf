//! A libpcap whose live capture on Ethernet interfaces is Ringtap's: tcpdump, tshark, Suricata and others run on it
//! unmodified.
//!
//! The straight line: a C entry point (`entry`) → the handle (`handle`) → either the real libpcap, linked in under other
//! names (`real`, build.rs), or `live`: the core's sources and pacer in the caller's thread. No thread is started and,
//! once activated, no file is opened: clients fork, change their root and drop their privileges.
//!
//! - `entry` and `receive`: exported functions that take a `pcap_t`; `forward`: those that don't, and the two exported variables.
//! - `handle`: what a `pcap_t` is here. `settings`: environment and device-name options. `activate`: who captures.
//! - `call`: one pcap_dispatch or pcap_loop on its way; `live`: packets and counting; `wait`: sleeping and the selectable descriptor; `filter`: programs for kernel and user
//!   space.
//!
//! - `unwind`: where a client's thread may be cancelled or jump away.
//!
//! Unsafe code is confined to what a C interface needs; each entry catches panics and answers PCAP_ERROR.

#![allow(non_upper_case_globals)] // Two exported C variables.

mod abi;
mod activate;
mod at_exit;
mod call;
mod entry;
mod eventfd;
mod filter;
mod forward;
mod handle;
mod live;
mod real;
mod receive;
mod settings;
mod streams;
mod unwind;
mod wait;

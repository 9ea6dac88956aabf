//! The one way from a user's options to a running receiver, for every program around one.
//!
//! arguments ([`units`], [`arguments`], [`filter`]) → plan and configuration ([`live`], [`waiting`]) → privileges and signals
//! ([`process`], [`signals`], [`user`], [`sandbox`]) → [`process::Process::start`]. Beside it: what a service manager is told ([`service_manager`]), files and numbers that are secret
//! ([`secrets`]), the configuration that all programs share ([`one_file`]), what is said of devices ([`devices`]), what works on this host ([`doctor`]), where our libpcap is ([`pcap_library`]), what belongs to DPDK ([`dpdk`]), a program within
//! another one's process ([`beside`]).
//!
//! Does not: print results, or know what is done with packets.

pub mod arguments;
pub mod beside;
pub mod devices;
pub mod doctor;
pub mod dpdk;
pub mod filter;
pub mod kafka;
pub mod live;
pub mod notes;
pub mod one_file;
pub mod pcap_library;
pub mod process;
pub mod sandbox;
pub mod secrets;
pub mod service_manager;
pub mod signals;
pub mod units;
pub mod user;
pub mod waiting;

//! `ringtap trap` with real senders: net-snmp in every version and security level, storms on the testbed, SIGKILL in a loop, full disks, and
//! what operators do.

mod addresses;
#[path = "../../../ringtap-kafka/tests/support/mod.rs"]
mod broker;
mod crash;
mod disk;
mod faults;
mod forward;
mod kafka;
mod operation;
mod operators;
mod outputs;
mod posts;
mod reload;
mod ring;
mod root_cause;
mod senders;
mod storm;
mod support;

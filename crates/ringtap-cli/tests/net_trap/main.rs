//! `ringtap trap` with real senders: net-snmp in every version and security level, storms on the testbed, SIGKILL in a loop.

mod crash;
mod senders;
mod storm;
mod support;

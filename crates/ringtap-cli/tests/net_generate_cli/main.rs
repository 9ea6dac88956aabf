//! `ringtap generate`, the real binary inside a testbed, against libpcap at the other end.

mod refusals;
mod replay;
mod stamped;
mod support;

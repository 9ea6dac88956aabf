//! `ringtap generate`, the real binary inside a testbed, against libpcap at the other end.

mod refusals;
mod replay;
mod replays;
mod stamped;
mod support;

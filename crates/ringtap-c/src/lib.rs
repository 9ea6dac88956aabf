//! libringtap: the capture core for programs in C and in what calls C.
//!
//! The straight line: a C entry point (`entry`) → the handle, a capture (`capture`) → the core's queues, held burst by burst
//! ([`ringtap::receiver::Intake`]), and its pacer, in the caller's thread. No thread is started.
//!
//! - `abi`: the types and numbers of the header; `entry`: the functions, which check what they are given, let no panic out and
//!   keep the words of errors.
//! - `options`: from what a client asks for to what a receiver is told. `capture`: bursts, waiting, breaking off, the ledger.
//! - `at_exit`: what is put back where a client never closes. `text`: words for codes, and whose error was last.
//!
//! include/ringtap.h is made from `abi` and `entry` (tests/header.rs); docs/c-api.md is the manual.

mod abi;
mod at_exit;
mod capture;
mod entry;
mod options;
mod text;

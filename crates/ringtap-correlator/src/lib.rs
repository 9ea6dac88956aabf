//! The correlator as a library: events of many sensors become incidents, by event time.
//!
//! [`run::run`] is all of it. What rules mean is `ringtap-sigma`'s; how lines are written to outputs is `ringtap-output`'s;
//! arguments and their text are the command's.
//!
//! # An event's walk, file by file
//!
//! 1. `input/files.rs` or `input/listen.rs`, a thread for each input: bytes become lines (`input/lines.rs`) and these
//! 2. [`event::Event`]s (`input/parse.rs`); what registered sensors have sealed becomes alarms ([`alarm`]) and
//!    heartbeats (`input/keyring.rs`); in batches in a bounded channel.
//! 3. [`correlator::Correlator`], in the main thread: numbers equal records ([`identity`]), writes the event to the
//! 4. [`log`], and hands it to the
//! 5. [`engine`], where it waits in the states of its keys until
//! 6. the watermark (of heartbeats: [`sensors`] and `correlator/registered.rs`; of other inputs:
//!    `correlator/watermark.rs`) has passed it; what then is certain goes, in an order that does not depend
//!    on how events came, to whoever is told ([`render`] makes text of it) and, each 100 ms, to the
//! 7. [`store`], in one transaction with how far the log was judged.
//! 8. A restart builds the states again from the log (`correlator/rebuild.rs`), and so does a change of rules. A late event
//!    is judged again over the log (`correlator/late.rs`).
#![forbid(unsafe_code)]

pub mod config;
pub mod correlator;
pub mod engine;
pub mod explain;
pub mod input;
pub mod listing;
pub mod log;
mod metrics;
pub mod nesting;
pub mod options;
pub mod packets;
pub mod question;
pub mod render;
pub mod rule_test;
pub mod rules;
pub mod run;
pub mod said;
pub mod status;
pub mod store;
mod view;

pub use ringtap_event::{alarm, event, fields, identity, logsource, sensors};

#[cfg(test)]
mod samples {
    //! Rules and events that several modules' tests use.

    use std::sync::Arc;

    use ringtap_sigma::{Automaton, Limits, RuleSet};

    use crate::event::Event;
    use crate::input::parse::{Parser, Wanted};

    pub(crate) const RULES: &str = include_str!("../tests/rules/kinds.yml");

    pub(crate) fn automaton(rules: &str) -> Arc<Automaton> {
        let mut set = RuleSet::new();
        set.add("test", rules);
        let (automaton, rejected) = set.compile(Limits::default());
        assert!(rejected.is_empty(), "{rejected:?}");
        Arc::new(automaton)
    }

    pub(crate) fn event(time_ns: i64, kind: &str, user: &str, value: u8) -> Event {
        let line = format!(r#"{{"time":{time_ns},"kind":"{kind}","user":"{user}","value":"v{value}"}}"#);
        Parser::new(Wanted::Json, "in").event(line.as_bytes()).unwrap()
    }
}

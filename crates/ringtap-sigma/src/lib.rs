//! Sigma rules as an automaton, and the pure step function that runs it.
//!
//! **Owns:** reading Sigma 2.1 detection and correlation rules, compiling them, matching events against detections, and
//! the state of one key of one correlation.
//! **Does not:** read files, keep a clock or timers, know inputs, hold the table of keys, store incidents, or know any
//! other crate of Ringtap. The README says what rules mean and what is supported.
//!
//! ```
//! use ringtap_sigma::{Clock, Identity, Limits, Mark, Output, Row, RuleSet, Run, Value};
//!
//! let mut rules = RuleSet::new();
//! rules.add("ssh.yml", "
//! title: Failed login
//! name: failed
//! logsource: {product: linux, service: sshd}
//! detection:
//!     selection:
//!         message|startswith: 'Failed password'
//!     condition: selection
//! ---
//! title: Brute force
//! correlation:
//!     type: event_count
//!     rules: failed
//!     group-by: src_ip
//!     timespan: 1m
//!     condition: {gte: 3}
//! ");
//! let (automaton, rejected) = rules.compile(Limits::default());
//! assert!(rejected.is_empty());
//! assert_eq!(automaton.fields(), ["message", "src_ip"]);
//!
//! // Once for each input: which logsources its events are.
//! let scope = automaton.scope(|logsource| logsource.service == "sshd");
//! let mut run = Run::new(automaton);
//! let mut out = Vec::new();
//! for sequence in 0..3 {
//!     let values = [Value::Text("Failed password for root"), Value::Text("192.0.2.1")];
//!     let mark = Mark {
//!         time_ns: 1_700_000_000_000_000_000 + sequence as i64 * 1_000_000_000,
//!         identity: Identity { sensor: 1, epoch: 1, sequence },
//!         clock: Clock { domain: 1, error_us: None },
//!     };
//!     run.event(&scope, &Row { values: &values, message: "" }, mark, &mut out);
//! }
//! assert!(out.is_empty(), "the watermark has not come");
//! run.advance(1_700_000_002_000_000_000, &mut out);
//! let Output::Opened(incident) = &out[0] else { panic!() };
//! assert_eq!(incident.members.len(), 3);
//! ```
//!
//! # What a host does
//! [`Run`] is the model: a host that has its own tables of keys and timers, or keeps states in another process, does
//! what it does.
//! 1. **Input.** For each event it fills a [`Row`] in the order of [`Automaton::fields`] by its field table (names,
//!    types, case, the canonical form of an address), and a [`Mark`]. Numbers of sensors and clock domains must be the
//!    same on all hosts and after a restart: they are part of ids and states.
//! 2. **Match.** [`Matcher::matches`] gives [`Filling`]s, one for each rule and key, and what was
//!    [`skipped`](Matches::skipped), to be counted. `detections` whose [`Detection::announces`] is set are alerts by
//!    themselves.
//! 3. **Step.** [`State::step`] takes a filling with the watermark, or the watermark alone when the timer that it
//!    returned last is due. `None` instead of a timer says that the state can be dropped. A state is bytes by
//!    [`State::encode`]; equal states are equal bytes.
//!    A host that keeps events itself until the watermark has come, once for all rules of a key, gives a [`Fill`] to
//!    [`State::pass_fill`] then. [`Rule::could`] tells beforehand whether a match could be certain already.
//! 4. **Chains.** An [`Output::Hit`] goes to [`Automaton::rise`], which gives fillings of the rules above. They are
//!    given with the watermark *before* the one that brought the hit; only when a level has done all timers up to the
//!    new watermark, those above it ([`Rule::level`]) get it. So a hit is never late.
//! 5. **Incidents.** [`Opened`] tells all members of the match, [`Extended`] those that later matches bring, [`Closed`]
//!    the number of matches. `via` in a member is the incident beneath it: the tree of a chain. Rules whose
//!    [`Rule::announces`] is not set are told only as parts of others. Ids are the same on all hosts, so a store that
//!    writes by id needs no more to be idempotent.
//! 6. **Before the watermark.** [`State::preview`] says whether a match is certain already. The incident that is open
//!    at its `at_ns` in the final outputs confirms it.
//! 7. **Restart.** A state depends on the events of the last [`Rule::reach_ns`] alone: a host replays its log from
//!    [`Automaton::horizon_ns`] before the watermark, drops the outputs, and gives incidents that were open their
//!    identity by [`State::resume`]. A late event is judged again by the same means: a new state, the log of its key, and
//!    the event in its place.
//! 8. **Bounds.** A state takes at most [`Rule::window_bytes`] and [`Limits::waiting`] times [`Rule::waiting_bytes`].
//!    Which key is forgotten when the total is exceeded is the host's: [`State::expires_ns`] says which is nearest to
//!    its end, and [`State::remembered`] what goes with it.
//! 9. **Other rules.** [`Rule::version`] changes when the meaning of a rule, or of one beneath it, changes. States of
//!    rules whose [`Rule::state_version`] is in both automata go on, those of which only [`Rule::version`] is are rebuilt
//!    as after a restart; numbers of rules may differ.
//!
//! # What holds for any input
//! Rule files, bytes of automata, fillings and states, and rows may be anything: they are refused, or read in time and
//! memory that their length and [`limits`] bound. Fuzz targets begin at [`RuleSet::add`], [`Automaton::decode`],
//! [`State::decode`] (then [`State::step`]) and [`Filling::decode`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
#[macro_use]
extern crate std;

mod automaton;
mod bytes;
mod compile;
pub mod limits;
mod matcher;
mod output;
mod rules;
mod run;
mod step;
mod yaml;

pub use automaton::{Automaton, Detection, FORMAT, Logsource, Rule, Scope, Version};
pub use bytes::Damaged;
pub use limits::Limits;
pub use matcher::{Filling, Matcher, Matches, Row, Skipped, Value, Why, key_parts};
pub use output::{Closed, Doubt, Extended, Hit, Member, Opened, Output};
pub use rules::{Head, Level, Reason, Rejected, RuleSet};
pub use run::Run;
pub use step::{Certain, Clock, Fill, Identity, IncidentId, Mark, Reach, State};

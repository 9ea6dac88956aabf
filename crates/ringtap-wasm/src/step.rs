//! Owns: one call of the step function for one key of one rule.
//! Does not: keep states between calls: [`Hot`](crate::hot::Hot) does.

use ringtap_event::incident::{Found, Sensors, incident, rests_on};
use ringtap_sigma::{Filling, Mark, Matches, Output, State, Version};

use crate::Host;
use crate::frames::{Frames, Kind};
use crate::hot::Kept;
use crate::intake::{aside, send};

impl Kept for State {
    fn weight(&self) -> usize {
        Self::weight(self)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Self::encode(self, out);
    }
}

impl Host {
    /// Takes an event (empty: none) for a key, with what the host keeps of it if that was asked for, under this watermark.
    ///
    /// # Errors
    /// Bytes that another version of this program wrote.
    pub fn step(
        &mut self,
        watermark: i64,
        name: &[u8],
        stored: Option<&[u8]>,
        filling: &[u8],
        out: &mut Frames,
    ) -> Result<(), String> {
        let Some((version, key)) = name.split_first_chunk::<16>() else { return Err("a key without its rule".into()) };
        let damaged = |what: &str, error: &dyn std::fmt::Display| {
            format!("{what}: {error}; the job goes on from a savepoint of the version that wrote it only")
        };
        let filling = (!filling.is_empty()).then(|| Filling::decode(filling)).transpose();
        let filling = filling.map_err(|error| damaged("event on its way to a rule", &error))?;
        let time_ns = filling.as_ref().map_or(watermark, |filling| filling.mark.time_ns);
        let Some((_, rule)) = self.versions.with_rule(version, time_ns) else {
            match filling {
                // A configuration was taken away by force. A call that fails would come again after each restart.
                None => {
                    self.hot.forget(name, out);
                    aside(out, "", "the state of a key was dropped: its rules are gone", None, None);
                }
                Some(it) if time_ns <= watermark => {
                    let name = self.versions.name(it.mark.identity.sensor).unwrap_or_default();
                    aside(out, name, "late: its rules are gone", None, Some(&it.mark));
                }
                Some(_) => out.push(Kind::Early, &[]),
            }
            return Ok(());
        };
        let filling = filling.map(|mut filling| {
            filling.rule = rule.number;
            filling
        });
        let mut outputs = Vec::new();
        let read =
            |bytes: Option<&[u8]>| bytes.map_or_else(|| Ok(State::new(rule)), |bytes| State::decode(rule, bytes));
        let stepped = self
            .hot
            .step(name, stored, out, read, |state| state.step(rule, key, filling.as_ref(), watermark, &mut outputs));
        if !stepped.map_err(|error| damaged("state of a key", &error))? {
            return Ok(());
        }
        let mut matches = Matches::default();
        for output in outputs {
            self.tell(version, output, &mut matches, out);
        }
        Ok(())
    }

    /// Tells an output by the rules of its own time.
    fn tell(&self, version: &Version, mut output: Output, matches: &mut Matches, out: &mut Frames) {
        let (number, time_ns) = match &mut output {
            Output::Opened(it) => (&mut it.rule, it.at_ns),
            Output::Extended(it) => (&mut it.rule, it.at_ns),
            Output::Closed(it) => (&mut it.rule, it.at_ns),
            Output::Hit(it) => (&mut it.rule, it.mark.time_ns),
            Output::Late { rule, mark } | Output::Forced { rule, mark } | Output::Duplicate { rule, mark } => {
                (rule, mark.time_ns)
            }
        };
        let Some((configured, rule)) = self.versions.with_rule(version, time_ns) else { return };
        *number = rule.number;
        let automaton = &configured.automaton;
        let not_judged = |out: &mut Frames, why: &str, mark: &Mark| {
            let name = self.versions.name(mark.identity.sensor).unwrap_or_default();
            aside(out, name, &format!("{why}: {}", rule.head.label()), None, Some(mark));
        };
        match &output {
            Output::Hit(hit) => {
                automaton.rise(hit, matches);
                matches.skipped.iter().for_each(|_| out.push(Kind::Skipped, &[]));
                send(configured, matches, out);
            }
            Output::Late { mark, .. } => not_judged(out, "late", mark),
            Output::Forced { mark, .. } => not_judged(out, "judged before its time, as too many wait", mark),
            Output::Duplicate { mark, .. } => not_judged(out, "duplicate", mark),
            Output::Opened(_) | Output::Extended(_) | Output::Closed(_) => {
                let spans = rests_on(&output, automaton);
                let incomplete = spans.is_some_and(|(_, from_ns, at_ns)| self.losses.touch(from_ns, at_ns));
                let found = Found { incomplete, ..Found::default() };
                let line = rule.announces.then(|| incident(&output, found, automaton, &self.versions));
                if let Some(line) = line.flatten() {
                    out.push(Kind::Line, line.to_string().as_bytes());
                }
            }
        }
    }
}

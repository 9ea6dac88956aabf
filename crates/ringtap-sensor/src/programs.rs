//! Owns: the exchange of rules with a running engine: a program is built aside, the engine swaps it in between two cycles, and
//! what it used before comes back to be dropped where time does not matter.
//! Does not: read rules.

use std::sync::Arc;

use ringtap_detect::{Detector, Precedence, Program, Scratch};

use crate::shedding::Shedding;

/// A program on its way into or out of an engine, with its memory and what goes first.
type Loan = (Arc<Program>, Scratch, Option<Arc<Precedence>>);

/// The engine's end.
pub(crate) struct Incoming {
    incoming: rtrb::Consumer<Loan>,
    outgoing: rtrb::Producer<Loan>,
}

/// The main thread's end.
pub(crate) struct Exchange {
    to: rtrb::Producer<Loan>,
    back: rtrb::Consumer<Loan>,
    /// What the engine was sent and has not answered.
    sent: Option<Arc<Program>>,
}

/// Both ends.
pub(crate) fn exchange() -> (Exchange, Incoming) {
    let (to, incoming) = rtrb::RingBuffer::new(1);
    let (outgoing, back) = rtrb::RingBuffer::new(1);
    (Exchange { to, back, sent: None }, Incoming { incoming, outgoing })
}

impl Incoming {
    /// Uses the program that has come in, if one has.
    pub(crate) fn swap(&mut self, detector: &mut Detector, shedding: &mut Shedding) {
        if !self.outgoing.is_full()
            && let Ok((program, spare, precedence)) = self.incoming.pop()
        {
            let old = match detector.swap(program, spare) {
                Ok((program, spare)) => (program, spare, shedding.replace(precedence)),
                // Refused only when it names too many bits; whoever made it sees which one comes back.
                Err((program, spare)) => (program, spare, precedence),
            };
            drop(self.outgoing.push(old));
        }
    }
}

impl Exchange {
    /// Whether the engine has answered all it was sent, or takes no programs any more.
    pub(crate) fn is_ready(&self) -> bool {
        self.sent.is_none() || self.to.is_abandoned()
    }

    /// Sends a program to the engine, which must be ready. One that has ended keeps the rules it had.
    pub(crate) fn send(&mut self, program: &Arc<Program>, precedence: Option<Arc<Precedence>>) {
        if self.to.is_abandoned() {
            return;
        }
        // The queue of one is empty: the last program has come back.
        if self.to.push((Arc::clone(program), Scratch::new(program), precedence)).is_ok() {
            self.sent = Some(Arc::clone(program));
        }
    }

    /// Drops what the engine gave back; whether that is what it was sent, as it has no room for the bits that these rules name.
    pub(crate) fn take_back(&mut self) -> bool {
        match self.back.pop() {
            Ok((program, ..)) => self.sent.take().is_some_and(|sent| Arc::ptr_eq(&sent, &program)),
            Err(_) => false,
        }
    }
}

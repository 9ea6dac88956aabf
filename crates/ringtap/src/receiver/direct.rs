//! Opened queues in the hands of the caller's thread: no engine, no thread of ours, for programs that bring their own loop.
//!
//! Owns what holds the queues to the interface, and their ledger. When to look at the rings is the caller's business.

use std::os::fd::{AsFd, BorrowedFd};

use super::watch::{Departure, Lookout};
use super::{Receiver, Shared};
use crate::error::Result;
use crate::interface::Interface;
use crate::ledger::Ledger;
use crate::source::AnySource;
use crate::sys::sched;

/// What holds opened queues to their interface: steering, promiscuous mode, NAPI settings, accounts. Drop the queues first.
pub struct Attachment {
    shared: Shared,
    lookout: Lookout,
    interface: Interface,
    warnings: Vec<String>,
}

impl Receiver {
    /// Gives the queues to the caller, who receives on whatever thread it likes.
    ///
    /// # Errors
    /// The kernel does not announce changes of interfaces to us.
    pub fn into_direct(self) -> Result<(Vec<AnySource>, Attachment)> {
        // A pause stays as it is: no thread of ours runs beneath other programs.
        let (Self { interface, sources, shared, warnings, .. }, _) = self.paced(only_cpu(&sched::allowed_cpus()));
        let lookout = Lookout::new(&interface)?;
        let sources = sources.into_iter().map(|(source, _)| source).collect();
        Ok((sources, Attachment { shared, lookout, interface, warnings }))
    }
}

/// Where the caller's thread runs for sure: of several CPUs it may be on another than NAPI's.
fn only_cpu(allowed: &[usize]) -> &[usize] {
    if allowed.len() == 1 { allowed } else { &[] }
}

impl Attachment {
    /// The interface as it was found.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// What could not be had, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Readable when some interface changed; then ask [`Attachment::departure`]. An AF_XDP socket never tells by itself.
    pub fn link_events(&self) -> BorrowedFd<'_> {
        self.lookout.events().as_fd()
    }

    /// Whether some interface changed; takes the announcements off. For who does not wait for [`Attachment::link_events`].
    pub fn has_news(&mut self) -> bool {
        self.lookout.hear()
    }

    /// Whether packets can't come any more, and why; takes the announcements off [`Attachment::link_events`].
    pub fn departure(&mut self) -> Option<Departure> {
        self.lookout.hear();
        self.lookout.look(self.shared.yields.as_deref())
    }

    /// Leaves all packets to the host from now on, where steering takes them; when it returns, AF_XDP rings stand still. What they
    /// hold is still the caller's. The other queues are ended by [`Source::quiesce`](crate::Source::quiesce).
    pub fn shut(&self) {
        if let Some(steering) = &self.shared.steering {
            steering.shut();
        }
    }

    /// The ledger as of now, `delivered` being what the caller took off the rings; off by what they hold at the moment.
    pub fn ledger(&mut self, delivered: u64) -> Ledger {
        self.shared.ledger(delivered)
    }
}

//! Opened queues in the hands of the caller's thread: no engine, no thread of ours, for programs that bring their own loop.
//!
//! Owns what holds the queues to the interface, and their ledger. When to look at the rings is the caller's business.

use std::os::fd::{AsFd, BorrowedFd};

use super::{Receiver, Shared};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::ledger::Ledger;
use crate::source::any::AnySource;
use crate::sys::netlink::{self, LinkEvents};
use crate::sys::sched;

/// What holds opened queues to their interface: steering, promiscuous mode, NAPI settings, accounts. Drop the queues first.
pub struct Attachment {
    shared: Shared,
    events: LinkEvents,
    interface: Interface,
    warnings: Vec<String>,
}

impl Receiver {
    /// Gives the queues to the caller, who receives on whatever thread it likes.
    ///
    /// # Errors
    /// The kernel does not announce changes of interfaces to us.
    pub fn into_direct(self) -> Result<(Vec<AnySource>, Attachment)> {
        let Self { interface, queues, shared, warnings, .. } = self.paced(only_cpu(&sched::allowed_cpus()));
        let events = LinkEvents::open().map_err(|error| Error::os("watch", &interface.name, &error))?;
        let sources = queues.into_iter().map(|(source, _)| source).collect();
        Ok((sources, Attachment { shared, events, interface, warnings }))
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

    /// Readable when some interface changed; then ask [`Attachment::is_gone`]. An AF_XDP socket never tells by itself.
    pub fn link_events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Whether the interface no longer exists; takes the announcements off [`Attachment::link_events`].
    pub fn is_gone(&self) -> bool {
        self.events.clear();
        netlink::is_gone(self.interface.index)
    }

    /// The ledger as of now, `delivered` being what the caller took off the rings; off by what they hold at the moment.
    pub fn ledger(&mut self, delivered: u64) -> Ledger {
        self.shared.ledger(delivered)
    }
}

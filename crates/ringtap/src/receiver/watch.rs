//! What happens to an interface from outside while packets are taken from it: removed, moved away, put to use by the host.
//!
//! Owns the thread that hears of it and the decision what ends a capture. Ending and accounting are the receiver's.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::changes::{self, Changes};
use super::{Shared, lock};
use crate::error::{Error, Result};
use crate::host_use::HostUse;
use crate::interface::Interface;
use crate::steer::Gates;
use crate::sys::event::{Event, PollEnd, Stop};
use crate::sys::netlink::{self, LinkEvents, News};

/// Stack of the thread: where all of a process's memory is locked, what nobody uses is too.
pub(super) const STACK_BYTES: usize = 128 << 10;
/// A change comes with several announcements, and is looked at once.
const BUNCH: Duration = Duration::from_millis(20);

/// Why there is nothing to take from an interface any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Departure {
    /// It was removed.
    Removed,
    /// It was moved to another network namespace.
    Moved,
    /// It is no port any more of the bond that is captured by its ports.
    Left,
    /// The host uses it now, and AF_XDP would keep packets from it.
    Used(HostUse),
}

impl Departure {
    /// What to do about it.
    pub fn way_out(&self) -> &'static str {
        match self {
            Self::Removed | Self::Left => "what was captured before is complete",
            Self::Moved => "what was captured before is complete; go on inside that namespace: ip netns exec",
            Self::Used(_) => "what was captured before is complete; start again to copy packets beside the host",
        }
    }
}

impl fmt::Display for Departure {
    /// Follows the interface's name and a colon.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed => f.write_str("the interface was removed"),
            Self::Moved => f.write_str("the interface was moved to another network namespace"),
            Self::Left => f.write_str("the interface left its bond"),
            Self::Used(used) => write!(f, "the interface {used} now, so packets are no longer taken from the host"),
        }
    }
}

/// Looks whether the interface is still there, and still free where that matters.
#[derive(Debug)]
pub(super) struct Lookout {
    index: u32,
    port_of: Option<u32>,
    events: LinkEvents,
    /// The weightiest that was announced.
    heard: News,
}

impl Lookout {
    pub(super) fn new(interface: &Interface) -> Result<Self> {
        let events = LinkEvents::open().map_err(|error| {
            Error::os("watch", &interface.name, &error).way_out("capture goes on, but its removal may not end it")
        })?;
        Ok(Self { index: interface.index, port_of: interface.port_of, events, heard: News::None })
    }

    pub(super) fn events(&self) -> &LinkEvents {
        &self.events
    }

    /// Takes the announcements off; whether there were any.
    pub(super) fn hear(&mut self) -> bool {
        let news = self.events.take(self.index);
        self.heard = self.heard.max(news);
        news != News::None
    }

    /// Whether the end has come. Packets stay with the host then: `yields` are shut.
    pub(super) fn look(&mut self, yields: Option<&Gates>) -> Option<Departure> {
        // What is no interface of the kernel's (index 0) never goes.
        if self.index == 0 {
            return None;
        }
        let used = yields.and_then(|_| match self.port_of {
            Some(of) => HostUse::of_port(self.index, of),
            None => HostUse::of(self.index),
        });
        if netlink::is_gone(self.index) {
            return Some(self.gone());
        }
        let left = |of: u32| netlink::link_by_index(self.index).is_ok_and(|link| link.master != Some(of));
        if self.port_of.is_some_and(left) {
            yields.inspect(|gates| gates.shut());
            return Some(Departure::Left);
        }
        match used {
            // Privileges may have been given up since it was opened; what can't be asked any more is no change.
            None | Some(HostUse::Unknown { .. }) => None,
            Some(used) => {
                yields.inspect(|gates| gates.shut());
                Some(Departure::Used(used))
            }
        }
    }

    /// Where it went. The kernel takes an interface from its list first and announces it then.
    fn gone(&mut self) -> Departure {
        const PATIENCE: Duration = Duration::from_millis(500);
        let since = Instant::now();
        while self.heard < News::Removed && since.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
            self.hear();
        }
        if self.heard == News::Moved { Departure::Moved } else { Departure::Removed }
    }
}

/// The thread that watches for running engines.
pub(super) struct Watch {
    thread: Option<JoinHandle<()>>,
    departure: Arc<OnceLock<Departure>>,
}

impl Watch {
    /// Starts the thread that tells the engines when the interface is removed: not every socket does (an AF_XDP one is never
    /// readable again), and an engine on a timer does not ask. It sleeps until an interface of this network namespace changes.
    ///
    /// What `changes` without ending anything is told where they say.
    ///
    /// A card in our own hands has no interface: `asked_back` is signalled when it is unplugged or its driver is changed.
    ///
    /// The kernel counts a packet socket's packets in 32 bits since the last reading, so counters are read now and then.
    pub(super) fn start(
        interface: &Interface,
        asked_back: Option<Arc<Event>>,
        stop: Arc<Stop>,
        shared: &Shared,
        mut changes: Option<(Changes, Arc<Mutex<Vec<String>>>)>,
    ) -> Result<Self> {
        /// 2^32 packets take longer than this up to 35 million packets/s.
        const READING: Duration = Duration::from_secs(120);
        let counters = shared.steering.is_none().then(|| Arc::clone(&shared.counters));
        let yields = shared.yields.clone();
        let mut lookout = Lookout::new(interface)?;
        let departure = Arc::new(OnceLock::new());
        let told = Arc::clone(&departure);
        let watch = move || {
            let end = loop {
                if let Some(end) = lookout.look(yields.as_deref()) {
                    break end;
                }
                if let Some((changes, news)) = &mut changes {
                    lock(news).extend(changes.look());
                }
                let news = asked_back.as_ref().map_or(lookout.events().as_fd(), |event| event.as_fd());
                let limit = changes.as_ref().map(|_| changes::LOOK).or_else(|| counters.as_ref().map(|_| READING));
                match stop.wait_readable(news, limit) {
                    PollEnd::Stopped => return,
                    PollEnd::TimedOut => {
                        if let Some(counters) = &counters {
                            for source in lock(counters).iter_mut() {
                                let _ = source.read();
                            }
                        }
                    }
                    // A signal ends a wait as well.
                    PollEnd::Readable if asked_back.as_ref().is_some_and(|event| event.clear()) => {
                        break Departure::Removed;
                    }
                    PollEnd::Readable | PollEnd::Failed => {
                        if yields.is_some() && stop.wait(BUNCH) {
                            return;
                        }
                        lookout.hear();
                    }
                }
            };
            let is_there = matches!(end, Departure::Used(_) | Departure::Left);
            let _ = told.set(end);
            if is_there {
                stop.pull();
            } else {
                stop.device_gone();
            }
        };
        let thread = std::thread::Builder::new()
            .name("ringtap-link".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(watch)
            .map_err(|error| Error::os("start a thread to watch", &interface.name, &error))?;
        Ok(Self { thread: Some(thread), departure })
    }

    /// Why it ended the engines, if it did.
    pub(super) fn departure(&self) -> Option<Departure> {
        self.departure.get().cloned()
    }
}

impl Drop for Watch {
    /// The stop handle was pulled before.
    fn drop(&mut self) {
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

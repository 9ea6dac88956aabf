//! Devices that a program brings with it: sources of any crate, under a name that a receiver opens like an interface's.
//!
//! Owns which are there to be opened. What they are is in them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::backend::{Opened, Opener};
use super::{AnySource, Source};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::receiver::ReceiverConfig;

pub(super) const OPENER: Opener = Opener { name: "given", find, most_slots: u32::MAX, rings: |_, _| None, open };

/// Those that nobody has opened yet.
static GIVEN: Mutex<BTreeMap<String, Vec<AnySource>>> = Mutex::new(BTreeMap::new());

/// Gives this process a device called `name`, with a source for each of its queues, for one receiver to open by
/// [`Backend::Given`](super::Backend::Given): the way in for devices that this crate has no back end for, and for scripted ones
/// ([`crate::testing`]). All queues must be of one link type; what a configuration says of rings and queues is not heeded.
///
/// # Errors
/// There is no source, or a device of that name waits to be opened.
pub fn give(name: &str, sources: Vec<AnySource>) -> Result<()> {
    if sources.is_empty() {
        return Err(Error::usage("give the device", name, "it has no queue").way_out("give a source for each queue"));
    }
    let mut given = lock();
    if given.contains_key(name) {
        return Err(Error::usage("give the device", name, "there is one of that name").way_out("open that one first"));
    }
    given.insert(name.to_owned(), sources);
    Ok(())
}

/// What stands for the interface of a given device.
///
/// # Errors
/// There is none of this name, or it has been opened.
fn find(name: &str) -> Result<Interface> {
    let given = lock();
    let sources = given.get(name).ok_or_else(|| missing(name))?;
    let as_ethernet = Interface::given(name, sources.len());
    match sources.first().and_then(|source| source.link_type(&as_ethernet)) {
        Some(1) => Ok(as_ethernet),
        _ => Ok(Interface { queues: as_ethernet.queues, ..Interface::foreign(name) }),
    }
}

fn open(_config: &ReceiverConfig, interface: &Interface, _warnings: &mut Vec<String>) -> Result<Opened> {
    let sources = lock().remove(&interface.name).ok_or_else(|| missing(&interface.name))?;
    Ok(Opened::unsteered(sources.into_iter().map(|source| (source, None)).collect()))
}

fn missing(name: &str) -> Error {
    Error::failed("open the device", name, "nobody has given one of that name").way_out("give each receiver its own")
}

fn lock() -> MutexGuard<'static, BTreeMap<String, Vec<AnySource>>> {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

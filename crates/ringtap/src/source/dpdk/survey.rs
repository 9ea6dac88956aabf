//! Which ports DPDK has on this host, and which of them could sleep.
//!
//! Owns the trial: whether a port has a receive interrupt shows only when it is open. Each is opened for a moment, with one queue, and
//! what comes meanwhile is dropped with it.

use std::path::Path;

use super::arguments::{self, Arguments, Wants};
use super::{check_memory, refused_driver};
use crate::error::Result;
use crate::sys::available::available_memory_bytes;
use crate::sys::dpdk::{self, Eal, Request};
use crate::sys::sched;

/// Descriptors of the one queue.
const SLOTS: u32 = 512;

/// What was found.
#[derive(Debug, Clone)]
pub struct Survey {
    /// Version and file of what DPDK is used through.
    pub library: String,
    /// All ports, in DPDK's order.
    pub ports: Vec<PortFound>,
    /// What DPDK complained of when it looked for devices; empty: nothing.
    pub said: String,
}

/// One port of DPDK's.
#[derive(Debug, Clone)]
pub struct PortFound {
    /// Its name: a card's PCI address, or the name of a virtual device.
    pub name: String,
    /// The driver's name.
    pub driver: String,
    /// Most receive queues.
    pub queues: u32,
    /// Whether it has receive interrupts; else why it can't be used.
    pub sleeps: Result<bool>,
}

/// Version and file of the library for DPDK; `None` leaves the search to the dynamic linker.
///
/// # Errors
/// There is none, or it is of another version of the interface.
pub fn library_version(library: Option<&Path>) -> Result<String> {
    dpdk::version(library)
}

/// Starts EAL, which a process can do once, with these arguments (as [`crate::receiver::ReceiverConfig::dpdk_args`]), and tries each port
/// it finds.
///
/// # Errors
/// There is no library, EAL refuses the arguments, or there is too little memory.
pub fn survey(library: Option<&Path>, told: &str) -> Result<Survey> {
    let wants = Wants { port: "", cpus: &sched::allowed_cpus(), buffers: SLOTS.into(), ports: 1, huge_pages: false };
    let arguments = Arguments::new(told, wants)?;
    check_memory("all ports", arguments.mib, available_memory_bytes())?;
    arguments::remove_dead_sockets(told);
    let eal = Eal::start(library, told, &arguments.all, &arguments.without_devices)?;
    let ports = eal.ports().into_iter().filter_map(|name| try_port(eal, name)).collect();
    Ok(Survey { library: eal.name().to_owned(), ports, said: eal.said().to_owned() })
}

/// `None`: it is gone meanwhile.
fn try_port(eal: &'static Eal, name: String) -> Option<PortFound> {
    let limits = eal.limits(&name)?;
    let sleeps = match refused_driver(&name, &limits) {
        Some(error) => Err(error),
        None => {
            let request = Request { name: &name, queues: 1, slots: SLOTS, send_slots: 0, promiscuous: false };
            eal.open(&request).map(|(_port, mut queues, _)| {
                queues.iter_mut().all(|queue| {
                    let sleeps = queue.bell().is_some() && queue.arm();
                    queue.mask();
                    sleeps
                })
            })
        }
    };
    Some(PortFound { driver: limits.driver, queues: limits.queues, name, sleeps })
}

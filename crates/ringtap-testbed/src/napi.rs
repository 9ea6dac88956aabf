//! The receiving device's NAPI as a kernel thread on the receiver's core (topology host).
//!
//! Owns the `threaded` switch, the placing of the threads and the end of pauses that others left. Does not own whether the device has a NAPI at all.

use std::fs;

use ringtap::sched;
use ringtap::{Error, Result};

use crate::host::Host;
use crate::testbed::Testbed;
use crate::tools;

/// SCHED_FIFO priority of the NAPI threads; a receiver meant to live beside them takes a higher one.
pub const NAPI_PRIORITY: u8 = 50;

impl Testbed {
    /// Makes the receiver's NAPI a kernel thread, bound to `core`, SCHED_FIFO [`NAPI_PRIORITY`]; gives the threads' ids.
    /// To be called after the receiver has attached (or [`Testbed::enable_receiver_napi`]): a veth has no NAPI before.
    ///
    /// # Errors
    /// The device has no NAPI yet, or the kernel has no threaded NAPI (before 5.12).
    pub fn pin_napi(&self, core: usize) -> Result<Vec<i32>> {
        let receiver = self.receiver();
        set_threaded(receiver, receiver.interface(), true)?;
        let threads = napi_threads(receiver.interface())?;
        if threads.is_empty() {
            return Err(Error::failed("find NAPI thread of", receiver.interface(), "there is none")
                .way_out("attach the receiver first, or switch GRO on"));
        }
        for &thread in &threads {
            let object = || format!("NAPI thread {thread} of {}", receiver.interface());
            sched::set_affinity(thread, core).map_err(|error| Error::os("pin", object(), &error))?;
            sched::set_fifo(thread, NAPI_PRIORITY).map_err(|error| Error::os("make real-time", object(), &error))?;
        }
        Ok(threads)
    }

    /// Takes the pauses off the receiver's NAPI that a peer has set and left behind, as Suricata does on AF_XDP.
    ///
    /// # Errors
    /// The kernel refuses the setting.
    pub fn unpause_napi(&self) -> Result<()> {
        let receiver = self.receiver();
        receiver.run(|| {
            ["napi_defer_hard_irqs", "gro_flush_timeout"]
                .iter()
                .try_for_each(|name| tools::write(&format!("/sys/class/net/{}/{name}", receiver.interface()), "0"))
        })?
    }

    /// Gives the sender's end a NAPI of its own, a kernel thread on the generator's core: for what comes back to it.
    ///
    /// # Errors
    /// ethtool(8) is missing, or the kernel has no threaded NAPI (before 5.12).
    pub fn place_sender_napi(&self) -> Result<()> {
        place(self.sender(), self.config().generator_core)
    }

    /// Gives the receiver's NAPI back to the softirq.
    ///
    /// # Errors
    /// The kernel refuses the setting.
    pub fn unpin_napi(&self) -> Result<()> {
        set_threaded(self.receiver(), self.receiver().interface(), false)
    }
}

/// Gives a host's interface a NAPI, as a real-time kernel thread on `core`.
pub(crate) fn place(host: &Host, core: usize) -> Result<()> {
    let interface = host.interface();
    host.run(|| tools::run("ethtool", &format!("-K {interface} gro on")))??;
    set_threaded(host, interface, true)?;
    for thread in napi_threads(interface)? {
        let object = || format!("NAPI thread {thread} of {interface}");
        sched::set_affinity(thread, core).map_err(|error| Error::os("pin", object(), &error))?;
        sched::set_fifo(thread, NAPI_PRIORITY).map_err(|error| Error::os("make real-time", object(), &error))?;
    }
    Ok(())
}

/// Makes the NAPI of one of a host's interfaces kernel threads, or soft interrupts again.
pub(crate) fn set_threaded(host: &Host, interface: &str, on: bool) -> Result<()> {
    let path = format!("/sys/class/net/{interface}/threaded");
    host.run(|| tools::write(&path, if on { "1" } else { "0" }))?.map_err(|error| {
        error.way_out("attach the receiver first (a veth has NAPI only with XDP or GRO); Linux 5.12 or newer is needed")
    })
}

/// Kernel threads are not in any network namespace: they are found by name, which holds the interface's.
pub(crate) fn napi_threads(interface: &str) -> Result<Vec<i32>> {
    let prefix = format!("napi/{interface}-");
    let entries = fs::read_dir("/proc").map_err(|error| Error::os("list", "/proc", &error))?;
    let mut threads = Vec::new();
    for entry in entries.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // A process may end while we look.
        let Ok(name) = fs::read_to_string(entry.path().join("comm")) else { continue };
        if name.starts_with(&prefix) {
            threads.push(id);
        }
    }
    threads.sort_unstable();
    Ok(threads)
}

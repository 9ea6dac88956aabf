//! Pacing the kernel's NAPI where it stays in charge.
//!
//! Owns how long it pauses and where. The two values are settings of the device ([`crate::settings`] puts them back).

use serde::Serialize;

use crate::settings::{Setting, Settings};
use crate::sys::{netdev, sched};

/// Pauses between two polls of the kernel's NAPI, nanoseconds; 0 leaves its settings alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NapiPause {
    /// Where NAPI runs on another CPU than the engine.
    pub apart_ns: u64,
    /// Where its kernel thread shares the engine's CPU, so that each of its wake-ups is taken from the engine.
    pub shared_ns: u64,
    /// Where it shares that CPU, and 0 if there is no such pause: so long that the engine needs no timer of its own and
    /// waits for interrupts, which then come at this pace.
    pub instead_of_timer_ns: u64,
    /// Beside a timer of ours only while traffic is thick: the end of a pause costs as much as the interrupts of some packets.
    pub while_thick: bool,
}

impl NapiPause {
    /// The same pause wherever NAPI runs, and at any rate.
    pub fn anywhere(ns: u64) -> Self {
        Self { apart_ns: ns, shared_ns: ns, instead_of_timer_ns: 0, while_thick: false }
    }

    /// The pause for an interface whose engines run on `cpus`, and whether it makes their timer superfluous.
    pub(crate) fn at(self, ifindex: u32, cpus: &[usize]) -> (u64, bool) {
        let is_one = self.apart_ns == self.shared_ns && self.instead_of_timer_ns == 0;
        match (is_one || !shares_cpu(ifindex, cpus), self.instead_of_timer_ns) {
            (true, _) => (self.apart_ns, false),
            (false, 0) => (self.shared_ns, false),
            (false, instead_ns) => (instead_ns, true),
        }
    }
}

/// Whether a thread of the interface's NAPI may run on these CPUs only. Kernels that can't be asked are taken to have none.
fn shares_cpu(ifindex: u32, cpus: &[usize]) -> bool {
    netdev::napi_threads(ifindex).unwrap_or_default().into_iter().any(|thread| {
        let allowed = sched::allowed_cpus_of(thread);
        !allowed.is_empty() && allowed.iter().all(|cpu| cpus.contains(cpu))
    })
}

/// Has the interface's NAPI poll again `flush_timeout_ns` after it found something, `defer` times without an interrupt in between.
/// Whether it does; a warning where that can't be set.
pub(crate) fn pace(
    settings: &Settings,
    interface: &str,
    defer: u64,
    flush_timeout_ns: u64,
    warnings: &mut Vec<String>,
) -> bool {
    let set = settings
        .set(Setting::GroFlushTimeout, &flush_timeout_ns.to_string())
        .and_then(|()| settings.set(Setting::NapiDeferHardIrqs, &defer.to_string()));
    if let Err(error) = &set {
        warnings.push(format!("the kernel's NAPI on {interface} is not paced ({error}): more interrupts than needed"));
    }
    set.is_ok()
}

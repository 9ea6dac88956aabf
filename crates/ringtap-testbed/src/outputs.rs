//! Further wires of the receiving host: for what sends on, each ending in a sink that counts, and from a program to another.
//!
//! Owns their set-up. A sink's NAPI is a kernel thread on the generator's core, which so stands for the other ends of all wires; what
//! comes there is for no host, and the stack drops it.

use std::net::Ipv4Addr;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use ringtap::{Error, Result, sched};

use crate::drops::{DeviceCounters, WireCounters};
use crate::napi::{NAPI_PRIORITY, napi_threads, set_threaded};
use crate::testbed::Testbed;
use crate::tools;

/// One wire.
#[derive(Debug, Clone)]
pub struct OutputWire {
    /// Where packets are sent.
    pub interface: String,
    /// Where they arrive, in the same host.
    pub sink: String,
}

/// A wire with both ends in the receiving host: what programs there send by one end, other programs there receive at the other.
#[derive(Debug, Clone)]
pub struct InnerWire {
    /// Where it is sent. It has no address, so that any source of the far end's network will do.
    pub near: String,
    /// Where it arrives.
    pub far: String,
    /// MAC address there.
    pub far_mac: [u8; 6],
}

/// Numbers of the wires: 3 letters + up to 7 digits + 1 + up to 4 digits = IFNAMSIZ − 1.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}n{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed) % 10_000)
}

impl Testbed {
    /// Adds a wire inside the receiving host, with this address (/24) at its far end. It goes with the host.
    ///
    /// # Errors
    /// ip(8) or ethtool(8) is missing, or a setting the kernel refuses.
    pub fn add_inner_wire(&self, address: Ipv4Addr) -> Result<InnerWire> {
        let unique = unique();
        let (near, far) = (format!("nea{unique}"), format!("far{unique}"));
        self.receiver().run(|| {
            tools::ip_batch(&[
                format!("link add {near} type veth peer name {far} address 02:00:00:00:01:01"),
                format!("address add {address}/24 dev {far}"),
                format!("link set {near} up"),
                format!("link set {far} up"),
            ])?;
            tools::run("ethtool", &format!("-K {near} tx off tso off gso off")).map(|_| ())
        })??;
        Ok(InnerWire { near, far, far_mac: [2, 0, 0, 0, 1, 1] })
    }

    /// Adds so many wires to the receiving host. They go with it.
    ///
    /// # Errors
    /// ip(8) or ethtool(8) is missing, or a setting the kernel refuses.
    pub fn add_outputs(&self, count: usize) -> Result<Vec<OutputWire>> {
        let (host, core, mtu) = (self.receiver(), self.config().generator_core, self.config().mtu);
        let mut wires = Vec::new();
        for _ in 0..count {
            let unique = unique();
            let wire = OutputWire { interface: format!("out{unique}"), sink: format!("snk{unique}") };
            let OutputWire { interface, sink } = &wire;
            host.run(|| {
                tools::ip_batch(&[
                    format!("link add {interface} mtu {mtu} type veth peer name {sink} mtu {mtu}"),
                    format!("link set {interface} up"),
                    format!("link set {sink} up"),
                ])?;
                tools::run("ethtool", &format!("-K {interface} tx off tso off gso off"))?;
                // Gives it a NAPI.
                tools::run("ethtool", &format!("-K {sink} gro on")).map(|_| ())
            })??;
            set_threaded(host, sink, true)?;
            for thread in napi_threads(sink)? {
                let object = || format!("NAPI thread {thread} of {sink}");
                sched::set_affinity(thread, core).map_err(|error| Error::os("pin", object(), &error))?;
                sched::set_fifo(thread, NAPI_PRIORITY)
                    .map_err(|error| Error::os("make real-time", object(), &error))?;
            }
            wires.push(wire);
        }
        Ok(wires)
    }
}

impl OutputWire {
    /// Packets that have arrived at its other end.
    ///
    /// # Errors
    /// ip(8) or ethtool(8) is missing.
    pub fn arrived(&self, testbed: &Testbed) -> Result<u64> {
        let counters = testbed.receiver().run(|| DeviceCounters::read_here(&self.sink))??;
        let missing = || Error::failed("read the counters of", &self.sink, "it has no rx_packets");
        counters.link("rx_packets").ok_or_else(missing)
    }

    /// Counters of both its ends; to be read while nothing is sent, or they don't fit together.
    ///
    /// # Errors
    /// ip(8) or ethtool(8) is missing.
    pub fn counters(&self, testbed: &Testbed) -> Result<WireCounters> {
        let read = || {
            let sender = DeviceCounters::read_here(&self.interface)?;
            Ok(WireCounters { sender, receiver: DeviceCounters::read_here(&self.sink)? })
        };
        testbed.receiver().run(read)?
    }
}

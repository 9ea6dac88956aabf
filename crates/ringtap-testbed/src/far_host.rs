//! A third host behind the receiver, for what sends packets on: sender ── receiver ── far host.
//!
//! Owns the second wire and the host at its end. Neither end has an address, and nothing is on the wire but what the receiver sends
//! there, or the far host.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ringtap::{Error, Result};

use crate::host::{Host, Link, run_inside};
use crate::namespace::Namespace;
use crate::napi::place;
use crate::testbed::{Testbed, mac_text, quiet_defaults};
use crate::tools;

/// The far host, and the receiver's end of its wire. Both vanish with the testbed, or when this is dropped.
#[derive(Debug)]
pub struct FarHost {
    near: String,
    host: Host,
}

impl FarHost {
    /// Builds it behind `testbed`'s receiver, with the same MTU and number of queues.
    ///
    /// # Errors
    /// ip(8) or ethtool(8) missing, or a setting the kernel refuses.
    pub fn behind(testbed: &Testbed) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}n{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed) % 10_000);
        let (near, far) = (format!("out{unique}"), format!("far{unique}"));
        let with_ipv6 = Path::new("/proc/sys/net/ipv6").exists();
        let namespace = Arc::new(Namespace::new()?);
        run_inside(&namespace, || quiet_defaults(with_ipv6))??;
        let mac = |last: u8| [2, 0, 0, 0, 1, last];
        let (queues, mtu) = (testbed.config().queues, testbed.config().mtu);
        testbed.receiver().run(|| {
            tools::ip_batch(&[format!(
                "link add {near} address {} mtu {mtu} numtxqueues {queues} numrxqueues {queues} type veth \
                 peer name {far} address {} mtu {mtu} numtxqueues {queues} numrxqueues {queues} netns {}",
                mac_text(&mac(1)),
                mac_text(&mac(2)),
                namespace.net_path().display()
            )])?;
            configure(&near)
        })??;
        run_inside(&namespace, || configure(&far))??;
        let index = run_inside(&namespace, || nix::net::if_::if_nametoindex(far.as_str()))?
            .map_err(|errno| Error::os("find interface", far.clone(), &errno.into()))?;
        let link = Link {
            interface: far,
            index,
            mac: mac(2),
            ipv4: Ipv4Addr::new(198, 19, 0, 2),
            ipv6: Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 2),
        };
        Ok(Self { near, host: Host::new(namespace, link)? })
    }

    /// Name of the receiver's end of the wire.
    pub fn near(&self) -> &str {
        &self.near
    }

    /// Makes the reception of the far end a kernel thread on `core`, as a host of its own would have it: a veth's far end is else served by
    /// the CPU that sends. To be called when a receiver there has attached.
    ///
    /// # Errors
    /// The device has no NAPI, or the kernel has no threaded NAPI (before 5.12).
    pub fn place_napi(&self, core: usize) -> Result<()> {
        place(&self.host, core)
    }

    /// The host at the other end. The addresses of its link are names for a generator; the interface has none.
    pub fn host(&self) -> &Host {
        &self.host
    }
}

/// Up, without addresses and offloads; with a NAPI of its own, so that the kernel's generator may send to it.
fn configure(name: &str) -> Result<()> {
    tools::write_if_present(&format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1")?;
    tools::run("ethtool", &format!("-K {name} tx off tso off gso off gro on"))?;
    tools::ip_batch(&[format!("link set {name} up")])
}

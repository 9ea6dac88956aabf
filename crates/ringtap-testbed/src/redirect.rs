//! Forwarders of the kernel's own as peers: an XDP program that redirects, a bridge, mirred.
//!
//! Owns their set-up between two interfaces of the receiving host. What they forwarded is counted elsewhere, at the other ends.

use aya::programs::{Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader};
use ringtap::{Error, Result};

use crate::host::Host;
use crate::testbed::Testbed;
use crate::tools;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/redirect.bpf.o"));

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelForwarder {
    /// An XDP program in the driver, which redirects each frame (XDP_REDIRECT). The far end of a veth has to have a NAPI.
    Xdp,
    /// A bridge with both interfaces as ports.
    Bridge,
    /// `tc`'s action mirred behind an ingress hook.
    Mirred,
}

/// One at work; what it set is undone when it is dropped, or goes with the testbed.
pub struct RunningForwarder {
    _programs: Vec<Ebpf>,
}

impl KernelForwarder {
    /// Starts it from the first to the second of two interfaces of the receiving host, with `both` also the other way; a bridge
    /// always forwards both ways.
    ///
    /// # Errors
    /// tc(8) or ip(8) is missing, or the kernel refuses a program or a setting.
    pub fn start(self, testbed: &Testbed, interfaces: [&str; 2], both: bool) -> Result<RunningForwarder> {
        let [first, second] = interfaces;
        let mut ways = vec![(first, second)];
        if both {
            ways.push((second, first));
        }
        let host = testbed.receiver();
        let mut programs = Vec::new();
        match self {
            Self::Xdp => {
                for (from, to) in ways {
                    programs.push(host.run(|| redirect(from, to))??);
                }
            }
            Self::Bridge => host.run(|| {
                tools::ip_batch(&[
                    "link add br0 type bridge mcast_snooping 0 stp_state 0".to_owned(),
                    format!("link set {first} master br0"),
                    format!("link set {second} master br0"),
                    "link set br0 up".to_owned(),
                ])
            })??,
            Self::Mirred => {
                for (from, to) in ways {
                    mirred(host, from, to)?;
                }
            }
        }
        Ok(RunningForwarder { _programs: programs })
    }
}

fn redirect(from: &str, to: &str) -> Result<Ebpf> {
    let output = nix::net::if_::if_nametoindex(to).map_err(|errno| Error::os("find interface", to, &errno.into()))?;
    let failed =
        |cause: String| Error::failed("redirect by XDP from", from, cause).way_out("run as root, on a kernel with BPF");
    let mut program = EbpfLoader::new()
        .override_global("output", &output, true)
        .load(OBJECT)
        .map_err(|error| failed(error.to_string()))?;
    let xdp: &mut Xdp = (program.program_mut("redirect").ok_or_else(|| failed("no such program".to_owned()))?)
        .try_into()
        .map_err(|error: aya::programs::ProgramError| failed(error.to_string()))?;
    xdp.load().map_err(|error| failed(error.to_string()))?;
    xdp.attach(from, XdpMode::Driver).map_err(|error| failed(error.to_string()))?;
    Ok(program)
}

fn mirred(host: &Host, from: &str, to: &str) -> Result<()> {
    host.run(|| {
        tools::run("tc", &format!("qdisc add dev {from} clsact"))?;
        // Every frame, by a classifier that kernels have which lack matchall.
        let action = format!("u32 match u32 0 0 action mirred egress redirect dev {to}");
        tools::run("tc", &format!("filter add dev {from} ingress protocol all pref 1 {action}")).map(drop)
    })?
}

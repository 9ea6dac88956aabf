//! Everything a receiver can be told.
//!
//! Owns names and defaults. What of it a back end heeds is said at the back end.

use std::path::PathBuf;

use crate::napi::NapiPause;
use crate::pacer::Policy;
use crate::realtime::RealTime;
use crate::source::Backend;
use crate::source::packet::Filter;
use crate::steer::{Attach, Rule};

use super::Relay;

/// Which receive queues are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Queues {
    /// All the device has (AF_XDP), or one thread (packet sockets).
    #[default]
    All,
    /// The first so many, or so many threads that share a packet socket's traffic.
    Count(u32),
    /// These.
    Only(Vec<u32>),
}

/// Everything a receiver can be told.
#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    /// Interface name; for [`Backend::Vfio`] a PCI address, for [`Backend::Dpdk`] a port's name.
    pub interface: String,
    /// Back end.
    pub backend: Backend,
    /// File of the libpcap that [`Backend::Pcap`] takes; `None`: the system's.
    pub pcap_library: Option<PathBuf>,
    /// File of libringtap-dpdk.so for [`Backend::Dpdk`]; `None`: where the dynamic linker finds it.
    pub dpdk_library: Option<PathBuf>,
    /// Arguments of DPDK's EAL, divided by blanks, for [`Backend::Dpdk`]. EAL is started once in a process, with those of the first
    /// receiver.
    pub dpdk_args: String,
    /// Packets may be taken away from the host stack on an interface the host uses itself.
    pub take: bool,
    /// What to take (none: everything); only AF_XDP steers.
    pub rules: Vec<Rule>,
    /// Whether `rules` say all that the user's filter says, so that steering by them is what the user asked for.
    pub rules_are_exact: bool,
    /// How to attach XDP; `None` tries native, then generic.
    pub attach: Option<Attach>,
    /// Queues.
    pub queues: Queues,
    /// Slots of each ring.
    pub ring_slots: u32,
    /// Slots of each ring where frames are packed and the frame size was not told, as a packet may take several there
    /// ([`XdpSource::packed_frames`](crate::source::xdp::XdpSource::packed_frames)); `None`: `ring_slots`. Given, both are planned
    /// for the peak rate of the device, and several queues share them out.
    pub packed_slots: Option<u32>,
    /// Bytes per frame; `None` chooses: packed frames where AF_XDP copies, else by the MTU.
    pub frame_size: Option<u32>,
    /// Packets longer than a frame are fetched whole, by a system call each (packet ring); else they are cut.
    pub fetch_oversize: bool,
    /// Frames in huge pages (AF_XDP).
    pub huge_pages: bool,
    /// The process is another's: it may fork and receive in its child (AF_XDP; excludes huge pages), and give up its privileges
    /// before the end.
    pub across_fork: bool,
    /// Transmit slots of each queue; 0 for none.
    pub transmit_slots: u32,
    /// The handlers need both directions of a flow in one of them.
    pub flows_together: bool,
    /// Handlers at least, each with a thread of its own: those beyond the number of sources get packets by flow from these, where
    /// flows are joined ([`Devices::join_flows`](super::Devices::join_flows)). They have no transmit ring.
    pub handlers: usize,
    /// Told, line by line, what is about to be taken.
    pub tell: fn(&str),
    /// Filter in the kernel (packet sockets).
    pub filter: Option<Filter>,
    /// Leave out what the host sends (packet sockets; AF_XDP never sees it).
    pub incoming_only: bool,
    /// With AF_XDP, which never sees what the host sends: one packet ring more that takes what this filter lets through.
    pub sent_beside: Option<Filter>,
    /// Take frames that are addressed to others.
    pub promiscuous: bool,
    /// How to wait.
    pub policy: Policy,
    /// Real-time measures.
    pub realtime: RealTime,
    /// CPUs for the engine threads, in order of queues; empty: the last allowed ones.
    pub cpus: Vec<usize>,
    /// Number of the first engine among all of the program: engines of further interfaces go on to other CPUs.
    pub first_engine: usize,
    /// Pause between two polls of the kernel's NAPI where it stays in charge (AF_XDP in the driver without busy poll).
    pub napi_pause: NapiPause,
    /// Each engine ends after this many packets.
    pub packet_limit: Option<u64>,
    /// It is one of the two ports of a forwarder ([`Devices::open_relay`](super::Devices::open_relay) sets it).
    pub relay: Option<Relay>,
}

impl ReceiverConfig {
    /// Defaults for an interface: back end `auto`, all queues, everything, rings of 4096 slots.
    pub fn new(interface: impl Into<String>, policy: Policy) -> Self {
        Self {
            interface: interface.into(),
            backend: Backend::Auto,
            pcap_library: None,
            dpdk_library: None,
            dpdk_args: String::new(),
            take: false,
            rules: Vec::new(),
            rules_are_exact: true,
            attach: None,
            queues: Queues::All,
            ring_slots: 4096,
            packed_slots: None,
            frame_size: None,
            fetch_oversize: true,
            huge_pages: false,
            across_fork: false,
            transmit_slots: 0,
            flows_together: false,
            handlers: 1,
            tell: |_| {},
            filter: None,
            incoming_only: false,
            sent_beside: None,
            promiscuous: true,
            policy,
            realtime: RealTime::default(),
            cpus: Vec::new(),
            first_engine: 0,
            napi_pause: NapiPause::default(),
            packet_limit: None,
            relay: None,
        }
    }
}

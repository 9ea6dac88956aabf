//! Any of the back ends, chosen at run time: one match per burst, none per packet.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::file::FileSource;
use super::packet::PacketSource;
use super::pcap::PcapSource;
use super::socket::SocketSource;
use super::vfio::VfioSource;
use super::xdp::XdpSource;
use super::{Description, Source, StampClock, Wake};
use crate::accounts::SocketAccounts;
use crate::burst::Burst;
use crate::error::Result;
use crate::sys::event::{Doorbell, Stop};

/// One source of any kind.
pub enum AnySource {
    /// AF_XDP.
    Xdp(XdpSource),
    /// TPACKET_V2.
    Packet(PacketSource),
    /// recvmmsg(2).
    Socket(SocketSource),
    /// A device of a libpcap.
    Pcap(Box<PcapSource>),
    /// A card in our own hands.
    Vfio(Box<VfioSource>),
    /// A capture file.
    File(FileSource),
}

macro_rules! each {
    ($self:ident, $source:ident => $call:expr) => {
        match $self {
            AnySource::Xdp($source) => $call,
            AnySource::Packet($source) => $call,
            AnySource::Socket($source) => $call,
            AnySource::Pcap($source) => $call,
            AnySource::Vfio($source) => $call,
            AnySource::File($source) => $call,
        }
    };
}

impl AnySource {
    /// Reads the kernel's counters of this source from any thread, if it has some.
    pub(crate) fn accounts(&self) -> Option<SocketAccounts> {
        match self {
            Self::Xdp(source) => Some(SocketAccounts::xdp(source.fd(), source.is_packed())),
            Self::Packet(source) => Some(SocketAccounts::packet(source.fd())),
            Self::Socket(source) => Some(SocketAccounts::packet(source.fd())),
            Self::Pcap(source) => Some(SocketAccounts::library(source.published())),
            // The card counts for all its queues together.
            Self::Vfio(source) => (source.queue() == 0).then(|| SocketAccounts::card(source.card())),
            Self::File(_) => None,
        }
    }

    /// Lets packets in: sockets of a fanout group stay shut until all are there, or the first ones would get what is
    /// meant for the later ones.
    pub(crate) fn admit(&self) -> Result<()> {
        match self {
            Self::Packet(source) => source.admit(),
            Self::Socket(source) => source.admit(),
            Self::Xdp(_) | Self::Pcap(_) | Self::Vfio(_) | Self::File(_) => Ok(()),
        }
    }

    /// The socket to wait on for the device's interrupt ([`AnySource::arm`] first); files, libpcap devices and cards
    /// have none.
    pub fn wait_fd(&self) -> Option<Arc<OwnedFd>> {
        match self {
            Self::Xdp(source) => Some(source.fd()),
            Self::Packet(source) => Some(source.fd()),
            Self::Socket(source) => Some(source.fd()),
            Self::Pcap(_) | Self::Vfio(_) | Self::File(_) => None,
        }
    }

    /// Arms the device's interrupt, for a caller that waits on [`AnySource::wait_fd`] itself. `true`: packets are there
    /// already.
    pub fn arm(&mut self) -> bool {
        match self {
            Self::Xdp(source) => source.arm(),
            Self::Packet(source) => source.is_ready(),
            Self::Socket(source) => source.is_ready(),
            Self::Pcap(_) | Self::Vfio(_) | Self::File(_) => true,
        }
    }

    /// Ends these engines when the device fails or is shut for all, where nobody else would notice.
    pub(crate) fn pulls(&mut self, stop: &Arc<Stop>) {
        match self {
            Self::Pcap(source) => source.pulls(Arc::clone(stop)),
            Self::Vfio(source) => source.pulls(Arc::clone(stop)),
            Self::Xdp(_) | Self::Packet(_) | Self::Socket(_) | Self::File(_) => {}
        }
    }

    /// Rings when the device has to be given back.
    pub(crate) fn asked_back(&self) -> Option<Arc<Doorbell>> {
        match self {
            Self::Vfio(source) => Some(source.asked_back()),
            Self::Xdp(_) | Self::Packet(_) | Self::Socket(_) | Self::Pcap(_) | Self::File(_) => None,
        }
    }

    /// Why the device gives no more packets, where it has said so.
    pub(crate) fn failure(&self) -> Option<&str> {
        match self {
            Self::Pcap(source) => source.failure(),
            Self::Xdp(_) | Self::Packet(_) | Self::Socket(_) | Self::Vfio(_) | Self::File(_) => None,
        }
    }

    /// Descriptors or frame heads from the kernel that made no sense; packets that a libpcap gave beyond what was asked for.
    pub fn invalid_descriptors(&self) -> u64 {
        match self {
            Self::Xdp(source) => source.invalid_descriptors(),
            Self::Packet(source) => source.invalid_descriptors(),
            Self::Pcap(source) => source.beyond(),
            Self::Vfio(source) => source.invalid_descriptors(),
            Self::Socket(_) | Self::File(_) => 0,
        }
    }
}

impl Source for AnySource {
    fn receive(&mut self) -> Burst<'_> {
        each!(self, source => source.receive())
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        each!(self, source => source.wait_for_interrupt(stop, limit))
    }

    fn poll_device(&mut self) {
        each!(self, source => source.poll_device());
    }

    fn quiesce(&mut self) -> bool {
        each!(self, source => source.quiesce())
    }

    fn stamp_clock(&self) -> StampClock {
        each!(self, source => source.stamp_clock())
    }

    fn description(&self) -> Description {
        each!(self, source => source.description())
    }
}

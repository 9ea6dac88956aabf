//! Any of the back ends, chosen at run time: one match per burst, none per packet.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::file::FileSource;
use super::packet::PacketSource;
use super::socket::SocketSource;
use super::xdp::XdpSource;
use super::{Description, Source, StampClock, Wake};
use crate::accounts::SocketAccounts;
use crate::burst::Burst;
use crate::error::Result;
use crate::sys::event::Stop;

/// One source of any kind.
pub enum AnySource {
    /// AF_XDP.
    Xdp(XdpSource),
    /// TPACKET_V2.
    Packet(PacketSource),
    /// recvmmsg(2).
    Socket(SocketSource),
    /// A capture file.
    File(FileSource),
}

macro_rules! each {
    ($self:ident, $source:ident => $call:expr) => {
        match $self {
            AnySource::Xdp($source) => $call,
            AnySource::Packet($source) => $call,
            AnySource::Socket($source) => $call,
            AnySource::File($source) => $call,
        }
    };
}

impl AnySource {
    /// Reads the kernel's counters of this source from any thread, if it has some.
    pub(crate) fn accounts(&self) -> Option<SocketAccounts> {
        match self {
            Self::Xdp(source) => Some(SocketAccounts::xdp(source.fd())),
            Self::Packet(source) => Some(SocketAccounts::packet(source.fd())),
            Self::Socket(source) => Some(SocketAccounts::packet(source.fd())),
            Self::File(_) => None,
        }
    }

    /// Lets packets in: sockets of a fanout group stay shut until all are there, or the first ones would get what is
    /// meant for the later ones.
    pub(crate) fn admit(&self) -> Result<()> {
        match self {
            Self::Packet(source) => source.admit(),
            Self::Socket(source) => source.admit(),
            Self::Xdp(_) | Self::File(_) => Ok(()),
        }
    }

    /// The socket to wait on for the device's interrupt ([`AnySource::arm`] first); a file has none.
    pub fn wait_fd(&self) -> Option<Arc<OwnedFd>> {
        match self {
            Self::Xdp(source) => Some(source.fd()),
            Self::Packet(source) => Some(source.fd()),
            Self::Socket(source) => Some(source.fd()),
            Self::File(_) => None,
        }
    }

    /// Arms the device's interrupt, for a caller that waits on [`AnySource::wait_fd`] itself. `true`: packets are there
    /// already.
    pub fn arm(&mut self) -> bool {
        match self {
            Self::Xdp(source) => source.arm(),
            Self::Packet(source) => source.is_ready(),
            Self::Socket(source) => source.is_ready(),
            Self::File(_) => true,
        }
    }

    /// Descriptors or frame heads from the kernel that made no sense.
    pub fn invalid_descriptors(&self) -> u64 {
        match self {
            Self::Xdp(source) => source.invalid_descriptors(),
            Self::Packet(source) => source.invalid_descriptors(),
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

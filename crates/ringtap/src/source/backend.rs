//! The table of back ends: what a receiver can be told to open, and who opens it.
//!
//! Owns the names and the one line per kind of device. How a device is found, opened, counted and waited for is said in its own
//! file; which back end `auto` means is the receiver's choice.

use serde::Serialize;

use super::share::Rings;
use super::{AnySource, dpdk, given, packet, pcap, socket, vfio, xdp};
use crate::error::Result;
use crate::interface::Interface;
use crate::receiver::ReceiverConfig;
use crate::steer::Steering;
use crate::transmit::TransmitRing;

/// How one kind of device is found and opened.
pub(crate) struct Opener {
    /// Its name in reports and on the command line.
    pub(super) name: &'static str,
    /// The interface (or what stands for one) of that name.
    pub(super) find: fn(&str) -> Result<Interface>,
    /// Slots that a ring of its has at most; a plan knows no device.
    pub(super) most_slots: u32,
    /// The rings that opening it takes memory for, where that is known before.
    pub(super) rings: fn(&ReceiverConfig, &Interface) -> Option<Rings>,
    /// Opens its queues. Packets may come from then on or, where a source says so, from [`super::Source::admit`] on.
    pub(super) open: fn(&ReceiverConfig, &Interface, &mut Vec<String>) -> Result<Opened>,
}

/// What opening a back end gives.
pub(crate) struct Opened {
    /// Each queue with its transmit ring, if it has one.
    pub(crate) sources: Vec<(AnySource, Option<TransmitRing>)>,
    /// The XDP program that feeds them, where one does.
    pub(crate) steering: Option<Steering>,
}

impl Opened {
    /// Queues that nothing steers.
    pub(super) fn unsteered(sources: Vec<(AnySource, Option<TransmitRing>)>) -> Self {
        Self { sources, steering: None }
    }
}

macro_rules! backends {
    ($($(#[$doc:meta])* $variant:ident => $opener:path,)*) => {
        /// How packets are taken from the interface.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Backend {
            /// AF_XDP where that takes nothing from the host against its will, else a packet ring.
            #[default]
            Auto,
            $($(#[$doc])* $variant,)*
        }

        impl Backend {
            /// Who opens it; `Auto` stands for the packet ring until the receiver has chosen.
            fn opener(self) -> &'static Opener {
                match self {
                    Self::Auto => &packet::OPENER,
                    $(Self::$variant => &$opener,)*
                }
            }
        }
    };
}

// A new device is one line here.
backends! {
    /// AF_XDP: frames leave the host stack.
    Xdp => xdp::OPENER,
    /// A packet socket with a TPACKET_V2 ring: frames are copied beside the host stack.
    Packet => packet::OPENER,
    /// A packet socket with recvmmsg(2).
    Socket => socket::OPENER,
    /// A device of a libpcap, which need not be an interface of this host's.
    Pcap => pcap::OPENER,
    /// A card taken from the kernel, by its PCI address.
    Vfio => vfio::OPENER,
    /// A port of DPDK's, by its name there: a card's PCI address, or a virtual device.
    Dpdk => dpdk::OPENER,
    /// A device of the program's own ([`given::give`]).
    Given => given::OPENER,
}

impl Backend {
    /// Its name, as in [`super::Description::backend`]; `auto` before the choice.
    pub fn name(self) -> &'static str {
        if self == Self::Auto { "auto" } else { self.opener().name }
    }

    /// The interface of that name, which has to be up; devices of a libpcap, cards and what was given to the process need not be
    /// interfaces of this host's.
    ///
    /// # Errors
    /// There is none of this name, or it is down.
    pub fn find(self, name: &str) -> Result<Interface> {
        (self.opener().find)(name)
    }

    /// Slots that a ring has at most: what a plan proposes is cut to that, what somebody asks for is refused by the receiver.
    pub fn most_slots(self) -> u32 {
        self.opener().most_slots
    }

    /// The rings that [`Backend::open`] takes memory for, where that is known before.
    pub(crate) fn rings(self, config: &ReceiverConfig, interface: &Interface) -> Option<Rings> {
        (self.opener().rings)(config, interface)
    }

    /// Opens the queues that `config` asks for.
    pub(crate) fn open(
        self,
        config: &ReceiverConfig,
        interface: &Interface,
        warnings: &mut Vec<String>,
    ) -> Result<Opened> {
        (self.opener().open)(config, interface, warnings)
    }
}

//! An interface as Ringtap needs to know it before it opens anything.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::host_use::HostUse;
use crate::sys::{addresses, ethtool, netlink, uses};

/// ARPHRD_LOOPBACK of linux/if_arp.h.
const LOOPBACK: u16 = 772;
/// ARPHRD_ETHER and ARPHRD_LOOPBACK: both carry Ethernet headers.
const ETHERNET_TYPES: [u16; 2] = [1, LOOPBACK];

/// What was found out about an interface.
#[derive(Debug, Clone, Serialize)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// Index in its network namespace.
    pub index: u32,
    /// MTU in bytes, without the link-layer header.
    pub mtu: u32,
    /// The driver's name, where it says one.
    pub driver: Option<String>,
    /// Receive queues in use; 1 where the driver does not say.
    pub queues: u32,
    /// Administratively up.
    pub up: bool,
    /// Whether frames begin with an Ethernet header.
    pub ethernet: bool,
    /// ARPHRD_… number of its kind of hardware (linux/if_arp.h).
    pub hardware_type: u16,
    /// What it is, where it is no plain device: `vlan`, `bridge`, `bond`, `veth`.
    pub kind: Option<String>,
    /// What the host itself uses it for, so that packets taken away would be missed.
    pub host_use: Option<HostUse>,
    /// Index of the bond it is captured for; its being a port of that one is no use then.
    pub port_of: Option<u32>,
}

impl Interface {
    /// Transmit queues in use at the moment; 1 where the driver does not say.
    pub fn transmit_queues(&self) -> u32 {
        ethtool::transmit_queues(&self.name).unwrap_or(1)
    }

    /// Descriptors of each receive ring of the device, and the most it can have; `None` where the driver does not say.
    pub fn receive_ring(&self) -> Option<(u32, u32)> {
        ethtool::receive_ring(&self.name).ok().filter(|(_, most)| *most > 0)
    }

    /// Whether a feature is on, by the kernel's name (netdev_features_strings), such as `rx-lro`; `None` where the device has none of
    /// that name, or does not say.
    pub fn feature(&self, name: &str) -> Option<bool> {
        ethtool::feature(ethtool::socket().ok()?.as_fd(), &self.name, name).ok()
    }

    /// Whether the device puts all packets between two addresses on one queue, both directions and fragments too: it hashes addresses
    /// alone, and gets the same when they change places.
    ///
    /// # Errors
    /// EOPNOTSUPP where it has no such hash or does not say.
    pub fn keeps_flows_together(&self) -> io::Result<bool> {
        let socket = ethtool::socket()?;
        for flow_type in ethtool::FLOW_TYPES {
            if ethtool::rss_fields(socket.as_fd(), &self.name, flow_type)? != ethtool::RSS_ADDRESSES {
                return Ok(false);
            }
        }
        Ok(ethtool::rss_hash(socket.as_fd(), &self.name)?.is_symmetric())
    }

    /// Looks an interface up in the calling thread's network namespace.
    ///
    /// # Errors
    /// There is none of that name (lists those there are).
    pub fn find(name: &str) -> Result<Self> {
        let link = netlink::link_by_name(name).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => Error::failed("open interface", name, "there is no such interface")
                .way_out(format!("choose one of: {}", names().join(", "))),
            _ => Error::os("look up interface", name, &error),
        })?;
        Ok(Self {
            name: link.name.clone(),
            index: link.index,
            mtu: link.mtu,
            driver: ethtool::driver(name).ok().filter(|driver| !driver.is_empty()),
            queues: ethtool::receive_queues(name).unwrap_or(1),
            up: link.up,
            ethernet: ETHERNET_TYPES.contains(&link.hardware_type),
            hardware_type: link.hardware_type,
            kind: link.kind,
            host_use: HostUse::of(link.index),
            port_of: None,
        })
    }

    /// As [`Interface::find`], and refuses an interface that is down.
    ///
    /// # Errors
    /// No such interface, or it is down.
    pub fn find_up(name: &str) -> Result<Self> {
        let interface = Self::find(name)?;
        if !interface.up {
            return Err(Error::failed("open interface", name, "it is down")
                .way_out(format!("bring it up: ip link set dev {name} up")));
        }
        Ok(interface)
    }

    /// A device that only a libpcap knows ("any", a patched one's): no interface of this host's. Its packets are taken to be
    /// as long as Ethernet's, so that frames stay small and a ring holds many.
    pub fn foreign(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            index: 0,
            mtu: 1500,
            driver: None,
            queues: 1,
            up: true,
            ethernet: false,
            hardware_type: u16::MAX,
            kind: None,
            host_use: None,
            port_of: None,
        }
    }

    /// A card that no driver of the kernel's has, by its PCI address: its interface went when its driver did.
    ///
    /// # Errors
    /// There is no card at this address, or none of those that are known.
    pub fn card(address: &str) -> Result<Self> {
        const ARPHRD_ETHER: u16 = 1;
        let queues = crate::source::vfio::queues(address)?;
        let driver = Some("vfio-pci".to_owned());
        Ok(Self { ethernet: true, hardware_type: ARPHRD_ETHER, queues, driver, ..Self::foreign(address) })
    }

    /// An Ethernet device that a program brings with it.
    pub(crate) fn given(name: &str, queues: usize) -> Self {
        let queues = queues.try_into().unwrap_or(u32::MAX);
        Self { ethernet: true, hardware_type: ETHERNET_TYPES[0], queues, ..Self::foreign(name) }
    }

    /// Whether it is one that the kernel does not know: of [`Interface::foreign`], [`Interface::card`], or given by the program
    /// ([`crate::source::given`]); no interface has the index 0.
    pub fn is_foreign(&self) -> bool {
        self.index == 0
    }

    /// LINKTYPE_ value of its frames as a packet socket gives them, where they are of a kind capture files know.
    pub fn link_type(&self) -> Option<u16> {
        // From linux/if_arp.h and the registry at tcpdump.org/linktypes.html.
        match self.hardware_type {
            _ if self.ethernet => Some(1),
            // NONE (tun, WireGuard), TUNNEL, TUNNEL6, SIT: IP packets without a link-layer header.
            65534 | 768 | 769 | 776 => Some(101),
            // IEEE 802.11, plain and with a radiotap header.
            801 => Some(105),
            803 => Some(127),
            _ => None,
        }
    }

    /// Its addresses, of every scope and label.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn addresses(&self) -> Result<Vec<IpAddr>> {
        uses::addresses(self.index).map_err(|error| Error::os("read the addresses of", &self.name, &error))
    }

    /// Whether it is the loopback interface: a packet socket sees each of its packets twice, sent and received.
    pub fn is_loopback(&self) -> bool {
        self.hardware_type == LOOPBACK
    }

    /// Whether the interface still exists, and if so, whether it is up.
    pub fn state(&self) -> InterfaceState {
        if self.is_foreign() {
            return InterfaceState::Unknown;
        }
        match netlink::link_by_index(self.index) {
            Ok(link) if link.up => InterfaceState::Up,
            Ok(_) => InterfaceState::Down,
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => InterfaceState::Gone,
            Err(_) => InterfaceState::Unknown,
        }
    }
}

/// What an interface is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceState {
    /// It exists and is up.
    Up,
    /// It exists and is administratively down.
    Down,
    /// It was removed.
    Gone,
    /// The kernel did not answer, or it is none of the kernel's.
    Unknown,
}

/// Names of the interfaces of this network namespace.
pub fn names() -> Vec<String> {
    addresses::interface_names().unwrap_or_else(|_: io::Error| Vec::new())
}

//! One rtnetlink question, RTM_GETLINK (rtnetlink(7), linux/if_link.h): everything Ringtap asks about an interface.
//!
//! Works in the network namespace of the calling thread, unlike /sys, which shows the namespace it was mounted in.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What the kernel says of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// IFF_UP: administratively up.
    pub up: bool,
    /// IFF_LOWER_UP: carrier is there.
    pub carrier: bool,
    /// Maximum transmission unit, bytes without the link-layer header.
    pub mtu: u32,
    /// ARPHRD_… type (1: Ethernet, 772: loopback, 65534: none).
    pub hardware_type: u16,
    /// What it is, where it is no plain device: `vlan`, `bridge`, `bond`, `veth` (IFLA_INFO_KIND).
    pub kind: Option<String>,
    /// The alias set with `ip link set IF alias TEXT`.
    pub alias: Option<String>,
    /// Hardware address.
    pub address: Vec<u8>,
    /// Index of the bridge, bond or other device it is a port of, if any.
    pub master: Option<u32>,
    /// Index of the device below it, where the link is of a kind that has one in this namespace (a VLAN, a macvlan).
    pub lower: Option<u32>,
    /// Identifier of the XDP program attached, if any.
    pub xdp_program: Option<u32>,
    /// Interface statistics.
    pub statistics: LinkStatistics,
}

/// The counters of struct rtnl_link_stats64 that tell of received packets and their loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStatistics {
    /// Packets the host stack or XDP got from the device.
    pub rx_packets: u64,
    /// Packets given to the device.
    pub tx_packets: u64,
    /// Bad packets received.
    pub rx_errors: u64,
    /// Dropped by the host: no room in backlog or driver queue.
    pub rx_dropped: u64,
    /// Dropped by the device for want of descriptors.
    pub rx_missed_errors: u64,
    /// Receiver overrun (FIFO).
    pub rx_fifo_errors: u64,
    /// Dropped on the way out.
    pub tx_dropped: u64,
}

const IFLA_XDP_PROG_ID: u16 = 4;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_TARGET_NETNSID: u16 = 46;
const NLA_TYPE_MASK: u16 = 0x3fff;

/// struct ifinfomsg of linux/rtnetlink.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct IfInfo {
    family: u8,
    padding: u8,
    kind: u16,
    index: i32,
    flags: u32,
    change: u32,
}

/// Asks for the interface with this index.
///
/// # Errors
/// ENODEV when there is none in the calling thread's network namespace.
pub fn link_by_index(index: u32) -> io::Result<Link> {
    let index = i32::try_from(index).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    let socket = ask(index, 0)?;
    let mut reply = vec![0u8; REPLY_BYTES];
    let got = receive(&socket, &mut reply)?;
    parse_reply(&reply[..got])
}

/// Room for one answer; a dump comes in several of at most this size.
const REPLY_BYTES: usize = 32 * 1024;

/// All interfaces of the calling thread's network namespace.
///
/// # Errors
/// The kernel does not answer.
pub fn links() -> io::Result<Vec<Link>> {
    until_whole(|| {
        let socket = ask(0, libc::NLM_F_DUMP)?;
        let mut links = Vec::new();
        answers(&socket, |message| {
            links.push(parse_reply(message)?);
            Ok(())
        })?;
        Ok(links)
    })
}

/// Asks again for a table that changed while the kernel told it.
pub(super) fn until_whole<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const TRIES: usize = 100;
    let mut told = ask();
    for _ in 1..TRIES {
        if !told.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {
            break;
        }
        told = ask();
    }
    told
}

/// All that can be reached from `first` by `next`, nearest first, `first` among it: for devices that stand on one another, of which the
/// kernel tells one step each.
pub fn reached<T: Clone + PartialEq, N: IntoIterator<Item = T>>(
    first: impl IntoIterator<Item = T>,
    next: impl Fn(&T) -> N,
) -> Vec<T> {
    let mut reached: Vec<T> = first.into_iter().collect();
    let mut looked_at = 0;
    while let Some(from) = reached.get(looked_at) {
        looked_at += 1;
        for to in next(from) {
            if !reached.contains(&to) {
                reached.push(to);
            }
        }
    }
    reached
}

/// Hands each message that answers a request to `each`, until the kernel says that these were all: at the end of a dump, or
/// by the acknowledgment that NLM_F_ACK asks for.
///
/// # Errors
/// What the kernel or `each` says; InvalidData for a message that is cut; Interrupted when the table changed meanwhile, so that
/// entries may be missing or told twice.
pub(super) fn answers(socket: &OwnedFd, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    /// Of linux/netlink.h.
    const NLM_F_DUMP_INTR: u16 = 0x10;
    let mut reply = vec![0u8; REPLY_BYTES];
    let mut changed = false;
    loop {
        let got = receive(socket, &mut reply)?;
        let mut rest = &reply[..got];
        while let Some(len) = u32_at(rest, 0).map(|len| len as usize).filter(|&len| len >= size_of::<libc::nlmsghdr>())
        {
            let message = rest.get(..len).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
            changed |= u16_at(message, 6).is_some_and(|flags| flags & NLM_F_DUMP_INTR != 0);
            match u16_at(message, 4).map(i32::from) {
                // Both carry an error number; it is 0 when all went well.
                Some(libc::NLMSG_DONE | libc::NLMSG_ERROR) => {
                    return match u32_at(message, size_of::<libc::nlmsghdr>()).unwrap_or(0) as i32 {
                        0 if changed => Err(io::ErrorKind::Interrupted.into()),
                        0 => Ok(()),
                        code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
                    };
                }
                _ => each(message)?,
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        }
        if got == 0 {
            return Ok(());
        }
    }
}

/// Sends RTM_GETLINK for one interface, or for all with NLM_F_DUMP.
fn ask(index: i32, flags: libc::c_int) -> io::Result<OwnedFd> {
    let mut link = [0; size_of::<IfInfo>()];
    link[4..8].copy_from_slice(&index.to_ne_bytes());
    let socket = open(libc::NETLINK_ROUTE)?;
    datagram(&socket, libc::RTM_GETLINK, flags, &link)?;
    Ok(socket)
}

/// A socket of one of netlink's protocols.
pub(super) fn open(protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: plain system call, the result is checked and owned once.
    let raw = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Sends one request: struct nlmsghdr and what follows it.
pub(super) fn datagram(socket: &OwnedFd, kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
    let mut request = Vec::with_capacity(size_of::<libc::nlmsghdr>() + body.len());
    request.extend(((size_of::<libc::nlmsghdr>() + body.len()) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    // Sequence number and port: answers are told by the socket they come to.
    request.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    request.extend(body);
    // SAFETY: `request` is valid for reading its own length.
    let sent = unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn receive(socket: &OwnedFd, reply: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `reply` is valid for writing its own length.
    let got = unsafe { libc::recv(socket.as_raw_fd(), reply.as_mut_ptr().cast(), reply.len(), 0) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
}

/// Whether the calling thread's network namespace has no interface of this index any more; `false` when in doubt.
pub(crate) fn is_gone(index: u32) -> bool {
    link_by_index(index).is_err_and(|error| error.raw_os_error() == Some(libc::ENODEV))
}

/// The kernel's announcements of changes of interfaces, their addresses and their tc filters in the network namespace it was
/// opened in.
#[derive(Debug)]
pub struct LinkEvents {
    socket: OwnedFd,
}

impl LinkEvents {
    /// Of the calling thread's network namespace. Its descriptor is readable when something was announced.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: plain system call, the result is checked and owned once.
        let raw = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: all zeroes is a valid sockaddr_nl.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups =
            (libc::RTMGRP_LINK | libc::RTMGRP_TC | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR) as u32;
        let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: the address is valid for reading and its size is given.
        if unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { socket })
    }

    /// Takes off what has been announced; what it was about is asked anew.
    pub fn drain(&self) {
        self.take(0);
    }

    /// As [`LinkEvents::drain`]; what it was about is asked anew (`is_gone`), as announcements can be lost. Only
    /// one thing can't be asked later: where the interface `index` went.
    pub(crate) fn take(&self, index: u32) -> News {
        let mut news = News::None;
        let mut message = [0u8; 4096];
        loop {
            // A longer one is cut; what is looked for then counts as not seen.
            let heard = match receive(&self.socket, &mut message) {
                Ok(got) => news_of(&message[..got], index),
                // Some were lost, and this was cleared by reading it.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => News::Some,
                Err(_) => return news,
            };
            news = news.max(heard);
        }
    }
}

/// What was announced, the weightier last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum News {
    None,
    Some,
    /// The interface asked about was removed.
    Removed,
    /// It left for another network namespace.
    Moved,
}

fn news_of(message: &[u8], index: u32) -> News {
    let body = size_of::<libc::nlmsghdr>();
    // Ports of a bridge are announced to leave it in the same words, by another family.
    if u16_at(message, 4) != Some(libc::RTM_DELLINK)
        || message.get(body) != Some(&(libc::AF_UNSPEC as u8))
        || u32_at(message, body + 4) != Some(index)
    {
        return News::Some;
    }
    let mut behind = attributes(message.get(body + size_of::<IfInfo>()..).unwrap_or(&[]));
    if behind.any(|(kind, _)| kind == libc::IFLA_NEW_NETNSID) { News::Moved } else { News::Removed }
}

impl AsFd for LinkEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The hardware address of a veth's other end, in whatever network namespace that is; `None` for other interfaces.
///
/// # Errors
/// No such interface, or the kernel does not answer (namespaces are named to each other since Linux 4.20).
pub fn veth_peer_address(index: u32) -> io::Result<Option<Vec<u8>>> {
    let Some((peer, namespace)) = veth_end(index)? else { return Ok(None) };
    let mut question = vec![0; size_of::<IfInfo>()];
    question[4..8].copy_from_slice(&peer.to_ne_bytes());
    if let Some(namespace) = namespace {
        question.extend(8u16.to_ne_bytes());
        question.extend(IFLA_TARGET_NETNSID.to_ne_bytes());
        question.extend(namespace.to_ne_bytes());
    }
    let socket = open(libc::NETLINK_ROUTE)?;
    datagram(&socket, libc::RTM_GETLINK, 0, &question)?;
    let mut reply = vec![0u8; REPLY_BYTES];
    let got = receive(&socket, &mut reply)?;
    Ok(Some(parse_reply(&reply[..got])?.address))
}

/// The index of a veth's other end where that is in the same network namespace; `None` for others.
///
/// # Errors
/// No such interface, or the kernel does not answer.
pub fn veth_peer_here(index: u32) -> io::Result<Option<u32>> {
    Ok(veth_end(index)?.filter(|(_, namespace)| namespace.is_none()).map(|(peer, _)| peer))
}

/// A veth's other end: its index, and by which number its network namespace is known here, where it is another one.
fn veth_end(index: u32) -> io::Result<Option<(u32, Option<u32>)>> {
    let Ok(own) = i32::try_from(index) else { return Ok(None) };
    let mut reply = vec![0u8; REPLY_BYTES];
    let got = receive(&ask(own, 0)?, &mut reply)?;
    parse_reply(&reply[..got])?;
    let body = reply.get(size_of::<libc::nlmsghdr>() + size_of::<IfInfo>()..got).unwrap_or(&[]);
    let (mut peer, mut namespace, mut is_veth) = (None, None, false);
    for (kind, value) in attributes(body) {
        match kind {
            libc::IFLA_LINK => peer = u32_at(value, 0),
            libc::IFLA_LINK_NETNSID => namespace = u32_at(value, 0),
            libc::IFLA_LINKINFO => {
                is_veth = attributes(value).any(|(kind, value)| kind == IFLA_INFO_KIND && text(value) == "veth");
            }
            _ => {}
        }
    }
    Ok(peer.filter(|_| is_veth).map(|peer| (peer, namespace)))
}

/// Asks for the interface with this name.
///
/// # Errors
/// ENODEV when there is none in the calling thread's network namespace.
pub fn link_by_name(name: &str) -> io::Result<Link> {
    let c_name = std::ffi::CString::new(name).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    // SAFETY: a valid, terminated string.
    match unsafe { libc::if_nametoindex(c_name.as_ptr()) } {
        0 => Err(io::Error::from_raw_os_error(libc::ENODEV)),
        index => link_by_index(index),
    }
}

fn parse_reply(reply: &[u8]) -> io::Result<Link> {
    let short = || io::Error::new(io::ErrorKind::InvalidData, "netlink reply is cut short");
    let kind = u16_at(reply, 4).ok_or_else(short)?;
    if kind == libc::NLMSG_ERROR as u16 {
        let code = u32_at(reply, 16).ok_or_else(short)? as i32;
        return Err(io::Error::from_raw_os_error(-code));
    }
    let body = size_of::<libc::nlmsghdr>();
    let flags = u32_at(reply, body + 8).ok_or_else(short)?;
    let mut link = Link {
        hardware_type: u16_at(reply, body + 2).ok_or_else(short)?,
        index: u32_at(reply, body + 4).ok_or_else(short)?,
        up: flags & libc::IFF_UP as u32 != 0,
        carrier: flags & libc::IFF_LOWER_UP as u32 != 0,
        ..Link::default()
    };
    let (mut lower, mut underlay, mut elsewhere) = (None, None, false);
    for (kind, value) in attributes(reply.get(body + size_of::<IfInfo>()..).ok_or_else(short)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_IFALIAS => link.alias = Some(text(value)),
            libc::IFLA_MTU => link.mtu = u32_at(value, 0).ok_or_else(short)?,
            libc::IFLA_ADDRESS => link.address = value.to_vec(),
            libc::IFLA_MASTER => link.master = u32_at(value, 0),
            libc::IFLA_LINK => lower = u32_at(value, 0),
            libc::IFLA_LINK_NETNSID => elsewhere = true,
            libc::IFLA_LINKINFO => {
                link.kind = attributes(value).find(|&(kind, _)| kind == IFLA_INFO_KIND).map(|(_, value)| text(value));
                underlay = underlay_of(link.kind.as_deref(), value);
            }
            libc::IFLA_STATS64 => link.statistics = statistics(value).ok_or_else(short)?,
            libc::IFLA_XDP => {
                let program = attributes(value).find(|&(kind, _)| kind == IFLA_XDP_PROG_ID);
                link.xdp_program = program.and_then(|(_, value)| u32_at(value, 0)).filter(|&id| id != 0);
            }
            _ => {}
        }
    }
    // The other end of a pair is its link too, and not below it.
    elsewhere |= matches!(link.kind.as_deref(), Some("veth" | "netkit"));
    link.lower = underlay.or(lower).filter(|&lower| !elsewhere && lower != 0 && lower != link.index);
    Ok(link)
}

/// The device that a VXLAN tunnel is bound to, which it names among its own attributes only.
fn underlay_of(kind: Option<&str>, info: &[u8]) -> Option<u32> {
    const IFLA_INFO_DATA: u16 = 2;
    const IFLA_VXLAN_LINK: u16 = 3;
    let data = attributes(info).filter(|&(name, _)| kind == Some("vxlan") && name == IFLA_INFO_DATA);
    let mut links = data.flat_map(|(_, data)| attributes(data)).filter(|&(name, _)| name == IFLA_VXLAN_LINK);
    links.next().and_then(|(_, link)| u32_at(link, 0))
}

/// Fields of struct rtnl_link_stats64 by their place (all u64).
fn statistics(value: &[u8]) -> Option<LinkStatistics> {
    let field = |index: usize| Some(u64::from_ne_bytes(value.get(index * 8..index * 8 + 8)?.try_into().ok()?));
    Some(LinkStatistics {
        rx_packets: field(0)?,
        tx_packets: field(1)?,
        rx_errors: field(4)?,
        rx_dropped: field(6)?,
        tx_dropped: field(7)?,
        rx_fifo_errors: field(13)?,
        rx_missed_errors: field(14)?,
    })
}

/// The attributes (type, value) of a netlink message; ends at the first one that does not fit.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & NLA_TYPE_MASK;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.split(|&byte| byte == 0).next().unwrap_or(&[])).into_owned()
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_what_it_is_everywhere() {
        let link = link_by_name("lo").unwrap();
        assert_eq!(link.name, "lo");
        assert_eq!(link.hardware_type, 772);
        assert_eq!(link_by_index(link.index).unwrap().name, "lo");
        assert!(link.mtu >= 1280);
    }

    #[test]
    fn a_dump_lists_loopback_which_stands_on_nothing() {
        let links = links().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").unwrap();
        assert_eq!((lo.master, lo.lower, &lo.kind), (None, None, &None));
        assert_eq!(lo.hardware_type, 772);
    }

    #[test]
    fn an_unknown_interface_is_enodev() {
        assert_eq!(link_by_name("no-such-if0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert_eq!(link_by_index(u32::MAX).unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert_eq!(link_by_index(1_000_000).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn a_cut_reply_is_an_error_not_a_panic() {
        for len in 0..40 {
            let mut bytes = vec![0u8; len];
            if len > 5 {
                bytes[4] = libc::RTM_NEWLINK as u8;
            }
            let _ = parse_reply(&bytes);
        }
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0, "an attribute shorter than its header");
        assert_eq!(attributes(&[9, 0, 1, 0, 1]).count(), 0, "an attribute longer than the message");
    }
}

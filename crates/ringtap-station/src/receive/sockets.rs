//! Receiving by plain UDP sockets: many datagrams per system call, copied into the spool.
//!
//! Owns the sockets, their buffers, and the reading of what the kernel dropped at them. When packets come in numbers, the
//! thread naps on a timer between two readings instead of being woken for each.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, sockopt};
use ringtap::clock;
use ringtap::{Error, Result};

use super::copied::Copied;
use crate::spool::{Head, Service, SpoolProducer};
use crate::status::{ReceiveCounts, Sources};
use crate::store::Answer;

/// Datagrams of one system call.
const BATCH: usize = 128;
/// Longest UDP payload; longer is not possible, so nothing is cut.
const DATAGRAM_BYTES: usize = 65_535;
/// How often the stop flag is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Datagrams found at once from which it is worth napping.
const MANY: usize = 8;
/// Between two readings while packets come in numbers.
const NAP: Duration = Duration::from_micros(500);

// ip(7) and ipv6(7) do not name them: a datagram that was put together comes with the size of its largest fragment (Linux 4.10).
#[derive(Clone, Copy)]
struct FragmentSize4;
nix::setsockopt_impl!(FragmentSize4, libc::IPPROTO_IP, libc::IP_RECVFRAGSIZE, bool, sockopt::SetBool);
#[derive(Clone, Copy)]
struct FragmentSize6;
nix::setsockopt_impl!(FragmentSize6, libc::IPPROTO_IPV6, libc::IPV6_RECVFRAGSIZE, bool, sockopt::SetBool);

/// A bound socket.
pub(crate) struct Bound {
    socket: UdpSocket,
    service: Service,
    inode: u64,
    is_v6: bool,
}

impl Bound {
    /// Binds; `buffer` bytes of receive buffer.
    pub(crate) fn open(address: SocketAddr, service: Service, buffer: u64) -> Result<Self> {
        let name = format!("UDP {address}");
        let failed = |errno: Errno| {
            let error = Error::os("listen on", &name, &errno.into());
            match errno {
                Errno::EACCES => error.way_out("ports below 1024 need root or CAP_NET_BIND_SERVICE; or give --listen"),
                Errno::EADDRINUSE => error.way_out("another program has it: see `ss -lunp`"),
                _ => error,
            }
        };
        let family = if address.is_ipv6() { socket::AddressFamily::Inet6 } else { socket::AddressFamily::Inet };
        let flags = socket::SockFlag::SOCK_CLOEXEC | socket::SockFlag::SOCK_NONBLOCK;
        let fd = socket::socket(family, socket::SockType::Datagram, flags, None).map_err(failed)?;
        if address.is_ipv6() {
            socket::setsockopt(&fd, sockopt::Ipv6V6Only, &true).map_err(failed)?;
            socket::setsockopt(&fd, sockopt::Ipv6RecvPacketInfo, &true).map_err(failed)?;
            socket::setsockopt(&fd, FragmentSize6, &true).map_err(failed)?;
        } else {
            socket::setsockopt(&fd, sockopt::Ipv4PacketInfo, &true).map_err(failed)?;
            socket::setsockopt(&fd, FragmentSize4, &true).map_err(failed)?;
        }
        socket::setsockopt(&fd, sockopt::ReceiveTimestampns, &true).map_err(failed)?;
        // The kernel doubles it for its own book-keeping (socket(7)). FORCE needs CAP_NET_ADMIN; else net.core.rmem_max limits it.
        let bytes = usize::try_from(buffer).unwrap_or(usize::MAX).min(1 << 30);
        if socket::setsockopt(&fd, sockopt::RcvBufForce, &bytes).is_err() {
            socket::setsockopt(&fd, sockopt::RcvBuf, &bytes).map_err(failed)?;
            let got = socket::getsockopt(&fd, sockopt::RcvBuf).unwrap_or(0);
            if got / 2 < bytes {
                eprintln!(
                    "ringtap: {name}: the receive buffer is {} KiB (net.core.rmem_max); as root it would be {} KiB",
                    got / 2048,
                    bytes / 1024
                );
            }
        }
        socket::bind(fd.as_raw_fd(), &SockaddrStorage::from(address)).map_err(failed)?;
        let inode = nix::sys::stat::fstat(&fd).map_err(failed)?.st_ino;
        Ok(Self { socket: fd.into(), service, inode, is_v6: address.is_ipv6() })
    }

    /// A second handle, for answers.
    pub(crate) fn share(&self) -> Result<UdpSocket> {
        self.socket.try_clone().map_err(|error| Error::os("share", "a socket", &error))
    }

    /// Its address.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// What it is for.
    pub(crate) fn service(&self) -> Service {
        self.service
    }
}

/// What the kernel dropped at sockets: the `drops` column of /proc/net/udp (proc_pid_net(5)). `None`: a socket is not in it.
pub(crate) fn kernel_drops(inodes: &[(u64, bool)]) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    let (v4, v6) = (read("udp"), read("udp6"));
    inodes
        .iter()
        .map(|&(inode, is_v6)| {
            let table = if is_v6 { &v6 } else { &v4 };
            table.lines().skip(1).find_map(|line| {
                let mut fields = line.split_whitespace();
                (fields.nth(9)?.parse() == Ok(inode)).then(|| fields.next_back()?.parse::<u64>().ok())?
            })
        })
        .sum()
}

/// Starts the receiving thread, which leaves to rings what these have.
pub(crate) fn start(
    bound: Vec<Bound>,
    copied: &Arc<Copied>,
    producer: SpoolProducer,
    sources: &mut Sources,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<()>> {
    let counts = Arc::new(ReceiveCounts::default());
    let inodes = bound.iter().map(|bound| (bound.inode, bound.is_v6)).collect();
    // Kept open so that the drops can be read to the end.
    let kept = bound.iter().map(Bound::share).collect::<Result<Vec<_>>>()?;
    sources.add_sockets(Arc::clone(copied), Arc::clone(&counts), producer.lost(), inodes, kept);
    let copied = Arc::clone(copied);
    std::thread::Builder::new()
        .name("ringtap-udp".to_owned())
        .spawn(move || receive(&bound, &copied, producer, &counts, &stop))
        .map_err(|error| Error::os("start the thread of", "UDP sockets", &error))
}

fn receive(bound: &[Bound], copied: &Copied, mut producer: SpoolProducer, counts: &ReceiveCounts, stop: &AtomicBool) {
    let mut memory = vec![0u8; BATCH * DATAGRAM_BYTES];
    loop {
        // Looked at first: what came before the stop is still read.
        let stopping = stop.load(Ordering::Relaxed);
        let mut most = 0;
        for (index, bound) in bound.iter().enumerate() {
            // A socket that is never empty must not outlive the stop, nor starve the others.
            for _ in 0..64 {
                let (count, datagrams) = read(bound, index as u8, copied, &mut memory, &mut producer);
                counts.datagrams.fetch_add(datagrams, Ordering::Relaxed);
                most = most.max(count);
                if count < BATCH {
                    break;
                }
            }
        }
        producer.cycle_end();
        if most == 0 && stopping {
            return;
        }
        if most >= MANY {
            std::thread::sleep(NAP);
        } else if most == 0 {
            let mut wanted: Vec<PollFd<'_>> =
                bound.iter().map(|bound| PollFd::new(bound.socket.as_fd(), PollFlags::POLLIN)).collect();
            let limit = producer.next_turn().unwrap_or(LOOK);
            // Interrupted or not: the sockets are looked at next.
            let _ = poll(&mut wanted, PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO));
        }
    }
}

/// Ancillary data of a datagram (cmsg(3)): what the kernel says beside its bytes.
#[derive(Default)]
struct Ancillary {
    at_ns: Option<u64>,
    to: Option<IpAddr>,
    /// Index of the interface.
    by: Option<u32>,
    in_fragments: bool,
}

impl Ancillary {
    fn read(messages: impl Iterator<Item = ControlMessageOwned>) -> Self {
        let mut this = Self::default();
        for message in messages {
            match message {
                ControlMessageOwned::ScmTimestampns(time) => {
                    this.at_ns = Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64);
                }
                // The host's address; what the header says may be a broadcast's.
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    this.to = Some(Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr)).into());
                    this.by = info.ipi_ifindex.try_into().ok();
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    this.to = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                    this.by = Some(info.ipi6_ifindex);
                }
                // The two that were asked for besides.
                ControlMessageOwned::Unknown(_) => this.in_fragments = true,
                _ => {}
            }
        }
        this
    }
}

/// One recvmmsg(2); how many datagrams came, and how many of them were taken.
fn read(bound: &Bound, index: u8, copied: &Copied, memory: &mut [u8], producer: &mut SpoolProducer) -> (usize, u64) {
    // New ones each time: the lengths that the kernel leaves in them, of addresses and of what it told, are its room the next time.
    let control = nix::cmsg_space!(nix::sys::time::TimeSpec, libc::in6_pktinfo, libc::c_int);
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, Some(control));
    let mut slices: Vec<[IoSliceMut<'_>; 1]> =
        memory.chunks_exact_mut(DATAGRAM_BYTES).map(|chunk| [IoSliceMut::new(chunk)]).collect();
    let received =
        match socket::recvmmsg(bound.socket.as_raw_fd(), &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None)
        {
            Ok(received) => received,
            // Nothing there, or an ICMP error for an answer that we sent: neither is a datagram.
            Err(_) => return (0, 0),
        };
    let copied = copied.now();
    let (mut count, mut taken) = (0, 0);
    let mut fallback_ns = 0;
    for message in received {
        count += 1;
        let ancillary = message.cmsgs().map(Ancillary::read).unwrap_or_default();
        // A ring has no datagram that was put together here.
        if !ancillary.in_fragments && ancillary.by.is_some_and(|interface| copied.has(interface)) {
            continue;
        }
        taken += 1;
        let Some(source) = message.address.as_ref().and_then(address) else { continue };
        let at_ns = ancillary.at_ns.unwrap_or_else(|| {
            if fallback_ns == 0 {
                fallback_ns = clock::realtime_ns();
            }
            fallback_ns
        });
        let bytes = message.bytes;
        let datagram = message.iovs().next().unwrap_or_default();
        let datagram = &datagram[..bytes.min(datagram.len())];
        producer.push(Head { at_ns, source, to: ancillary.to, service: bound.service, socket: index }, datagram);
    }
    (count, taken)
}

fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    from.as_sockaddr_in()
        .map(|v4| SocketAddr::from((v4.ip(), v4.port())))
        .or_else(|| from.as_sockaddr_in6().map(|v6| SocketAddr::from((v6.ip(), v6.port()))))
}

/// Sends an answer; what the network can't take now the sender asks for again.
pub(crate) fn answer(sockets: &[UdpSocket], answer: &Answer, answered: &AtomicU64) {
    if let Some(socket) = sockets.get(usize::from(answer.socket))
        && send(socket, answer).is_ok()
    {
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

fn send(socket: &UdpSocket, answer: &Answer) -> io::Result<usize> {
    // Whoever asked knows us by the address that was asked (RFC 1122 §4.1.3.5). It may be none to send from, such as a group's.
    if let Some(from) = answer.from
        && let Ok(sent) = send_from(socket, from, answer)
    {
        return Ok(sent);
    }
    match socket.send_to(&answer.bytes, answer.to) {
        // The pending error of an earlier answer is told, and cleared, by the next call.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => socket.send_to(&answer.bytes, answer.to),
        result => result,
    }
}

fn send_from(socket: &UdpSocket, from: IpAddr, answer: &Answer) -> nix::Result<usize> {
    let (bytes, to) = ([IoSlice::new(&answer.bytes)], SockaddrStorage::from(answer.to));
    let send = |control: ControlMessage<'_>| {
        let send = || socket::sendmsg(socket.as_raw_fd(), &bytes, &[control], MsgFlags::empty(), Some(&to));
        match send() {
            Err(Errno::ECONNREFUSED) => send(),
            result => result,
        }
    };
    match from {
        IpAddr::V4(from) => send(ControlMessage::Ipv4PacketInfo(&libc::in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: libc::in_addr { s_addr: u32::from(from).to_be() },
            ipi_addr: libc::in_addr { s_addr: 0 },
        })),
        IpAddr::V6(from) => send(ControlMessage::Ipv6PacketInfo(&libc::in6_pktinfo {
            ipi6_addr: libc::in6_addr { s6_addr: from.octets() },
            ipi6_ifindex: 0,
        })),
    }
}

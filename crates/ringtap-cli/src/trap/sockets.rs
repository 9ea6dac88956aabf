//! Receiving by plain UDP sockets: many datagrams per system call, copied into the spool.
//!
//! Owns the sockets, their buffers, and the reading of what the kernel dropped at them. When packets come in numbers, the
//! thread naps on a timer between two readings instead of being woken for each (spec S1).

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, sockopt};
use ringtap::sys::clock;
use ringtap::{Error, Result};
use ringtap_trap::spool::{Head, Service, SpoolProducer};

use super::status::{ReceiveCounts, Sources};

/// Datagrams of one system call.
const BATCH: usize = 128;
/// Longest UDP payload; longer is not possible, so nothing is cut.
const DATAGRAM_BYTES: usize = 65_535;
/// How often the stop flag is looked at.
const LOOK_MS: u16 = 50;
/// Datagrams found at once from which it is worth napping.
const MANY: usize = 8;
/// Between two readings while packets come in numbers.
const NAP: Duration = Duration::from_micros(500);

/// A bound socket.
pub(super) struct Bound {
    socket: UdpSocket,
    service: Service,
    inode: u64,
    is_v6: bool,
}

impl Bound {
    /// Binds; `buffer` bytes of receive buffer, 0 for the least (a packet ring receives, the socket only answers).
    pub(super) fn open(address: SocketAddr, service: Service, buffer: u64) -> Result<Self> {
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
    pub(super) fn share(&self) -> Result<UdpSocket> {
        self.socket.try_clone().map_err(|error| Error::os("share", "a socket", &error))
    }

    /// Its address.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// What it is for.
    pub(super) fn service(&self) -> Service {
        self.service
    }
}

/// What the kernel dropped at sockets: the `drops` column of /proc/net/udp (proc_pid_net(5)). `None`: a socket is not in it.
pub(super) fn kernel_drops(inodes: &[(u64, bool)]) -> Option<u64> {
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

/// Starts the receiving thread.
pub(super) fn start(
    bound: Vec<Bound>,
    producer: SpoolProducer,
    sources: &mut Sources,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<()>> {
    let counts = Arc::new(ReceiveCounts::default());
    let inodes = bound.iter().map(|bound| (bound.inode, bound.is_v6)).collect();
    // Kept open so that the drops can be read to the end.
    let kept = bound.iter().map(Bound::share).collect::<Result<Vec<_>>>()?;
    sources.add_sockets(Arc::clone(&counts), producer.lost(), inodes, kept);
    std::thread::Builder::new()
        .name("ringtap-udp".to_owned())
        .spawn(move || receive(&bound, producer, &counts, &stop))
        .map_err(|error| Error::os("start the thread of", "UDP sockets", &error))
}

fn receive(bound: &[Bound], mut producer: SpoolProducer, counts: &ReceiveCounts, stop: &AtomicBool) {
    // Of its own for each socket: the length of the last sender's address is the room for the next one's.
    let mut headers: Vec<_> = bound
        .iter()
        .map(|_| {
            let control = nix::cmsg_space!(nix::sys::time::TimeSpec);
            MultiHeaders::<SockaddrStorage>::preallocate(BATCH, Some(control))
        })
        .collect();
    let mut memory = vec![0u8; BATCH * DATAGRAM_BYTES];
    loop {
        // Looked at first: what came before the stop is still read.
        let stopping = stop.load(Ordering::Relaxed);
        let mut most = 0;
        for (index, (bound, headers)) in bound.iter().zip(&mut headers).enumerate() {
            // A socket that is never empty must not outlive the stop, nor starve the others.
            for _ in 0..64 {
                let count = read(bound, index as u8, headers, &mut memory, &mut producer, counts);
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
            // Interrupted or not: the sockets are looked at next.
            let _ = poll(&mut wanted, PollTimeout::from(LOOK_MS));
        }
    }
}

/// One recvmmsg(2); how many datagrams came.
fn read(
    bound: &Bound,
    index: u8,
    headers: &mut MultiHeaders<SockaddrStorage>,
    memory: &mut [u8],
    producer: &mut SpoolProducer,
    counts: &ReceiveCounts,
) -> usize {
    let mut slices: Vec<[IoSliceMut<'_>; 1]> =
        memory.chunks_exact_mut(DATAGRAM_BYTES).map(|chunk| [IoSliceMut::new(chunk)]).collect();
    let received =
        match socket::recvmmsg(bound.socket.as_raw_fd(), headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None) {
            Ok(received) => received,
            // Nothing there, or an ICMP error for an answer that we sent: neither is a datagram.
            Err(_) => return 0,
        };
    let mut count = 0;
    let mut fallback_ns = 0;
    for message in received {
        count += 1;
        let Some(source) = message.address.as_ref().and_then(address) else { continue };
        let stamp = message.cmsgs().ok().and_then(|mut controls| {
            controls.find_map(|control| match control {
                ControlMessageOwned::ScmTimestampns(time) => {
                    Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
                }
                _ => None,
            })
        });
        let at_ns = stamp.unwrap_or_else(|| {
            if fallback_ns == 0 {
                fallback_ns = clock::realtime_ns();
            }
            fallback_ns
        });
        let bytes = message.bytes;
        let datagram = message.iovs().next().unwrap_or_default();
        let datagram = &datagram[..bytes.min(datagram.len())];
        producer.push(Head { at_ns, source, service: bound.service, socket: index }, datagram);
    }
    counts.datagrams.fetch_add(count as u64, Ordering::Relaxed);
    count
}

fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    from.as_sockaddr_in()
        .map(|v4| SocketAddr::from((v4.ip(), v4.port())))
        .or_else(|| from.as_sockaddr_in6().map(|v6| SocketAddr::from((v6.ip(), v6.port()))))
}

/// Sends an answer; what the network can't take now the sender asks for again.
pub(super) fn answer(sockets: &[UdpSocket], answer: &ringtap_trap::store::Answer, answered: &AtomicU64) {
    if let Some(socket) = sockets.get(usize::from(answer.socket))
        && send(socket, answer).is_ok()
    {
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

fn send(socket: &UdpSocket, answer: &ringtap_trap::store::Answer) -> io::Result<usize> {
    match socket.send_to(&answer.bytes, answer.to) {
        // The pending error of an earlier answer is told, and cleared, by the next call.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => socket.send_to(&answer.bytes, answer.to),
        result => result,
    }
}

//! Owns: a UDP socket that is read many datagrams at a time, and what the kernel dropped at it for want of room.
//! Does not: know what is in them.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use nix::errno::Errno;
use nix::sys::socket::{self, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, sockopt};
use ringtap::{Error, Result};

use super::counts::InputCounts;
use super::ears::{Ears, Hearing};

/// Datagrams of one system call.
const BATCH: usize = 64;
/// Bytes of the receive buffer; without CAP_NET_ADMIN net.core.rmem_max is the limit.
const BUFFER: usize = 32 << 20;

/// A socket with memory for what comes.
pub(super) struct Datagrams {
    socket: UdpSocket,
    hearing: Hearing,
    memory: Vec<u8>,
    /// Longest datagram; what is longer is cut, and by its length found out.
    longest: usize,
    /// The kernel's count, which is the socket's from its beginning.
    dropped: u32,
}

impl Datagrams {
    pub(super) fn new(socket: UdpSocket, longest: usize, ears: &Ears) -> Result<Self> {
        let failed = |errno: Errno| Error::os("set up", "a UDP socket", &errno.into());
        socket::setsockopt(&socket, sockopt::RxqOvfl, &1).map_err(failed)?;
        if socket::setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
            socket::setsockopt(&socket, sockopt::RcvBuf, &BUFFER).map_err(failed)?;
        }
        let hearing = ears.add(&socket).map_err(|error| Error::os("set up", "a UDP socket", &error))?;
        Ok(Self { socket, hearing, memory: vec![0; BATCH * longest], longest, dropped: 0 })
    }

    /// Waits for datagrams and hands each out; what was dropped before it is counted. What was handed out the last time
    /// counts as handed over.
    ///
    /// # Errors
    /// As of recvmmsg(2).
    pub(super) fn read(
        &mut self,
        counts: &InputCounts,
        mut work: impl FnMut(&[u8], Option<SocketAddr>),
    ) -> Result<(), Errno> {
        loop {
            match self.batch(counts, &mut work) {
                Err(Errno::EAGAIN) => self.hearing.wait(&self.socket),
                done => return done,
            }
        }
    }

    /// The datagrams that are there.
    fn batch(&mut self, counts: &InputCounts, work: &mut impl FnMut(&[u8], Option<SocketAddr>)) -> Result<(), Errno> {
        // New ones each time: the lengths that the kernel leaves in them are its room the next time.
        let control = nix::cmsg_space!(u32);
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, Some(control));
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            self.memory.chunks_exact_mut(self.longest).map(|chunk| [IoSliceMut::new(chunk)]).collect();
        let fd = self.socket.as_raw_fd();
        let received = socket::recvmmsg(fd, &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None)?;
        for message in received {
            for told in message.cmsgs().into_iter().flatten() {
                if let ControlMessageOwned::RxqOvfl(dropped) = told {
                    let more = dropped.wrapping_sub(std::mem::replace(&mut self.dropped, dropped));
                    counts.dropped.fetch_add(more.into(), Ordering::Relaxed);
                }
            }
            let from = message.address.as_ref().and_then(address);
            let datagram = message.iovs().next().unwrap_or_default();
            work(&datagram[..message.bytes.min(datagram.len())], from);
        }
        Ok(())
    }
}

fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    from.as_sockaddr_in()
        .map(|v4| SocketAddr::from((v4.ip(), v4.port())))
        .or_else(|| from.as_sockaddr_in6().map(|v6| SocketAddr::from((v6.ip(), v6.port()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        let mut datagrams = Datagrams::new(socket, 64, &Ears::default()).unwrap();
        socket::setsockopt(&datagrams.socket, sockopt::RcvBuf, &1).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let send = |number: u32| sender.send_to(&number.to_be_bytes(), to).unwrap();
        for number in 0..1000 {
            send(number);
        }
        let counts = InputCounts::new("udp");
        let (mut sent, mut taken) = (1000, 0);
        while taken + counts.dropped.load(Ordering::Relaxed) < sent && sent < 2000 {
            let _ = datagrams.read(&counts, |bytes, from| {
                taken += 1;
                assert!(bytes.len() == 4 && from.is_some());
            });
            // What is told of the last drops comes with the next datagram.
            if taken + counts.dropped.load(Ordering::Relaxed) < sent {
                send(0);
                sent += 1;
            }
        }
        assert_eq!(taken + counts.dropped.load(Ordering::Relaxed), sent);
        assert!(counts.dropped.load(Ordering::Relaxed) > 0 && taken > 0, "{taken}");
    }
}

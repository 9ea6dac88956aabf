//! One connection of syslog: its bytes, plain or within TLS (RFC 5425), and what of it is not whole yet.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::{ServerConfig, ServerConnection};

use crate::cause::Cause;
use crate::shares::network;
use crate::spool::Service;
use crate::syslog::Framer;

/// A handshake or a message that has begun and is not whole after this ends the connection.
pub(super) const UNFINISHED: Duration = Duration::from_secs(30);
/// Reads of one connection before others have their turn.
const TURN: usize = 16;
/// Reads in a row without a byte of syslog before the connection ends: a handshake or a long record takes some, one that trickles has no
/// end. (Empty records end it sooner: rustls takes 32 in a row.)
pub(super) const HOLLOW: usize = 1000;

/// What carries the bytes.
enum Wire {
    Plain,
    Tls(Box<ServerConnection>),
}

/// A connection.
pub(super) struct Connection {
    stream: TcpStream,
    wire: Wire,
    framer: Framer,
    pub(super) peer: SocketAddr,
    /// It is listed, or showed a certificate that was asked for.
    pub(super) is_known: bool,
    service: Service,
    /// Reads since the last byte of syslog.
    hollow: usize,
    /// A byte of syslog came.
    pub(super) has_said: bool,
    /// Since when a handshake or a message is not whole.
    begun: Option<Instant>,
    /// When it last said anything.
    pub(super) last: Instant,
}

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing more is there now.
    Open,
    /// There may be more.
    More,
    /// Its peer ended it, or it broke.
    Ended,
}

impl Connection {
    /// Takes a connection; with `tls` it begins with a handshake.
    pub(super) fn new(
        stream: TcpStream,
        peer: SocketAddr,
        is_known: bool,
        tls: Option<&Arc<ServerConfig>>,
        now: Instant,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // A peer that has gone without a word is found out in the end.
        let _ = setsockopt(&stream, sockopt::KeepAlive, &true);
        let wire = match tls {
            None => Wire::Plain,
            Some(config) => Wire::Tls(Box::new(ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?)),
        };
        let begun = tls.map(|_| now);
        let (framer, service) = (Framer::default(), Service::Syslog);
        Ok(Self { stream, wire, framer, peer, is_known, service, hollow: 0, has_said: false, begun, last: now })
    }

    /// Its address, without what only says that it came by IPv4.
    pub(super) fn address(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// Its network, in which strangers share their places.
    pub(super) fn network(&self) -> (u8, u64) {
        network(self.address())
    }

    /// Whether its handshake is not done.
    pub(super) fn is_handshaking(&self) -> bool {
        matches!(&self.wire, Wire::Tls(tls) if tls.is_handshaking())
    }

    /// To be waited for.
    pub(super) fn wanted(&self) -> (BorrowedFd<'_>, PollFlags) {
        let writes = matches!(&self.wire, Wire::Tls(tls) if tls.wants_write());
        (self.stream.as_fd(), if writes { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN })
    }

    /// Whether something of it is not whole.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Whether something of it is not whole for too long.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.begun.is_some_and(|begun| now.duration_since(begun) > UNFINISHED)
    }

    /// Takes what is there, a turn's worth.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        now: Instant,
        mut message: impl FnMut(Service, &[u8]),
        mut lost: impl FnMut(Cause),
    ) -> State {
        for _ in 0..TURN {
            match self.fill(buffer) {
                Ok(None) => {
                    self.hollow += 1;
                    if self.hollow == HOLLOW {
                        return State::Ended;
                    }
                }
                Ok(Some(length @ 1..)) => {
                    (self.last, self.hollow, self.has_said) = (now, 0, true);
                    let (mut messages, service) = (0, self.service);
                    let count = |bytes: &[u8]| {
                        messages += 1;
                        message(service, bytes);
                    };
                    self.framer.push(&buffer[..length], count, &mut lost);
                    // What followed a whole one has begun now; what goes on began before.
                    let goes_on = messages == 0 && self.begun.is_some();
                    if !self.framer.has_begun() {
                        self.begun = None;
                    } else if !goes_on {
                        self.begun = Some(now);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.is_handshaking() && !self.framer.has_begun() {
                        self.begun = None;
                    }
                    return State::Open;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Some(0)) | Err(_) => return State::Ended,
            }
        }
        State::More
    }

    /// What is left at the end: a line without its end is a message, the beginning of a counted one is lost.
    pub(super) fn finish(&mut self, message: impl FnOnce(Service, &[u8]), lost: impl FnOnce(Cause)) {
        self.framer.finish(|bytes| message(self.service, bytes), lost);
    }

    /// Bytes of syslog, by at most one read of the socket; 0: the end, `None`: what came had none.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Wire::Tls(tls) = &mut self.wire else { return self.stream.read(buffer).map(Some) };
        if let Some(length) = plain(tls, buffer)? {
            return Ok(Some(length));
        }
        while tls.wants_write() && tls.write_tls(&mut self.stream).is_ok() {}
        if tls.read_tls(&mut self.stream)? == 0 {
            return Ok(Some(0));
        }
        if let Err(error) = tls.process_new_packets() {
            // The peer is told why, if it still listens.
            let _ = tls.write_tls(&mut self.stream);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        while tls.wants_write() && tls.write_tls(&mut self.stream).is_ok() {}
        if !tls.is_handshaking() && tls.peer_certificates().is_some() {
            (self.is_known, self.service) = (true, Service::CertifiedSyslog);
        }
        plain(tls, buffer)
    }
}

/// Bytes of syslog that are there; 0: there will be no more.
fn plain(tls: &mut ServerConnection, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match tls.reader().read(buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        done => done.map(Some),
    }
}

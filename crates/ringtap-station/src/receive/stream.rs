//! Syslog over TCP and TLS: who may connect, how many, and for how long something may stay unfinished. One thread for all.
//!
//! Owns the limits. An idle connection is no fault and stays: senders notice its end only with the message that is lost by it. It goes when
//! there is no place for another, or no descriptor. Strangers can't keep each other out: when they have all places that they may have, the
//! network that has most gives one.

mod connection;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ringtap::clock;
use ringtap::{Error, Result};
use rustls::ServerConfig;

use crate::admission::Senders;
use crate::cause::CauseCounts;
use crate::counts::ConnectionCounts;
use crate::shares::network;
use crate::spool::{Head, Service, SpoolProducer};
use crate::status::{ReceiveCounts, Sources};
use connection::{Connection, State};

/// Connections at a time.
struct Limits {
    /// Of which strangers may have half.
    all: usize,
    /// Strangers of one network (/24 of IPv4, /64 of IPv6).
    network: usize,
    address: usize,
}

const LIMITS: Limits = Limits { all: 1024, network: 256, address: 128 };
/// A connection that was silent for so long gives its place to another.
const IDLE: Duration = Duration::from_secs(60);
/// When the kernel gives no connection, such as for want of descriptors (EMFILE): those that were silent for so long give their places,
/// and when there is none, so long before the next try.
const REST: Duration = Duration::from_secs(1);
/// How long, at the end, what peers go on sending is read.
const LAST: Duration = Duration::from_secs(2);
/// How often the stop flag is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A listening socket.
pub(crate) struct Listener {
    socket: TcpListener,
    tls: Option<Arc<ServerConfig>>,
}

/// Listens; with `tls` connections begin with a handshake.
pub(crate) fn listen(address: SocketAddr, tls: Option<Arc<ServerConfig>>) -> Result<Listener> {
    let failed = |error: io::Error| {
        let failed = Error::os("listen on", format!("TCP {address}"), &error);
        match error.kind() {
            io::ErrorKind::PermissionDenied => failed.way_out("ports below 1024 need root or CAP_NET_BIND_SERVICE"),
            io::ErrorKind::AddrInUse => failed.way_out("another program has it: see `ss -ltnp`"),
            _ => failed,
        }
    };
    let socket = TcpListener::bind(address).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(Listener { socket, tls })
}

/// What the thread works with.
pub(crate) struct Parts {
    pub(crate) listeners: Vec<Listener>,
    /// Others when the configuration is read again.
    pub(crate) senders: Arc<RwLock<Senders>>,
    pub(crate) producer: SpoolProducer,
    pub(crate) framing: Arc<CauseCounts>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Starts the thread.
pub(crate) fn start(parts: Parts, sources: &mut Sources) -> Result<JoinHandle<()>> {
    let (messages, counts) = (Arc::new(ReceiveCounts::default()), Arc::new(ConnectionCounts::default()));
    sources.add_stream(Arc::clone(&messages), Arc::clone(&counts), parts.producer.lost());
    let (connections, limits) = (Vec::new(), LIMITS);
    let server = Server { parts, messages, counts, connections, limits, rests_until: None, ending: None };
    std::thread::Builder::new()
        .name("ringtap-tcp".to_owned())
        .spawn(move || server.run())
        .map_err(|error| Error::os("start the thread of", "TCP connections", &error))
}

struct Server {
    parts: Parts,
    messages: Arc<ReceiveCounts>,
    counts: Arc<ConnectionCounts>,
    connections: Vec<Connection>,
    limits: Limits,
    /// No connection is accepted before this.
    rests_until: Option<Instant>,
    /// Since when it is to end.
    ending: Option<Instant>,
}

impl Server {
    fn run(mut self) {
        let mut buffer = vec![0; 1 << 16];
        let mut ready: Vec<bool> = Vec::new();
        loop {
            // Looked at first: what came before the stop is still read.
            let stopping = self.parts.stop.load(Ordering::Relaxed);
            let now = Instant::now();
            if stopping {
                self.ending.get_or_insert(now);
            }
            self.read(&ready, now, &mut buffer);
            if !stopping {
                self.accept(now);
            }
            self.counts.open.store(self.connections.len() as u64, Ordering::Relaxed);
            self.parts.producer.cycle_end();
            if stopping && self.connections.is_empty() {
                return;
            }
            ready = self.wait(now);
        }
    }

    /// Reads what is ready, and all that is there at the end; ends what has ended, and what is unfinished for too long.
    fn read(&mut self, ready: &[bool], now: Instant, buffer: &mut [u8]) {
        let Self { parts, messages, counts, connections, ending, .. } = self;
        let mut number = 0;
        connections.retain_mut(|connection| {
            let is_ready = ending.is_some() || ready.get(number).copied().unwrap_or(false);
            number += 1;
            let mut message = hand_over(&mut parts.producer, messages, connection.peer);
            let lost = |cause| parts.framing.add(cause);
            let state = if is_ready { connection.read(buffer, now, &mut message, lost) } else { State::Open };
            let is_overdue = connection.is_overdue(now);
            if state != State::Ended && is_overdue {
                counts.timed_out.fetch_add(1, Ordering::Relaxed);
            }
            // At the end: what of a message has begun will not be read any more, and a peer that never stops is left.
            let is_over = ending.is_some_and(|since| state == State::Open || now.duration_since(since) > LAST);
            if state == State::Ended || is_overdue || is_over {
                connection.finish(message, lost);
                return false;
            }
            true
        });
    }

    /// Takes new connections as far as there is room.
    fn accept(&mut self, now: Instant) {
        if self.rests_until.is_some_and(|until| now < until) {
            return;
        }
        self.rests_until = None;
        for number in 0..self.parts.listeners.len() {
            loop {
                let listener = &self.parts.listeners[number];
                match listener.socket.accept() {
                    Ok((stream, peer)) => {
                        let tls = listener.tls.clone();
                        let (is_taken, is_known) = {
                            let senders = self.parts.senders.read().unwrap_or_else(PoisonError::into_inner);
                            (senders.take(peer.ip()), senders.know(peer.ip()))
                        };
                        let takes = is_taken && self.has_room(peer, is_known, now);
                        let connection = takes.then(|| Connection::new(stream, peer, is_known, tls.as_ref(), now).ok());
                        match connection.flatten() {
                            Some(connection) => self.connections.push(connection),
                            None => {
                                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error)
                        if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {}
                    Err(error) => {
                        if self.counts.not_accepted.fetch_add(1, Ordering::Relaxed) == 0 {
                            eprintln!(
                                "ringtap: accept a connection of syslog: {error}; it waits for one that is silent to end: \
                                 `ulimit -n` is how many files a program may have open"
                            );
                        }
                        // What was just accepted has yet to be read.
                        if !self.close_idle(|_| true, now, REST) {
                            self.rests_until = Some(now + REST);
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Whether one more of this peer has room, if need be in the place of another.
    fn has_room(&mut self, peer: SocketAddr, is_known: bool, now: Instant) -> bool {
        let address = peer.ip().to_canonical();
        let mine = network(address);
        let count = |of: &dyn Fn(&Connection) -> bool| self.connections.iter().filter(|it| of(it)).count();
        let is_mine = |it: &Connection| !it.is_known && it.network() == mine;
        if count(&|it| it.address() == address) >= self.limits.address {
            return self.close_one_of(|it| it.address() == address, now);
        }
        if !is_known && count(&is_mine) >= self.limits.network {
            return self.close_one_of(is_mine, now);
        }
        if !is_known && count(&|it| !it.is_known) >= self.limits.all / 2 {
            return self.close_greedy(mine) || self.close_one_of(|it| !it.is_known, now);
        }
        self.connections.len() < self.limits.all || self.close_idle(|it| is_known || !it.is_known, now, IDLE)
    }

    /// Closes, of those meant, one that is idle, or one whose handshake is not done.
    fn close_one_of(&mut self, of: impl Fn(&Connection) -> bool, now: Instant) -> bool {
        self.close_idle(&of, now, IDLE) || self.close(|it| of(it) && it.is_handshaking())
    }

    /// Closes a connection of the strangers' network that has most, if there is one, one that never said anything, or, of a network with
    /// more than an eighth of what it may have, any; `false` when `mine`, with one more, would have as many.
    fn close_greedy(&mut self, mine: (u8, u64)) -> bool {
        let mut counts: HashMap<(u8, u64), usize> = HashMap::new();
        for connection in self.connections.iter().filter(|it| !it.is_known) {
            *counts.entry(connection.network()).or_default() += 1;
        }
        let own = counts.get(&mine).copied().unwrap_or(0);
        let Some((greedy, most)) =
            counts.into_iter().max_by_key(|&(_, count)| count).filter(|&(_, most)| most > own + 1)
        else {
            return false;
        };
        let of = |it: &Connection| !it.is_known && it.network() == greedy;
        self.close(|it| of(it) && it.is_handshaking()) || self.close(|it| of(it) && !it.has_said)
            // A site of usual size that talks keeps its connections, however many networks one stranger comes from.
            || (most > self.limits.network / 8 && self.close(of))
    }

    /// Closes a connection, of those meant, that has been silent for so long and has nothing begun.
    fn close_idle(&mut self, of: impl Fn(&Connection) -> bool, now: Instant, idle: Duration) -> bool {
        self.close(|it| of(it) && now.duration_since(it.last) >= idle && !it.has_begun())
    }

    /// Closes the connection, of those meant, that has been silent longest.
    fn close(&mut self, of: impl Fn(&Connection) -> bool) -> bool {
        let longest = (0..self.connections.len())
            .filter(|&number| of(&self.connections[number]))
            .min_by_key(|&number| self.connections[number].last);
        let Some(number) = longest else { return false };
        let mut connection = self.connections.remove(number);
        let message = hand_over(&mut self.parts.producer, &self.messages, connection.peer);
        connection.finish(message, |cause| self.parts.framing.add(cause));
        self.counts.closed.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Waits for something to read; which connections have it.
    fn wait(&self, now: Instant) -> Vec<bool> {
        let accepts = self.rests_until.is_none_or(|until| now >= until);
        let mut wanted: Vec<PollFd<'_>> = Vec::with_capacity(self.connections.len() + self.parts.listeners.len());
        wanted.extend(self.connections.iter().map(|connection| {
            let (fd, flags) = connection.wanted();
            PollFd::new(fd, flags)
        }));
        let listeners = self.parts.listeners.iter().filter(|_| accepts);
        wanted.extend(listeners.map(|listener| PollFd::new(listener.socket.as_fd(), PollFlags::POLLIN)));
        let limit = self.parts.producer.next_turn().unwrap_or(LOOK);
        let found = poll(&mut wanted, PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO));
        wanted[..self.connections.len()]
            .iter()
            .map(|fd| found.is_ok() && fd.revents().is_none_or(|events| !events.is_empty()))
            .collect()
    }
}

/// What takes a peer's messages to the spool.
fn hand_over<'a>(
    producer: &'a mut SpoolProducer,
    messages: &'a ReceiveCounts,
    source: SocketAddr,
) -> impl FnMut(Service, &[u8]) + 'a {
    // Nothing is answered.
    let (at_ns, socket) = (clock::realtime_ns(), u8::MAX);
    move |service, bytes| {
        messages.datagrams.fetch_add(1, Ordering::Relaxed);
        producer.push(Head { at_ns, source, to: None, service, socket }, bytes);
    }
}

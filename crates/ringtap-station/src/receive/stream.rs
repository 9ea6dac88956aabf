//! Syslog over TCP: connections, their framing, and their ends. One thread for all.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ringtap::clock;
use ringtap::{Error, Result};

use crate::cause::CauseCounts;
use crate::spool::{Head, Service, SpoolProducer};
use crate::status::{ReceiveCounts, Sources};
use crate::syslog::Framer;

/// Connections at a time; further ones wait in the listener's queue.
const MAX_CONNECTIONS: usize = 1024;
/// How often the stop flag is looked at.
const LOOK_MS: u16 = 50;

struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    framer: Framer,
}

/// Listens.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener> {
    let failed = |error: std::io::Error| Error::os("listen on", format!("TCP {address}"), &error);
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Starts the thread.
pub(crate) fn start(
    listeners: Vec<TcpListener>,
    producer: SpoolProducer,
    sources: &mut Sources,
    framing: Arc<CauseCounts>,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<()>> {
    let counts = Arc::new(ReceiveCounts::default());
    sources.add_stream(Arc::clone(&counts), producer.lost());
    std::thread::Builder::new()
        .name("ringtap-tcp".to_owned())
        .spawn(move || serve(&listeners, producer, &counts, &framing, &stop))
        .map_err(|error| Error::os("start the thread of", "TCP connections", &error))
}

fn serve(
    listeners: &[TcpListener],
    mut producer: SpoolProducer,
    counts: &ReceiveCounts,
    framing: &CauseCounts,
    stop: &AtomicBool,
) {
    let mut connections: Vec<Connection> = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        // Looked at first: what came before the stop is still read.
        let stopping = stop.load(Ordering::Relaxed);
        if !stopping && connections.len() < MAX_CONNECTIONS {
            for listener in listeners {
                while let Ok((stream, peer)) = listener.accept() {
                    if stream.set_nonblocking(true).is_ok() {
                        connections.push(Connection { stream, peer, framer: Framer::default() });
                    }
                }
            }
        }
        connections.retain_mut(|connection| {
            let head = Head {
                at_ns: clock::realtime_ns(),
                source: connection.peer,
                // Nothing is answered.
                to: None,
                service: Service::Syslog,
                socket: u8::MAX,
            };
            let mut message = |bytes: &[u8]| {
                counts.datagrams.fetch_add(1, Ordering::Relaxed);
                producer.push(head, bytes);
            };
            // A chatty peer must not starve the others.
            for _ in 0..16 {
                match connection.stream.read(&mut buffer) {
                    Ok(length @ 1..) => {
                        connection.framer.push(&buffer[..length], &mut message, |cause| framing.add(cause))
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        if stopping {
                            // The rest of a message that has begun will not be read any more.
                            connection.framer.finish(message, |cause| framing.add(cause));
                        }
                        return !stopping;
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => {
                        connection.framer.finish(message, |cause| framing.add(cause));
                        return false;
                    }
                }
            }
            true
        });
        producer.cycle_end();
        if stopping && connections.is_empty() {
            return;
        }
        let open = connections.len() < MAX_CONNECTIONS;
        let mut wanted: Vec<PollFd<'_>> =
            connections.iter().map(|connection| PollFd::new(connection.stream.as_fd(), PollFlags::POLLIN)).collect();
        wanted
            .extend(listeners.iter().filter(|_| open).map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN)));
        let _ = poll(&mut wanted, PollTimeout::from(LOOK_MS));
    }
}

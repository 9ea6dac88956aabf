//! Owns: sockets that JSON lines come by: TCP, UDP and Unix streams; the thread of each and of each connection.
//! Does not: know who may send: nobody proves who they are, so only loopback and files' rights keep others out.

use std::fs;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_run::notes;

use super::counts::InputCounts;
use super::files::Next;
use super::parse::{Parser, Wanted};
use super::reader;
use crate::event::Event;

/// Connections at once.
const MAX_CONNECTIONS: usize = 256;
/// Senders that are counted apart.
const MAX_INPUTS: usize = 1024;
/// Batches that may wait.
const WAITING: usize = 64;
/// Longest datagram.
const MAX_DATAGRAM: usize = 65_536;
/// A listener that can't accept is tried again after this.
const RETRY: Duration = Duration::from_millis(100);

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// TCP and UDP.
    Address(SocketAddr),
    /// A Unix stream socket.
    Path(PathBuf),
}

impl Place {
    /// The path, if it is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Address(_) => None,
            Self::Path(path) => Some(path),
        }
    }

    /// Reads an option: `ADDRESS:PORT`, or a path.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(address) => Ok(Self::Address(address)),
            Err(_) if text.contains('/') => Ok(Self::Path(text.into())),
            Err(_) => Err(format!("{text:?} is neither ADDRESS:PORT nor a path with a slash")),
        }
    }
}

/// What all threads share.
#[derive(Clone)]
struct Shared {
    wanted: Wanted,
    sender: SyncSender<Vec<Event>>,
    connections: Arc<AtomicUsize>,
    counts: Arc<Mutex<Vec<Arc<InputCounts>>>>,
}

/// Sockets that are listened to.
pub struct Listening {
    events: Receiver<Vec<Event>>,
    heads: std::vec::IntoIter<Event>,
    counts: Arc<Mutex<Vec<Arc<InputCounts>>>>,
    addresses: Vec<SocketAddr>,
}

impl Listening {
    /// Listens.
    ///
    /// # Errors
    /// An address is taken or not ours; a thread can't be started.
    pub fn open(places: &[Place], wanted: Wanted) -> Result<Self> {
        let (sender, events) = mpsc::sync_channel(WAITING);
        let counts: Arc<Mutex<Vec<Arc<InputCounts>>>> = Arc::default();
        let shared = Shared { wanted, sender, connections: Arc::default(), counts: Arc::clone(&counts) };
        let mut this = Self { events, heads: Vec::new().into_iter(), counts, addresses: Vec::new() };
        for place in places {
            match place {
                Place::Address(address) => this.address(*address, &shared)?,
                Place::Path(path) => listen_at(path, &shared)?,
            }
        }
        Ok(this)
    }

    fn address(&mut self, address: SocketAddr, shared: &Shared) -> Result<()> {
        let failed = |error| Error::os("listen at", address.to_string(), &error);
        if !address.ip().is_loopback() {
            notes::say(&format!("whoever can reach {address} can add events: nobody has to prove who they are"));
        }
        let listener = TcpListener::bind(address).map_err(failed)?;
        // Port 0 is one that is free: the same for both.
        let address = listener.local_addr().map_err(failed)?;
        let socket = UdpSocket::bind(address).map_err(failed)?;
        self.addresses.push(address);
        let tcp = shared.clone();
        start("TCP", move || {
            tcp.accept(|| listener.accept().map(|(stream, peer)| (stream, peer.ip().to_canonical().to_string())));
        })?;
        let udp = shared.clone();
        start("UDP", move || udp.datagrams(&socket))
    }

    /// Addresses with the ports that were free where 0 was asked for.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What each sender's input counted.
    #[must_use]
    pub fn counts(&self) -> Vec<Arc<InputCounts>> {
        self.counts.lock().map(|counts| counts.clone()).unwrap_or_default()
    }

    /// The event that came next; waits for one.
    pub fn next(&mut self, wait: Duration) -> Next {
        loop {
            if let Some(event) = self.heads.next() {
                return Next::Event(Box::new(event), false);
            }
            match self.events.recv_timeout(wait) {
                Ok(events) => self.heads = events.into_iter(),
                Err(RecvTimeoutError::Timeout) => return Next::Nothing,
                Err(RecvTimeoutError::Disconnected) => return Next::End,
            }
        }
    }
}

/// Listens at a path. The socket stays when we have gone: whoever gave up its privileges can't remove it.
fn listen_at(path: &Path, shared: &Shared) -> Result<()> {
    let failed = |error| Error::os("listen at", path.display().to_string(), &error);
    if path.metadata().is_ok_and(|metadata| metadata.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            return Err(Error::failed("listen at", path.display().to_string(), "another process listens there")
                .way_out("stop it, or name another path"));
        }
        fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let shared = shared.clone();
    start("the Unix socket", move || {
        shared.accept(|| listener.accept().map(|(stream, _)| (stream, name.clone())));
    })
}

impl Shared {
    /// What an input of this name counts; of a sender that comes again the same.
    fn input(&self, name: &str) -> Arc<InputCounts> {
        let Ok(mut counts) = self.counts.lock() else { return InputCounts::new(name) };
        if let Some(known) = counts.iter().find(|known| known.name == name) {
            return Arc::clone(known);
        }
        let new = InputCounts::new(name);
        if counts.len() < MAX_INPUTS {
            counts.push(Arc::clone(&new));
        }
        new
    }

    /// Accepts connections, each read by a thread of its own.
    fn accept<S: Read + Send + 'static>(&self, accept: impl Fn() -> io::Result<(S, String)>) {
        loop {
            let Ok((stream, name)) = accept() else {
                std::thread::sleep(RETRY);
                continue;
            };
            if self.connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                self.connections.fetch_sub(1, Ordering::Relaxed);
                notes::say(&format!("{name}: more than {MAX_CONNECTIONS} connections: this one is closed"));
                continue;
            }
            let (shared, counts) = (self.clone(), self.input(&name));
            let work = move || {
                reader::read(stream, Parser::new(shared.wanted, &name), &counts, &shared.sender);
                shared.connections.fetch_sub(1, Ordering::Relaxed);
            };
            if start("a connection", work).is_err() {
                self.connections.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Reads datagrams: each is one line or several.
    fn datagrams(&self, socket: &UdpSocket) {
        let mut bytes = vec![0; MAX_DATAGRAM];
        loop {
            let Ok((len, peer)) = socket.recv_from(&mut bytes) else {
                std::thread::sleep(RETRY);
                continue;
            };
            let name = peer.ip().to_canonical().to_string();
            let counts = self.input(&name);
            reader::read(&bytes[..len], Parser::new(self.wanted, &name), &counts, &self.sender);
        }
    }
}

fn start(what: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name("ringtap-input".to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|error| Error::os("start the thread of", what, &error))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn lines_by_tcp_udp_and_unix_sockets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve.sock");
        // Left behind by one that was killed.
        drop(UnixListener::bind(&path).unwrap());
        let places = [Place::parse("127.0.0.1:0").unwrap(), Place::parse(path.to_str().unwrap()).unwrap()];
        let mut listening = Listening::open(&places, Wanted::Auto).unwrap();
        let address = listening.addresses()[0];
        let mut next = || match listening.next(Duration::from_secs(60)) {
            Next::Event(event, false) => (event.mark.time_ns / 1_000_000_000, event.sensor.to_string()),
            other => panic!("{other:?}"),
        };
        TcpStream::connect(address).unwrap().write_all(b"{\"time\":1}\nnothing\n").unwrap();
        assert_eq!(next(), (1, "127.0.0.1".into()));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"{\"time\":2}\n{\"time\":3}", address).unwrap();
        assert_eq!((next().0, next().0), (2, 3));
        UnixStream::connect(&path).unwrap().write_all(b"{\"time\":4,\"sensor\":\"s\"}").unwrap();
        assert_eq!(next(), (4, "s".into()));
        let taken = Listening::open(&[Place::Path(path)], Wanted::Auto).map(|_| ()).unwrap_err().to_string();
        assert!(taken.contains("another process listens"), "{taken}");
        assert!(Place::parse("nowhere").is_err());
    }
}

//! Owns: sockets that events come by: JSON lines by TCP, UDP and Unix streams; sealed datagrams and lines of registered
//! sensors; the thread of each socket and of each connection.
//! Does not: know who may send: of JSON lines nobody proves who they are, so only loopback and files' rights keep others
//! out; seals are `keyring`'s.

use std::fs;
use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringtap::{Error, Result};
use ringtap_output::printable;
use ringtap_run::notes;

use super::channel::{self, Came, Receiver, Sender};
use super::connections::{self, Connections, Stream};
use super::counts::InputCounts;
use super::datagrams::Datagrams;
use super::ears::{Ears, Heard};
use super::files::Next;
use super::keyring::Keyring;
use super::parse::{Bad, Parser, Wanted};
use super::reader;

/// Senders that are counted apart.
const MAX_INPUTS: usize = 1024;
/// What those beyond are called.
const OTHERS: &str = "others";
/// Bytes that may wait, of all listeners together.
const WAITING: usize = 64 << 20;
/// Longest datagram of lines.
const MAX_DATAGRAM: usize = 65_536;
/// Longer than any sealed datagram, so that a longer one is seen to be none.
const MAX_SEALED: usize = ringtap_datagram::MAX_LEN + 1;
/// A listener that can't accept is tried again after this.
const RETRY: Duration = Duration::from_millis(100);
/// Connections of one address that sent nothing of use yet, where senders prove who they are.
const MOST_USELESS: usize = 8;
/// Times that a connection found no place, which are told one by one.
const TOLD: u64 = 10;

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

/// What is expected of a socket.
#[derive(Clone)]
enum Expected {
    /// JSON lines of anybody.
    Lines(Wanted),
    /// What registered sensors have sealed.
    Sealed(Arc<Keyring>),
}

/// Makes something of a line, or nothing.
type Understand = Box<dyn FnMut(&[u8]) -> Result<Option<Came>, Bad> + Send>;

/// What all threads share.
#[derive(Clone)]
struct Shared {
    expected: Expected,
    sender: Sender,
    counts: Arc<Mutex<Vec<Arc<InputCounts>>>>,
    ears: Ears,
}

/// Sockets that are listened to.
pub struct Listening {
    events: Receiver,
    heads: std::vec::IntoIter<Came>,
    counts: Arc<Mutex<Vec<Arc<InputCounts>>>>,
    addresses: Vec<SocketAddr>,
    ears: Ears,
}

impl Listening {
    /// Listens for JSON lines at `places`, and for what `keyring`'s sensors have sealed at `sensors`.
    ///
    /// # Errors
    /// An address is taken or not ours; a thread can't be started.
    pub fn open(places: &[Place], wanted: Wanted, sensors: &[Place], keyring: &Arc<Keyring>) -> Result<Self> {
        let (sender, events) = channel::channel(WAITING);
        let counts: Arc<Mutex<Vec<Arc<InputCounts>>>> = Arc::default();
        let mut this =
            Self { events, heads: Vec::new().into_iter(), counts, addresses: Vec::new(), ears: Ears::default() };
        for (places, expected) in [(places, Expected::Lines(wanted)), (sensors, Expected::Sealed(Arc::clone(keyring)))]
        {
            let (counts, ears) = (Arc::clone(&this.counts), this.ears.clone());
            let shared = Shared { expected, sender: sender.clone(), counts, ears };
            for place in places {
                match place {
                    Place::Address(address) => this.address(*address, &shared)?,
                    Place::Path(path) => listen_at(path, &shared)?,
                }
            }
        }
        Ok(this)
    }

    fn address(&mut self, address: SocketAddr, shared: &Shared) -> Result<()> {
        let failed = |error| Error::os("listen at", address.to_string(), &error);
        if matches!(shared.expected, Expected::Lines(_)) && !address.ip().is_loopback() {
            notes::say(&format!("whoever can reach {address} can add events: nobody has to prove who they are"));
        }
        let listener = TcpListener::bind(address).map_err(failed)?;
        // Port 0 is one that is free: the same for both.
        let address = listener.local_addr().map_err(failed)?;
        let longest = if matches!(shared.expected, Expected::Lines(_)) { MAX_DATAGRAM } else { MAX_SEALED };
        let socket = Datagrams::new(UdpSocket::bind(address).map_err(failed)?, longest, &shared.ears)?;
        self.addresses.push(address);
        let tcp = shared.clone();
        start("TCP", move || {
            let accept = || listener.accept().map(|(stream, peer)| (stream, peer.ip().to_canonical().to_string()));
            tcp.accept(&listener, accept);
        })?;
        let udp = shared.clone();
        start("UDP", move || udp.datagrams(socket, &address))
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

    /// Whether all was taken that has come so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.ears.are_empty() && self.events.is_empty() && self.heads.len() == 0
    }

    /// What came next; waits for it.
    pub fn next(&mut self, wait: Duration) -> Next {
        loop {
            if let Some(came) = self.heads.next() {
                return Next::Came(Box::new(came), false);
            }
            match self.events.recv_timeout(wait) {
                Ok(batch) => self.heads = batch.into_iter(),
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
        shared.accept(&listener, || listener.accept().map(|(stream, _)| (stream, name.clone())));
    })
}

impl Shared {
    /// What an input of this name counts; of a sender that comes again the same. Beyond a number all others are one, so that
    /// nobody is told more by many names.
    fn input(&self, name: &str) -> Arc<InputCounts> {
        let Ok(mut counts) = self.counts.lock() else { return InputCounts::new(name) };
        let name = if counts.len() >= MAX_INPUTS && !counts.iter().any(|it| it.name == name) { OTHERS } else { name };
        if let Some(known) = counts.iter().find(|known| known.name == name) {
            return Arc::clone(known);
        }
        let new = InputCounts::new(name);
        counts.push(Arc::clone(&new));
        new
    }

    /// Accepts connections, each read by a thread of its own.
    fn accept<S: Stream>(&self, listener: &impl AsFd, accept: impl Fn() -> io::Result<(S, String)>) {
        let most_useless = if matches!(self.expected, Expected::Sealed(_)) { MOST_USELESS } else { connections::MOST };
        let connections = Connections::new(most_useless);
        let mut refused = 0;
        // Without one it is read all the same.
        let hearing = self.ears.add(listener).ok();
        loop {
            if let Some(hearing) = &hearing {
                hearing.wait(listener);
            }
            let Ok((stream, name)) = accept() else {
                std::thread::sleep(RETRY);
                continue;
            };
            let Some(place) = connections.admit(&stream, &name, Instant::now()) else {
                refused += 1;
                if refused <= TOLD {
                    let most = connections::MOST;
                    notes::say(&printable(&format!("{name}: {most} connections are in use: this one is closed")));
                }
                continue;
            };
            let Ok(hearing) = self.ears.add(&stream) else { continue };
            let heard = Heard { stream, hearing };
            let (shared, counts) = (self.clone(), self.input(&name));
            let work = move || {
                let mut parser = shared.parser(&name);
                let understand = |line: &[u8]| {
                    let came = parser(line);
                    if let Ok(Some(came)) = &came
                        && shared.is_fresh(came)
                    {
                        place.understood(Instant::now());
                    }
                    came
                };
                reader::read(reader::buffered(heard), understand, &counts, &shared.sender);
            };
            // Without a thread the stream is closed and its place is free.
            let _ = start("a connection", work);
        }
    }

    /// Whether this is more than a copy of what somebody overheard.
    fn is_fresh(&self, came: &Came) -> bool {
        match &self.expected {
            Expected::Lines(_) => true,
            Expected::Sealed(keyring) => keyring.is_fresh(came),
        }
    }

    /// What makes something of this sender's lines.
    fn parser(&self, name: &str) -> Understand {
        match &self.expected {
            Expected::Lines(wanted) => {
                let mut parser = Parser::new(*wanted, name);
                Box::new(move |line| parser.event(line).map(|event| Some(Came::Event(event))))
            }
            Expected::Sealed(keyring) => {
                let keyring = Arc::clone(keyring);
                Box::new(move |line| Ok(keyring.line(line)))
            }
        }
    }

    /// Reads datagrams: each is one line or several, or one sealed message.
    fn datagrams(&self, mut socket: Datagrams, address: &SocketAddr) {
        // What the kernel dropped is nobody's: it was not looked at whose it was.
        let own = self.input(&format!("udp:{address}"));
        loop {
            let mut batch = Vec::new();
            let read = socket.read(&own, |bytes, peer| match &self.expected {
                Expected::Sealed(keyring) => {
                    own.lines.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    batch.extend(keyring.datagram(bytes));
                }
                Expected::Lines(_) => {
                    let name = peer.map_or_else(String::new, |peer| peer.ip().to_canonical().to_string());
                    let whole = BufReader::with_capacity(bytes.len().max(1), bytes);
                    reader::read(whole, self.parser(&name), &self.input(&name), &self.sender);
                }
            });
            if read.is_err() {
                std::thread::sleep(RETRY);
            }
            if !batch.is_empty() && !self.sender.send(batch) {
                return;
            }
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
        let keyring = Arc::default();
        let mut listening = Listening::open(&places, Wanted::Auto, &[], &keyring).unwrap();
        let address = listening.addresses()[0];
        let mut next = || match listening.next(Duration::from_secs(60)) {
            Next::Came(came, false) => match *came {
                Came::Event(event) => (event.mark.time_ns / 1_000_000_000, event.sensor.to_string()),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        TcpStream::connect(address).unwrap().write_all(b"{\"time\":1}\nnothing\n").unwrap();
        assert_eq!(next(), (1, "127.0.0.1".into()));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"{\"time\":2}\n{\"time\":3}", address).unwrap();
        assert_eq!((next().0, next().0), (2, 3));
        UnixStream::connect(&path).unwrap().write_all(b"{\"time\":4,\"sensor\":\"s\"}").unwrap();
        assert_eq!(next(), (4, "s".into()));
        let taken =
            Listening::open(&[Place::Path(path)], Wanted::Auto, &[], &keyring).map(|_| ()).unwrap_err().to_string();
        assert!(taken.contains("another process listens"), "{taken}");
        assert!(Place::parse("nowhere").is_err());
    }

    #[test]
    fn what_waits_in_a_socket_is_seen_until_it_is_taken() {
        let places = [Place::parse("127.0.0.1:0").unwrap()];
        let mut listening = Listening::open(&places, Wanted::Auto, &[], &Arc::default()).unwrap();
        let address = listening.addresses()[0];
        let (datagrams, mut stream) = (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpStream::connect(address).unwrap());
        let becomes = |listening: &Listening, empty: bool| {
            let began = Instant::now();
            while listening.is_empty() != empty {
                assert!(began.elapsed() < Duration::from_secs(60));
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for round in 0..20 {
            becomes(&listening, true);
            if round % 2 == 0 {
                datagrams.send_to(b"{\"time\":2}", address).unwrap();
            } else {
                stream.write_all(b"{\"time\":3}\n").unwrap();
            }
            // A busy kernel hands it to the socket a little later.
            becomes(&listening, false);
            assert!((0..200).all(|_| !listening.is_empty()));
            assert!(matches!(listening.next(Duration::from_secs(60)), Next::Came(..)));
        }
    }

    #[test]
    fn many_senders_are_one_in_the_end() {
        let (sender, _receiver) = channel::channel(1);
        let shared =
            Shared { expected: Expected::Lines(Wanted::Auto), sender, counts: Arc::default(), ears: Ears::default() };
        (0..MAX_INPUTS).for_each(|number| drop(shared.input(&number.to_string())));
        let last = shared.input("one more");
        assert_eq!((last.name.as_str(), shared.counts.lock().unwrap().len()), (OTHERS, MAX_INPUTS + 1));
        assert!(Arc::ptr_eq(&last, &shared.input("another")) && shared.input("7").name == "7");
    }
}

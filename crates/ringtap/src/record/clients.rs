//! Owns: the packets of a recording as pcap streams to clients by TCP, which connect and leave as they like: PCAP over IP, which
//! Wireshark reads from `TCP@HOST:PORT`. Each client gets a file header with nanosecond stamps, then what is recorded from then on.
//! Does not: wait for a client. What waits for one is bounded; who is behind by more loses the connection, which is counted. Nor does
//! it serve the streams themselves, where they come by an interface that is captured: each packet would make another one, for ever.
//!
//! A thread (`ringtap-clients`) takes connections; each client has one of its own (`ringtap-client`), which writes and may wait.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap_wire::{Layers, LinkType};
use serde::Serialize;

use super::pcap;
use crate::error::{Error, Result};

/// Clients at one time.
const MOST: usize = 16;
/// Bytes that may wait for one of them.
const MOST_WAITING: usize = 16 << 20;
/// Bytes gathered before they are handed to clients.
const BATCH: usize = 256 << 10;
/// Between two looks for connections, and for the end.
const LOOK: Duration = Duration::from_millis(100);
/// Between two looks whether a client that gets nothing has left.
const LOOK_AT_CLIENT: Duration = Duration::from_secs(1);
/// Bytes of a packet in which the ports of its TCP are looked for: Ethernet, four tags, IPv6 with options.
const HEADS: usize = 192;
/// Stacks of these threads: all of the process's memory is locked, what nobody uses too.
const STACK_BYTES: usize = 128 << 10;
/// How long the last bytes of a recording may take to leave.
const LAST: Duration = Duration::from_secs(2);

/// What became of clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ClientCounts {
    /// Connections that were taken.
    pub served: u64,
    /// Of these, connections that were ended here because 16 MiB waited for them.
    pub too_slow: u64,
    /// Connections that were refused because 16 clients were there.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Shared {
    /// Those that came since the writer looked last.
    new: Mutex<Vec<Client>>,
    present: Arc<AtomicUsize>,
    served: AtomicU64,
    too_slow: AtomicU64,
    refused: AtomicU64,
    is_ending: AtomicBool,
}

/// Clients, as the writer thread has them.
#[derive(Debug)]
pub(super) struct Clients {
    shared: Arc<Shared>,
    all: Vec<Client>,
    batch: Vec<u8>,
    address: SocketAddr,
    link: Option<LinkType>,
    listener: Option<JoinHandle<()>>,
}

/// Counts of clients, for whoever has the recording.
#[derive(Debug, Clone)]
pub(super) struct ClientsSeen(Arc<Shared>);

impl ClientsSeen {
    pub(super) fn counts(&self) -> ClientCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ClientCounts { served: read(&self.0.served), too_slow: read(&self.0.too_slow), refused: read(&self.0.refused) }
    }
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    batches: Sender<Arc<[u8]>>,
    waiting: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Clients {
    /// Listens at `address`, for streams of this link type.
    ///
    /// # Errors
    /// The address can't be listened at; no thread can be started.
    pub(super) fn listen(address: SocketAddr, link_type: u16, snaplen: u32) -> Result<Self> {
        let object = format!("clients at {address}");
        let failed = |error: std::io::Error| {
            Error::os("listen for", object.clone(), &error).way_out("choose an address of this host and a free port")
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        // The thread looks for the end in between.
        listener.set_nonblocking(true).map_err(failed)?;
        let mut header = Vec::new();
        pcap::file_header(&mut header, link_type, snaplen);
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("ringtap-clients".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || take_connections(&listener, &header, &theirs)).map_err(|error| {
            Error::os("start", "the thread for clients", &error).way_out("raise the limit of threads")
        })?;
        let (batch, link) = (Vec::with_capacity(2 * BATCH), LinkType::from_number(link_type.into()));
        Ok(Self { shared, all: Vec::new(), batch, address, link, listener: Some(thread) })
    }

    pub(super) fn seen(&self) -> ClientsSeen {
        ClientsSeen(Arc::clone(&self.shared))
    }

    /// Takes one packet, in two parts as it lies in a ring. Where there is no client, for nobody.
    pub(super) fn packet(&mut self, stamp_ns: u64, wire_len: u32, data: (&[u8], &[u8])) {
        if self.shared.present.load(Ordering::Relaxed) == 0 || self.is_own(data) {
            return;
        }
        pcap::record(&mut self.batch, stamp_ns, wire_len, data);
        if self.batch.len() >= BATCH {
            self.flush();
        }
    }

    /// Whether a packet is of a connection to the served address.
    fn is_own(&self, (first, second): (&[u8], &[u8])) -> bool {
        let Some(link) = self.link else { return false };
        let mut heads = [0; HEADS];
        let both = first.iter().chain(second);
        let count = heads.iter_mut().zip(both).map(|(to, from)| *to = *from).count();
        let heads = &heads[..count];
        let layers = Layers::parse(heads, link);
        let (Some(tcp), Some(ip)) = (layers.tcp(heads), layers.inner_ip().and_then(|ip| ip.view(heads))) else {
            return false;
        };
        let is_here = |address, port| {
            port == self.address.port() && (self.address.ip().is_unspecified() || address == self.address.ip())
        };
        is_here(ip.source(), tcp.source_port()) || is_here(ip.destination(), tcp.destination_port())
    }

    /// Hands what was gathered to all clients. Who came meanwhile begins with a whole packet, that of now or a later one.
    pub(super) fn flush(&mut self) {
        self.all.append(&mut self.shared.new.lock().unwrap_or_else(PoisonError::into_inner));
        self.all.retain(|client| !client.thread.is_finished());
        if self.batch.is_empty() {
            return;
        }
        let batch: Arc<[u8]> = self.batch.as_slice().into();
        self.batch.clear();
        let too_slow = &self.shared.too_slow;
        self.all.retain(|client| {
            if client.waiting.fetch_add(batch.len(), Ordering::Relaxed) + batch.len() > MOST_WAITING {
                too_slow.fetch_add(1, Ordering::Relaxed);
                // Its thread may be within a write, which this ends.
                let _ = client.stream.shutdown(Shutdown::Both);
                return false;
            }
            // A thread that has ended takes nothing: the client has left.
            client.batches.send(Arc::clone(&batch)).is_ok()
        });
    }
}

impl Drop for Clients {
    /// Gives the last bytes their time, and ends all threads.
    fn drop(&mut self) {
        self.flush();
        self.shared.is_ending.store(true, Ordering::Relaxed);
        if let Some(listener) = self.listener.take() {
            listener.thread().unpark();
            // Who panicked can't be told any more, and no packet was lost by it.
            let _ = listener.join();
        }
        self.all.append(&mut self.shared.new.lock().unwrap_or_else(PoisonError::into_inner));
        let until = Instant::now() + LAST;
        for Client { stream, batches, thread, .. } in self.all.drain(..) {
            drop(batches);
            while !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = stream.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }
}

/// Takes connections until the end.
fn take_connections(listener: &TcpListener, header: &[u8], shared: &Shared) {
    while !shared.is_ending.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok(_) if shared.present.load(Ordering::Relaxed) >= MOST => {
                shared.refused.fetch_add(1, Ordering::Relaxed);
            }
            Ok((stream, _)) => {
                // One that is gone already is none.
                if let Ok(client) = Client::begin(stream, header, &shared.present) {
                    shared.served.fetch_add(1, Ordering::Relaxed);
                    let mut new = shared.new.lock().unwrap_or_else(PoisonError::into_inner);
                    // While nothing is recorded nobody else looks who has left.
                    new.retain(|client| !client.thread.is_finished());
                    new.push(client);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Nobody is there, or no descriptor is left: both may change.
            Err(_) => std::thread::park_timeout(LOOK),
        }
    }
}

/// One that is there as long as this lives.
struct Present(Arc<AtomicUsize>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Client {
    fn begin(mut stream: TcpStream, header: &[u8], present: &Arc<AtomicUsize>) -> std::io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_millis(1)))?;
        // Into an empty buffer of the kernel's: nobody is waited for.
        stream.write_all(header)?;
        let (batches, received) = channel();
        let waiting = Arc::<AtomicUsize>::default();
        let (theirs, left) = (stream.try_clone()?, Arc::clone(&waiting));
        present.fetch_add(1, Ordering::Relaxed);
        let present = Present(Arc::clone(present));
        let thread = std::thread::Builder::new().name("ringtap-client".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || {
            let _present = present;
            write_to(theirs, &received, &left);
        })?;
        Ok(Self { stream, batches, waiting, thread })
    }
}

/// Writes to a client until it leaves or nothing more comes.
fn write_to(mut stream: TcpStream, batches: &Receiver<Arc<[u8]>>, waiting: &AtomicUsize) {
    loop {
        match batches.recv_timeout(LOOK_AT_CLIENT) {
            Ok(batch) => {
                if stream.write_all(&batch).is_err() {
                    return;
                }
                waiting.fetch_sub(batch.len(), Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) if has_left(&mut stream) => return,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let _ = stream.shutdown(Shutdown::Write);
                return;
            }
        }
    }
}

/// Whether a client has closed its side. What it says is of no interest.
fn has_left(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 256]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted),
    }
}

// Sockets are system calls, which Miri has not.
#[cfg(all(test, not(miri)))]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn listen() -> (Clients, SocketAddr) {
        // A port that was free a moment ago.
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        std::iter::repeat_with(free)
            .take(20)
            .find_map(|address| Some((Clients::listen(address, 1, 0).ok()?, address)))
            .expect("a free port")
    }

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn header(stream: &mut TcpStream) -> [u8; 24] {
        let mut header = [0; 24];
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_exact(&mut header).unwrap();
        header
    }

    #[test]
    fn each_client_gets_a_header_at_once_and_what_comes_from_then_on() {
        let (mut clients, address) = listen();
        clients.packet(1, 3, (b"for", b"nobody"));
        clients.flush();
        let mut first = TcpStream::connect(address).unwrap();
        assert_eq!(header(&mut first)[..8], [&0xa1b2_3c4d_u32.to_ne_bytes()[..], &[2, 0, 4, 0]].concat());
        until("it is there", || clients.seen().counts().served == 1);
        clients.packet(1_500_000_000, 9, (b"ab", b"c"));
        clients.flush();
        let mut second = TcpStream::connect(address).unwrap();
        header(&mut second);
        until("it is there, too", || clients.seen().counts().served == 2);
        clients.packet(2_000_000_001, 1, (b"", b"d"));
        let seen = clients.seen();
        drop(clients);
        let record = |seconds: u32, ns: u32, wire: u32, data: &[u8]| {
            let numbers = [seconds, ns, data.len() as u32, wire].map(u32::to_ne_bytes).concat();
            [&numbers, data].concat()
        };
        let (one, two) = (record(1, 500_000_000, 9, b"abc"), record(2, 1, 1, b"d"));
        for (mut client, expected) in [(first, [one, two.clone()].concat()), (second, two)] {
            let mut bytes = Vec::new();
            client.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, expected);
        }
        assert_eq!(seen.counts(), ClientCounts { served: 2, too_slow: 0, refused: 0 });
    }

    #[test]
    fn who_reads_nothing_loses_the_connection_and_holds_up_nobody() {
        let (mut clients, address) = listen();
        let mut slow = TcpStream::connect(address).unwrap();
        header(&mut slow);
        until("it is there", || clients.seen().counts().served == 1);
        let packet = vec![7; 60_000];
        // More than may wait and sockets hold.
        until("it is too slow", || {
            clients.packet(1, 60_000, (&packet, b""));
            clients.flush();
            clients.seen().counts().too_slow == 1
        });
        until("its place is free", || clients.shared.present.load(Ordering::Relaxed) == 0);
        let mut other = TcpStream::connect(address).unwrap();
        header(&mut other);
        assert!(clients.all.is_empty());
    }

    #[test]
    fn who_has_left_leaves_nothing_behind_though_nothing_is_recorded() {
        let (clients, address) = listen();
        for count in 1..=3 * MOST as u64 {
            drop(TcpStream::connect(address).unwrap());
            until("it came", || clients.seen().counts().served == count);
            until("it has left", || clients.shared.present.load(Ordering::Relaxed) == 0);
            let waiting = clients.shared.new.lock().unwrap().len();
            assert!(waiting <= 2, "{waiting}");
            if count > 6 {
                break;
            }
        }
    }

    #[test]
    fn streams_are_not_served_themselves() {
        let (clients, address) = listen();
        let own = |from: (IpAddr, u16), to: (IpAddr, u16)| {
            let (IpAddr::V4(source), IpAddr::V4(destination)) = (from.0, to.0) else { unreachable!() };
            let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]].concat();
            frame.extend(source.octets().into_iter().chain(destination.octets()));
            frame.extend(from.1.to_be_bytes().into_iter().chain(to.1.to_be_bytes()));
            frame.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
            // However it lies in a ring.
            let split = clients.is_own(frame.split_at(30));
            assert_eq!(clients.is_own((&frame, b"")), split);
            split
        };
        let (here, port) = (address.ip(), address.port());
        let other = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
        assert!(own((here, port), (here, 40_000)) && own((here, 40_000), (here, port)));
        assert!(!own((here, 40_000), (other, port)), "the same port elsewhere");
        assert!(!own((here, port ^ 1), (here, 40_000)));
        assert!(!clients.is_own((b"short", b"")));
    }

    #[test]
    fn places_are_bounded_and_free_again_when_a_client_leaves() {
        let (clients, address) = listen();
        let mut all: Vec<TcpStream> = (0..MOST).map(|_| TcpStream::connect(address).unwrap()).collect();
        all.iter_mut().for_each(|client| _ = header(client));
        let mut more = TcpStream::connect(address).unwrap();
        more.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(more.read(&mut [0; 24]).unwrap_or(0), 0, "it gets nothing");
        assert_eq!(clients.seen().counts(), ClientCounts { served: MOST as u64, too_slow: 0, refused: 1 });
        drop(all.pop());
        until("one has left", || clients.shared.present.load(Ordering::Relaxed) < MOST);
        header(&mut TcpStream::connect(address).unwrap());
    }
}

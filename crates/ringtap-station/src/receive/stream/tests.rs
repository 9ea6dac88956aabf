mod tls;

use std::io::Write;
use std::net::TcpStream;

use super::*;
use crate::spool::{self, SpoolConsumer};
use crate::waker::Waker;

/// A server under a clock that the test sets, and what reached its spool.
struct World {
    server: Server,
    consumer: SpoolConsumer,
    address: SocketAddr,
    now: Instant,
    buffer: Vec<u8>,
}

impl World {
    fn new(senders: Senders) -> Self {
        Self::with(senders, None)
    }

    fn with(senders: Senders, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = listen("127.0.0.1:0".parse().unwrap(), tls).unwrap();
        let address = listener.socket.local_addr().unwrap();
        let (producer, consumer) = spool::spool(1 << 20, Arc::new(Waker::default())).unwrap();
        let (framing, stop) = (Arc::default(), Arc::default());
        let senders = Arc::new(RwLock::new(senders));
        let parts = Parts { listeners: vec![listener], senders, producer, framing, stop };
        let (messages, counts) = (Arc::default(), Arc::default());
        let (connections, limits) = (Vec::new(), LIMITS);
        let server = Server { parts, messages, counts, connections, limits, rests_until: None, ending: None };
        Self { server, consumer, address, now: Instant::now(), buffer: vec![0; 4096] }
    }

    /// A peer, once the server has accepted or refused it.
    fn connect(&mut self) -> TcpStream {
        self.connect_from([127, 0, 0, 1])
    }

    fn connect_from(&mut self, source: [u8; 4]) -> TcpStream {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
        use std::os::fd::AsRawFd;
        let before = self.known();
        let stream = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        let [a, b, c, d] = source;
        bind(stream.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 0)).unwrap();
        connect(stream.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, self.address.port())).unwrap();
        let stream = TcpStream::from(stream);
        while self.known() == before {
            self.server.accept(self.now);
        }
        stream
    }

    /// Connections accepted or refused so far.
    fn known(&self) -> u64 {
        let Counted { open, closed, refused, timed_out } = self.counted();
        open + closed + refused + timed_out
    }

    /// The peers whose connections are open.
    fn open(&self) -> Vec<SocketAddr> {
        self.server.connections.iter().map(|connection| connection.peer).collect()
    }

    fn counted(&self) -> Counted {
        let [closed, refused, timed_out] =
            [&self.server.counts.closed, &self.server.counts.refused, &self.server.counts.timed_out]
                .map(|count| count.load(Ordering::Relaxed));
        Counted { open: self.server.connections.len() as u64, closed, refused, timed_out }
    }

    /// Time passes; all connections are looked at.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        let ready = vec![true; self.server.connections.len()];
        self.server.read(&ready, self.now, &mut self.buffer);
    }

    /// Waits until the first connection has bytes, and looks at it.
    fn hear(&mut self) {
        while !self.server.wait(self.now)[0] {}
        self.pass(Duration::ZERO);
    }

    fn messages(&mut self) -> Vec<String> {
        self.heard().into_iter().map(|(_, text)| text).collect()
    }

    fn heard(&mut self) -> Vec<(Service, String)> {
        self.server.parts.producer.cycle_end();
        let Some(batch) = self.consumer.take() else { return Vec::new() };
        let text = |range| String::from_utf8_lossy(&batch.bytes()[range]).into_owned();
        batch.iter().map(|(head, range)| (head.service, text(range))).collect()
    }
}

#[derive(Debug, PartialEq)]
struct Counted {
    open: u64,
    closed: u64,
    refused: u64,
    timed_out: u64,
}

#[test]
fn a_message_that_is_never_whole_ends_its_connection_and_silence_does_not() {
    let mut world = World::new(Senders::default());
    let mut slow = world.connect();
    slow.write_all(b"<27>whole\n<27>ha").unwrap();
    world.hear();
    let _silent = world.connect();
    assert_eq!(world.messages(), ["<27>whole"]);
    // A byte now and then is no new beginning.
    for byte in [b"l", b"f"] {
        world.pass(connection::UNFINISHED / 3);
        slow.write_all(byte).unwrap();
        world.hear();
    }
    assert_eq!(world.counted(), Counted { open: 2, closed: 0, refused: 0, timed_out: 0 });
    world.pass(connection::UNFINISHED / 2);
    assert_eq!(world.counted(), Counted { open: 1, closed: 0, refused: 0, timed_out: 1 });
    assert_eq!(world.messages(), ["<27>half"], "a line may have been all of it");
    world.pass(Duration::from_secs(24 * 3600));
    assert_eq!(world.counted().open, 1, "idle for a day, and open");
}

#[test]
fn one_address_has_so_many_connections_and_idle_ones_give_their_place() {
    let mut world = World::new(Senders::default());
    let mut peers: Vec<TcpStream> = (0..LIMITS.address).map(|_| world.connect()).collect();
    peers.push(world.connect());
    assert_eq!(world.counted(), Counted { open: LIMITS.address as u64, closed: 0, refused: 1, timed_out: 0 });
    world.now += IDLE;
    peers.push(world.connect());
    let counted = world.counted();
    assert_eq!((counted.open, counted.closed, counted.refused), (LIMITS.address as u64, 1, 1));
}

#[test]
fn who_is_not_listed_gets_no_connection() {
    let senders = Senders { sources: vec!["192.0.2.0/24".parse().unwrap()], ..Senders::default() };
    let mut world = World::new(senders);
    let _peer = world.connect();
    assert_eq!(world.counted(), Counted { open: 0, closed: 0, refused: 1, timed_out: 0 });
}

#[test]
fn a_few_networks_of_strangers_keep_no_other_out() {
    let mut world = World::new(Senders::default());
    world.server.limits = Limits { all: 24, network: 6, address: 3 };
    let mut peers: Vec<TcpStream> =
        (0..12).map(|number| world.connect_from([127, 1, number / 6, 1 + number % 6 / 3])).collect();
    assert_eq!(world.counted(), Counted { open: 12, closed: 0, refused: 0, timed_out: 0 });
    let _refused = world.connect_from([127, 1, 0, 9]);
    assert_eq!(world.counted(), Counted { open: 12, closed: 0, refused: 1, timed_out: 0 });
    // The first has said something, and has begun something else.
    peers[0].write_all(b"<27>whole\n<27>begun").unwrap();
    world.hear();
    let others: Vec<TcpStream> = (0..4).map(|number| world.connect_from([127, 2, number, 1])).collect();
    assert_eq!(world.counted(), Counted { open: 12, closed: 4, refused: 1, timed_out: 0 });
    let open = world.open();
    assert!(others.iter().all(|it| open.contains(&it.local_addr().unwrap())), "{open:?}");
    assert!(open.contains(&peers[0].local_addr().unwrap()), "those that never said anything go first: {open:?}");
    // What of a message has come is not lost with its connection.
    for other in &mut peers[1..] {
        let _ = other.write_all(b"<27>x");
    }
    std::thread::sleep(Duration::from_millis(20));
    world.pass(Duration::ZERO);
    let _more: Vec<TcpStream> = (4..8).map(|number| world.connect_from([127, 2, number, 1])).collect();
    let mut heard = world.messages();
    heard.sort();
    assert_eq!(heard, ["<27>begun", "<27>whole", "<27>x", "<27>x", "<27>x"]);
    // Two have two, which are given up; then all have one, and nobody has to go.
    let _last: Vec<TcpStream> = (0..3).map(|number| world.connect_from([127, 3, number, 1])).collect();
    assert_eq!(world.counted(), Counted { open: 12, closed: 10, refused: 2, timed_out: 0 });
}

/// However many networks one stranger comes from: a site with a few that talk is not the greedy one.
#[test]
fn a_site_that_talks_keeps_its_connections() {
    let mut world = World::new(Senders::default());
    world.server.limits = Limits { all: 64, network: 32, address: 32 };
    let mut site: Vec<TcpStream> = (0..4).map(|number| world.connect_from([127, 1, 0, 1 + number])).collect();
    let mut others: Vec<TcpStream> =
        (0..28).map(|number| world.connect_from([127, 2, number / 2, 1 + number % 2])).collect();
    for peer in site.iter_mut().chain(&mut others) {
        peer.write_all(b"<27>said\n").unwrap();
    }
    world.hear();
    let _more: Vec<TcpStream> = (0..4).map(|number| world.connect_from([127, 3, number, 1])).collect();
    let open = world.open();
    assert!(site.iter().all(|it| open.contains(&it.local_addr().unwrap())), "{open:?}");
    assert_eq!(world.counted(), Counted { open: 32, closed: 0, refused: 4, timed_out: 0 });
}

#[test]
fn what_a_known_sender_has_is_no_strangers() {
    let known = vec!["127.9.0.0/16".parse().unwrap()];
    let mut world = World::new(Senders { known, ..Senders::default() });
    world.server.limits = Limits { all: 8, network: 2, address: 3 };
    let _strangers: Vec<TcpStream> = (0..4).map(|number| world.connect_from([127, 1, number, 1])).collect();
    let _known: Vec<TcpStream> = (0..4).map(|number| world.connect_from([127, 9, 0, number])).collect();
    assert_eq!(world.counted(), Counted { open: 8, closed: 0, refused: 0, timed_out: 0 });
}

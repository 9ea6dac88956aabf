//! Owns: a small HTTP/1.1 server: one request a connection, and a bound for everything that a client may hold: connections, bytes, time.
//! Does not: know what is served. Heads are read by httparse.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpUserTimeout;
use ringtap::{Error, Result};

/// Connections at a time; the next one is told to come again.
const MOST: usize = 32;
/// Of these, those that go on: events. The others are free for whoever wants a page.
const MOST_STREAMS: usize = 16;
/// The longest head of a request, bytes, and the most lines of it.
const HEAD: usize = 8 << 10;
const LINES: usize = 64;
/// The longest content of a request: a form with one field.
const CONTENT: usize = 4 << 10;
/// How long a request may take to come, and an answer to go.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of one address, so that one client alone can't keep out the others.
const MOST_OF_ONE: usize = 8;
/// An end that vanished without a word is noticed after so long, milliseconds.
const VANISHED_MS: u32 = 30_000;
/// Stacks: all of the process's memory is locked, what nobody uses too.
const TAKER_STACK: usize = 128 << 10;
const STACK: usize = 512 << 10;
/// After a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// A request.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without what follows a question mark.
    pub(crate) path: String,
    /// Names in small letters.
    headers: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
}

impl Request {
    /// The value of a header, by its name in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// For tests: this path, asked for with these headers.
    #[cfg(test)]
    pub(crate) fn get(path: &str, headers: &[(&str, &str)]) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { method: "GET".to_owned(), path: path.to_owned(), headers, content: Vec::new() }
    }
}

/// Gives what comes next, after as long as it likes to wait; `None`: that was all.
pub(crate) type Stream = Box<dyn FnMut() -> Option<String> + Send>;

/// What becomes of a request.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Media type.
    pub(crate) kind: &'static str,
    /// Further headers.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    Whole(Vec<u8>),
    Stream(Stream),
}

impl Answer {
    pub(crate) fn new(status: u16, kind: &'static str, content: impl Into<Vec<u8>>) -> Self {
        Self { status, kind, headers: Vec::new(), content: Content::Whole(content.into()) }
    }

    pub(crate) fn text(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    pub(crate) fn with(mut self, header: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((header, value.into()));
        self
    }
}

/// Listens; `what` is served goes into errors.
///
/// # Errors
/// The address is taken or not ours.
pub(crate) fn listen(what: &str, address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| Error::os(format!("serve {what} at"), address.to_string(), &error))
}

/// Starts the thread that takes connections; it ends with the process, and so do those of connections.
///
/// # Errors
/// There is no thread to be had.
pub(crate) fn start(listener: TcpListener, answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Result<()> {
    let (answer, streams) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    let open = Arc::new(Mutex::new(Vec::with_capacity(MOST)));
    let take = move || {
        loop {
            let Ok((connection, from)) = listener.accept() else {
                // Without a descriptor left it would be asked again at once.
                std::thread::sleep(PAUSE);
                continue;
            };
            let Some(place) = Seat::take(&open, from.ip().to_canonical()) else {
                let busy = Answer::text(503, "too many connections: come again").with("Retry-After", "5");
                // To a socket whose buffer is empty: this does not wait.
                let _ = connection.set_nonblocking(true).and_then(|()| send(connection, busy, false));
                continue;
            };
            let (answer, streams) = (Arc::clone(&answer), Arc::clone(&streams));
            let serve = move || {
                let _place = place;
                // Whoever asked may have gone.
                let _ = converse(connection, &*answer, &streams);
            };
            // Without a thread the connection ends here.
            let _ = std::thread::Builder::new().name("ringtap-http".to_owned()).stack_size(STACK).spawn(serve);
        }
    };
    std::thread::Builder::new()
        .name("ringtap-web".to_owned())
        .stack_size(TAKER_STACK)
        .spawn(take)
        .map(drop)
        .map_err(|error| Error::os("start the thread of", "the HTTP server", &error))
}

/// A connection's place, whose it is; given back when dropped.
struct Seat(Arc<Mutex<Vec<IpAddr>>>, IpAddr);

impl Seat {
    fn take(open: &Arc<Mutex<Vec<IpAddr>>>, from: IpAddr) -> Option<Self> {
        let mut taken = open.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever is on this host may be many.
        let of_one = taken.iter().filter(|of| **of == from).count();
        let is_free = taken.len() < MOST && (from.is_loopback() || of_one < MOST_OF_ONE);
        is_free.then(|| taken.push(from))?;
        Some(Self(Arc::clone(open), from))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = taken.iter().position(|of| *of == self.1) {
            taken.swap_remove(at);
        }
    }
}

/// One of so many; given back when dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(places: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let free = |taken: usize| (taken < most).then_some(taken + 1);
        places.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
        Some(Self(Arc::clone(places)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn converse(
    mut connection: TcpStream,
    answer: &dyn Fn(&Request) -> Answer,
    streams: &Arc<AtomicUsize>,
) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    setsockopt(&connection, TcpUserTimeout, &VANISHED_MS)?;
    let request = match read(&mut connection)? {
        Ok(request) => request,
        Err(refusal) => return send(connection, refusal, false),
    };
    let mut answer = answer(&request);
    let _place = match &answer.content {
        Content::Whole(_) => None,
        Content::Stream(_) => {
            let place = Place::take(streams, MOST_STREAMS);
            if place.is_none() {
                answer = Answer::text(503, "too many look at it live: come again").with("Retry-After", "5");
            }
            place
        }
    };
    send(connection, answer, request.method == "HEAD")
}

/// What bytes that came so far are.
enum Head {
    /// The rest has to come.
    Partial,
    /// No request, or none for this server: what is answered.
    Refused(Answer),
    /// A head, how many bytes of content follow it, and where they begin.
    Whole(Request, usize, usize),
}

fn head_of(bytes: &[u8]) -> Head {
    let mut lines = [httparse::EMPTY_HEADER; LINES];
    let mut head = httparse::Request::new(&mut lines);
    match head.parse(bytes) {
        Ok(httparse::Status::Complete(begins)) => {
            let request = request_of(&head);
            if request.header("transfer-encoding").is_some() {
                return Head::Refused(Answer::text(501, "contents in chunks are not read here"));
            }
            match request.header("content-length").map(str::parse::<usize>) {
                None => Head::Whole(request, 0, begins),
                Some(Ok(length)) if length <= CONTENT => Head::Whole(request, length, begins),
                Some(Ok(_)) => Head::Refused(Answer::text(413, "that is too long")),
                Some(Err(_)) => Head::Refused(Answer::text(400, "its length is no number")),
            }
        }
        Ok(httparse::Status::Partial) if bytes.len() < HEAD => Head::Partial,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Head::Refused(Answer::text(431, "the head of this request is too long"))
        }
        Err(_) => Head::Refused(Answer::text(400, "this is no HTTP/1.1 request")),
    }
}

/// Reads a request; within: what a bad one is answered.
fn read(connection: &mut TcpStream) -> std::io::Result<std::result::Result<Request, Answer>> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::with_capacity(1024);
    let (mut request, length, begins) = loop {
        match head_of(&bytes) {
            Head::Partial => more(connection, &mut bytes, until)?,
            Head::Refused(answer) => return Ok(Err(answer)),
            Head::Whole(request, length, begins) => break (request, length, begins),
        }
    };
    while bytes.len() < begins + length {
        more(connection, &mut bytes, until)?;
    }
    request.content = bytes[begins..begins + length].to_vec();
    Ok(Ok(request))
}

fn request_of(head: &httparse::Request<'_, '_>) -> Request {
    let target = head.path.unwrap_or_default();
    let headers = head
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).trim().to_owned()));
    Request {
        method: head.method.unwrap_or_default().to_owned(),
        path: path_of(target).to_owned(),
        headers: headers.collect(),
        content: Vec::new(),
    }
}

/// The path of a request's target, also where that names the host as well (RFC 9112 §3.2.2).
fn path_of(target: &str) -> &str {
    let path = target.strip_prefix("http://").map_or(target, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
    path.split('?').next().unwrap_or_default()
}

/// Waits for more bytes, `until` then.
fn more(connection: &mut TcpStream, bytes: &mut Vec<u8>, until: Instant) -> std::io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    connection.set_read_timeout(Some(left))?;
    let mut piece = [0; 2048];
    match connection.read(&mut piece) {
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
        Err(error) => Err(error),
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(count) => {
            bytes.extend_from_slice(&piece[..count]);
            Ok(())
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        303 => "See Other",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

fn send(mut connection: TcpStream, answer: Answer, is_head: bool) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", answer.status, reason(answer.status), answer.kind);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n");
    match answer.content {
        Content::Whole(content) => {
            head.push_str(&format!("Content-Length: {}\r\n\r\n", content.len()));
            let mut bytes = head.into_bytes();
            if !is_head {
                bytes.extend_from_slice(&content);
            }
            write(&mut connection, &bytes)?;
            finish(&mut connection)
        }
        Content::Stream(mut next) => {
            head.push_str("\r\n");
            write(&mut connection, head.as_bytes())?;
            while !is_head && let Some(text) = next() {
                write(&mut connection, text.as_bytes())?;
            }
            Ok(())
        }
    }
}

/// Ends it so that the other side reads the answer: closed with bytes unread, it would be reset.
fn finish(connection: &mut TcpStream) -> std::io::Result<()> {
    connection.shutdown(Shutdown::Write)?;
    connection.set_read_timeout(Some(PAUSE))?;
    let mut rest = [0; 1024];
    for _ in 0..16 {
        if connection.read(&mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

/// Writes all of it, or gives up when a client takes it too slowly.
fn write(connection: &mut TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    let until = Instant::now() + PATIENCE;
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        connection.set_write_timeout(Some(left))?;
        match connection.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server of its own, and what it says to `bytes`, which are followed by the end if `ends`.
    fn served() -> SocketAddr {
        let listener = listen("a test", "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let answer = |request: &Request| match request.path.as_str() {
            "/stream" => {
                let mut left = 1_000_000;
                let next = move || {
                    std::thread::sleep(Duration::from_millis(5));
                    left -= 1;
                    (left > 0).then(|| ":\n\n".to_owned())
                };
                let content = Content::Stream(Box::new(next));
                Answer { status: 200, kind: "text/event-stream", headers: Vec::new(), content }
            }
            path => {
                let content = String::from_utf8_lossy(&request.content);
                Answer::text(200, &format!("{} {path} {content}", request.method))
            }
        };
        start(listener, answer).unwrap();
        address
    }

    fn ask(address: SocketAddr, bytes: &[u8]) -> String {
        let mut connection = TcpStream::connect(address).unwrap();
        // It may refuse before all is written.
        let _ = connection.write_all(bytes);
        let mut answer = Vec::new();
        let _ = connection.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn requests_and_what_is_none() {
        let address = served();
        let answer = ask(address, b"GET /a?token=b HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nGET /a \n"), "{answer}");
        let answer = ask(address, b"POST /in HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na=b");
        assert!(answer.ends_with("POST /in a=b\n"), "{answer}");
        let answer = ask(address, b"GET http://x/a?b HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.ends_with("GET /a \n"), "{answer}");
        let answer = ask(address, b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.contains("Content-Length: 8\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
        for (bytes, status) in [
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc".to_vec(), "400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n".to_vec(), "400"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\n\r\n".to_vec(), "501"),
            (b"POST / HTTP/1.1\r\nContent-Length: 5000\r\n\r\n".to_vec(), "413"),
            ([b"GET / HTTP/1.1\r\n".to_vec(), b"a: b\r\n".repeat(80), b"\r\n".to_vec()].concat(), "431"),
            ([b"GET /".to_vec(), vec![b'a'; 9000]].concat(), "431"),
        ] {
            let answer = ask(address, &bytes);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
        }
    }

    proptest::proptest! {
        /// Whatever comes: no panic, and what goes on to be read is bounded.
        #[test]
        fn bytes_of_strangers(
            begin in "(GET|POST|HEAD|\\PC{0,3}) (/|http://|\\PC{0,9})\\PC{0,40}( HTTP/1\\.[01])?(\r\n|\n)",
            lines in proptest::collection::vec("(Content-Length|Host|Cookie|\\PC{0,9}): ?([0-9]{0,20}|\\PC{0,40})(\r\n|\n)", 0..70),
            rest in proptest::collection::vec(proptest::num::u8::ANY, 0..40),
        ) {
            let bytes = [begin.as_bytes(), lines.concat().as_bytes(), b"\r\n", &rest].concat();
            for bytes in [&bytes[..], &rest] {
                match head_of(bytes) {
                    Head::Whole(request, length, begins) => {
                        assert!(begins <= bytes.len() && length <= CONTENT);
                        assert!(!request.path.contains('?'));
                    }
                    Head::Refused(answer) => assert!(answer.status >= 400),
                    Head::Partial => assert!(bytes.len() < HEAD),
                }
            }
        }
    }

    #[test]
    fn who_keeps_connections_open_keeps_nobody_out_for_long() {
        let address = served();
        let mut held: Vec<TcpStream> = (0..MOST).map(|_| TcpStream::connect(address).unwrap()).collect();
        for connection in &mut held {
            connection.write_all(b"GET / HT").unwrap();
        }
        let until = Instant::now() + Duration::from_secs(5);
        while !ask(address, b"GET /a HTTP/1.1\r\n\r\n").contains(" 503 ") {
            assert!(Instant::now() < until, "places are not bounded");
        }
        std::thread::sleep(PATIENCE);
        let until = Instant::now() + Duration::from_secs(20);
        while !ask(address, b"GET /a HTTP/1.1\r\n\r\n").contains(" 200 ") {
            assert!(Instant::now() < until, "a request that does not come holds its place");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[test]
    fn one_address_has_a_share_of_the_places() {
        let open = Arc::default();
        let [one, other, own] = ["192.0.2.1", "192.0.2.2", "127.0.0.1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let held: Vec<Seat> = (0..MOST).filter_map(|_| Seat::take(&open, one)).collect();
        assert_eq!(held.len(), MOST_OF_ONE);
        let others: Vec<Seat> = [other; 4].iter().chain(&[own; 64]).filter_map(|ip| Seat::take(&open, *ip)).collect();
        assert_eq!(others.len(), MOST - MOST_OF_ONE);
        drop(held);
        assert!(Seat::take(&open, other).is_some() && Seat::take(&open, one).is_some());
    }

    #[test]
    fn streams_leave_places_for_pages_and_end_with_their_reader() {
        let address = served();
        let stream = |_| {
            let mut connection = TcpStream::connect(address).unwrap();
            connection.write_all(b"GET /stream HTTP/1.1\r\n\r\n").unwrap();
            let mut begin = [0; 12];
            connection.read_exact(&mut begin).unwrap();
            (begin, connection)
        };
        let all: Vec<_> = (0..MOST_STREAMS).map(stream).collect();
        assert!(all.iter().all(|(begin, _)| begin == b"HTTP/1.1 200"));
        assert_eq!(&stream(0).0, b"HTTP/1.1 503");
        assert!(ask(address, b"GET /a HTTP/1.1\r\n\r\n").contains(" 200 "));
        drop(all);
        let until = Instant::now() + Duration::from_secs(10);
        while &stream(0).0 != b"HTTP/1.1 200" {
            assert!(Instant::now() < until, "a stream outlives its reader");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

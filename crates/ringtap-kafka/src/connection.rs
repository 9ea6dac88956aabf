//! Owns: one connection to one broker: made, protected, one request at a time or several in a row.
//! Does not: choose the broker, or try again.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::failure::{Code, Failure, Malformed};
use crate::messages::{self, Api};
use crate::scram::Scram;
use crate::security::{Mechanism, Sasl, Security};
use crate::wire::{Reader, Writer};

/// To make a connection.
const CONNECT: Duration = Duration::from_secs(3);
/// For an answer: a broker waits for its replicas for [`ANSWER_MS`] at most.
const PATIENCE: Duration = Duration::from_secs(15);
/// What a broker is told to wait for its replicas, ms.
pub(crate) const ANSWER_MS: i32 = 10_000;
/// No answer is longer, bytes: what is asked for is far less. Before it is known who the other end is, none is longer than [`MOST_EARLY`].
const MOST: usize = 96 << 20;
const MOST_EARLY: usize = 1 << 20;
/// Of what a broker says in a text so many characters are shown.
const SHOWN: usize = 200;
/// How we name ourselves, for the broker's log.
const CLIENT: &str = "ringtap";

enum Stream {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

/// A stream whose reads and writes all end at one time: who sends a byte now and then is not waited for any longer.
struct Timed {
    stream: TcpStream,
    until: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(left) }
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(into)
    }
}

impl Write for Timed {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A connection.
pub(crate) struct Connection {
    stream: Stream,
    correlation: i32,
    most: usize,
}

impl Connection {
    /// Connects, by name and by what it is told of security.
    pub(crate) fn open((host, port): &(String, u16), security: &Security) -> Result<Self, Failure> {
        let stream = connect(host, *port)?;
        let stream = match &security.tls {
            None => Stream::Plain(stream),
            Some(config) => {
                let name = ServerName::try_from(host.clone())
                    .map_err(|_| Failure::Other(format!("{host} is no name that a certificate can have")))?;
                let session = ClientConnection::new(config.clone(), name)
                    .map_err(|error| Failure::Other(format!("TLS: {error}")))?;
                Stream::Tls(Box::new(StreamOwned::new(session, stream)))
            }
        };
        let mut this = Self { stream, correlation: 0, most: MOST_EARLY };
        this.agree()?;
        if let Some(sasl) = &security.sasl {
            this.authenticate(sasl)?;
        }
        this.most = MOST;
        Ok(this)
    }

    /// Looks whether the broker speaks what we do.
    fn agree(&mut self) -> Result<(), Failure> {
        let body = self.ask(Api::API_VERSIONS, &[])?;
        let (code, spoken) = messages::api_versions(&body)?;
        Code::check(code).map_err(Failure::Refused)?;
        let speaks = |api: Api| {
            spoken.iter().any(|(key, least, most)| *key == api.key && (*least..=*most).contains(&api.version))
        };
        match [Api::PRODUCE, Api::FETCH, Api::LIST_OFFSETS, Api::METADATA, Api::INIT_PRODUCER_ID]
            .into_iter()
            .all(speaks)
        {
            true => Ok(()),
            false => Err(Failure::Refused(Code(35))),
        }
    }

    fn authenticate(&mut self, sasl: &Sasl) -> Result<(), Failure> {
        let wanted = sasl.mechanism.name();
        let body = self.ask(Api::SASL_HANDSHAKE, &messages::sasl_handshake(wanted))?;
        let (code, there) = messages::sasl_mechanisms(&body)?;
        if code != 0 {
            let there = printable(&there.join(", "));
            return Err(Failure::Other(format!("the broker has no {wanted}, but {there}")));
        }
        if sasl.mechanism == Mechanism::Plain {
            return self.exchange(format!("\0{}\0{}", sasl.user, sasl.password).as_bytes()).map(drop);
        }
        let mut nonce = [0; 18];
        SystemRandom::new()
            .fill(&mut nonce)
            .map_err(|_| Failure::Other("the kernel gives no random numbers".into()))?;
        let scram = Scram::new(sasl, &nonce);
        let challenge = self.exchange(scram.first().as_bytes())?;
        let (proof, awaited) = scram.proof(&challenge)?;
        let last = self.exchange(proof.as_bytes())?;
        match awaited.is_shown_by(&last) {
            true => Ok(()),
            false => Err(Failure::Other("the broker does not know our password: it is another one".into())),
        }
    }

    /// A message of SASL and its answer.
    fn exchange(&mut self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let body = self.ask(Api::SASL_AUTHENTICATE, &messages::sasl_authenticate(message))?;
        let (code, answer) = messages::sasl_answer(&body)?;
        Code::check(code).map_err(Failure::Refused)?;
        Ok(answer.to_vec())
    }

    /// A request and its answer.
    pub(crate) fn ask(&mut self, api: Api, body: &[u8]) -> Result<Vec<u8>, Failure> {
        let number = self.send(api, body)?;
        self.receive(number)
    }

    /// Sends a request; the number of its answer, which come in the same order.
    pub(crate) fn send(&mut self, api: Api, body: &[u8]) -> Result<i32, Failure> {
        self.correlation = self.correlation.wrapping_add(1);
        let mut head = Writer::default();
        head.i16(api.key);
        head.i16(api.version);
        head.i32(self.correlation);
        head.string(CLIENT);
        let mut message = Writer::default();
        message.i32((head.0.len() + body.len()) as i32);
        message.0.extend_from_slice(&head.0);
        message.0.extend_from_slice(body);
        self.give_time();
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(&message.0)?,
            Stream::Tls(stream) => {
                stream.write_all(&message.0)?;
                stream.flush()?;
            }
        }
        Ok(self.correlation)
    }

    /// The answer of this number.
    pub(crate) fn receive(&mut self, number: i32) -> Result<Vec<u8>, Failure> {
        self.give_time();
        let mut len = [0; 4];
        self.read(&mut len)?;
        let len = usize::try_from(i32::from_be_bytes(len)).ok().filter(|len| (4..=self.most).contains(len));
        let len = len.ok_or(Malformed("an answer has no length, or is too long"))?;
        let mut answer = Vec::new();
        // As it comes, so that a length that lies costs nothing.
        while answer.len() < len {
            let before = answer.len();
            answer.resize((before + (1 << 20)).min(len), 0);
            self.read(&mut answer[before..])?;
        }
        let mut reader = Reader(&answer);
        if reader.i32()? != number {
            return Err(Malformed("an answer is to another question").into());
        }
        answer.drain(..4);
        Ok(answer)
    }

    /// From now on for one message.
    fn give_time(&mut self) {
        let timed = match &mut self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => &mut stream.sock,
        };
        timed.until = Instant::now() + PATIENCE;
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.read_exact(into),
            Stream::Tls(stream) => stream.read_exact(into),
        }
    }
}

/// Text of a broker without what would steer a terminal; the beginning of a long one.
pub(crate) fn printable(text: &str) -> String {
    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
    ringtap::text::printable(&text[..end])
}

fn connect(host: &str, port: u16) -> Result<Timed, Failure> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(Timed { stream, until: Instant::now() + PATIENCE });
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn what_a_broker_says_steers_no_terminal() {
        assert_eq!(printable("a\u{1b}[2J\u{202e}b\n"), "a\u{fffd}[2J\u{fffd}b\u{fffd}");
        assert_eq!(printable(&"x".repeat(2 * SHOWN)).len(), SHOWN);
    }

    #[test]
    fn who_sends_a_byte_now_and_then_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sender = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut sent = 0;
            while stream.write_all(&[0]).is_ok() {
                sent += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            sent
        });
        let mut stream = connect("127.0.0.1", address.port()).unwrap();
        stream.until = Instant::now() + Duration::from_millis(300);
        let error = stream.read_exact(&mut [0; 1000]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(stream);
        assert!(sender.join().unwrap() > 1);
    }

    #[test]
    fn a_stranger_gets_little_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(&(MOST_EARLY as i32 + 1).to_be_bytes());
            let _ = stream.read(&mut [0; 1000]);
        });
        let security = Security { tls: None, sasl: None };
        let failure = Connection::open(&("127.0.0.1".to_owned(), address.port()), &security).err().unwrap();
        assert!(failure.to_string().contains("is too long"), "{failure}");
        answer.join().unwrap();
    }
}

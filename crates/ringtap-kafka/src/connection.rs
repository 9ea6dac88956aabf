//! Owns: one connection to one broker: made, protected, one request at a time or several in a row.
//! Does not: choose the broker, or try again.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

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
/// No answer is longer, bytes: what is asked for is far less.
const MOST: usize = 96 << 20;
/// How we name ourselves, for the broker's log.
const CLIENT: &str = "ringtap";

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection.
pub(crate) struct Connection {
    stream: Stream,
    correlation: i32,
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
        let mut this = Self { stream, correlation: 0 };
        this.agree()?;
        if let Some(sasl) = &security.sasl {
            this.authenticate(sasl)?;
        }
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
            let there = ringtap_printable(&there.join(", "));
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
        let mut len = [0; 4];
        self.read(&mut len)?;
        let len = usize::try_from(i32::from_be_bytes(len)).ok().filter(|len| (4..=MOST).contains(len));
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

    fn read(&mut self, into: &mut [u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.read_exact(into),
            Stream::Tls(stream) => stream.read_exact(into),
        }
    }
}

/// Text of a broker without what would steer a terminal.
fn ringtap_printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn connect(host: &str, port: u16) -> Result<TcpStream, Failure> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

//! One agent: questions, answers, and when it is given up.
//!
//! Owns the socket and its waiting. The socket is connected, so that only what comes from the agent's own address and port is read.

use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use ringtap::clock;
use ringtap_rootcause::topology::lldp::AgentReport;
use ringtap_run::secrets::random;
use ringtap_snmp::message::{Message, Pdu, Version, parse, tag};
use ringtap_snmp::refusal::Refusal;
use ringtap_snmp::usm::{Correspondent, Heard};
use ringtap_snmp::walk::{Broken, Bulk, Walk};

use super::columns::{COLUMNS, Column, NEIGHBOUR_ADDRESSES, SYS_NAME};
use super::{LONGEST, Patience};

/// Most rows of a column: interfaces, neighbours.
const MOST_ROWS: usize = 65_536;
/// Most that one agent tells in all.
const MOST_BYTES: usize = 16 << 20;
/// Discovery, clock, and once more when the agent was started again meanwhile.
const MOST_LEARNT: u32 = 4;

/// Why an agent told nothing, or not all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It does not answer, or not to these users and communities.
    Silent,
    /// Nothing listens there (ICMP port unreachable).
    Closed,
    /// It refuses the user.
    Refused(Refusal),
    /// What it answers makes no sense.
    Broken(Broken),
    /// It takes or tells more than is waited for or taken.
    TooMuch,
    /// No socket, or nothing can be sent.
    Socket(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("it does not answer: no agent, or not to these users and communities"),
            Self::Closed => f.write_str("no agent listens there"),
            Self::Refused(Refusal::UnknownUser) => f.write_str("it does not know the user"),
            Self::Refused(Refusal::WrongDigest) => {
                f.write_str("the user's password or auth protocol is another one there")
            }
            Self::Refused(cause) => write!(f, "it refuses the user ({}): perhaps another security level", cause.name()),
            Self::Broken(cause) => cause.fmt(f),
            Self::TooMuch => {
                write!(f, "it has not told all within {} s and {} MiB", LONGEST.as_secs(), MOST_BYTES >> 20)
            }
            Self::Socket(error) => f.write_str(error),
        }
    }
}

/// As whom an agent is asked.
pub(super) enum Access {
    /// A user of v3.
    User(Box<Correspondent>),
    /// A community of v2c.
    Community(Vec<u8>),
}

/// What came of one wait.
enum Waited {
    Answered,
    Learnt,
    Refused(Refusal),
    Nothing,
}

pub(super) struct Agent {
    socket: UdpSocket,
    access: Access,
    patience: Patience,
    until: Instant,
    id: i32,
    room: Vec<u8>,
    plain: Vec<u8>,
    /// Bytes it may still tell.
    left: usize,
}

impl Agent {
    /// Asks an agent for all there is, as the first that it answers to.
    pub(super) fn ask_all(
        address: SocketAddr,
        accesses: Vec<Access>,
        patience: Patience,
    ) -> Result<AgentReport, Fault> {
        let mut fault = Fault::Silent;
        let until = Instant::now() + LONGEST;
        for access in accesses {
            let mut agent = Self::new(address, access, patience, until)?;
            let mut told = AgentReport { addresses: [address.ip().to_canonical()].into(), ..AgentReport::default() };
            match agent.walk(&SYS_NAME, &mut told) {
                Ok(()) => {
                    for column in COLUMNS.iter().chain([&NEIGHBOUR_ADDRESSES]) {
                        agent.walk(column, &mut told)?;
                    }
                    return Ok(told);
                }
                Err(Fault::Silent) => {}
                Err(Fault::Closed) => return Err(Fault::Closed),
                Err(other) => fault = other,
            }
        }
        Err(fault)
    }

    fn new(address: SocketAddr, access: Access, patience: Patience, until: Instant) -> Result<Self, Fault> {
        let failed = |error: std::io::Error| Fault::Socket(error.to_string());
        let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).map_err(failed)?;
        socket.connect(address).map_err(failed)?;
        // Nobody can foresee which answer is waited for.
        let id = random().map_err(|error| Fault::Socket(error.to_string()))? as i32 & 0x3fff_ffff;
        let room = vec![0; 65_536];
        Ok(Self { socket, access, patience, until, id, room, plain: Vec::new(), left: MOST_BYTES })
    }

    fn walk(&mut self, column: &Column, told: &mut AgentReport) -> Result<(), Fault> {
        let mut walk = Walk::new(column.name, MOST_ROWS);
        loop {
            let question = walk.question().clone();
            let mut answer = Ok(false);
            let mut bytes = 0;
            self.ask(&question, &mut |pdu| {
                bytes = pdu.varbinds.bytes().len();
                answer = walk.answer(pdu, &mut |index, value| (column.put)(told, index, value));
            })?;
            self.left = self.left.checked_sub(bytes).ok_or(Fault::TooMuch)?;
            if !answer.map_err(Fault::Broken)? {
                return Ok(());
            }
        }
    }

    /// Asks until there is an answer, and hands that over.
    fn ask(&mut self, question: &Bulk, take: &mut dyn FnMut(&Pdu<'_>)) -> Result<(), Fault> {
        let (mut tries, mut learnt) = (0, 0);
        let mut fault = Fault::Silent;
        while tries <= self.patience.retries {
            if Instant::now() >= self.until {
                return Err(Fault::TooMuch);
            }
            self.id = self.id.wrapping_add(1) & 0x7fff_ffff;
            let datagram = match &mut self.access {
                Access::Community(community) => Some(question.v2c(community, self.id)),
                Access::User(far) if far.is_known() => far.question(self.id, question, clock::monotonic_ns()),
                Access::User(far) => far.probe(self.id),
            };
            match self.socket.send(&datagram.unwrap_or_default()) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Err(Fault::Closed),
                Err(error) => return Err(Fault::Socket(error.to_string())),
                Ok(_) => {}
            }
            match self.wait(take)? {
                Waited::Answered => return Ok(()),
                Waited::Learnt if learnt < MOST_LEARNT => learnt += 1,
                Waited::Refused(cause) => {
                    fault = Fault::Refused(cause);
                    tries += 1;
                }
                Waited::Learnt | Waited::Nothing => tries += 1,
            }
        }
        Err(fault)
    }

    /// Reads what comes until the time for an answer is over.
    fn wait(&mut self, take: &mut dyn FnMut(&Pdu<'_>)) -> Result<Waited, Fault> {
        let until = (Instant::now() + self.patience.timeout).min(self.until);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Waited::Nothing);
            }
            let failed = |error: std::io::Error| Fault::Socket(error.to_string());
            self.socket.set_read_timeout(Some(left.max(Duration::from_millis(1)))).map_err(failed)?;
            let length = match self.socket.recv(&mut self.room) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Err(Fault::Closed),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(Waited::Nothing);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            match (&mut self.access, parse(&self.room[..length])) {
                (Access::Community(own), Ok(Message::Community { version: Version::V2c, community, pdu }))
                    if community == own && pdu.tag == tag::RESPONSE && pdu.request_id() == self.id =>
                {
                    take(&pdu);
                    return Ok(Waited::Answered);
                }
                (Access::User(far), Ok(Message::V3(message))) => {
                    match far.hear(&message, clock::monotonic_ns(), &mut self.plain) {
                        Ok(Heard::Learnt) => return Ok(Waited::Learnt),
                        Ok(Heard::Response(pdu)) if pdu.request_id() == self.id => {
                            take(&pdu);
                            return Ok(Waited::Answered);
                        }
                        // A Report without an answer to it: the next try is no better.
                        Err(cause @ (Refusal::UnknownUser | Refusal::WrongDigest | Refusal::SecurityLevel)) => {
                            return Ok(Waited::Refused(cause));
                        }
                        Ok(Heard::Response(_)) | Err(_) => {}
                    }
                }
                _ => {}
            }
        }
    }
}

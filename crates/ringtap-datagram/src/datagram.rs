//! Owns: a message as the payload of one UDP datagram: fixed offsets, network byte order, written in place.
//! Does not: write frames; `ringtap_wire::UdpFrame` does.
//!
//! | bytes | what |
//! |---|---|
//! | 0–3 | `RTAL` |
//! | 4 | version, 2 |
//! | 5 | kind: 1 an alert, 2 a heartbeat |
//! | 6–7 | length of all, bytes: 196 or 120 |
//! | 8–11 | number of the key |
//! | 12 | clock of event times: 1 the host's time of day, 2 a capture file's |
//! | 13 | length of the sensor's name, 1 to 32 |
//! | 14–15 | 0 |
//! | 16–47 | the sensor's name, zeros behind it |
//! | 48–63 | boot id of its host |
//! | 64–71 | epoch |
//! | 72–79 | alert: its number in the epoch, from 1; heartbeat: the last number given |
//! | 80–87 | alert: arrival of the packet; heartbeat: no alert up to here follows (0: no promise; all ones: none at all) |
//! | | as nanoseconds since 1970 |
//! | 88–95 | when this was written, nanoseconds since 1970 |
//! | 96–103 | error of these times, nanoseconds; all ones: unknown |
//!
//! A heartbeat's seal follows in bytes 104–119. An alert goes on:
//!
//! | bytes | what |
//! |---|---|
//! | 104–115 | gid, sid, rev |
//! | 116 | severity, 1 the worst |
//! | 117 | action: 0 allowed, 1 blocked |
//! | 118 | IP version of the addresses: 4 or 6; 0: there are none, and all up to byte 155 is 0 |
//! | 119 | IP protocol |
//! | 120–123 | source port, destination port; 0 for others than TCP, UDP and SCTP |
//! | 124–139 | source address; IPv4 in the first four bytes, zeros behind |
//! | 140–155 | destination address |
//! | 156 | direction: 1 to the server, 2 to the client, 0 without a flow |
//! | 157 | 1: a Community ID follows; 0: 160–179 are 0 |
//! | 158–159 | 0 |
//! | 160–179 | SHA-1 of the Community ID, version 1 |
//! | 180–195 | seal |
//!
//! The seal is the first 16 bytes of HMAC-SHA-256 over everything before it. Each message has one form: what does not write back to
//! the same bytes is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::key::{Key, TAG_LEN};
use crate::message::{Action, Alert, Clock, Direction, Ends, Heartbeat, Message, Origin, Rule, SensorId};
use crate::refused::Refused;

/// Length of an alert's payload, bytes.
pub const ALERT_LEN: usize = 180 + TAG_LEN;
/// Length of a heartbeat's payload, bytes.
pub const HEARTBEAT_LEN: usize = 104 + TAG_LEN;
/// The longest payload, bytes.
pub const MAX_LEN: usize = ALERT_LEN;

const MAGIC: [u8; 4] = *b"RTAL";
const VERSION: u8 = 2;
const ALERT: u8 = 1;
const HEARTBEAT: u8 = 2;
const UNKNOWN: u64 = u64::MAX;

impl Message {
    /// Writes it with its seal to the start of `out`; its length, `None` without room. Never allocates.
    pub fn encode(&self, key: &Key, out: &mut [u8]) -> Option<usize> {
        let len = self.encoded_len();
        let out = out.get_mut(..len)?;
        let body = self.encode_body(key.id(), out)?;
        let tag = key.seal(out.get(..body)?);
        out.get_mut(body..)?.copy_from_slice(&tag);
        Some(len)
    }

    fn encoded_len(&self) -> usize {
        match self {
            Self::Alert(_) => ALERT_LEN,
            Self::Heartbeat(_) => HEARTBEAT_LEN,
        }
    }

    /// What is sealed: all before the seal; its length.
    pub(crate) fn encode_body(&self, key_id: u32, out: &mut [u8]) -> Option<usize> {
        let len = self.encoded_len();
        let mut out = Writer(out);
        match self {
            Self::Alert(alert) => {
                out.head(ALERT, len, key_id, &alert.origin)?;
                out.numbers([alert.sequence, alert.time_ns, alert.built_ns, alert.error_ns.unwrap_or(UNKNOWN)])?;
                out.alert(alert)?;
            }
            Self::Heartbeat(beat) => {
                out.head(HEARTBEAT, len, key_id, &beat.origin)?;
                out.numbers([beat.last_sequence, beat.horizon_ns, beat.sent_ns, beat.error_ns.unwrap_or(UNKNOWN)])?;
            }
        }
        Some(len - TAG_LEN)
    }

    /// Writes it without a seal to the start of `out`, for a log: a datagram with key 0, up to its seal; its length. `None`
    /// without room, or where addresses are of two IP versions.
    pub fn encode_unsealed(&self, out: &mut [u8]) -> Option<usize> {
        self.encode_body(0, out)
    }

    /// Reads what [`encode_unsealed`](Self::encode_unsealed) wrote.
    ///
    /// # Errors
    /// It is nothing of the kind.
    pub fn decode_unsealed(bytes: &[u8]) -> Result<Self, Refused> {
        let head = Head::read(bytes, bytes.len() + TAG_LEN)?;
        body(bytes, head.kind, head.sensor)
    }
}

/// The room that is left.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let (here, rest) = std::mem::take(&mut self.0).split_at_mut_checked(bytes.len())?;
        here.copy_from_slice(bytes);
        self.0 = rest;
        Some(())
    }

    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) -> Option<()> {
        numbers.iter().try_for_each(|number| self.put(&number.to_be_bytes()))
    }

    fn head(&mut self, kind: u8, len: usize, key_id: u32, origin: &Origin) -> Option<()> {
        let (name, name_len) = origin.sensor.padded();
        self.put(&MAGIC)?;
        self.put(&[VERSION, kind])?;
        self.put(&u16::try_from(len).ok()?.to_be_bytes())?;
        self.put(&key_id.to_be_bytes())?;
        self.put(&[origin.clock as u8, name_len, 0, 0])?;
        self.put(name)?;
        self.put(&origin.boot_id)?;
        self.put(&origin.epoch.to_be_bytes())
    }

    fn alert(&mut self, alert: &Alert) -> Option<()> {
        for number in [alert.rule.gid, alert.rule.sid, alert.rule.rev] {
            self.put(&number.to_be_bytes())?;
        }
        self.put(&[alert.severity, alert.action as u8])?;
        match &alert.ends {
            None => self.put(&[0; 38])?,
            Some(ends) => {
                let (source, destination) = ends.addresses()?;
                let ports = if has_ports(ends.protocol) { ends.ports } else { (0, 0) };
                self.put(&[if ends.source.is_ipv4() { 4 } else { 6 }, ends.protocol])?;
                self.put(&ports.0.to_be_bytes())?;
                self.put(&ports.1.to_be_bytes())?;
                self.put(&source)?;
                self.put(&destination)?;
            }
        }
        self.put(&[alert.direction.map_or(0, |direction| direction as u8), u8::from(alert.community.is_some()), 0, 0])?;
        self.put(&alert.community.unwrap_or_default())
    }
}

/// Whether this protocol's ports are told.
pub(crate) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 132)
}

fn padded(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}

impl Ends {
    /// `None` where the addresses are of two versions.
    fn addresses(&self) -> Option<([u8; 16], [u8; 16])> {
        (self.source.is_ipv4() == self.destination.is_ipv4()).then(|| (padded(self.source), padded(self.destination)))
    }
}

/// A payload that looks like a message, of which nothing is to be believed yet.
#[derive(Clone, Copy, Debug)]
pub struct Sealed<'a> {
    body: &'a [u8],
    tag: &'a [u8; TAG_LEN],
    kind: u8,
    key_id: u32,
    sensor: SensorId,
}

impl<'a> Sealed<'a> {
    /// Looks at what says who has sealed it, with which key.
    ///
    /// # Errors
    /// It is no message of this version, or not as long as it says.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Refused> {
        let (body, tag) = payload.split_last_chunk().ok_or(Refused::Length)?;
        let Head { kind, key_id, sensor } = Head::read(body, payload.len())?;
        Ok(Self { body, tag, kind, key_id, sensor })
    }

    /// The sensor it says it is from.
    #[must_use]
    pub fn sensor(&self) -> SensorId {
        self.sensor
    }

    /// The number of the key it says it is sealed with.
    #[must_use]
    pub fn key_id(&self) -> u32 {
        self.key_id
    }

    /// What it says, if this key has sealed it. Whether the key is that sensor's is for the caller to know.
    ///
    /// # Errors
    /// Another key, a wrong seal, or a field that no sensor writes so.
    pub fn open(&self, key: &Key) -> Result<Message, Refused> {
        if key.id() != self.key_id {
            return Err(Refused::OtherKey);
        }
        if !key.has_sealed(self.body, self.tag) {
            return Err(Refused::Forged);
        }
        body(self.body, self.kind, self.sensor)
    }
}

/// What stands before the rest of each message.
struct Head {
    kind: u8,
    key_id: u32,
    sensor: SensorId,
}

impl Head {
    /// `len`: of the whole datagram.
    fn read(body: &[u8], len: usize) -> Result<Self, Refused> {
        let mut bytes = Reader(body);
        if bytes.array()? != MAGIC {
            return Err(Refused::Foreign);
        }
        let [version, kind] = bytes.array()?;
        if version != VERSION {
            return Err(Refused::Version(version));
        }
        let expected = match kind {
            ALERT => ALERT_LEN,
            HEARTBEAT => HEARTBEAT_LEN,
            _ => return Err(Refused::Field("kind")),
        };
        if usize::from(u16::from_be_bytes(bytes.array()?)) != expected || len != expected {
            return Err(Refused::Length);
        }
        let key_id = u32::from_be_bytes(bytes.array()?);
        let [_, name_len, ..]: [u8; 4] = bytes.array()?;
        let sensor = SensorId::of_padded(&bytes.array()?, name_len).map_err(|_| Refused::Field("sensor's name"))?;
        Ok(Self { kind, key_id, sensor })
    }
}

/// A message up to its seal.
fn body(body: &[u8], kind: u8, sensor: SensorId) -> Result<Message, Refused> {
    let mut bytes = Reader(body.get(12..).ok_or(Refused::Length)?);
    let clock = match bytes.array()? {
        [1, _, 0, 0] => Clock::Host,
        [2, _, 0, 0] => Clock::Recorded,
        _ => return Err(Refused::Field("clock")),
    };
    let _: [u8; 32] = bytes.array()?;
    let origin = Origin { sensor, boot_id: bytes.array()?, clock, epoch: bytes.number()? };
    let (sequence, time_ns, written_ns) = (bytes.number()?, bytes.number()?, bytes.number()?);
    let error_ns = Some(bytes.number()?).filter(|error| *error != UNKNOWN);
    if kind == HEARTBEAT {
        let (last_sequence, horizon_ns, sent_ns) = (sequence, time_ns, written_ns);
        return Ok(Message::Heartbeat(Heartbeat { origin, last_sequence, horizon_ns, sent_ns, error_ns }));
    }
    if sequence == 0 {
        return Err(Refused::Field("sequence"));
    }
    let rule = Rule { gid: bytes.half()?, sid: bytes.half()?, rev: bytes.half()? };
    let [severity, action] = bytes.array()?;
    let action = match action {
        0 => Action::Allowed,
        1 => Action::Blocked,
        _ => return Err(Refused::Field("action")),
    };
    let ends = bytes.ends()?;
    let (direction, community) = bytes.flow()?;
    Ok(Message::Alert(Alert {
        origin,
        sequence,
        time_ns,
        built_ns: written_ns,
        error_ns,
        rule,
        severity,
        action,
        ends,
        direction,
        community,
    }))
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        let (here, rest) = self.0.split_first_chunk().ok_or(Refused::Length)?;
        self.0 = rest;
        Ok(*here)
    }

    fn number(&mut self) -> Result<u64, Refused> {
        self.array().map(u64::from_be_bytes)
    }

    fn half(&mut self) -> Result<u32, Refused> {
        self.array().map(u32::from_be_bytes)
    }

    fn ends(&mut self) -> Result<Option<Ends>, Refused> {
        let [version, protocol] = self.array()?;
        let ports = (u16::from_be_bytes(self.array()?), u16::from_be_bytes(self.array()?));
        let (source, destination) = (self.array()?, self.array()?);
        if version == 0 {
            let is_zero = (protocol, ports, source, destination) == (0, (0, 0), [0; 16], [0; 16]);
            return if is_zero { Ok(None) } else { Err(Refused::Field("IP version")) };
        }
        if ports != (0, 0) && !has_ports(protocol) {
            return Err(Refused::Field("port"));
        }
        let address = |bytes: [u8; 16]| match (version, bytes) {
            (4, [a, b, c, d, rest @ ..]) if rest == [0; 12] => Ok(IpAddr::from(Ipv4Addr::new(a, b, c, d))),
            (6, bytes) => Ok(IpAddr::from(Ipv6Addr::from(bytes))),
            _ => Err(Refused::Field("address")),
        };
        Ok(Some(Ends { source: address(source)?, destination: address(destination)?, protocol, ports }))
    }

    fn flow(&mut self) -> Result<(Option<Direction>, Option<[u8; 20]>), Refused> {
        let [direction, has_community, zero @ ..]: [u8; 4] = self.array()?;
        let direction = match direction {
            0 => None,
            1 => Some(Direction::ToServer),
            2 => Some(Direction::ToClient),
            _ => return Err(Refused::Field("direction")),
        };
        let hash: [u8; 20] = self.array()?;
        let community = match has_community {
            0 if hash == [0; 20] => None,
            1 => Some(hash),
            _ => return Err(Refused::Field("Community ID")),
        };
        if zero != [0; 2] {
            return Err(Refused::Field("Community ID"));
        }
        Ok((direction, community))
    }
}

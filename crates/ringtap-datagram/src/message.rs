//! Owns: what a message says, as plain values.
//! Does not: know how it is written.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Longest name of a sensor, bytes.
const ID_MAX: usize = 32;

/// The name of a sensor: 1 to 32 of a–z, 0–9, `.`, `_` and `-`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SensorId {
    /// The rest is zero.
    bytes: [u8; ID_MAX],
    len: u8,
}

/// A text that is no name of a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdError;

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sensor's name is 1 to 32 of a-z, 0-9, '.', '_' and '-'")
    }
}

impl std::error::Error for IdError {}

impl SensorId {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.bytes.get(..usize::from(self.len)).and_then(|name| str::from_utf8(name).ok()).unwrap_or_default()
    }

    /// Its bytes, with zeros behind, and how many of them are the name.
    pub(crate) fn padded(&self) -> (&[u8; ID_MAX], u8) {
        (&self.bytes, self.len)
    }

    /// Of a name with nothing but zeros behind it.
    pub(crate) fn of_padded(bytes: &[u8; ID_MAX], len: u8) -> Result<Self, IdError> {
        let (name, rest) = bytes.split_at_checked(usize::from(len)).ok_or(IdError)?;
        let is_name = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
        let is_good = len > 0 && name.iter().all(is_name) && rest.iter().all(|byte| *byte == 0);
        is_good.then_some(Self { bytes: *bytes, len }).ok_or(IdError)
    }
}

impl FromStr for SensorId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut bytes = [0; ID_MAX];
        bytes.get_mut(..text.len()).ok_or(IdError)?.copy_from_slice(text.as_bytes());
        Self::of_padded(&bytes, text.len() as u8)
    }
}

impl fmt::Display for SensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// Whose clock event times are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Clock {
    /// The host's time of day: sensors of one boot that have it have no error to each other.
    Host = 1,
    /// Whatever wrote the capture file that is replayed.
    Recorded = 2,
}

/// From whom a message is, and in which of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The sensor.
    pub sensor: SensorId,
    /// The boot of its host, as the kernel names it.
    pub boot_id: [u8; 16],
    /// Its clock.
    pub clock: Clock,
    /// Greater at each start of the sensor, and whenever its clock was set. Sequence numbers begin anew, and what was promised
    /// about times ends.
    pub epoch: u64,
}

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// Generator identifier.
    pub gid: u32,
    /// Signature identifier.
    pub sid: u32,
    /// Revision.
    pub rev: u32,
}

/// What was done with the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// It went on.
    Allowed = 0,
    /// It did not.
    Blocked = 1,
}

/// Which side of a flow sent the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// The client.
    ToServer = 1,
    /// The server.
    ToClient = 2,
}

/// Addresses of one IP version, and what goes with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// Source.
    pub source: IpAddr,
    /// Destination, of the same version.
    pub destination: IpAddr,
    /// IP protocol.
    pub protocol: u8,
    /// Ports of TCP, UDP and SCTP; of other protocols 0, and not told.
    pub ports: (u16, u16),
}

/// A rule matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alert {
    /// From whom.
    pub origin: Origin,
    /// Number in the epoch, from 1.
    pub sequence: u64,
    /// Arrival of the packet, nanoseconds since 1970.
    pub time_ns: u64,
    /// When this was written, nanoseconds since 1970.
    pub built_ns: u64,
    /// How far `time_ns` may be from the true time, nanoseconds below 2^64 − 1; `None`: unknown.
    pub error_ns: Option<u64>,
    /// The rule.
    pub rule: Rule,
    /// 1 the worst.
    pub severity: u8,
    /// What was done.
    pub action: Action,
    /// Between whom; `None` without IP.
    pub ends: Option<Ends>,
    /// In a flow: which way.
    pub direction: Option<Direction>,
    /// SHA-1 of the flow, Community ID version 1.
    pub community: Option<[u8; 20]>,
}

/// No alert with a time up to `horizon_ns` follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heartbeat {
    /// From whom.
    pub origin: Origin,
    /// The last number given in this epoch, 0 for none: the promise holds for what has a greater one.
    pub last_sequence: u64,
    /// Each alert with a greater number has a later time; nanoseconds since 1970. 0: nothing is promised yet. All ones: nothing
    /// follows in this epoch, as a file is at its end.
    pub horizon_ns: u64,
    /// When this was written, nanoseconds since 1970.
    pub sent_ns: u64,
    /// How far times may be from the true ones, nanoseconds below 2^64 − 1; `None`: unknown.
    pub error_ns: Option<u64>,
}

/// What a sensor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// A rule matched.
    Alert(Alert),
    /// How far it is.
    Heartbeat(Heartbeat),
}

impl Message {
    /// From whom.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        match self {
            Self::Alert(alert) => &alert.origin,
            Self::Heartbeat(beat) => &beat.origin,
        }
    }
}

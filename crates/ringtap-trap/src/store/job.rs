//! What is written in one transaction, and what follows it.
//!
//! Owns the shape of a job. Writing it is the store's, filling it the station's.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use ringtap_alarm::model::{Alarm, Judgement};

use crate::spool::Head;

/// How a notification came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Trap of v1.
    V1 = 1,
    /// Trap or inform of v2c.
    V2c = 2,
    /// Trap or inform of v3.
    V3 = 3,
    /// Syslog.
    Syslog = 10,
}

impl Kind {
    pub(super) fn from_number(number: u8) -> Option<Self> {
        [Self::V1, Self::V2c, Self::V3, Self::Syslog].into_iter().find(|kind| *kind as u8 == number)
    }

    /// Its name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "snmp_v1",
            Self::V2c => "snmp_v2c",
            Self::V3 => "snmp_v3",
            Self::Syslog => "syslog",
        }
    }
}

/// One notification of a [`Job`].
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its number.
    pub id: u64,
    /// Arrival, nanoseconds since 1970.
    pub at_ns: u64,
    /// Its sender.
    pub source: SocketAddr,
    /// How it came.
    pub kind: Kind,
    /// Its alarm's number.
    pub alarm: Option<u64>,
    /// What became of it.
    pub judgement: Judgement,
    /// Its bytes in the job's.
    pub raw: Range<usize>,
    /// The decrypted scoped PDU in the job's bytes.
    pub decrypted: Option<Range<usize>>,
}

/// An answer that waits until its inform is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Where to.
    pub to: SocketAddr,
    /// From which address of ours; `None`: the host chooses.
    pub from: Option<IpAddr>,
    /// By which socket.
    pub socket: u8,
    /// The datagram.
    pub bytes: Vec<u8>,
}

impl Answer {
    /// The answer to a datagram: from where that was sent to, to where it came from.
    pub(crate) fn to(head: Head, bytes: Vec<u8>) -> Self {
        Self { to: head.source, from: head.to, socket: head.socket, bytes }
    }
}

/// What is written in one transaction.
#[derive(Debug, Default)]
pub struct Job {
    /// Bytes of all rows.
    pub bytes: Vec<u8>,
    /// Notifications.
    pub rows: Vec<Row>,
    /// Alarms that changed, as they are now.
    pub alarms: Vec<Alarm>,
    /// To be sent afterwards.
    pub answers: Vec<Answer>,
}

impl Job {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.alarms.is_empty()
    }

    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.alarms.clear();
        self.answers.clear();
    }
}

//! What is written in one transaction, and what follows it.
//!
//! Owns the shape of a job, and where the bytes of its rows lie: in the spool, or copied. Writing it is the store's, filling it the judge's.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use ringtap_snmp::usm::EngineClock;

use crate::act::Entry;
use crate::alarm::{Alarm, Judgement};
use crate::outputs::News;
use crate::spool::{Head, Kept};
use crate::store::IncidentChanges;

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
    /// Where its bytes are in the job.
    pub raw: Place,
    /// Where the decrypted scoped PDU is.
    pub decrypted: Option<Place>,
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

/// Where bytes lie in a [`Job`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// 0: copied; else the number of a part in the spool, from 1 on.
    part: usize,
    range: Range<usize>,
}

/// A part of the spool that a job keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part(usize);

impl Part {
    /// The place of these of its bytes.
    pub fn place(self, range: Range<usize>) -> Place {
        Place { part: self.0, range }
    }
}

/// What is written in one transaction.
#[derive(Debug, Default)]
pub struct Job {
    /// Bytes that were copied.
    copied: Vec<u8>,
    /// Bytes that lie in the spool.
    kept: Vec<Kept>,
    size: usize,
    /// Notifications.
    pub rows: Vec<Row>,
    /// Alarms that changed, as they are now.
    pub alarms: Vec<Alarm>,
    /// What was done with alarms; the requests of operators among it are done with then.
    pub history: Vec<Entry>,
    /// What was announced and is to be posted.
    pub told: Vec<News>,
    /// Incidents that changed.
    pub incidents: IncidentChanges,
    /// Clocks of SNMP engines that went on.
    pub clocks: Vec<EngineClock>,
    /// To be sent afterwards.
    pub answers: Vec<Answer>,
}

impl Job {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
            && self.alarms.is_empty()
            && self.history.is_empty()
            && self.told.is_empty()
            && self.incidents.is_empty()
    }

    /// Bytes in it, copied or kept.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Keeps a part of the spool until the job is cleared.
    pub fn keep(&mut self, bytes: Kept) -> Part {
        self.size += bytes.len();
        self.kept.push(bytes);
        Part(self.kept.len())
    }

    /// Gives back the part that was kept last: no row looks into it.
    pub fn give_back(&mut self, part: Part) {
        if part.0 == self.kept.len()
            && let Some(bytes) = self.kept.pop()
        {
            self.size -= bytes.len();
        }
    }

    /// Copies bytes into the job.
    pub fn copy(&mut self, bytes: &[u8]) -> Place {
        let start = self.copied.len();
        self.copied.extend_from_slice(bytes);
        self.size += bytes.len();
        Place { part: 0, range: start..self.copied.len() }
    }

    /// The bytes at a place; none at one of another job.
    pub fn bytes(&self, place: &Place) -> &[u8] {
        let part = match place.part.checked_sub(1) {
            None => Some(&self.copied[..]),
            Some(kept) => self.kept.get(kept).map(|bytes| &bytes[..]),
        };
        part.and_then(|bytes| bytes.get(place.range.clone())).unwrap_or_default()
    }

    /// Empties it, keeping its memory and giving the spool's back.
    pub fn clear(&mut self) {
        self.copied.clear();
        self.kept.clear();
        self.size = 0;
        self.rows.clear();
        self.alarms.clear();
        self.history.clear();
        self.told.clear();
        self.incidents = IncidentChanges::default();
        self.clocks.clear();
        self.answers.clear();
    }
}

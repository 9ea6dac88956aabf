//! What operators do with alarms, and what time does: clearing, acknowledging, remarks, expiry; each leaves an entry in the store's history.
//!
//! Owns the words, and how one is applied to a table of alarms: by the running station, or by whoever has the store when none runs.

use serde::{Deserialize, Serialize};

use crate::alarm::Alarm;
use crate::table::AlarmTable;

/// What is done with an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// An operator says that the condition is gone.
    Cleared,
    /// Nobody told of it for as long as its rule says: it is taken as gone.
    Expired,
    /// An operator takes care of it (operator state `ack` of RFC 8632 §3.5.1).
    Acknowledged,
    /// Nobody does any more (`un-ack`).
    Unacknowledged,
    /// A remark.
    Commented,
}

impl Act {
    const ALL: [Self; 5] = [Self::Cleared, Self::Expired, Self::Acknowledged, Self::Unacknowledged, Self::Commented];

    /// The store's number of it.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// The one with this number.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// What the alarm is after it, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cleared => "cleared",
            Self::Expired => "expired",
            Self::Acknowledged => "acknowledged",
            Self::Unacknowledged => "no longer acknowledged",
            Self::Commented => "commented",
        }
    }
}

/// What an operator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The alarm's number.
    pub alarm: u64,
    /// What is to be done with it.
    pub act: Act,
    /// Who asks.
    pub operator: String,
    /// Why.
    pub comment: Option<String>,
}

/// What was done with an alarm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The alarm's number.
    pub alarm: u64,
    /// When, nanoseconds since 1970.
    pub at_ns: u64,
    /// What.
    pub act: Act,
    /// By whom; `None`: by time.
    pub operator: Option<String>,
    /// Why.
    pub comment: Option<String>,
    /// The number of the request in the store, which is done with this.
    #[serde(skip)]
    pub request: Option<u64>,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Done {
    /// One for each request, in order.
    pub entries: Vec<Entry>,
    /// Alarms whose state is another now, where the outside is to be told.
    pub changed: Vec<Alarm>,
}

/// Does what was asked for; each request with its number in the store, where it has one.
pub fn apply(table: &mut AlarmTable, requests: Vec<(Option<u64>, Request)>, at_ns: u64) -> Done {
    let mut done = Done::default();
    let places = table.places(requests.iter().map(|(_, request)| request.alarm));
    for (number, request) in requests {
        let Request { alarm, act, operator, comment } = request;
        // One that has left the table is over: what is written about it stays in the history.
        if let Some(&place) = places.get(&alarm) {
            match act {
                Act::Cleared => done.changed.extend(table.clear(place, &operator, at_ns).cloned()),
                Act::Acknowledged => table.acknowledge(place, Some(&operator), at_ns),
                Act::Unacknowledged => table.acknowledge(place, None, at_ns),
                Act::Expired | Act::Commented => {}
            }
        }
        done.entries.push(Entry { alarm, at_ns, act, operator: Some(operator), comment, request: number });
    }
    done
}

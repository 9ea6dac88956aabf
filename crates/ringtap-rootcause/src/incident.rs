//! Incidents: alarms that belong together and what broke, and what is told of them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::problem::Element;
use crate::symptom::Subject;

/// What an incident says broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// One of these: nothing that was observed can tell them apart. The first is the lowest in the containment tree.
    Class(Vec<Element>),
    /// Nothing in the topology explains this alarm; it stands for itself.
    Alarm {
        /// What it is about.
        subject: Subject,
        /// What that is in the topology, if it is there.
        element: Option<Element>,
    },
    /// Nothing in the topology explains these alarms of nodes that name each other, or of one.
    Nodes(BTreeSet<String>),
    /// These alarms stayed when their incident was resolved: each has a cause of its own, or the word that it is over was lost.
    Left {
        /// The incident that is no more.
        resolved: u64,
    },
}

/// An incident. Times are nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// Its number; never used again.
    pub id: u64,
    /// What broke.
    pub root: Root,
    /// First alarm.
    pub first_ns: u64,
    /// When it was announced.
    pub decided_ns: u64,
    /// Its alarms, cleared ones included.
    pub members: BTreeSet<u64>,
    /// Symptoms that its cause has.
    pub expected: u32,
    /// Those of them that were observed.
    pub seen: u32,
    /// How much likelier its cause is than the next best, thousandths; of alarms by themselves 0.
    pub confidence: u16,
    /// How often its root became another.
    pub revisions: u32,
    /// The episode it began in.
    pub episode: u64,
    /// When the latest of its alarms was cleared, while others are not.
    pub clearing_ns: Option<u64>,
}

/// What became of incidents, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// A new incident: an announcement.
    Opened(Incident),
    /// Later evidence says that something else broke: an announcement.
    Revised(Incident),
    /// An alarm was explained by what is known.
    Joined {
        /// The incident.
        incident: u64,
        /// The alarm.
        alarm: u64,
    },
    /// The alarms of an incident belong to another: its announcement is taken back.
    Merged {
        /// The incident that is no more.
        incident: u64,
        /// Where its alarms are.
        into: u64,
    },
    /// All is well again, or what is left has another cause.
    Resolved(Incident),
    /// The bound of work on an episode was reached: what has no cause by now is told for itself, until a minute is over or it is.
    Exhausted {
        /// The episode.
        episode: u64,
    },
    /// A storm began or ended.
    Storm {
        /// Its episode.
        episode: u64,
        /// Alarms in it so far.
        alarms: u64,
        /// It began; else it is over.
        began: bool,
    },
}

/// Thousandths from the cost by which the next best explanation is worse (1000 · ln).
pub(crate) fn confidence(margin: u64) -> u16 {
    // 1 − 2^−(margin / ln 2), in whole bits.
    let bits = (margin / 693).min(10) as u32;
    1000 - (1000 >> bits)
}

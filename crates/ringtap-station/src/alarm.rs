//! What an alarm is (terms of X.733, vocabulary of RFC 8632), and what can become of a notification of it.
//!
//! Owns the words. Which notification means what is a rule of whoever receives it, what follows is the [`table`](crate::table)'s.

use std::fmt;
use std::net::IpAddr;

pub use ringtap_output::Severity;
pub use ringtap_snmp::usm::SecurityLevel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an alarm is about: event type of X.733 §8.1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EventType {
    /// Moving information from one point to another.
    CommunicationsAlarm,
    /// Degraded quality of a service.
    QualityOfServiceAlarm,
    /// Software or processing.
    ProcessingErrorAlarm,
    /// Equipment.
    EquipmentAlarm,
    /// The enclosure in which the equipment is.
    EnvironmentalAlarm,
}

impl EventType {
    /// Its name in X.721.
    pub fn name(self) -> &'static str {
        match self {
            Self::CommunicationsAlarm => "communicationsAlarm",
            Self::QualityOfServiceAlarm => "qualityOfServiceAlarm",
            Self::ProcessingErrorAlarm => "processingErrorAlarm",
            Self::EquipmentAlarm => "equipmentAlarm",
            Self::EnvironmentalAlarm => "environmentalAlarm",
        }
    }

    /// By its name.
    pub fn from_name(name: &str) -> Option<Self> {
        [
            Self::CommunicationsAlarm,
            Self::QualityOfServiceAlarm,
            Self::ProcessingErrorAlarm,
            Self::EquipmentAlarm,
            Self::EnvironmentalAlarm,
        ]
        .into_iter()
        .find(|kind| kind.name() == name)
    }
}

/// What is known of a condition beside its severity; an alarm has it from the rule that raised it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Classification {
    /// Event type.
    pub event_type: Option<EventType>,
    /// Probable cause (X.733 §8.1.2.1), by its name in X.721, such as `lossOfSignal`.
    pub probable_cause: Option<String>,
}

/// What distinguishes alarms (RFC 8632 §3.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The node: its address, or a host name from syslog.
    pub resource: String,
    /// The condition: the name of the raising notification, or its OID.
    pub condition: String,
    /// The object within the node; empty: the node itself.
    pub object: String,
}

/// Who raised an alarm, as far as that is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The sender of the notification; `None`: the store did not note it yet.
    pub source: Option<IpAddr>,
    /// The security that the notification came with.
    pub security: SecurityLevel,
    /// What else it showed; the store's concern.
    #[serde(skip)]
    pub shown: Shown,
    /// It is no stranger: authenticated, with a community or certificate that is asked for, or from an address that the configuration names.
    /// Of today's configuration: when that is another one, [`Config::judge`](crate::config::Config::judge) sees stored alarms by it.
    pub is_known: bool,
}

/// What a sender shows beside its address and the security of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shown {
    /// Nothing that was asked for.
    #[default]
    Nothing,
    /// A community that was asked for.
    Community,
    /// A certificate that was asked for.
    Certificate,
}

impl Origin {
    /// Whether it may change what `other` raised: it is at least as authentic.
    pub fn is_as_authentic_as(self, other: Self) -> bool {
        (self.security, self.is_known) >= (other.security, other.is_known)
    }
}

/// An alarm. Times are nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alarm {
    /// Its number; never used again.
    pub id: u64,
    /// What it is about.
    #[serde(flatten)]
    pub key: Key,
    /// Severity when it was last raised.
    pub severity: Severity,
    /// Event type and probable cause, as far as they are known.
    #[serde(flatten)]
    pub classification: Classification,
    /// Who raised it: whoever found it cleared, or came later with more authenticity.
    #[serde(flatten)]
    pub origin: Origin,
    /// The condition is gone, or an operator has said so.
    pub cleared: bool,
    /// Notifications of it.
    pub count: u64,
    /// Times it went from cleared to raised or back.
    pub changes: u64,
    /// First notification.
    pub first_ns: u64,
    /// Latest notification.
    pub last_ns: u64,
    /// When it was last raised or cleared.
    pub changed_ns: u64,
    /// Number of the latest notification.
    pub last_notification: u64,
    /// Its changes are not announced while this lasts.
    pub flapping: bool,
    /// When something more authentic was last news (nanoseconds since 1970; 0: never, or not since the start). Not stored.
    pub news_ns: u64,
    /// Penalty of its changes, and when that was reckoned (RFC 2439 §4.2).
    pub penalty: f64,
    /// Notifications whose change was not announced.
    pub suppressed: u64,
    /// What an operator wrote when clearing it.
    pub operator: Option<String>,
    /// It was cleared because nobody told of it for as long as its rule says.
    pub expired: bool,
    /// Who takes care of it, while it is raised.
    pub acknowledged: Option<Acknowledged>,
    /// It is raised in maintenance: its changes are not announced.
    pub maintenance: bool,
    /// While it is in maintenance: whether the outside knows that it is raised, from before.
    #[serde(skip)]
    pub is_told: bool,
}

/// Who takes care of an alarm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// The operator's name.
    pub by: String,
    /// Since when, nanoseconds since 1970.
    pub at_ns: u64,
}

/// What became of a notification.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// A new alarm.
    New,
    /// The alarm's state changed, and that is announced.
    Changed,
    /// The alarm was in this state already.
    Repeated,
    /// The state changed and is not announced: the alarm flaps.
    Flapping {
        /// Its penalty.
        penalty: f64,
    },
    /// It cleared what was not there.
    ClearedNothing,
    /// The same inform came before.
    Retransmission,
    /// Syslog of lower severity than alarms are made of.
    BelowThreshold,
    /// There are as many alarms as may be.
    TableFull,
    /// Strangers, its sender's network or its sender have as many alarms as they may have.
    ShareFull,
    /// The alarm was raised with more authenticity than this notification has: it changes nothing.
    NotAuthentic,
    /// The state changed and is not announced: the alarm is in maintenance.
    Maintenance,
}

impl Judgement {
    /// Whether a change of state is to be told to the outside.
    pub fn is_announced(&self) -> bool {
        matches!(self, Self::New | Self::Changed)
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("new alarm"),
            Self::Changed => f.write_str("state changed"),
            Self::Repeated => f.write_str("suppressed: repeated, the alarm is in this state"),
            Self::Flapping { penalty } => write!(f, "suppressed: flapping, penalty {penalty:.1}"),
            Self::ClearedNothing => f.write_str("suppressed: nothing to clear"),
            Self::Retransmission => f.write_str("suppressed: inform sent again"),
            Self::BelowThreshold => f.write_str("no alarm: below the severity of alarms"),
            Self::TableFull => f.write_str("no alarm: the table of alarms is full"),
            Self::ShareFull => {
                f.write_str("no alarm: strangers, its network or its sender have as many as they may have")
            }
            Self::Maintenance => f.write_str("state changed, not announced: in maintenance"),
            Self::NotAuthentic => f.write_str("suppressed: the alarm was raised with more authenticity than this has"),
        }
    }
}

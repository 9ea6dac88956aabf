//! What standard notifications mean: which raise a condition, which clear it, on which object, how bad it is.
//!
//! Owns the table of rules, built in and configured, keyed by snmpTrapOID. Severities are a starting point that a
//! configuration overrides; the MIBs say none.

use std::collections::HashMap;

use ringtap_alarm::model::{Classification, EventType, Severity};

use crate::oid;
use crate::snmp::{Value, Varbinds};

/// What a notification does to its condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The condition is there.
    Raise,
    /// It is gone.
    Clear,
    /// Something happened; nothing will clear it.
    Event,
    /// The varbind of this column says: one of these values clears, others raise.
    ByValue {
        /// The column, encoded.
        column: Vec<u8>,
        /// Values that mean that all is well.
        clear: Vec<i64>,
    },
}

/// One notification's meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The condition: the same for a pair of notifications.
    pub condition: String,
    /// Severity when raised.
    pub severity: Severity,
    /// Event type and probable cause when raised.
    pub classification: Classification,
    /// What it does.
    pub effect: Effect,
    /// Columns, encoded: the instance of the first varbind of one of these names the object.
    pub object: Vec<Vec<u8>>,
}

/// Rules by encoded snmpTrapOID.
#[derive(Debug, Clone, Default)]
pub struct Rules(HashMap<Vec<u8>, Rule>);

impl Rules {
    /// The standard notifications.
    pub fn standard() -> Self {
        let mut rules = Self::default();
        for &(trap, condition, severity, (event_type, cause), effect, object) in STANDARD {
            let effect = match effect {
                E::Raise => Effect::Raise,
                E::Clear => Effect::Clear,
                E::Event => Effect::Event,
                E::Value(column, clear) => Effect::ByValue { column: encoded(column), clear: clear.to_vec() },
            };
            let object = object.split_whitespace().map(encoded).collect();
            let probable_cause = (!cause.is_empty()).then(|| cause.to_owned());
            let classification = Classification { event_type, probable_cause };
            rules.insert(
                encoded(trap),
                Rule { condition: condition.to_owned(), severity, classification, effect, object },
            );
        }
        rules
    }

    /// All rules by encoded snmpTrapOID, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Rule)> {
        self.0.iter().map(|(trap, rule)| (trap.as_slice(), rule))
    }

    /// Adds a rule for an encoded snmpTrapOID, or replaces it.
    pub fn insert(&mut self, trap_oid: Vec<u8>, rule: Rule) {
        self.0.insert(trap_oid, rule);
    }

    /// The rule for an encoded snmpTrapOID.
    ///
    /// The mapping from v1 puts a zero before the last number (RFC 3584 §3.1). Not every notification of v2 has one there, such as
    /// OSPF's, so what is not found is looked for without it.
    pub fn find(&self, trap_oid: &[u8]) -> Option<&Rule> {
        self.0.get(trap_oid).or_else(|| {
            // Subidentifiers end with a byte below 0x80; the zero is a byte of its own behind such an end.
            let last = trap_oid.iter().rposition(|&byte| byte == 0)?;
            let tail = &trap_oid[last + 1..];
            let is_one = tail.iter().rposition(|&byte| byte < 0x80) == tail.iter().position(|&byte| byte < 0x80);
            let is_whole = last > 0 && trap_oid[last - 1] < 0x80 && !tail.is_empty() && is_one;
            is_whole.then(|| self.0.get(&[&trap_oid[..last], tail].concat()))?
        })
    }
}

impl Rule {
    /// What it does, given the varbinds: `Some(true)` raises, `Some(false)` clears, `None` neither.
    pub fn raises(&self, varbinds: Varbinds<'_>) -> Option<bool> {
        match &self.effect {
            Effect::Raise => Some(true),
            Effect::Clear => Some(false),
            Effect::Event => None,
            Effect::ByValue { column, clear } => {
                let value = varbinds.iter().find_map(|varbind| match varbind.value {
                    Value::Integer(value) if varbind.name.suffix(column).is_some() => Some(value),
                    _ => None,
                });
                // Without the varbind nothing is known to be well again.
                Some(value.is_none_or(|value| !clear.contains(&value)))
            }
        }
    }

    /// The object within the node, such as `3` for ifIndex 3; empty: the node itself.
    pub fn object(&self, varbinds: Varbinds<'_>, out: &mut String) {
        use std::fmt::Write;
        for column in &self.object {
            for varbind in varbinds.iter() {
                if let Some(instance) = varbind.name.suffix(column).filter(|suffix| !suffix.is_empty()) {
                    let _ = write!(out, "{instance}");
                    return;
                }
            }
        }
    }
}

fn encoded(text: &str) -> Vec<u8> {
    oid::encode(&oid::parse(text).unwrap_or_default())
}

#[derive(Clone, Copy)]
enum E {
    Raise,
    Clear,
    Event,
    Value(&'static str, &'static [i64]),
}

/// ifIndex, ifAdminStatus, ifOperStatus, ifDescr: agents differ in which they send (RFC 2863 §3.1.16 asks for the first three).
const IF: &str = "1.3.6.1.2.1.2.2.1.1 1.3.6.1.2.1.2.2.1.8 1.3.6.1.2.1.2.2.1.7 1.3.6.1.2.1.2.2.1.2";
/// bgpPeerRemoteAddr, bgpPeerLastError, bgpPeerState: the index is the peer.
const BGP: &str = "1.3.6.1.2.1.15.3.1.7 1.3.6.1.2.1.15.3.1.14 1.3.6.1.2.1.15.3.1.2";
/// ospfNbrIpAddr, ospfNbrState.
const OSPF_NEIGHBOUR: &str = "1.3.6.1.2.1.14.10.1.1 1.3.6.1.2.1.14.10.1.6";
/// ospfIfIpAddress, ospfIfState.
const OSPF_IF: &str = "1.3.6.1.2.1.14.7.1.1 1.3.6.1.2.1.14.7.1.12";
/// entPhysicalIndex by way of entStateAdmin, entStateAlarm.
const ENTITY: &str = "1.3.6.1.2.1.131.1.1.1.2 1.3.6.1.2.1.131.1.1.1.5";
/// upsAlarmId, upsAlarmDescr.
const UPS_ALARM: &str = "1.3.6.1.2.1.33.1.6.2.1.1 1.3.6.1.2.1.33.1.6.2.1.2";
/// alarmIndex of RMON.
const RMON: &str = "1.3.6.1.2.1.16.3.1.1.1";

/// Event type and probable cause (X.733 §8.1.1 and §8.1.2.1, in X.721's names); nothing where the notification alone does not tell.
type Kind = (Option<EventType>, &'static str);
const NOT_TOLD: Kind = (None, "");
const LINK: Kind = (Some(EventType::CommunicationsAlarm), "communicationsSubsystemFailure");
const ROUTING: Kind = (Some(EventType::CommunicationsAlarm), "communicationsProtocolError");
const TOPOLOGY: Kind = (Some(EventType::CommunicationsAlarm), "");
const EQUIPMENT: Kind = (Some(EventType::EquipmentAlarm), "equipmentMalfunction");
const POWER: Kind = (Some(EventType::EquipmentAlarm), "powerProblem");
const THRESHOLD: Kind = (Some(EventType::QualityOfServiceAlarm), "thresholdCrossed");
const SOFTWARE: Kind = (Some(EventType::ProcessingErrorAlarm), "");

type Row = (&'static str, &'static str, Severity, Kind, E, &'static str);

/// snmpTrapOID, condition, severity, kind, effect, columns of the object.
#[rustfmt::skip]
const STANDARD: &[Row] = &[
    // SNMPv2-MIB (RFC 3418), IF-MIB (RFC 2863)
    ("1.3.6.1.6.3.1.1.5.1", "coldStart", Severity::Warning, NOT_TOLD, E::Event, ""),
    ("1.3.6.1.6.3.1.1.5.2", "warmStart", Severity::Warning, NOT_TOLD, E::Event, ""),
    ("1.3.6.1.6.3.1.1.5.3", "linkDown", Severity::Major, LINK, E::Raise, IF),
    ("1.3.6.1.6.3.1.1.5.4", "linkDown", Severity::Major, LINK, E::Clear, IF),
    ("1.3.6.1.6.3.1.1.5.5", "authenticationFailure", Severity::Warning, NOT_TOLD, E::Event, ""),
    ("1.3.6.1.6.3.1.1.5.6", "egpNeighborLoss", Severity::Major, ROUTING, E::Event, ""),
    // BGP4-MIB (RFC 4273; RFC 1269 had them under .7)
    ("1.3.6.1.2.1.15.0.1", "bgpBackwardTransition", Severity::Major, ROUTING, E::Clear, BGP),
    ("1.3.6.1.2.1.15.0.2", "bgpBackwardTransition", Severity::Major, ROUTING, E::Raise, BGP),
    ("1.3.6.1.2.1.15.7.1", "bgpBackwardTransition", Severity::Major, ROUTING, E::Clear, BGP),
    ("1.3.6.1.2.1.15.7.2", "bgpBackwardTransition", Severity::Major, ROUTING, E::Raise, BGP),
    // OSPF-TRAP-MIB (RFC 4750): full (8), on broadcast networks twoWay (4); interfaces up from pointToPoint (4) on
    ("1.3.6.1.2.1.14.16.2.2", "ospfNbrStateChange", Severity::Major, ROUTING, E::Value("1.3.6.1.2.1.14.10.1.6", &[4, 8]), OSPF_NEIGHBOUR),
    ("1.3.6.1.2.1.14.16.2.16", "ospfIfStateChange", Severity::Minor, LINK, E::Value("1.3.6.1.2.1.14.7.1.12", &[4, 5, 6, 7]), OSPF_IF),
    // ENTITY-MIB (RFC 6933), ENTITY-STATE-MIB (RFC 4268)
    ("1.3.6.1.2.1.47.2.0.1", "entConfigChange", Severity::Warning, NOT_TOLD, E::Event, ""),
    ("1.3.6.1.2.1.131.0.1", "entStateOperDisabled", Severity::Major, EQUIPMENT, E::Clear, ENTITY),
    ("1.3.6.1.2.1.131.0.2", "entStateOperDisabled", Severity::Major, EQUIPMENT, E::Raise, ENTITY),
    // UPS-MIB (RFC 1628)
    ("1.3.6.1.2.1.33.2.1", "upsOnBattery", Severity::Major, POWER, E::Event, ""),
    ("1.3.6.1.2.1.33.2.2", "upsTestCompleted", Severity::Warning, NOT_TOLD, E::Event, ""),
    ("1.3.6.1.2.1.33.2.3", "upsAlarm", Severity::Major, POWER, E::Raise, UPS_ALARM),
    ("1.3.6.1.2.1.33.2.4", "upsAlarm", Severity::Major, POWER, E::Clear, UPS_ALARM),
    // BRIDGE-MIB (RFC 4188), VRRP-MIB (RFC 2787), RMON-MIB (RFC 2819)
    ("1.3.6.1.2.1.17.0.1", "newRoot", Severity::Warning, TOPOLOGY, E::Event, ""),
    ("1.3.6.1.2.1.17.0.2", "topologyChange", Severity::Warning, TOPOLOGY, E::Event, ""),
    ("1.3.6.1.2.1.68.0.1", "vrrpTrapNewMaster", Severity::Minor, TOPOLOGY, E::Event, ""),
    ("1.3.6.1.2.1.16.0.1", "risingAlarm", Severity::Minor, THRESHOLD, E::Raise, RMON),
    ("1.3.6.1.2.1.16.0.2", "risingAlarm", Severity::Minor, THRESHOLD, E::Clear, RMON),
    // NET-SNMP-AGENT-MIB
    ("1.3.6.1.4.1.8072.4.0.2", "nsNotifyShutdown", Severity::Minor, SOFTWARE, E::Event, ""),
    ("1.3.6.1.4.1.8072.4.0.3", "nsNotifyRestart", Severity::Warning, SOFTWARE, E::Event, ""),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Item, Trap};
    use crate::notification::Notification;
    use crate::snmp::{Message, Version, parse};

    fn read(trap: &str, varbinds: &[(&str, i64)]) -> (Option<bool>, String, String) {
        let mut message = Trap::new(&oid::parse(trap).unwrap(), 1);
        for (name, value) in varbinds {
            message = message.with(&oid::parse(name).unwrap(), Item::Integer(*value));
        }
        let bytes = message.v2c(b"", 1);
        let Ok(Message::Community { pdu, .. }) = parse(&bytes) else { panic!() };
        let varbinds = Notification::new(Version::V2c, &pdu).unwrap().unwrap().varbinds;
        let rules = Rules::standard();
        let rule = rules.find(&encoded(trap)).unwrap();
        let mut object = String::new();
        rule.object(varbinds, &mut object);
        (rule.raises(varbinds), rule.condition.clone(), object)
    }

    #[test]
    fn every_row_is_an_object_identifier() {
        for (trap, ..) in STANDARD {
            assert!(oid::parse(trap).is_some(), "{trap}");
        }
        assert_eq!(Rules::standard().0.len(), STANDARD.len());
    }

    #[test]
    fn pairs_share_condition_and_object() {
        let index = [("1.3.6.1.2.1.2.2.1.1.3", 3)];
        let down = read("1.3.6.1.6.3.1.1.5.3", &index);
        let up = read("1.3.6.1.6.3.1.1.5.4", &index);
        assert_eq!((down.0, up.0), (Some(true), Some(false)));
        assert_eq!((&down.1, &down.2), (&up.1, &up.2));
        assert_eq!(down.2, "3");
        assert_eq!(read("1.3.6.1.2.1.15.0.2", &[("1.3.6.1.2.1.15.3.1.2.192.0.2.9", 1)]).2, "192.0.2.9");
    }

    #[test]
    fn ospf_neighbours_are_judged_by_their_state() {
        let state = |value| read("1.3.6.1.2.1.14.16.2.2", &[("1.3.6.1.2.1.14.10.1.6.10.0.0.1.0", value)]);
        assert_eq!((state(1).0, state(8).0, state(4).0), (Some(true), Some(false), Some(false)));
        assert_eq!(state(1).2, "10.0.0.1.0");
        assert_eq!(read("1.3.6.1.2.1.14.16.2.2", &[]).0, Some(true), "unknown is not well");
        assert_eq!(read("1.3.6.1.6.3.1.1.5.1", &[]).0, None);
    }

    #[test]
    fn what_came_as_v1_is_found_where_v2_has_no_zero() {
        let rules = Rules::standard();
        let found = |oid: &str| rules.find(&encoded(oid)).map(|rule| rule.condition.as_str());
        assert_eq!(found("1.3.6.1.2.1.14.16.2.0.2"), Some("ospfNbrStateChange"));
        assert_eq!(found("1.3.6.1.2.1.33.2.0.3"), Some("upsAlarm"));
        for other in [
            "1.3.6.1.2.1.14.16.2.0.1.2",
            "1.3.6.1.2.1.14.16.2.0",
            "1.3.6.1.2.1.14.16.2.128.2",
            "0.0",
            "1.3.6.1.4.1.5.0.9",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}

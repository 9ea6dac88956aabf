//! What notifications mean: which raise a condition, which clear it, on which object, how bad it is.
//!
//! Owns rules, built in and configured, keyed by snmpTrapOID, and how they are applied. The built-in ones are `standard`'s.

mod standard;

use std::collections::HashMap;

use ringtap_snmp::oid;
use ringtap_snmp::varbind::{Value, Varbinds};

use crate::alarm::{Classification, Severity};
use standard::{Row, STANDARD};

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
        for row in STANDARD {
            rules.insert(encoded(row.0), Rule::standard(row));
        }
        rules
    }

    /// All rules by encoded snmpTrapOID, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Rule)> {
        self.0.iter().map(|(trap, rule)| (trap.as_slice(), rule))
    }

    /// Whether a notification clears this condition.
    pub fn clears(&self, condition: &str) -> bool {
        let clears = |rule: &Rule| matches!(rule.effect, Effect::Clear | Effect::ByValue { .. });
        self.0.values().any(|rule| rule.condition == condition && clears(rule))
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
    fn standard(&(_, condition, severity, (event_type, cause), effect, object): &Row) -> Self {
        let probable_cause = (!cause.is_empty()).then(|| cause.to_owned());
        Self {
            condition: condition.to_owned(),
            severity,
            classification: Classification { event_type, probable_cause },
            effect: match effect {
                standard::Effect::Raise => Effect::Raise,
                standard::Effect::Clear => Effect::Clear,
                standard::Effect::Event => Effect::Event,
                standard::Effect::Value(column, clear) => {
                    Effect::ByValue { column: encoded(column), clear: clear.to_vec() }
                }
            },
            object: object.split_whitespace().map(encoded).collect(),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use ringtap_snmp::encode::{Item, Trap};
    use ringtap_snmp::message::{Message, Version, parse};
    use ringtap_snmp::notification::Notification;

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

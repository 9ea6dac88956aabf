//! The standard notifications: those of MIBs that the IETF and net-snmp publish.
//!
//! Owns the table. Severities are a starting point that a configuration overrides; the MIBs say none.

use crate::alarm::{EventType, Severity};

/// What a notification does: [`super::Effect`] with names in numbers.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    Raise,
    Clear,
    Event,
    /// The column, and the values that clear.
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

/// snmpTrapOID, condition, severity, kind, effect, columns of the object.
pub(super) type Row = (&'static str, &'static str, Severity, Kind, Effect, &'static str);

/// The standard notifications.
#[rustfmt::skip]
pub(super) const STANDARD: &[Row] = &[
    // SNMPv2-MIB (RFC 3418), IF-MIB (RFC 2863)
    ("1.3.6.1.6.3.1.1.5.1", "coldStart", Severity::Warning, NOT_TOLD, Effect::Event, ""),
    ("1.3.6.1.6.3.1.1.5.2", "warmStart", Severity::Warning, NOT_TOLD, Effect::Event, ""),
    ("1.3.6.1.6.3.1.1.5.3", "linkDown", Severity::Major, LINK, Effect::Raise, IF),
    ("1.3.6.1.6.3.1.1.5.4", "linkDown", Severity::Major, LINK, Effect::Clear, IF),
    ("1.3.6.1.6.3.1.1.5.5", "authenticationFailure", Severity::Warning, NOT_TOLD, Effect::Event, ""),
    ("1.3.6.1.6.3.1.1.5.6", "egpNeighborLoss", Severity::Major, ROUTING, Effect::Event, ""),
    // BGP4-MIB (RFC 4273; RFC 1269 had them under .7)
    ("1.3.6.1.2.1.15.0.1", "bgpBackwardTransition", Severity::Major, ROUTING, Effect::Clear, BGP),
    ("1.3.6.1.2.1.15.0.2", "bgpBackwardTransition", Severity::Major, ROUTING, Effect::Raise, BGP),
    ("1.3.6.1.2.1.15.7.1", "bgpBackwardTransition", Severity::Major, ROUTING, Effect::Clear, BGP),
    ("1.3.6.1.2.1.15.7.2", "bgpBackwardTransition", Severity::Major, ROUTING, Effect::Raise, BGP),
    // OSPF-TRAP-MIB (RFC 4750): full (8), on broadcast networks twoWay (4); interfaces up from pointToPoint (4) on
    ("1.3.6.1.2.1.14.16.2.2", "ospfNbrStateChange", Severity::Major, ROUTING, Effect::Value("1.3.6.1.2.1.14.10.1.6", &[4, 8]), OSPF_NEIGHBOUR),
    ("1.3.6.1.2.1.14.16.2.16", "ospfIfStateChange", Severity::Minor, LINK, Effect::Value("1.3.6.1.2.1.14.7.1.12", &[4, 5, 6, 7]), OSPF_IF),
    // ENTITY-MIB (RFC 6933), ENTITY-STATE-MIB (RFC 4268)
    ("1.3.6.1.2.1.47.2.0.1", "entConfigChange", Severity::Warning, NOT_TOLD, Effect::Event, ""),
    ("1.3.6.1.2.1.131.0.1", "entStateOperDisabled", Severity::Major, EQUIPMENT, Effect::Clear, ENTITY),
    ("1.3.6.1.2.1.131.0.2", "entStateOperDisabled", Severity::Major, EQUIPMENT, Effect::Raise, ENTITY),
    // UPS-MIB (RFC 1628)
    ("1.3.6.1.2.1.33.2.1", "upsOnBattery", Severity::Major, POWER, Effect::Event, ""),
    ("1.3.6.1.2.1.33.2.2", "upsTestCompleted", Severity::Warning, NOT_TOLD, Effect::Event, ""),
    ("1.3.6.1.2.1.33.2.3", "upsAlarm", Severity::Major, POWER, Effect::Raise, UPS_ALARM),
    ("1.3.6.1.2.1.33.2.4", "upsAlarm", Severity::Major, POWER, Effect::Clear, UPS_ALARM),
    // BRIDGE-MIB (RFC 4188), VRRP-MIB (RFC 2787), RMON-MIB (RFC 2819)
    ("1.3.6.1.2.1.17.0.1", "newRoot", Severity::Warning, TOPOLOGY, Effect::Event, ""),
    ("1.3.6.1.2.1.17.0.2", "topologyChange", Severity::Warning, TOPOLOGY, Effect::Event, ""),
    ("1.3.6.1.2.1.68.0.1", "vrrpTrapNewMaster", Severity::Minor, TOPOLOGY, Effect::Event, ""),
    ("1.3.6.1.2.1.16.0.1", "risingAlarm", Severity::Minor, THRESHOLD, Effect::Raise, RMON),
    ("1.3.6.1.2.1.16.0.2", "risingAlarm", Severity::Minor, THRESHOLD, Effect::Clear, RMON),
    // NET-SNMP-AGENT-MIB
    ("1.3.6.1.4.1.8072.4.0.2", "nsNotifyShutdown", Severity::Minor, SOFTWARE, Effect::Event, ""),
    ("1.3.6.1.4.1.8072.4.0.3", "nsNotifyRestart", Severity::Warning, SOFTWARE, Effect::Event, ""),
];

//! Every standard notification that raises or clears, from its datagram to the alarm, in all versions it can come in.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ringtap_snmp::decode::SnmpDecoder;
use ringtap_snmp::encode::{Item, Trap};
use ringtap_snmp::oid::{self, Oid};
use ringtap_snmp::usm::{LocalEngine, Usm};
use ringtap_station::admission::Admission;
use ringtap_station::alarm::{Alarm, EventType};
use ringtap_station::expiry::Expiry;
use ringtap_station::judge::{Judge, JudgeConfig};
use ringtap_station::rules::{Effect, Rules};
use ringtap_station::spool::{Head, Service};
use ringtap_station::store::Job;
use ringtap_station::table::{AlarmTable, FlapPolicy};

const AGENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// What raises, what clears, and the alarm that both are about.
struct Pair {
    raises: (&'static str, &'static [(&'static str, i64)]),
    clears: (&'static str, &'static [(&'static str, i64)]),
    condition: &'static str,
    object: &'static str,
    kind: (EventType, &'static str),
}

const LINK: (EventType, &str) = (EventType::CommunicationsAlarm, "communicationsSubsystemFailure");
const ROUTING: (EventType, &str) = (EventType::CommunicationsAlarm, "communicationsProtocolError");

const PAIRS: [Pair; 14] = [
    // IF-MIB, with the varbinds of RFC 2863, and with those that other agents send
    Pair {
        raises: (
            "1.3.6.1.6.3.1.1.5.3",
            &[("1.3.6.1.2.1.2.2.1.1.7", 7), ("1.3.6.1.2.1.2.2.1.7.7", 1), ("1.3.6.1.2.1.2.2.1.8.7", 2)],
        ),
        clears: (
            "1.3.6.1.6.3.1.1.5.4",
            &[("1.3.6.1.2.1.2.2.1.1.7", 7), ("1.3.6.1.2.1.2.2.1.7.7", 1), ("1.3.6.1.2.1.2.2.1.8.7", 1)],
        ),
        condition: "linkDown",
        object: "7",
        kind: LINK,
    },
    Pair {
        raises: ("1.3.6.1.6.3.1.1.5.3", &[("1.3.6.1.2.1.2.2.1.8.1000001", 2)]),
        clears: ("1.3.6.1.6.3.1.1.5.4", &[("1.3.6.1.2.1.2.2.1.2.1000001", 0)]),
        condition: "linkDown",
        object: "1000001",
        kind: LINK,
    },
    Pair {
        raises: ("1.3.6.1.6.3.1.1.5.3", &[]),
        clears: ("1.3.6.1.6.3.1.1.5.4", &[]),
        condition: "linkDown",
        object: "",
        kind: LINK,
    },
    // BGP4-MIB of RFC 4273, and of RFC 1657, which has its notifications elsewhere and without the peer's address
    Pair {
        raises: ("1.3.6.1.2.1.15.0.2", &[("1.3.6.1.2.1.15.3.1.7.192.0.2.9", 0), ("1.3.6.1.2.1.15.3.1.2.192.0.2.9", 1)]),
        clears: ("1.3.6.1.2.1.15.0.1", &[("1.3.6.1.2.1.15.3.1.7.192.0.2.9", 0), ("1.3.6.1.2.1.15.3.1.2.192.0.2.9", 6)]),
        condition: "bgpBackwardTransition",
        object: "192.0.2.9",
        kind: ROUTING,
    },
    Pair {
        raises: (
            "1.3.6.1.2.1.15.7.2",
            &[("1.3.6.1.2.1.15.3.1.14.192.0.2.200", 0), ("1.3.6.1.2.1.15.3.1.2.192.0.2.200", 1)],
        ),
        clears: (
            "1.3.6.1.2.1.15.7.1",
            &[("1.3.6.1.2.1.15.3.1.14.192.0.2.200", 0), ("1.3.6.1.2.1.15.3.1.2.192.0.2.200", 6)],
        ),
        condition: "bgpBackwardTransition",
        object: "192.0.2.200",
        kind: ROUTING,
    },
    // OSPF-TRAP-MIB: a neighbour that is full, or a two-way one on a broadcast network; interfaces in every state of service
    Pair {
        raises: (
            "1.3.6.1.2.1.14.16.2.2",
            &[("1.3.6.1.2.1.14.10.1.1.10.0.0.1.0", 0), ("1.3.6.1.2.1.14.10.1.6.10.0.0.1.0", 1)],
        ),
        clears: (
            "1.3.6.1.2.1.14.16.2.2",
            &[("1.3.6.1.2.1.14.10.1.1.10.0.0.1.0", 0), ("1.3.6.1.2.1.14.10.1.6.10.0.0.1.0", 8)],
        ),
        condition: "ospfNbrStateChange",
        object: "10.0.0.1.0",
        kind: ROUTING,
    },
    Pair {
        raises: ("1.3.6.1.2.1.14.16.2.2", &[("1.3.6.1.2.1.14.10.1.6.10.0.0.2.0", 5)]),
        clears: ("1.3.6.1.2.1.14.16.2.2", &[("1.3.6.1.2.1.14.10.1.6.10.0.0.2.0", 4)]),
        condition: "ospfNbrStateChange",
        object: "10.0.0.2.0",
        kind: ROUTING,
    },
    Pair {
        raises: ("1.3.6.1.2.1.14.16.2.16", &[("1.3.6.1.2.1.14.7.1.12.10.0.0.1.0", 1)]),
        clears: ("1.3.6.1.2.1.14.16.2.16", &[("1.3.6.1.2.1.14.7.1.12.10.0.0.1.0", 4)]),
        condition: "ospfIfStateChange",
        object: "10.0.0.1.0",
        kind: LINK,
    },
    Pair {
        raises: ("1.3.6.1.2.1.14.16.2.16", &[("1.3.6.1.2.1.14.7.1.12.10.0.0.5.0", 3)]),
        clears: ("1.3.6.1.2.1.14.16.2.16", &[("1.3.6.1.2.1.14.7.1.12.10.0.0.5.0", 6)]),
        condition: "ospfIfStateChange",
        object: "10.0.0.5.0",
        kind: LINK,
    },
    // ENTITY-STATE-MIB
    Pair {
        raises: ("1.3.6.1.2.1.131.0.2", &[("1.3.6.1.2.1.131.1.1.1.2.12", 4), ("1.3.6.1.2.1.131.1.1.1.5.12", 0)]),
        clears: ("1.3.6.1.2.1.131.0.1", &[("1.3.6.1.2.1.131.1.1.1.2.12", 4), ("1.3.6.1.2.1.131.1.1.1.5.12", 0)]),
        condition: "entStateOperDisabled",
        object: "12",
        kind: (EventType::EquipmentAlarm, "equipmentMalfunction"),
    },
    // UPS-MIB: each condition of its table is an alarm
    Pair {
        raises: ("1.3.6.1.2.1.33.2.3", &[("1.3.6.1.2.1.33.1.6.2.1.1.4", 4), ("1.3.6.1.2.1.33.1.6.2.1.2.4", 0)]),
        clears: ("1.3.6.1.2.1.33.2.4", &[("1.3.6.1.2.1.33.1.6.2.1.1.4", 4), ("1.3.6.1.2.1.33.1.6.2.1.2.4", 0)]),
        condition: "upsAlarm",
        object: "4",
        kind: (EventType::EquipmentAlarm, "powerProblem"),
    },
    Pair {
        raises: ("1.3.6.1.2.1.33.2.3", &[("1.3.6.1.2.1.33.1.6.2.1.2.5", 0)]),
        clears: ("1.3.6.1.2.1.33.2.4", &[("1.3.6.1.2.1.33.1.6.2.1.2.5", 0)]),
        condition: "upsAlarm",
        object: "5",
        kind: (EventType::EquipmentAlarm, "powerProblem"),
    },
    // RMON-MIB
    Pair {
        raises: ("1.3.6.1.2.1.16.0.1", &[("1.3.6.1.2.1.16.3.1.1.1.9", 9), ("1.3.6.1.2.1.16.3.1.1.5.9", 99)]),
        clears: ("1.3.6.1.2.1.16.0.2", &[("1.3.6.1.2.1.16.3.1.1.1.9", 9), ("1.3.6.1.2.1.16.3.1.1.5.9", 1)]),
        condition: "risingAlarm",
        object: "9",
        kind: (EventType::QualityOfServiceAlarm, "thresholdCrossed"),
    },
    // A trap without the state says that something changed, not that it is well.
    Pair {
        raises: ("1.3.6.1.2.1.14.16.2.2", &[]),
        clears: ("1.3.6.1.2.1.14.16.2.2", &[("1.3.6.1.2.1.14.10.1.6", 8)]),
        condition: "ospfNbrStateChange",
        object: "",
        kind: ROUTING,
    },
];

fn oid(text: &str) -> Vec<u32> {
    oid::parse(text).unwrap_or_else(|| panic!("{text}"))
}

fn trap((name, varbinds): (&str, &[(&str, i64)])) -> Trap {
    varbinds.iter().fold(Trap::new(&oid(name), 1), |trap, (name, value)| trap.with(&oid(name), Item::Integer(*value)))
}

/// Datagrams one by one, and what is judged of each.
struct Probe(Judge);

impl Probe {
    fn new() -> Self {
        let local = LocalEngine { id: b"\x80station".to_vec(), boots: 1, started_ns: 0 };
        Self(Judge::new(JudgeConfig {
            admission: Admission::default(),
            decoder: SnmpDecoder::new(Vec::new(), Usm::new(local, Vec::new(), 1)),
            rules: Rules::standard(),
            alarms: AlarmTable::new(Vec::new(), FlapPolicy::default(), 1000),
            last_id: 0,
            syslog_severity: 4,
            expiry: Expiry::default(),
        }))
    }

    fn tell(&mut self, datagram: &[u8]) -> (String, Option<Alarm>) {
        let head = Head { at_ns: 5, source: (AGENT, 162).into(), to: None, service: Service::Snmp, socket: 0 };
        let mut job = Job::default();
        assert_eq!(self.0.datagram(head, datagram, None, 1, &mut job), None);
        self.0.complete(&mut job);
        assert_eq!(job.rows.len(), 1);
        (job.rows[0].judgement.to_string(), job.alarms.pop())
    }
}

/// The datagram in each version.
fn versions(trap: &Trap) -> [(&'static str, Vec<u8>); 2] {
    [("v1", trap.as_v1(b"x", AGENT)), ("v2c", trap.v2c(b"x", 1))]
}

#[test]
fn every_pair_raises_and_clears_one_alarm_in_every_version() {
    for pair in &PAIRS {
        for (up, down) in versions(&trap(pair.clears)).iter().zip(versions(&trap(pair.raises))) {
            let place = format!("{} {} as {}", pair.condition, pair.object, down.0);
            let mut probe = Probe::new();
            assert!(probe.tell(&up.1).0.contains("nothing to clear"), "{place}");
            let (judgement, alarm) = probe.tell(&down.1);
            let alarm = alarm.unwrap_or_else(|| panic!("{place}: {judgement}"));
            assert_eq!((judgement.as_str(), alarm.cleared), ("new alarm", false), "{place}");
            assert_eq!(
                (alarm.key.resource.as_str(), alarm.key.condition.as_str(), alarm.key.object.as_str()),
                ("192.0.2.1", pair.condition, pair.object),
                "{place}"
            );
            let kind = alarm.classification.event_type.zip(alarm.classification.probable_cause.as_deref());
            assert_eq!(kind, Some(pair.kind), "{place}");
            let (judgement, cleared) = probe.tell(&up.1);
            let cleared = cleared.unwrap();
            assert_eq!((judgement.as_str(), cleared.cleared), ("state changed", true), "{place}");
            assert_eq!((cleared.id, cleared.count), (alarm.id, 2), "{place}");
            assert_eq!(
                probe.tell(&down.1).1.map(|alarm| (alarm.id, alarm.cleared)),
                Some((alarm.id, false)),
                "{place}"
            );
        }
    }
}

#[test]
fn events_are_alarms_that_nothing_clears() {
    for (trap_oid, rule) in Rules::standard().iter().filter(|(_, rule)| rule.effect == Effect::Event) {
        let name = Oid::new(trap_oid).unwrap().to_string();
        for (version, datagram) in &versions(&trap((&name, &[]))) {
            let mut probe = Probe::new();
            let (judgement, alarm) = probe.tell(datagram);
            assert_eq!(judgement, "new alarm", "{name} as {version}");
            assert_eq!(alarm.unwrap().key.condition, rule.condition, "{name} as {version}");
            assert!(probe.tell(datagram).0.contains("repeated"), "{name} as {version}");
        }
    }
}

#[test]
fn the_table_above_has_every_rule_that_raises_or_clears() {
    let listed: BTreeSet<Vec<u8>> =
        PAIRS.iter().flat_map(|pair| [pair.raises.0, pair.clears.0]).map(|name| oid::encode(&oid(name))).collect();
    let known: BTreeSet<Vec<u8>> = Rules::standard()
        .iter()
        .filter(|(_, rule)| rule.effect != Effect::Event)
        .map(|(trap, _)| trap.to_vec())
        .collect();
    assert_eq!(listed, known);
}

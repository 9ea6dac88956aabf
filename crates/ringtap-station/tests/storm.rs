//! A storm of traps through the judge, without sockets: what it knows afterwards is what was sent.

use ringtap_snmp::decode::SnmpDecoder;
use ringtap_snmp::usm::{AuthProtocol, LocalEngine, PrivProtocol, User, Usm};
use ringtap_station::admission::Admission;
use ringtap_station::expiry::Expiry;
use ringtap_station::judge::{Judge, JudgeConfig};
use ringtap_station::rules::Rules;
use ringtap_station::spool::{Head, Service};
use ringtap_station::store::Job;
use ringtap_station::table::{AlarmTable, FlapPolicy};
use ringtap_testbed::storm::form::{Engines, Form};
use ringtap_testbed::storm::{Script, Storm, Truth};

fn user() -> User {
    User::new("operator", Some((AuthProtocol::Sha1, "authentic1")), Some((PrivProtocol::Aes128, "secretive1"))).unwrap()
}

#[test]
fn a_station_that_gets_everything_knows_the_truth_in_every_version_and_family() {
    let community = || "public".to_owned();
    let forms = [
        (Form::V1 { community: community() }, 0, false),
        (Form::V1 { community: community() }, 0, true),
        (Form::V2c { community: community() }, 1, false),
        (Form::V2c { community: community() }, 1, true),
        (Form::V3(Engines::new(&user(), 50, 7)), 2, false),
    ];
    for (form, version, ipv6) in forms {
        let place = format!("version {version}, IPv6 {ipv6}");
        let storm = Storm { script: Script::CoreRouterFails, nodes: 50, count: 5000, form, ipv6 };
        let local = LocalEngine { id: b"\x80station".to_vec(), boots: 1, started_ns: 0 };
        let mut judge = Judge::new(JudgeConfig {
            admission: Admission::default(),
            decoder: SnmpDecoder::new(vec![b"public".to_vec()], Usm::new(local, vec![user()], 1)),
            rules: Rules::standard(),
            alarms: AlarmTable::new(Vec::new(), FlapPolicy::default(), 100_000),
            last_id: 0,
            syslog_severity: 4,
            expiry: Expiry::default(),
        });
        let mut job = Job::default();
        for sequence in 0..storm.count {
            let (address, datagram) = storm.datagram(sequence, 1);
            assert_eq!(address.is_ipv6(), ipv6);
            let source = (address, 162).into();
            let head = Head { at_ns: sequence, source, to: None, service: Service::Snmp, socket: 0 };
            assert_eq!(judge.datagram(head, &datagram, None, sequence, &mut job), None, "{place}");
        }
        judge.complete(&mut job);
        assert_eq!(judge.counts().snmp[version].load(std::sync::atomic::Ordering::Relaxed), 5000, "{place}");
        let truth = storm.truth(0..storm.count);
        assert_eq!((job.rows.len(), job.alarms.len(), truth.len()), (5000, 300, 300), "{place}");
        for alarm in &job.alarms {
            let key = (alarm.key.resource.clone(), alarm.key.condition.clone(), alarm.key.object.clone());
            let known = Truth { count: alarm.count, cleared: alarm.cleared };
            assert_eq!(Some(&known), truth.get(&key), "{place}: {key:?}");
        }
        assert!(truth.values().any(|truth| truth.cleared) && job.alarms.iter().any(|alarm| alarm.flapping));
    }
}

use super::*;
use crate::table::FlapPolicy;
use ringtap_snmp::encode::{Item, Trap};
use ringtap_snmp::usm::{LocalEngine, Usm};

fn judge() -> Judge {
    let local = LocalEngine { id: b"\x80station".to_vec(), boots: 1, started_ns: 0 };
    Judge::new(JudgeConfig {
        admission: Admission::default(),
        decoder: SnmpDecoder::new(Vec::new(), Usm::new(local, Vec::new(), 1)),
        rules: Rules::standard(),
        alarms: AlarmTable::new(Vec::new(), FlapPolicy::default(), 100),
        last_id: 41,
        syslog_severity: 4,
        expiry: Expiry::default(),
    })
}

fn head(source: &str, service: Service) -> Head {
    Head { at_ns: 5, source: source.parse().unwrap(), to: Some([192, 0, 2, 200].into()), service, socket: 2 }
}

#[test]
fn each_datagram_is_a_row_or_a_cause() {
    let mut judge = judge();
    let mut job = Job::default();
    let down = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).with(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 1, 3], Item::Integer(3));
    let snmp = head("[::ffff:192.0.2.1]:999", Service::Snmp);
    assert_eq!(judge.datagram(snmp, &down.v2c(b"x", 1), None, 1, &mut job), None);
    assert_eq!(judge.datagram(snmp, &down.inform(b"x", 2), None, 1, &mut job), None);
    judge.datagram(snmp, &down.inform(b"x", 2), None, 1, &mut job);
    judge.datagram(snmp, &Trap::new(&[1, 3, 6, 1, 4, 1, 5, 0, 9], 1).v2c(b"x", 1), None, 1, &mut job);
    judge.datagram(snmp, b"junk", None, 1, &mut job);
    judge.complete(&mut job);
    let judged: Vec<String> = job.rows.iter().map(|row| row.judgement.to_string()).collect();
    assert_eq!(judged[0], "new alarm");
    assert!(judged[1].contains("repeated") && judged[2].contains("sent again"), "{judged:?}");
    assert_eq!(job.rows.iter().map(|row| row.id).collect::<Vec<_>>(), [42, 43, 44, 45]);
    assert_eq!(job.answers.len(), 2, "the inform and its repetition");
    let answer = &job.answers[0];
    assert_eq!((answer.socket, answer.to, answer.from), (2, snmp.source, snmp.to));
    let keys: Vec<&Key> = job.alarms.iter().map(|alarm| &alarm.key).collect();
    assert_eq!(
        (keys[0].resource.as_str(), keys[0].condition.as_str(), keys[0].object.as_str()),
        ("192.0.2.1", "linkDown", "3")
    );
    assert_eq!(keys[1].condition, "1.3.6.1.4.1.5.0.9", "a trap without a name is an alarm too");
    assert_eq!(judge.take_announcements().len(), 2);
    let counts = judge.counts();
    assert_eq!(counts.seen.load(Ordering::Relaxed), counts.notifications() + counts.causes.total());
}

#[test]
fn a_clock_that_is_set_is_noticed_and_flapping_ends_all_the_same() {
    const S: u64 = 1_000_000_000;
    let mut judge = judge();
    let mut job = Job::default();
    let now = 1_000_000 * S;
    assert_eq!(judge.tick(now, 5 * S), None);
    assert_eq!(judge.tick(now + S + S / 2, 6 * S), None, "a clock that is slewed");
    for number in 0..20u32 {
        let trap = [1, 3, 6, 1, 6, 3, 1, 1, 5, 3 + number % 2];
        let head = Head { at_ns: now + S, ..head("192.0.2.1:9", Service::Snmp) };
        judge.datagram(head, &Trap::new(&trap, 1).v2c(b"x", 1), None, 6 * S, &mut job);
    }
    judge.take_announcements();
    // An hour back: the last change lies in the future.
    assert_eq!(judge.tick(now - 3600 * S, 7 * S), Some(-(3602 * S as i64 + S as i64 / 2)));
    assert!(judge.take_announcements().is_empty(), "it flapped a moment ago");
    assert_eq!(judge.tick(now - 3500 * S, 107 * S), None);
    let settled = judge.take_announcements();
    assert_eq!((settled.len(), settled[0].alarm.flapping, settled[0].alarm.cleared), (1, false, true));
    assert_eq!(judge.tick(now, 108 * S), Some(3499 * S as i64));
    assert_eq!(judge.counts().clock_jumps.load(Ordering::Relaxed), 2);
}

#[test]
fn syslog_of_one_kind_is_one_alarm_and_mild_ones_are_only_kept() {
    let mut judge = judge();
    let mut job = Job::default();
    let syslog = head("192.0.2.1:514", Service::Syslog);
    for text in [
        "<11>Oct 11 22:14:15 core1 bgpd[7]: peer 10.0.0.1 down, 3 routes",
        "<11>Oct 11 22:14:16 core1 bgpd[7]: peer 10.0.0.25 down, 44 routes",
        "<14>Oct 11 22:14:16 core1 bgpd[7]: fine",
        "<13>",
    ] {
        judge.datagram(syslog, text.as_bytes(), None, 1, &mut job);
    }
    judge.complete(&mut job);
    assert_eq!((job.rows.len(), job.alarms.len()), (3, 1));
    let alarm = &job.alarms[0];
    assert_eq!((alarm.key.resource.as_str(), alarm.key.condition.as_str(), alarm.count), ("core1", "syslog:bgpd", 2));
    assert_eq!((alarm.key.object.as_str(), alarm.severity), ("peer #.#.#.# down, # routes", Severity::Major));
    assert_eq!(job.rows[2].judgement, Judgement::BelowThreshold);
    assert_eq!(judge.counts().causes.read(Cause::EmptySyslog), 1);
}

#[test]
fn who_showed_a_certificate_is_no_stranger() {
    let mut judge = judge();
    let mut job = Job::default();
    let mut say = |service, severity: u8| {
        let text = format!("<{severity}>Oct 11 22:14:15 core1 bgpd[7]: down");
        judge.datagram(head("192.0.2.1:514", service), text.as_bytes(), None, 1, &mut job);
        judge.complete(&mut job);
        (job.rows.last().unwrap().judgement.clone(), job.alarms.first().map(|alarm| alarm.origin))
    };
    let (source, security) = (Some([192, 0, 2, 1].into()), SecurityLevel::NoAuthNoPriv);
    let certified = Origin { source, security, shown: Shown::Certificate, is_known: true };
    let stranger = Origin { shown: Shown::Nothing, is_known: false, ..certified };
    assert_eq!(say(Service::Syslog, 10), (Judgement::New, Some(stranger)));
    assert_eq!(say(Service::CertifiedSyslog, 11), (Judgement::Changed, Some(certified)));
    assert_eq!(say(Service::Syslog, 8), (Judgement::NotAuthentic, None));
}

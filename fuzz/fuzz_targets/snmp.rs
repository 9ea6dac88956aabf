//! Any datagram to the station's SNMP decoder and to a walk over an agent's table, and any scoped PDU that a trusted user has sealed: refused or read, judged, rendered, and
//! never a panic.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use ringtap_snmp::decode::SnmpDecoder;
use ringtap_snmp::message::{Message, Version, parse};
use ringtap_snmp::names::Names;
use ringtap_snmp::notification::Notification;
use ringtap_snmp::translate::v1_as_v2c;
use ringtap_snmp::usm::{AuthProtocol, LocalEngine, PrivProtocol, Sealer, User, Usm};
use ringtap_snmp::walk::Walk;
use ringtap_station::admission::Admission;
use ringtap_station::expiry::Expiry;
use ringtap_station::judge::{Judge, JudgeConfig};
use ringtap_station::render;
use ringtap_station::rules::Rules;
use ringtap_station::spool::{Head, Service};
use ringtap_station::store::Job;
use ringtap_station::table::{AlarmTable, FlapPolicy};

/// What all inputs meet: keys are derived once, as that takes milliseconds.
struct Scene {
    decoder: SnmpDecoder,
    judge: Judge,
    sealer: Sealer,
}

fn trusted() -> User {
    let auth = Some((AuthProtocol::Sha1, "authentic1"));
    User::new("trusted", auth, Some((PrivProtocol::Aes128, "secretive1"))).expect("a good user")
}

fn decoder() -> SnmpDecoder {
    let local = LocalEngine { id: b"\x80station".to_vec(), boots: 1, started_ns: 0 };
    // One user without secrets, so that most of a v3 message is reached by its bytes alone.
    let users = User::new("u", None, None).into_iter().chain([trusted()]).collect();
    SnmpDecoder::new(Vec::new(), Usm::new(local, users, 1))
}

fn scene() -> Scene {
    let judge = Judge::new(JudgeConfig {
        admission: Admission::default(),
        decoder: decoder(),
        rules: Rules::standard(),
        alarms: AlarmTable::new(Vec::new(), FlapPolicy::default(), 4),
        last_id: 0,
        syslog_severity: 7,
        expiry: Expiry::default(),
    });
    Scene { decoder: decoder(), judge, sealer: Sealer::new(&trusted(), b"\x80agent", 1) }
}

thread_local!(static SCENE: RefCell<Scene> = RefCell::new(scene()));

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, bytes)) = bytes.split_first() else { return };
    SCENE.with_borrow_mut(|scene| {
        if mode & 1 == 0 {
            meet(scene, bytes);
        } else if let Some(sealed) = scene.sealer.seal(1, 1000, bytes, 1) {
            meet(scene, &sealed);
        }
    });
});

/// As an agent's answer, again and again: it keeps no walk going.
fn walk(datagram: &[u8]) {
    let Ok(Message::Community { pdu, .. }) = parse(datagram) else { return };
    for column in [&[1, 3][..], &[1, 3, 6, 1, 2, 1, 2, 2, 1, 2], &[1, 0, 8802]] {
        let (mut walk, mut rows, mut turns) = (Walk::new(column, 100), 0, 0);
        while walk.answer(&pdu, &mut |_, _| rows += 1) == Ok(true) {
            turns += 1;
            assert!(turns < 10);
        }
        assert!(rows <= 100);
    }
}

/// As a trap of v1 that is sent on as v2c: the same notification, and no longer than what is added.
fn translate(datagram: &[u8]) {
    let Some(translated) = v1_as_v2c(datagram, [192, 0, 2, 1].into(), 1) else { return };
    assert!(translated.len() <= 2 * datagram.len() + 256);
    let (Ok(Message::Community { pdu: before, .. }), Ok(Message::Community { version, pdu, .. })) =
        (parse(datagram), parse(&translated))
    else {
        panic!("it can't be read")
    };
    let before = Notification::new(Version::V1, &before);
    let after = Notification::new(version, &pdu);
    if let (Ok(Some(before)), Ok(Some(after))) = (before, after) {
        assert!(before.trap_oid == after.trap_oid && before.uptime == after.uptime);
    } else {
        panic!("it is no notification")
    }
}

fn meet(scene: &mut Scene, datagram: &[u8]) {
    walk(datagram);
    translate(datagram);
    if let Ok(received) = scene.decoder.decode(([192, 0, 2, 1], 162).into(), datagram, 1) {
        let _ = render::snmp_object(&received.notification, &Names::default()).to_string();
        // An answer is as long as the question, but for the head of a v3 message.
        if let Some(answer) = received.answer {
            assert!(answer.len() <= datagram.len() + 64);
        }
    }
    let mut job = Job::default();
    let before = scene.judge.counts().notifications();
    for service in [Service::Snmp, Service::Syslog] {
        let head = Head { at_ns: 1, source: ([192, 0, 2, 1], 162).into(), to: None, service, socket: 0 };
        let _ = scene.judge.datagram(head, datagram, None, 1, &mut job);
    }
    scene.judge.complete(&mut job);
    let _ = scene.judge.take_announcements();
    assert_eq!(before + job.rows.len() as u64, scene.judge.counts().notifications(), "a notification is a row");
}

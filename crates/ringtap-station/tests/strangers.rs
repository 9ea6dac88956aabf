//! Strangers without number change neither what known senders raised nor memory beyond its bound, and delay no real trap to its loss.
#![allow(unsafe_code)] // A global allocator can't be had without.

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ringtap_snmp::decode::SnmpDecoder;
use ringtap_snmp::encode::{Item, Trap};
use ringtap_snmp::message::tag;
use ringtap_snmp::refusal::Refusal;
use ringtap_snmp::usm::{AuthProtocol, LocalEngine, PrivProtocol, Sealer, User, Usm};
use ringtap_station::admission::{Admission, Senders};
use ringtap_station::alarm::Alarm;
use ringtap_station::cause::Cause;
use ringtap_station::expiry::Expiry;
use ringtap_station::judge::{Judge, JudgeConfig};
use ringtap_station::rules::Rules;
use ringtap_station::spool::{Head, Service};
use ringtap_station::store::Job;
use ringtap_station::table::{AlarmTable, FlapPolicy};

static IN_USE: AtomicUsize = AtomicUsize::new(0);
/// The count is of the whole process: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Counting;

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Alarms in the table.
const PLACES: usize = 10_000;
/// Most bytes of one, in the table and in its index.
const ALARM_BYTES: usize = 1200;

fn user() -> User {
    User::new("operator", Some((AuthProtocol::Sha256, "authentic1")), Some((PrivProtocol::Aes256Cisco, "secretive1")))
        .unwrap()
}

fn judge() -> Judge {
    let local = LocalEngine { id: b"\x80station".to_vec(), boots: 1, started_ns: 0 };
    let known = vec!["192.0.2.0/24".parse().unwrap()];
    Judge::new(JudgeConfig {
        admission: Admission::new(Senders { known, ..Senders::default() }),
        decoder: SnmpDecoder::new(Vec::new(), Usm::new(local, vec![user()], 1)),
        rules: Rules::standard(),
        alarms: AlarmTable::new(Vec::new(), FlapPolicy::default(), PLACES),
        last_id: 0,
        syslog_severity: 4,
        expiry: Expiry::default(),
    })
}

/// Hands a datagram to the judge, as of the first second; the alarms that changed, as a store would get them.
fn say(judge: &mut Judge, from: IpAddr, service: Service, datagram: &[u8]) -> Vec<Alarm> {
    const S: u64 = 1_000_000_000;
    let mut job = Job::default();
    let head = Head { at_ns: S, source: (from, 514).into(), to: None, service, socket: 0 };
    judge.datagram(head, datagram, None, S, &mut job);
    judge.take_announcements();
    judge.complete(&mut job);
    job.alarms
}

fn link_down(index: u32) -> Trap {
    Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1)
        .with(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 1, index], Item::Integer(index.into()))
}

/// Something of a stranger: no two have the same key, and some have very long ones.
fn strange(number: u32) -> (Service, Vec<u8>) {
    let name = format!("{:08x}", number.wrapping_mul(0x9e37_79b1));
    if number.is_multiple_of(2) {
        let host = if number.is_multiple_of(1000) { name.repeat(7000) } else { name.repeat(20) };
        let line = format!("<27>1 2026-01-01T00:00:00Z {host} {name} 7 - - {name} is {host}");
        return (Service::Syslog, line.into_bytes());
    }
    let name: Vec<u32> = [1, 3, 6, 1, 4, 1].into_iter().chain((0..60).map(|at| number.rotate_left(at))).collect();
    (Service::Snmp, Trap::new(&name, 1).v2c(b"public", number as i32))
}

fn strangers_change_nothing(count: u32) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut judge = judge();
    let known = IpAddr::from([192, 0, 2, 7]);
    let mut before = Vec::new();
    for index in 0..200 {
        before.extend(say(&mut judge, known, Service::Snmp, &link_down(index).v2c(b"x", 1)));
        let line = format!("<27>Oct 11 22:14:15 core{index} bgpd[7]: down");
        before.extend(say(&mut judge, known, Service::Syslog, line.as_bytes()));
    }
    assert_eq!(before.len(), 400);
    let in_use = IN_USE.load(Ordering::Relaxed);
    for number in 0..count {
        let (service, datagram) = strange(number);
        let from = IpAddr::from(Ipv4Addr::from(0x0a00_0000 | number.wrapping_mul(0x0101_0101) >> 8));
        for alarm in say(&mut judge, from, service, &datagram) {
            assert!(!alarm.origin.is_known, "{alarm:?}");
            let key = &alarm.key;
            assert!(key.resource.len() <= 128 && key.condition.len() <= 120 && key.object.len() <= 120, "{key:?}");
        }
    }
    // They also clear and repeat what they did not raise.
    let up = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 4], 1);
    for index in 0..200 {
        let up = up.clone().with(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 1, index], Item::Integer(index.into()));
        let v1 = up.v1(b"x", &[1, 3, 6, 1, 6, 3, 1, 1, 5], Ipv4Addr::new(192, 0, 2, 7), 3, 0);
        assert!(say(&mut judge, IpAddr::from([10, 0, 0, 1]), Service::Snmp, &v1).is_empty(), "{index}");
    }
    let grown = IN_USE.load(Ordering::Relaxed).saturating_sub(in_use);
    assert!(grown <= PLACES * ALARM_BYTES, "{grown} bytes for {count} strangers");
    let counts = judge.counts();
    assert_eq!(counts.alarms.load(Ordering::Relaxed), 400 + PLACES as u64 / 2);
    assert_eq!(counts.not_authentic.load(Ordering::Relaxed), 200);
    assert_eq!(counts.share_full.load(Ordering::Relaxed), u64::from(count) - PLACES as u64 / 2);
    // And whoever is known still has room for news.
    assert_eq!(say(&mut judge, known, Service::Snmp, &link_down(1000).v2c(b"x", 1)).len(), 1);
    let again = say(&mut judge, known, Service::Snmp, &link_down(3).v2c(b"x", 1));
    let was = before.iter().find(|alarm| alarm.id == again[0].id).unwrap();
    assert_eq!((again[0].count, again[0].cleared, &again[0].key), (was.count + 1, false, &was.key));
}

#[test]
fn a_hundred_thousand_strangers_change_neither_known_alarms_nor_memory_beyond_the_bound() {
    strangers_change_nothing(100_000);
}

#[test]
#[ignore = "a million of them: make test-long"]
fn a_million_strangers_change_neither_known_alarms_nor_memory_beyond_the_bound() {
    strangers_change_nothing(1_000_000);
}

/// Each would cost two passes over a mebibyte if the key of encryption were made before the code is checked.
#[test]
fn unknown_engines_with_a_known_name_take_nothing_from_real_traps() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    const FLOOD: u32 = 20_000;
    const REAL: u32 = 1000;
    let mut judge = judge();
    let engine = b"\x80real engine";
    let sealer = Sealer::new(&user(), engine, 3);
    let scoped = link_down(3).scoped(tag::V2_TRAP, engine, b"", 1);
    let template = sealer.seal(1, 1000, &scoped, 0).unwrap();
    let at = template.windows(engine.len()).position(|window| window == engine).unwrap();
    let from = IpAddr::from([10, 9, 9, 9]);
    say(&mut judge, IpAddr::from([192, 0, 2, 7]), Service::Snmp, &template);
    let in_use = IN_USE.load(Ordering::Relaxed);
    for number in 0..FLOOD {
        let mut forged = template.clone();
        forged[at + 1..at + 5].copy_from_slice(&number.to_be_bytes());
        say(&mut judge, from, Service::Snmp, &forged);
        if number % (FLOOD / REAL) == 0 {
            let real = sealer.seal(1, 1000, &scoped, u64::from(number) + 1).unwrap();
            say(&mut judge, IpAddr::from([192, 0, 2, 7]), Service::Snmp, &real);
        }
    }
    let counts = judge.counts();
    assert_eq!(counts.causes.read(Cause::Snmp(Refusal::WrongDigest)), u64::from(FLOOD));
    assert_eq!(counts.snmp[2].load(Ordering::Relaxed), u64::from(REAL) + 1);
    // Real ones are remembered against replays; forged ones are not.
    assert!(IN_USE.load(Ordering::Relaxed).saturating_sub(in_use) < 200_000);
}

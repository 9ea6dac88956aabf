use std::ops::Range;

use super::write::classification;
use super::*;
use crate::alarm::{Judgement, Key, Severity};
use crate::table::{AlarmTable, FlapPolicy, Report};

fn job(ids: Range<u64>, at_ns: u64) -> Job {
    let mut job = Job::default();
    for id in ids {
        let raw = job.copy(&[id as u8; 100]);
        let decrypted = (id == 2).then(|| job.copy(&[id as u8]));
        job.rows.push(Row {
            id,
            at_ns,
            source: "192.0.2.1:162".parse().unwrap(),
            kind: Kind::V2c,
            alarm: Some(id % 2),
            judgement: Judgement::Flapping { penalty: 4.5 },
            raw,
            decrypted,
        });
    }
    job
}

#[test]
fn what_was_written_is_there_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("store");
    let mut store = Store::open(&directory).unwrap();
    let mut table = AlarmTable::new(Vec::new(), FlapPolicy::default(), 10);
    let key = Key { resource: "r".to_owned(), condition: "c".to_owned(), object: "o".to_owned() };
    let known = classification(Some("equipmentAlarm".to_owned()), Some("powerProblem".to_owned()));
    let classification = Some(&known);
    let raised = Report { raises: Some(true), severity: Severity::Major, classification, at_ns: 5, notification: 1 };
    table.report(&key, raised);
    let mut first = job(1..5, 77);
    first.alarms = table.take_changed();
    store.write(&first).unwrap();
    assert!(Store::open(&directory).unwrap_err().to_string().contains("another process writes"), "one writer");
    let beside = Store::open_beside(&directory).unwrap();
    beside.request_clear(1, "bob").unwrap();
    assert_eq!(store.take_requests().unwrap(), [(1, "bob".to_owned())]);
    assert!(store.take_requests().unwrap().is_empty());
    drop(store);
    let store = Store::open(&directory).unwrap();
    assert_eq!((store.last_id().unwrap(), store.notification_count().unwrap()), (4, 4));
    assert_eq!(store.alarms().unwrap(), first.alarms);
    assert_eq!((store.classification(1).unwrap(), store.classification(2).unwrap()), (Some(known), None));
    let odd = store.latest(1, 10).unwrap();
    assert_eq!(odd.iter().map(|row| row.id).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(odd[0].raw, [1; 100]);
    assert_eq!(odd[0].judgement, Judgement::Flapping { penalty: 4.5 });
    assert_eq!(store.notifications(2, 1).unwrap()[0].decrypted.as_deref(), Some(&[2][..]));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o077, 0);
    assert_eq!(directory.join(DATABASE).metadata().unwrap().permissions().mode() & 0o077, 0);
}

#[test]
fn a_store_of_the_layout_before_is_brought_to_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let mut table = AlarmTable::new(Vec::new(), FlapPolicy::default(), 10);
    let key = Key { resource: "r".to_owned(), condition: "c".to_owned(), object: "o".to_owned() };
    let raised =
        Report { raises: Some(true), severity: Severity::Minor, classification: None, at_ns: 5, notification: 1 };
    table.report(&key, raised);
    let mut job = job(1..5, 77);
    job.alarms = table.take_changed();
    store.write(&job).unwrap();
    let to_2 = "ALTER TABLE alarm DROP COLUMN event_type; ALTER TABLE alarm DROP COLUMN probable_cause; DROP TABLE mark; PRAGMA user_version = 2;";
    store.connection.execute_batch(to_2).unwrap();
    let error = Store::open_beside(folder.path()).unwrap_err().to_string();
    assert!(error.contains("layout 2") && error.contains("stop"), "one that is written to is left alone: {error}");
    drop(store);
    for open in [Store::open_beside, Store::open] {
        let store = open(folder.path()).unwrap();
        assert_eq!((store.alarms().unwrap(), store.notification_count().unwrap()), (job.alarms.clone(), 4));
        store.connection.pragma_update(None, "user_version", 1).unwrap();
        let error = Store::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("layout 1") || error.contains("another process"), "{error}");
        store.connection.execute_batch(to_2).unwrap();
    }
}

#[test]
fn a_job_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    store.write(&job(1..3, 1)).unwrap();
    let error = store.write(&job(2..9, 1)).unwrap_err().to_string();
    assert!(error.contains("write to the store"), "{error}");
    assert_eq!(store.notification_count().unwrap(), 2);
}

#[test]
fn retention_by_age_and_size_keeps_the_newest_and_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    store.write(&job(1..1000, 10)).unwrap();
    store.write(&job(1000..1500, 5_000_000_000)).unwrap();
    let now = Now { wall_ns: 5_500_000_000, monotonic_ns: 1 };
    let age = Retention { age: Some(Duration::from_secs(1)), bytes: None };
    assert!(!store.prune(age, now).unwrap());
    assert_eq!(store.notification_count().unwrap(), 500);
    let size = Retention { age: None, bytes: Some(1) };
    store.prune(size, now).unwrap();
    assert_eq!((store.notification_count().unwrap(), store.last_id().unwrap()), (0, 1499));
    assert!(store.used_bytes().unwrap() < 100_000);
}

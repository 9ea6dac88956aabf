use std::ops::Range;

use ringtap_snmp::usm::EngineClock;

use super::write::classification;
use super::*;
use crate::act::{self, Act, Request};
use crate::alarm::{Judgement, Key, Origin, SecurityLevel, Severity, Shown};
use crate::maintenance::{Scope, Window};
use crate::pattern::Pattern;
use crate::table::{AlarmTable, FlapPolicy, Report};

fn origin() -> Origin {
    let (source, security) = (Some([192, 0, 2, 1].into()), SecurityLevel::AuthPriv);
    Origin { source, security, shown: Shown::Certificate, is_known: true }
}

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
    let (raises, severity, origin) = (Some(true), Severity::Major, origin());
    let raised = Report { raises, severity, classification, origin, at_ns: 5, notification: 1, in_maintenance: false };
    table.report(&key, raised);
    let mut first = job(1..5, 77);
    first.alarms = table.take_changed();
    first.clocks = vec![EngineClock { id: b"engine".to_vec(), boots: 3, time: 7 }];
    store.write(&first).unwrap();
    assert!(Store::open(&directory).unwrap_err().to_string().contains("another process writes"), "one writer");
    let beside = Store::open_beside(&directory).unwrap();
    let request = |alarm, act| Request { alarm, act, operator: "bob".to_owned(), comment: Some("why".to_owned()) };
    let requests = [request(1, Act::Cleared), request(1, Act::Commented)];
    let last = beside.request(&requests).unwrap();
    let waiting = store.requests(0).unwrap();
    assert_eq!(waiting, [(last - 1, requests[0].clone()), (last, requests[1].clone())]);
    assert!(store.requests(last).unwrap().is_empty() && beside.is_waiting(last).unwrap());
    let done = act::apply(&mut table, waiting.into_iter().map(|(number, it)| (Some(number), it)).collect(), 9);
    let mut second = Job::default();
    second.history = done.entries;
    second.alarms = table.take_changed();
    store.write(&second).unwrap();
    assert!(!beside.is_waiting(last).unwrap());
    let history = beside.history(1).unwrap();
    assert_eq!(
        history.iter().map(|it| (it.act, it.at_ns)).collect::<Vec<_>>(),
        [(Act::Cleared, 9), (Act::Commented, 9)]
    );
    assert_eq!((history[0].operator.as_deref(), history[1].comment.as_deref()), (Some("bob"), Some("why")));
    assert_eq!(beside.request(&requests[..1]).unwrap(), last + 1, "numbers are never used again");
    drop(store);
    let store = Store::open(&directory).unwrap();
    assert_eq!((store.last_id().unwrap(), store.notification_count().unwrap()), (4, 4));
    assert_eq!(store.alarms().unwrap(), second.alarms);
    assert_eq!(store.clocks().unwrap(), [(first.clocks[0].clone(), 1)]);
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
    // As an earlier layout knows them.
    let (security, shown) = (SecurityLevel::NoAuthNoPriv, Shown::Nothing);
    let origin = Origin { source: None, security, shown, is_known: false };
    let (raises, severity, classification) = (Some(true), Severity::Minor, None);
    let raised = Report { raises, severity, classification, origin, at_ns: 5, notification: 1, in_maintenance: false };
    table.report(&key, raised);
    let mut job = job(1..5, 77);
    job.alarms = table.take_changed();
    store.write(&job).unwrap();
    let to_4 = "ALTER TABLE alarm DROP COLUMN expired; ALTER TABLE alarm DROP COLUMN acknowledged_by; ALTER TABLE alarm DROP COLUMN acknowledged_ns; ALTER TABLE alarm DROP COLUMN maintenance; DROP TABLE history; DROP TABLE maintenance; DROP TABLE request; CREATE TABLE request (id INTEGER PRIMARY KEY, alarm INTEGER NOT NULL, operator TEXT NOT NULL);";
    let to_3 = &format!(
        "{to_4} ALTER TABLE alarm DROP COLUMN origin; ALTER TABLE alarm DROP COLUMN security; ALTER TABLE alarm DROP COLUMN known; DROP TABLE engine;"
    );
    let to_2 = &format!(
        "{to_3} ALTER TABLE alarm DROP COLUMN event_type; ALTER TABLE alarm DROP COLUMN probable_cause; DROP TABLE mark; PRAGMA user_version = 2;"
    );
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
    let store = Store::open(folder.path()).unwrap();
    store.connection.execute_batch(&format!("{to_3} PRAGMA user_version = 3;")).unwrap();
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.alarms().unwrap(), job.alarms);
    // What was asked for and not done yet is not forgotten.
    let asked = "INSERT INTO request (alarm, operator) VALUES (1, 'bob');";
    store.connection.execute_batch(&format!("{to_4} {asked} PRAGMA user_version = 4;")).unwrap();
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    let request = Request { alarm: 1, act: Act::Cleared, operator: "bob".to_owned(), comment: None };
    assert_eq!((store.alarms().unwrap(), store.requests(0).unwrap()), (job.alarms, vec![(1, request)]));
    assert!(store.windows(None).unwrap().is_empty() && store.history(1).unwrap().is_empty());
}

#[test]
fn windows_of_maintenance_are_kept_until_they_are_over_or_ended() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let scope = Scope { nodes: vec![Pattern::new("core*")], networks: vec!["192.0.2.0/24".parse().unwrap()] };
    let (operator, comment) = ("alice".to_owned(), Some("new software".to_owned()));
    let window = Window { id: 0, scope, from_ns: 5, until_ns: 10, operator, comment, ended: None };
    let ids: Vec<u64> = (0..2).map(|_| store.add_window(&window).unwrap()).collect();
    assert_eq!(store.windows(Some(9)).unwrap()[0], Window { id: ids[0], ..window });
    assert_eq!(store.windows(Some(10)).unwrap(), []);
    assert!(store.end_window(ids[0], "bob", 7).unwrap() && !store.end_window(ids[0], "bob", 8).unwrap());
    assert!(!store.end_window(ids[1], "bob", 10).unwrap(), "it is over");
    assert_eq!(store.windows(Some(9)).unwrap().iter().map(|window| window.id).collect::<Vec<_>>(), ids[1..]);
    assert_eq!(store.windows(None).unwrap()[0].ended, Some((7, "bob".to_owned())));
    store.set_windows_in_use(&store.windows(Some(9)).unwrap()).unwrap();
    assert!(!store.is_window_in_use(ids[0]).unwrap() && store.is_window_in_use(ids[1]).unwrap());
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

/// A small disk of the calling thread's alone, until that ends.
fn small_disk(at: &Path, flags: nix::mount::MsFlags) {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    unshare(CloneFlags::CLONE_NEWNS).expect("did not run: a mount namespace needs root");
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
    mount(Some("tmpfs"), at, Some("tmpfs"), flags, Some("size=2m")).unwrap();
}

fn fill(at: &Path) {
    let mut filler = File::create(at.join("filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
}

/// Runs `test` on a thread of its own, whose mounts go with it.
fn on_a_disk(test: impl FnOnce(&Path) + Send) {
    let folder = tempfile::tempdir().unwrap();
    let ended = std::thread::scope(|scope| scope.spawn(|| test(folder.path())).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn net_store_on_a_full_disk_under_its_limit_keeps_the_reserve_and_advises_what_helps() {
    on_a_disk(|disk| {
        small_disk(disk, nix::mount::MsFlags::empty());
        let directory = disk.join("store");
        let mut store = Store::open(&directory).unwrap();
        let limits = Retention { age: Some(Duration::from_secs(3600)), bytes: Some(1 << 30) };
        let now = Now { wall_ns: 5_500_000_000, monotonic_ns: 1 };
        store.write(&job(1..100, 10)).unwrap();
        store.prune(limits, now).unwrap();
        store.keep_reserve();
        store.write(&job(100..200, 10)).unwrap();
        fill(disk);
        let mut next = 200;
        let mut full = |store: &mut Store| loop {
            match store.write(&job(next..next + 1000, 10)) {
                Ok(()) => next += 1000,
                Err(error) => return error.to_string(),
            }
        };
        let said = full(&mut store);
        assert!(said.contains("full") && said.contains("--keep-size"), "{said}");
        store.limit(limits);
        let said = full(&mut store);
        assert!(said.contains("full") && said.contains("free some space") && !said.contains("--keep"), "{said}");
        assert!(!store.make_room(limits, now).unwrap(), "nothing is due");
        assert_eq!(directory.join(RESERVE).metadata().unwrap().len(), RESERVE_BYTES as u64);
        // No mark could be written of the latest; they are as old as they are all the same.
        let later = Now { monotonic_ns: now.monotonic_ns + 3601 * 1_000_000_000, ..now };
        assert!(store.notification_count().unwrap() >= 199);
        assert!(store.make_room(limits, later).unwrap(), "the time is over");
        assert_eq!(store.notification_count().unwrap(), 0);
        assert!(!directory.join(RESERVE).exists());
    });
}

#[test]
fn net_store_that_can_not_be_opened_says_that_its_disk_is_full_or_read_only() {
    use nix::mount::{MsFlags, mount};
    on_a_disk(|disk| {
        small_disk(disk, MsFlags::empty());
        let directory = disk.join("store");
        drop(Store::open(&directory).unwrap());
        fill(disk);
        let said = Store::open(&directory).unwrap_err().to_string();
        assert!(said.contains("the disk is full") && said.contains("free some space"), "{said}");
        std::fs::remove_file(disk.join("filler")).unwrap();
        // With a log that was left behind it could be read.
        drop(Store::open(&directory).unwrap());
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(None::<&str>, disk, None::<&str>, flags, None::<&str>).unwrap();
        let said = Store::open_beside(&directory).unwrap_err().to_string();
        assert!(said.contains("mounted read-only") && said.contains("mount it for writing"), "{said}");
        let said = Store::open(&directory).unwrap_err().to_string();
        assert!(said.contains("ead-only"), "{said}");
    });
}

//! Crashes at any byte, segments, deleting.

use super::*;
use crate::input::parse::{Parser, Wanted};

fn event(time_ns: i64) -> Event {
    let line = format!(r#"{{"time":{time_ns},"name":"event"}}"#);
    let mut event = Parser::new(Wanted::Json, "in").event(line.as_bytes()).unwrap();
    event.mark.time_ns = time_ns;
    event
}

fn times(log: &mut Log, from: i64) -> Vec<i64> {
    let records = log.read_from(from);
    records
        .filter_map(|(_, record)| match record {
            Record::Event { event, .. } => Some(event.mark.time_ns),
            _ => None,
        })
        .collect()
}

#[test]
fn a_crash_at_any_byte_costs_only_what_was_not_complete() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::open(folder.path()).unwrap();
    let mut ends = Vec::new();
    for time in 0..5 {
        log.event(&event(time), false);
        ends.push(log.place().offset);
    }
    log.sync().unwrap();
    drop(log);
    let path = folder.path().join("log-00000001");
    let whole = fs::read(&path).unwrap();
    assert_eq!(whole.len() as u64, ends[4]);
    for len in 0..=whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        let mut log = Log::open(folder.path()).unwrap();
        let complete = ends.iter().filter(|end| **end <= len as u64).count() as i64;
        assert_eq!(times(&mut log, i64::MIN), (0..complete).collect::<Vec<_>>(), "{len}");
        // It goes on behind the last complete record.
        log.event(&event(100), true);
        log.watermark(50);
        log.sync().unwrap();
        let expected: Vec<i64> = (0..complete).chain([100]).collect();
        assert_eq!(times(&mut Log::open(folder.path()).unwrap(), i64::MIN), expected);
    }
}

#[test]
fn segments_are_found_by_time_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::with_segments(folder.path(), 1000).unwrap();
    for time in 0..100 {
        log.event(&event(time), false);
        log.watermark(time - 1);
        log.sync().unwrap();
    }
    assert!(log.complete.len() > 5);
    assert_eq!(times(&mut log, i64::MIN).len(), 100);
    let late = times(&mut log, 90);
    assert!(late.len() < 30 && late.ends_with(&[90, 91, 92, 93, 94, 95, 96, 97, 98, 99]), "{late:?}");
    let bytes = log.bytes();
    assert_eq!(log.prune(50, u64::MAX), 0);
    assert!(log.bytes() < bytes);
    let mut again = Log::with_segments(folder.path(), 1000).unwrap();
    let left = times(&mut again, i64::MIN);
    assert!(left.contains(&50) && !left.contains(&10) && left.contains(&99));
    assert_eq!((again.complete.len(), again.faults()), (log.complete.len(), (0, 0)));
    assert_eq!(again.place(), log.place());
    // Damage in the middle costs the rest of its segment, and is said.
    let path = again.complete[0].path.clone();
    let mut bytes = fs::read(&path).unwrap();
    let len = bytes.len();
    bytes[len - 1] ^= 1;
    bytes[len / 2] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(Log::with_segments(folder.path(), 1000).unwrap().faults(), (0, 1));
}

#[test]
fn the_oldest_go_when_it_is_too_large() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::with_segments(folder.path(), 1000).unwrap();
    for time in 0..100 {
        log.event(&event(time), false);
        log.sync().unwrap();
    }
    let before = log.complete.len() as u64;
    let cut = log.prune(i64::MIN, 3000);
    assert!(cut > 0 && log.bytes() <= 3000 && log.complete.len() as u64 == before - cut);
    assert_eq!(times(&mut log, i64::MIN).last(), Some(&99));
    // What lies elsewhere is not read.
    let mut between = log.read_between(i64::MIN, log.complete[0].span.last_ns);
    let read = between.by_ref().count();
    assert!(read > 0 && between.bytes() < log.bytes(), "{read}");
    // The one that is written stays, however large.
    log.prune(i64::MIN, 0);
    assert!(log.complete.is_empty() && log.bytes() > 0);
}

#[test]
fn a_full_disk_costs_only_what_it_could_not_take() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::open(folder.path()).unwrap();
    (0..5).for_each(|time| log.event(&event(time), false));
    log.sync().unwrap();
    let (bytes, old) = (log.bytes(), fs::read(folder.path().join("log-00000001")).unwrap());
    log.file = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
    log.event(&event(5), false);
    assert!(log.sync().is_err());
    assert_eq!((log.faults().0, log.bytes()), (1, bytes + MAGIC.len() as u64));
    log.file = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
    log.event(&event(5), false);
    assert!(log.sync().is_err() && log.place().segment == 2, "it has nothing yet");
    // No new segment can be begun for a while.
    let elsewhere = std::mem::replace(&mut log.folder, folder.path().join("none"));
    for time in 6..9 {
        log.event(&event(time), false);
        assert!(log.sync().is_err());
    }
    assert!(log.sync().is_err(), "it is tried again");
    assert_eq!((log.faults().0, log.place()), (5, Place { segment: 2, offset: MAGIC.len() as u64 }));
    log.folder = elsewhere;
    log.event(&event(9), false);
    log.sync().unwrap();
    assert_eq!(times(&mut log, i64::MIN), [0, 1, 2, 3, 4, 9]);
    assert_eq!(times(&mut log, 6), [9], "the first one has nothing of that time");
    assert_eq!(fs::read(folder.path().join("log-00000001")).unwrap(), old);
    let mut again = Log::open(folder.path()).unwrap();
    assert_eq!((times(&mut again, i64::MIN), again.place()), (vec![0, 1, 2, 3, 4, 9], log.place()));
}

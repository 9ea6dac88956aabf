//! Writing twice, other versions, two writers.

use ringtap_sigma::{Closed, Doubt, Identity, Limits, RuleSet};

use super::*;

fn automaton() -> Automaton {
    let mut set = RuleSet::new();
    set.add("kinds.yml", include_str!("../../tests/rules/kinds.yml"));
    set.compile(Limits::default()).0
}

fn opened(automaton: &Automaton, at_ns: i64) -> Opened {
    let member = |time_ns| Member {
        place: 0,
        time_ns,
        identity: Identity { sensor: u64::MAX, epoch: 2, sequence: 3 },
        via: None,
    };
    Opened {
        id: IncidentId([7; 16]),
        rule: automaton.rules()[0].number,
        key: vec![5, 0, b'a', b'l', b'i', b'c', b'e'],
        at_ns,
        start_ns: at_ns - 5,
        doubt: Doubt::default(),
        members: vec![member(at_ns - 5), member(at_ns)],
    }
}

#[test]
fn what_is_written_twice_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let automaton = automaton();
    let mut store = Store::open(&folder.path().join("s")).unwrap();
    assert_eq!(store.judged().unwrap(), None);
    let judged = Judged { watermark: -7, late: Place { segment: 2, offset: 9 }, greatest_ns: 55 };
    let opened = opened(&automaton, 100);
    let closed = Closed { id: opened.id, rule: opened.rule, at_ns: 200, matches: 4 };
    let batch = Batch {
        outputs: vec![(Output::Opened(opened.clone()), false), (Output::Closed(closed), false)],
        progress: vec![(opened.id, 2, 3)],
        sensors: vec![(u64::MAX, "s1".into())],
        incomplete: false,
    };
    for _ in 0..2 {
        store.write(&automaton, &batch, judged).unwrap();
        let incidents = store.incidents().unwrap();
        assert_eq!(incidents.len(), 1);
        let it = &incidents[0];
        assert_eq!(
            (it.opened_ns, it.closed_ns, it.matches, it.key["user"].as_str()),
            (100, Some(200), 4, Some("alice"))
        );
        assert_eq!(store.members(opened.id).unwrap().len(), 2);
        assert_eq!(store.sensors().unwrap()[&u64::MAX], "s1");
        assert_eq!(store.judged().unwrap(), Some(judged));
    }
    let version = automaton.rules()[0].version;
    let known = store.known(100, Found::InTime).unwrap();
    assert_eq!(known.open_at(&version, &opened.key, 150), Some((opened.id, 100, 2, 4)));
    assert_eq!(known.open_at(&version, &opened.key, 200), None);
    assert_eq!(known.open_at(&version, &opened.key, 99), None);
    assert!(store.known(200, Found::Ever).unwrap().open_at(&version, &opened.key, 150).is_none());
}

#[test]
fn one_writes_and_others_read() {
    let folder = tempfile::tempdir().unwrap();
    let error = Store::open_beside(folder.path()).unwrap_err().to_string();
    assert!(error.contains("no store of incidents") && error.contains("--store"), "{error}");
    let store = Store::open(folder.path()).unwrap();
    let error = Store::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("another process"), "{error}");
    assert!(Store::open_beside(folder.path()).unwrap().incidents().unwrap().is_empty());
    store.connection.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let error = Store::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("99") && error.contains("another version"), "{error}");
}

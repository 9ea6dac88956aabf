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
        outputs: vec![(Output::Opened(opened.clone()), Found::default()), (Output::Closed(closed), Found::default())],
        removed: Vec::new(),
        progress: [(opened.id, (2, 3))].into(),
        sensors: vec![(u64::MAX, "s1".into())],
    };
    for _ in 0..2 {
        let read = BTreeMap::from([(u64::MAX, 9), (3, 0)]);
        store.write(&automaton, &batch, judged, &read).unwrap();
        assert_eq!(store.read_up_to().unwrap(), read);
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
    let known = store.known(100, Which::InTime).unwrap();
    assert_eq!(known.open_at(&version, &opened.key, 150), Some((opened.id, 100, 2, 4)));
    assert_eq!(known.open_at(&version, &opened.key, 200), None);
    assert_eq!(known.open_at(&version, &opened.key, 99), None);
    assert!(store.known(200, Which::Ever).unwrap().open_at(&version, &opened.key, 150).is_none());
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

/// Incidents of this rule that open and close one after the other, and one that stays open.
fn many(store: &mut Store, automaton: &Automaton, count: u16) {
    let mut batch = Batch::default();
    for number in 0..count {
        let at_ns = i64::from(number) * 1000;
        let opened = Opened { id: IncidentId((u128::from(number) + 1).to_be_bytes()), ..opened(automaton, at_ns) };
        let closed = Closed { id: opened.id, rule: opened.rule, at_ns: at_ns + 500, matches: 2 };
        batch.outputs.push((Output::Opened(opened), Found::default()));
        batch.outputs.push((Output::Closed(closed), Found::default()));
    }
    batch.outputs.push((Output::Opened(opened(automaton, 1)), Found::default()));
    store.write(automaton, &batch, Judged::default(), &BTreeMap::new()).unwrap();
}

#[test]
fn closed_incidents_go_by_age_and_by_size() {
    let folder = tempfile::tempdir().unwrap();
    let automaton = automaton();
    let mut store = Store::open(folder.path()).unwrap();
    many(&mut store, &automaton, 3000);
    let left = |store: &Store| store.incidents().unwrap().len();
    let by_age = Retention { age_ns: Some(1_000_000), bytes: None };
    // Only what nothing can tell again.
    store.retain(by_age, 2_000_000, 100_000).unwrap();
    assert_eq!(left(&store), 3001 - 100);
    store.retain(by_age, 2_000_000, i64::MAX).unwrap();
    assert_eq!(left(&store), 3001 - 1000);
    let members: i64 = store.connection.query_row("SELECT count(*) FROM member", [], |row| row.get(0)).unwrap();
    assert_eq!(members, 2 * 2001);
    let by_size = Retention { age_ns: None, bytes: Some(200_000) };
    store.retain(by_size, 0, i64::MAX).unwrap();
    assert!(store.used_bytes().unwrap() <= 200_000 && left(&store) > 1);
    store.retain(Retention { age_ns: None, bytes: Some(0) }, 0, i64::MAX).unwrap();
    assert!(store.incidents().unwrap().iter().all(|it| it.closed_ns.is_none()), "what is open stays");
}

#[test]
fn incidents_of_rules_that_are_gone_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let automaton = automaton();
    let mut store = Store::open(folder.path()).unwrap();
    many(&mut store, &automaton, 2);
    let versions: Vec<Version> = automaton.rules().iter().map(|rule| rule.version).collect();
    assert_eq!(store.open_of_others(&versions, 9).unwrap(), []);
    let removed = store.open_of_others(&versions[1..], 9).unwrap();
    assert_eq!((removed.len(), removed[0].id, removed[0].at_ns), (1, IncidentId([7; 16]), 9));
    let batch = Batch { removed: vec![(removed[0].id, 9)], ..Batch::default() };
    store.write(&automaton, &batch, Judged::default(), &BTreeMap::new()).unwrap();
    assert_eq!(store.open_of_others(&[], 9).unwrap(), []);
}

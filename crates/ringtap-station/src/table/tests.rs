use super::*;
use crate::alarm::{SecurityLevel, Shown};

const S: u64 = 1_000_000_000;

fn key(object: &str) -> Key {
    Key { resource: "192.0.2.1".to_owned(), condition: "linkDown".to_owned(), object: object.to_owned() }
}

fn table() -> AlarmTable {
    AlarmTable::new(Vec::new(), FlapPolicy::default(), 3)
}

fn origin(source: &str, security: SecurityLevel, is_known: bool) -> Origin {
    Origin { source: Some(source.parse().unwrap()), security, shown: Shown::Nothing, is_known }
}

fn report(raises: bool, at_ns: u64) -> Report<'static> {
    let origin = origin("192.0.2.1", SecurityLevel::NoAuthNoPriv, true);
    let (raises, severity, classification) = (Some(raises), Severity::Major, None);
    Report { raises, severity, classification, origin, at_ns, notification: at_ns / S, in_maintenance: false }
}

/// The same of a node in maintenance.
fn held(raises: bool, at_ns: u64) -> Report<'static> {
    Report { in_maintenance: true, ..report(raises, at_ns) }
}

fn place(table: &AlarmTable, id: u64) -> Place {
    table.places([id])[&id]
}

#[test]
fn one_alarm_per_object_and_condition_with_count_and_state() {
    let mut table = table();
    let mut say = |raises, at: u64| {
        let (judgement, alarm) = table.report(&key("3"), report(raises, at * S));
        (judgement, alarm.map(|alarm| (alarm.count, alarm.cleared, alarm.changes)))
    };
    assert_eq!(say(false, 1), (Judgement::ClearedNothing, None));
    assert_eq!(say(true, 2), (Judgement::New, Some((1, false, 0))));
    assert_eq!(say(true, 3), (Judgement::Repeated, Some((2, false, 0))));
    assert_eq!(say(false, 4), (Judgement::Changed, Some((3, true, 1))));
    assert_eq!(say(false, 5), (Judgement::Repeated, Some((4, true, 1))));
    assert_eq!(say(true, 6), (Judgement::Changed, Some((5, false, 2))));
    let changed = table.take_changed();
    assert_eq!((changed.len(), changed[0].first_ns, changed[0].last_ns), (1, 2 * S, 6 * S));
    assert!(table.take_changed().is_empty());
    assert_eq!((table.len(), table.raised()), (1, 1));
}

#[test]
fn flapping_is_announced_no_more_until_it_is_quiet_but_the_state_stays_true() {
    let mut table = table();
    let judged: Vec<Judgement> = (0..10).map(|at| table.report(&key("3"), report(at % 2 == 0, at * S)).0).collect();
    assert_eq!(judged[..2], [Judgement::New, Judgement::Changed]);
    assert!(matches!(judged[9], Judgement::Flapping { penalty } if penalty > 4.0), "{judged:?}");
    let announced = judged.iter().filter(|judgement| judgement.is_announced()).count();
    assert!((4..7).contains(&announced), "{judged:?}");
    let alarm = table.take_changed().remove(0);
    assert_eq!((alarm.cleared, alarm.changes, alarm.count, alarm.flapping), (true, 9, 10, true));
    assert_eq!(alarm.suppressed, 10 - announced as u64);
    assert!(table.settle(20 * S, |_| false).is_empty());
    let settled = table.settle(100 * S, |_| false);
    assert_eq!((settled.len(), settled[0].flapping, settled[0].cleared), (1, false, true));
    assert_eq!(table.report(&key("3"), report(true, 101 * S)).0, Judgement::Changed);
}

#[test]
fn an_alarm_has_what_the_rule_that_raised_it_last_knows() {
    use crate::alarm::EventType;
    let cause = |name: &str| Classification {
        event_type: Some(EventType::CommunicationsAlarm),
        probable_cause: Some(name.to_owned()),
    };
    let (lost, failed) = (cause("lossOfSignal"), cause("communicationsSubsystemFailure"));
    let mut table = table();
    let mut say = |raises, classification| {
        let report = Report { classification, ..report(raises, S) };
        table.report(&key("3"), report).1.unwrap().classification.clone()
    };
    assert_eq!(say(true, None), Classification::default());
    assert_eq!(say(true, Some(&lost)), lost, "as after an upgrade");
    assert_eq!(say(false, Some(&failed)), lost, "what clears says nothing of why it was raised");
    assert_eq!(say(true, None), lost);
    assert_eq!(say(true, Some(&failed)), failed);
    for name in
        ["communicationsAlarm", "qualityOfServiceAlarm", "processingErrorAlarm", "equipmentAlarm", "environmentalAlarm"]
    {
        let kind = EventType::from_name(name).unwrap();
        assert_eq!(serde_json::to_value(kind).unwrap(), name);
    }
}

#[test]
fn events_are_never_cleared_and_the_table_is_bounded() {
    let mut table = table();
    let event = Report { raises: None, ..report(true, S) };
    assert_eq!(table.report(&key("a"), event).0, Judgement::New);
    assert_eq!(table.report(&key("a"), event).0, Judgement::Repeated);
    table.report(&key("b"), event);
    table.report(&key("c"), event);
    assert_eq!(table.report(&key("d"), event).0, Judgement::TableFull);
    let worse = Report { severity: Severity::Critical, ..event };
    assert_eq!(table.report(&key("a"), worse).0, Judgement::Changed, "it got worse");
}

#[test]
fn a_full_table_makes_room_where_an_alarm_is_cleared_and_stored() {
    let mut table = table();
    for object in ["a", "b", "c"] {
        table.report(&key(object), report(true, S));
    }
    assert_eq!(table.report(&key("d"), report(true, 2 * S)).0, Judgement::TableFull, "all are raised");
    assert_eq!(table.report(&key("b"), report(false, 3 * S)).0, Judgement::Changed);
    assert_eq!(
        table.report(&key("d"), report(true, 4 * S)).0,
        Judgement::TableFull,
        "the store has not seen it cleared"
    );
    assert_eq!(table.take_changed().len(), 3);
    let (judgement, alarm) = table.report(&key("d"), report(true, 5 * S));
    assert_eq!((judgement, alarm.unwrap().id), (Judgement::New, 4), "numbers are never used again");
    assert_eq!((table.len(), table.raised()), (3, 3));
    assert_eq!(table.report(&key("b"), report(false, 6 * S)).0, Judgement::ClearedNothing, "it has gone");
    assert_eq!(table.report(&key("c"), report(true, 6 * S)).0, Judgement::Repeated, "the others have not");
    let changed: Vec<u64> = table.take_changed().iter().map(|alarm| alarm.id).collect();
    assert_eq!(changed, [4, 3], "by place");
}

#[test]
fn a_restart_takes_the_newest_alarm_of_each_condition_and_no_more_than_fit() {
    let mut table = table();
    for object in ["a", "b", "c"] {
        table.report(&key(object), report(true, S));
        table.report(&key(object), report(false, 2 * S));
    }
    let mut stored = table.take_changed();
    // "a" makes room and comes again, in the place of "b": the store has two of it.
    table.report(&key("d"), report(true, 3 * S));
    table.report(&key("a"), report(true, 4 * S));
    stored.extend(table.take_changed());
    stored.sort_by_key(|alarm| alarm.id);
    assert_eq!(stored.iter().map(|alarm| alarm.key.object.as_str()).collect::<String>(), "abcda");
    let mut later = AlarmTable::new(stored, FlapPolicy::default(), 3);
    assert_eq!((later.len(), later.raised()), (3, 2), "a, d, and one cleared one");
    assert_eq!(later.report(&key("a"), report(true, 5 * S)).1.unwrap().id, 5, "the newer one");
    assert_eq!(later.report(&key("b"), report(false, 5 * S)).0, Judgement::ClearedNothing, "the oldest cleared one");
    later.take_changed();
    let (judgement, new) = later.report(&key("e"), report(true, 6 * S));
    assert_eq!((judgement, new.unwrap().id), (Judgement::New, 6), "\"c\" makes room");
    assert_eq!(later.report(&key("a"), report(true, 7 * S)).0, Judgement::Repeated, "and no other does");
}

#[test]
fn strangers_have_their_half_and_never_a_place_of_a_known_sender() {
    const PLACES: usize = 160;
    let mut table = AlarmTable::new(Vec::new(), FlapPolicy::default(), PLACES);
    let known = |raises, at_ns| report(raises, at_ns);
    for number in 0..10 {
        table.report(&key(&format!("known {number}")), known(true, S));
        table.report(&key(&format!("cleared {number}")), known(true, S));
        table.report(&key(&format!("cleared {number}")), known(false, 2 * S));
    }
    let before = table.take_changed();
    let mut judged = HashMap::new();
    for number in 0..5000u32 {
        let address = format!("10.{}.{}.{}", number % 50, number % 3, number % 7);
        let origin = origin(&address, SecurityLevel::NoAuthNoPriv, false);
        let (judgement, _) = table.report(&key(&number.to_string()), Report { origin, ..report(true, 3 * S) });
        *judged.entry(judgement.to_string()).or_insert(0) += 1;
    }
    assert_eq!((judged.len(), judged["new alarm"]), (2, PLACES / 2), "{judged:?}");
    for number in 0..PLACES as u32 / 2 - 20 {
        assert_eq!(table.report(&key(&format!("more {number}")), known(true, 4 * S)).0, Judgement::New);
    }
    table.take_changed();
    let of_known: Vec<Alarm> =
        table.alarms.iter().filter(|alarm| before.iter().any(|it| it.id == alarm.id)).cloned().collect();
    assert_eq!(of_known, before, "cleared ones too are where they were");
    let origin = origin("10.0.0.1", SecurityLevel::NoAuthNoPriv, false);
    assert_eq!(table.report(&key("x"), Report { origin, ..report(true, 5 * S) }).0, Judgement::ShareFull);
    assert_eq!(table.report(&key("y"), known(true, 5 * S)).0, Judgement::New, "in the place of a cleared one");
    // A restart knows the same.
    let mut later = AlarmTable::new(table.alarms.clone(), FlapPolicy::default(), PLACES);
    assert_eq!(later.report(&key("x"), Report { origin, ..report(true, 5 * S) }).0, Judgement::ShareFull);
}

#[test]
fn one_address_and_one_network_have_a_part_and_what_they_clear_is_free_again() {
    let mut table = AlarmTable::new(Vec::new(), FlapPolicy::default(), 80);
    let mut raise = |source: &str, name: String, raises| {
        let origin = origin(source, SecurityLevel::NoAuthNoPriv, false);
        table.report(&key(&name), Report { origin, ..report(raises, S) }).0
    };
    for number in 0..10 {
        assert_eq!(raise("192.0.2.1", format!("a{number}"), true), Judgement::New);
    }
    assert_eq!(raise("192.0.2.1", "more".to_owned(), true), Judgement::ShareFull);
    for number in 0..10 {
        assert_eq!(raise("192.0.2.2", format!("b{number}"), true), Judgement::New);
    }
    assert_eq!(raise("192.0.2.3", "more".to_owned(), true), Judgement::ShareFull, "the network has its part");
    assert_eq!(raise("198.51.100.1", "more".to_owned(), true), Judgement::New);
    assert_eq!(raise("192.0.2.1", "a3".to_owned(), false), Judgement::Changed);
    assert_eq!(raise("192.0.2.1", "again".to_owned(), true), Judgement::New);
}

#[test]
fn only_what_is_at_least_as_authentic_changes_an_alarm() {
    use SecurityLevel::{AuthNoPriv, AuthPriv, NoAuthNoPriv};
    let mut table = table();
    let mut say = |security, is_known, raises| {
        let origin = origin("192.0.2.1", security, is_known);
        let (judgement, alarm) = table.report(&key("3"), Report { origin, ..report(raises, S) });
        (judgement, alarm.unwrap().cleared, alarm.unwrap().count)
    };
    assert_eq!(say(AuthNoPriv, true, true), (Judgement::New, false, 1));
    assert_eq!(say(NoAuthNoPriv, true, false), (Judgement::NotAuthentic, false, 1));
    assert_eq!(say(NoAuthNoPriv, false, true), (Judgement::NotAuthentic, false, 1));
    assert_eq!(say(AuthPriv, true, true), (Judgement::Changed, false, 2), "news, and now it takes as much");
    assert_eq!(say(AuthNoPriv, true, false), (Judgement::NotAuthentic, false, 2));
    assert_eq!(say(AuthPriv, true, false), (Judgement::Changed, true, 3));
    assert_eq!(say(NoAuthNoPriv, true, true), (Judgement::Changed, false, 4));
    assert_eq!(say(NoAuthNoPriv, false, false), (Judgement::NotAuthentic, false, 4), "a stranger");
    assert!(say(NoAuthNoPriv, true, false).1);
}

#[test]
fn an_operator_clears_and_a_restart_goes_on() {
    let mut table = table();
    let id = table.report(&key("a"), report(true, S)).1.unwrap().id;
    assert_eq!(table.clear(place(&table, id), "bob", 2 * S).unwrap().operator.as_deref(), Some("bob"));
    assert!(table.clear(place(&table, id), "bob", 2 * S).is_none());
    let mut later = AlarmTable::new(table.take_changed(), FlapPolicy::default(), 3);
    let (judgement, alarm) = later.report(&key("a"), report(true, 3 * S));
    assert_eq!((judgement, alarm.unwrap().operator.clone()), (Judgement::Changed, None));
    assert_eq!(later.report(&key("b"), report(true, 3 * S)).1.unwrap().id, id + 1);
}

/// A table and two senders of its alarms: one that anybody can be, and one that only a user can.
fn forger_and_user() -> (AlarmTable, Origin, Origin) {
    let table = AlarmTable::new(Vec::new(), FlapPolicy::default(), 100);
    let forger = origin("192.0.2.1", SecurityLevel::NoAuthNoPriv, false);
    (table, forger, origin("192.0.2.1", SecurityLevel::AuthPriv, true))
}

#[test]
fn flapping_of_anybody_keeps_no_authentic_alarm_from_being_announced() {
    let (mut table, forger, user) = forger_and_user();
    for at in 0..10 {
        table.report(&key("3"), Report { origin: forger, ..report(at % 2 == 0, at * S) });
    }
    let (judgement, alarm) = table.report(&key("3"), Report { origin: user, ..report(true, 10 * S) });
    let alarm = alarm.unwrap();
    assert_eq!((judgement, alarm.flapping, alarm.origin), (Judgement::Changed, false, user));
    let forged = Report { origin: forger, ..report(false, 11 * S) };
    assert_eq!(table.report(&key("3"), forged).0, Judgement::NotAuthentic);
    assert_eq!(table.report(&key("3"), Report { origin: user, ..report(false, 12 * S) }).0, Judgement::Changed);
    assert!(table.settle(1000 * S, |_| false).is_empty(), "it has settled already");
    // Whose own changes flap is judged as before.
    let judged: Vec<Judgement> =
        (0..10).map(|at| table.report(&key("4"), Report { origin: user, ..report(at % 2 == 0, at * S) }).0).collect();
    assert!(matches!(judged[9], Judgement::Flapping { .. }), "{judged:?}");
}

/// Each change comes by v2c first, then by v3.
#[test]
fn a_device_that_says_all_twice_is_damped_as_others_are() {
    let (mut table, anybody, user) = forger_and_user();
    let mut announced = 0;
    for at in 0..40 {
        for origin in [anybody, user] {
            let (judgement, _) = table.report(&key("3"), Report { origin, ..report(at % 2 == 0, (at + 1) * S) });
            announced += u32::from(judgement.is_announced());
        }
    }
    assert!(announced < 10, "{announced} announcements of 40 changes within 40 seconds");
}

#[test]
fn what_anybody_raised_before_keeps_no_authentic_alarm_from_being_announced() {
    let (mut table, forger, user) = forger_and_user();
    let forged = Report { origin: forger, severity: Severity::Critical, ..report(true, S) };
    assert_eq!(table.report(&key("3"), forged).0, Judgement::New);
    let (judgement, alarm) = table.report(&key("3"), Report { origin: user, ..report(true, 2 * S) });
    let alarm = alarm.unwrap();
    assert_eq!((judgement, alarm.severity, alarm.origin), (Judgement::Changed, Severity::Major, user));
    assert_eq!(table.report(&key("3"), Report { origin: user, ..report(true, 3 * S) }).0, Judgement::Repeated);
}

#[test]
fn flapping_ends_after_a_minute_of_quiet_however_much_there_was() {
    let mut table = table();
    for at in 0..10_001 {
        table.report(&key("3"), report(at % 2 == 0, at));
    }
    let alarm = table.take_changed().remove(0);
    assert!(alarm.flapping && alarm.penalty <= FlapPolicy::default().ceiling, "{alarm:?}");
    assert!(table.settle(50 * S, |_| false).is_empty());
    assert_eq!(table.settle(61 * S, |_| false).len(), 1);
}

#[test]
fn strangers_take_no_more_of_what_known_senders_cleared_than_their_share() {
    const PLACES: usize = 8;
    let mut table = AlarmTable::new(Vec::new(), FlapPolicy::default(), PLACES);
    let stranger =
        |source| Report { origin: origin(source, SecurityLevel::NoAuthNoPriv, false), ..report(true, 3 * S) };
    for number in 0..PLACES {
        table.report(&key(&number.to_string()), report(true, S));
        table.report(&key(&number.to_string()), report(false, 2 * S));
    }
    table.take_changed();
    let mut raise = |source| {
        let judged: Vec<Judgement> =
            (0..PLACES).map(|number| table.report(&key(&number.to_string()), stranger(source)).0).collect();
        table.take_changed();
        [Judgement::Changed, Judgement::ShareFull, Judgement::Repeated]
            .map(|which| judged.iter().filter(|it| **it == which).count())
    };
    assert_eq!(raise("10.0.0.1"), [1, 7, 0], "an address has an eighth");
    assert_eq!(raise("10.0.0.2"), [1, 6, 1], "a network a fourth");
    assert_eq!(raise("10.0.1.1"), [1, 5, 2]);
    assert_eq!(raise("10.0.2.1"), [1, 4, 3]);
    assert_eq!(raise("10.0.3.1"), [0, 4, 4], "all of them half");
    assert_eq!(table.report(&key("new"), report(true, 4 * S)).0, Judgement::New);
    // Repeating what another stranger raised moves no share.
    let later = AlarmTable::new(table.alarms.clone(), FlapPolicy::default(), PLACES);
    assert_eq!((table.shares.places, later.shares.places), (4, 4));
}

#[test]
fn an_alarm_of_nobody_is_whoever_comes_first_and_no_news() {
    let (mut table, forger, user) = forger_and_user();
    let nobody = Origin { source: None, ..forger };
    for object in ["3", "4"] {
        table.report(&key(object), Report { origin: nobody, ..report(true, S) });
    }
    let (judgement, alarm) = table.report(&key("3"), Report { origin: user, ..report(true, 2 * S) });
    assert_eq!((judgement, alarm.unwrap().origin), (Judgement::Repeated, user));
    assert_eq!(table.report(&key("4"), Report { origin: forger, ..report(false, 2 * S) }).0, Judgement::Changed);
}

#[test]
fn what_is_raised_in_maintenance_is_kept_back_and_told_when_that_is_over() {
    let mut table = table();
    let said = |judgement: (Judgement, Option<&Alarm>)| judgement.0;
    // Known from before: its end is told also meanwhile.
    assert_eq!(said(table.report(&key("known"), report(true, S))), Judgement::New);
    assert_eq!(said(table.report(&key("known"), held(true, 2 * S))), Judgement::Repeated);
    assert_eq!(said(table.report(&key("known"), held(false, 3 * S))), Judgement::Changed);
    // Come and gone meanwhile: nobody hears of it.
    assert_eq!(said(table.report(&key("short"), held(true, 3 * S))), Judgement::Maintenance);
    assert_eq!(said(table.report(&key("short"), held(false, 4 * S))), Judgement::Maintenance);
    // Come to stay.
    assert_eq!(said(table.report(&key("long"), held(true, 4 * S))), Judgement::Maintenance);
    let marked = |table: &AlarmTable| {
        table.iter().filter(|alarm| alarm.maintenance).map(|alarm| alarm.key.object.clone()).collect::<Vec<_>>()
    };
    assert_eq!(marked(&table), ["long"]);
    assert!(table.release(|_| true).is_empty());
    // A restart goes on there.
    let mut table = AlarmTable::new(table.take_changed(), FlapPolicy::default(), 3);
    let told: Vec<String> = table.release(|_| false).into_iter().map(|alarm| alarm.key.object).collect();
    assert_eq!((told, marked(&table).len()), (vec!["long".to_owned()], 0));
    assert!(table.has_changes() && table.release(|_| false).is_empty());
}

#[test]
fn what_got_worse_in_maintenance_is_told_again_and_what_an_operator_ends_is_not() {
    let mut table = table();
    table.report(&key("known"), report(true, S));
    let worse = Report { severity: Severity::Critical, ..held(true, 2 * S) };
    assert_eq!(table.report(&key("known"), worse).0, Judgement::Maintenance);
    table.report(&key("new"), held(true, 2 * S));
    let ids: Vec<u64> = table.iter().map(|alarm| alarm.id).collect();
    assert!(table.clear(place(&table, ids[1]), "bob", 3 * S).is_none(), "nobody knew of it");
    let released = table.release(|_| false);
    assert_eq!(
        released.iter().map(|alarm| (alarm.id, alarm.severity)).collect::<Vec<_>>(),
        [(ids[0], Severity::Critical)]
    );
    table.report(&key("known"), held(false, 4 * S));
    table.report(&key("known"), report(true, 5 * S));
    table.report(&key("known"), Report { severity: Severity::Critical, ..held(true, 6 * S) });
    assert!(table.clear(place(&table, ids[0]), "bob", 7 * S).is_some(), "the outside knew of it as raised");
}

#[test]
fn what_flaps_in_maintenance_is_kept_back_when_it_settles_there() {
    let mut table = table();
    for at in 1..=9 {
        table.report(&key("3"), held(at % 2 == 1, at * S));
    }
    assert!(table.iter().all(|alarm| alarm.flapping));
    assert!(table.settle(200 * S, |_| true).is_empty());
    assert!(table.iter().all(|alarm| !alarm.flapping && alarm.maintenance), "raised");
    assert_eq!(table.release(|_| false).len(), 1);
}

#[test]
fn alarms_that_nobody_tells_of_expire_each_after_its_own_time() {
    let mut table = table();
    for (object, at) in [("1", 1), ("5", 1), ("9", 1)] {
        table.report(&key(object), report(true, at * S));
    }
    table.report(&key("9"), report(true, 8 * S));
    let after = |alarm: &Alarm| (alarm.key.object != "5").then_some(5 * S);
    assert!(table.expire(5 * S, after).is_empty());
    let expired = table.expire(6 * S, after);
    let (alarm, is_announced) = &expired[0];
    assert_eq!(
        (expired.len(), alarm.key.object.as_str(), alarm.cleared, alarm.expired, *is_announced),
        (1, "1", true, true, true)
    );
    assert_eq!((table.raised(), table.expire(7 * S, after).len()), (2, 0));
    let (judgement, alarm) = table.report(&key("1"), report(true, 7 * S));
    assert_eq!((judgement, alarm.unwrap().expired), (Judgement::Changed, false), "it is back");
    assert_eq!(table.expire(100 * S, after).len(), 2);
}

#[test]
fn an_acknowledgement_lasts_until_the_alarm_is_over_or_worse() {
    let mut table = table();
    let by = |table: &AlarmTable| table.iter().next().unwrap().acknowledged.as_ref().map(|it| it.by.clone());
    table.report(&key("3"), report(true, S));
    let id = table.iter().next().unwrap().id;
    let alice = Some("alice".to_owned());
    table.acknowledge(place(&table, id), alice.as_deref(), 2 * S);
    table.report(&key("3"), report(true, 3 * S));
    assert_eq!(by(&table), alice, "the same again");
    table.report(&key("3"), Report { severity: Severity::Critical, ..report(true, 4 * S) });
    assert_eq!(by(&table), None, "worse");
    table.acknowledge(place(&table, id), alice.as_deref(), 5 * S);
    table.acknowledge(place(&table, id), None, 5 * S);
    assert_eq!(by(&table), None, "taken back");
    table.acknowledge(place(&table, id), alice.as_deref(), 5 * S);
    table.report(&key("3"), report(false, 6 * S));
    assert_eq!(by(&table), None, "over");
    table.acknowledge(place(&table, id), alice.as_deref(), 7 * S);
    assert_eq!(by(&table), None, "only what is raised");
}

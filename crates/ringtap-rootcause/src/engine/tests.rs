//! What is announced when, of small networks.

use super::*;

/// `core` has two ways to `d1` and `d2`; behind `d1` are `a1` and `a2`, behind `d2` is `a3`; two feeds.
const NETWORK: &str = "
station = { attached = ['core'] }
node = [
    { name = 'core', addresses = ['10.0.0.1'] },
    { name = 'd1', addresses = ['10.0.0.2'], power = ['p'], card = [{ name = '1', entity = 9, ports = [2, 3] }] },
    { name = 'd2', addresses = ['10.0.0.3'], power = ['p'], management = 'out-of-band' },
    { name = 'a1', addresses = ['10.0.0.4'] },
    { name = 'a2', addresses = ['10.0.0.5'] },
    { name = 'a3', addresses = ['10.0.0.6'], management = 'out-of-band' },
]
link = [
    { ends = ['core:1', 'd1:1'] },
    { ends = ['core:2', 'd2:1'] },
    { ends = ['d1:2', 'a1:1'] },
    { ends = ['d1:3', 'a2:1'] },
    { ends = ['d2:2', 'a3:1'] },
    { ends = ['d1:4', 'd2:4'] },
]
adjacency = [
    { protocol = 'ospf', ends = ['core', 'd1'], link = 'core:1' },
    { protocol = 'ospf', ends = ['core', 'd2'], link = 'core:2' },
    { protocol = 'ospf', ends = ['d1', 'd2'], link = 'd1:4' },
    { protocol = 'bgp', ends = ['core', 'a1'] },
    { protocol = 'bgp', ends = ['core', 'a3'] },
]
power = [{ name = 'p' }]
";

pub(super) fn topology() -> Topology {
    crate::topology::file::read(NETWORK).unwrap()
}

fn engine() -> Engine {
    Engine::new(topology(), Settings::default())
}

pub(super) fn subject(node: &str, condition: &str, object: &str) -> Subject {
    Subject { resource: node.to_owned(), condition: condition.to_owned(), object: object.to_owned() }
}

struct Recorded(Vec<(u64, String)>);

/// Raises (or with `-` clears) `NODE/CONDITION/OBJECT` at milliseconds, then waits until `until`; gives what was announced.
fn run(engine: &mut Engine, events: &[(u64, &str)], until_ms: u64) -> Recorded {
    let mut told = Vec::new();
    let mut tell = |engine: &mut Engine| {
        let now = engine.state.now_ns / 1_000_000;
        for output in engine.take_outputs() {
            let text = match output {
                Output::Opened(it) => format!("opened {}", name(&it)),
                Output::Revised(it) => format!("revised {}", name(&it)),
                Output::Merged { incident, into } => format!("merged {incident} into {into}"),
                Output::Resolved(it) => format!("resolved {}", name(&it)),
                Output::Joined { .. } | Output::Storm { .. } | Output::Exhausted { .. } => continue,
            };
            told.push((now, text));
        }
    };
    let mut ids: Vec<String> = engine.state.alarms.values().map(|alarm| key(&alarm.subject)).collect();
    let known: Vec<u64> = engine.state.alarms.keys().copied().collect();
    for &(at_ms, event) in events {
        let (event, raises) = event.strip_prefix('-').map_or((event, true), |event| (event, false));
        let mut words = event.split('/');
        let mut word = || words.next().unwrap_or_default();
        let subject = subject(word(), word(), word());
        let name = key(&subject);
        let at = ids.iter().position(|id| *id == name).unwrap_or_else(|| {
            ids.push(name);
            ids.len() - 1
        });
        let id = known.get(at).copied().unwrap_or(1000 + at as u64);
        while let Some(timer) = engine.next_timer().filter(|&timer| timer <= at_ms * 1_000_000) {
            engine.advance(timer);
            tell(engine);
        }
        if raises {
            let is_event = subject.condition.ends_with("Start");
            engine.raise(id, &subject, is_event, at_ms * 1_000_000);
        } else {
            engine.clear(id, at_ms * 1_000_000);
        }
        tell(engine);
    }
    while let Some(timer) = engine.next_timer().filter(|&timer| timer <= until_ms * 1_000_000) {
        engine.advance(timer);
        tell(engine);
    }
    engine.advance(until_ms * 1_000_000);
    Recorded(told)
}

fn key(subject: &Subject) -> String {
    format!("{}/{}/{}", subject.resource, subject.condition, subject.object)
}

fn name(incident: &Incident) -> String {
    match &incident.root {
        Root::Class(elements) => elements.iter().map(|it| it.0.as_str()).collect::<Vec<_>>().join(" "),
        Root::Alarm { subject, .. } => format!("alarm {}", key(subject)),
        Root::Left { .. } => "left".to_owned(),
        Root::Nodes(nodes) => format!("nodes {}", nodes.iter().map(String::as_str).collect::<Vec<_>>().join(" ")),
    }
}

impl Recorded {
    fn texts(&self) -> Vec<&str> {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }
}

#[test]
fn both_ends_of_a_link_are_one_cause_and_decided_when_all_is_seen() {
    let mut engine = engine();
    let events = [
        (1000, "10.0.0.2/linkDown/4"),
        (1010, "10.0.0.3/linkDown/4"),
        (1100, "10.0.0.2/ospfNbrStateChange/10.0.0.3.0"),
        (1200, "d2/ospfNbrStateChange/10.0.0.2.0"),
    ];
    let told = run(&mut engine, &events, 10_000);
    assert_eq!(told.0, [(1700, "opened link:d1:4-d2:4 port:d1:4 port:d2:4".to_owned())]);
    let it = engine.incidents().values().next().unwrap();
    assert_eq!((it.members.len(), it.seen, it.expected, it.first_ns), (4, 4, 4, 1000 * 1_000_000));
    assert!(it.confidence > 900, "{it:?}");
}

#[test]
fn a_link_whose_one_end_was_lost_is_decided_late_and_what_comes_then_joins() {
    let mut engine = engine();
    let told = run(
        &mut engine,
        &[(1000, "d1/linkDown/4"), (1001, "d1/ospfNbrStateChange/10.0.0.3.0"), (8000, "d2/linkDown/4")],
        20_000,
    );
    assert_eq!(told.0, [(3000, "opened link:d1:4-d2:4 port:d1:4 port:d2:4".to_owned())]);
    assert_eq!(engine.incidents().values().next().unwrap().members.len(), 3);
}

#[test]
fn what_can_t_be_told_apart_is_one_class() {
    // a1 tells over the network it is cut off from: link, node and ports look the same.
    let mut engine = engine();
    let told = run(&mut engine, &[(0, "d1/linkDown/2"), (10, "core/bgpBackwardTransition/10.0.0.4")], 9000);
    assert_eq!(told.texts(), ["opened link:d1:2-a1:1 port:d1:2 port:a1:1 node:a1"]);
    // a3 tells by another way, and doesn't: it is dead.
    let mut engine = self::engine();
    let told = run(&mut engine, &[(0, "d2/linkDown/2"), (10, "core/bgpBackwardTransition/10.0.0.6")], 9000);
    assert_eq!(told.texts(), ["opened node:a3"]);
}

#[test]
fn later_evidence_revises_and_a_revision_is_told_once() {
    let mut engine = engine();
    let events = [
        (0, "core/linkDown/1"),
        (10, "core/ospfNbrStateChange/10.0.0.2.0"),
        // d2's port towards d1, and all of d1's adjacencies: it was the node. Its power would have killed d2.
        (4000, "d2/linkDown/4"),
        (4010, "d2/ospfNbrStateChange/10.0.0.2.0"),
        (4100, "core/bgpBackwardTransition/10.0.0.4"),
    ];
    let told = run(&mut engine, &events, 30_000);
    let texts = told.texts();
    assert!(texts[0].starts_with("opened link:core:1-d1:1"), "{texts:?}");
    assert_eq!(texts[1..], ["revised node:d1"], "{:?}", told.0);
    let it = engine.incidents().values().next().unwrap();
    assert_eq!((engine.incidents().len(), it.revisions, it.members.len()), (1, 1, 5));
}

#[test]
fn common_power_is_found_and_explains_restarts_after_it_is_resolved() {
    let mut engine = engine();
    let events = [
        (0, "core/linkDown/1"),
        (5, "core/linkDown/2"),
        (30, "a3/linkDown/1"),
        (100, "core/ospfNbrStateChange/10.0.0.2.0"),
        (100, "core/ospfNbrStateChange/10.0.0.3.0"),
        (200, "core/bgpBackwardTransition/10.0.0.4"),
        (200, "core/bgpBackwardTransition/10.0.0.6"),
        (210, "a3/bgpBackwardTransition/10.0.0.1"),
        (60_000, "-core/linkDown/1"),
        (60_000, "-core/linkDown/2"),
        (60_100, "-a3/linkDown/1"),
        (60_100, "d1/coldStart/"),
        (61_000, "-core/ospfNbrStateChange/10.0.0.2.0"),
        (61_000, "-core/ospfNbrStateChange/10.0.0.3.0"),
        (62_000, "-core/bgpBackwardTransition/10.0.0.4"),
        (62_000, "-core/bgpBackwardTransition/10.0.0.6"),
        (62_000, "-a3/bgpBackwardTransition/10.0.0.1"),
        (63_000, "d2/coldStart/"),
    ];
    let told = run(&mut engine, &events, 90_000);
    assert_eq!(told.texts(), ["opened power:p", "resolved power:p"], "{:?}", told.0);
    assert_eq!(engine.counts(), Counts { alarms: 0, held: 0, incidents: 0, transients: 0, untracked: 0 });
}

/// A node `e` whose power the file forgot.
fn with_forgotten_power() -> Engine {
    let more = NETWORK
        .replace("    { name = 'a1',", "    { name = 'e', addresses = ['10.0.0.7'] },\n    { name = 'a1',")
        .replace(
            "    { ends = ['d1:2', 'a1:1'] },",
            "    { ends = ['core:5', 'e:1'] },\n    { ends = ['d1:2', 'a1:1'] },",
        )
        .replace("adjacency = [", "adjacency = [\n    { protocol = 'bgp', ends = ['core', 'e'] },");
    Engine::new(crate::topology::file::read(&more).unwrap(), Settings::default())
}

const POWER_CUT: [(u64, &str); 6] = [
    (0, "core/linkDown/1"),
    (5, "core/linkDown/2"),
    (10, "core/linkDown/5"),
    (30, "a3/linkDown/1"),
    (100, "core/ospfNbrStateChange/10.0.0.2.0"),
    (100, "core/ospfNbrStateChange/10.0.0.3.0"),
];

#[test]
fn who_hangs_on_power_that_the_file_lacks_is_not_told_when_its_sessions_time_out() {
    let events = [&POWER_CUT[..], &[(70_000, "core/bgpBackwardTransition/10.0.0.7")]].concat();
    let told = run(&mut with_forgotten_power(), &events, 90_000);
    assert_eq!(told.texts(), ["opened power:p"], "{:?}", told.0);
}

#[test]
fn who_came_back_and_fails_for_itself_later_is_told_although_the_power_is_still_cut() {
    for dies_ms in [200_000, 7_200_000] {
        let later = [
            (60_000, "-core/linkDown/5"),
            (dies_ms, "core/linkDown/5"),
            (dies_ms + 10, "core/bgpBackwardTransition/10.0.0.7"),
        ];
        let events = [&POWER_CUT[..], &later].concat();
        let told = run(&mut with_forgotten_power(), &events, dies_ms + 30_000);
        let texts = told.texts();
        assert_eq!(texts[0], "opened power:p", "{texts:?}");
        assert!(
            texts[1..].iter().any(|text| text.starts_with("opened ") && text.ends_with("node:e")),
            "{dies_ms}: {texts:?}"
        );
    }
}

#[test]
fn what_is_cleared_while_held_is_never_told() {
    let mut engine = engine();
    let told = run(
        &mut engine,
        &[(0, "d1/linkDown/4"), (5, "d2/linkDown/4"), (300, "-d1/linkDown/4"), (310, "-d2/linkDown/4")],
        9000,
    );
    assert!(told.0.is_empty(), "{:?}", told.0);
    assert_eq!(engine.counts().transients, 2);
}

#[test]
fn two_faults_at_once_are_two_causes() {
    let mut engine = engine();
    let events = [
        (0, "d1/linkDown/4"),
        (5, "d2/linkDown/4"),
        (20, "d1/linkDown/3"),
        (100, "d1/ospfNbrStateChange/10.0.0.3.0"),
        (120, "d2/ospfNbrStateChange/10.0.0.2.0"),
    ];
    let told = run(&mut engine, &events, 9000);
    assert_eq!(
        told.texts(),
        ["opened link:d1:4-d2:4 port:d1:4 port:d2:4", "opened link:d1:3-a2:1 port:d1:3 port:a2:1 node:a2"]
    );
}

#[test]
fn what_stays_when_its_cause_is_gone_is_told() {
    let mut engine = engine();
    let events = [
        (0, "d2/linkDown/2"),
        (5, "a3/linkDown/1"),
        (10, "core/bgpBackwardTransition/10.0.0.6"),
        (12, "a3/bgpBackwardTransition/10.0.0.1"),
        (20_000, "-d2/linkDown/2"),
        (20_000, "-a3/linkDown/1"),
    ];
    let told = run(&mut engine, &events, 200_000);
    let link = "link:d2:2-a3:1 port:d2:2 port:a3:1";
    let expected = [
        (512, format!("opened {link}")),
        (80_000, "opened session:bgp:core-a3 process:a3/bgp".to_owned()),
        (80_000, format!("resolved {link}")),
    ];
    assert_eq!(told.0, expected);
    // Of one end alone the word is likelier lost.
    let mut engine = self::engine();
    let told = run(&mut engine, &[&events[..], &[(20_500, "-a3/bgpBackwardTransition/10.0.0.1")]].concat(), 200_000);
    assert_eq!(told.texts()[1..], [&*format!("resolved {link}"), "opened left"]);
}

#[test]
fn what_nothing_explains_stands_for_itself_and_objects_of_a_node_together() {
    let mut engine = engine();
    let events = [
        (0, "192.0.2.99/linkDown/7"),
        (1, "d1/linkDown/77"),
        (2, "d2/bgpBackwardTransition/192.0.2.99"),
        (3, "x/syslog:app/a"),
        (4, "x/syslog:app/b"),
        (5, "x/syslog:app/c"),
        (5000, "x/syslog:app/d"),
    ];
    let told = run(&mut engine, &events, 9000);
    let expected = ["opened nodes 192.0.2.99 d2", "opened alarm d1/linkDown/77", "opened nodes x"];
    assert_eq!(told.texts(), expected);
    assert!(told.0.iter().all(|(at, _)| *at <= 2003), "{:?}", told.0);
    assert_eq!(engine.incidents().values().map(|it| it.members.len()).sum::<usize>(), 7);
}

#[test]
fn a_restart_tells_nothing_twice_and_goes_on() {
    let events = [
        (0, "core/linkDown/1"),
        (10, "core/ospfNbrStateChange/10.0.0.2.0"),
        (3000, "d1/risingAlarm/1"),
        (3500, "d1/linkDown/3"),
        (4000, "d2/linkDown/4"),
        (4010, "d2/ospfNbrStateChange/10.0.0.2.0"),
        (30_000, "-core/linkDown/1"),
    ];
    let whole = run(&mut engine(), &events, 200_000);
    for cut in 0..events.len() {
        let mut first = engine();
        let mut told = run(&mut first, &events[..cut], events[cut].0.saturating_sub(1)).0;
        let text = serde_json::to_string(first.state()).unwrap();
        let mut second = Engine::restore(topology(), Settings::default(), serde_json::from_str(&text).unwrap());
        assert_eq!(second.predicted, first.predicted, "cut {cut}");
        told.extend(run(&mut second, &events[cut..], 200_000).0);
        assert_eq!(told, whole.0, "cut {cut}");
    }
}

#[test]
fn a_full_engine_says_so_and_holds_what_it_has() {
    let mut engine = Engine::new(topology(), Settings { most_alarms: 2, ..Settings::default() });
    let raise = |engine: &mut Engine, id: u64| engine.raise(id, &subject("x", "c", &id.to_string()), false, 5);
    assert!(raise(&mut engine, 1) && raise(&mut engine, 2) && !raise(&mut engine, 3) && raise(&mut engine, 2));
    assert_eq!((engine.counts().alarms, engine.counts().untracked), (2, 1));
}

#[test]
fn a_bound_of_work_that_is_reached_is_said_once_and_nothing_is_dropped() {
    let mut engine = Engine::new(topology(), Settings { most_work: 16, ..Settings::default() });
    let events = [(1000, "d1/linkDown/4"), (1010, "d2/linkDown/4"), (1100, "d1/ospfNbrStateChange/10.0.0.3.0")];
    for (at, event) in events {
        let parts: Vec<&str> = event.split('/').collect();
        engine.raise(at, &subject(parts[0], parts[1], parts[2]), false, at * 1_000_000);
    }
    engine.advance(10_000 * 1_000_000);
    let outputs = engine.take_outputs();
    let exhausted = outputs.iter().filter(|output| matches!(output, Output::Exhausted { episode: 1 })).count();
    let members: usize = engine.incidents().values().map(|it| it.members.len()).sum();
    assert_eq!((exhausted, members, engine.counts().held), (1, 3, 0), "{outputs:?}");
}

#[test]
fn a_flood_is_looked_at_a_few_times_however_large_it_is() {
    const COUNT: u64 = 20_000;
    let flood = |node: fn(u64) -> String| {
        let mut engine = engine();
        for id in 1..=COUNT {
            let subject = subject(&node(id), "syslog:app", &id.to_string());
            assert!(engine.raise(id, &subject, false, id * 50_000));
        }
        assert_eq!(engine.counts().held as u64, COUNT);
        engine.advance(10 * SECOND_NS);
        let looked = engine.index.looked.get();
        assert!(looked <= 4 * COUNT, "{looked} for {COUNT} alarms");
        assert_eq!(engine.counts().held, 0);
        engine
    };
    let mut many = flood(|id| format!("node-{id}"));
    assert_eq!(many.counts().incidents as u64, COUNT);
    let mut one = flood(|_| "node".to_owned());
    assert_eq!(one.counts().incidents, 1);
    for engine in [&mut many, &mut one] {
        engine.index.looked.set(0);
        for id in 1..=COUNT {
            engine.clear(id, 20 * SECOND_NS);
        }
        let looked = engine.index.looked.get();
        assert!(looked <= 2 * COUNT, "{looked} for {COUNT} clears");
        assert_eq!((engine.counts().incidents, engine.counts().alarms), (0, 0));
    }
}

#[test]
fn what_anybody_may_have_said_teaches_nothing() {
    let learnt = |doubts: bool| {
        let mut engine = engine();
        engine.advance(1_000_000_000);
        let said = [("a1", "10.0.0.5"), ("a2", "10.0.0.4")];
        for (id, (node, neighbour)) in (1..).zip(said) {
            engine.raise(id, &subject(node, "bgpBackwardTransition", neighbour), false, 1_000_000_000);
            if doubts {
                engine.doubt(id);
            }
        }
        engine.advance(30_000_000_000);
        engine.state.learnt.len()
    };
    assert!(learnt(false) > 0);
    assert_eq!(learnt(true), 0);
}

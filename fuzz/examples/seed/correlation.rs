//! Owns: the seeds of the correlation's targets: rules, the bytes of automata, states with events, messages of sensors.

use ringtap_datagram::{Action, Alert, Direction, Ends, Heartbeat, Key, MAX_LEN, Message, Origin, Rule};
use ringtap_sigma::{Automaton, Clock, Identity, Mark, Matcher, Matches, Row, State, Value};

use crate::{Seeds, sigma};

/// Rules by the file, and each by itself.
pub fn rules() -> Seeds {
    let each = sigma::KINDS.split("---\n").enumerate();
    let mut seeds: Seeds = each.map(|(number, text)| (format!("rule-{number:02}"), text.into())).collect();
    let pairs = "title: D\nname: d\nlogsource: {product: p}\ndetection:\n    s:\n        f|contains|all: [a, 'b*c']\n        g|re|i: '^x.y'\n        h|cidr: 192.0.2.0/24\n        i|gte: 5\n    t: [word, 'other ?']\n    condition: 1 of s* or not t\n---\ntitle: C\ncorrelation:\n    type: value_count\n    rules: d\n    group-by: [f, g]\n    timespan: 5m\n    condition: {gte: 3, field: i}\n";
    seeds.push(("modifiers".to_owned(), pairs.into()));
    seeds
}

/// What stands before the fingerprint.
pub fn automata() -> Seeds {
    let of = |text: &str| {
        let mut bytes = sigma::automaton(text).encode();
        bytes.truncate(bytes.len() - 32);
        bytes
    };
    let modifiers = rules().pop().map(|(_, text)| String::from_utf8(text).expect("text")).expect("a seed");
    vec![("kinds".to_owned(), of(sigma::KINDS)), ("modifiers".to_owned(), of(&modifiers))]
}

/// For each rule a state that has seen some events, and events to come.
pub fn steps() -> Seeds {
    let automaton = sigma::automaton(sigma::KINDS);
    let fillings = fillings(&automaton);
    let rules = automaton.rules().iter();
    rules
        .map(|rule| {
            let of: Vec<_> = fillings.iter().filter(|filling| filling.rule == rule.number).collect();
            let (mut state, mut out) = (State::new(rule), Vec::new());
            for filling in &of[..of.len() / 2] {
                state.step(rule, &filling.key, Some(filling), filling.mark.time_ns - 2, &mut out);
            }
            let mut bytes = Vec::new();
            state.encode(&mut bytes);
            let mut seed = vec![rule.number as u8];
            add(&mut seed, &bytes);
            for filling in &of[of.len() / 2..] {
                let mut bytes = Vec::new();
                filling.encode(&mut bytes);
                add(&mut seed, &bytes);
            }
            (format!("rule-{:02}", rule.number), seed)
        })
        .collect()
}

/// An alert of each IP version and a heartbeat: sealed, without the seal, and as a line, behind the byte that says which.
pub fn messages() -> Seeds {
    let key = Key::new(7, b"a secret of ours").expect("a good key");
    let clock = ringtap_datagram::Clock::Host;
    let origin = Origin { sensor: "north".parse().expect("a name"), boot_id: [9; 16], clock, epoch: 3 };
    let alert = |ends, direction| {
        Message::Alert(Alert {
            origin,
            sequence: 5,
            time_ns: 1_700_000_000_000_000_000,
            built_ns: 1_700_000_000_000_050_000,
            error_ns: Some(250_000),
            rule: Rule { gid: 1, sid: 77, rev: 1 },
            severity: 1,
            action: Action::Allowed,
            ends,
            direction,
            community: Some([7; 20]),
        })
    };
    let ends = |source: &str, destination: &str| {
        let address = |text: &str| text.parse().expect("an address");
        Some(Ends { source: address(source), destination: address(destination), protocol: 6, ports: (40000, 80) })
    };
    let (horizon_ns, sent_ns) = (1_700_000_000_050_000_000, 1_700_000_000_055_000_000);
    let named = [
        ("v4", alert(ends("192.0.2.1", "198.51.100.7"), Some(Direction::ToServer))),
        ("v6", alert(ends("2001:db8::1", "2001:db8::2"), None)),
        ("no-ip", alert(None, None)),
        ("heartbeat", Message::Heartbeat(Heartbeat { origin, last_sequence: 5, horizon_ns, sent_ns, error_ns: None })),
    ];
    let forms = |(name, message): &(&str, Message)| {
        let mut payload = [0; MAX_LEN];
        let len = message.encode(&key, &mut payload).expect("room for any");
        let mut line = vec![2];
        message.write_line(Some(&key), &mut line);
        let (sealed, body) = ([&[0], &payload[..len]].concat(), [&[1], &payload[..len - 16]].concat());
        [("sealed", sealed), ("body", body), ("line", line)].map(|(form, bytes)| (format!("{name}-{form}"), bytes))
    };
    named.iter().flat_map(forms).collect()
}

/// Lines of each format, behind the byte that says how they are understood.
pub fn events() -> Seeds {
    [
        ("alert", 0x80, r#"{"timestamp":"2026-01-31T12:00:00.5+0100","event_type":"alert","host":"s1","src_ip":"::ffff:192.0.2.1","src_port":5,"dest_ip":"2001:DB8::1","kind":"a","user":"x","alert":{"signature":"y","signature_id":7}}"#),
        ("alarm", 0x80, r#"{"resource":"192.0.2.1","condition":"linkDown","changed_ns":1642982400000000001,"object":"3","event_type":"communicationsAlarm"}"#),
        ("json", 0x80, r#"{"@timestamp":1642982400.25,"sensor":"s2","kind":"b","user":["x",2.5,null],"source.ip":"192.0.2.1"}"#),
    ]
    .map(|(name, mode, line)| (name.to_owned(), [&[mode], line.as_bytes()].concat()))
    .into()
}

fn add(seed: &mut Vec<u8>, part: &[u8]) {
    seed.extend((part.len() as u16).to_be_bytes());
    seed.extend(part);
}

fn fillings(automaton: &Automaton) -> Vec<ringtap_sigma::Filling> {
    let (mut matcher, scope) = (Matcher::new(automaton), automaton.scope(|_| true));
    let mut all = Vec::new();
    for (sequence, kind) in ["a", "b", "a", "c", "b", "a", "c"].into_iter().enumerate() {
        let value = |name: &String| match name.as_str() {
            "kind" => Value::Text(kind),
            _ => Value::Text("x"),
        };
        let values: Vec<Value<'_>> = automaton.fields().iter().map(value).collect();
        let identity = Identity { sensor: 1, epoch: 1, sequence: sequence as u64 };
        let mark = Mark { time_ns: 1000 + sequence as i64, identity, clock: Clock { domain: 1, error_us: Some(1) } };
        let mut matches = Matches::default();
        matcher.matches(automaton, &scope, &Row { values: &values, message: "" }, mark, &mut matches);
        all.extend_from_slice(matches.fillings());
    }
    all
}

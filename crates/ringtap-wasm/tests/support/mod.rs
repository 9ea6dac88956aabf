//! What the tests share: a storm of alarms, and a host that keeps states as bytes, as an engine does.
#![allow(dead_code)] // Each test file uses its part.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ringtap_datagram::{Action, Alert, Clock, Direction, Ends, Heartbeat, Message, Origin, Rule};
use ringtap_wasm::frames::{Frames, Kind, frames};
use ringtap_wasm::{Call, Host};

pub const SECOND: i64 = 1_000_000_000;
pub const START: i64 = 1_700_000_000 * SECOND;
/// How far out of order events come.
pub const DISORDER: i64 = 2 * SECOND;
pub const RULES: &str = include_str!("../vectors/storm.yml");
pub const LEVELS: u8 = 3;
/// Addresses that the vectors' alarms come from.
pub const SOURCES: u32 = 3;

/// A record as a broker has it.
#[derive(Clone, Debug)]
pub struct Record {
    pub sensor: &'static str,
    pub received_ns: i64,
    pub value: String,
}

fn origin(sensor: &str, boot: u8) -> Origin {
    Origin { sensor: sensor.parse().expect("a name"), boot_id: [boot; 16], clock: Clock::Host, epoch: 5 }
}

fn line(message: &Message) -> String {
    let mut line = Vec::new();
    message.write_line(None, &mut line);
    String::from_utf8(line).expect("JSON").trim_end().to_owned()
}

/// Every so many alarms of a sensor one is lost on the way.
const LOST: u64 = 37;

/// Alarms of two sensors with heartbeats, and of one that sends plain lines, some of them equal.
pub fn storm(events: usize) -> Vec<Record> {
    storm_and_end(events, SOURCES).0
}

/// A storm of so many addresses, and records of the next day, which bring time past all of its windows.
pub fn storm_and_end(events: usize, sources: u32) -> (Vec<Record>, Vec<Record>) {
    let mut random = fastrand::Rng::with_seed(26);
    let (mut now, mut sequences) = (START, [0, 0]);
    let mut records = Vec::new();
    for number in 0..events {
        now += [0, 200_000_000, SECOND, 3 * SECOND][random.usize(..4)];
        let time_ns = now - random.i64(0..20) * 100_000_000;
        let (sid, source, port) = (random.u32(1..=3), random.u32(1..=sources), random.u16(80..84));
        let source = Ipv4Addr::from_bits(Ipv4Addr::new(192, 0, 2, 0).to_bits() + source);
        let received_ns = now + 5_000_000;
        match random.usize(..3) {
            2 => {
                let value = format!(
                    r#"{{"time":{time_ns},"sensor":"web","alert":{{"signature_id":{sid}}},"src_ip":"{source}","dest_port":{port}}}"#
                );
                records.push(Record { sensor: "web", received_ns, value });
            }
            which => {
                sequences[which] += 1;
                let sensor = ["north", "south"][which];
                let alert = Alert {
                    origin: origin(sensor, which as u8),
                    sequence: sequences[which],
                    time_ns: time_ns as u64,
                    built_ns: now as u64 + 1000,
                    error_ns: Some(1000),
                    rule: Rule { gid: 1, sid, rev: 1 },
                    severity: 1,
                    action: Action::Allowed,
                    ends: Some(Ends {
                        source: source.into(),
                        destination: [198, 51, 100, 7].into(),
                        protocol: 6,
                        ports: (40_000, port),
                    }),
                    direction: Some(Direction::ToServer),
                    community: None,
                };
                if sequences[which] % LOST != 0 {
                    records.push(Record { sensor, received_ns, value: line(&Message::Alert(alert)) });
                }
            }
        }
        if number % 10 == 9 {
            records.extend([0, 1].map(|which| beat(which, sequences[which], now)));
        }
    }
    let later = now + 86_400 * SECOND;
    let mut end = [0, 1].map(|which| beat(which, sequences[which], later)).to_vec();
    let value = format!(r#"{{"time":{later},"sensor":"web","alert":{{"signature_id":99}}}}"#);
    end.push(Record { sensor: "web", received_ns: later + 5_000_000, value });
    (records, end)
}

fn beat(which: usize, last_sequence: u64, now: i64) -> Record {
    let sensor = ["north", "south"][which];
    let beat = Heartbeat {
        origin: origin(sensor, which as u8),
        last_sequence,
        horizon_ns: (now - DISORDER) as u64,
        sent_ns: now as u64 + 2000,
        error_ns: Some(1000),
    };
    Record { sensor, received_ns: now + 5_000_000, value: line(&Message::Heartbeat(beat)) }
}

/// A configuration with these rules, from a time on.
pub fn configuration(from_ns: Option<i64>, rules: &str) -> String {
    let mut record = serde_json::json!({
        "rules": {"storm.yml": rules},
        "sensors": {"north": null, "south": null, "web": DISORDER},
    });
    if let Some(from_ns) = from_ns {
        record["from_ns"] = from_ns.into();
    }
    record.to_string()
}

/// Lets an operator of its own do each level, as an engine does.
#[derive(Default)]
pub struct Engine {
    pub host: Host,
    /// What was given to be kept, by key.
    states: BTreeMap<Vec<u8>, Vec<u8>>,
    /// By level.
    timers: Vec<BTreeSet<(i64, Vec<u8>)>>,
    watermarks: Vec<i64>,
    /// How often a state was wanted that was stored.
    pub wanted: usize,
    pub lines: Vec<String>,
    pub asides: Vec<String>,
}

impl Engine {
    pub fn new(configuration: &str) -> Self {
        let levels = usize::from(LEVELS);
        let mut this =
            Self { timers: vec![BTreeSet::new(); levels], watermarks: vec![i64::MIN; levels], ..Self::default() };
        this.configure(configuration);
        this
    }

    pub fn configure(&mut self, configuration: &str) {
        let answer = self.call(Call::Configure { levels: LEVELS }, configuration.as_bytes());
        let names: Vec<Vec<u8>> = of(&answer, Kind::Sensor);
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        self.call(Call::WaitFor, &request(&names));
    }

    pub fn call(&mut self, call: Call, request: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut answer = Frames::default();
        self.host.answer(call, request, &mut answer);
        let answer: Vec<_> = frames(answer.bytes()).map(|(kind, bytes)| (kind, bytes.to_vec())).collect();
        let failed: Vec<Vec<u8>> = of(&answer, Kind::Failed);
        assert!(failed.is_empty(), "{}", String::from_utf8_lossy(&failed[0]));
        answer
    }

    pub fn take(&mut self, record: &Record) {
        let intake = |is_given| Call::Intake { received_ns: record.received_ns, is_given };
        let (sensor, value) = (record.sensor.as_bytes(), record.value.as_bytes());
        let mut answer = self.call(intake(false), &request(&[sensor, &[], value]));
        if answer.first().is_some_and(|(kind, _)| *kind == Kind::Wanted as u8) {
            assert_eq!(answer.len(), 1, "nothing was done");
            let stored = self.states.get(sensor).cloned().unwrap_or_default();
            answer = self.call(intake(true), &request(&[sensor, &stored, value]));
        }
        for kept in of(&answer, Kind::State) {
            assert!(kept.is_empty() && self.states.remove(sensor).is_some(), "what was stored is gone");
        }
        self.store(&answer);
        let watermark = of(&answer, Kind::Watermark).pop();
        self.follow(answer);
        if let Some(watermark) = watermark {
            self.advance(i64::from_le_bytes(watermark.try_into().expect("a time")));
        }
    }

    pub fn advance(&mut self, watermark: i64) {
        for level in 0..self.timers.len() {
            self.watermarks[level] = watermark;
            while let Some((_, key)) = self.timers[level].first().filter(|timer| timer.0 <= watermark).cloned() {
                self.step(level, &key, &[]);
            }
        }
    }

    /// Whether no state of a rule is left; keys of these are longer than any sensor's name here.
    pub fn is_empty(&self) -> bool {
        self.states.keys().all(|key| key.len() < 16) && self.timers.iter().all(BTreeSet::is_empty)
    }

    /// Goes on in another process, from what this one was given to keep.
    pub fn restart(&mut self, room: u32, configuration: &str) {
        loop {
            let kept = self.call(Call::Keep, &[]);
            if kept.is_empty() {
                break;
            }
            self.store(&kept);
        }
        let snapshot = of(&self.call(Call::Snapshot { watermark: i64::MIN }, &[]), Kind::State).remove(0);
        self.host = Host::default();
        self.call(Call::Room { bytes: room }, &[7; 16]);
        self.call(Call::Restore, &snapshot);
        self.configure(configuration);
    }

    fn store(&mut self, answer: &[(u8, Vec<u8>)]) {
        for stored in of(answer, Kind::Stored) {
            let (key, kept) = keyed(&stored);
            self.states.insert(key.to_vec(), kept.to_vec());
        }
    }

    fn step(&mut self, level: usize, key: &[u8], filling: &[u8]) {
        let watermark = self.watermarks[level];
        let step = |is_given| Call::Step { watermark, is_given };
        let mut answer = self.call(step(false), &request(&[key, &[], filling]));
        if answer.first().is_some_and(|(kind, _)| *kind == Kind::Wanted as u8) {
            assert_eq!(answer.len(), 1, "nothing was done");
            let stored = self.states.get(key).cloned().unwrap_or_default();
            self.wanted += usize::from(!stored.is_empty());
            answer = self.call(step(true), &request(&[key, &stored, filling]));
        }
        for timer in of(&answer, Kind::Timer) {
            let [before, after] = [0, 8].map(|at| i64::from_le_bytes(timer[at..at + 8].try_into().expect("a time")));
            let was = self.timers[level].remove(&(before, key.to_vec()));
            assert_eq!(was, before != i64::MAX, "what the timer was");
            if after != i64::MAX {
                self.timers[level].insert((after, key.to_vec()));
            }
        }
        for kept in of(&answer, Kind::State) {
            assert!(kept.is_empty() && self.states.remove(key).is_some(), "what was stored is gone");
        }
        self.store(&answer);
        self.follow(answer);
    }

    fn follow(&mut self, answer: Vec<(u8, Vec<u8>)>) {
        for (kind, bytes) in answer {
            let text = || String::from_utf8(bytes.clone()).expect("UTF-8");
            if kind == Kind::Line as u8 {
                self.lines.push(text());
            } else if kind == Kind::Aside as u8 {
                self.asides.push(text());
            } else if kind == Kind::Missing as u8 {
                self.call(Call::Missing, &bytes);
            } else if kind == Kind::Filling as u8 {
                let (key, filling) = keyed(&bytes[1..]);
                self.step(bytes[0].into(), key, filling);
            }
        }
    }
}

/// A key and what belongs to it.
fn keyed(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (len, rest) = bytes.split_first_chunk().expect("a length");
    rest.split_at(u32::from_le_bytes(*len) as usize)
}

pub fn of(answer: &[(u8, Vec<u8>)], wanted: Kind) -> Vec<Vec<u8>> {
    answer.iter().filter(|(kind, _)| *kind == wanted as u8).map(|(_, bytes)| bytes.clone()).collect()
}

pub fn request(parts: &[&[u8]]) -> Vec<u8> {
    let one = |part: &&[u8]| [&(part.len() as u32).to_le_bytes()[..], part].concat();
    parts.iter().flat_map(one).collect()
}

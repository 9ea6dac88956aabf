//! How many datagrams a second a correlator takes on one core, and in how much memory: two registered sensors' alarms and
//! heartbeats, from the bytes of a datagram to what is told, with log and store where a folder is named.
//!
//!     cargo run --release -p ringtap-correlator --example core_rate -- RULES DATAGRAMS ADDRESSES RATE MIB [FOLDER]
//!
//! Counted is the time that this thread was on a processor, from a datagram's bytes on: its seal is checked, it is decoded,
//! written to the log, waits in each of its keys for the watermark (of heartbeats, 100 ms of event time apart), steps
//! their states; every 100 ms log and store are put on the disk and what was found is taken. Not counted: making the
//! datagrams, the socket (a thread of its own in a correlator).
//!
//! Alarms come from ADDRESSES sources by chance, each with a victim of its own; a third are scans, a third exploits, a
//! third match nothing. One in a thousand is of another kind, so that attacks go on and incidents open. `RATE` is alarms
//! per second of event time, `MIB` the bound of all keys' memory.

use std::path::Path;
use std::sync::Arc;

use ringtap_correlator::correlator::{Correlator, Settings};
use ringtap_correlator::engine::Bounds;
use ringtap_correlator::input::Came;
use ringtap_correlator::input::keyring::{Keyring, Sensor, Texts};
use ringtap_correlator::rules::Rules;
use ringtap_correlator::sensors::Now;
use ringtap_datagram::{
    Action, Alert, Clock, Direction, Ends, Heartbeat, Key, MAX_LEN, Message, Origin, Rule, SensorId,
};

/// What sensors say, and the class of it.
const SIGNATURES: [(&str, &str); 4] = [
    ("ET SCAN x", "Misc activity"),
    ("ET INFO nothing of it", "Misc activity"),
    ("ET EXPLOIT y", "Misc activity"),
    ("ET MALWARE CnC z", "Misc activity"),
];
/// When the first alarm was, ns since 1970.
const BEGAN_NS: u64 = 1_700_000_000_000_000_000;
/// Between two heartbeats, and two writes to the disk, ns of event time.
const BEAT_NS: u64 = 100_000_000;
/// Bytes of the log beyond which its oldest segments go.
const LOG_BYTES: u64 = 2 << 30;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rules, datagrams, addresses, rate, mib, folder @ ..] = arguments.as_slice() else {
        eprintln!("core_rate: RULES DATAGRAMS ADDRESSES RATE MIB [FOLDER]");
        std::process::exit(2);
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let (datagrams, addresses, rate) = (number(datagrams), number(addresses).clamp(1, 1 << 24), number(rate).max(1));
    let mut feed = Feed::new(addresses, rate);
    let keyring = feed.keyring();
    let rules = Rules::read(Path::new(rules)).expect("rules");
    let settings = Settings {
        bounds: Bounds { bytes: (number(mib) as usize) << 20 },
        early: true,
        sensors: keyring.registered().into_iter().map(|(sensor, _)| sensor).collect(),
        log_bytes: LOG_BYTES,
        ..Settings::default()
    };
    let correlations = rules.automaton.rules().len();
    let open = Correlator::open(rules.automaton, settings, folder.first().map(Path::new), feed.now());
    let mut run = Run { correlator: open.expect("a correlator"), keyring, told: 0, seconds: 0.0, most: 0 };
    println!("{correlations} correlations, {} detections", run.correlator.automaton().detections().len());
    let (mut done, mut quarter) = (0, 1);
    let mut before = (0, 0.0);
    while done < datagrams {
        feed.next(datagrams - done);
        done += run.take(&feed);
        if done * 4 >= datagrams * quarter {
            quarter += 1;
            let ns = (run.seconds - before.1) * 1e9 / (done - before.0) as f64;
            println!("up to {done}: {ns:.0} ns a datagram, {:.0} datagrams/s; {}", 1e9 / ns, run.memory());
            before = (done, run.seconds);
        }
    }
    run.say(done);
}

/// A correlator at work.
struct Run {
    correlator: Correlator,
    keyring: Keyring,
    told: usize,
    seconds: f64,
    most: usize,
}

impl Run {
    /// Takes datagrams of a tenth of a second, and how many alarms were among them.
    fn take(&mut self, feed: &Feed) -> u64 {
        let now = feed.now();
        let began = on_cpu();
        let mut alarms = 0;
        let mut rest = feed.datagrams.as_slice();
        while let [len, after @ ..] = rest {
            let (datagram, after) = after.split_at(usize::from(*len));
            rest = after;
            match self.keyring.datagram(datagram).expect("of a registered sensor") {
                Came::Alarm { sensor, event, built_ns } => {
                    alarms += 1;
                    self.correlator.alarm(sensor, event, built_ns, now);
                }
                Came::Beat { sensor, beat } => self.correlator.beat(sensor, &beat, now),
                Came::Event(_) | Came::Read { .. } | Came::BeginsAgain { .. } | Came::Current(_) => {
                    unreachable!("no datagram is one")
                }
            }
        }
        self.told += self.correlator.take_told().len();
        self.correlator.sync().expect("a disk");
        self.seconds += on_cpu() - began;
        self.most = self.most.max(self.correlator.engine().bytes());
        alarms
    }

    fn memory(&self) -> String {
        let engine = self.correlator.engine();
        let rss = status("VmRSS:") >> 10;
        format!("{} keys, {} MiB by its own count, RSS {rss} MiB", engine.keys(), engine.bytes() >> 20)
    }

    fn say(&self, done: u64) {
        let (counts, engine) = (self.correlator.counts(), self.correlator.engine());
        let sensors = self.correlator.registered().map(|(_, state)| state.lost).sum::<u64>();
        assert_eq!((counts.events, sensors, counts.pushed), (done, 0, 0), "all are in, in time");
        let ns = self.seconds * 1e9 / done as f64;
        println!(
            "all {done}: {ns:.0} ns a datagram, {:.0} datagrams/s; at most {} MiB by its own count, RSS {} MiB; {} incidents, {} told, {} keys forgotten; {} matched, log {} MiB",
            1e9 / ns,
            self.most >> 20,
            status("VmHWM:") >> 10,
            counts.incidents.iter().sum::<u64>(),
            self.told,
            engine.counts().forgotten.iter().sum::<u64>(),
            engine.counts().matched,
            self.correlator.log().map_or(0, |(bytes, ..)| bytes >> 20),
        );
    }
}

/// Two sensors.
struct Feed {
    addresses: u64,
    rate: u64,
    sensors: [(SensorId, Key); 2],
    sent: u64,
    /// A length, then so many bytes, again and again.
    datagrams: Vec<u8>,
}

impl Feed {
    fn new(addresses: u64, rate: u64) -> Self {
        let sensor = |name: &str, id: u32| (name.parse().expect("a name"), Key::new(id, &[7; 32]).expect("a key"));
        let sensors = [sensor("north", 1), sensor("south", 2)];
        Self { addresses, rate, sensors, sent: 0, datagrams: Vec::new() }
    }

    fn keyring(&self) -> Keyring {
        let text = |(sid, (signature, class)): (u32, &(&str, &str))| ((1, sid), ((*signature).into(), (*class).into()));
        let texts: Arc<Texts> = Arc::new((1..).zip(&SIGNATURES).map(text).collect());
        let sensor =
            |(id, key): &(SensorId, Key)| Sensor { id: *id, keys: vec![key.clone()], texts: Arc::clone(&texts) };
        Keyring::new(self.sensors.iter().map(sensor).collect())
    }

    /// When the last alarm was.
    fn time_ns(&self) -> u64 {
        BEGAN_NS + (u128::from(self.sent) * 1_000_000_000 / u128::from(self.rate)) as u64
    }

    fn now(&self) -> Now {
        let ns = self.time_ns() as i64;
        Now { wall_ns: ns + 1_000_000, monotonic_ns: ns }
    }

    /// Alarms up to the next heartbeats, and these.
    fn next(&mut self, most: u64) {
        self.datagrams.clear();
        let until_ns = self.time_ns() + BEAT_NS;
        let mut left = most;
        while left > 0 && self.time_ns() < until_ns {
            self.sent += 1;
            left -= 1;
            self.put(&Message::Alert(self.alert()), (self.sent % 2) as usize);
        }
        for sensor in 0..2 {
            let last_sequence = (self.sent + sensor as u64) / 2;
            let (horizon_ns, sent_ns) = (self.time_ns(), self.time_ns() + 1000);
            let beat = Heartbeat { origin: self.origin(sensor), last_sequence, horizon_ns, sent_ns, error_ns: Some(0) };
            self.put(&Message::Heartbeat(beat), sensor);
        }
    }

    fn put(&mut self, message: &Message, sensor: usize) {
        let mut bytes = [0; MAX_LEN];
        let len = message.encode(&self.sensors[sensor].1, &mut bytes).expect("room");
        self.datagrams.push(len as u8);
        self.datagrams.extend_from_slice(&bytes[..len]);
    }

    fn origin(&self, sensor: usize) -> Origin {
        Origin { sensor: self.sensors[sensor].0, boot_id: [1; 16], clock: Clock::Host, epoch: 1 }
    }

    fn alert(&self) -> Alert {
        let (at, time_ns) = (self.sent, self.time_ns());
        let address = mixed(at) % self.addresses;
        let kind = (mixed(address) % 3 + 2 * u64::from(at.is_multiple_of(1000))) % 4;
        let ip = |net: u32| std::net::Ipv4Addr::from(net << 24 | address as u32).into();
        let ends = Ends { source: ip(10), destination: ip(11), protocol: 6, ports: (40_000, 80) };
        Alert {
            origin: self.origin((at % 2) as usize),
            sequence: at.div_ceil(2),
            time_ns,
            built_ns: time_ns + 1000,
            error_ns: Some(0),
            rule: Rule { gid: 1, sid: 1 + kind as u32, rev: 1 },
            severity: 2,
            action: Action::Allowed,
            ends: Some(ends),
            direction: Some(Direction::ToServer),
            community: Some([address as u8; 20]),
        }
    }
}

/// A number that looks like any other.
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Seconds that this thread was on a processor: others may want it as well.
fn on_cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("/proc");
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).expect("a number") / 1e9
}

/// A line of this process's state, KiB.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

//! A sensor tells correlators: datagrams by a plain socket, lines to a Unix and a TCP socket, in a process of its own and without
//! root.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use ringtap::clock::{self, SystemClock};
use ringtap::receiver::Backend;
use ringtap::source::AnySource;
use ringtap::source::given::give;
use ringtap::testing::{Arrival, Ending, MemorySource, Script};
use ringtap_datagram::datagram::Sealed;
use ringtap_datagram::line::Line;
use ringtap_datagram::{Alert, Clock, Heartbeat, Key, Message, Refused};
use ringtap_run::live::Live;
use ringtap_run::waiting::{How, Waiting};
use ringtap_samples::frames::Ends;
use ringtap_sensor::{Datagrams, Event, Input, LineTarget, Options, run};

const RULES: &str = "alert udp any any -> any 9999 (msg:\"a datagram\"; content:\"EVIL\"; sid:77; rev:3;)\n";
const KEY: &str = "9:000102030405060708090a0b0c0d0e0f";
const ALERTS: u64 = 30;

/// Two queues whose packets are handed over: one is silent after its first frame, the other has a flood.
fn sources() -> Vec<AnySource> {
    let from_ns = clock::monotonic_ns() + 300_000_000;
    let frame = |number: u64| {
        let ends = Ends::new(&format!("198.51.100.{}", number % 7), "203.0.113.9");
        ends.udp_frame([5000 + number as u16, 9999], b"..EVIL..")
    };
    let source = |numbers: std::ops::Range<u64>| -> AnySource {
        let arrivals: Vec<_> = numbers.map(|number| Arrival::at(from_ns + number * 5_000_000, frame(number))).collect();
        let script = Script { ending: Ending::Silence, ..Script::of(arrivals) };
        Box::new(MemorySource::new("memory0", SystemClock, script).unwrap())
    };
    vec![source(0..1), source(1..ALERTS)]
}

/// All lines until the connection ends.
fn lines(stream: impl Read + Send + 'static) -> Vec<Message> {
    let key: Key = KEY.parse().unwrap();
    let lines = BufReader::new(stream).lines().map(|line| Line::parse(line.unwrap().as_bytes()).unwrap());
    lines.map(|line| line.open(&key).unwrap()).collect()
}

/// All datagrams until the heartbeats at the end say that the engines were woken, or nothing has said so for long.
fn datagrams(socket: &UdpSocket) -> Vec<Vec<u8>> {
    let patience = Duration::from_secs(20);
    socket.set_read_timeout(Some(patience)).unwrap();
    let (mut payloads, mut buffer, began) = (Vec::new(), [0; 2048], Instant::now());
    loop {
        let len = socket.recv(&mut buffer).unwrap();
        payloads.push(buffer[..len].to_vec());
        if payloads.len() as u64 > ALERTS && (were_woken(&silent(&payloads)) || began.elapsed() > patience) {
            return payloads;
        }
    }
}

/// Heartbeats at the end, the oldest first.
fn silent(payloads: &[Vec<u8>]) -> Vec<Heartbeat> {
    let alerts = payloads.iter().rposition(|payload| payload[5] != 2).map_or(0, |last| last + 1);
    let beat = |payload: &Vec<u8>| match opened(payload) {
        Message::Heartbeat(beat) => Some(beat),
        Message::Alert(_) => None,
    };
    payloads[alerts..].iter().filter_map(beat).collect()
}

/// Whether the time of all engines went on while nothing came: one of several heartbeats has moved, and is of about the time
/// that it was sent at.
fn were_woken(silent: &[Heartbeat]) -> bool {
    let is_late = |beat: &Heartbeat| beat.sent_ns - beat.horizon_ns >= 100_000_000;
    silent.len() > 4 && silent[1..].iter().any(|beat| beat.horizon_ns > silent[0].horizon_ns && !is_late(beat))
}

fn opened(payload: &[u8]) -> Message {
    let key: Key = KEY.parse().unwrap();
    let sealed = Sealed::parse(payload).unwrap();
    assert_eq!((sealed.sensor().as_str(), sealed.key_id()), ("north", 9));
    let message = sealed.open(&key).unwrap();
    let forger = Key::new(9, b"another secret..").unwrap();
    assert_eq!(sealed.open(&forger), Err(Refused::Forged));
    assert!(Sealed::parse(&payload[..payload.len() - 1]).is_err());
    message
}

fn options(folder: &Path, unix: &Path, tcp: &TcpListener, udp: &UdpSocket) -> Options {
    let (rules, key) = (folder.join("my.rules"), folder.join("north.key"));
    std::fs::write(&rules, RULES).unwrap();
    std::fs::write(&key, format!("{KEY}\n")).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let waiting = Waiting { how: How::Interrupt, ..Waiting::default() };
    let live = Live { backend: Backend::Given, ring_slots: Some(64), priority: 0, waiting, ..Live::new("memory0") };
    let mut options = Options::new(Input::Interfaces(vec![live]));
    (options.no_sandbox, options.rules.files) = (true, vec![rules]);
    options.outputs.events = vec![Event::Alert];
    options.outputs.eve = Some(folder.join("eve.json"));
    let alarms = &mut options.outputs.alarms;
    let target = format!("02:00:00:00:00:01@{}", udp.local_addr().unwrap());
    let from = "127.0.0.1:0".parse().unwrap();
    alarms.datagrams = Some(Datagrams { to: target.parse().unwrap(), from, via: None });
    alarms.lines = vec![LineTarget::Unix(unix.to_owned()), LineTarget::Tcp(tcp.local_addr().unwrap())];
    (alarms.sensor_id, alarms.key) = (Some("north".parse().unwrap()), Some(key));
    alarms.epoch_file = Some(folder.join("epoch"));
    options
}

/// What every way has to hold: numbers without a gap, behind each heartbeat only alerts that it does not exclude, and before it all
/// that it counts.
fn check(messages: &[Message]) -> (Vec<Alert>, Vec<Heartbeat>) {
    let (mut alerts, mut beats) = (Vec::<Alert>::new(), Vec::<Heartbeat>::new());
    for message in messages {
        assert_eq!(message.origin().clock, Clock::Host);
        match *message {
            Message::Alert(alert) => {
                let excluded =
                    beats.iter().find(|beat| beat.last_sequence < alert.sequence && alert.time_ns <= beat.horizon_ns);
                assert!(excluded.is_none(), "{alert:?} behind {excluded:?}");
                assert!(alert.time_ns <= alert.built_ns, "{alert:?}");
                alerts.push(alert);
            }
            Message::Heartbeat(beat) => {
                let before: BTreeSet<u64> = alerts.iter().map(|alert| alert.sequence).collect();
                assert!(
                    (1..=beat.last_sequence).all(|number| before.contains(&number)),
                    "{beat:?} before what it counts"
                );
                assert!(
                    beat.horizon_ns <= beat.sent_ns
                        && beats.last().is_none_or(|last| last.horizon_ns <= beat.horizon_ns)
                );
                beats.push(beat);
            }
        }
    }
    let mut numbers: Vec<u64> = alerts.iter().map(|alert| alert.sequence).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=ALERTS).collect::<Vec<_>>());
    (alerts, beats)
}

#[test]
fn alerts_and_heartbeats_reach_correlators_by_every_way() {
    let folder = tempfile::tempdir().unwrap();
    let unix_path = folder.path().join("socket");
    let unix = UnixListener::bind(&unix_path).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let options = options(folder.path(), &unix_path, &tcp, &udp);
    give("memory0", sources()).unwrap();

    let by_unix: JoinHandle<_> = std::thread::spawn(move || lines(unix.accept().unwrap().0));
    let by_tcp: JoinHandle<_> = std::thread::spawn(move || lines(tcp.accept().unwrap().0));
    let by_udp: JoinHandle<_> = std::thread::spawn(move || {
        let payloads = datagrams(&udp);
        raise(Signal::SIGTERM).unwrap();
        // Open until the sensor has ended: what it sends meanwhile is refused by nobody.
        (payloads, udp)
    });
    let done = run(&options, None).unwrap();
    assert!(done.failure.is_none(), "{:?}", done.failure);
    let (by_unix, by_tcp, (by_udp, _udp)) = (by_unix.join().unwrap(), by_tcp.join().unwrap(), by_udp.join().unwrap());
    assert_eq!(by_unix, by_tcp);

    let (alerts, beats) = check(&by_unix);
    let from_datagrams: Vec<Message> = by_udp.iter().map(|payload| opened(payload)).collect();
    check(&from_datagrams);
    assert_eq!(from_datagrams, by_unix[..from_datagrams.len()], "the same in the same order");
    for alert in &alerts {
        assert_eq!((alert.rule.sid, alert.rule.rev, alert.origin.sensor.as_str()), (77, 3, "north"));
        let ends = alert.ends.unwrap();
        assert_eq!((ends.protocol, ends.ports.1, alert.community.is_some()), (17, 9999, true));
    }
    // Nothing came any more, and time went on: the engines were woken, also the one that is silent since long.
    let silent: Vec<_> = beats[..beats.len() - 1].iter().filter(|beat| beat.last_sequence == ALERTS).copied().collect();
    assert!(were_woken(&silent), "{silent:?}");
    assert_eq!(beats.last().unwrap().horizon_ns, beats.last().unwrap().sent_ns, "the last one ends all");

    let summary = done.summary.object();
    let told = &summary["alarms"];
    assert_eq!((&told["datagrams_sent"], &told["datagrams_refused"]), (&ALERTS.into(), &0.into()), "{summary}");
    assert_eq!((&told["behind_heartbeat"], &told["lines_failed"]), (&0.into(), &0.into()), "{summary}");
    assert_eq!(told["lines_written"], 2 * by_unix.len() as u64, "{summary}");
    assert_eq!(told["epoch"], alerts[0].origin.epoch, "{summary}");
    assert!(summary["warnings"].to_string().contains("plain socket"), "{summary}");
    let eve = std::fs::read_to_string(folder.path().join("eve.json")).unwrap();
    let line: serde_json::Value = serde_json::from_str(eve.lines().next().unwrap()).unwrap();
    assert_eq!((&line["ringtap"]["sensor"], &line["ringtap"]["epoch"]), (&"north".into(), &told["epoch"]), "{line}");
}

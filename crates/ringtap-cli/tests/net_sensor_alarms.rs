//! Two sensors tell one receiver over an interface of its own: alerts in order of promise, heartbeats in silence, a new epoch after
//! kill -9, and nothing that is forged or cut.

mod capture_support;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use capture_support::frames::{ipv4, udp};
use capture_support::{Capture, RINGTAP, ip, send_frames, send_frames_by, testbed};
use nix::sys::signal::Signal;
use ringtap_datagram::datagram::Sealed;
use ringtap_datagram::{Key, Message, Refused};
use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig};

const RULE: &str = "alert udp any any -> any any (msg:\"evil\"; content:\"EVIL\"; sid:77;)\n";
const TO: &str = "192.0.2.9:5514";

/// A sensor's name and the number of its key.
const SENSORS: [(&str, u32); 2] = [("north", 1), ("south", 2)];

fn secret(number: u32) -> String {
    format!("{number}:{}", format!("{number:02x}").repeat(32))
}

fn key(number: u32) -> Key {
    secret(number).parse().unwrap()
}

fn attacks(count: u8) -> Vec<Vec<u8>> {
    let payload = |number| udp(5000 + u16::from(number), 9999, b"..EVIL..");
    (0..count).map(|number| ipv4(17, [198, 51, 100, number], [203, 0, 113, 9], 0, &payload(number))).collect()
}

/// Sensor `number` on an interface of the receiver.
fn sensor(testbed: &Testbed, number: usize, interface: &str, folder: &Path, mac: &str) -> Capture {
    let (name, key) = SENSORS[number];
    let path = |ending: &str| folder.join(format!("{name}.{ending}"));
    let (rules, key_file): (PathBuf, PathBuf) = (path("rules"), path("key"));
    std::fs::write(&rules, RULE).unwrap();
    std::fs::write(&key_file, secret(key)).unwrap();
    std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut command: Command = testbed.receiver().command(RINGTAP);
    command.args(["sensor", "-i", interface, "--json", "--flows", "4096", "--max-latency", "2ms", "--sensor-id", name]);
    command.arg("-S").arg(rules).arg("--key").arg(key_file).arg("--epoch-file").arg(path("epoch"));
    command.args(["--backend", if number == 0 { "xdp" } else { "packet" }]);
    command.args(["--alarm-via", "alarm0", "--alarm-to", &format!("{mac}@{TO}"), "--alarm-from", "192.0.2.1:5514"]);
    let sensor = Capture::of(testbed.receiver(), command);
    sensor.wait_for("watching");
    sensor
}

/// What came until `enough`, of each sensor in its epochs.
#[derive(Default)]
struct Received {
    payloads: Vec<Vec<u8>>,
    messages: BTreeMap<(String, u64), Vec<Message>>,
}

impl Received {
    fn until(&mut self, socket: &UdpSocket, enough: impl Fn(&Self) -> bool) {
        let (until, mut buffer) = (Instant::now() + Duration::from_secs(20), [0; 2048]);
        while !enough(self) {
            assert!(Instant::now() < until, "not enough: {:?}", self.messages);
            let Ok(len) = socket.recv(&mut buffer) else { continue };
            let sealed = Sealed::parse(&buffer[..len]).unwrap();
            let number = SENSORS.iter().find(|(name, _)| *name == sealed.sensor().as_str()).unwrap().1;
            let message = sealed.open(&key(number)).unwrap();
            assert_eq!(sealed.open(&key(3 - number)), Err(Refused::OtherKey));
            let origin = message.origin();
            self.messages.entry((origin.sensor.to_string(), origin.epoch)).or_default().push(message);
            self.payloads.push(buffer[..len].to_vec());
        }
    }

    /// In the last epoch of a sensor: how many alerts there are, and how many heartbeats after the last of them.
    fn last(&self, sensor: &str) -> (usize, usize) {
        let messages = self.epochs(sensor).last().map(|(_, messages)| *messages).unwrap_or_default();
        let alerts = messages.iter().filter(|message| matches!(message, Message::Alert(_))).count();
        let silent = messages.iter().rev().take_while(|message| matches!(message, Message::Heartbeat(_))).count();
        (alerts, silent)
    }

    fn epochs(&self, sensor: &str) -> Vec<(u64, &[Message])> {
        let of = self.messages.iter().filter(|((name, _), _)| name == sensor);
        of.map(|((_, epoch), messages)| (*epoch, &messages[..])).collect()
    }
}

/// No alert has a number beyond a heartbeat's and a time that this excluded; promises only grow.
fn check(messages: &[Message]) {
    let beats: Vec<_> = messages
        .iter()
        .filter_map(|message| match message {
            Message::Heartbeat(beat) => Some(beat),
            Message::Alert(_) => None,
        })
        .collect();
    assert!(beats.windows(2).all(|pair| pair[0].horizon_ns <= pair[1].horizon_ns && pair[0].sent_ns < pair[1].sent_ns));
    let mut numbers = Vec::new();
    for message in messages {
        let Message::Alert(alert) = message else { continue };
        numbers.push(alert.sequence);
        assert_eq!((alert.rule.sid, alert.ends.unwrap().ports.1), (77, 9999));
        let excluded =
            beats.iter().find(|beat| beat.last_sequence < alert.sequence && alert.time_ns <= beat.horizon_ns);
        assert!(excluded.is_none(), "{alert:?} behind {excluded:?}");
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

#[test]
fn net_two_sensors_tell_one_receiver_over_another_interface() {
    const TEST: &str = "net_two_sensors_tell_one_receiver_over_another_interface";
    let testbed = testbed(TEST, TestbedConfig::default());
    let (host, folder) = (testbed.receiver(), tempfile::tempdir().unwrap());
    for arguments in [
        "link add alarm0 type veth peer name alarm1",
        "link add watched0 type veth peer name watched1",
        "link set alarm0 up",
        "link set alarm1 up",
        "link set watched0 up",
        "link set watched1 up",
        "addr add 192.0.2.9/24 dev alarm1",
    ] {
        ip(host, arguments);
    }
    let mac = host.run(|| std::fs::read_to_string("/sys/class/net/alarm1/address").unwrap()).unwrap();
    let socket = host.run(|| UdpSocket::bind(TO).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();

    let mut north = sensor(&testbed, 0, host.interface(), folder.path(), mac.trim());
    let south = sensor(&testbed, 1, "watched0", folder.path(), mac.trim());
    testbed.enable_receiver_napi().unwrap();
    // In a flood for one of them.
    let profile = Profile::lasting(Pattern::Constant { pps: 148e3 }, Duration::from_secs(1));
    let generator = testbed.generate(GeneratorConfig::for_testbed(&testbed, 64, profile)).unwrap();
    send_frames(&testbed, &attacks(20));
    send_frames_by(host, "watched1", &attacks(7));
    let mut received = Received::default();
    received.until(&socket, |received| received.last("north").0 == 20 && received.last("south").0 == 7);
    generator.join().unwrap();
    received.until(&socket, |received| received.last("north").1 > 3 && received.last("south").1 > 3);

    north.signal(Signal::SIGKILL);
    north.end();
    let north = sensor(&testbed, 0, host.interface(), folder.path(), mac.trim());
    send_frames(&testbed, &attacks(3));
    received.until(&socket, |received| {
        received.epochs("north").len() == 2 && received.last("north").0 == 3 && received.last("north").1 > 3
    });
    for sensor in [north, south] {
        let ended = sensor.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        let told = &summary["alarms"];
        eprintln!("{told}");
        assert_eq!((&told["datagrams_refused"], &told["behind_heartbeat"]), (&0.into(), &0.into()), "{summary}");
    }
    for (sensor, epochs) in [("north", 2), ("south", 1)] {
        let of = received.epochs(sensor);
        assert_eq!(of.len(), epochs);
        of.iter().for_each(|(_, messages)| check(messages));
    }
    // A sensor that was killed and started again follows itself: numbers begin anew, and times go on.
    let times = |messages: &[Message]| {
        let time = |message: &Message| if let Message::Alert(alert) = message { Some(alert.time_ns) } else { None };
        messages.iter().filter_map(time).collect::<Vec<_>>()
    };
    let of = received.epochs("north");
    assert!(times(of[0].1).iter().max() < times(of[1].1).iter().min());
    // What anybody on the way may do to a message is seen.
    for payload in received.payloads.iter().take(20) {
        let whole = Sealed::parse(payload).unwrap();
        let keys = key(whole.key_id());
        for at in 0..payload.len() {
            let mut forged = payload.clone();
            forged[at] ^= 0x10;
            assert!(Sealed::parse(&forged).and_then(|sealed| sealed.open(&keys)).is_err(), "byte {at}");
            assert!(Sealed::parse(&payload[..at]).and_then(|sealed| sealed.open(&keys)).is_err(), "{at} bytes");
        }
    }
}

//! The receiver as judge: hidden attacks are sent to a real Linux receiver. What its application reads decides what was delivered, and
//! the sensor beside it has to have found that, and nothing else.

mod capture_support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::net::{IpAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use capture_support::{Capture, RINGTAP, ip, testbed};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt::ReceiveTimeout,
};
use nix::sys::time::TimeVal;
use ringtap::source::packet::{Fanout, PacketRingConfig, PacketSource};
use ringtap::transmit::TransmitRing;
use ringtap_samples::evasions::{ATTACK, LAST_WORDS, PORT, SERVER, mixed_to};
use ringtap_testbed::{Testbed, TestbedConfig};
use serde_json::Value;

const CASES: u32 = 300;
/// How long a receiver may take to answer, or to read a stream to its end.
const PATIENCE: Duration = Duration::from_secs(5);

/// What each client's connection brought to the application, which takes it and reads when it is told that all has come. Segments that
/// come while a socket is in a system call (accept, setsockopt, recv) wait, and are put together there under the highest acknowledgement (tcp_add_backlog()): then a false one that
/// acknowledges what was never sent takes the true one before it along.
fn listen(testbed: &Testbed) -> (mpsc::Sender<()>, mpsc::Receiver<(IpAddr, Vec<u8>)>) {
    let host = testbed.receiver();
    let interface = host.interface().to_owned();
    let mac = testbed.sender().link().mac.map(|byte| format!("{byte:02x}")).join(":");
    ip(host, &format!("address add {SERVER}/24 dev {interface}"));
    ip(host, &format!("neighbour replace 203.0.113.1 lladdr {mac} dev {interface} nud permanent"));
    ip(host, "route add 10.0.0.0/8 via 203.0.113.1");
    let listener = host.run(|| TcpListener::bind((SERVER, PORT)).unwrap()).unwrap();
    let (told, heard) = mpsc::channel();
    let (begin, has_come) = mpsc::channel();
    std::thread::spawn(move || {
        while has_come.recv().is_ok() {
            let Ok((mut stream, _)) = listener.accept() else { return };
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut all, mut part) = (Vec::new(), [0; 4096]);
            while !all.windows(LAST_WORDS.len()).any(|window| window == LAST_WORDS) {
                match stream.read(&mut part) {
                    Ok(len @ 1..) => all.extend_from_slice(&part[..len]),
                    _ => break,
                }
            }
            if told.send((stream.peer_addr().unwrap().ip(), all)).is_err() {
                return;
            }
        }
    });
    (begin, heard)
}

fn number_in(mut file: &File) -> u64 {
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text.trim().parse().unwrap()
}

/// The sender's wire: frames out, and what the receiver answers.
struct Wire {
    // Of one socket with the ring.
    _source: PacketSource,
    transmit: TransmitRing,
    answers: std::os::fd::OwnedFd,
    to: [u8; 6],
    /// How many frames the receiver's device has taken, before the first one and as it counts them.
    taken: (u64, File),
    sent: u64,
}

impl Wire {
    fn open(testbed: &Testbed) -> Self {
        let (from, to) = (testbed.sender(), testbed.receiver());
        let config = PacketRingConfig {
            interface: from.interface().to_owned(),
            ifindex: from.link().index,
            ring_slots: 64,
            transmit_slots: 64,
            frame_size: 16384,
            fetch_oversize: false,
            incoming_only: true,
            filter: None,
        };
        let (source, transmit, _) = from.run(|| PacketSource::open(&config, Fanout::None)).unwrap().unwrap();
        let answers = from
            .run(|| socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), SockProtocol::EthAll).unwrap())
            .unwrap();
        setsockopt(&answers, ReceiveTimeout, &TimeVal::new(1, 0)).unwrap();
        let path = format!("/sys/class/net/{}/statistics/rx_packets", to.interface());
        let counter = to.run(|| File::open(path).unwrap()).unwrap();
        let taken = (number_in(&counter), counter);
        Self { _source: source, transmit: transmit.unwrap(), answers, to: to.link().mac, taken, sent: 0 }
    }

    fn send(&mut self, frame: &[u8]) {
        let until = Instant::now() + PATIENCE;
        let mut frame = frame.to_vec();
        frame[..6].copy_from_slice(&self.to);
        let put = |room: &mut [u8]| {
            room[..frame.len()].copy_from_slice(&frame);
            frame.len()
        };
        while self.transmit.send(put).is_none() {
            assert!(Instant::now() < until, "the device takes no more");
            self.transmit.kick();
            std::thread::sleep(Duration::from_micros(100));
        }
        self.transmit.kick();
        self.sent += 1;
    }

    /// Waits until the receiver's device has taken all.
    fn settle(&self) {
        let until = Instant::now() + PATIENCE;
        while number_in(&self.taken.1) < self.taken.0 + self.sent {
            assert!(Instant::now() < until, "the receiver's device has lost frames");
            std::thread::sleep(Duration::from_micros(100));
        }
        // It counts before it hands the last ones on.
        std::thread::sleep(Duration::from_millis(1));
    }

    /// The receiver's first sequence number to this client.
    fn answer(&mut self, client: [u8; 4]) -> u32 {
        let until = Instant::now() + PATIENCE;
        let mut frame = [0; 2048];
        loop {
            assert!(Instant::now() < until, "no SYN/ACK to {client:?}");
            let Ok(len) = recv(self.answers.as_raw_fd(), &mut frame, nix::sys::socket::MsgFlags::empty()) else {
                continue;
            };
            let is_answer = len >= 54 && frame[12..14] == [8, 0] && frame[23] == 6 && frame[30..34] == client;
            if is_answer && frame[47] & 0x12 == 0x12 {
                return u32::from_be_bytes(frame[38..42].try_into().unwrap());
            }
        }
    }
}

#[test]
fn net_sensor_finds_what_a_linux_receiver_gets_and_nothing_else() {
    const TEST: &str = "net_sensor_finds_what_a_linux_receiver_gets_and_nothing_else";
    let testbed = testbed(TEST, TestbedConfig::default());
    let (begin, heard) = listen(&testbed);
    let folder = tempfile::tempdir().unwrap();
    let (rules, eve) = (folder.path().join("my.rules"), folder.path().join("eve.json"));
    std::fs::write(&rules, (0..CASES).map(|number| mixed_to(number, 0).rules).collect::<String>()).unwrap();
    let host = testbed.receiver();
    let mut command: Command = host.command(RINGTAP);
    command.args(["sensor", "-i", host.interface(), "--backend", "packet", "--flows", "4096", "--json", "-S"]);
    command.arg(&rules).arg("--eve").arg(&eve).args(["--events", "alert"]);
    let sensor = Capture::of(host, command);
    sensor.wait_for("watching");
    testbed.enable_receiver_napi().unwrap();

    let (mut wire, own) = (Wire::open(&testbed), SERVER.parse::<std::net::Ipv4Addr>().unwrap().octets());
    let (mut judged, mut unlike) = (BTreeMap::new(), Vec::new());
    for number in 0..CASES {
        let client: std::net::Ipv4Addr = mixed_to(number, 0).client.parse().unwrap();
        wire.send(&mixed_to(number, 0).frames[0]);
        let case = mixed_to(number, wire.answer(client.octets()));
        // The server's words are its own.
        case.frames[1..].iter().filter(|frame| frame[26..30] != own).for_each(|frame| wire.send(frame));
        wire.settle();
        begin.send(()).unwrap();
        let (from, bytes) = heard
            .recv_timeout(PATIENCE + Duration::from_secs(1))
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(from, IpAddr::V4(client), "{}", case.name);
        assert!(bytes.ends_with(LAST_WORDS), "{}: {}", case.name, bytes.escape_ascii());
        let is_delivered = bytes.windows(ATTACK.len()).any(|window| window == ATTACK);
        if is_delivered != case.delivered {
            unlike.push(case.name.clone());
        }
        judged.insert(case.sid, (case.name, is_delivered));
    }
    assert!(unlike.is_empty(), "the receiver judges otherwise than the suite says: {unlike:#?}");
    std::thread::sleep(Duration::from_millis(300));
    let ended = sensor.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let summary = ended.summary();
    assert_eq!((&summary["ledger"]["lost"], &summary["ledger"]["unaccounted"]), (&0.into(), &0.into()), "{summary}");
    let text = std::fs::read_to_string(&eve).unwrap();
    let found: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["alert"]["signature_id"].as_u64().unwrap())
        .collect();
    let wrong: Vec<&String> = judged
        .iter()
        .filter(|(sid, (_, is_delivered))| found.contains(&u64::from(**sid)) != *is_delivered)
        .map(|(_, (name, _))| name)
        .collect();
    assert!(wrong.is_empty(), "{} of {CASES}: {wrong:#?}", wrong.len());
    let hidden = judged.values().filter(|(_, is_delivered)| !is_delivered).count();
    assert!(hidden > 20 && hidden < 80, "{hidden}");
}

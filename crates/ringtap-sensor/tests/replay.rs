//! The sensor as a library over capture files: outputs, what they count, and how a run ends.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringtap_datagram::line::Line;
use ringtap_datagram::{Clock, Message};
use ringtap_samples::Sample;
use ringtap_samples::files::{self, Format, Order};
use ringtap_samples::frames::{Ends, Session};
use ringtap_sensor::{Event, Input, LineTarget, Options, RuleOptions, check_rules, run};
use serde_json::Value;

fn attacks(folder: &Path, count: u16) -> Options {
    let (capture, rules) = (folder.join("in.pcap"), folder.join("my.rules"));
    let ends = Ends::new("198.51.100.7", "203.0.113.9");
    let packets = (0..count).map(|number| ends.udp_frame([1 + number, 9999], b"..EVIL..")).collect();
    let sample = Sample { name: "in".to_owned(), link: 1, packets };
    std::fs::write(&capture, files::file(&sample, Format::Pcap(Order::Little))).unwrap();
    std::fs::write(&rules, "alert udp any any -> any any (content:\"EVIL\"; sid:77;)\n").unwrap();
    let mut options = Options::new(Input::Files(vec![capture]));
    // The sandbox is the whole process's, that of the other tests too.
    options.no_sandbox = true;
    options.rules.files = vec![rules];
    options
}

fn events(path: &PathBuf, kind: &str) -> usize {
    let text = std::fs::read_to_string(path).unwrap();
    let is = |line: &&str| serde_json::from_str::<Value>(line).unwrap()["event_type"] == kind;
    text.lines().filter(is).count()
}

#[test]
fn each_event_goes_where_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut options = attacks(folder.path(), 3);
    let eve = folder.path().join("eve.json");
    options.outputs.eve = Some(eve.clone());
    let syslog = format!("udp:{}", server.local_addr().unwrap());
    options.outputs.syslog = Some(ringtap_output::LogServer::parse(&syslog).unwrap());
    options.outputs.events = vec![Event::Flow, Event::Stats];
    let done = run(&options, None).unwrap();
    assert!(done.failure.is_none());
    let summary = done.summary.object();
    assert_eq!((&summary["alerts"], &summary["ending"]), (&3.into(), &"end_of_file".into()), "{summary}");
    assert_eq!((events(&eve, "flow"), events(&eve, "stats"), events(&eve, "alert")), (3, 1, 0));
    let mut datagram = [0; 4096];
    for _ in 0..3 {
        let length = server.recv(&mut datagram).unwrap();
        let text = String::from_utf8_lossy(&datagram[..length]).into_owned();
        // Facility 20, a rule of priority 3 by default: warning.
        assert!(text.starts_with("<164>1 ") && text.contains("\"signature_id\":77"), "{text}");
    }
    let outputs = &summary["outputs"];
    assert_eq!((&outputs["written"], &outputs["failed"]), (&7.into(), &0.into()), "{summary}");
    assert_eq!((&summary["records"]["offered"], &summary["records"]["unaccounted"]), (&7.into(), &0.into()));
}

#[test]
fn a_correlator_is_told_of_a_file_up_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "5:000102030405060708090a0b0c0d0e0f").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut options = attacks(folder.path(), 3);
    let alarms = &mut options.outputs.alarms;
    alarms.lines = vec![LineTarget::Unix(socket.clone())];
    assert!(run(&options, None).err().unwrap().to_string().contains("--sensor-id"), "it has no name");
    let alarms = &mut options.outputs.alarms;
    (alarms.sensor_id, alarms.key) = (Some("files".parse().unwrap()), Some(key));
    alarms.epoch_file = Some(folder.path().join("epoch"));
    let mut epochs = Vec::new();
    for _ in 0..2 {
        let done = run(&options, None).unwrap();
        assert!(done.failure.is_none(), "{:?}", done.failure);
        let lines = BufReader::new(listener.accept().unwrap().0).lines();
        let messages: Vec<Message> =
            lines.map(|line| *Line::parse(line.unwrap().as_bytes()).unwrap().unverified()).collect();
        assert!(messages.iter().all(|message| message.origin().clock == Clock::Recorded));
        let alerts = messages.iter().filter(|message| matches!(message, Message::Alert(_))).count();
        let Some(Message::Heartbeat(last)) = messages.last() else { panic!("{messages:?}") };
        assert_eq!((alerts, last.last_sequence, last.horizon_ns), (3, 3, u64::MAX), "nothing follows at all");
        epochs.push(last.origin.epoch);
    }
    assert!(epochs[0] < epochs[1], "{epochs:?}");
    // Nobody listens any more.
    drop(listener);
    std::fs::remove_file(&socket).unwrap();
    let done = run(&options, None).unwrap();
    assert!(done.failure.is_some() && done.summary.object()["alarms"]["lines_failed"].as_u64() > Some(3));
}

/// As a capture has them of the host that sent them: the card would have put the checksums in.
#[test]
fn checksums_that_are_all_wrong_are_said_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = attacks(folder.path(), 0);
    let Input::Files(files) = &options.input else { unreachable!() };
    let session = Session::open(Ends::new("198.51.100.7", "203.0.113.9"), [40_000, 8080]);
    let mut packets = session.client(b"..EVIL..", 1400).close();
    // Of TCP, behind Ethernet's and IP's headers.
    packets.iter_mut().for_each(|frame| frame[14 + 20 + 16] ^= 0x55);
    std::fs::write(
        &options.rules.files[0],
        "alert tcp any any -> any any (flow:established; content:\"EVIL\"; sid:77;)\n",
    )
    .unwrap();
    let sample = Sample { name: "in".to_owned(), link: 1, packets };
    std::fs::write(&files[0], files::file(&sample, Format::Pcap(Order::Little))).unwrap();
    let of = |options: &Options| {
        let summary = run(options, None).unwrap().summary;
        (summary.object()["alerts"].as_u64().unwrap(), summary.text().contains("say --no-checksums"))
    };
    assert_eq!(of(&options), (0, true));
    options.bounds.no_checksums = true;
    assert_eq!(of(&options), (1, false));
}

#[test]
fn what_could_not_be_written_is_counted_and_fails_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = attacks(folder.path(), 3);
    options.outputs.eve = Some("/dev/full".into());
    let done = run(&options, None).unwrap();
    let summary = done.summary.object();
    assert_eq!(summary["outputs"]["written"], 0, "{summary}");
    assert_eq!(summary["outputs"]["failed"], summary["records"]["offered"], "{summary}");
    let failure = done.failure.unwrap().to_string();
    assert!(failure.contains("/dev/full: ENOSPC") && failure.contains("lines were lost"), "{failure}");
}

/// `duration` ends a replay as it ends a live run, and what was found until then is written.
#[test]
fn a_replay_ends_when_its_time_is_over() {
    const PACKETS: u16 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let mut options = attacks(folder.path(), PACKETS);
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    options.outputs.eve = Some(pipe.clone());
    options.outputs.events = vec![Event::Alert];
    (options.outputs.queue, options.duration) = (16, Some(Duration::ZERO));
    // Nobody reads for a while: what is found does not fit into pipe and queue, so the engine can't be at the end.
    let reader = std::thread::spawn(move || {
        let mut file = std::fs::File::open(pipe).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text.lines().count()
    });
    let done = run(&options, None).unwrap();
    let summary = done.summary.object();
    assert_eq!(summary["ending"], "duration", "{summary}");
    assert!(summary["packets"].as_u64().unwrap() < PACKETS.into(), "{summary}");
    assert_eq!(reader.join().unwrap() as u64, summary["alerts"].as_u64().unwrap(), "{summary}");
}

#[test]
fn rules_can_be_checked_without_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.rules");
    std::fs::write(&path, "alert udp any any -> any any (content:\"a\"; sid:1;)\nalert udp any any\n").unwrap();
    let check = check_rules(&RuleOptions { files: vec![path], ..RuleOptions::default() }, None).unwrap();
    let object = check.object();
    assert_eq!((&object["rules"], &object["used"], check.left_out()), (&2.into(), &1.into(), 1), "{object}");
    assert!(check.text().contains("my.rules:2") && check.text().contains("2 rules, 1 used (50.0 %)"));
}

#[test]
fn requests_are_events_with_their_responses() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = attacks(folder.path(), 1);
    let request = b"GET /a?b=\xff HTTP/1.1\r\nHost: Example.org:8080\r\nUser-Agent: me\r\nReferer: there\r\n\r\n";
    let response =
        b"HTTP/1.1 302 Found\r\nContent-Type: text/html; charset=x\r\nLocation: /b\r\nContent-Length: 2\r\n\r\nok";
    let session = Session::open(Ends::new("198.51.100.7", "203.0.113.9"), [5000, 8080]);
    let packets = session.client(request, 20).server(response, 20).close();
    let capture = folder.path().join("http.pcap");
    let sample = Sample { name: "http".to_owned(), link: 1, packets };
    std::fs::write(&capture, files::file(&sample, Format::Pcap(Order::Little))).unwrap();
    let eve = folder.path().join("eve.json");
    options.input = Input::Files(vec![capture]);
    options.outputs.eve = Some(eve.clone());
    options.outputs.events = vec![Event::Http];
    run(&options, None).unwrap();
    let text = std::fs::read_to_string(&eve).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 1, "{text}");
    let expected = serde_json::json!({
        "hostname": "Example.org", "http_port": 8080, "url": "/a?b=\u{fffd}", "http_user_agent": "me", "http_content_type": "text/html",
        "http_refer": "there", "http_method": "GET", "protocol": "HTTP/1.1", "status": 302, "redirect": "/b", "length": 2,
    });
    assert_eq!(events[0]["http"], expected);
    assert_eq!(
        (&events[0]["event_type"], &events[0]["tx_id"], &events[0]["dest_port"]),
        (&"http".into(), &0.into(), &8080.into())
    );
}

/// Connections of which a part passed say which part did not; with `midstream` they are followed.
#[test]
fn what_was_not_seen_of_a_connection_is_told() {
    let session = Session::open(Ends::new("198.51.100.7", "203.0.113.9"), [40_000, 8080]);
    let all =
        session.client(b"evil-", 1400).server(b"evil-", 1400).client(b"attack", 1400).server(b"answer", 1400).close();
    let of_side = |client: bool| -> Vec<Vec<u8>> {
        all.iter().filter(|frame| (frame[26..30] == [198, 51, 100, 7]) == client).cloned().collect()
    };
    let rules = "alert tcp any any -> any any (flow:established,to_server; content:\"evil-attack\"; sid:1;)\n\
        alert tcp any any -> any any (flow:established,to_client; content:\"evil-answer\"; sid:2;)\n";
    let whole = Value::Null;
    let cases = [
        ("whole", all.clone(), whole, [vec![1, 2], vec![1, 2]]),
        ("no handshake", all[3..].to_vec(), serde_json::json!(["handshake"]), [vec![], vec![1, 2]]),
        ("client", of_side(true), serde_json::json!(["handshake", "to_client"]), [vec![], vec![1]]),
        ("server", of_side(false), serde_json::json!(["handshake", "to_client"]), [vec![], vec![2]]),
    ];
    for (name, frames, unseen, expected) in cases {
        for midstream in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let mut options = attacks(folder.path(), 1);
            let (capture, eve) = (folder.path().join("part.pcap"), folder.path().join("eve.json"));
            let sample = Sample { name: "part".to_owned(), link: 1, packets: frames.clone() };
            std::fs::write(&capture, files::file(&sample, Format::Pcap(Order::Little))).unwrap();
            std::fs::write(&options.rules.files[0], rules).unwrap();
            options.input = Input::Files(vec![capture]);
            options.outputs.eve = Some(eve.clone());
            options.outputs.events = vec![Event::Alert, Event::Flow, Event::Stats];
            (options.bounds.midstream, options.bounds.no_checksums) = (midstream, true);
            let done = run(&options, None).unwrap();
            assert!(done.failure.is_none());
            let text = std::fs::read_to_string(&eve).unwrap();
            let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let of = |kind: &str| lines.iter().filter(|line| line["event_type"] == kind).collect::<Vec<_>>();
            let mut sids: Vec<u64> =
                of("alert").iter().map(|alert| alert["alert"]["signature_id"].as_u64().unwrap()).collect();
            sids.sort_unstable();
            assert_eq!(sids, expected[usize::from(midstream)], "{name} {midstream}");
            let [flow] = of("flow")[..] else { panic!("{name}: one flow") };
            // The server's side alone, taken for the server's: nothing came to it.
            let turned = midstream && name == "server";
            let unseen = if turned { serde_json::json!(["handshake", "to_server"]) } else { unseen.clone() };
            assert_eq!(flow["tcp"]["unseen"], unseen, "{name} {midstream}");
            let stats = &of("stats").last().unwrap()["stats"]["ringtap"];
            assert_eq!(stats["flows_without_handshake"], u64::from(!unseen.is_null()), "{name} {midstream}");
            assert_eq!(stats["flows_one_sided"], u64::from(unseen.as_array().is_some_and(|all| all.len() == 2)));
        }
    }
}

//! Where announced alarms go: files, Unix sockets, syslog and webhooks, well and dead, with names.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap_snmp::encode::{Item, Trap};
use serde_json::Value;

use crate::support::{IF_INDEX, PATIENCE, RINGTAP, Station, config, link_down, mibs, port, run, send};

#[test]
fn net_trap_tells_alarms_to_a_file_a_socket_and_a_syslog_server() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (file, moved, socket) = (at("alarms.jsonl"), at("alarms.old"), at("alarms.sock"));
    let listener = UnixListener::bind(&socket).unwrap();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let (address, syslog) = (format!("127.0.0.1:{}", port()), format!("udp:{}", server.local_addr().unwrap()));
    let paths = [&file, &socket].map(|path| path.to_str().unwrap().to_owned());
    let outputs = ["--output", &paths[0], "--output-socket", &paths[1], "--output-syslog", &syslog];
    let station = Station::start(&at("store"), &[&["--listen", &address][..], &outputs].concat());
    let is_link_down = |line: &str| {
        let alarm: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!((&alarm["condition"], &alarm["object"]), (&"linkDown".into(), &"3".into()), "{alarm}");
        alarm["cleared"].as_bool().unwrap()
    };
    let eventually = |path: &Path| {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.ends_with('\n') {
                return text;
            }
            assert!(Instant::now() < until, "nothing comes to {}", path.display());
            std::thread::sleep(Duration::from_millis(10));
        }
    };

    send(&link_down(), &address);
    assert!(!is_link_down(eventually(&file).trim_end()));
    let mut stream = BufReader::new(listener.accept().unwrap().0);
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(!is_link_down(line.trim_end()));
    let mut datagram = [0; 2048];
    let length = server.recv(&mut datagram).unwrap();
    let message = std::str::from_utf8(&datagram[..length]).unwrap();
    assert!(message.starts_with('<') && message.contains(">1 ") && message.contains("linkDown"), "{message}");

    // Moved away, as logrotate does; the next one goes to a new file.
    std::fs::rename(&file, &moved).unwrap();
    kill(Pid::from_raw(station.pid() as i32), Signal::SIGHUP).unwrap();
    let until = Instant::now() + PATIENCE;
    while !file.exists() {
        assert!(Instant::now() < until, "SIGHUP is not heard");
        std::thread::sleep(Duration::from_millis(10));
    }
    let up = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 4], 2).with(&IF_INDEX, Item::Integer(3));
    send(&up, &address);
    assert!(is_link_down(eventually(&file).trim_end()), "linkUp clears");
    line.clear();
    stream.read_line(&mut line).unwrap();
    assert!(is_link_down(line.trim_end()));
    let object = station.end();
    assert_eq!((&object["not_told"], &object["unaccounted"]), (&0.into(), &0.into()), "{object}");
    assert_eq!(std::fs::read_to_string(&moved).unwrap().lines().count(), 1);
}

#[test]
fn net_trap_posts_alarms_again_until_they_are_taken() {
    let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
    let to = server.server_addr().to_ip().unwrap();
    let (taken, posts) = mpsc::channel();
    std::thread::spawn(move || {
        // Twice out of order, then well.
        for (number, mut request) in server.incoming_requests().enumerate() {
            let mut body = String::new();
            request.as_reader().read_to_string(&mut body).unwrap();
            let kind = request.headers().iter().find(|header| header.field.equiv("content-type")).cloned();
            let code = if number < 2 { 503 } else { 200 };
            taken.send((code, kind.map(|header| header.value.to_string()), body)).unwrap();
            request.respond(tiny_http::Response::empty(code)).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    // By name: the sandbox lets it be looked up.
    let url = format!("http://localhost:{}/alarms", to.port());
    let config = config(folder.path(), &format!("[trap.webhook]\nurl = \"{url}\"\n"));
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&folder.path().join("store"), &["--listen", &address, "--config", &config]);
    send(&link_down(), &address);
    let mut seen = Vec::new();
    for expected in [503, 503, 200] {
        let (code, kind, body) = posts.recv_timeout(PATIENCE).unwrap();
        assert_eq!((code, kind.as_deref()), (expected, Some("application/json")));
        seen.push(body);
    }
    assert!(seen[0] == seen[1] && seen[1] == seen[2], "{seen:?}");
    let alarms: Value = serde_json::from_str(&seen[0]).unwrap();
    assert_eq!(
        (&alarms[0]["condition"], &alarms[0]["object"], &alarms[0]["cleared"]),
        (&"linkDown".into(), &"3".into(), &false.into())
    );
    let object = station.end();
    assert_eq!((&object["announced"], &object["not_told"]), (&1.into(), &0.into()), "{object}");
    assert!(posts.try_recv().is_err(), "told once");
}

#[test]
fn net_trap_keeps_what_a_webhook_never_takes() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &format!("[trap.webhook]\nurl = \"http://127.0.0.1:{}/\"\n", port()));
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&folder.path().join("store"), &["--listen", &address, "--config", &config]);
    send(&link_down(), &address);
    drop(station.wait_for(1));
    let object = station.end();
    assert_eq!(
        (&object["stored"], &object["announced"], &object["not_told"], &object["posts"]["webhook"]["waiting"]),
        (&1.into(), &1.into(), &0.into(), &1.into()),
        "{object}"
    );
}

#[test]
fn net_trap_names_reach_every_output_and_top() {
    const TEST: &str = "net_trap_names_reach_every_output_and_top";
    let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
    let to = server.server_addr().to_ip().unwrap();
    let (posted, posts) = mpsc::channel();
    std::thread::spawn(move || {
        for mut request in server.incoming_requests() {
            let mut body = String::new();
            request.as_reader().read_to_string(&mut body).unwrap();
            posted.send(body).unwrap();
            request.respond(tiny_http::Response::empty(200)).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let (directory, file) = (folder.path().join("store"), folder.path().join("alarms.jsonl"));
    let config = config(folder.path(), &format!("[trap.webhook]\nurl = \"http://{to}/\"\n"));
    let address = format!("127.0.0.1:{}", port());
    let mibs = mibs(folder.path());
    let outputs = ["--config", &config, "--mibs", &mibs, "--output", file.to_str().unwrap()];
    let station = Station::start(&directory, &[&["--listen", &address][..], &outputs].concat());
    // No rule knows it: the alarm's condition stays a number, so that it is the same with and without MIB files.
    send(&Trap::new(&[1, 3, 6, 1, 4, 1, 99999, 0, 2], 1), &address);
    drop(station.wait_for(1));
    let body: Value = serde_json::from_str(&posts.recv_timeout(PATIENCE).unwrap()).unwrap();
    let top = run(TEST, RINGTAP, &["trap", "top", "--count", "1", "--store", directory.to_str().unwrap()]);
    assert_eq!(station.end()["not_told"], 0);
    let line: Value = serde_json::from_str(std::fs::read_to_string(&file).unwrap().trim()).unwrap();
    for alarm in [&body[0], &line] {
        assert_eq!(
            (&alarm["condition"], &alarm["condition_name"], &alarm["notification"]),
            (&"1.3.6.1.4.1.99999.0.2".into(), &"exampleOther".into(), &1.into()),
            "{alarm}"
        );
    }
    let shown = String::from_utf8_lossy(&top.stdout);
    assert!(top.status.success() && shown.contains("exampleOther"), "{shown}");
}

#[test]
fn net_trap_ends_in_time_though_a_webhook_takes_and_never_answers() {
    /// More than one POST takes.
    const COUNT: u64 = 1200;
    // Connections are taken by the kernel; nobody reads.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = format!("[trap.webhook]\nurl = \"http://{}/\"\n", silent.local_addr().unwrap());
    let config = config(folder.path(), &text);
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&folder.path().join("store"), &["--listen", &address, "--config", &config]);
    for index in 1..=COUNT as u32 {
        let mut name = IF_INDEX;
        name[10] = index;
        send(&Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).with(&name, Item::Integer(index.into())), &address);
    }
    drop(station.wait_for(COUNT));
    let mut tried = Vec::new();
    tried.extend(std::iter::from_fn(|| silent.accept().ok()));
    let before = tried.len();
    let object = station.end();
    tried.extend(std::iter::from_fn(|| silent.accept().ok()));
    // The one under way, and one more: not three POSTs with five tries each, of five seconds.
    assert!(tried.len() <= before + 2, "{before} tries before the end, {} in all", tried.len());
    assert_eq!(
        (&object["stored"], &object["announced"], &object["posts"]["webhook"]["waiting"], &object["unaccounted"]),
        (&COUNT.into(), &COUNT.into(), &COUNT.into(), &0.into()),
        "{object}"
    );
}

#[test]
fn net_trap_says_that_a_full_disk_takes_no_alarms_and_fails_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&folder.path().join("store"), &["--listen", &address, "--output", "/dev/full"]);
    send(&link_down(), &address);
    drop(station.wait_for(1));
    let ended = station.end_anyhow();
    assert!(!ended.succeeded, "{}", ended.errors);
    let said: Vec<&str> = ended.errors.lines().filter(|line| line.contains("/dev/full")).collect();
    assert_eq!(said.len(), 2, "once when it begins, once at the end: {}", ended.errors);
    assert!(said.iter().all(|line| line.contains("ENOSPC") && line.contains("`ringtap alarms` has them")), "{said:?}");
    let object = ended.said.last().unwrap();
    assert_eq!((&object["stored"], &object["not_told"]), (&1.into(), &1.into()), "{object}");
}

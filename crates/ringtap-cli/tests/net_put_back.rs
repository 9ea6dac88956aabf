//! The complete state of a device before and after each way in which a capture can end.

mod capture_support;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use capture_support::{Capture, NUMBERS, RINGTAP, folder, ip, send_numbered, testbed};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap_testbed::{Host, Testbed, TestbedConfig};

/// All that can be read of a device but its traffic counters, line by line, and the notes about it.
fn state(host: &Host) -> Vec<String> {
    let name = host.interface();
    let run = |command: &str| {
        let mut words = command.split(' ');
        let mut command = Command::new(words.next().unwrap());
        let output = host.run(|| command.args(words).output()).unwrap().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let mut all = run(&format!("ip -d link show dev {name}"));
    for what in ["-k", "-c", "-l", "-x", "-g", "-a"] {
        all += &run(&format!("ethtool {what} {name}"));
    }
    let folder = PathBuf::from(format!("/sys/class/net/{name}"));
    let mut files = host
        .run(|| {
            let files = fs::read_dir(&folder).unwrap().flatten().filter(|file| file.path().is_file());
            files.map(|file| format!("{:?}: {:?}", file.file_name(), fs::read_to_string(file.path()).ok())).collect()
        })
        .unwrap();
    let mut lines: Vec<String> = all.lines().map(str::to_owned).collect();
    lines.append(&mut files);
    lines.sort();
    lines.extend(notes(name).into_iter().map(|note| format!("note: {note}")));
    lines
}

/// Notes about an interface; its name is unique on this machine.
fn notes(interface: &str) -> Vec<String> {
    let files = fs::read_dir("/run/ringtap").into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_to_string(file.path()).ok()).filter(|text| text.contains(interface)).collect()
}

/// The process beside a capture.
fn keeper_of(capture: u32) -> Option<Pid> {
    let children = fs::read_to_string(format!("/proc/{capture}/task/{capture}/children")).unwrap();
    children.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap())).next()
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Limit,
    Told(Signal),
    /// At once: nothing in the process runs any more.
    Killed(Signal),
    /// With the keeper: the next start repairs.
    BothKilled,
}

fn ends(testbed: &Testbed, arguments: &[&str], way: Way) {
    let host = testbed.receiver();
    let before = state(host);
    let mut arguments = [&["--backend", "xdp", "--napi-pacing", "50us"], arguments].concat();
    if matches!(way, Way::Limit) {
        arguments.extend(["--duration", "300ms"]);
    }
    let mut capture = Capture::start(testbed, &arguments);
    let during = state(host);
    assert!(during.iter().any(|line| line.contains("gro_flush_timeout") && line.contains("50000")), "{during:?}");
    assert_eq!(notes(host.interface()).len(), 1);
    let keeper = keeper_of(capture.id()).expect("a keeper");
    match way {
        Way::Limit => {}
        Way::Told(signal) | Way::Killed(signal) => capture.signal(signal),
        Way::BothKilled => {
            kill(keeper, Signal::SIGKILL).unwrap();
            capture.signal(Signal::SIGKILL);
        }
    }
    let ended = capture.end();
    match way {
        // When the program has ended, all is as it was.
        Way::Limit | Way::Told(_) => assert_eq!(ended.code(), 0, "{}", ended.stderr),
        Way::Killed(_) => {
            let until = Instant::now() + Duration::from_secs(20);
            while state(host) != before && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Way::BothKilled => {
            assert_ne!(state(host), before, "what only the next start can put back");
            assert_eq!(Capture::start(testbed, &["--backend", "packet", "--duration", "10ms"]).end().code(), 0);
        }
    }
    let after = state(host);
    let changed: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
    assert_eq!(after, before, "{way:?} {arguments:?}: {changed:?}; {}", ended.stderr);
}

#[test]
fn net_every_way_out_leaves_the_device_as_it_was() {
    let testbed = testbed("net_every_way_out_leaves_the_device_as_it_was", TestbedConfig::default());
    let name = testbed.receiver().interface();
    for (file, value) in [("napi_defer_hard_irqs", "1"), ("gro_flush_timeout", "12345")] {
        let path = format!("/sys/class/net/{name}/{file}");
        testbed.receiver().run(|| fs::write(path, value)).unwrap().unwrap();
    }
    let kinds: [&[&str]; 4] = [&[], &["--user", "nobody"], &["--no-sandbox"], &["--no-sandbox", "--user", "nobody"]];
    for kind in kinds {
        ends(&testbed, kind, Way::Told(Signal::SIGTERM));
        ends(&testbed, kind, Way::Killed(Signal::SIGKILL));
    }
    for way in [
        Way::Limit,
        Way::Told(Signal::SIGINT),
        Way::Told(Signal::SIGHUP),
        Way::Killed(Signal::SIGQUIT),
        Way::Killed(Signal::SIGABRT),
        Way::BothKilled,
    ] {
        ends(&testbed, &["--user", "nobody"], way);
    }
}

/// Also by a process that may not write to the device any more.
#[test]
fn net_the_pause_of_napi_is_lifted_while_traffic_is_thin() {
    let testbed = testbed("net_the_pause_of_napi_is_lifted_while_traffic_is_thin", TestbedConfig::default());
    let host = testbed.receiver();
    let before = state(host);
    for arguments in [&["--user", "nobody"][..], &["--no-sandbox"]] {
        // The ring's size, and so the pause, by a plan.
        let mut command = host.command(RINGTAP);
        command.args(["capture", "-i", host.interface(), "--json", "--backend", "xdp", "--period", "500us"]);
        let mut capture = Capture::of(host, {
            command.args(["--threshold", "10k"]).args(arguments);
            command
        });
        capture.wait_for("capturing from");
        let deferred = || {
            let path = format!("/sys/class/net/{}/napi_defer_hard_irqs", host.interface());
            host.run(|| fs::read_to_string(path)).unwrap().unwrap().trim().to_owned()
        };
        let awaited = |wanted: &str| {
            let until = Instant::now() + Duration::from_secs(20);
            while deferred() != wanted {
                assert!(Instant::now() < until, "{arguments:?}: {} instead of {wanted}", deferred());
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        awaited("0");
        send_numbered(&testbed, 200e3, 100_000);
        assert_eq!(deferred(), "2", "{arguments:?}");
        awaited("0");
        capture.signal(Signal::SIGTERM);
        assert_eq!(capture.end().code(), 0);
        assert_eq!(state(host), before);
    }
}

/// Who sets the deferral of interrupts beside us has it so; that the pause follows the traffic no longer is said, once.
#[test]
fn net_a_pause_that_somebody_else_sets_is_told_once_and_left() {
    let testbed = testbed("net_a_pause_that_somebody_else_sets", TestbedConfig::default());
    let host = testbed.receiver();
    let mut command = host.command(RINGTAP);
    command.args(["capture", "-i", host.interface(), "--backend", "xdp", "--period", "500us", "--threshold", "10k"]);
    let capture = Capture::of(host, command);
    capture.wait_for("capturing from");
    let path = format!("/sys/class/net/{}/napi_defer_hard_irqs", host.interface());
    let value = || host.run(|| fs::read_to_string(&path)).unwrap().unwrap().trim().to_owned();
    let until = Instant::now() + Duration::from_secs(20);
    while value() != "0" {
        assert!(Instant::now() < until, "the pause is not lifted");
        std::thread::sleep(Duration::from_millis(10));
    }
    host.run(|| fs::write(&path, "7")).unwrap().unwrap();
    // Thick traffic, twice: each time the pause would be made.
    for _ in 0..2 {
        send_numbered(&testbed, 200e3, 100_000);
    }
    let told = "napi_defer_hard_irqs follows the traffic no longer (somebody else set it to 7)";
    capture.wait_for(told);
    let ended = capture.interrupt();
    assert_eq!((ended.code(), ended.stderr.matches(told).count()), (0, 1), "{}", ended.stderr);
    assert_eq!(value(), "7");
}

#[test]
fn net_an_error_at_the_start_leaves_the_device_as_it_was() {
    let testbed = testbed("net_an_error_at_the_start_leaves_the_device_as_it_was", TestbedConfig::default());
    let host = testbed.receiver();
    let before = state(host);
    let (_folder, file) = folder();
    let nowhere = file.join("no folder");
    let wrong: [&[&str]; 3] =
        [&["-w", nowhere.to_str().unwrap()], &["--xdp", "native", "--queues", "7"], &["port what"]];
    for wrong in wrong {
        let mut command = host.command(RINGTAP);
        command.args(["capture", "-i", host.interface(), "--backend", "xdp"]).args(NUMBERS).args(wrong);
        let ended = Capture::of(host, command).end();
        assert_ne!(ended.code(), 0, "{wrong:?}: {}", ended.stderr);
        assert_eq!(state(host), before, "{wrong:?}");
    }
}

#[test]
fn net_two_captures_hand_the_device_over() {
    let testbed = testbed("net_two_captures_hand_the_device_over", TestbedConfig::default());
    let host = testbed.receiver();
    let before = state(host);
    // The second starts while the first ends: whatever it finds, the first values come back.
    for round in 0..3 {
        let first = Capture::start(&testbed, &["--backend", "xdp", "--napi-pacing", "50us", "--user", "nobody"]);
        let interrupted = std::thread::spawn(move || first.interrupt());
        let second = loop {
            let second = Capture::begin(host, &["--backend", "xdp", "--napi-pacing", "70us", "--duration", "200ms"]);
            let ended = second.end();
            if ended.code() == 0 {
                break ended;
            }
            assert!(ended.stderr.contains("ringtap_steer"), "{}", ended.stderr);
        };
        assert_eq!(interrupted.join().unwrap().code(), 0);
        assert_eq!(state(host), before, "round {round}: {}", second.stderr);
    }
}

/// Of two devices one ends early, and its settings go back then, not with the program.
#[test]
fn net_a_device_that_ends_before_the_others_is_as_it_was_at_once() {
    let testbed = testbed("net_a_device_that_ends_before_the_others", TestbedConfig::default());
    let host = testbed.receiver();
    // Nothing uses either.
    ip(host, &format!("address flush dev {}", host.interface()));
    for kind in [&[][..], &["--user", "nobody"]] {
        let before = state(host);
        let (near, far) = ("second0", "second1");
        ip(host, &format!("link add {near} type veth peer name {far}"));
        ip(host, &format!("link set {near} addrgenmode none"));
        ip(host, &format!("link set {near} up"));
        ip(host, &format!("link set {far} up"));
        let arguments = [&["-i", near, "--backend", "xdp", "--napi-pacing", "50us"], kind].concat();
        let capture = Capture::start(&testbed, &arguments);
        assert_ne!(state(host), before);
        // The host begins to use the first one.
        ip(host, &format!("address add 192.0.2.77/32 dev {}", host.interface()));
        capture.wait_for(&format!("going on with {near}"));
        ip(host, &format!("address del 192.0.2.77/32 dev {}", host.interface()));
        let until = Instant::now() + Duration::from_secs(20);
        while state(host) != before && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(state(host), before, "{kind:?}");
        assert_eq!(notes(near).len(), 1, "the other one is captured on");
        assert_eq!(capture.interrupt().code(), 0);
        assert_eq!(notes(near), Vec::<String>::new());
        ip(host, &format!("link del {near}"));
    }
}

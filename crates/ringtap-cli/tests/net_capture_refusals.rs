//! What a capture refuses on a real interface: one line that names the object, the cause and the way out; exit code 1 or
//! 2; nothing left behind.

mod capture_support;

use capture_support::{
    Capture, NUMBERS, RINGTAP, assert_clean, folder, ip, ringtap, send_frames, send_numbered, testbed,
};
use ringtap_testbed::{Testbed, TestbedConfig};

/// Starts a capture that must end by itself.
fn refused(testbed: &Testbed, arguments: &[&str]) -> capture_support::Ended {
    Capture::begin(testbed.receiver(), arguments).end()
}

#[test]
fn net_capture_refuses_what_the_interface_cannot_give() {
    const TEST: &str = "net_capture_refuses_what_the_interface_cannot_give";
    let testbed = testbed(TEST, TestbedConfig::default());
    let host = testbed.receiver();
    let name = host.interface();
    let usage = |arguments: &[&str], parts: &[&str]| refused(&testbed, arguments).assert_refused(2, parts);
    usage(&["--backend", "xdp", "--queues", "7"], &[name, "no queue", "queue 0 alone"]);
    usage(&["--backend", "xdp", "--queues", "0,3"], &[name, "no queue 3"]);
    usage(&["--backend", "xdp", "--ring", "1000"], &[name, "1000 ring slots", "power of two"]);
    usage(&["--backend", "packet", "--ring", "12"], &[name, "12 ring slots", "64"]);
    usage(&["--backend", "xdp", "--frame-size", "12"], &[name, "frame size 12", "2048"]);
    usage(&["--alpha1", "0.9", "--alpha2", "0.5"], &[name, "alpha1", "below alpha2"]);
    usage(&["-f", "port http and and"], &["port http and and", "syntax error", "pcap-filter"]);
    usage(&["--user", "no-such-user"], &["no-such-user", "no such user"]);
    usage(&["-w", "/tmp/x.pcapng", "--rotate-keep", "3"], &["x.pcapng", "without rotation"]);
    usage(&["-w", "/tmp/x.pcapng", "--spool", "10"], &["x.pcapng", "64 KiB"]);

    let failed = |arguments: &[&str], parts: &[&str]| refused(&testbed, arguments).assert_refused(1, parts);
    failed(&["-w", "/no/such/folder/x.pcapng"], &["/no/such/folder/x.pcapng", "ENOENT", "directory first"]);
    failed(&["-w", "/"], &["create /", "is a directory"]);
    failed(
        &["--backend", "packet", "--ring", "1048576", "--frame-size", "64KiB"],
        &[name, "65536 MiB asked for", "smaller --ring"],
    );
    failed(
        &["--backend", "xdp", "--ring", "1048576", "--frame-size", "4KiB", "--queues", "1", "--huge-pages"],
        &[name],
    );

    ip(host, &format!("link set {name} down"));
    failed(&[], &[name, "is down", &format!("ip link set dev {name} up")]);
    ip(host, &format!("link set {name} up"));
    assert_clean(&testbed);
}

#[test]
fn net_capture_without_real_time_rights_says_so_once_and_captures() {
    const TEST: &str = "net_capture_without_real_time_rights_says_so_once_and_captures";
    const COUNT: u64 = 1000;
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    let host = testbed.receiver();
    let mut command = host.command("setpriv");
    command.args(["--bounding-set=-sys_nice,-ipc_lock", "prlimit", "--rtprio=0", "--memlock=65536", RINGTAP]);
    command.args(["capture", "-i", host.interface(), "--json", "--backend", "packet", "--direction", "in"]);
    command.args(NUMBERS);
    let capture = Capture::of(host, command);
    capture.wait_for("capturing from");
    send_numbered(&testbed, 20e3, COUNT);
    let ended = capture.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let summary = ended.summary();
    assert_eq!((&summary["packets"], &summary["ledger"]["unaccounted"]), (&COUNT.into(), &0.into()), "{summary}");
    for (step, way_out) in [("no real-time priority", "CAP_SYS_NICE"), ("memory is not locked", "CAP_IPC_LOCK")] {
        let told: Vec<&str> = ended.stderr.lines().filter(|line| line.contains(step)).collect();
        assert!(told.len() == 1 && told[0].contains(way_out), "{step}: {}", ended.stderr);
    }
    assert_clean(&testbed);
}

#[test]
fn net_capture_refuses_a_file_it_may_not_write_and_leaves_what_was_there() {
    const TEST: &str = "net_capture_refuses_a_file_it_may_not_write_and_leaves_what_was_there";
    let testbed = testbed(TEST, TestbedConfig::default());
    let (_folder, file) = folder();
    std::fs::write(&file, "precious").unwrap();
    let path = file.to_str().unwrap();
    // nobody may not write there, as tempdir's folders are root's alone.
    refused(&testbed, &["-w", path, "--user", "nobody"])
        .assert_refused(1, &["out.pcapng", "EACCES", "write where you may"]);
    // What can't be opened does not cost the old file either.
    refused(&testbed, &["-w", path, "--backend", "xdp", "--queues", "9"]).assert_refused(2, &["no queue"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    assert_clean(&testbed);
}

/// Packed frames lie in a file in memory, and a process that writes files beyond its limit is ended (setrlimit(2)).
#[test]
fn net_capture_with_a_limit_of_file_size_has_whole_frames() {
    const TEST: &str = "net_capture_with_a_limit_of_file_size_has_whole_frames";
    const COUNT: u64 = 2_000;
    let testbed = testbed(TEST, TestbedConfig::default());
    let host = testbed.receiver();
    for (limit, frame_bytes) in [("unlimited", 448), ("65536", 2048)] {
        let mut command = host.command("prlimit");
        command.args([format!("--fsize={limit}").as_str(), RINGTAP, "capture", "-i", host.interface(), "--json"]);
        command.args(["--backend", "xdp"]).args(NUMBERS);
        let capture = Capture::of(host, command);
        capture.wait_for("capturing from");
        send_numbered(&testbed, 20e3, COUNT);
        let summary = capture.interrupt().summary();
        assert_eq!((&summary["packets"], &summary["ledger"]["unaccounted"]), (&COUNT.into(), &0.into()), "{summary}");
        let ring = summary["sources"][0]["memory_bytes"].as_u64().expect("memory_bytes");
        assert!((2048 * frame_bytes..2048 * (frame_bytes + 128)).contains(&ring), "{limit}: {summary}");
    }
    assert_clean(&testbed);
}

#[test]
fn net_capture_without_privileges_says_which_are_missing() {
    const TEST: &str = "net_capture_without_privileges_says_which_are_missing";
    let testbed = testbed(TEST, TestbedConfig::default());
    // The binary may lie where only root can enter: a copy is put where everyone can.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let copy = folder.path().join("ringtap");
    std::fs::copy(RINGTAP, &copy).unwrap();
    let copy = copy.to_str().unwrap();
    let name = testbed.receiver().interface();
    for (backend, parts) in
        [("packet", ["EPERM", "CAP_NET_RAW"]), ("socket", ["EPERM", "CAP_NET_RAW"]), ("xdp", ["", "CAP_BPF"])]
    {
        let mut command = testbed.receiver().command("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", "-all", copy]);
        command.args(["capture", "-i", name, "--backend", backend]).args(NUMBERS);
        let ended = Capture::of(testbed.receiver(), command).end();
        ended.assert_refused(1, &[name, parts[0], parts[1]]);
    }
    assert_clean(&testbed);
}

#[test]
fn net_capture_names_who_has_the_interface_already() {
    const TEST: &str = "net_capture_names_who_has_the_interface_already";
    let testbed = testbed(TEST, TestbedConfig::default());
    let name = testbed.receiver().interface().to_owned();
    let first = Capture::start(&testbed, &["--backend", "xdp"]);
    let second = refused(&testbed, &["--backend", "xdp"]);
    second.assert_refused(1, &[&name, "ringtap_steer", "held by ringtap (pid", "--backend packet"]);
    // A packet ring would see nothing of what the first one takes.
    refused(&testbed, &["--backend", "auto", "--take"])
        .assert_refused(1, &[&name, "ringtap_steer", "held by ringtap (pid"]);
    let blind = Capture::start(&testbed, &["--backend", "packet", "--duration", "1s"]);
    send_numbered(&testbed, 50e3, 1000);
    let blind = blind.end();
    blind.assert_refused(1, &[&name, "nothing was seen", "1000 packets came", "ringtap_steer", "held by ringtap (pid"]);
    assert!(blind.stderr.contains("is not seen here"), "said at the start, too: {}", blind.stderr);
    assert_eq!(first.interrupt().summary()["packets"], 1000, "the first one noticed nothing");
    assert_clean(&testbed);
}

#[test]
fn net_capture_takes_large_frames_in_pieces_or_not_at_all() {
    const TEST: &str = "net_capture_takes_large_frames_in_pieces_or_not_at_all";
    let testbed = testbed(TEST, TestbedConfig { mtu: 9000, ..TestbedConfig::default() });
    let name = testbed.receiver().interface();
    let ended = refused(&testbed, &["--backend", "xdp", "--frame-size", "4096"]);
    ended.assert_refused(1, &[name, "MTU 9000 does not fit", "--backend packet"]);
    let capture = Capture::start(&testbed, &["--backend", "xdp"]);
    send_frames(&testbed, &vec![vec![0xff; 9014]; 100]);
    let summary = capture.interrupt().summary();
    assert_eq!(
        (&summary["backend"], &summary["packets"], &summary["bytes"]),
        (&"xdp".into(), &100.into(), &901_400.into())
    );
}

#[test]
fn net_capture_takes_from_the_host_only_what_it_was_told_to() {
    const TEST: &str = "net_capture_takes_from_the_host_only_what_it_was_told_to";
    let testbed = testbed(TEST, TestbedConfig::default());
    // The testbed's receiver has addresses from the ranges for benchmarks, which count as the host's own.
    let backend = |arguments: &[&str]| {
        let ended = Capture::start(&testbed, &[&["--duration", "50ms"], arguments].concat()).end();
        (ended.summary()["backend"].as_str().unwrap().to_owned(), ended.stderr)
    };
    assert_eq!(backend(&[]).0, "packet");
    assert_eq!(backend(&["udp", "port", "162"]).0, "packet", "not without --take");
    assert_eq!(backend(&["--take", "udp", "port", "162"]).0, "xdp");
    let (inexact, told) = backend(&["--take", "udp", "or", "tcp"]);
    assert_eq!(inexact, "packet");
    assert!(told.contains("can't be decided in the driver"), "{told}");
}

#[test]
fn net_doctor_knows_who_is_there() {
    const TEST: &str = "net_doctor_knows_who_is_there";
    let testbed = testbed(TEST, TestbedConfig::default());
    let host = testbed.receiver();
    let doctor = || {
        let output =
            host.run(|| std::process::Command::new(RINGTAP).args(["doctor", "--json", host.interface()]).output());
        let output = output.unwrap().unwrap();
        assert!(output.status.success());
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["findings"].as_array().unwrap().clone()
    };
    let of = |findings: &[serde_json::Value], name: &str| {
        findings.iter().find(|finding| finding["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    let before = doctor();
    assert_eq!(
        (&of(&before, "AF_XDP")["state"], &of(&before, "XDP program")["state"]),
        (&"good".into(), &"good".into())
    );
    assert_eq!(of(&before, "driver")["value"], "veth");
    let capture = Capture::start(&testbed, &["--backend", "xdp"]);
    let during = doctor();
    let program = of(&during, "XDP program");
    assert_eq!(program["state"], "limit");
    assert!(program["value"].as_str().unwrap().contains("ringtap_steer"), "{program}");
    assert!(of(&during, "AF_XDP")["consequence"].as_str().unwrap().contains("EBUSY"), "{during:?}");
    assert_eq!(capture.interrupt().code(), 0);
    let absent = ringtap(&["doctor", "no-such-if0"]);
    absent.assert_refused(1, &["no-such-if0", "no such interface", "choose one of"]);
}

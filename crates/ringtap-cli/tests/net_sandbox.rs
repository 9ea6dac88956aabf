//! What capture, sensor and station can still do once they run, and what they can't.

mod capture_support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use capture_support::frames::{ipv4, udp};
use capture_support::{Capture, NUMBERS, RINGTAP, SPOOL, folder, send_frames, send_numbered, testbed};
use nix::sys::signal::Signal;
use ringtap_testbed::TestbedConfig;

const IPC_LOCK: u64 = 1 << 14;
const BPF: u64 = 1 << 39;

/// Waits until a condition holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A line of all threads' proc_pid_status(5): its different values.
fn of_threads(pid: u32, name: &str) -> BTreeSet<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let statuses = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    statuses.map(|text| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()).collect()
}

fn one(pid: u32, name: &str) -> String {
    let values = of_threads(pid, name);
    assert_eq!(values.len(), 1, "{name} {values:?}");
    values.into_iter().next().unwrap()
}

/// All threads are confined and have at most these capabilities.
fn assert_confined(pid: u32, most: u64, what: &str) {
    // The main thread goes last, and the message that says it is ready may come before.
    eventually(what, || of_threads(pid, "Seccomp:") == BTreeSet::from(["2".to_owned()]));
    for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:", "CapBnd:"] {
        let has = u64::from_str_radix(&one(pid, set), 16).unwrap();
        let may = if matches!(set, "CapEff:" | "CapPrm:") { most } else { 0 };
        assert_eq!(has & !may, 0, "{what}: {set} {has:x}");
    }
    assert_eq!((one(pid, "Groups:"), one(pid, "NoNewPrivs:")), (String::new(), "1".to_owned()), "{what}");
}

#[test]
fn net_what_runs_keeps_only_what_it_still_needs() {
    let testbed = testbed("net_what_runs_keeps_only_what_it_still_needs", TestbedConfig::default());
    let host = testbed.receiver();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("my.rules"), "alert udp any any -> any any (msg:\"x\"; content:\"EVIL\"; sid:1;)\n").unwrap();
    let (out, rules, eve) = (path("out.pcapng"), path("my.rules"), path("eve.json"));
    let mut programs = Vec::new();
    for backend in ["xdp", "packet"] {
        let capture =
            [&["capture", "-i", host.interface(), "--backend", backend, "-w", &out], &NUMBERS[..], &SPOOL[..]].concat();
        programs.push((capture, "capturing from", IPC_LOCK | BPF));
        let sensor = ["sensor", "-i", host.interface(), "--backend", backend, "-S", &rules, "--eve", &eve];
        programs.push((sensor.to_vec(), "watching", IPC_LOCK | BPF));
    }
    let (ring, sockets) = (path("ring"), path("sockets"));
    let trap = ["trap", "--listen", "127.0.0.1:10162", "--stats", "100ms", "--store"];
    programs.push(([&trap[..], &[&ring, "-i", host.interface(), "--backend", "xdp"]].concat(), "", IPC_LOCK | BPF));
    programs.push(([&trap[..], &[&sockets]].concat(), "", 0));
    for (arguments, word, caps) in programs {
        for user in [&[][..], &["--user", "nobody"]] {
            let mut command = host.command(RINGTAP);
            command.args(&arguments).args(user);
            let program = Capture::of(host, command);
            let what = format!("{arguments:?} {user:?}");
            if word.is_empty() {
                eventually(&what, || of_threads(program.id(), "Seccomp:").contains("2"));
            } else {
                program.wait_for(word);
            }
            assert_confined(program.id(), caps, &what);
            let ended = program.interrupt();
            assert_eq!(ended.code(), 0, "{what}: {}", ended.stderr);
            assert!(!ended.stderr.contains("restricted"), "{what}: {}", ended.stderr);
            // The next one is another user.
            for file in fs::read_dir(folder.path()).unwrap().flatten().map(|file| file.path()) {
                if file.is_dir() {
                    fs::remove_dir_all(file).unwrap();
                } else if file != Path::new(&rules) {
                    fs::remove_file(file).unwrap();
                }
            }
        }
    }
    let capture = Capture::start(&testbed, &["--backend", "packet", "--no-sandbox"]);
    assert_eq!(one(capture.id(), "Seccomp:"), "0");
    assert_eq!(capture.interrupt().code(), 0);
}

#[test]
fn net_nothing_is_written_outside_the_folders_that_were_named() {
    let testbed = testbed("net_nothing_is_written_outside_the_folders_that_were_named", TestbedConfig::default());
    let (kept, _) = folder();
    let outside = tempfile::tempdir().unwrap();
    for (sandbox, reaches) in [(&[][..], false), (&["--no-sandbox"], true)] {
        let inside = kept.path().join("inside");
        fs::create_dir(&inside).unwrap();
        let file = inside.join("out.pcapng");
        let rotate = ["--backend", "packet", "-w", file.to_str().unwrap(), "--rotate-size", "20KiB"];
        let capture = Capture::start(&testbed, &[&rotate, sandbox].concat());
        testbed.enable_receiver_napi().unwrap();
        send_numbered(&testbed, 50e3, 1000);
        eventually("a second file", || fs::read_dir(&inside).unwrap().count() > 1);
        // From now on the name leads elsewhere: what an intruder would open.
        fs::rename(&inside, kept.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(outside.path(), &inside).unwrap();
        send_numbered(&testbed, 50e3, 1000);
        let ended = capture.interrupt();
        assert_eq!(ended.code(), i32::from(!reaches), "{}", ended.stderr);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count() > 0, reaches, "{sandbox:?}");
        fs::remove_file(&inside).unwrap();
        fs::remove_dir_all(kept.path().join("moved")).unwrap();
    }
}

#[test]
fn net_a_sensor_reads_its_rules_again_and_begins_its_file_anew_within_the_sandbox() {
    let testbed = testbed("net_a_sensor_reads_its_rules_again", TestbedConfig::default());
    let host = testbed.receiver();
    for user in [&[][..], &["--user", "nobody"]] {
        let (rules, output) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [&rules, &output] {
            fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        }
        let (file, eve) = (rules.path().join("my.rules"), output.path().join("eve.json"));
        // As editors do: another file takes its name.
        let write = |content: &str| {
            let new = rules.path().join("new");
            fs::write(&new, format!("alert udp any any -> any any (msg:\"x\"; content:\"{content}\"; sid:1;)\n"))
                .unwrap();
            fs::rename(new, &file).unwrap();
        };
        write("EVIL");
        let mut command = host.command(RINGTAP);
        command.args(["sensor", "-i", host.interface(), "--backend", "xdp", "--json"]);
        command.args(["-S", file.to_str().unwrap(), "--eve", eve.to_str().unwrap()]).args(user);
        let mut sensor = Capture::of(host, command);
        sensor.wait_for("watching");
        write("WORSE");
        fs::rename(&eve, output.path().join("old.json")).unwrap();
        sensor.signal(Signal::SIGHUP);
        sensor.wait_for("1 rules loaded");
        eventually("a new file", || eve.exists());
        let datagram = |text: &str| ipv4(17, [198, 51, 100, 7], [203, 0, 113, 9], 0, &udp(5000, 9999, text.as_bytes()));
        let alerts = |path: &Path| fs::read_to_string(path).unwrap_or_default().matches("\"alert\"").count();
        eventually("an alarm of the new rules", || {
            send_frames(&testbed, &[datagram("..EVIL.."), datagram("..WORSE..")]);
            alerts(&eve) > 0
        });
        let ended = sensor.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
    }
}

#[test]
fn net_an_ordinary_user_captures_with_file_capabilities() {
    const TEST: &str = "net_an_ordinary_user_captures_with_file_capabilities";
    let testbed = testbed(TEST, TestbedConfig::default());
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let copy = folder.path().join("ringtap");
    fs::copy(RINGTAP, &copy).unwrap();
    let copy = copy.to_str().unwrap();
    // As in docs/privileges.md.
    let caps = "cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock,cap_sys_nice,cap_perfmon=ep";
    capture_support::tool(TEST, "setcap", &[caps, copy]);
    for backend in ["xdp", "packet"] {
        let file = folder.path().join(format!("{backend}.pcapng"));
        let mut command = testbed.receiver().command("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", copy, "capture", "--json"]);
        command.args(["-i", testbed.receiver().interface(), "--backend", backend, "-w", file.to_str().unwrap()]);
        command.args(["--rotate-size", "20KiB"]).args(NUMBERS).args(SPOOL);
        let capture = Capture::of(testbed.receiver(), command);
        capture.wait_for("capturing from");
        testbed.enable_receiver_napi().unwrap();
        eventually("confined", || of_threads(capture.id(), "Seccomp:") == BTreeSet::from(["2".to_owned()]));
        for set in ["CapEff:", "CapPrm:"] {
            assert_eq!(u64::from_str_radix(&one(capture.id(), set), 16).unwrap() & !(IPC_LOCK | BPF), 0, "{set}");
        }
        send_numbered(&testbed, 50e3, 1000);
        let ended = capture.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        let ledger = &summary["ledger"];
        assert_eq!((&ledger["delivered"], &ledger["unaccounted"]), (&1000.into(), &0.into()), "{summary}");
    }
}

#[test]
fn net_root_without_the_right_to_change_groups_keeps_them_and_says_so() {
    let testbed = testbed("net_root_without_the_right_to_change_groups", TestbedConfig::default());
    let host = testbed.receiver();
    let mut command = host.command("setpriv");
    command.args(["--bounding-set", "-setgid", "--inh-caps", "-setgid", RINGTAP]);
    command.args(["capture", "-i", host.interface(), "--backend", "packet"]);
    let capture = Capture::of(host, command);
    capture.wait_for("capturing from");
    let ended = capture.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("supplementary groups stay"), "{}", ended.stderr);
}
